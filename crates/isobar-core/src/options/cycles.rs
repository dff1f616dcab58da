//! The precision of multigrid cycles inside another iteration.

use serde::{Deserialize, Serialize};

use super::{Choice, Method, Preconditioner, SolverOptions};
use crate::error::{Error, Result};
use crate::real::Precision;

/// Storage of cycles inside an iteration in double precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CyclePrecision {
    /// The matrix's [`Choice`] where cycles precondition conjugate gradients; otherwise the precision of the iteration.
    #[default]
    Auto,
    /// Single precision, as `solver.precision = "mixed"` asks for.
    F32,
    /// Double precision.
    F64,
}

impl SolverOptions {
    /// Returns whether the storage of cycles is left open, and they precondition conjugate gradients in double precision: with
    /// this method and this preconditioner where these are left open too.
    pub(crate) fn leaves_cycles_open(&self, method: Method, preconditioner: Preconditioner) -> bool {
        let or = |wanted, chosen| if wanted == Method::Auto { chosen } else { wanted };
        let preconditioner =
            if self.preconditioner == Preconditioner::Auto { preconditioner } else { self.preconditioner };
        (self.precision, self.multigrid.precision) == (Precision::F64, CyclePrecision::Auto)
            && or(self.method, method) == Method::Cg
            && preconditioner == Preconditioner::Multigrid
            && self.deflation.is_none()
    }

    /// Returns whether options with resolved method and preconditioner have cycles.
    pub fn has_cycles(&self) -> bool {
        match self.method {
            Method::Multigrid => true,
            method => !method.is_stationary() && self.preconditioner == Preconditioner::Multigrid,
        }
    }

    /// Resolves `multigrid.precision`, given options with resolved method and preconditioner.
    pub(super) fn cycle_precision(&self, choice: &Choice) -> Result<CyclePrecision> {
        let given = self.multigrid.precision;
        if self.precision != Precision::F64 {
            if given == CyclePrecision::F64 && self.has_cycles() {
                return Err(Error::invalid(
                    "solver.multigrid.precision",
                    format!(
                        "\"f64\" inside solver.precision = \"{}\"; leave it out, or use \"f64\" for both",
                        self.precision
                    ),
                ));
            }
            return Ok(CyclePrecision::F32);
        }
        Ok(match given {
            CyclePrecision::Auto if self.leaves_cycles_open(self.method, self.preconditioner) => choice.cycles,
            CyclePrecision::Auto => CyclePrecision::F64,
            given => given,
        })
    }

    /// Returns the precision of stored numbers, given resolved options: [`Precision::Mixed`] also where only the cycles'
    /// precision requires it.
    pub fn storage(&self) -> Precision {
        match (self.precision, self.multigrid.precision) {
            (Precision::F64, CyclePrecision::F32) if self.has_cycles() => Precision::Mixed,
            (precision, _) => precision,
        }
    }
}
