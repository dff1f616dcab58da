//! The CPU back end against the reference, on several threads; with `--include-ignored` on one too, and what takes long in
//! single precision too.

use isobar_core::conformance::{queue_suite, suite, takes_long};
use isobar_core::prelude::*;
use isobar_core::real::Real;
use isobar_cpu::Cpu;
use libtest_mimic::{Arguments, Trial};

fn trials<T: Real>(threads: usize) -> Vec<Trial> {
    let cpu = Cpu::new(threads).expect("threads can be started");
    let name = |check: String| format!("{}_{threads}_threads::{check}", T::PRECISION);
    // These checks choose the precisions of their solves.
    let of_queues = if T::PRECISION == Precision::F64 { queue_suite::<Cpu>() } else { Vec::new() };
    suite::<Cpu, T>()
        .into_iter()
        .chain(of_queues)
        .map(|(check, run)| {
            let cpu = cpu.clone();
            let is_ignored = threads == 1 || (T::PRECISION == Precision::F32 && takes_long(&check));
            Trial::test(name(check), move || {
                run(&cpu);
                Ok(())
            })
            .with_ignored_flag(is_ignored)
        })
        .collect()
}

fn main() {
    let mut all = trials::<f64>(1);
    all.extend(trials::<f64>(3));
    all.extend(trials::<f32>(3));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}
