//! The CUDA C++ sources, one file a noun, and the headers they include.
//!
//! Each is specialised by `#define`: `REAL` (`double`, `float`), `NZ` (optional: levels known at compile
//! time), `LANES`, `CHUNKS` and `DEPTH` (how a block cuts its columns; `CHUNKS` × `DEPTH` ≥ levels),
//! `MIN_BLOCKS`, and the few more that a file's head names.

/// Headers, as NVRTC wants them: name and text.
pub const HEADERS: &[(&str, &str)] = &[
    ("intrinsics.cuh", include_str!("intrinsics.cuh")),
    ("layout.cuh", include_str!("layout.cuh")),
    ("line_relax.cuh", include_str!("line_relax.cuh")),
    ("line_solve.cuh", include_str!("line_solve.cuh")),
    ("prolong.cuh", include_str!("prolong.cuh")),
    ("reduce.cuh", include_str!("reduce.cuh")),
    ("tensor_product.cuh", include_str!("tensor_product.cuh")),
];

/// Line smoothers, one column tile a block.
pub const SMOOTH: &str = include_str!("smooth.cu");
/// Red–black half sweeps marching along y; the fast ones on large grids.
pub const MARCH: &str = include_str!("march.cu");
/// Residuals, restriction, prolongation.
pub const TRANSFER: &str = include_str!("transfer.cu");
/// The two passes of conjugate gradients, and the line preconditioner.
pub const CG: &str = include_str!("cg.cu");
/// The operator by itself.
pub const APPLY: &str = include_str!("apply.cu");
/// Beside cuSPARSE.
pub const STORED_MATRIX: &str = include_str!("stored_matrix.cu");
/// Unfused vector operations, and scalars.
pub const VECTOR: &str = include_str!("vector.cu");
/// Between users' arrays and the checkerboard.
pub const TRANSPOSE: &str = include_str!("transpose.cu");
