//! What a stencil takes where nobody says.

use super::{Method, Preconditioner, Smoother};

/// The method and the preconditioner that suit a stencil where nobody says.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The outer iteration.
    pub method: Method,
    /// The preconditioner of Krylov methods.
    pub preconditioner: Preconditioner,
    /// The relaxation inside multigrid.
    pub smoother: Smoother,
    /// Why this method, where that depends on more than the kind of matrix.
    pub why: Option<String>,
}

impl Choice {
    /// By the kind of matrix.
    pub fn new(method: Method, preconditioner: Preconditioner) -> Self {
        Self { method, preconditioner, smoother: Smoother::LineRedBlack, why: None }
    }
}
