//! Pairs of packs: an entry of each of two packs of lines.

use isobar_core::simd::Pack;
use pulp::Simd;

/// An entry of each of two packs of lines.
pub(super) type Both<S> = [Pack<S, f64>; 2];

/// Converts registers to packs. `map` of arrays is not inlined where there are vector instructions, as this must be.
#[inline(always)]
pub(super) fn packs<S: Simd>(simd: S, [a, b]: [S::f64s; 2]) -> Both<S> {
    [Pack::new(simd, a), Pack::new(simd, b)]
}

/// Converts packs to registers.
#[inline(always)]
pub(super) fn registers<S: Simd>([a, b]: Both<S>) -> [S::f64s; 2] {
    [a.register(), b.register()]
}

/// Multiplies packs by a number.
#[inline(always)]
pub(super) fn scaled<S: Simd>(factor: Pack<S, f64>, [a, b]: Both<S>) -> Both<S> {
    [factor * a, factor * b]
}
