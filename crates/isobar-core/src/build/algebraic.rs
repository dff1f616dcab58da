//! Algebraic multigrid as a preconditioner.

use super::assembly::{Maker, Parts};
use super::direct::{is_divided, not_on_ranks};
use crate::precond::{Algebraic, Own, Preconditioner};
use crate::stencil::{Stencil, Supports, Unknowns};
use crate::{Error, Real, Result};

impl<B: Supports<S>, S: Stencil, T: Real> Maker<'_, B, S, T> {
    /// Makes the preconditioner of a cycle of algebraic multigrid.
    pub(super) fn algebraic(&self) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        let Self { backend, stencil, .. } = self;
        if is_divided(*backend) {
            return Err(not_on_ranks("solver.preconditioner.kind: \"amg\"", "\"multigrid\""));
        }
        let levels = backend.enter(|| unknowns(*stencil).map(Algebraic::new))?;
        let made = Own::new(*backend, backend.layout(stencil)?, Box::new(levels.clone()));
        let mut parts: Parts<S, dyn Preconditioner<B, T>> = Parts::new(Box::new(made));
        let sizes: Vec<String> = levels.sizes().iter().map(usize::to_string).collect();
        parts.notes.push(format!("algebraic multigrid of {} unknowns", sizes.join(", ")));
        let device = (*backend).clone();
        let update = move |stencil: &S| device.enter(|| unknowns(stencil).map(|unknowns| levels.replace(unknowns)));
        parts.updates.push(Box::new(update));
        Ok(parts)
    }
}

/// Returns the matrix of active cells.
///
/// # Errors
/// [`Error::Unsupported`] for matrices without one.
fn unknowns(stencil: &impl Stencil) -> Result<Unknowns> {
    stencil.unknowns().ok_or_else(|| {
        Error::Unsupported(
            "solver.preconditioner.kind: \"amg\" is for diffusion with coefficients on the host, no negative reaction and fewer than 2³² cells; use \
             \"multigrid\""
                .into(),
        )
    })
}
