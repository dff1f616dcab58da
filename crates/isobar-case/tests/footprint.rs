//! The predicted memory of a case against what is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use isobar_case::{Case, Override};

/// Counts what is allocated, and the most that ever was.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is done by the system's allocator; this one only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), SeqCst) + layout.size(), SeqCst);
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the pointer came from `alloc`, so from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held after assembling, and at most while assembling, in bytes a cell: predicted and allocated.
fn measure(text: &str, sets: &[&str]) -> [[f64; 2]; 2] {
    let sets: Vec<Override> = sets.iter().map(|&set| set.into()).collect();
    let case = Case::parse(Path::new("x.toml"), text, &sets).unwrap();
    let footprint = case.footprint();
    let before = NOW.load(SeqCst);
    PEAK.store(before, SeqCst);
    let assembled = case.assemble().unwrap();
    let (held, peak) = (NOW.load(SeqCst) - before, PEAK.load(SeqCst) - before);
    drop(assembled);
    let cells = case.problem.shape().cells() as f64;
    let assembling = footprint.system + footprint.assembly;
    [[footprint.system / cells, held as f64 / cells], [assembling / cells, peak as f64 / cells]]
}

#[test]
fn predictions_hold() {
    let helmholtz = "[problem]\nkind = \"helmholtz\"\n[grid]\nnx = 32\nny = 32\nnz = 64\n";
    let diffusion = "[problem]\nkind = \"diffusion\"\n[problem.rhs]\nkind = \"constant\"\n[grid]\nnx = 32\nny = 32\nnz = 64\n\
                     [diffusion]\nboundary.west = \"dirichlet\"\n";
    let noise = |key: &str| format!("diffusion.{key}={{ noise = {{ sigma = 1.0 }} }}");
    let (x, y) = (noise("coefficient"), noise("coefficient_y"));
    // As many cells as a power of 2, which vectors that grow as they are filled end at too.
    for (text, sets) in [
        (helmholtz, &[][..]),
        (helmholtz, &["problem.rhs.kind=manufactured"]),
        (diffusion, &[]),
        (diffusion, &["problem.rhs.kind=manufactured"]),
        (diffusion, &[&x, "diffusion.coefficient_z={ ratio = 0.1 }"]),
        (diffusion, &[&x, &y, "diffusion.coefficient_z={ ratio = 0.1 }", "diffusion.reaction=1.0"]),
        (diffusion, &[&x, "diffusion.active=1.0", "diffusion.wells=[{ i = 1, j = 1, value = 1.0, radius = 1e-4 }]"]),
    ] {
        let [held, peak] = measure(text, sets);
        for [predicted, allocated] in [held, peak] {
            // Never more, or a grid would be refused that fits; less where a vector grows while it is filled.
            assert!(predicted < 1.07 * allocated && predicted > 0.6 * allocated, "{sets:?}: {held:.1?} {peak:.1?}");
        }
    }
}
