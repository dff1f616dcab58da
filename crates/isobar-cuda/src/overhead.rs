//! The memory that CUDA takes besides vectors and coefficients.

use isobar_core::build::Overhead;
use isobar_core::stencil::orientation::Orientation;

use crate::vector::MOST_ROWS;

/// The memory that this back end takes. An array passes through GPU memory in double precision; conjugate gradients advance p, and sweeps
/// u, from one vector to another; lines keep the reciprocals of their pivots, Galerkin levels their diagonals, and incomplete
/// factorisations the values that tiles exchange; Galerkin levels are computed in 9.6 vectors in double precision
/// ([`galerkin`](crate::galerkin)). Jacobi's method reads stored faces.
pub const OVERHEAD: Overhead = Overhead {
    is_apart: true,
    threads: [0; 2],
    half_planes: 0.0,
    tile: 0.0,
    staged: 8.0,
    vectors: 1.0,
    galerkin: 9.6 * 8.0,
    coarsest: 2048,
    orientation: Orientation {
        upright_from: 1e5,
        are_flat: true,
        row: 16.0,
        half_plane: 0.0,
        plane: 0.0,
        line: 2.5e-3,
        longest_shared: 512,
        most_rows: MOST_ROWS,
        has_rows_of_factors: false,
        strong_lines: 1.6,
        divides_rows: false,
    },
    stores_faces: true,
};
