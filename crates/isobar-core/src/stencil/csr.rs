//! A matrix with every entry stored: compressed sparse rows.

use crate::error::{Error, Result};

/// A sparse matrix in compressed-row storage, columns ascending within a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    columns: usize,
    row_starts: Vec<usize>,
    column_indices: Vec<u32>,
    values: Vec<f64>,
}

impl Csr {
    /// Makes a matrix of the three arrays.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::Invalid`] if they do not describe a matrix: row starts that descend or do not end at the
    /// number of entries, columns out of range or out of order, values that are not finite.
    pub fn new(columns: usize, row_starts: Vec<usize>, column_indices: Vec<u32>, values: Vec<f64>) -> Result<Self> {
        if u32::try_from(columns).is_err() {
            return Err(Error::invalid("matrix", format!("{columns} columns; at most 2³² − 1 are supported")));
        }
        if column_indices.len() != values.len() {
            return Err(Error::shape("column indices", column_indices.len(), format!("{} (as values)", values.len())));
        }
        if row_starts.first() != Some(&0) || row_starts.last() != Some(&values.len()) {
            return Err(Error::invalid("row starts", "they must begin with 0 and end with the number of entries"));
        }
        for (row, ends) in row_starts.windows(2).enumerate() {
            let (start, end) = (ends[0], ends[1]);
            let Some(indices) = column_indices.get(start..end) else {
                return Err(Error::invalid("row starts", format!("row {row} spans entries {start} to {end}")));
            };
            if indices.windows(2).any(|w| w[0] >= w[1]) || indices.last().is_some_and(|&c| c as usize >= columns) {
                return Err(Error::invalid(
                    "column indices",
                    format!("those of row {row} are not ascending and below {columns}"),
                ));
            }
        }
        if let Some(n) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::invalid("values", format!("entry {n} is {}; every entry must be finite", values[n])));
        }
        Ok(Self { columns, row_starts, column_indices, values })
    }

    /// Makes a matrix row by row: `fill(row, entries)` appends that row's (column, value) pairs in
    /// any order; repeated columns are summed.
    ///
    /// # Errors
    /// See [`Csr::new`].
    pub fn from_rows(rows: usize, mut fill: impl FnMut(usize, &mut Vec<(usize, f64)>)) -> Result<Self> {
        let mut row_starts = Vec::with_capacity(rows + 1);
        row_starts.push(0);
        let (mut column_indices, mut values) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        for row in 0..rows {
            entries.clear();
            fill(row, &mut entries);
            entries.sort_unstable_by_key(|&(column, _)| column);
            let start = values.len();
            for &(column, value) in &entries {
                let column = u32::try_from(column).unwrap_or(u32::MAX);
                if values.len() > start && column_indices.last() == Some(&column) {
                    *values.last_mut().unwrap_or(&mut 0.0) += value;
                } else {
                    column_indices.push(column);
                    values.push(value);
                }
            }
            row_starts.push(values.len());
        }
        Self::new(rows, row_starts, column_indices, values)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.row_starts.len() - 1
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of stored entries.
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// Returns one row's (column, value) pairs, columns ascending.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.row_starts[row]..self.row_starts[row + 1];
        self.column_indices[range.clone()].iter().map(|&c| c as usize).zip(self.values[range].iter().copied())
    }

    /// Returns the place of each row's first entry, and one past the last.
    pub fn row_starts(&self) -> &[usize] {
        &self.row_starts
    }

    /// Returns the columns of all entries, row by row.
    pub fn column_indices(&self) -> &[u32] {
        &self.column_indices
    }

    /// Returns the values of all entries, row by row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns whether A = Aᵀ to rounding.
    pub fn is_symmetric(&self) -> bool {
        self.rows() == self.columns
            && (0..self.rows()).all(|row| {
                self.row(row).all(|(column, value)| {
                    let mirrored = self.row(column).find(|&(c, _)| c == row).map_or(0.0, |(_, v)| v);
                    (value - mirrored).abs() <= 1e-13 * value.abs().max(mirrored.abs())
                })
            })
    }
}
