//! The solver that suits a matrix, if options leave it open, and that of matrices whose kind alone decides.

use crate::options::{CyclePrecision, Method, Preconditioner, Smoother};

/// The method, the preconditioner and the smoother that suit a stencil, if the user leaves them open.
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
    /// The reason for `cycles`, if cycles are chosen, or requested with their storage left open.
    pub why_cycles: Option<String>,
    /// The reason for `method`, where it depends on more than the kind of matrix.
    pub why: Option<String>,
    /// Conjugate gradients that are tried before this.
    pub tried: Option<Tried>,
}

/// Conjugate gradients without multigrid, which are tried where a shift seems to dominate the couplings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// None, the diagonal, or lines.
    pub preconditioner: Preconditioner,
    /// The most iterations that the tolerance may take with it.
    pub most_iterations: f64,
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
            tried: None,
        }
    }

    /// Returns the choice for a matrix that multigrid cycles suit as they are.
    pub(crate) fn cycles() -> Self {
        Self::new(Method::Multigrid, Preconditioner::Line)
    }

    /// Returns the choice for diffusion of any coefficients.
    pub(crate) fn galerkin() -> Self {
        Self::new(Method::Cg, Preconditioner::Multigrid)
    }

    /// Returns the choice for cells that have few open neighbours.
    pub(crate) fn algebraic(why: String) -> Self {
        Self { why: Some(why), ..Self::new(Method::Cg, Preconditioner::Amg) }
    }

    /// Returns the choice for lines along z that are not coupled to each other.
    pub(crate) fn lines_apart() -> Self {
        let why = "lines along one direction, which are solved exactly: no other direction couples cells".to_owned();
        Self { why: Some(why), ..Self::new(Method::Cg, Preconditioner::Line) }
    }

    /// Returns the choice for a direct solve, with its reason. Its preconditioner is that of the iteration that may follow.
    pub(super) fn direct() -> Self {
        let why = "a direct solve: coefficients are products of one factor a direction".to_owned();
        Self { why: Some(why), ..Self::new(Method::Direct, Preconditioner::Multigrid) }
    }

    /// Returns the choice for a matrix of which only rows are known: its diagonal, where that is known.
    pub(crate) fn of_rows(is_symmetric: bool, has_diagonal: bool) -> Self {
        let method = if is_symmetric { Method::Cg } else { Method::Bicgstab };
        Self::new(method, if has_diagonal { Preconditioner::Jacobi } else { Preconditioner::None })
    }
}
