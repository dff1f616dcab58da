//! Jacobi's method for a batch of lines of cells along x, each a problem of its own.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::jacobi::{sweep_from_zero, traffic_of};
use super::{Iteration, Run};
use crate::backend::Iterations;
use crate::operator::{Guess, PointSmoother, lines_layout};
use crate::options::{Norm, PointCycle, SolverOptions};
use crate::outcome::Batch;
use crate::traffic::StepTraffic;
use crate::{ArrayView, ArrayViewMut, Backend, Error, Real, Result, Scalar, Shape};

/// max w ‖r‖²
const WORST: Scalar = Scalar::new(0);

/// Jacobi's method for a batch: cycles of [`PointSmoother::relax_lines`] until ‖f − A u‖ is small enough in every line, relative to that
/// of the line's own first guess, or to its own right-hand side. As in [`Jacobi`](super::jacobi::Jacobi) a line's norm is a by-product of
/// the cycle that begins from its u, and costs no pass; a kernel over the lines finds the worst and counts. Converged lines are relaxed
/// with the others: in the same pass they cost nothing, and their residuals continue to fall.
///
/// The monitor sees the worst line's relative residual.
///
/// Storage: the u of the next cycle; with [`Norm::Rhs`] a vector of zeros; three numbers per line.
pub struct LineBatch<B: Backend, T: Real> {
    operator: Arc<dyn PointSmoother<B, T>>,
    cycle: PointCycle,
    backend: B,
    next: B::Vector<T>,
    /// A vector of zeros, to find ‖f‖ of every line where residuals are relative to it.
    zero: Option<B::Vector<T>>,
    norms: B::Vector<f64>,
    /// 1 over the square of the reference of each line's residual.
    weights: B::Vector<f64>,
    counts: B::Vector<f64>,
    scalars: B::Scalars,
    /// Numbers of the lines on the host.
    lines: Vec<f64>,
    /// The relative ‖r‖ of the worst line.
    worst: f64,
    iterations: usize,
}

impl<B: Backend, T: Real> LineBatch<B, T> {
    /// Takes cycles of one kind on a grid of one layer with this shape, whose lines are not coupled.
    ///
    /// # Errors
    /// See [`PointSmoother::prepare_lines`]; where the workspace does not fit in memory.
    pub fn new(
        operator: Arc<dyn PointSmoother<B, T>>,
        shape: Shape,
        cycle: PointCycle,
        options: &SolverOptions,
    ) -> Result<Self> {
        operator.prepare_lines(&cycle)?;
        let (backend, layout) = (operator.backend().clone(), *operator.layout());
        let line = lines_layout(shape)?;
        let has_zero = options.norm == Norm::Rhs;
        Ok(Self {
            next: backend.zeros(&layout)?,
            zero: has_zero.then(|| backend.zeros(&layout)).transpose()?,
            norms: backend.zeros(&line)?,
            weights: backend.zeros(&line)?,
            counts: backend.zeros(&line)?,
            scalars: backend.scalars()?,
            lines: vec![0.0; shape.ny],
            worst: 0.0,
            iterations: 0,
            operator,
            cycle,
            backend,
        })
    }

    fn shape(&self) -> Shape {
        Shape::new(self.lines.len(), 1, 1)
    }

    /// Copies ‖f − A u‖² of every line, for this u or for zero, to the host.
    fn measure(&mut self, f: &B::Vector<T>, u: Option<&B::Vector<T>>) -> Result<()> {
        let shape = self.shape();
        let Self { operator, cycle, next, zero, norms, lines, backend, .. } = self;
        let Some(u) = u.or(zero.as_ref()) else { return Ok(()) };
        operator.relax_lines(cycle, f, u, next, norms)?;
        backend.download(norms, &mut ArrayViewMut::c_order(lines, shape)?)
    }
}

impl<B: Backend, T: Real> Iteration<B, T> for LineBatch<B, T> {
    /// Stores the reference of every line, too. Returns the worst line's norm, times the monitor's reference.
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        if guess == Guess::Zero {
            self.backend.clear(u)?;
        }
        self.measure(b, Some(&*u))?;
        let of_guess = self.zero.is_some().then(|| self.lines.clone());
        if of_guess.is_some() {
            self.measure(b, None)?;
        }
        let reference = self.lines.iter().sum::<f64>().sqrt();
        let residuals = of_guess.as_ref().unwrap_or(&self.lines);
        if let Some(line) = residuals.iter().zip(&self.lines).position(|(&r, &f)| r > 0.0 && f == 0.0) {
            let message = format!(
                "\"rhs\", and the right-hand side of line {line} is zero while its first guess is not; use norm = \"initial\", or a \
                 first guess of zero"
            );
            return Err(Error::invalid("solver.norm", message));
        }
        let inverse = |f: f64| if f > 0.0 { 1.0 / f } else { 0.0 };
        let relative = residuals.iter().zip(&self.lines).map(|(&r, &f)| r * inverse(f));
        let worst = relative.fold(0.0, |worst: f64, relative| if relative <= worst { worst } else { relative }).sqrt();
        self.lines.iter_mut().for_each(|f| *f = inverse(*f));
        self.backend.upload(ArrayView::c_order(&self.lines, self.shape())?, &mut self.weights)?;
        self.backend.clear(&mut self.counts)?;
        (self.worst, self.iterations) = (worst, 0);
        Ok(Some(worst * reference))
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        let Run { b, u, monitor, .. } = run;
        let shape = self.shape();
        let Self { operator, cycle, backend, next, norms, weights, counts, scalars, .. } = self;
        let (allowed, reference) = (monitor.tolerance().powi(2), monitor.reference());
        // The monitor has the residual of the first guess already.
        let (mut is_known, mut last) = (true, 0.0);
        backend.iterate(
            Iterations::default(),
            scalars,
            &mut |_, scalars| {
                operator.relax_lines(cycle, b, u, next, norms)?;
                operator.judge_lines([&*norms, &*weights], counts, allowed, WORST.of(scalars))?;
                std::mem::swap(u, next);
                Ok(())
            },
            &mut |bank| {
                last = bank[WORST.index()];
                if std::mem::take(&mut is_known) {
                    return ControlFlow::Continue(());
                }
                monitor.observe(last * reference * reference)
            },
        )?;
        std::mem::swap(u, next);
        (self.worst, self.iterations) = (last.sqrt(), monitor.iterations());
        self.backend.download(&self.counts, &mut ArrayViewMut::c_order(&mut self.lines, shape)?)
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        sweep_from_zero(&*self.operator, self.cycle.relaxation, r, &mut self.next, z, &mut self.scalars)
    }

    fn batch(&self) -> Option<Batch> {
        let iterations = self.lines.iter().map(|&n| (n as usize).min(self.iterations));
        let iterations = if self.iterations > 0 { iterations.collect() } else { vec![0; self.lines.len()] };
        Some(Batch { worst: self.worst, iterations })
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let shape = self.operator.layout().shape();
        let traffic = StepTraffic::once::<T>(traffic_of(&self.cycle, shape), shape.cells());
        vec![traffic.with_coefficients(self.operator.coefficient_vectors())]
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = 1 + usize::from(self.zero.is_some());
        vectors * self.operator.layout().len() * size_of::<T>() + 3 * 8 * self.lines.len()
    }
}
