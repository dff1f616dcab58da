//! Solves allocate nothing, and solvers hold as many bytes as they report.

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System as SystemAllocator};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use isobar_core::conformance::arrays::solve_again;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: AllocLayout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        HELD.fetch_add(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { SystemAllocator.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: AllocLayout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as required of the caller.
        unsafe { SystemAllocator.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn problem() -> Helmholtz {
    let grid = GridOptions { nx: 64, ny: 64, nz: 32, ..GridOptions::default() };
    Helmholtz { grid, ..Helmholtz::default() }
}

/// Returns options, and their documented n-vectors, b and u included.
fn variants() -> Vec<(SolverOptions, f64)> {
    let coarse = 1.0 / 3.0;
    let mut all = Vec::new();
    for (method, preconditioner, vectors) in [
        (Method::Multigrid, Preconditioner::None, 2.0 + 2.0 * coarse),
        (Method::Cg, Preconditioner::Line, 7.0),
        (Method::Bicgstab, Preconditioner::Line, 10.0),
        (Method::Cg, Preconditioner::Multigrid, 7.0 + 2.0 * coarse),
    ] {
        let mut options = SolverOptions { method, preconditioner, tolerance: 1e-4, ..SolverOptions::default() };
        all.push((options.clone(), vectors));
        options.precision = Precision::F32;
        // b and u in double precision, and the best u of Krylov methods; everything else in single.
        let double = if method == Method::Multigrid { 2.0 } else { 3.0 };
        all.push((options, double + (vectors - double + 2.0) / 2.0));
    }
    let mut full = all[0].clone();
    full.0.multigrid.start = Start::Full;
    full.0.multigrid.smoother = Smoother::LineJacobi;
    all.push(full);
    // A right-hand side and two iterates of every mode, between which cycles are extrapolated, and the vectors of its coarser grids; in
    // single precision.
    let modes = ModesOptions { count: Count::Given(4), ..ModesOptions::default() };
    let by_modes = SolverOptions { method: Method::Modes, modes, tolerance: 1e-4, ..SolverOptions::default() };
    all.push((by_modes, 2.0 + 4.0 / problem().grid.nz as f64 * (3.0 + 2.0 * coarse) / 2.0));
    let (method, precision) = (Method::Multigrid, Precision::Mixed);
    let mixed = SolverOptions { method, precision, tolerance: 1e-4, ..SolverOptions::default() };
    all.push((mixed, 2.0 + 1.0 + coarse));
    all
}

// One test: the counters are shared by the whole process.
#[test]
fn solves_allocate_nothing_and_hold_what_they_say() {
    let problem = problem();
    let stencil = problem.stencil().unwrap();
    let shape = stencil.shape();
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None).unwrap();
    let mut u = vec![0.0; rhs.len()];
    let cpu = Cpu::new(2).unwrap();
    // The computation of modes keeps its workspace, once a thread.
    stencil.modes().unwrap();
    for (options, vectors) in variants() {
        let before = HELD.load(Relaxed);
        let mut system = System::new(&cpu, &stencil, &options).unwrap();
        let held = HELD.load(Relaxed) - before;
        let said = system.description().bytes;
        let vector = (shape.cells() * 8) as f64;
        // Rows of the coarsest grids are padded.
        assert!((said as f64 / vector - vectors).abs() < 0.06, "{options:?}: {} n-vectors", said as f64 / vector);
        // Scratch planes and horizontal coefficients are added; they do not grow with the levels.
        assert!(held >= said && (held - said) as f64 <= 1.6 * vector, "{options:?}: holds {held}, says {said}");

        let mut solve = || {
            let before = COUNT.load(Relaxed);
            let outcome = solve_again(&mut system, shape, &rhs, &mut u, Guess::Zero).unwrap();
            // Advice is not counted.
            (COUNT.load(Relaxed) - before - usize::from(outcome.advice.is_some()), outcome.iterations)
        };
        let (first, _) = solve();
        let (second, iterations) = solve();
        // The history of the outcome, and, whenever one is full, a block of the queue that gives work to the threads: the number varies
        // by one from solve to solve.
        assert!(second <= 4 + iterations / 20, "{options:?}: {first}, then {second} allocations in {iterations}");
    }
}
