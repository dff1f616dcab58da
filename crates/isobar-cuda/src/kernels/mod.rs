//! The CUDA C++ sources, one file a noun, and the headers they include.
//!
//! Each is specialised by `#define`, as its head says. Those of [`seven_point`] are written once for every stencil that
//! couples a cell to its six neighbours: `seven_point/seven_point.cuh` says what a stencil's own header, such as
//! `diffusion.cuh`, must define. Those of [`tensor_product`] are that operator's own.

macro_rules! headers {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!($name))),*] };
}

/// Headers, as NVRTC wants them: name and text.
pub const HEADERS: &[(&str, &str)] = headers![
    "diffusion.cuh",
    "galerkin/setup/setup.cuh",
    "galerkin/twenty_seven.cuh",
    "intrinsics.cuh",
    "layout.cuh",
    "reduce.cuh",
    "seven_point/chunks.cuh",
    "seven_point/column.cuh",
    "seven_point/halving.cuh",
    "seven_point/serial.cuh",
    "seven_point/seven_point.cuh",
    "seven_point/stream.cuh",
    "seven_point/systolic.cuh",
    "tensor_product/cell.cuh",
    "tensor_product/line_relax.cuh",
    "tensor_product/line_solve.cuh",
    "tensor_product/modes.cuh",
    "tensor_product/prolong.cuh",
    "tensor_product/residual.cuh",
    "tensor_product/stream.cuh",
    "tensor_product/tensor_product.cuh",
];

/// Unfused vector operations, and scalars.
pub const VECTOR: &str = include_str!("vector.cu");
/// Between users' arrays and the checkerboard.
pub const ARRAY: &str = include_str!("array.cu");
/// Aggregates, and small dense matrices.
pub const AGGREGATE: &str = include_str!("aggregate.cu");
/// Direct solves of separable boxes.
pub const DIRECT: &str = include_str!("direct.cu");
/// Fast transforms of uniform axes.
pub const FOURIER: &str = include_str!("fourier.cu");
/// Between cards.
pub const EXCHANGE: &str = include_str!("exchange.cu");
/// Beside NCCL.
pub const PACKING: &str = include_str!("packing.cu");
/// Beside cuSPARSE.
pub const STORED_MATRIX: &str = include_str!("stored_matrix.cu");

/// For any stencil of six neighbours.
pub mod seven_point {
    /// One pass over the matrix each.
    pub const PASSES: &str = include_str!("seven_point/passes.cu");
    /// Line solves and sweeps.
    pub const LINES: &str = include_str!("seven_point/lines.cu");
    /// Sweeps with stored pivots.
    pub const SWEEPS: &str = include_str!("seven_point/sweeps.cu");
    /// Relaxation of points within tiles.
    pub const POINTS: &str = include_str!("seven_point/points.cu");
    /// Relaxation of points, several sweeps in one pass.
    pub const STREAMED: &str = include_str!("seven_point/streamed.cu");
    /// The same where all cells are alike.
    pub const STREAMED_EVEN: &str = include_str!("seven_point/streamed_even.cu");
    /// Relaxation of points by colour, and halved grids.
    pub const COLOURS: &str = include_str!("seven_point/colours.cu");
    /// The same in one pass.
    pub const COLOURS_STREAMED: &str = include_str!("seven_point/colours_streamed.cu");
    /// What coefficients are like.
    pub const LOOK: &str = include_str!("seven_point/look.cu");
    /// Pivots and substitution in blocks.
    pub const TRIANGULAR: &str = include_str!("seven_point/triangular.cu");
    /// The same over the whole grid.
    pub const WHOLE_GRID: &str = include_str!("seven_point/whole_grid.cu");
}

/// For Galerkin coarse grids of diffusion.
pub mod galerkin {
    /// Products with 27-point matrices.
    pub const APPLY: &str = include_str!("galerkin/apply.cu");
    /// Their relaxation by columns.
    pub const LINES: &str = include_str!("galerkin/lines.cu");
    /// Between two grids.
    pub const INTERPOLATE: &str = include_str!("galerkin/interpolate.cu");
    /// Corrections of strongly coupled bodies.
    pub const BODIES: &str = include_str!("galerkin/bodies.cu");

    /// How the levels are made.
    pub mod setup {
        /// From coefficients to a matrix, and from matrices to levels.
        pub const FINEST: &str = include_str!("galerkin/setup/finest.cu");
        /// Which directions are strong, and whether there is contrast.
        pub const MEASURES: &str = include_str!("galerkin/setup/measures.cu");
        /// Weights of interpolation.
        pub const WEIGHTS: &str = include_str!("galerkin/setup/weights.cu");
        /// Galerkin products.
        pub const PRODUCT: &str = include_str!("galerkin/setup/product.cu");
        /// Coarse cells whose finer ones are tied to each other alone.
        pub const COLLAPSED: &str = include_str!("galerkin/setup/collapsed.cu");
        /// Strongly coupled bodies.
        pub const BODIES: &str = include_str!("galerkin/setup/bodies.cu");
    }
}

/// For the tensor-product operator.
pub mod tensor_product {
    /// Its tables.
    pub const TABLES: &str = include_str!("tensor_product/tables.cu");
    /// The operator by itself, its diagonal, residuals.
    pub const APPLY: &str = include_str!("tensor_product/apply.cu");
    /// Line smoothers, one column tile a block.
    pub const SMOOTH: &str = include_str!("tensor_product/smooth.cu");
    /// Red–black half sweeps that stream along y; the fast ones on large grids.
    pub const STREAM: &str = include_str!("tensor_product/stream.cu");
    /// Red–black half sweeps of which all but the last are in single precision.
    pub const SINGLE: &str = include_str!("tensor_product/single.cu");
    /// What a mixed-precision cycle does on the finest grid, streaming too.
    pub const MIXED: &str = include_str!("tensor_product/mixed.cu");
    /// The residual after a red–black sweep, streaming along y.
    pub const RESIDUAL_STREAM: &str = include_str!("tensor_product/residual_stream.cu");
    /// Restriction and prolongation.
    pub const TRANSFER: &str = include_str!("tensor_product/transfer.cu");
    /// The first pass of conjugate gradients.
    pub const ADVANCE: &str = include_str!("tensor_product/advance.cu");
    /// Multigrid where layers are not coupled to each other.
    pub const PLANES: &str = include_str!("tensor_product/planes.cu");
    /// Between a grid and its vertical modes.
    pub const MODES: &str = include_str!("tensor_product/modes.cu");
    /// Expansion in them with the half sweep after it.
    pub const EXPAND_SWEEP: &str = include_str!("tensor_product/expand_sweep.cu");
    /// The second pass of conjugate gradients, and the line preconditioner.
    pub const CG: &str = include_str!("tensor_product/cg.cu");
}
