//! The θ scheme.

mod within;

use std::sync::Arc;

use super::adaptive::Control;
use super::arrays::Arrays;
use super::conservation::Conservation;
use super::{Evolve, HeatOptions, Moment, Step};
use crate::build::{Description, Solve, System};
use crate::operator::{Guess, Operator};
use crate::options::{Norm, SolverOptions, StepGuess};
use crate::outcome::{Outcome, Stop};
use crate::problem::{Heat, Mass};
use crate::solver::Observer;
use crate::stencil::{Diffusion, Supports};
use crate::{Error, Precision, Ratio, Result, Scalar, Source, Target};

/// A stepper of M u_t = −K u + s by the θ scheme, Crank–Nicolson (θ = ½) or backward Euler (θ = 1):
///
/// M (u' − u)/Δt = −K w + s,  w = θ u' + (1 − θ) u.
///
/// The unknown of a step is w, so that the right-hand side needs no product with K:
///
/// ```text
/// (K + c M) w = c M u + s,   c = 1/(θ Δt)
/// u' = u + (w − u)/θ
/// ```
///
/// Residuals are those of the system for u' (paper E's A u = b), times a constant.
///
/// Storage besides the solver's: u; the previous state if steps extrapolate; s if there is one; the ones if they are first guesses; the
/// coefficients of c M if volumes differ; two states for adaptive lengths. A step allocates no vector. On ranks arrays have a rank's own rows, or
/// the whole grid.
pub struct HeatStepper<B: Supports<Diffusion>> {
    backend: B,
    heat: Heat,
    arrays: Arrays,
    options: HeatOptions,
    precision: Precision,
    norm: Norm,
    system: System<B, Diffusion>,
    /// The matrix c M, if volumes differ.
    mass: Option<(Arc<B::Operator<f64>>, Arc<dyn Operator<B, f64>>)>,
    u: B::Vector<f64>,
    before: Option<B::Vector<f64>>,
    /// Whether `before` holds the previous state.
    has_before: bool,
    /// 1 in every active cell, where that is the first guess.
    ones: Option<B::Vector<f64>>,
    source: Option<B::Vector<f64>>,
    /// The components that nothing fixes, if there are any.
    conservation: Option<Conservation<B>>,
    scalars: B::Scalars,
    /// Step-length control, for adaptive lengths.
    control: Option<Control<B>>,
    /// The step length of the current matrix.
    dt: f64,
    taken: usize,
    /// The time, and the desired length of the next step, for adaptive lengths.
    time: f64,
    wanted: f64,
}

/// [`HeatStepper::factor`]
const C: Scalar = Scalar::new(0);
const THETA: Scalar = Scalar::new(1);
/// (1 − θ)/θ
const REST: Scalar = Scalar::new(2);
/// Inner products.
const PRODUCT: Scalar = Scalar::new(3);
const SOURCE: Scalar = Scalar::new(4);
const ERROR: Scalar = Scalar::new(5);
const STATE: Scalar = Scalar::new(6);
/// 2 and 3
const TWO: Scalar = Scalar::new(7);
const THREE: Scalar = Scalar::new(8);

/// Returns the residual that rounding leaves, relative to ‖b‖ and to ‖A‖ ‖u‖, and the most that may be taken for it, relative to ‖b‖: as
/// A ≥ c M, the error of u relative to u is about that at most, and far smaller where rounding is that of stiff couplings.
fn rounding(precision: Precision) -> [f64; 3] {
    if precision == Precision::F32 { [1e-6, 2e-7, 1e-3] } else { [1e-13, 4e-16, 1e-3] }
}

impl<B: Supports<Diffusion>> HeatStepper<B> {
    /// Puts everything on the device and sets the state to 0. If `solver` leaves the preconditioner open, steps are solved directly if their
    /// matrix is separable, else by conjugate gradients without a preconditioner, or with lines in thin cells, which multigrid joins once a step is
    /// slow, or from the beginning where rows differ very much.
    ///
    /// # Errors
    /// See [`System::new`] and [`Heat::shifted`].
    pub fn new(backend: &B, heat: Heat, options: HeatOptions, solver: &SolverOptions) -> Result<Self> {
        let (dt, c) = (options.steps.length(0), options.first_shift());
        let stencil = heat.shifted(c)?;
        // Steps of automatic length grow.
        let has_lines = || options.error.is_none() && stencil.suits_lines(solver.tolerance);
        let iterated = solver.for_iterated_steps(|| heat.has_even_rows(&options), has_lines);
        let mut system = System::direct_or(backend, &stencil, solver, &iterated)?;
        system.require_lines()?;
        // The residual of a rough state may be 10⁸ times b, so that a fraction of it leaves nothing of the solution.
        system.bound_reference(None);
        let (turns, layout) = (system.turns(), system.layout);
        let mass = match &heat.mass {
            Mass::Uniform(_) => None,
            Mass::Given(volumes) => {
                let matrix = heat.only_mass(volumes, c)?.repeated(turns)?;
                let operator = backend.operator::<f64>(&matrix)?;
                let step = backend.capabilities(&operator).operator;
                Some((operator, step))
            }
        };
        let arrays = Arrays::new(heat.shape(), system.callers);
        let vector_of = |values: &[f64]| -> Result<B::Vector<f64>> {
            let mut vector = backend.zeros(&layout)?;
            arrays.send(backend, values, &mut vector)?;
            Ok(vector)
        };
        let ones = (options.guess == StepGuess::Ones)
            .then(|| {
                let active = heat.stiffness.cells().map(|at| f64::from(u8::from(heat.stiffness.is_active(at))));
                vector_of(&active.collect::<Vec<_>>())
            })
            .transpose()?;
        let source = heat.source.as_deref().map(vector_of).transpose()?;
        let control = options.error.map(|tolerance| Control::new(backend, &layout, tolerance)).transpose()?;
        let before = (options.guess == StepGuess::Extrapolated).then(|| backend.zeros(&layout)).transpose()?;
        let mut this = Self {
            conservation: None,
            u: backend.zeros(&layout)?,
            scalars: backend.scalars()?,
            backend: backend.clone(),
            precision: solver.precision,
            norm: solver.norm,
            options,
            heat,
            arrays,
            system,
            mass,
            before,
            has_before: false,
            ones,
            source,
            control,
            dt,
            taken: 0,
            time: 0.0,
            wanted: dt,
        };
        this.set_scalars()?;
        this.find_conserved()?;
        Ok(this)
    }

    fn theta(&self) -> f64 {
        self.options.scheme.theta()
    }

    /// Returns the factor of u on the right-hand side, after the product with c M where volumes differ.
    fn factor(&self) -> f64 {
        match &self.heat.mass {
            Mass::Uniform(volume) => 1.0 / (self.theta() * self.dt) * volume,
            Mass::Given(_) => 1.0,
        }
    }

    fn set_scalars(&mut self) -> Result<()> {
        let theta = self.theta();
        let all = [(C, self.factor()), (THETA, theta), (REST, (1.0 - theta) / theta), (TWO, 2.0), (THREE, 3.0)];
        for (scalar, value) in all {
            self.backend.set(&mut self.scalars, scalar, value)?;
        }
        Ok(())
    }

    /// Changes the matrix to that of another step length, or another problem. A matrix that is refused changes nothing.
    fn change(&mut self, heat: Option<Heat>, dt: f64) -> Result<()> {
        let (c, new) = (1.0 / (self.theta() * dt), heat.as_ref().unwrap_or(&self.heat));
        let mass = match (&self.mass, &new.mass) {
            (Some(_), Mass::Given(volumes)) => Some(new.only_mass(volumes, c)?.repeated(self.system.turns())?),
            _ => None,
        };
        self.system.update(&new.shifted(c)?)?;
        if let (Some((operator, _)), Some(matrix)) = (&self.mass, mass) {
            self.backend.update(&**operator, &matrix)?;
        }
        if let Some(heat) = heat {
            if !heat.has_even_rows(&self.options) {
                self.system.require_multigrid()?;
            }
            self.set_source(&heat)?;
            (self.heat, self.dt) = (heat, dt);
            self.find_conserved()?;
        }
        self.dt = dt;
        self.set_scalars()
    }

    fn set_source(&mut self, heat: &Heat) -> Result<()> {
        let Self { backend, arrays, .. } = self;
        match (&heat.source, &mut self.source) {
            (Some(values), Some(source)) => arrays.send(backend, values, source),
            (Some(values), None) => {
                let mut source = backend.zeros(&self.system.layout)?;
                arrays.send(backend, values, &mut source)?;
                self.source = Some(source);
                Ok(())
            }
            (None, Some(source)) => backend.clear(source),
            (None, None) => Ok(()),
        }
    }

    /// Computes b = c M x + s, x being u or another state. A residual of 10⁻¹³ ‖c M x‖ is an error of x of no more, where volumes are equal, as A ≥ c M; s may be
    /// larger by orders of magnitude, where few cells are coupled strongly to a fixed side.
    fn set_rhs(&mut self, x: Option<&mut B::Vector<f64>>) -> Result<()> {
        let factor = self.factor();
        let Self { backend, system, mass, u, source, scalars, .. } = self;
        let (b, x) = (system.rhs_mut(), x.unwrap_or(u));
        match mass {
            Some((_, mass)) => mass.apply(x, b)?,
            None => backend.convert(x, b)?,
        }
        let c = Ratio::new(C, Scalar::ONE);
        let content = match source {
            Some(_) => {
                backend.dot(b, b, PRODUCT.of(scalars))?;
                Some(factor * backend.read(scalars)?[PRODUCT.index()].sqrt())
            }
            None => None,
        };
        // Squares of large states overflow.
        let content = content.filter(|content| content.is_finite());
        system.bound_reference(content);
        let b = system.rhs_mut();
        match (source, mass.is_some()) {
            (Some(source), false) => backend.xpay(c, source, b, scalars),
            (Some(source), true) => backend.axpy(Ratio::ONE, source, b, scalars),
            (None, false) => backend.scale(factor, b),
            (None, true) => Ok(()),
        }
    }

    /// Computes w = θ u' + (1 − θ) u for a guess of u'.
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

    /// Computes u' = u + (w − u)/θ.
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

    /// Solves for the current right-hand side and first guess.
    fn solve(&mut self, observer: &mut Observer<'_>) -> Result<Outcome> {
        let mut outcome = self.system.solve_in_place(Guess::Given, observer)?;
        let is_stuck = matches!(outcome.stop, Stop::Stagnated | Stop::Breakdown);
        // From a residual at that level an iteration may also rise a little, or go on for nothing.
        let may_be_stuck = is_stuck || matches!(outcome.stop, Stop::Diverged | Stop::MaxIterations);
        if may_be_stuck && outcome.is_returned && self.norm == Norm::Initial {
            // A state that hardly changes leaves nothing to reduce: then rounding counts.
            let ([of_rhs, of_product, most], [residual, rhs, w]) =
                (rounding(self.precision), self.system.norms_left()?);
            let left = match is_stuck {
                true => of_rhs * rhs + of_product * self.heat.stiffness.largest_row() * w,
                false => 2e-13 * rhs,
            };
            // Constants, of which alone a residual says so little, are restored where nothing fixes them.
            let most = if self.conservation.is_some() { f64::INFINITY } else { most };
            if residual <= left.min(most * rhs) {
                (outcome.stop, outcome.advice) = (Stop::Converged, None);
                self.system.note_stuck(Some(residual));
                let left = residual / rhs;
                outcome.notes.push(format!("the residual, {left:.1e} of the right-hand side, is what rounding leaves"));
            }
        }
        self.restore_heat(&outcome)?;
        Ok(outcome)
    }

    /// Finds the components that nothing fixes, for new coefficients.
    fn find_conserved(&mut self) -> Result<()> {
        let factors = self.factors();
        let Self { backend, heat, system, mass, .. } = self;
        let mass = mass.as_ref().map(|(_, mass)| &**mass);
        self.conservation = Conservation::new(backend, &heat.stiffness, system, mass, factors)?;
        Ok(())
    }

    /// Returns c, and [`HeatStepper::factor`].
    fn factors(&self) -> [f64; 2] {
        [1.0 / (self.theta() * self.dt), self.factor()]
    }

    fn restore_heat(&mut self, outcome: &Outcome) -> Result<()> {
        let factors = self.factors();
        let Self { conservation: Some(conservation), backend, system, mass, .. } = self else { return Ok(()) };
        if !outcome.is_returned || !outcome.converged() {
            return Ok(());
        }
        conservation.restore(backend, system, mass.as_ref().map(|(_, mass)| &**mass), factors)
    }
}

impl<B: Supports<Diffusion>> Evolve for HeatStepper<B> {
    fn step(&mut self, observer: &mut Observer<'_>) -> Result<Step> {
        let steps = self.options.steps;
        if self.is_finished() {
            return Err(Error::invalid("heat.end_time", format!("{} has been reached", steps.end)));
        }
        if let Some(mut control) = self.control.take() {
            let step = self.step_within(&mut control, observer);
            self.control = Some(control);
            return step;
        }
        let dt = steps.length(self.taken);
        if dt != self.dt {
            self.change(None, dt)?;
        }
        self.set_rhs(None)?;
        self.set_guess()?;
        let outcome = self.solve(observer)?;
        let is_taken = outcome.converged();
        if is_taken {
            self.advance()?;
            self.taken += 1;
        }
        let number = self.taken + usize::from(!is_taken);
        let (time, iterations) = (steps.time(number), outcome.iterations);
        Ok(Step { number, time, dt, error: None, rejected: 0, iterations, outcome, is_taken })
    }

    fn set(&mut self, state: Source<'_>, before: Option<Source<'_>>, steps: usize) -> Result<()> {
        let Self { backend, arrays, u, .. } = self;
        arrays.check_finite("the state", state)?;
        arrays.upload(backend, "the state", state, u)?;
        self.has_before = false;
        if let (Some(source), Some(to)) = (before, &mut self.before) {
            arrays.check_finite("the state before", source)?;
            arrays.upload(backend, "the state before", source, to)?;
            self.has_before = true;
        }
        // Inactive cells hold 0.
        if let Some(mask) = self.heat.inactive() {
            for vector in std::iter::once(u).chain(&mut self.before) {
                arrays.clear_in(backend, &mask, vector)?;
            }
        }
        self.system.note_stuck(None);
        (self.taken, self.time, self.wanted) = (steps, 0.0, self.options.steps.length(0));
        Ok(())
    }

    fn read(&mut self, state: Target<'_>) -> Result<()> {
        self.arrays.download(&self.backend, "the state", &self.u, state)
    }

    fn read_before(&mut self, state: Target<'_>) -> Result<bool> {
        self.arrays.check("the state", state.shape())?;
        match (&self.before, self.has_before) {
            (Some(before), true) => self.arrays.download(&self.backend, "the state", before, state).map(|()| true),
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
        backend.dot(u, b, PRODUCT.of(scalars))?;
        if let Some(source) = source {
            backend.dot(u, source, SOURCE.of(scalars))?;
        }
        let bank = backend.read(scalars)?;
        let energy = 0.5 * bank[PRODUCT.index()] - if source.is_some() { bank[SOURCE.index()] } else { 0.0 };
        Ok(energy / self.system.turns().count() as f64)
    }

    fn update(&mut self, heat: Heat) -> Result<()> {
        self.arrays.check_whole("the new problem", heat.shape())?;
        let is_same_form = std::mem::discriminant(&heat.mass) == std::mem::discriminant(&self.heat.mass);
        if !is_same_form || heat.inactive() != self.heat.inactive() {
            let message = "it has other active cells, or volumes of another kind; begin a new run with it";
            return Err(Error::invalid("the new problem", message));
        }
        self.change(Some(heat), self.dt)
    }

    fn taken(&self) -> usize {
        self.taken
    }

    fn moment(&self) -> Moment {
        let Self { taken, options, .. } = self;
        let (steps, time, dt) = match self.control {
            Some(_) => (*taken, self.time, self.wanted),
            None => (*taken, options.steps.time(*taken), options.steps.length(*taken)),
        };
        Moment { steps, time, dt }
    }

    fn resume(&mut self, moment: Moment) {
        (self.taken, self.time, self.wanted) = (moment.steps, moment.time, moment.dt);
    }

    fn is_finished(&self) -> bool {
        let steps = self.options.steps;
        if self.control.is_some() { self.time >= steps.end } else { self.taken >= steps.count() }
    }

    fn description(&self) -> &Description {
        self.system.description()
    }
}
