//! Iterations, recorded once and replayed.
//!
//! The body of an iteration runs on the host twice, for an even and an odd iteration, once more where the first is of another
//! kind, and only its launches are noted. They are then submitted again and again: one by one at first, and then as a CUDA graph, whose
//! launch is cheaper but whose making is not. A kernel at the end of each iteration writes the scalars to the host's
//! memory, where the host watches for them.
//!
//! The host looks at every iteration before it submits the next, so that vectors end exactly as after the
//! iteration that stops. What can be prepared is prepared while the GPU works: the odd iteration's launches during the
//! first, and the graphs during iterations of the same launches, as soon as there have been a few, so that a solve waits for
//! neither, not the one that makes them nor any other. (Where an iteration takes less time on the GPU than a graph takes to
//! be made, some tens of microseconds, what is left is paid once.) Iterations that call a library are not made graphs: not
//! every library allows it, and what is called is long beside its launch.

use std::ops::ControlFlow;

use isobar_core::backend::{BodyAfter, Scalar};
use isobar_core::error::Result;

use crate::driver::{Context, Graph};
use crate::launch::{Kernel, Submission, record};
use crate::scalars::Scalars;

/// A graph is made when so many launches have been submitted, over all iterations of all solves: for a multigrid cycle of
/// dozens of launches in its second iteration, for the few of conjugate gradients in their tenth or so.
const WORTH_A_GRAPH: usize = 32;
/// And when an iteration has run so often: most that run once never run again.
const RUNS_BEFORE_A_GRAPH: usize = 2;

/// The launches of the even or the odd iterations.
#[derive(Debug, Default)]
struct Recording {
    launches: Vec<Submission>,
    graph: Option<Graph>,
    runs: usize,
}

impl Recording {
    /// Replaces what was recorded, unless it was the same.
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

    /// Makes the graph, if it is time to. Called while the GPU runs these launches.
    fn make_graph(&mut self, context: &Context) -> Result<()> {
        let is_time = self.runs >= RUNS_BEFORE_A_GRAPH && self.runs * self.launches.len() >= WORTH_A_GRAPH;
        let is_kernels_only = || self.launches.iter().all(|launch| matches!(launch, Submission::Launch(_)));
        if self.graph.is_none() && is_time && is_kernels_only() {
            self.graph = Some(context.record(|stream| self.launches.iter().try_for_each(|launch| launch.run(stream)))?);
        }
        Ok(())
    }
}

/// The last iterations that ran on a bank of scalars.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// The one of another kind before all others.
    first: Recording,
    even: Recording,
    odd: Recording,
}

/// See [`Backend::iterate`](isobar_core::backend::Backend::iterate), and, with `after`,
/// [`Backend::iterate_after`](isobar_core::backend::Backend::iterate_after).
pub(crate) fn iterate(
    context: &Context,
    publish: Kernel,
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
        // The GPU is at work on it while the others are prepared.
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
    // Steps that exchange two vectors have done so an even number of times, or once; leave them as after n.
    match n {
        0 => record(|| body(Some(1), scalars)).map(drop),
        n if n % 2 == 1 => record(|| body(Some(0), scalars)).map(drop),
        _ => Ok(()),
    }
}
