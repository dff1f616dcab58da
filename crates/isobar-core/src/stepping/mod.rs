//! The heat equation through time.
//!
//! * this file: what a caller sees, whatever the device,
//! * [`stepper`] the θ scheme, written once over any back end; `adaptive` how it chooses the length of steps,
//!   `arrays` what vectors have of callers' arrays,
//! * [`trial`] which preconditioner is the fastest.

mod adaptive;
mod arrays;
pub mod stepper;
pub mod trial;

use crate::array::{Source, Target};
use crate::build::Description;
use crate::error::Result;
use crate::options::{Scheme, StepGuess, Steps};
use crate::outcome::Outcome;
use crate::problem::Heat;
use crate::solver::Observer;

pub use stepper::HeatStepper;
pub use trial::Tried;

/// How to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatOptions {
    /// The steps; where they choose their length, the first one's and the end.
    pub steps: Steps,
    /// The largest estimated error of a step, relative to ‖u‖, where steps choose their length.
    pub error: Option<f64>,
    /// The time discretisation.
    pub scheme: Scheme,
    /// The first guess of a step's solve.
    pub guess: StepGuess,
}

/// A step that was taken, or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// The time that it leads to.
    pub time: f64,
    /// Its length.
    pub dt: f64,
    /// The estimate of its error, relative to ‖u‖, where it chose its length.
    pub error: Option<f64>,
    /// How often it was tried with a greater length.
    pub rejected: usize,
    /// Iterations of all its solves: of estimates and of greater lengths too.
    pub iterations: usize,
    /// The outcome of its solve. If that did not converge, the state is the one before the step.
    pub outcome: Outcome,
    /// Whether the state is the new one.
    pub is_taken: bool,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Steps taken.
    pub steps: usize,
    /// The time that they lead to.
    pub time: f64,
    /// How long the next one wants to be.
    pub dt: f64,
}

/// A state on its way through time.
pub trait Evolve: Send {
    /// Takes the next step.
    ///
    /// # Errors
    /// The errors of the device; [`Error::Invalid`](crate::Error::Invalid) where there is none left, or where the state is
    /// not finite. A solve that does not converge is an outcome.
    fn step(&mut self, observer: &mut Observer<'_>) -> Result<Step>;

    /// Sets the state, and the one before it where steps extrapolate and it is known, after so many steps.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); [`Error::NotFinite`](crate::Error::NotFinite), naming the cell.
    fn set(&mut self, state: Source<'_>, before: Option<Source<'_>>, steps: usize) -> Result<()>;

    /// Reads the state.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); the errors of the device.
    fn read(&mut self, state: Target<'_>) -> Result<()>;

    /// Reads the state before, which extrapolating steps need to go on. Returns whether there is one.
    ///
    /// # Errors
    /// See [`Evolve::read`].
    fn read_before(&mut self, state: Target<'_>) -> Result<bool>;

    /// ½ uᵀK u − sᵀu, which without a source is ½ ∫ κ |∇u|² and never grows.
    ///
    /// # Errors
    /// The errors of the device.
    fn energy(&mut self) -> Result<f64>;

    /// Other coefficients, boundary values and sources from the next step on, on the same grid; the state stays. The device
    /// allocates nothing, unless there was no source before.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another grid, other active cells, or coefficients of another form; what
    /// the device reports.
    fn update(&mut self, heat: Heat) -> Result<()>;

    /// Steps taken.
    fn taken(&self) -> usize;

    /// Where the run is.
    fn moment(&self) -> Moment;

    /// Goes on from where a run was whose steps choose their length; other steps are known by their number.
    fn resume(&mut self, moment: Moment);

    /// Whether the end is reached.
    fn is_finished(&self) -> bool;

    /// Describes the stepper.
    fn description(&self) -> &Description;
}
