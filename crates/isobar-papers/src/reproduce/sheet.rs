//! A table of a paper with printed numbers and ours side by side, for people and for the report.

use std::fmt;

use isobar::Outcome;
use isobar_cli::table::Table;
use serde::{Serialize, Serializer};

/// A table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sheet {
    /// The paper and its table, as in "B.3".
    pub(super) id: &'static str,
    /// The title of the table.
    pub(super) title: String,
    /// Heads of the columns, that of the row names first; "printed" and "reference" belong to the one before.
    #[serde(serialize_with = "unique_heads")]
    pub(super) columns: Vec<&'static str>,
    /// The rows.
    pub(super) rows: Vec<Row>,
    /// Remarks for the comparison.
    pub(super) notes: Vec<String>,
}

/// Makes column names for a report that do not depend on their neighbours.
fn unique_heads<S: Serializer>(heads: &[&'static str], serializer: S) -> Result<S::Ok, S::Error> {
    let mut subject = "";
    serializer.collect_seq(heads.iter().map(|&head| {
        if head.starts_with("printed") || head == "reference" {
            return format!("{subject}: {head}");
        }
        subject = head;
        head.to_owned()
    }))
}

/// A row of a table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// The name of the row.
    pub(super) name: String,
    /// One cell for each column after the first.
    pub(super) cells: Vec<Cell>,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// A number, and its number of decimals.
    Number(f64, usize),
    /// A number of any size, with three digits.
    Scientific(f64),
    /// Words.
    Text(String),
    /// The paper has no such number, or it does not apply here.
    Missing,
}

/// Makes a cell of a number that may be missing.
pub(super) fn number(value: impl Into<Option<f64>>, decimals: usize) -> Cell {
    value.into().map_or(Cell::Missing, |value| Cell::Number(value, decimals))
}

/// Makes a cell of a number of any size that may be missing.
pub(super) fn scientific(value: impl Into<Option<f64>>) -> Cell {
    value.into().map_or(Cell::Missing, Cell::Scientific)
}

/// Makes a cell of a count.
pub(super) fn count(value: usize) -> Cell {
    Cell::Number(value as f64, 0)
}

/// Makes a cell of words.
pub(super) fn text(words: impl Into<String>) -> Cell {
    Cell::Text(words.into())
}

/// Makes a cell of a solve's iterations, or of the reason why there is no such number.
pub(super) fn iterations(outcome: &Outcome) -> Cell {
    match outcome.converged() {
        true => count(outcome.iterations),
        false => Cell::Text(format!("{} ({})", outcome.iterations, outcome.stop)),
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(value, _) | Self::Scientific(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Missing => serializer.serialize_none(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value, decimals) if value.is_finite() => write!(f, "{value:.decimals$}"),
            Self::Scientific(value) if value.is_finite() => write!(f, "{value:.2e}"),
            Self::Text(text) => f.write_str(text),
            Self::Number(..) | Self::Scientific(..) | Self::Missing => f.write_str("–"),
        }
    }
}

impl Sheet {
    /// Makes an empty table; bars are between the heads of its columns.
    pub(super) fn new(id: &'static str, title: impl Into<String>, heads: &'static str) -> Self {
        let columns = heads.split('|').map(str::trim).collect();
        Self { id, title: title.into(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Appends a row.
    pub(super) fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { name: name.into(), cells: cells.into_iter().collect() });
    }

    /// Returns a result, or nothing where it is a failure, which becomes a remark.
    pub(super) fn noted<R>(&mut self, result: isobar_cli::failure::Result<R>) -> Option<R> {
        result.map_err(|failure| self.note(failure.to_string())).ok()
    }

    /// Appends a remark.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}\n", self.id, self.title)?;
        let mut table = Table::new(self.columns.iter().copied());
        for row in &self.rows {
            table.row(std::iter::once(row.name.clone()).chain(row.cells.iter().map(Cell::to_string)));
        }
        writeln!(f, "{table}")?;
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_numbers_in_the_report() {
        let mut sheet = Sheet::new("X.1", "nothing", "step | ours | printed");
        sheet.row("smooth", [number(1.25, 1), Cell::Missing]);
        sheet.note("a remark");
        assert_eq!(
            sheet.to_string(),
            "X.1  nothing\n\n  step    ours  printed\n  ---------------------\n  smooth   1.2        –\n  a remark\n"
        );
        let json = serde_json::to_value(&sheet).unwrap();
        assert_eq!(json["rows"][0]["cells"], serde_json::json!([1.25, null]));
        assert_eq!(json["columns"], serde_json::json!(["step", "ours", "ours: printed"]));
    }
}
