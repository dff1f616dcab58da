//! Coefficients of cells.

use std::sync::Arc;

use crate::execute::{require_room, shared_blocks, shared_copy};
use crate::stencil::{Axis, Spread};
use crate::{Host, Result, Source};

/// κ in every cell, shape (nz, ny, nx) in C order.
#[derive(Clone, Debug, PartialEq)]
pub enum Coefficient {
    /// One coefficient for all directions.
    Isotropic(Vec<f64>),
    /// One coefficient for x and y, another for z.
    Layered {
        /// κ in x and y.
        horizontal: Vec<f64>,
        /// κ in z.
        vertical: Vec<f64>,
    },
    /// A coefficient for each direction: a diagonal tensor.
    Diagonal([Vec<f64>; 3]),
    /// κ in x, y and z, in arrays that are shared with the matrix. Directions whose fields are clones have one coefficient.
    Shared([Field; 3]),
}

impl Coefficient {
    /// Returns κ of a direction.
    pub fn along(&self, axis: Axis) -> &[f64] {
        match (self, axis) {
            (Self::Isotropic(all), _) => all,
            (Self::Layered { vertical, .. }, Axis::Z) => vertical,
            (Self::Layered { horizontal, .. }, _) => horizontal,
            (Self::Diagonal(all), axis) => &all[axis as usize],
            (Self::Shared(fields), axis) => fields[axis as usize].values(),
        }
    }

    /// Returns it as fields that a matrix shares: each array is copied, checked and freed, except for those that are shared already.
    #[must_use]
    pub fn into_shared(self) -> Self {
        let field = |values: Vec<f64>| Field::from(&*values);
        Self::Shared(match self {
            Self::Isotropic(all) => {
                let all = field(all);
                [all.clone(), all.clone(), all]
            }
            Self::Layered { horizontal, vertical } => {
                let horizontal = field(horizontal);
                [horizontal.clone(), horizontal, field(vertical)]
            }
            Self::Diagonal(all) => all.map(field),
            Self::Shared(fields) => fields,
        })
    }

    /// Returns the number of the coefficient of x, y and z, counted from 0: 0 for all directions, 0, 0 and 1 for layers.
    pub fn numbers(&self) -> [usize; 3] {
        match self {
            Self::Isotropic(_) => [0, 0, 0],
            Self::Layered { .. } => [0, 0, 1],
            Self::Diagonal(_) => [0, 1, 2],
            Self::Shared([x, y, z]) => {
                let is_one = |a: &Field, b: &Field| Arc::ptr_eq(&a.values, &b.values);
                match (is_one(x, y), is_one(x, z)) {
                    (true, true) => [0, 0, 0],
                    (true, false) => [0, 0, 1],
                    (false, _) => [0, 1, 2],
                }
            }
        }
    }

    /// Returns the spread of κ of a direction, or the first cell whose κ is negative or not finite.
    pub(super) fn spread(&self, axis: Axis) -> Result<Spread, usize> {
        match self {
            Self::Shared(fields) => fields[axis as usize].spread,
            _ => Spread::of(&Host, self.along(axis)),
        }
    }

    /// Returns κ of a direction in an array that a matrix keeps.
    pub(super) fn shared(&self, axis: Axis) -> Arc<[f64]> {
        match self {
            Self::Shared(fields) => Arc::clone(&fields[axis as usize].values),
            _ => shared_copy(&Host, self.along(axis)),
        }
    }
}

/// A `Field` is a number for each cell, shape (nz, ny, nx) in C order, with its [`Spread`]. Clones of a field, and the matrix made from
/// it, share one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    values: Arc<[f64]>,
    /// The spread, or the place of the first number that is negative or not finite.
    spread: Result<Spread, usize>,
}

impl Field {
    /// Makes a field of `count` cells: `set(first, values)` sets those from number `first` on, on all threads.
    pub fn new(count: usize, set: impl Fn(usize, &mut [f64]) + Sync) -> Self {
        let (values, spreads) = shared_blocks(&Host, count, |first, block| {
            set(first, block);
            Spread::of_piece(first, block)
        });
        Self { values, spread: Spread::of_pieces(spreads) }
    }

    /// Copies an array.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::error::Error::Unsupported) for an array on a device, [`Error::Invalid`](crate::error::Error::Invalid)
    /// where memory cannot be allocated.
    pub fn read(source: Source<'_>) -> Result<Self> {
        require_room(source.shape().cells())?;
        Ok(Self::new(source.shape().cells(), source.reader()?))
    }

    /// Returns the numbers.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

impl From<&[f64]> for Field {
    fn from(values: &[f64]) -> Self {
        Self::new(values.len(), |first, block| block.copy_from_slice(&values[first..][..block.len()]))
    }
}

impl From<Arc<[f64]>> for Field {
    fn from(values: Arc<[f64]>) -> Self {
        let spread = Spread::of(&Host, &values);
        Self { values, spread }
    }
}
