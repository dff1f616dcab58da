//! The precision of multigrid cycles inside another iteration.

use super::{CyclePrecision, Method, Preconditioner, SolverOptions};
use crate::real::Precision;

impl SolverOptions {
    /// Returns whether options with resolved method and preconditioner have cycles.
    pub fn has_cycles(&self) -> bool {
        match self.method {
            Method::Multigrid => true,
            method => !method.is_stationary() && self.preconditioner == Preconditioner::Multigrid,
        }
    }

    /// Returns the precision of stored numbers, given resolved options: [`Precision::Mixed`] also where only the cycles'
    /// precision requires it.
    pub fn storage(&self) -> Precision {
        match (self.precision, self.multigrid.precision) {
            (Precision::F64, CyclePrecision::F32) if self.has_cycles() => Precision::Mixed,
            (precision, _) => precision,
        }
    }

    /// Returns whether an iteration in double precision has multigrid in single precision, given resolved options.
    pub(crate) fn has_single_multigrid(&self) -> bool {
        self.storage() == Precision::Mixed && self.has_cycles()
    }

    /// Returns whether an iteration in double precision has its residuals in single precision, as its cycles are, given resolved options.
    /// With `precision = "mixed"`, for any coefficients, they stay in double: beyond contrasts of 10⁵ rounding
    /// them takes a few iterations more.
    pub(crate) fn rounds_residuals(&self) -> bool {
        self.has_single_multigrid()
            && self.precision == Precision::F64
            && self.method == Method::Cg
            && self.deflation.is_none()
    }
}
