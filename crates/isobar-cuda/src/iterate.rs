//! Iterations, recorded once and replayed.
//!
//! The body of an iteration runs on the host twice, for an even and an odd iteration, and only its
//! launches are noted. They are then submitted again and again: one by one at first, and, where there are
//! many, as a CUDA graph, whose launch is cheaper but whose making is not. (Iterations that call a library are
//! not made graphs: not every library allows it, and what is called is long beside its launch.) A kernel at the
//! end of each iteration writes the scalars to the host's memory, where the host watches for them.
//!
//! The host looks at every iteration before it submits the next, so that vectors end exactly as after the
//! iteration that stops; what can be prepared while the card works is prepared then.

use std::ops::ControlFlow;

use isobar_core::backend::{BodyAfter, Slot};
use isobar_core::error::Result;

use crate::driver::{Context, Graph};
use crate::launch::{Kernel, Submission, record};
use crate::scalars::Scalars;

/// Iterations of the same launches, over all solves, after which a graph is worth making.
const WORTH_A_GRAPH: usize = 4;

/// The launches of the even or the odd iterations.
#[derive(Debug, Default)]
struct Half {
    launches: Vec<Submission>,
    graph: Option<Graph>,
    iterations: usize,
}

impl Half {
    /// Replaces what was recorded, unless it was the same.
    fn update(&mut self, launches: Vec<Submission>) {
        if self.launches != launches {
            *self = Self { launches, graph: None, iterations: 0 };
        }
    }

    fn is_kernels_only(&self) -> bool {
        self.launches.iter().all(|submission| matches!(submission, Submission::Launch(_)))
    }

    fn submit(&mut self, context: &Context) -> Result<()> {
        let run = |stream| self.launches.iter().try_for_each(|launch| launch.run(stream));
        self.iterations += 1;
        if self.graph.is_none() && self.iterations > WORTH_A_GRAPH && self.is_kernels_only() {
            self.graph = Some(context.record(run)?);
        }
        match &self.graph {
            Some(graph) => context.replay(graph),
            None => run(context.stream()),
        }
    }
}

/// The last iteration that ran on a bank of scalars.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    halves: [Half; 2],
}

/// See [`Backend::iterate`](isobar_core::backend::Backend::iterate), and, with `after`,
/// [`Backend::iterate_after`](isobar_core::backend::Backend::iterate_after).
pub(crate) fn iterate(
    context: &Context,
    publish: Kernel,
    scalars: &mut Scalars,
    after: bool,
    body: &mut BodyAfter<'_, Scalars>,
    observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
) -> Result<()> {
    context.bind()?;
    if after {
        // The card is at work on it while the others are prepared.
        body(None, scalars)?;
        scalars.publish(publish).submit(context)?;
    }
    let mut recorded = std::mem::take(&mut scalars.recorded);
    let mut prepare = |half: &mut Half, n: usize, scalars: &mut Scalars| {
        let mut launches = record(|| body(Some(n), scalars))?;
        launches.push(Submission::Launch(scalars.publish(publish)));
        half.update(launches);
        Ok::<_, isobar_core::Error>(())
    };
    let [even, odd] = &mut recorded.halves;
    prepare(even, 0, scalars)?;
    let mut n = 0;
    if !after || observe(&scalars.wait()?).is_continue() {
        loop {
            let half = if n % 2 == 0 { &mut *even } else { &mut *odd };
            half.submit(context)?;
            if n == 0 {
                prepare(odd, 1, scalars)?;
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
