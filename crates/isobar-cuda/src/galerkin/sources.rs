//! This module makes the sources of the kernels of levels, and the launch parameters that several have in common.

use isobar_core::real::Real;

use crate::compile::Source;
use crate::kernels::galerkin as kernels;
use crate::vector::c_name;

/// Returns the sources of the kernels in one precision.
pub fn sources<T: Real>() -> [Source; 4] {
    [
        ("galerkin_apply", kernels::APPLY),
        ("galerkin_lines", kernels::LINES),
        ("galerkin_interpolate", kernels::INTERPOLATE),
        ("galerkin_bodies", kernels::BODIES),
    ]
    .map(|(name, text)| Source::new(name, text).define("REAL", c_name::<T>()))
}

/// Returns the source of products in one precision, for levels that do not fill the GPU or for all.
pub fn apply_source<T: Real>(is_small: bool) -> Source {
    let [apply, ..] = sources::<T>();
    if is_small { apply.define("SMALL", 1) } else { apply }
}

/// Returns the source of the relaxation of columns in one precision, for blocks of at most this many threads, 256 or 512.
pub fn columns_source<T: Real>(threads: usize) -> Source {
    let [_, lines, ..] = sources::<T>();
    if threads == 512 { lines } else { lines.define("COLUMN_THREADS", threads) }
}

/// Returns the source of fused steps of small levels in one precision, for blocks of at most this many threads, 256 or 512.
pub fn small_source<T: Real>(threads: usize) -> Source {
    Source::new("galerkin_small", kernels::SMALL).define("REAL", c_name::<T>()).define("TILE_THREADS", threads)
}

/// Returns the threads in m and k of a block with one cell per thread.
pub(super) fn cell_block(layers: usize) -> [usize; 2] {
    if layers == 1 { [256, 1] } else { [32, 8] }
}

/// Packs flags into bits.
pub(super) fn bits<const N: usize>(flags: [bool; N]) -> u32 {
    flags.into_iter().enumerate().map(|(n, flag)| u32::from(flag) << n).sum()
}
