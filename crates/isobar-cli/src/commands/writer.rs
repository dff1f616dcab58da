//! Frames and checkpoints of a run, written by a thread of its own while the next steps are computed.
//!
//! At most one waits while another is written: where the disk is slower than the steps, steps wait. What fails is said by the
//! next call; nothing more is written then.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use isobar_case::memory;
use isobar_io::{Checkpoint, Field, Mesh, Series, checkpoint};

use crate::failure::{Failure, Result};

/// What is written.
pub(super) enum Job {
    /// A frame of the output.
    Frame { time: f64, values: Vec<f64>, attributes: BTreeMap<String, String> },
    /// A checkpoint after so many steps.
    Checkpoint { path: PathBuf, steps: usize, facts: BTreeMap<String, String>, arrays: Vec<(String, Vec<f64>)> },
}

/// What all frames have in common.
pub(super) struct Common {
    pub(super) mesh: Mesh,
    pub(super) active: Option<Vec<bool>>,
    /// (nz, ny, nx)
    pub(super) shape: [usize; 3],
}

/// What the thread has come to.
#[derive(Default)]
struct State {
    failure: Option<Failure>,
    /// Whether something failed.
    is_stopped: bool,
    /// Steps when the last checkpoint was written that is complete.
    checked: Option<usize>,
    /// Arrays that are free to be filled again.
    spare: Vec<Vec<f64>>,
}

/// The thread and the way to it.
pub(super) struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<Option<Series>>>,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Starts the thread; `checked` is the number of steps that a checkpoint has been written after, if there is one.
    pub(super) fn start(common: Arc<Common>, mut series: Option<Series>, checked: Option<usize>) -> Result<Self> {
        let (sender, jobs) = sync_channel::<Job>(1);
        let state = Arc::new(Mutex::new(State { checked, ..State::default() }));
        let shared = Arc::clone(&state);
        let work = move || {
            for job in jobs {
                if lock(&shared).is_stopped {
                    continue;
                }
                let written = write(&common, series.as_mut(), &job);
                let mut state = lock(&shared);
                match (written, job) {
                    (Ok(()), Job::Frame { values, .. }) => state.spare.push(values),
                    (Ok(()), Job::Checkpoint { steps, arrays, .. }) => {
                        state.checked = Some(steps);
                        state.spare.extend(arrays.into_iter().map(|(_, values)| values));
                    }
                    (Err(failure), _) => (state.failure, state.is_stopped) = (Some(failure), true),
                }
            }
            series
        };
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(work);
        let thread =
            thread.map_err(|error| Failure::new(format!("the thread that writes cannot be started: {error}")))?;
        Ok(Self { jobs: Some(sender), thread: Some(thread), state })
    }

    /// A copy of an array, to be written.
    pub(super) fn copy(&self, values: &[f64]) -> Result<Vec<f64>> {
        let mut copy = match lock(&self.state).spare.pop() {
            Some(spare) => spare,
            None => memory::collect("a state that is written while steps go on", values.len(), [])?,
        };
        copy.clear();
        copy.extend_from_slice(values);
        Ok(copy)
    }

    /// Writes something, some time.
    pub(super) fn write(&self, job: Job) -> Result<()> {
        self.check()?;
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => self.check().and(Err(Failure::new("the thread that writes has stopped".to_owned()))),
        }
    }

    /// Fails with what has failed, once.
    pub(super) fn check(&self) -> Result<()> {
        lock(&self.state).failure.take().map_or(Ok(()), Err)
    }

    /// Steps after which the last complete checkpoint was written.
    pub(super) fn checked(&self) -> Option<usize> {
        lock(&self.state).checked
    }

    /// Waits until all is written. Returns the frames, to be finished.
    pub(super) fn finish(&mut self) -> Result<Option<Series>> {
        drop(self.jobs.take());
        let series = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(series)) => series,
            Some(Err(_)) => return Err(Failure::new("the thread that writes failed".to_owned())),
            None => None,
        };
        self.check()?;
        Ok(series)
    }
}

impl Drop for Writer {
    /// What is left unfinished is taken away before the process ends.
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn write(common: &Common, series: Option<&mut Series>, job: &Job) -> Result<()> {
    match job {
        Job::Frame { time, values, attributes } => {
            let Some(series) = series else { return Ok(()) };
            let Common { mesh, active, shape } = common;
            let field = Field {
                name: "u",
                values,
                shape: *shape,
                mesh,
                active: active.as_deref(),
                attributes: attributes.clone(),
            };
            series.push(*time, &field).map_err(|error| Failure::new(format!("--output {error}")))
        }
        Job::Checkpoint { path, facts, arrays, .. } => {
            let arrays = arrays.iter().map(|(name, values)| (name.clone(), values.as_slice())).collect();
            let made = checkpoint::write(path, &Checkpoint { shape: common.shape, facts: facts.clone(), arrays });
            made.map_err(|error| Failure::new(format!("heat.checkpoint: {error}")))
        }
    }
}
