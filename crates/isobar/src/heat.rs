//! The heat equation on any device.

use std::fmt;
use std::sync::Arc;

use isobar_core::build::Description;
use isobar_core::prelude::{Evolve, Heat, HeatOptions, Observer, Result, Shape, SolverOptions, Source, ignore};
use isobar_core::stepping::{Moment, Step};
use isobar_dist::{Ranks, together};

use crate::arrays::{Input, Output};
use crate::device::Device;
use crate::divided::{require_same, require_same_system};
use crate::process::OfProcess;

/// A stepper of u_t = ∇·(κ∇u) − c u + f: a problem in space, a scheme, a solver and a device, with all the memory that stepping
/// takes.
///
/// On one of several [`Ranks`](crate::Ranks) it takes arrays of its own rows, or of the whole grid, of which it reads and writes
/// its own rows. After a `fork()` every call that computes fails in the new process, as for a [`Solver`](crate::Solver).
pub struct TimeStepper {
    inner: OfProcess<Box<dyn Evolve>>,
    /// The ranks, where there are several.
    ranks: Option<Arc<Ranks>>,
    shape: Shape,
    /// Notes about options that its solver does not use.
    unused: Vec<String>,
}

/// Runs `work` on all ranks together, or on this process alone.
fn on_all<R>(ranks: Option<&Arc<Ranks>>, work: impl FnOnce() -> Result<R>) -> Result<R> {
    match ranks {
        Some(ranks) => together(&**ranks.world(), work),
        None => work(),
    }
}

impl TimeStepper {
    /// Puts everything on a device and sets the state to 0.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for invalid options, and for options that differ between ranks; the errors of the device.
    pub fn new(device: &Device, heat: Heat, options: HeatOptions, solver: &SolverOptions) -> Result<Self> {
        device.require_process()?;
        let shape = heat.shape();
        let ranks = device.ranks().cloned();
        let make = || -> Result<Box<dyn Evolve>> {
            if let Some(ranks) = &ranks {
                require_same_system(&**ranks.world(), &heat.stiffness, Some(solver))?;
                require_same(&**ranks.world(), "an option of the time steps", format!("{options:?}").as_bytes())?;
            }
            Ok(match device {
                Device::Cpu(backend) => isobar_cpu::solvers::heat(backend, heat, options, solver)?,
                Device::Cuda(backend) => isobar_cuda::solvers::heat(backend, heat, options, solver)?,
                Device::Cards(cards) => cards.stepper(&heat, options, solver)?,
            })
        };
        let inner = OfProcess::new("the time stepper", on_all(ranks.as_ref(), make)?);
        let Description { method, preconditioner, .. } = inner.anywhere().description();
        let unused = solver.unused_parts(method, preconditioner);
        Ok(Self { inner, ranks, shape, unused })
    }

    /// Runs `work` on all ranks together.
    fn each<R>(&mut self, work: impl FnOnce(&mut dyn Evolve) -> Result<R>) -> Result<R> {
        let inner = self.inner.get_mut()?;
        on_all(self.ranks.as_ref(), || work(&mut **inner))
    }

    /// Sets the first state.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); [`Error::NotFinite`](crate::Error::NotFinite), naming the cell.
    pub fn set<'a>(&mut self, state: impl Input<'a>) -> Result<()> {
        let shape = self.shape;
        self.each(|inner| inner.set(state.source(shape)?, None, 0))
    }

    /// Replaces the state between two steps, for models with more than diffusion; the number and time of steps continue.
    /// Extrapolation starts again.
    ///
    /// # Errors
    /// See [`TimeStepper::set`].
    pub fn replace<'a>(&mut self, state: impl Input<'a>) -> Result<()> {
        let moment = self.moment();
        self.set(state)?;
        self.resume(moment);
        Ok(())
    }

    /// Sets the state after `steps` steps, and the one before it, which extrapolating steps need.
    ///
    /// # Errors
    /// See [`TimeStepper::set`].
    pub fn restore(&mut self, state: &[f64], before: Option<&[f64]>, steps: usize) -> Result<()> {
        let shape = self.shape;
        self.each(|inner| {
            let before: Option<Source<'_>> = before.map(|before| before.source(shape)).transpose()?;
            inner.set(state.source(shape)?, before, steps)
        })
    }

    /// Continues a run with adaptive steps from its moment, after [`TimeStepper::restore`].
    pub fn resume(&mut self, moment: Moment) {
        self.inner.anywhere_mut().resume(moment);
    }

    /// Sets other coefficients, boundary values and sources from the next step on, on the same grid. The state does not change,
    /// and nothing is allocated on the device, except for a source if there was none.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for another grid, other active cells, or coefficients of another form; the
    /// errors of the device.
    pub fn update(&mut self, heat: Heat) -> Result<()> {
        let ranks = self.ranks.clone();
        self.each(|inner| {
            if let Some(ranks) = &ranks {
                require_same_system(&**ranks.world(), &heat.stiffness, None)?;
            }
            inner.update(heat)
        })
    }

    /// Takes the next step.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) after the last one; the errors of the device. A solve that does not converge is
    /// an outcome, and does not change the state.
    pub fn step(&mut self) -> Result<Step> {
        self.step_observed(&mut ignore)
    }

    /// Takes the next step with an observer of its solve.
    ///
    /// # Errors
    /// See [`TimeStepper::step`].
    pub fn step_observed(&mut self, observer: &mut Observer<'_>) -> Result<Step> {
        self.each(|inner| inner.step(observer))
    }

    /// Reads the state.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); the errors of the device.
    pub fn state<'a>(&mut self, to: impl Output<'a>) -> Result<()> {
        let shape = self.shape;
        self.each(|inner| inner.read(to.target(shape)?))
    }

    /// Reads the previous state, where steps extrapolate. Returns whether there is one.
    ///
    /// # Errors
    /// See [`TimeStepper::state`].
    pub fn state_before<'a>(&mut self, to: impl Output<'a>) -> Result<bool> {
        let shape = self.shape;
        self.each(|inner| inner.read_before(to.target(shape)?))
    }

    /// Returns ½ uᵀK u − sᵀu; without a source ½ ∫ κ |∇u|², which never grows.
    pub fn energy(&mut self) -> Result<f64> {
        self.each(|inner| inner.energy())
    }

    /// Returns the number of steps taken.
    pub fn taken(&self) -> usize {
        self.inner.anywhere().taken()
    }

    /// Returns the time, number and length of steps of the run.
    pub fn moment(&self) -> Moment {
        self.inner.anywhere().moment()
    }

    /// Returns whether the end is reached.
    pub fn is_finished(&self) -> bool {
        self.inner.anywhere().is_finished()
    }

    /// Describes the stepper: the device, the method, memory, and notes for the user.
    pub fn description(&self) -> &Description {
        self.inner.anywhere().description()
    }

    /// Returns notes about options that were given and that its solver did not use at the start.
    pub fn unused_options(&self) -> &[String] {
        &self.unused
    }
}

impl fmt::Debug for TimeStepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeStepper").field("shape", &self.shape).field("description", self.description()).finish()
    }
}
