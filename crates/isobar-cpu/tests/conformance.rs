//! The CPU back end against the reference, on several threads, and on one with `--include-ignored`.

use isobar_core::conformance::suite;
use isobar_core::real::Real;
use isobar_cpu::Cpu;
use libtest_mimic::{Arguments, Trial};

fn trials<T: Real>(threads: usize) -> Vec<Trial> {
    let cpu = Cpu::new(threads).expect("threads can be started");
    let name = |check: String| format!("{}_{threads}_threads::{check}", T::PRECISION);
    suite::<Cpu, T>()
        .into_iter()
        .map(|(check, run)| {
            let cpu = cpu.clone();
            Trial::test(name(check), move || {
                run(&cpu);
                Ok(())
            })
            .with_ignored_flag(threads == 1)
        })
        .collect()
}

fn main() {
    let mut all = trials::<f64>(1);
    all.extend(trials::<f64>(3));
    all.extend(trials::<f32>(3));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}
