//! The coefficients, as kernels want them.

use isobar_core::layout::Layout;
use isobar_core::real::Real;
use isobar_core::stencil;

use super::cut::Cut;

/// Every table begins at a multiple of this many elements.
const ALIGNMENT: usize = 64;

/// The tables of an operator one after the other, and where each begins.
pub(crate) struct Tables<T> {
    pub(crate) data: Vec<T>,
    /// `area`, `west`, `east`, `south`, `north`, `total`, `pivot`, `line`, `row`, as `Operator` in
    /// tensor_product.cuh has them.
    pub(crate) starts: [usize; 9],
    /// How long they are together, the pivots too.
    pub(crate) len: usize,
}

impl<T: Real> Tables<T> {
    /// Everything but the pivots, which a kernel computes: for them there is room after the data.
    pub(crate) fn new(stencil: &stencil::TensorProduct, layout: &Layout, cut: Cut) -> Self {
        let columns = layout.columns_len().next_multiple_of(ALIGNMENT);
        let data = Vec::with_capacity(6 * columns + 10 * cut.levels() + 2 * ALIGNMENT);
        let mut tables = Self { data, starts: [0; 9], len: 0 };
        let h = stencil.horizontal();
        // An area of one keeps the padding finite; couplings of zero keep it zero.
        tables.columns(0, T::ONE, layout, |n| h.area[n]);
        for (table, values) in [&h.west, &h.east, &h.south, &h.north, &h.total].into_iter().enumerate() {
            tables.columns(table + 1, T::ZERO, layout, |n| values[n] / h.area[n]);
        }
        tables.vertical(stencil, cut);
        tables.starts[6] = tables.data.len().next_multiple_of(ALIGNMENT);
        tables.len = tables.starts[6] + layout.columns_len() * cut.chunks;
        tables
    }

    /// A horizontal field, in the layout's order of columns.
    fn columns(&mut self, table: usize, outside: T, layout: &Layout, value: impl Fn(usize) -> f64) {
        let (nx, pitch) = (layout.shape().nx, layout.pitch());
        let start = self.begin(table, layout.columns_len(), outside);
        for (j, row) in self.data[start..].chunks_exact_mut(2 * pitch).enumerate() {
            let (red, black) = row.split_at_mut(pitch);
            let (even, odd) = if j % 2 == 0 { (red, black) } else { (black, red) };
            for (n, to) in (nx * j..nx * (j + 1)).step_by(2).zip(even) {
                *to = T::from_f64(value(n));
            }
            for (n, to) in (nx * j + 1..nx * (j + 1)).step_by(2).zip(odd) {
                *to = T::from_f64(value(n));
            }
        }
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
