//! Sums over rows.

use isobar_core::prelude::{Pack, Precision, Real};
use pulp::Simd;

/// A sum in lanes along a row and in double precision from row to row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSum<S: Simd, T: Real> {
    simd: S,
    lanes: Pack<S, T>,
    total: f64,
}

impl<S: Simd, T: Real> RowSum<S, T> {
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        Self { simd, lanes: Pack::splat(simd, T::ZERO), total: 0.0 }
    }

    /// Adds a b.
    #[inline(always)]
    pub(crate) fn add_product(&mut self, a: Pack<S, T>, b: Pack<S, T>) {
        self.lanes = a.mul_add(b, self.lanes);
    }

    /// Ends a row.
    #[inline(always)]
    pub(crate) fn end_row(&mut self) {
        let mut lanes = [T::ZERO; 8];
        let (registers, _) = T::registers_mut::<S>(&mut lanes);
        registers[0] = self.lanes.register();
        self.total += lanes.iter().map(|lane| lane.to_f64()).sum::<f64>();
        self.lanes = Pack::splat(self.simd, T::ZERO);
    }

    /// Ends a row that may be short: lanes of double precision continue into the next row, as a horizontal sum costs
    /// as much as a few packs.
    #[inline(always)]
    pub(crate) fn end_short_row(&mut self) {
        if T::PRECISION == Precision::F32 {
            self.end_row();
        }
    }

    /// Returns the sum of all rows.
    #[inline(always)]
    pub(crate) fn total(mut self) -> f64 {
        self.end_row();
        self.total
    }
}
