//! Aligned tables for a terminal.

use std::fmt;

/// A table. The first column holds names and is left-aligned; the others hold numbers and are right-aligned, unless changed.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    words: Vec<usize>,
}

impl Table {
    /// Makes a table with these column headings.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![heads.into_iter().map(Into::into).collect()], words: vec![0] }
    }

    /// Left-aligns another column, counted from 0.
    #[must_use]
    pub fn with_words_in(mut self, column: usize) -> Self {
        self.words.push(column);
        self
    }

    /// Appends a row; it may be shorter than the headings.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if self.words.contains(&column) { ("", &*gap) } else { (&*gap, "") };
                line.push_str(&format!("  {before}{cell}{after}"));
            }
            f.write_str(line.trim_end())?;
            if number == 0 {
                write!(f, "\n  {}", "-".repeat(widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["step", "ms"]);
        table.row(["smooth", "1.5"]);
        table.row(["‖r‖", "10.25"]);
        table.row(["x"]);
        assert_eq!(table.to_string(), "  step       ms\n  -------------\n  smooth    1.5\n  ‖r‖     10.25\n  x");
    }
}
