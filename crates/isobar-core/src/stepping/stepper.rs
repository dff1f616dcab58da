//! The θ scheme.

use std::sync::Arc;

use super::{Evolve, HeatOptions, Step};
use crate::array::{ArrayView, ArrayViewMut, Source, Target};
use crate::backend::{Ratio, Scalar};
use crate::build::{Description, Solve, System};
use crate::build::{download, find_not_finite, upload};
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::operator::{CgOperator, Guess};
use crate::options::{SolverOptions, StepGuess};
use crate::outcome::Stop;
use crate::problem::{Heat, Mass};
use crate::real::Precision;
use crate::solver::Observer;
use crate::stencil::{Diffusion, Supports};

/// Steps of M u_t = −K u + s by the θ scheme, Crank–Nicolson (θ = ½) or backward Euler (θ = 1):
///
/// M (u' − u)/Δt = −K w + s,  w = θ u' + (1 − θ) u.
///
/// What is solved for is w, which needs no product with K on the right-hand side:
///
/// ```text
/// (K + c M) w = c M u + s,   c = 1/(θ Δt)
/// u' = u + (w − u)/θ
/// ```
///
/// Residuals are those of the system for u' (paper E's A u = b), times a constant.
///
/// Storage beside the solver's: u; the state before where steps extrapolate; s where there is one; the ones where they
/// are first guesses; the coefficients of c M where volumes differ. A step allocates no vector, and the host touches none.
pub struct HeatStepper<B: Supports<Diffusion>> {
    backend: B,
    heat: Heat,
    options: HeatOptions,
    precision: Precision,
    system: System<B, Diffusion>,
    /// c M, where volumes differ.
    mass: Option<(Arc<B::Operator<f64>>, Arc<dyn CgOperator<B, f64>>)>,
    u: B::Vector<f64>,
    before: Option<B::Vector<f64>>,
    /// Whether `before` holds the state before.
    has_before: bool,
    /// 1 in every cell that takes part, where that is the first guess.
    ones: Option<B::Vector<f64>>,
    source: Option<B::Vector<f64>>,
    scalars: B::Scalars,
    /// The step that the matrix was made for.
    dt: f64,
    taken: usize,
}

/// [`HeatStepper::factor`]
const C: Scalar = Scalar::new(0);
const THETA: Scalar = Scalar::new(1);
/// (1 − θ)/θ
const REST: Scalar = Scalar::new(2);
/// Inner products.
const PRODUCT: Scalar = Scalar::new(3);
const SOURCE: Scalar = Scalar::new(4);

/// A relative residual this small is what rounding leaves.
fn rounding(precision: Precision) -> f64 {
    if precision == Precision::F32 { 1e-6 } else { 1e-13 }
}

impl<B: Supports<Diffusion>> HeatStepper<B> {
    /// Puts everything on the device; the state is 0.
    ///
    /// # Errors
    /// Those of [`System::new`] and [`Heat::shifted`].
    pub fn new(backend: &B, heat: Heat, options: HeatOptions, solver: &SolverOptions) -> Result<Self> {
        let theta = options.scheme.theta();
        let dt = options.steps.length(0);
        let stencil = heat.shifted(1.0 / (theta * dt))?;
        let system = System::new(backend, &stencil, solver)?;
        let layout = backend.layout(&stencil)?;
        let mass = match &heat.mass {
            Mass::Uniform(_) => None,
            Mass::Given(volumes) => {
                let operator = backend.operator::<f64>(&heat.only_mass(volumes, 1.0 / (theta * dt))?)?;
                let step = backend.capabilities(&operator).operator;
                Some((operator, step))
            }
        };
        let shape = heat.shape();
        let send = |values: &[f64]| -> Result<B::Vector<f64>> {
            let mut vector = backend.zeros(&layout)?;
            backend.upload(ArrayView::c_order(values, shape)?, &mut vector)?;
            Ok(vector)
        };
        let ones = (options.guess == StepGuess::Ones)
            .then(|| {
                let active = heat.stiffness.cells().map(|at| f64::from(u8::from(heat.stiffness.is_active(at))));
                send(&active.collect::<Vec<_>>())
            })
            .transpose()?;
        let source = heat.source.as_deref().map(send).transpose()?;
        let before = (options.guess == StepGuess::Extrapolated).then(|| backend.zeros(&layout)).transpose()?;
        let mut this = Self {
            u: backend.zeros(&layout)?,
            scalars: backend.scalars()?,
            backend: backend.clone(),
            precision: solver.precision,
            options,
            heat,
            system,
            mass,
            before,
            has_before: false,
            ones,
            source,
            dt,
            taken: 0,
        };
        this.set_scalars()?;
        Ok(this)
    }

    fn theta(&self) -> f64 {
        self.options.scheme.theta()
    }

    fn c(&self) -> f64 {
        1.0 / (self.theta() * self.dt)
    }

    /// What u is multiplied by on the right-hand side, after the product with c M where volumes differ.
    fn factor(&self) -> f64 {
        match &self.heat.mass {
            Mass::Uniform(volume) => self.c() * volume,
            Mass::Given(_) => 1.0,
        }
    }

    fn set_scalars(&mut self) -> Result<()> {
        let theta = self.theta();
        for (scalar, value) in [(C, self.factor()), (THETA, theta), (REST, (1.0 - theta) / theta)] {
            self.backend.set(&mut self.scalars, scalar, value)?;
        }
        Ok(())
    }

    /// Makes the matrix that of another step.
    fn change_step(&mut self, dt: f64) -> Result<()> {
        self.dt = dt;
        self.system.update(&self.heat.shifted(self.c())?)?;
        if let (Some((operator, _)), Mass::Given(volumes)) = (&self.mass, &self.heat.mass) {
            self.backend.update(&**operator, &self.heat.only_mass(volumes, self.c())?)?;
        }
        self.set_scalars()
    }

    /// b = c M u + s
    fn set_rhs(&mut self) -> Result<()> {
        let factor = self.factor();
        let Self { backend, system, mass, u, source, scalars, .. } = self;
        let b = system.rhs_mut();
        match mass {
            Some((_, mass)) => mass.apply(u, b)?,
            None => backend.convert(u, b)?,
        }
        let c = Ratio::new(C, Scalar::ONE);
        match (source, mass.is_some()) {
            (Some(source), false) => backend.xpay(c, source, b, scalars),
            (Some(source), true) => backend.axpy(Ratio::ONE, source, b, scalars),
            (None, false) => backend.scale(factor, b),
            (None, true) => Ok(()),
        }
    }

    /// w = θ u' + (1 − θ) u of a guess of u'.
    fn set_guess(&mut self) -> Result<()> {
        let theta = self.theta();
        let Self { backend, system, u, before, has_before, ones, scalars, .. } = self;
        let (w, weight) = (system.solution_mut(), Ratio::new(THETA, Scalar::ONE));
        backend.convert(u, w)?;
        if let Some(ones) = ones {
            backend.scale(1.0 - theta, w)?;
            backend.axpy(weight, ones, w, scalars)?;
        }
        if let (Some(before), true) = (before, *has_before) {
            backend.axpy(weight, u, w, scalars)?;
            backend.axpy(weight.negated(), before, w, scalars)?;
        }
        Ok(())
    }

    /// u' = u + (w − u)/θ
    fn advance(&mut self) -> Result<()> {
        let theta = self.theta();
        let Self { backend, system, u, before, has_before, scalars, .. } = self;
        if let Some(before) = before {
            backend.convert(u, before)?;
            *has_before = true;
        }
        let w = system.solution_mut();
        backend.scale(1.0 / theta, w)?;
        backend.xpay(Ratio::new(REST, Scalar::ONE).negated(), w, u, scalars)
    }

    fn check_shape(&self, what: &str, shape: Shape) -> Result<()> {
        let expected = self.heat.shape();
        if shape == expected { Ok(()) } else { Err(Error::shape(what, shape.to_string(), expected.to_string())) }
    }
}

impl Heat {
    /// c M as a matrix of its own.
    fn only_mass(&self, volumes: &[f64], c: f64) -> Result<Diffusion> {
        let shape = self.shape();
        let none =
            crate::stencil::Coefficients::Cells { fields: vec![vec![0.0; shape.cells()].into()], axes: [(0, 1.0); 3] };
        let shift = volumes.iter().map(|volume| c * volume).collect();
        Diffusion::new(shape, none, Some(shift), Default::default())
    }
}

impl<B: Supports<Diffusion>> Evolve for HeatStepper<B> {
    fn step(&mut self, observer: &mut Observer<'_>) -> Result<Step> {
        let steps = self.options.steps;
        if self.taken >= steps.count() {
            return Err(Error::invalid("heat.end_time", format!("{} has been reached", steps.end)));
        }
        let dt = steps.length(self.taken);
        if dt != self.dt {
            self.change_step(dt)?;
        }
        self.set_rhs()?;
        self.set_guess()?;
        let mut outcome = self.system.solve_in_place(Guess::Given, observer)?;
        // A state that hardly changes leaves nothing to reduce: what counts then is the residual beside b.
        if matches!(outcome.stop, Stop::Stagnated | Stop::Breakdown | Stop::MaxIterations)
            && outcome.is_returned
            && self.system.residual_over_rhs()? <= rounding(self.precision)
        {
            (outcome.stop, outcome.advice) = (Stop::Converged, None);
        }
        let is_taken = outcome.converged();
        if is_taken {
            self.advance()?;
            self.taken += 1;
        }
        let number = self.taken + usize::from(!is_taken);
        Ok(Step { number, time: steps.time(number), outcome, is_taken })
    }

    fn set(&mut self, state: Source<'_>, before: Option<Source<'_>>, steps: usize) -> Result<()> {
        self.check_shape("the state", state.shape())?;
        find_not_finite("the state", state)?;
        upload(&self.backend, state, &mut self.u)?;
        self.has_before = false;
        if let (Some(source), Some(to)) = (before, &mut self.before) {
            if source.shape() != self.heat.shape() {
                let expected = self.heat.shape().to_string();
                return Err(Error::shape("the state before", source.shape().to_string(), expected));
            }
            find_not_finite("the state before", source)?;
            upload(&self.backend, source, to)?;
            self.has_before = true;
        }
        // Cells that take no part hold 0.
        if let Some(mask) = self.heat.inactive() {
            let mut values = vec![0.0; mask.len()];
            let shape = self.heat.shape();
            for vector in std::iter::once(&mut self.u).chain(&mut self.before) {
                self.backend.download(vector, &mut ArrayViewMut::c_order(&mut values, shape)?)?;
                values.iter_mut().zip(&mask).filter(|(_, inactive)| **inactive).for_each(|(value, _)| *value = 0.0);
                self.backend.upload(ArrayView::c_order(&values, shape)?, vector)?;
            }
        }
        self.taken = steps;
        Ok(())
    }

    fn read(&mut self, mut state: Target<'_>) -> Result<()> {
        self.check_shape("the state", state.shape())?;
        download(&self.backend, &self.u, &mut state)
    }

    fn read_before(&mut self, mut state: Target<'_>) -> Result<bool> {
        self.check_shape("the state", state.shape())?;
        match (&self.before, self.has_before) {
            (Some(before), true) => download(&self.backend, before, &mut state).map(|()| true),
            _ => Ok(false),
        }
    }

    fn energy(&mut self) -> Result<f64> {
        let Self { backend, system, mass, u, source, scalars, .. } = self;
        // (K + c M) u − c M u
        system.apply_to(u)?;
        let (b, w) = system.vectors_mut();
        match mass {
            Some((_, mass)) => {
                mass.apply(u, w)?;
                backend.axpy(Ratio::ONE.negated(), w, b, scalars)?;
            }
            None => backend.axpy(Ratio::new(C, Scalar::ONE).negated(), u, b, scalars)?,
        }
        backend.dot(u, b, PRODUCT, scalars)?;
        if let Some(source) = source {
            backend.dot(u, source, SOURCE, scalars)?;
        }
        let bank = backend.read(scalars)?;
        Ok(0.5 * bank[PRODUCT.index()] - if source.is_some() { bank[SOURCE.index()] } else { 0.0 })
    }

    fn taken(&self) -> usize {
        self.taken
    }

    fn description(&self) -> &Description {
        self.system.description()
    }
}
