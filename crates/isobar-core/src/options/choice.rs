//! The defaults of a stencil for options that are left open.

use super::{CyclePrecision, Method, Preconditioner, Smoother};

/// The method and the preconditioner that suit a stencil where nobody says.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The outer iteration.
    pub method: Method,
    /// The preconditioner of Krylov methods.
    pub preconditioner: Preconditioner,
    /// The relaxation inside multigrid.
    pub smoother: Smoother,
    /// Storage of cycles that precondition conjugate gradients in double precision; [`CyclePrecision::Auto`] where coefficients
    /// that nobody has looked at decide.
    pub cycles: CyclePrecision,
    /// Why that, where cycles are what is chosen, or asked for with their storage left open.
    pub why_cycles: Option<String>,
    /// Why this method, where that depends on more than the kind of matrix.
    pub why: Option<String>,
}

impl Choice {
    /// By the kind of matrix.
    pub fn new(method: Method, preconditioner: Preconditioner) -> Self {
        Self {
            method,
            preconditioner,
            smoother: Smoother::LineRedBlack,
            cycles: CyclePrecision::F64,
            why_cycles: None,
            why: None,
        }
    }
}
