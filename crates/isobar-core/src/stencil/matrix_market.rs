//! Matrix Market files: the exchange format that every sparse package reads.
//!
//! Format: <https://math.nist.gov/MatrixMarket/formats.html>. Numbers have 17 significant digits, so that reading returns the same ones.

use std::io::Write;

use super::Csr;
use crate::error::Result;

/// Writes a matrix, as `symmetric` (lower triangle) if it is, else as `general`, with a line of comment.
///
/// # Errors
/// The errors of the writer.
pub fn write_matrix(out: &mut impl Write, matrix: &Csr, comment: &str) -> Result<()> {
    let symmetric = matrix.is_symmetric();
    let stored = |row: usize, column: usize| !symmetric || column <= row;
    let entries = entries_written(matrix);
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

/// Returns the number of entries that [`write_matrix`] writes.
pub fn entries_written(matrix: &Csr) -> usize {
    let symmetric = matrix.is_symmetric();
    let lower = |row: usize| matrix.row(row).filter(|&(column, _)| !symmetric || column <= row).count();
    (0..matrix.rows()).map(lower).sum()
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
