//! Iterations, recorded once and replayed.
//!
//! The body of an iteration runs on the host twice, for an even and an odd iteration, and only its
//! launches are noted. They are then submitted again and again: one by one at first, and, if there turn out
//! to be many iterations, as a CUDA graph, whose launch is cheaper but whose making is not. A kernel at
//! the end of each iteration writes the scalars to the host's memory, where the host watches for them.
//!
//! The host looks at every iteration before it submits the next. What that leaves idle is less than the
//! early end of every kernel in iterations that ran ahead in vain would cost (see docs/notes/cuda-kernels.md).

use std::ops::ControlFlow;

use isobar_core::backend::Slot;
use isobar_core::error::Result;

use crate::driver::{Context, Graph};
use crate::launch::{Kernel, Launch, record};
use crate::scalars::Scalars;

/// Iterations, over all solves, after which a graph is worth making.
const WORTH_A_GRAPH: usize = 12;

/// The launches of an even and an odd iteration.
#[derive(Debug)]
pub(crate) struct Recorded {
    launches: [Vec<Launch>; 2],
    graphs: Option<[Graph; 2]>,
    iterations: usize,
}

impl Recorded {
    fn submit(&mut self, context: &Context, n: usize) -> Result<()> {
        self.iterations += 1;
        if self.graphs.is_none() && self.iterations > WORTH_A_GRAPH {
            let graph = |launches: &[Launch]| {
                context.record(|stream| launches.iter().try_for_each(|launch| launch.run(stream)))
            };
            self.graphs = Some([graph(&self.launches[0])?, graph(&self.launches[1])?]);
        }
        match &self.graphs {
            Some(graphs) => context.replay(&graphs[n % 2]),
            None => self.launches[n % 2].iter().try_for_each(|launch| launch.run(context.stream())),
        }
    }
}

/// See [`Backend::iterate`](isobar_core::backend::Backend::iterate).
pub(crate) fn iterate(
    context: &Context,
    publish: Kernel,
    scalars: &mut Scalars,
    body: &mut dyn FnMut(usize, &mut Scalars) -> Result<()>,
    observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
) -> Result<()> {
    context.bind()?;
    let mut launches = [record(|| body(0, scalars))?, record(|| body(1, scalars))?];
    for launches in &mut launches {
        launches.push(scalars.publish(publish));
    }
    let mut recorded = match scalars.recorded.take() {
        Some(recorded) if recorded.launches == launches => recorded,
        _ => Recorded { launches, graphs: None, iterations: 0 },
    };
    let mut n = 0;
    loop {
        recorded.submit(context, n)?;
        n += 1;
        if observe(&scalars.wait()?).is_break() {
            break;
        }
    }
    scalars.recorded = Some(recorded);
    if n % 2 == 1 {
        // Steps that exchange two vectors have done so an even number of times; leave them as after n.
        record(|| body(0, scalars))?;
    }
    Ok(())
}
