//! The capabilities of an operator, implemented with its kernels.

use isobar_core::operator::{Direction, advance_direction_unfused};
use isobar_core::prelude::{
    Backend, Colour, Diagonal, Error, Guess, Layout, LineSmoother, LineSolver, Operator, Real, Relaxation,
    ResidualUpdate, Result, Scalar, Smoother,
};

use super::{Kernels, Residual, SevenPoint, Steps};
use crate::{Cuda, Scalars, Sum, Sweep, Vector};

impl<K: Kernels> SevenPoint<K> {
    /// Fills the halo of a vector that a kernel is to read.
    pub(crate) fn fill<T: Real>(&self, x: &mut Vector<T>) -> Result<()> {
        self.kernels.cuda().fill(x, &Colour::BOTH)
    }

    /// Adds up the sums of kernels over each rank's rows.
    pub(crate) fn sum<const N: usize>(&self, sums: [Scalar; N], scalars: &mut Scalars) -> Result<()> {
        self.kernels.cuda().sum(self.layout_of(), &sums, scalars)
    }

    /// Does [`Operator::advance_direction`] with z and q in either precision; p is not advanced in place.
    fn advance<R: Real>(&self, v: Direction<'_, Vector<K::Real>, Vector<R>>, scalars: &mut Scalars) -> Result<()> {
        let Direction { u, p, next, z, q, alpha, beta, sigma } = v;
        let next = next.ok_or(Error::Unsupported("a step in place that needs a next direction".into()))?;
        self.fill(z)?;
        self.kernels.advance_direction((z, q), p, [u, next], [alpha, beta], sigma, scalars)?;
        self.sum([sigma], scalars)
    }
}

impl<K: Kernels> Operator<Cuda, K::Real> for SevenPoint<K> {
    fn backend(&self) -> &Cuda {
        self.kernels.cuda()
    }

    fn layout(&self) -> &Layout {
        self.kernels.layout()
    }

    fn apply(&self, x: &mut Vector<K::Real>, y: &mut Vector<K::Real>) -> Result<()> {
        self.fill(x)?;
        self.kernels.apply(x, y)
    }

    fn residual(&self, f: &Vector<K::Real>, [u, r]: [&mut Vector<K::Real>; 2], (norm, scalars): Sum<'_>) -> Result<()> {
        self.fill(u)?;
        self.kernels.residual([f, u], r, norm.of(scalars))?;
        self.sum([norm], scalars)
    }

    fn residual_norm(
        &self,
        f: &Vector<K::Real>,
        [u, _scratch]: [&mut Vector<K::Real>; 2],
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        self.fill(u)?;
        self.kernels.residual_norm(Residual::Any, [f, u], norm.of(scalars))?;
        self.sum([norm], scalars)
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    fn advance_direction(&self, v: Direction<'_, Vector<K::Real>>, scalars: &mut Scalars) -> Result<()> {
        match v.next {
            Some(_) => self.advance(v, scalars),
            None => advance_direction_unfused(self, v, scalars),
        }
    }

    fn advance_direction_single(
        &self,
        v: Direction<'_, Vector<K::Real>, Vector<f32>>,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.advance(v, scalars)
    }

    /// Blocks compute the new direction while their neighbours still read the old one.
    fn needs_next_direction(&self, is_single: bool) -> Result<bool> {
        self.kernels.prepare(Steps::Direction { is_single })?;
        Ok(true)
    }

    fn coefficient_vectors(&self) -> f64 {
        self.kernels.coefficient_vectors()
    }

    fn coefficient_bytes(&self) -> usize {
        self.kernels.coefficient_bytes()
    }
}

impl<K: Kernels> Diagonal<Cuda, K::Real> for SevenPoint<K> {
    fn divide_by_diagonal(&self, r: &Vector<K::Real>, z: &mut Vector<K::Real>) -> Result<()> {
        self.kernels.divide_by_diagonal(r, z)
    }

    fn scale_residual(&self, v: ResidualUpdate<'_, Vector<K::Real>>, scalars: &mut Scalars) -> Result<()> {
        let out = v.out.all();
        self.kernels.scale_residual(v, scalars)?;
        self.sum(out, scalars)
    }
}

impl<K: Kernels> LineSolver<Cuda, K::Real> for SevenPoint<K> {
    fn backend(&self) -> &Cuda {
        self.kernels.cuda()
    }

    fn line_coefficient_vectors(&self) -> f64 {
        self.kernels.coefficient_vectors()
    }

    fn solve_lines(&self, r: &Vector<K::Real>, z: &mut Vector<K::Real>) -> Result<()> {
        self.kernels.solve_lines(r, z)
    }

    fn precondition_residual(&self, v: ResidualUpdate<'_, Vector<K::Real>>, scalars: &mut Scalars) -> Result<()> {
        let out = v.out.all();
        self.kernels.precondition_residual(v, scalars)?;
        self.sum(out, scalars)
    }
}

impl<K: Kernels> LineSmoother<Cuda, K::Real> for SevenPoint<K> {
    fn smooth(&self, sweep: Sweep<'_, K::Real>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let Relaxation { smoother, rho, first, .. } = relaxation;
        if smoother == Smoother::PointRedBlack {
            let first = self.layout_of().local(first);
            return self.kernels.sweep_cells(rho, first, guess, f, u);
        }
        if smoother == Smoother::LineJacobi {
            if guess == Guess::Given {
                self.kernels.cuda().fill(u, &Colour::BOTH)?;
            }
            self.kernels.sweep_to(rho, guess, f, u, scratch)?;
            u.swap(scratch);
            return Ok(());
        }
        match guess {
            Guess::Given => self.kernels.cuda().fill(u, &[first.other()])?,
            Guess::Zero if !self.overwrites(relaxation) => self.kernels.cuda().clear(u)?,
            Guess::Zero => {}
        }
        for (n, colour) in relaxation.colours().enumerate() {
            if n > 0 {
                self.kernels.cuda().fill(u, &[colour.other()])?;
            }
            let guess = if n == 0 { guess } else { Guess::Given };
            self.kernels.sweep(rho, self.layout_of().local(colour), guess, f, u, scratch)?;
        }
        Ok(())
    }

    fn needs_scratch(&self, smoother: Smoother) -> bool {
        match smoother {
            Smoother::LineJacobi => true,
            Smoother::PointRedBlack => self.kernels.exchanges_cells(),
            _ => self.kernels.needs_scratch(),
        }
    }
}
