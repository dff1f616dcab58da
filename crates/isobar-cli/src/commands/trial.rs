//! The preconditioner of a heat equation where nobody says, or says "auto".

use isobar::options::{Method, Preconditioner, SolverOptions};
use isobar::{Device, Tried};
use isobar_case::Case;
use isobar_case::text::plural;

use crate::summary::Time;

/// Whether the preconditioner is to be chosen here.
pub(super) fn is_free(options: &SolverOptions) -> bool {
    let is_conjugate = matches!(options.method, Method::Auto | Method::Cg);
    is_conjugate && options.preconditioner == Preconditioner::Auto && options.precision != isobar::Precision::Mixed
}

/// The preconditioner where nobody says: modified incomplete Cholesky.
pub(super) fn solver_options(case: &Case, device: &Device) -> SolverOptions {
    let mut options = case.solver.clone();
    if is_free(&options) {
        options.preconditioner = match device {
            Device::Cuda(_) => Preconditioner::SsorAi,
            _ => Preconditioner::Mic { relaxation: 1.0, block: None },
        };
    }
    options
}

/// What came of trying.
pub(super) fn describe(tried: &[Tried]) -> String {
    let each = tried.iter().map(|tried| {
        let Tried { preconditioner, seconds, iterations } = tried;
        format!("{} {} ({})", preconditioner.name(), Time(*seconds), plural(*iterations, "iteration"))
    });
    let taken = tried.first().map_or("none", |tried| tried.preconditioner.name());
    format!("a step takes {}; {taken} is taken", each.collect::<Vec<_>>().join(", "))
}
