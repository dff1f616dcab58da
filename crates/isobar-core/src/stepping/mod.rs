//! The heat equation through time.
//!
//! * this file: the interface for callers, on any device,
//! * [`stepper`]: the θ scheme, written once over any back end; `adaptive`: step-length control, `arrays`: callers' arrays,
//!   `conservation`: the heat of insulated components.

mod adaptive;
mod arrays;
mod conservation;
pub mod stepper;

use crate::build::Description;
use crate::options::{Scheme, StepGuess, Steps};
use crate::outcome::Outcome;
use crate::policy::heat::{MOST_UNEVEN, has_even_rows};
use crate::problem::{Heat, Mass};
use crate::solver::Observer;
use crate::{Result, Source, Target};

pub use stepper::HeatStepper;

/// Options of time stepping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatOptions {
    /// The steps; with adaptive lengths, the first one's length and the end.
    pub steps: Steps,
    /// The largest estimated error of a step, relative to ‖u‖, for adaptive lengths.
    pub error: Option<f64>,
    /// The time discretisation.
    pub scheme: Scheme,
    /// The first guess of a step's solve.
    pub guess: StepGuess,
}

impl Heat {
    /// Returns whether the rows of all steps' matrices are of similar size: no cell is held by a far larger shift than others, nor by couplings.
    pub(crate) fn has_even_rows(&self, options: &HeatOptions) -> bool {
        let stiffness = &self.stiffness;
        // A step of automatic length may be as long as the run.
        let longest = if options.error.is_some() { options.steps.end } else { options.steps.dt };
        let c = 1.0 / (options.scheme.theta() * longest);
        let volume = |n: usize| match &self.mass {
            Mass::Uniform(volume) => *volume,
            Mass::Given(volumes) => volumes[n],
        };
        let least = match &self.mass {
            Mass::Uniform(volume) => *volume,
            Mass::Given(volumes) => volumes.iter().copied().filter(|&v| v > 0.0).fold(f64::INFINITY, f64::min),
        };
        // The shift of a step and the cell's own, over that of the step.
        let times = |(n, shift): (usize, &f64)| 1.0 + if *shift == 0.0 { 0.0 } else { shift / (c * volume(n)) };
        let own = stiffness.stored_shift().unwrap_or_default();
        let most = own.iter().enumerate().map(times).fold(1.0, f64::max);
        let is_active = |(n, _): &(usize, &f64)| stiffness.is_active(self.shape().place(*n));
        let smallest = || own.iter().enumerate().filter(is_active).map(times).fold(f64::INFINITY, f64::min);
        let shifts = if most > MOST_UNEVEN { most / smallest() } else { most };
        has_even_rows([shifts, stiffness.largest_row() / (c * least), stiffness.contrast()])
    }
}

impl HeatOptions {
    /// Returns c = 1/(θ Δt) of the first step, whose matrix is K + c M.
    pub fn first_shift(&self) -> f64 {
        1.0 / (self.scheme.theta() * self.steps.length(0))
    }
}

/// A step that was attempted.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: usize,
    /// The time that it leads to.
    pub time: f64,
    /// The length of the step.
    pub dt: f64,
    /// The estimate of its error, relative to ‖u‖, for adaptive lengths.
    pub error: Option<f64>,
    /// How often the step was rejected with a greater length.
    pub rejected: usize,
    /// Iterations of all its solves, those of estimates and rejected lengths included.
    pub iterations: usize,
    /// The outcome of the step's solve. If that did not converge, the state is the one before the step.
    pub outcome: Outcome,
    /// Whether the step was taken, so that the state is the new one.
    pub is_taken: bool,
}

/// The time, number and length of steps of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Steps taken.
    pub steps: usize,
    /// The time after them.
    pub time: f64,
    /// The desired length of the next step.
    pub dt: f64,
}

/// A state that evolves in time.
pub trait Evolve: Send {
    /// Takes the next step.
    ///
    /// # Errors
    /// The errors of the device; [`Error::Invalid`](crate::Error::Invalid) if no step is left, or if the state is not finite. A solve
    /// that does not converge is an outcome.
    fn step(&mut self, observer: &mut Observer<'_>) -> Result<Step>;

    /// Sets the state, and the previous one where steps extrapolate and it is known, after `steps` steps.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); [`Error::NotFinite`](crate::Error::NotFinite), naming the cell.
    fn set(&mut self, state: Source<'_>, before: Option<Source<'_>>, steps: usize) -> Result<()>;

    /// Reads the state.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); the errors of the device.
    fn read(&mut self, state: Target<'_>) -> Result<()>;

    /// Reads the previous state, which extrapolating steps need to continue. Returns whether there is one.
    ///
    /// # Errors
    /// See [`Evolve::read`].
    fn read_before(&mut self, state: Target<'_>) -> Result<bool>;

    /// Returns ½ uᵀK u − sᵀu, which without a source is ½ ∫ κ |∇u|² and never grows.
    fn energy(&mut self) -> Result<f64>;

    /// Sets other coefficients, boundary values and sources from the next step on, on the same grid; the state does not change. The
    /// device allocates nothing, unless there was no source before.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another grid, other active cells, or coefficients of another form; the
    /// errors of the device.
    fn update(&mut self, heat: Heat) -> Result<()>;

    /// Returns the number of steps taken.
    fn taken(&self) -> usize;

    /// Returns the time, number and length of steps of the run.
    fn moment(&self) -> Moment;

    /// Continues a run with adaptive steps from its moment; other steps are determined by their number.
    fn resume(&mut self, moment: Moment);

    /// Returns whether the end is reached.
    fn is_finished(&self) -> bool;

    /// Describes the stepper.
    fn description(&self) -> &Description;
}
