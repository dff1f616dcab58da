//! Iterations that are recorded once and submitted repeatedly.
//!
//! The body of an iteration is run on the host twice, for an even and an odd iteration (and once more if the first iteration differs),
//! and its launches are noted instead of submitted. They are then submitted for every iteration. A kernel at the end of each iteration
//! writes the scalars to host memory, which the host polls.
//!
//! The host examines every iteration before it submits the next, so that vectors end exactly as after the
//! last iteration. Preparation overlaps with work of the GPU: the odd iteration is noted during the first.
//!
//! Launches are not made into CUDA graphs. The GPU starts with the first launch while the host submits the others, where a graph
//! begins after all of it is submitted; and while a graph is recorded, many calls of other threads fail, also those of other libraries.

use isobar_core::backend::{Body, Look};
use isobar_core::error::Result;

use crate::launch::{Submission, record};
use crate::{Context, Kernel, Scalars};

/// Implements [`Backend::iterate`](isobar_core::backend::Backend::iterate).
pub(crate) fn iterate(
    context: &Context,
    publish: &Kernel,
    scalars: &mut Scalars,
    first_differs: bool,
    body: &mut Body<'_, Scalars>,
    observe: &mut Look<'_>,
) -> Result<()> {
    context.bind()?;
    let mut prepare = |n: usize, scalars: &mut Scalars| {
        let mut submissions = record(|| body(n, scalars))?;
        submissions.push(Submission::Launch(scalars.publish(publish)));
        Ok::<_, isobar_core::Error>(submissions)
    };
    let submit = |submissions: &[Submission], scalars: &Scalars| {
        submissions.iter().try_for_each(|submission| submission.run(context.stream()))?;
        scalars.note_submitted();
        Ok::<_, isobar_core::Error>(())
    };
    // The first of those that are repeated.
    let first = usize::from(first_differs);
    if first_differs {
        // The GPU runs this iteration while the others are prepared.
        submit(&prepare(0, scalars)?, scalars)?;
    }
    let (even, mut odd) = (prepare(first, scalars)?, Vec::new());
    let mut n = 0;
    if !first_differs || observe(&scalars.wait()?).is_continue() {
        loop {
            submit(if n % 2 == 0 { &even } else { &odd }, scalars)?;
            if n == 0 {
                odd = prepare(first + 1, scalars)?;
            }
            n += 1;
            if observe(&scalars.wait()?).is_break() {
                break;
            }
        }
    }
    // Steps that swap two vectors have swapped them an even number of times, or once; restore the state after n iterations.
    match n {
        0 => record(|| body(first + 1, scalars)).map(drop),
        n if n % 2 == 1 => record(|| body(first, scalars)).map(drop),
        _ => Ok(()),
    }
}
