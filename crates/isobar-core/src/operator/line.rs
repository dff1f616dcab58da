//! Tridiagonal systems of columns, and relaxation by them.

use super::{Guess, Operator, ResidualUpdate, update_residual_unfused};
use crate::options::Smoother;
use crate::{Backend, Colour, Layout, Real, Result};

/// The parameters of relaxation: smoother, ρ, and the order of the colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relaxation {
    /// Block Jacobi, or red–black Gauss–Seidel of lines or of points; Chebyshev's polynomials are sweeps of block Jacobi.
    pub smoother: Smoother,
    /// ρ
    pub rho: f64,
    /// The colour that a red–black sweep begins with, of the whole grid.
    pub first: Colour,
    /// Whether a red–black sweep relaxes the first colour once more at its end.
    ///
    /// It avoids half sweeps in vain. If a sweep before a coarse correction ends with the colour that the one after it begins with, and the
    /// next cycle begins with the last colour of this one, half of all half sweeps do nothing for errors that the coarse grid cannot
    /// represent. R B | B R reduces them by μ², μ being the largest eigenvalue of Jacobi's iteration for them (2/3 on a cube), B R B | B R B
    /// by μ⁴.
    pub returns: bool,
}

impl Relaxation {
    /// Returns whether a sweep overwrites columns without reading them: red–black without over-relaxation.
    pub fn overwrites(&self) -> bool {
        self.smoother == Smoother::LineRedBlack && self.rho == 1.0
    }

    /// Returns the colour that a red–black sweep ends with.
    pub fn last(&self) -> Colour {
        if self.returns { self.first } else { self.first.other() }
    }

    /// Returns the colours of a red–black sweep in their order.
    pub fn colours(&self) -> impl Iterator<Item = Colour> {
        [self.first, self.first.other()].into_iter().chain(self.returns.then_some(self.first))
    }
}

/// A sweep of relaxation on a level, u += ρ M⁻¹(f − A u).
#[derive(Debug)]
pub struct Sweep<'a, V> {
    /// The parameters of the sweep.
    pub relaxation: Relaxation,
    /// Whether u counts as zero before the sweep.
    pub guess: Guess,
    /// f
    pub f: &'a V,
    /// u
    pub u: &'a mut V,
    /// A vector that is overwritten or left alone; see [`scratch_layout`].
    pub scratch: &'a mut V,
}

impl<'a, V> Sweep<'a, V> {
    /// Puts it together.
    pub fn new(relaxation: Relaxation, guess: Guess, f: &'a V, u: &'a mut V, scratch: &'a mut V) -> Self {
        Self { relaxation, guess, f, u, scratch }
    }

    /// Returns the sweep for one of several steps.
    pub fn again(&mut self) -> Sweep<'_, V> {
        Sweep { relaxation: self.relaxation, guess: self.guess, f: self.f, u: self.u, scratch: self.scratch }
    }
}

/// A solver of the vertical tridiagonal blocks M of a matrix.
pub trait LineSolver<B: Backend, T: Real>: Send + Sync {
    /// Returns the device that it lives on.
    fn backend(&self) -> &B;

    /// Returns the number of coefficient vectors of M; see [`Operator::coefficient_vectors`].
    fn line_coefficient_vectors(&self) -> f64 {
        0.0
    }

    /// Computes z = M⁻¹ r.
    fn solve_lines(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn precondition_residual(&self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        update_residual_unfused::<B, T>(self.backend(), v, scalars, |r, z| self.solve_lines(r, z))
    }
}

/// A matrix whose columns can be relaxed.
pub trait LineSmoother<B: Backend, T: Real>: Operator<B, T> {
    /// Computes one sweep of u += ρ M⁻¹(f − A u): all columns at once (Jacobi), or the columns of one colour after the other
    /// (red–black Gauss–Seidel). On a subdomain the halo rows of u are filled during the sweep.
    fn smooth(&self, sweep: Sweep<'_, B::Vector<T>>) -> Result<()>;

    /// Returns the colours whose halo rows, on a subdomain, differ from the neighbours' cells after a sweep.
    fn stale_after(&self, relaxation: Relaxation) -> &'static [Colour] {
        match (relaxation.smoother, relaxation.last()) {
            (Smoother::LineRedBlack, Colour::Black) => &[Colour::Black],
            (Smoother::LineRedBlack, Colour::Red) => &[Colour::Red],
            _ => &Colour::BOTH,
        }
    }

    /// Returns the number of colours of columns such that no two of one colour are coupled. It bounds the eigenvalues of M⁻¹A, where A
    /// is positive definite: for x = Σ x_c over p colours, xᵀA x ≤ p Σ x_cᵀA x_c = p xᵀM x.
    fn colours(&self) -> usize {
        2
    }

    /// Returns whether the steps of this operator, and of transfers to a coarser level, write to the scratch vector they are given.
    fn needs_scratch(&self, _smoother: Smoother) -> bool {
        true
    }
}

/// Returns the layout of the scratch vector that an operator's steps need: a whole one, or the smallest there is.
///
/// # Errors
/// Never in practice.
pub fn scratch_layout<B: Backend, T: Real>(
    operator: &(impl LineSmoother<B, T> + ?Sized),
    smoother: Smoother,
) -> Result<Layout> {
    if operator.needs_scratch(smoother) { Ok(*operator.layout()) } else { Layout::smallest() }
}
