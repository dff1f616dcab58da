//! Iterations that are recorded once and replayed.
//!
//! The body of an iteration is run on the host twice, for an even and an odd iteration (and once more if the first iteration differs),
//! and its launches are noted instead of submitted. They are then submitted repeatedly: one by one at first, later as a CUDA graph, which
//! is cheaper to launch but costs time to make. A kernel at the end of each iteration writes the scalars to host
//! memory, which the host polls.
//!
//! The host examines every iteration before it submits the next, so that vectors end exactly as after the
//! last iteration. Preparation overlaps with work of the GPU: the odd iteration is noted during the
//! first, and graphs are made during iterations with the same launches, after a few of them, so that no solve waits for
//! them. (If an iteration takes less time than making a graph, some tens of microseconds,
//! the difference is paid once.) Iterations that call a library are not made into graphs: not
//! every library allows it, and such calls are long compared with a launch.

use std::ops::ControlFlow;

use isobar_core::backend::{BodyAfter, Scalar};
use isobar_core::error::Result;

use crate::driver::{Context, Graph};
use crate::launch::{Kernel, Submission, record};
use crate::scalars::Scalars;

/// A graph is made after this many launches over all iterations of all solves: for a multigrid cycle with
/// dozens of launches in its second iteration, for conjugate gradients with few launches in about the tenth.
const WORTH_A_GRAPH: usize = 32;
/// And after this many runs of an iteration: most iterations that run once never run again.
const RUNS_BEFORE_A_GRAPH: usize = 2;

/// The launches of the even or the odd iterations.
#[derive(Debug, Default)]
struct Recording {
    launches: Vec<Submission>,
    graph: Option<Graph>,
    runs: usize,
}

impl Recording {
    /// Replaces the recorded launches, if they have changed.
    fn update(&mut self, launches: Vec<Submission>) {
        if self.launches != launches {
            *self = Self { launches, graph: None, runs: 0 };
        }
    }

    /// Submits the launches, the last of which publishes these scalars.
    fn submit(&mut self, context: &Context, scalars: &Scalars) -> Result<()> {
        self.runs += 1;
        match &self.graph {
            Some(graph) => context.replay(graph)?,
            None => self.launches.iter().try_for_each(|launch| launch.run(context.stream()))?,
        }
        scalars.note_submitted();
        Ok(())
    }

    /// Makes the graph, if it pays. Called while the GPU runs these launches.
    fn make_graph(&mut self, context: &Context) -> Result<()> {
        let is_time = self.runs >= RUNS_BEFORE_A_GRAPH && self.runs * self.launches.len() >= WORTH_A_GRAPH;
        let is_kernels_only = || self.launches.iter().all(|launch| matches!(launch, Submission::Launch(_)));
        if self.graph.is_none() && is_time && is_kernels_only() {
            self.graph = Some(context.record(|stream| self.launches.iter().try_for_each(|launch| launch.run(stream)))?);
        }
        Ok(())
    }
}

/// The recorded iterations for a bank of scalars.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// A first iteration that differs from the others.
    first: Recording,
    even: Recording,
    odd: Recording,
}

/// Implements [`Backend::iterate`](isobar_core::backend::Backend::iterate), and, with `after`,
/// [`Backend::iterate_after`](isobar_core::backend::Backend::iterate_after).
pub(crate) fn iterate(
    context: &Context,
    publish: &Kernel,
    scalars: &mut Scalars,
    after: bool,
    body: &mut BodyAfter<'_, Scalars>,
    observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
) -> Result<()> {
    context.bind()?;
    let mut recorded = std::mem::take(&mut scalars.recorded);
    let mut prepare = |recording: &mut Recording, n: Option<usize>, scalars: &mut Scalars| {
        let mut launches = record(|| body(n, scalars))?;
        launches.push(Submission::Launch(scalars.publish(publish)));
        recording.update(launches);
        Ok::<_, isobar_core::Error>(())
    };
    let Recorded { first, even, odd } = &mut recorded;
    if after {
        prepare(first, None, scalars)?;
        first.submit(context, scalars)?;
        // The GPU runs this iteration while the others are prepared.
        first.make_graph(context)?;
    }
    prepare(even, Some(0), scalars)?;
    let mut n = 0;
    if !after || observe(&scalars.wait()?).is_continue() {
        loop {
            let now = if n % 2 == 0 { &mut *even } else { &mut *odd };
            now.submit(context, scalars)?;
            now.make_graph(context)?;
            if n == 0 {
                prepare(odd, Some(1), scalars)?;
            }
            n += 1;
            if observe(&scalars.wait()?).is_break() {
                break;
            }
        }
    }
    scalars.recorded = recorded;
    // Steps that swap two vectors have swapped them an even number of times, or once; restore the state after n iterations.
    match n {
        0 => record(|| body(Some(1), scalars)).map(drop),
        n if n % 2 == 1 => record(|| body(Some(0), scalars)).map(drop),
        _ => Ok(()),
    }
}
