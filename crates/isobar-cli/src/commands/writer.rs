//! Frames and checkpoints of a run, written by a separate thread while the next steps are computed.
//!
//! At most one waits while another is written: if the disk is slower than the steps, the steps wait. The first failure is returned
//! by the next check. No frame is written after one that failed; checkpoints, each of which is complete in itself, still are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use isobar_case::memory;
use isobar_io::{Checkpoint, Field, Mesh, Series, checkpoint};

use crate::failure::{Failure, Result};

/// A file to be written.
pub(super) enum Job {
    /// A frame of the output.
    Frame { time: f64, values: Vec<f64>, attributes: BTreeMap<String, String> },
    /// A checkpoint after this many steps.
    Checkpoint { path: PathBuf, steps: usize, facts: BTreeMap<String, String>, arrays: Vec<(String, Vec<f64>)> },
}

/// Data common to all frames.
pub(super) struct Common {
    pub(super) mesh: Mesh,
    pub(super) active: Option<Vec<bool>>,
    /// (nz, ny, nx)
    pub(super) shape: [usize; 3],
}

/// The state of the thread.
#[derive(Default)]
struct State {
    failure: Option<Failure>,
    /// The number of steps at the last complete checkpoint.
    checked: Option<usize>,
    /// Arrays available for reuse.
    spare: Vec<Vec<f64>>,
}

/// The writing thread with its queue.
pub(super) struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<Option<Series>>>,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Starts the thread; `checked` is the number of steps at an existing checkpoint, if any.
    pub(super) fn start(common: Arc<Common>, mut series: Option<Series>, checked: Option<usize>) -> Result<Self> {
        let (sender, jobs) = sync_channel::<Job>(1);
        let state = Arc::new(Mutex::new(State { checked, ..State::default() }));
        let shared = Arc::clone(&state);
        let work = move || {
            for job in jobs {
                let written = write(&common, series.as_mut(), &job);
                if written.is_err() && matches!(job, Job::Frame { .. }) {
                    // The frames before it stay.
                    series = None;
                }
                let mut state = lock(&shared);
                match (written, job) {
                    (Ok(()), Job::Frame { values, .. }) => state.spare.push(values),
                    (Ok(()), Job::Checkpoint { steps, arrays, .. }) => {
                        state.checked = Some(steps);
                        state.spare.extend(arrays.into_iter().map(|(_, values)| values));
                    }
                    (Err(failure), _) => {
                        state.failure.get_or_insert(failure);
                    }
                }
            }
            series
        };
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(work);
        let thread =
            thread.map_err(|error| Failure::new(format!("cannot start the thread that writes files: {error}")))?;
        Ok(Self { jobs: Some(sender), thread: Some(thread), state })
    }

    /// Copies an array for writing.
    pub(super) fn copy(&self, values: &[f64]) -> Result<Vec<f64>> {
        let mut copy = match lock(&self.state).spare.pop() {
            Some(spare) => spare,
            None => memory::collect("a copy of the state, for writing", values.len(), [])?,
        };
        copy.clear();
        copy.extend_from_slice(values);
        Ok(copy)
    }

    /// Queues a file for writing.
    pub(super) fn write(&self, job: Job) -> Result<()> {
        match self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => Ok(()),
            _ => self.check().and(Err(Failure::new("the thread that writes files has stopped".to_owned()))),
        }
    }

    /// Returns the first failure, once.
    pub(super) fn check(&self) -> Result<()> {
        lock(&self.state).failure.take().map_or(Ok(()), Err)
    }

    /// Returns the number of steps at the last complete checkpoint.
    pub(super) fn checked(&self) -> Option<usize> {
        lock(&self.state).checked
    }

    /// Waits until all files are written. Returns the frames, to be completed, and the first failure.
    pub(super) fn finish(&mut self) -> (Option<Series>, Result<()>) {
        drop(self.jobs.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(series)) => (series, self.check()),
            Some(Err(_)) => (None, Err(Failure::new("the thread that writes files failed".to_owned()))),
            None => (None, self.check()),
        }
    }
}

impl Drop for Writer {
    /// Stops the thread, so that unfinished files are removed before the process ends.
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
