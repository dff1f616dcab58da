//! Solves on several ranks, threads of this process, compared with those on one.

mod boxes;
mod checks;
mod deflated;
mod deflation;
mod diffusion;
mod failures;
mod galerkin;
mod heat;
mod jumps;
mod late;
mod messages;
mod patches;
mod relaxation;
mod rings;
mod rocks;
mod solves;
mod steps;
mod sweeps;
mod tensor_product;
mod triangular;

use isobar_cpu::Cpu;
use isobar_dist::threads::Threads;

/// Makes the back end of a rank: one thread.
fn cpu(_: Option<&Threads>) -> Cpu {
    Cpu::new(1).unwrap()
}

/// Makes back ends of several threads each.
fn cpus(threads: usize) -> impl Fn(Option<&Threads>) -> Cpu + Sync {
    move |_| Cpu::new(threads).unwrap()
}
