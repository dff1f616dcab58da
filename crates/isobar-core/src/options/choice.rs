//! Defaults of a stencil for open options.

use super::{CyclePrecision, Method, Preconditioner, Smoother};

/// The method and the preconditioner that suit a stencil, where the user leaves them open.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The outer iteration.
    pub method: Method,
    /// The preconditioner of Krylov methods.
    pub preconditioner: Preconditioner,
    /// The relaxation inside multigrid.
    pub smoother: Smoother,
    /// Storage of cycles that precondition conjugate gradients in double precision; [`CyclePrecision::Auto`] where it depends
    /// on coefficients that have not been examined.
    pub cycles: CyclePrecision,
    /// The reason for `cycles`, where cycles are chosen, or asked for with their storage left open.
    pub why_cycles: Option<String>,
    /// The reason for `method`, where it depends on more than the kind of matrix.
    pub why: Option<String>,
}

impl Choice {
    /// Makes a choice by the kind of matrix.
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
