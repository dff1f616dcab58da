//! Runs the conformance suite on the reference back end itself, which must pass it. Single precision, and what takes
//! long, run with `--include-ignored`.

use std::process::ExitCode;

use isobar_core::conformance::{suite, takes_long};
use isobar_core::prelude::*;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let trials = [("f64", suite::<Reference, f64>(), false), ("f32", suite::<Reference, f32>(), true)];
    let trials = trials.into_iter().flat_map(|(precision, checks, is_single)| {
        checks.into_iter().map(move |(name, check)| {
            let is_ignored = is_single || takes_long(&name);
            Trial::test(format!("reference_{precision}::{name}"), move || {
                check(&Reference);
                Ok(())
            })
            .with_ignored_flag(is_ignored)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
