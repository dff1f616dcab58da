//! Matrix Market files: the exchange format that every sparse package reads.
//!
//! Format: <https://math.nist.gov/MatrixMarket/formats.html>. Coordinate matrices (`real` or
//! `integer`, `general` or `symmetric`) are read; coordinate `real` matrices and array vectors are
//! written, with 17 significant digits, so that reading returns the same numbers.

use std::io::{BufRead, Write};

use super::Csr;
use crate::error::{Error, Result};

/// Writes a matrix, as `symmetric` (lower triangle) if it is, else as `general`, with a line of comment.
///
/// # Errors
/// The errors of the writer.
pub fn write_matrix(out: &mut impl Write, matrix: &Csr, comment: &str) -> Result<()> {
    let symmetric = matrix.is_symmetric();
    let stored = |row: usize, column: usize| !symmetric || column <= row;
    let entries = (0..matrix.rows()).map(|r| matrix.row(r).filter(|&(c, _)| stored(r, c)).count()).sum::<usize>();
    writeln!(out, "%%MatrixMarket matrix coordinate real {}", if symmetric { "symmetric" } else { "general" })?;
    writeln!(out, "% {comment}")?;
    writeln!(out, "{} {} {entries}", matrix.rows(), matrix.columns())?;
    for row in 0..matrix.rows() {
        for (column, value) in matrix.row(row).filter(|&(c, _)| stored(row, c)) {
            writeln!(out, "{} {} {value:.16e}", row + 1, column + 1)?;
        }
    }
    Ok(())
}

/// Writes a vector as a one-column array, with a line of comment.
///
/// # Errors
/// The errors of the writer.
pub fn write_vector(out: &mut impl Write, vector: &[f64], comment: &str) -> Result<()> {
    writeln!(out, "%%MatrixMarket matrix array real general\n% {comment}\n{} 1", vector.len())?;
    for value in vector {
        writeln!(out, "{value:.16e}")?;
    }
    Ok(())
}

fn parse_error(line: usize, message: impl Into<String>) -> Error {
    Error::Parse { line, message: message.into() }
}

/// Reads a square or rectangular coordinate matrix.
///
/// # Errors
/// [`Error::Parse`] with the line and its fault: another format, an index out of range, a value
/// that is not a finite number, too few or too many entries.
pub fn read_matrix(input: impl BufRead) -> Result<Csr> {
    let mut lines = input.lines().enumerate().map(|(n, line)| line.map(|l| (n + 1, l)));
    let Some((_, banner)) = lines.next().transpose()? else {
        return Err(parse_error(1, "an empty file; a Matrix Market file begins with %%MatrixMarket"));
    };
    let words: Vec<String> = banner.split_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let symmetric = match words.as_slice() {
        ["%%matrixmarket", "matrix", "coordinate", "real" | "integer", "general"] => false,
        ["%%matrixmarket", "matrix", "coordinate", "real" | "integer", "symmetric"] => true,
        _ => {
            return Err(parse_error(
                1,
                format!("{banner:?}; only \"%%MatrixMarket matrix coordinate real|integer general|symmetric\" is read"),
            ));
        }
    };
    let mut size = None;
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut seen = 0;
    for line in lines {
        let (number, line) = line?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('%') {
            continue;
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [first, second, third] = fields.as_slice() else {
            return Err(parse_error(number, format!("{} fields; 3 are expected", fields.len())));
        };
        let index = |text: &str, limit: usize, what: &str| match text.parse::<usize>() {
            Ok(n) if (1..=limit).contains(&n) => Ok(n),
            _ => Err(parse_error(number, format!("{what} {text:?} is not a whole number from 1 to {limit}"))),
        };
        let Some((n_rows, n_columns, entries)) = size else {
            let n_rows = index(first, u32::MAX as usize, "number of rows")?;
            let n_columns = index(second, u32::MAX as usize, "number of columns")?;
            let entries = third
                .parse::<usize>()
                .map_err(|_| parse_error(number, format!("number of entries {third:?} is not a whole number")))?;
            size = Some((n_rows, n_columns, entries));
            continue;
        };
        let (row, column) = (index(first, n_rows, "row")? - 1, index(second, n_columns, "column")? - 1);
        let value = third
            .parse::<f64>()
            .ok()
            .filter(|v| v.is_finite())
            .ok_or_else(|| parse_error(number, format!("value {third:?} is not a finite number")))?;
        if symmetric && column > row {
            return Err(parse_error(number, "an entry above the diagonal; a symmetric file holds the lower triangle"));
        }
        seen += 1;
        if seen > entries {
            return Err(parse_error(number, format!("more than the {entries} entries announced")));
        }
        // Memory grows with the entries read, not with the size in a header that may be damaged.
        let last = row.max(if symmetric { column } else { 0 });
        if rows.len() <= last {
            rows.resize_with(last + 1, Vec::new);
        }
        rows[row].push((column, value));
        if symmetric && row != column {
            rows[column].push((row, value));
        }
    }
    let Some((n_rows, n_columns, entries)) = size else {
        return Err(parse_error(1, "no size line"));
    };
    if seen < entries {
        return Err(parse_error(1, format!("{seen} of the {entries} entries announced; the file is truncated")));
    }
    let mut row_starts = vec![0];
    let (mut indices, mut values) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    for row in 0..n_rows {
        let mut entries = rows.get_mut(row).map(std::mem::take).unwrap_or_default();
        entries.sort_unstable_by_key(|&(column, _)| column);
        for (column, value) in entries {
            indices.push(column as u32);
            values.push(value);
        }
        row_starts.push(values.len());
    }
    Csr::new(n_columns, row_starts, indices, values)
}
