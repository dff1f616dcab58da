//! The direct solution of a separable matrix, refined until its residual is small enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Iteration, Run};
use crate::backend::direct::locked;
use crate::backend::{Judged, SharedDirect};
use crate::operator::{Guess, Operator};
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Ratio, Result, Scalar, Source, Target};

/// ‖r‖²
const NORM: Scalar = Scalar::new(0);

/// The direct solution, with as many steps of refinement as it needs, usually none:
///
/// ```text
/// u = A⁻¹ b;   r = b − A u;   u += A⁻¹ r
/// ```
///
/// Storage: r, and that of the [`DirectSolver`](crate::backend::DirectSolver).
pub struct Direct<B: Backend> {
    operator: Arc<dyn Operator<B, f64>>,
    solver: SharedDirect<B>,
    r: B::Vector<f64>,
    scalars: B::Scalars,
    /// The cells of the box.
    cells: usize,
    /// ‖b − A u‖ of u after the last run.
    residual: Option<f64>,
    /// Whether residuals that the solver finds by its factors are those of the matrix.
    is_exact: Arc<AtomicBool>,
}

impl<B: Backend> Direct<B> {
    /// Takes a matrix, the solver of a box of this many cells, and its [`Separable::is_exact`](crate::direct::Separable::is_exact).
    pub fn new(
        operator: Arc<dyn Operator<B, f64>>,
        solver: SharedDirect<B>,
        cells: usize,
        is_exact: Arc<AtomicBool>,
    ) -> Result<Self> {
        let backend = operator.backend();
        let (r, scalars) = (backend.zeros(operator.layout())?, backend.scalars()?);
        Ok(Self { operator, solver, r, scalars, cells, residual: None, is_exact })
    }

    /// Computes ‖b − A u‖², with the residual in r.
    fn judge(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>) -> Result<f64> {
        self.operator.residual(b, [u, &mut self.r], NORM.of(&mut self.scalars))?;
        Ok(self.operator.backend().read(&self.scalars)?[NORM.index()])
    }
}

impl<B: Backend> Iteration<B, f64> for Direct<B> {
    fn begin(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>, guess: Guess) -> Result<Option<f64>> {
        self.residual = None;
        match guess {
            Guess::Zero => Ok(None),
            Guess::Given => Ok(Some(self.judge(b, u)?.sqrt())),
        }
    }

    fn run(&mut self, run: Run<'_, '_, B, f64>) -> Result<()> {
        let Run { b, u, guess, monitor, .. } = run;
        let mut is_first = guess == Guess::Zero;
        loop {
            if is_first {
                locked(&self.solver).solve(b, u)?;
            } else {
                // r is the residual of u.
                locked(&self.solver).solve_in_place(&mut self.r)?;
                self.operator.backend().axpy(Ratio::ONE, &self.r, u, &self.scalars)?;
            }
            is_first = false;
            let square = self.judge(b, u)?;
            self.residual = Some(square.sqrt());
            if monitor.observe(square).is_break() {
                return Ok(());
            }
        }
    }

    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        if !self.is_exact.load(Relaxed) {
            return Ok(None);
        }
        locked(&self.solver).solve_arrays(b, u)
    }

    fn residual_left(&self) -> Option<f64> {
        self.residual
    }

    fn precondition(&mut self, r: &mut B::Vector<f64>, z: &mut B::Vector<f64>) -> Result<()> {
        locked(&self.solver).solve(r, z)
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        vec![
            StepTraffic::once::<f64>(traffic::DIRECT_SOLVE, self.cells),
            StepTraffic::once::<f64>(traffic::RESIDUAL, self.cells)
                .with_coefficients(self.operator.coefficient_vectors()),
        ]
    }

    fn workspace_bytes(&self) -> usize {
        self.operator.layout().len() * size_of::<f64>() + locked(&self.solver).bytes()
    }
}
