//! This module lists everything that can be done with a matrix.

use std::sync::Arc;

use super::{AggregateOperator, Diagonal, LineSolver, Operator, PointSmoother, Triangular};
use crate::backend::AggregateBackend;
use crate::real::Real;

/// All capabilities of a matrix on a device except coarser levels, which are made on demand. Code that wraps them names every
/// field, so that none is lost by oversight.
pub struct Capabilities<B: AggregateBackend, T: Real> {
    /// The matrix can be applied.
    pub operator: Arc<dyn Operator<B, T>>,
    /// The division by its diagonal.
    pub diagonal: Option<Arc<dyn Diagonal<B, T>>>,
    /// The solution of the tridiagonal systems of its columns, with its own coefficients.
    pub lines: Option<Arc<dyn LineSolver<B, T>>>,
    /// The relaxation of its cells one by one.
    pub points: Option<Arc<dyn PointSmoother<B, T>>>,
    /// The steps with its triangular parts.
    pub triangular: Option<Arc<dyn Triangular<B, T>>>,
    /// The steps with aggregates, for deflation and for singular matrices.
    pub aggregates: Option<Arc<dyn AggregateOperator<B, T>>>,
}

impl<B: AggregateBackend, T: Real> Capabilities<B, T> {
    /// Returns those of a matrix that can be applied, and its diagonal be divided by.
    pub fn of_rows<O: Diagonal<B, T> + 'static>(operator: &Arc<O>) -> Self {
        let diagonal = Some(Arc::clone(operator) as _);
        Self {
            operator: Arc::clone(operator) as _,
            diagonal,
            lines: None,
            points: None,
            triangular: None,
            aggregates: None,
        }
    }

    /// Returns those of a matrix whose columns can be solved for too.
    pub fn of_columns<O: Diagonal<B, T> + LineSolver<B, T> + 'static>(operator: &Arc<O>) -> Self {
        Self { lines: Some(Arc::clone(operator) as _), ..Self::of_rows(operator) }
    }

    /// Returns those of a matrix that has all.
    pub fn all<O>(operator: &Arc<O>) -> Self
    where
        O: LineSolver<B, T> + PointSmoother<B, T> + Triangular<B, T> + AggregateOperator<B, T> + 'static,
    {
        Self {
            points: Some(Arc::clone(operator) as _),
            triangular: Some(Arc::clone(operator) as _),
            aggregates: Some(Arc::clone(operator) as _),
            ..Self::of_columns(operator)
        }
    }
}
