//! Work on all ranks of a divided problem.

use isobar::Shape;
use isobar::internals::dist::communicator::digest;
use isobar::internals::dist::{Kind, Tell, Told};

use crate::array::Array;
use crate::status::{Failure, ISOBAR_DEVICE, ISOBAR_INVALID, ISOBAR_OUT_OF_MEMORY, ISOBAR_UNSUPPORTED, Result};

impl Tell for Failure {
    fn tell(&self) -> Told {
        let kind = match self.code {
            _ if self.names_cell => Kind::NotFinite,
            ISOBAR_INVALID => Kind::Invalid,
            ISOBAR_UNSUPPORTED => Kind::Unsupported,
            ISOBAR_OUT_OF_MEMORY => Kind::OutOfMemory,
            _ => Kind::Device,
        };
        Told { kind, message: self.message.clone() }
    }

    fn told([rank, size]: [usize; 2], Told { kind, message }: Told) -> Self {
        let code = match kind {
            Kind::Invalid | Kind::NotFinite => ISOBAR_INVALID,
            Kind::Unsupported => ISOBAR_UNSUPPORTED,
            Kind::OutOfMemory => ISOBAR_OUT_OF_MEMORY,
            Kind::Device => ISOBAR_DEVICE,
        };
        Self::new(code, format!("rank {rank} of {size}: {message}"))
    }
}

/// Does work on all ranks and fails on all if it fails on one; without ranks, does it here.
pub(crate) fn on_all<R>(ranks: Option<&isobar::Ranks>, work: impl FnOnce() -> Result<R>) -> Result<R> {
    match ranks {
        Some(ranks) => ranks.together(work),
        None => work(),
    }
}

/// Fails on all ranks where one makes another call than rank 0, or the same with other kinds of arguments; `call` describes it.
///
/// To be called on all ranks together, after the checks of this rank's arguments, whose failures are more precise.
pub(crate) fn require_same_call(ranks: Option<&isobar::Ranks>, call: impl FnOnce() -> String) -> Result<()> {
    let Some(ranks) = ranks.filter(|ranks| ranks.size() > 1) else { return Ok(()) };
    let call = call();
    // As many bits as a number has digits for.
    let number = (digest(call.as_bytes()) >> 12) as f64;
    if ranks.largest(number)? == -ranks.largest(-number)? {
        return Ok(());
    }
    let first = ranks.tell(&call)?;
    let is_same = call == first;
    let error = || {
        isobar::Error::invalid(
            "the call",
            format!("it is {call}, and {first} on rank 0; all ranks make the same calls in the same order"),
        )
    };
    Ok(ranks.agree(if is_same { Ok(()) } else { Err(error()) })?)
}

/// Describes whether an optional array is given.
pub(crate) fn presence<T>(name: &str, array: Option<T>) -> String {
    format!("{} {name}", if array.is_some() { "with" } else { "without" })
}

/// Returns the shape of this rank's subdomain.
pub(crate) fn own_shape(ranks: Option<&isobar::Ranks>, whole: Shape) -> Result<Shape> {
    Ok(match ranks {
        Some(ranks) => Shape { ny: ranks.rows(whole)?.len(), ..whole },
        None => whole,
    })
}

/// Returns an array's values in every cell of the grid, gathered from all ranks.
///
/// # Safety
/// All elements of the array are readable.
pub(crate) unsafe fn whole_values(
    array: &Array,
    what: &str,
    ranks: Option<&isobar::Ranks>,
    whole: Shape,
) -> Result<Vec<f64>> {
    // SAFETY: promised by the caller.
    let own = on_all(ranks, || unsafe { array.values(what, own_shape(ranks, whole)?) })?;
    Ok(match ranks {
        Some(ranks) => ranks.together(|| ranks.collect(&own, whole))?,
        None => own,
    })
}
