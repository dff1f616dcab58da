//! The CUDA C++ sources, one file a noun, and the headers they include.
//!
//! Each is specialised by `#define`: `REAL` (`double`, `float`), `NZ` (optional: levels known at compile
//! time), `LANES`, `CHUNKS` and `DEPTH` (how a block cuts its columns; `CHUNKS` × `DEPTH` ≥ levels),
//! `MIN_BLOCKS`, and the few more that a file's head names.

/// Headers, as NVRTC wants them: name and text.
pub const HEADERS: &[(&str, &str)] = &[
    ("diffusion.cuh", include_str!("diffusion.cuh")),
    ("diffusion_chunks.cuh", include_str!("diffusion_chunks.cuh")),
    ("diffusion_column.cuh", include_str!("diffusion_column.cuh")),
    ("diffusion_march.cuh", include_str!("diffusion_march.cuh")),
    ("diffusion_serial.cuh", include_str!("diffusion_serial.cuh")),
    ("intrinsics.cuh", include_str!("intrinsics.cuh")),
    ("layout.cuh", include_str!("layout.cuh")),
    ("line_relax.cuh", include_str!("line_relax.cuh")),
    ("line_solve.cuh", include_str!("line_solve.cuh")),
    ("march.cuh", include_str!("march.cuh")),
    ("prolong.cuh", include_str!("prolong.cuh")),
    ("reduce.cuh", include_str!("reduce.cuh")),
    ("tensor_product.cuh", include_str!("tensor_product.cuh")),
];

/// Line smoothers, one column tile a block.
pub const SMOOTH: &str = include_str!("smooth.cu");
/// Red–black half sweeps marching along y; the fast ones on large grids.
pub const MARCH: &str = include_str!("march.cu");
/// What a mixed-precision cycle does on the finest grid, marching too.
pub const MIXED: &str = include_str!("mixed.cu");
/// Residuals, restriction, prolongation.
pub const TRANSFER: &str = include_str!("transfer.cu");
/// The first pass of conjugate gradients.
pub const ADVANCE: &str = include_str!("advance.cu");
/// The second pass of conjugate gradients, and the line preconditioner.
pub const CG: &str = include_str!("cg.cu");
/// The operator by itself.
pub const APPLY: &str = include_str!("apply.cu");
/// Passes over the diffusion operator.
pub const DIFFUSION: &str = include_str!("diffusion.cu");
/// Its line solves and sweeps.
pub const DIFFUSION_LINES: &str = include_str!("diffusion_lines.cu");
/// Substitution in blocks.
pub const DIFFUSION_SUBSTITUTE: &str = include_str!("diffusion_substitute.cu");
/// Its transfers between grids.
pub const DIFFUSION_TRANSFER: &str = include_str!("diffusion_transfer.cu");
/// Regions, and small dense matrices.
pub const REGION: &str = include_str!("region.cu");
/// Beside cuSPARSE.
pub const STORED_MATRIX: &str = include_str!("stored_matrix.cu");
/// Unfused vector operations, and scalars.
pub const VECTOR: &str = include_str!("vector.cu");
/// Between users' arrays and the checkerboard.
pub const TRANSPOSE: &str = include_str!("transpose.cu");
