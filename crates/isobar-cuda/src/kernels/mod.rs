//! The CUDA C++ sources, one file per topic, and the headers that they include.
//!
//! Each is specialised by `#define`, as described at its beginning. The sources in [`seven_point`] work for every stencil that
//! couples a cell to its six neighbours: `seven_point/seven_point.cuh` specifies what a stencil's own header, such as
//! `diffusion.cuh`, must define. The sources in [`tensor_product`] are for that operator only.

macro_rules! headers {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!($name))),*] };
}

/// Names and texts of the headers, for NVRTC.
pub const HEADERS: &[(&str, &str)] = headers![
    "diffusion.cuh",
    "galerkin/interpolation.cuh",
    "galerkin/setup/bodies.cuh",
    "galerkin/setup/setup.cuh",
    "galerkin/twenty_seven.cuh",
    "intrinsics.cuh",
    "layout.cuh",
    "reduce.cuh",
    "seven_point/chunks.cuh",
    "seven_point/column.cuh",
    "seven_point/gather.cuh",
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
    "tridiagonal.cuh",
];

/// Unfused vector operations and scalars.
pub const VECTOR: &str = include_str!("vector.cu");
/// Copies between callers' arrays and the checkerboard layout.
pub const ARRAY: &str = include_str!("array.cu");
/// Diffusion problems in the order of callers' arrays.
pub const PROBLEM: &str = include_str!("problem.cu");
/// Aggregates and small dense matrices.
pub const AGGREGATE: &str = include_str!("aggregate.cu");
/// Direct solves of separable boxes.
pub const DIRECT: &str = include_str!("direct.cu");
/// Ends of lines that ranks divide, for direct solves.
pub const DIRECT_ENDS: &str = include_str!("direct_ends.cu");
/// Fast transforms of uniform axes.
pub const FOURIER: &str = include_str!("fourier.cu");
/// Exchange between GPUs.
pub const EXCHANGE: &str = include_str!("exchange.cu");
/// Packing for NCCL.
pub const PACKING: &str = include_str!("packing.cu");
/// Kernels of stored matrices.
pub const STORED_MATRIX: &str = include_str!("stored_matrix.cu");

/// Kernels for any stencil with six neighbours.
pub mod seven_point {
    /// Steps that pass over the matrix once.
    pub const PASSES: &str = include_str!("seven_point/passes.cu");
    /// Line solves and sweeps.
    pub const LINES: &str = include_str!("seven_point/lines.cu");
    /// Sweeps with stored pivots.
    pub const SWEEPS: &str = include_str!("seven_point/sweeps.cu");
    /// Point relaxation within tiles.
    pub const POINTS: &str = include_str!("seven_point/points.cu");
    /// Point relaxation, several sweeps in one pass.
    pub const STREAMED: &str = include_str!("seven_point/streamed.cu");
    /// Point relaxation, several sweeps in one pass, if all cells have equal coefficients.
    pub const STREAMED_EVEN: &str = include_str!("seven_point/streamed_even.cu");
    /// Red–black point relaxation, and coarsened grids.
    pub const COLOURS: &str = include_str!("seven_point/colours.cu");
    /// Cycles by red–black point relaxation on small levels.
    pub const COLOURS_SMALL: &str = include_str!("seven_point/colours_small.cu");
    /// Red–black point relaxation in one pass.
    pub const COLOURS_STREAMED: &str = include_str!("seven_point/colours_streamed.cu");
    /// Measures of coefficients.
    pub const LOOK: &str = include_str!("seven_point/look.cu");
    /// Incomplete factorisation and triangular solves in blocks.
    pub const TRIANGULAR: &str = include_str!("seven_point/triangular.cu");
    /// Incomplete factorisation and triangular solves over the whole grid.
    pub const WHOLE_GRID: &str = include_str!("seven_point/whole_grid.cu");
}

/// Kernels for Galerkin levels of diffusion.
pub mod galerkin {
    /// Products with 27-point matrices.
    pub const APPLY: &str = include_str!("galerkin/apply.cu");
    /// Relaxation of 27-point matrices by columns.
    pub const LINES: &str = include_str!("galerkin/lines.cu");
    /// Transfers between two levels.
    pub const INTERPOLATE: &str = include_str!("galerkin/interpolate.cu");
    /// Corrections of strongly coupled aggregates.
    pub const BODIES: &str = include_str!("galerkin/bodies.cu");

    /// Fused steps of small levels.
    pub const SMALL: &str = include_str!("galerkin/small.cu");

    /// Setup of the levels.
    pub mod setup {
        /// The matrix from coefficients, and levels from matrices.
        pub const FINEST: &str = include_str!("galerkin/setup/finest.cu");
        /// Detection of strong directions and of contrast.
        pub const MEASURES: &str = include_str!("galerkin/setup/measures.cu");
        /// Interpolation weights.
        pub const WEIGHTS: &str = include_str!("galerkin/setup/weights.cu");
        /// Galerkin products.
        pub const PRODUCT: &str = include_str!("galerkin/setup/product.cu");
        /// Coarse cells whose fine cells are coupled only to each other.
        pub const COLLAPSED: &str = include_str!("galerkin/setup/collapsed.cu");
        /// Search for strongly coupled aggregates.
        pub const BODIES: &str = include_str!("galerkin/setup/bodies.cu");
        /// Strongly coupled aggregates with cells of several ranks.
        pub const SHARED: &str = include_str!("galerkin/setup/shared.cu");
        /// Copies of rows between matrices of some rows.
        pub const ROWS: &str = include_str!("galerkin/setup/rows.cu");
        /// The inverse of the coarsest matrix.
        pub const INVERSE: &str = include_str!("galerkin/setup/inverse.cu");
    }
}

/// Kernels for the tensor-product operator.
pub mod tensor_product {
    /// Computation of its tables.
    pub const TABLES: &str = include_str!("tensor_product/tables.cu");
    /// Unfused products, diagonal and residuals.
    pub const APPLY: &str = include_str!("tensor_product/apply.cu");
    /// Line smoothers with one tile of columns per block.
    pub const SMOOTH: &str = include_str!("tensor_product/smooth.cu");
    /// Red–black half sweeps that stream along y, fastest on large grids.
    pub const STREAM: &str = include_str!("tensor_product/stream.cu");
    /// Red–black half sweeps in single precision, except the last.
    pub const SINGLE: &str = include_str!("tensor_product/single.cu");
    /// Streaming steps of mixed-precision cycles on the finest level.
    pub const MIXED: &str = include_str!("tensor_product/mixed.cu");
    /// The residual after a red–black sweep, streaming along y.
    pub const RESIDUAL_STREAM: &str = include_str!("tensor_product/residual_stream.cu");
    /// Restriction and prolongation.
    pub const TRANSFER: &str = include_str!("tensor_product/transfer.cu");
    /// The first pass of conjugate gradients.
    pub const ADVANCE: &str = include_str!("tensor_product/advance.cu");
    /// Multigrid for operators without vertical couplings.
    pub const PLANES: &str = include_str!("tensor_product/planes.cu");
    /// Transfers between a grid and its vertical modes.
    pub const MODES: &str = include_str!("tensor_product/modes.cu");
    /// Expansion in vertical modes fused with the next half sweep.
    pub const EXPAND_SWEEP: &str = include_str!("tensor_product/expand_sweep.cu");
    /// The second pass of conjugate gradients, and the line preconditioner.
    pub const CG: &str = include_str!("tensor_product/cg.cu");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Returns the code of a file in the order of its functions and macros: what precedes a body in braces, and the body.
    fn bodies(text: &str) -> Vec<(String, String)> {
        let (mut all, mut depth, mut parts) = (Vec::new(), 0, [String::new(), String::new()]);
        for line in text.lines().map(|line| line.split("//").next().unwrap_or_default()) {
            for c in line.chars().chain(['\n']) {
                depth += i32::from(c == '{');
                parts[usize::from(depth > 0)].push(c);
                if c == '}' {
                    depth -= 1;
                    if depth == 0 {
                        let [before, body] = std::mem::take(&mut parts);
                        all.push((before, body));
                    }
                }
            }
        }
        all
    }

    fn check(folder: &Path, kernels: &mut usize) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                check(&path, kernels);
            } else if path.extension().is_some_and(|extension| extension == "cu") {
                let calls = |name: &str| ["(", "<"].map(|open| format!("{name}{open}"));
                let mut waiting: Vec<String> = ["await_previous", "await_previous_alone"].map(calls).concat();
                for (before, body) in bodies(&std::fs::read_to_string(&path).unwrap()) {
                    let waits = waiting.iter().any(|call| body.contains(call.as_str()));
                    if let Some((_, kernel)) = before.rsplit_once("KERNEL(") {
                        assert!(waits, "{}: {kernel} does not wait for earlier kernels", path.display());
                        *kernels += 1;
                    } else if !waits {
                    } else if let Some((_, function)) = before.rsplit_once("__device__") {
                        let name = function.split('(').next().unwrap();
                        waiting.extend(calls(name.rsplit(' ').next().unwrap()));
                    } else {
                        // A struct whose constructor waits.
                        let name = before.rsplit_once("struct ").unwrap().1;
                        waiting.push(format!("{} ", name.trim()));
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_waits_for_earlier_ones() {
        let mut kernels = 0;
        check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernels"), &mut kernels);
        assert!(kernels > 160, "{kernels} kernels found");
    }
}
