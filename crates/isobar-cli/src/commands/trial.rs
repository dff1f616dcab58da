//! Trying preconditioners of a heat equation.

use isobar::Tried;
use isobar_case::text::plural;

use crate::summary::Time;

/// What came of trying.
pub(super) fn describe(tried: &[Tried]) -> String {
    let each = tried.iter().map(|tried| {
        let Tried { preconditioner, seconds, iterations } = tried;
        format!("{} {} ({})", preconditioner.name(), Time(*seconds), plural(*iterations, "iteration"))
    });
    let taken = tried.first().map_or("none", |tried| tried.preconditioner.name());
    format!("a step takes {}; {taken} is taken", each.collect::<Vec<_>>().join(", "))
}
