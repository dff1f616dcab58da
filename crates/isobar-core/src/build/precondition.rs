//! A solver as a preconditioner of another program's iteration.

use super::arrays::{download, find_not_finite, upload};
use super::assembly::{Parts, assemble};
use super::system::System;
use crate::operator::Guess;
use crate::options::Preconditioner;
use crate::policy::ladder::{by_lines, in_double};
use crate::stencil::{Stencil, Supports};
use crate::{Error, Precision, Ratio, Result, Scalar, Source, Target};

/// The norm of a residual that is not read.
const UNUSED: Scalar = Scalar::new(0);

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Implements [`Solve::precondition`](super::Solve::precondition) for arrays with the right shapes.
    pub(super) fn precondition(&mut self, r: Source<'_>, z: &mut Target<'_>, iterations: usize) -> Result<()> {
        upload(&self.backend, &self.callers, r, &mut self.b)?;
        if let Some(space) = &mut self.null_space {
            space.project_out(&mut self.b)?;
        }
        // A power of two, so that no digit of z changes.
        let (norm, scaling) = self.bring_into_range(Guess::Zero, None)?;
        if !norm.is_finite() {
            find_not_finite("the residual", r)?;
            // Arrays on a device are not searched for the entry.
            return Err(Error::invalid(
                "the residual",
                "it holds a NaN or an infinity, or its norm overflows; scale it down",
            ));
        }
        if norm > 0.0 {
            let backend = self.backend.clone();
            backend.enter(|| self.steps(iterations))?;
        } else {
            self.backend.clear(&mut self.u)?;
        }
        self.scale(scaling.back())?;
        if let Some(space) = &mut self.null_space {
            space.project_out(&mut self.u)?;
        }
        download(&self.backend, &self.callers, &self.u, z)
    }

    /// Makes a replacement for the iteration: a symmetric one where its cycles are not and the matrix has such, and in double
    /// precision unless the user asked for less, so that it is linear to as many digits; multigrid, where conjugate gradients without it are
    /// only tried.
    fn make_symmetric(&mut self) -> Result<()> {
        let is_single = self.options.precision == Precision::F64 && self.options.storage() == Precision::Mixed;
        let is_skew = self.stencil.is_symmetric()
            && !self.iteration.preconditions_symmetrically()
            && matches!(self.decision.reserve, Preconditioner::Multigrid | Preconditioner::Amg)
            && (self.options.preconditioner != Preconditioner::Amg || self.decision.replaceable.is_automatic);
        let is_weak = matches!(self.options.preconditioner, Preconditioner::None | Preconditioner::Jacobi);
        let tried = self.decision.after_trial.as_ref().filter(|_| is_weak);
        if self.symmetric.is_some() || !(is_single || is_skew || tried.is_some()) {
            return Ok(());
        }
        let mut options = tried.map_or(&self.options, |after| &after.options).clone();
        if is_single || tried.is_some() {
            options = in_double(options);
        }
        if is_skew || tried.is_some() {
            options = by_lines(options, Preconditioner::Multigrid);
        }
        self.backend.prepare(&self.stencil, &self.operator, &options)?;
        let Parts { made, updates, coefficient_bytes, .. } =
            assemble(&self.backend, &self.stencil, &options, &self.operator, None, None, self.is_floating())?;
        self.description.bytes += made.workspace_bytes();
        self.description.coefficient_bytes += coefficient_bytes;
        self.symmetric = Some((made, updates));
        Ok(())
    }

    /// Computes u = M⁻¹ b, and further steps from the remaining residual.
    fn steps(&mut self, iterations: usize) -> Result<()> {
        self.make_symmetric()?;
        let Self { backend, capabilities, iteration, symmetric, spare, b, u, layout, scalars, .. } = self;
        let iteration = symmetric.as_mut().map_or(iteration, |(symmetric, _)| symmetric);
        iteration.choose(0);
        iteration.precondition(b, u)?;
        if iterations > 1 {
            let [r, z] = match spare {
                Some(spare) => spare,
                None => spare.insert([backend.zeros(layout)?, backend.zeros(layout)?]),
            };
            for _ in 1..iterations {
                capabilities.operator.residual(b, [u, r], UNUSED.of(scalars))?;
                iteration.precondition(r, z)?;
                backend.axpy(Ratio::ONE, z, u, scalars)?;
            }
        }
        Ok(())
    }
}
