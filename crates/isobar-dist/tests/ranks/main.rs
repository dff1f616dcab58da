//! Solves on several ranks, threads of this process, compared with those on one.

mod boxes;
mod checks;
mod deflated;
mod deflation;
mod diffusion;
mod direct;
mod failures;
mod galerkin;
mod heat;
mod jumps;
mod late;
mod levels;
mod messages;
mod planes;
mod relaxation;
mod rings;
mod rocks;
mod solves;
mod steps;
mod sweeps;
mod tensor_product;
mod triangular;

use std::sync::Arc;

use isobar_core::build::Description;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;
use isobar_dist::threads::Threads;
use isobar_dist::{join, threads};

use crate::solves::solve_on;

/// Makes the back end of a rank: one thread.
fn cpu(_: Option<&Threads>) -> Cpu {
    Cpu::new(1).unwrap()
}

/// Makes back ends of several threads each.
fn cpus(threads: usize) -> impl Fn(Option<&Threads>) -> Cpu + Sync {
    move |_| Cpu::new(threads).unwrap()
}

/// Returns what the solvers of all ranks say of themselves.
fn described<S: Stencil>(ranks: usize, stencil: &S, options: &SolverOptions) -> Vec<Description>
where
    Cpu: Supports<S>,
{
    let all = threads::run(ranks, |world| {
        let backend = join(Cpu::new(1)?, Arc::new(world));
        Ok(System::new(&backend, stencil, options)?.description().clone())
    });
    all.unwrap()
}

/// Returns why ranks do not solve.
fn refusal<S: Stencil>(ranks: usize, stencil: &S, options: &SolverOptions) -> String
where
    Cpu: Supports<S>,
{
    let rhs = vec![1.0; stencil.shape().cells()];
    solve_on(ranks, &cpu, stencil, options, &rhs, None).unwrap_err().to_string()
}
