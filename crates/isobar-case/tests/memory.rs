//! The predicted memory of a case, compared with allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use isobar::Device;
use isobar::internals::build::MatrixSize;
use isobar_case::{Case, LinearSystem, Matrix, Override};

/// An allocator that counts the current and the largest allocation.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does everything; this one only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    // Counts growth as in place, since pages are moved and not copied.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), SeqCst);
        PEAK.fetch_max(NOW.fetch_add(bytes, SeqCst) + bytes, SeqCst);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the pointer came from `alloc`, so from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes allocated beyond those at the start, at the end of some work, and at most during it.
fn allocated<R>(work: impl FnOnce() -> R) -> (R, f64, f64) {
    let before = NOW.load(SeqCst);
    PEAK.store(before, SeqCst);
    let made = work();
    let beyond = |bytes: usize| bytes as f64 - before as f64;
    (made, beyond(NOW.load(SeqCst)), beyond(PEAK.load(SeqCst)))
}

/// Returns predicted and allocated bytes a cell: held after assembling, at most while assembling, and at most by the solver.
fn measure(text: &str, sets: &[&str]) -> [[f64; 2]; 3] {
    let sets: Vec<Override> = sets.iter().map(|&set| set.into()).collect();
    let case = Case::parse(Path::new("x.toml"), text, &sets).unwrap();
    let device = Device::cpu_with_threads(2).unwrap();
    let footprint = case.footprint(&device.overhead()).unwrap();
    let (system, held, assembling) = allocated(|| case.assemble().unwrap());
    let made = match &system.matrix {
        Matrix::TensorProduct(matrix) => MatrixSize::from(matrix),
        Matrix::Diffusion(matrix) => MatrixSize::from(matrix),
    };
    assert_eq!(format!("{made:.3?}"), format!("{:.3?}", case.problem.matrix_size()), "{sets:?}");
    let mut u = case.first_guess().unwrap();
    let (_, _, solving) = allocated(|| {
        let mut solver = system.matrix.solver(&device, &case.solver).unwrap();
        solver.solve_from(&system.rhs, &mut u).unwrap()
    });
    let cells = case.problem.shape().cells() as f64;
    [[footprint.system, held], [footprint.system + footprint.assembly, assembling], [footprint.solver, solving]]
        .map(|pair| pair.map(|bytes| bytes / cells))
}

/// A case of 64 × 32 × 64 cells, a power of 2, at which growing vectors end too.
const HELMHOLTZ: &str = "[problem]\nkind = \"helmholtz\"\n[grid]\nnx = 64\nny = 32\nnz = 64\n";
const DIFFUSION: &str = "[problem]\nkind = \"diffusion\"\n[problem.rhs]\nkind = \"constant\"\n\
                         [grid]\nnx = 64\nny = 32\nnz = 64\nsize = [2.0, 1.0, 2.0]\n\
                         [diffusion]\nboundary.west = \"dirichlet\"\n";

/// A system for callers in other languages, who bring their own right-hand sides, holds none that is made of nothing but the case.
fn check_that_rhs_waits() {
    for set in ["problem.rhs.kind=random", "problem.rhs.kind=constant", "problem.rhs.kind=manufactured"] {
        let case = Case::parse(Path::new("x.toml"), HELMHOLTZ, &[set.into()]).unwrap();
        let (cells, expected) = (case.problem.shape().cells() as f64, case.assemble().unwrap().rhs);
        let (system, held, _) = allocated(|| LinearSystem::from_case(case).unwrap());
        assert_eq!(held < 4.0 * cells, !set.ends_with("manufactured"), "{set}: {held} bytes");
        assert_eq!(system.rhs(None).unwrap(), expected, "{set}");
    }
}

/// Cases run one after another, because they share a counter.
#[test]
fn predictions_hold() {
    let noise = |key: &str| format!("diffusion.{key}={{ noise = {{ sigma = 1.0 }} }}");
    let (x, y) = (noise("coefficient"), noise("coefficient_y"));
    let z = "diffusion.coefficient_z={ ratio = 0.1 }";
    let [f32, mixed] = ["solver.precision=f32", "solver.precision=mixed"];
    let [cg, bicgstab, deflated] = ["solver.method=cg", "solver.method=bicgstab", "solver.method=deflated-cg"];
    let [cycles, modes, tolerance] = ["solver.method=multigrid", "solver.method=modes", "solver.tolerance=1e-2"];
    // With an open choice the prediction is that of the larger possible solver.
    let [lines, points] = ["line", "point"].map(|what| format!("solver.multigrid.smoother={what}-red-black"));
    let above_lines = "solver.multigrid.smoother=point-line";
    let [in_double, in_single] = ["f64", "f32"].map(|what| format!("solver.multigrid.precision={what}"));
    let kind = |kind: &str| format!("solver.preconditioner.kind={kind}");
    let [jacobi, line, multigrid, block_ic, neumann] = ["jacobi", "line", "multigrid", "block-ic", "neumann"].map(kind);
    let [mic, amg] = ["mic", "amg"].map(kind);
    let ring = ["diffusion.boundary.west=periodic", "diffusion.boundary.east=periodic"];
    check_that_rhs_waits();
    // The library behind vertical modes allocates 4 MB once a process.
    measure(HELMHOLTZ, &[modes, "solver.modes.count=8"]);
    for (text, sets) in [
        (HELMHOLTZ, &[cycles][..]),
        (HELMHOLTZ, &[cycles, f32, tolerance]),
        (HELMHOLTZ, &[cycles, mixed]),
        (HELMHOLTZ, &[modes, "solver.modes.count=8"]),
        (HELMHOLTZ, &[modes, "solver.modes.count=8", mixed]),
        (HELMHOLTZ, &[cg, "problem.rhs.kind=manufactured"]),
        (HELMHOLTZ, &[bicgstab, &multigrid, mixed]),
        (HELMHOLTZ, &[cg, &mic, tolerance]),
        (HELMHOLTZ, &[cg, &neumann, tolerance, f32]),
        (DIFFUSION, &[cg, &amg, &x]),
        (DIFFUSION, &[&lines, &in_double]),
        (DIFFUSION, &["problem.rhs.kind=manufactured", &lines, &in_single]),
        (DIFFUSION, &[cycles, &points]),
        (DIFFUSION, &[cycles, &points, f32, tolerance]),
        (DIFFUSION, &[cycles, &points, mixed]),
        (DIFFUSION, &[&x, z, &jacobi]),
        (DIFFUSION, &[&x, z, &line, f32, tolerance]),
        (DIFFUSION, &[&x, &y, z, "diffusion.reaction=1.0", &in_double]),
        (DIFFUSION, &[&x, &lines, mixed]),
        (DIFFUSION, &[&x, &lines, f32, tolerance]),
        (DIFFUSION, &[&x, above_lines]),
        (DIFFUSION, &[&x, above_lines, mixed]),
        (DIFFUSION, &[&x, cycles]),
        (DIFFUSION, &[&block_ic, "solver.norm=scaled"]),
        (DIFFUSION, &[&neumann, bicgstab]),
        (DIFFUSION, &[deflated, &neumann, "solver.deflation.stripes={ blocks = [4, 4, 4] }"]),
        (DIFFUSION, &[deflated, &neumann, "solver.deflation.stripes={ blocks = [16, 16, 4] }"]),
        (DIFFUSION, &[deflated, &jacobi, "grid.nz=1", "grid.nx=512", "grid.ny=256", "grid.size=[2.0, 1.0, 1.0]"]),
        (DIFFUSION, &["grid.size=[2.0, 7.0, 1.0]", &in_double]),
        (DIFFUSION, &["grid.size=[2.0, 7.0, 1.0]", &in_single]),
        (DIFFUSION, &["diffusion.boundary.west=neumann", "solver.compatibility=project", &lines, &in_double]),
        (DIFFUSION, &[&x, &lines, &in_double, "grid.nx=63", ring[0], ring[1], "solver.compatibility=project"]),
        (DIFFUSION, &[&jacobi, cg, "grid.nx=63", ring[0], ring[1], "diffusion.boundary.top=dirichlet"]),
        (
            DIFFUSION,
            &[
                &x,
                &lines,
                &in_single,
                "diffusion.active=1.0",
                "diffusion.wells=[{ i = 1, j = 1, value = 1.0, radius = 1e-4 }]",
            ],
        ),
    ] {
        let all = measure(text, sets);
        for [predicted, allocated] in all {
            assert!(
                predicted >= 0.97 * allocated && predicted <= 1.34 * allocated,
                "{sets:?}: [held, assembling, solving] as [predicted, allocated] {all:.1?}"
            );
        }
    }
}
