//! The checks of the conformance suite run on the reference back end itself: they must be right about it.

use std::process::ExitCode;

use isobar_core::conformance::suite;
use isobar_core::reference::Reference;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let trials = [("f64", suite::<Reference, f64>()), ("f32", suite::<Reference, f32>())];
    let trials = trials.into_iter().flat_map(|(precision, checks)| {
        checks.into_iter().map(move |(name, check)| {
            Trial::test(format!("reference_{precision}::{name}"), move || {
                check(&Reference);
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
