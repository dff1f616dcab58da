//! The fused steps: which kernels, in which order.

use isobar_core::backend::{Backend, Ratio, Slot};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::{
    Direction, Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::region::RegionOperator;
use isobar_core::triangular::TriangularOperator;

use super::Diffusion;
use crate::cuda::Cuda;
use crate::driver::lock;
use crate::region::{RegionVector, Regions};
use crate::scalars::Scalars;
use crate::vector::Vector;

impl<T: Real> OnBackend<Cuda> for Diffusion<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }
}

impl<T: Real> Operator<Cuda, T> for Diffusion<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.apply_to(x, y)
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.divide(r, z)
    }

    fn residual(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.residual_of(f, u, r, norm, scalars)
    }

    fn residual_norm(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        _scratch: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.residual_norm_of(f, u, norm, scalars)
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    fn coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors
    }

    fn scale_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.scale(r, q, z, alpha, out, scalars)
    }

    /// A second p: warps update it while others still read the first.
    fn reserve_direction(&self) -> Result<usize> {
        let mut spare = lock(&self.spare);
        if spare.is_none() {
            *spare = Some(Vector::zeros(self.cuda.context(), &self.layout)?);
        }
        Ok(self.layout.len() * size_of::<T>())
    }

    fn advance_direction(
        &self,
        v: Direction<'_, Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.reserve_direction()?;
        if let Some(next) = lock(&self.spare).as_mut() {
            // What is p now becomes the one before.
            v.p.swap(next);
            self.advance([v.z, next], [v.u, v.p, v.q], [alpha, beta], sigma, scalars)?;
        }
        Ok(())
    }
}

impl<T: Real> LineSolver<Cuda, T> for Diffusion<T> {
    fn line_coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors
    }

    /// With one level, lines are cells.
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        if self.is_flat() { self.divide(r, z) } else { self.solve(r, z) }
    }

    fn precondition_residual(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut Scalars,
    ) -> Result<()> {
        if self.is_flat() {
            self.scale(r, q, z, alpha, out, scalars)
        } else {
            self.precondition(r, q, z, alpha, out, scalars)
        }
    }
}

impl<T: Real> LineOperator<Cuda, T> for Diffusion<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        let Relaxation { smoother, rho, first } = relaxation;
        let from_zero = guess == Guess::Zero;
        let (own, room) = (u.pointer(), scratch.pointer());
        match smoother {
            Smoother::LineJacobi => {
                self.relax(rho, None, f, (!from_zero).then_some(own), room, room)?;
                u.swap(scratch);
                Ok(())
            }
            Smoother::LineRedBlack => {
                if from_zero && (rho != 1.0 || self.looks_at_itself()) {
                    // The second colour looks at its old values.
                    self.cuda.clear(u)?;
                }
                self.relax(rho, Some(first), f, (!from_zero).then_some(own), own, room)?;
                self.relax(rho, Some(first.other()), f, Some(own), own, room)
            }
        }
    }
}

impl<T: Real> MultigridOperator<Cuda, T> for Diffusion<T> {
    fn has_adjoint_transfers(&self) -> bool {
        true
    }

    fn restrict(&self, _coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        self.restrict_field(f, coarse_f)
    }

    fn prolong(&self, _coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.prolong_field(coarse_u, u)
    }

    fn residual_restrict(
        &self,
        _coarse: &Self,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        self.residual_field(f, u, scratch)?;
        self.restrict_field(scratch, coarse_f)
    }
}

impl<T: Real> TriangularOperator<Cuda, T> for Diffusion<T> {
    fn relax_lower(
        &self,
        r: &Vector<T>,
        w: &Vector<T>,
        v: &mut Vector<T>,
        rho: Option<(Slot, &mut Scalars)>,
    ) -> Result<()> {
        self.lower(r, w, v, rho)
    }

    fn relax_upper(&self, v: &Vector<T>, w: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.upper(v, w, z)
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        self.poisson(scaled, inverse_diagonal, r, z)
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.substitute_blocks(block, inverse_pivots, r, z)
    }
}

impl<T: Real> RegionOperator<Cuda, T> for Diffusion<T> {
    fn subtract_regional(
        &self,
        regions: &Regions,
        a: &RegionVector,
        p: &Vector<T>,
        q: &mut Vector<T>,
        sigma: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.subtract(regions, a, p, q, sigma, scalars)
    }
}
