//! The coefficients, as kernels want them.

use isobar_core::layout::{Layout, Shape};
use isobar_core::real::Real;
use isobar_core::stencil;

use super::cut::Cut;

/// Every table begins at a multiple of this many elements.
const ALIGNMENT: usize = 64;

/// All tables of an operator one after the other, and where each begins.
pub(crate) struct Tables<T> {
    pub(crate) data: Vec<T>,
    /// `area`, `west`, `east`, `south`, `north`, `total`, `pivot`, `line`, `row`, as `Operator` in
    /// tensor_product.cuh has them.
    pub(crate) starts: [usize; 9],
}

impl<T: Real> Tables<T> {
    /// Everything but the pivots, which a kernel computes.
    pub(crate) fn new(stencil: &stencil::TensorProduct, layout: &Layout, cut: Cut) -> Self {
        let mut tables = Self { data: Vec::new(), starts: [0; 9] };
        let h = stencil.horizontal();
        let Shape { nx, ny, .. } = layout.shape();
        let mut columns = |n: usize, outside: T, value: &dyn Fn(usize) -> f64| {
            let start = tables.begin(n, layout.columns_len(), outside);
            for j in 0..ny {
                for i in 0..nx {
                    tables.data[start + layout.column_index(i, j)] = T::from_f64(value(i + nx * j));
                }
            }
        };
        // An area of one keeps the padding finite; couplings of zero keep it zero.
        columns(0, T::ONE, &|n| h.area[n]);
        for (table, values) in [&h.west, &h.east, &h.south, &h.north, &h.total].into_iter().enumerate() {
            columns(table + 1, T::ZERO, &|n| values[n] / h.area[n]);
        }
        tables.begin(6, layout.columns_len() * cut.chunks, T::ZERO);
        tables.vertical(stencil, cut);
        tables
    }

    fn begin(&mut self, table: usize, len: usize, fill: T) -> usize {
        let start = self.data.len().next_multiple_of(ALIGNMENT);
        self.data.resize(start, T::ZERO);
        self.data.resize(start + len, fill);
        self.starts[table] = start;
        start
    }

    /// `LineLevel`s, scaled to pivots near one and padded with identity rows, and `RowLevel`s.
    fn vertical(&mut self, stencil: &stencil::TensorProduct, cut: Cut) {
        let (v, h) = (stencil.vertical(), stencil.horizontal());
        let largest = h.total.iter().zip(&h.area).map(|(t, a)| t / a).fold(0.0, f64::max);
        let levels = v.len();
        let start = self.begin(7, 6 * cut.levels(), T::ZERO);
        let mut carry = 1.0;
        for k in 0..cut.levels() {
            let mut entry = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
            if k < levels {
                let scale = v.a[k] - v.b[k] - v.c[k] - largest * v.d[k];
                let scale = if scale > 0.0 && scale.is_finite() { scale } else { 1.0 };
                entry = [v.a[k] / scale, -v.d[k] / scale, -v.b[k] / scale, -v.c[k] / scale, 1.0 / scale, 0.0];
            }
            carry = if k.is_multiple_of(cut.depth) { entry[3] } else { carry * entry[3] };
            entry[5] = carry;
            for (n, value) in entry.into_iter().enumerate() {
                self.data[start + 6 * k + n] = T::from_f64(value);
            }
        }
        let start = self.begin(8, 4 * levels, T::ZERO);
        for k in 0..levels {
            for (n, value) in [v.a[k], -v.b[k], -v.c[k], -v.d[k]].into_iter().enumerate() {
                self.data[start + 4 * k + n] = T::from_f64(value);
            }
        }
    }
}
