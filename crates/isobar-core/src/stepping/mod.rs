//! The heat equation through time.
//!
//! * this file: what a caller sees, whatever the device,
//! * [`stepper`] the θ scheme, written once over any back end.

pub mod stepper;

use crate::array::{Source, Target};
use crate::build::Description;
use crate::error::Result;
use crate::options::{Scheme, StepGuess, Steps};
use crate::outcome::Outcome;
use crate::solver::Observer;

pub use stepper::HeatStepper;

/// How to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatOptions {
    /// The steps.
    pub steps: Steps,
    /// The time discretisation.
    pub scheme: Scheme,
    /// What the solve of a step starts from.
    pub guess: StepGuess,
}

/// A step that was taken, or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// The time that it leads to.
    pub time: f64,
    /// Of its solve. Where that did not converge, the state is the one before the step.
    pub outcome: Outcome,
    /// Whether the state is the new one.
    pub is_taken: bool,
}

/// A state on its way through time.
pub trait Evolve: Send {
    /// Takes the next step.
    ///
    /// # Errors
    /// What the device reports; [`Error::Invalid`](crate::Error::Invalid) where there is none left, or where the state is
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
    /// [`Error::Shape`](crate::Error::Shape); what the device reports.
    fn read(&mut self, state: Target<'_>) -> Result<()>;

    /// Reads the state before, which extrapolating steps need to go on. Returns whether there is one.
    ///
    /// # Errors
    /// As [`Evolve::read`].
    fn read_before(&mut self, state: Target<'_>) -> Result<bool>;

    /// ½ uᵀK u − sᵀu, which without a source is ½ ∫ κ |∇u|² and never grows.
    ///
    /// # Errors
    /// What the device reports.
    fn energy(&mut self) -> Result<f64>;

    /// Steps taken.
    fn taken(&self) -> usize;

    /// What was put together.
    fn description(&self) -> &Description;
}
