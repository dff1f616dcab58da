//! Products of lines with the eigenvectors of an axis, two packs of lines at a time.

use isobar_core::direct::{Basis, Symmetry};
use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::both::{Both, packs, registers};

/// The products x̂_k = Σ_i S_ik x_i and x_i = Σ_k S_ik x̂_k, with even and odd parts of lines apart where
/// vectors are even or odd.
#[derive(Debug)]
pub(super) struct Products {
    /// Pairs of cells that a reflection exchanges.
    mirrored: Vec<[usize; 2]>,
    /// The cells that it does not move.
    lone: Vec<usize>,
    /// The numbers of even and of odd vectors.
    vectors: [Vec<usize>; 2],
    forward: [Matrix; 2],
    backward: [Matrix; 2],
}

/// A matrix as panels of rows, a panel's numbers column by column.
#[derive(Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    /// Rows of the first panels.
    most: usize,
    entries: Vec<f64>,
}

impl Products {
    /// Makes the products times a number, with panels for this many registers.
    pub(super) fn new(basis: &Basis, scale: f64, registers: usize) -> Self {
        let n = basis.len();
        let mirror = |i: usize| match basis.symmetry() {
            Symmetry::None => i,
            Symmetry::Reversal => n - 1 - i,
            Symmetry::Periodic => (n - i) % n,
        };
        let has_symmetry = basis.symmetry() != Symmetry::None;
        let mirrored: Vec<_> = (0..n).filter(|&i| i < mirror(i)).map(|i| [i, mirror(i)]).collect();
        let lone: Vec<_> = (0..n).filter(|&i| i == mirror(i)).collect();
        let (even, odd): (Vec<_>, Vec<_>) = (0..n).partition(|&k| !has_symmetry || basis.is_even(k));
        let vectors = [even, odd];
        let cells: Vec<usize> = mirrored.iter().map(|&[i, _]| i).chain(lone.iter().copied()).collect();
        let counts = [cells.len(), mirrored.len()];
        let entry = |k: usize, i: usize| scale * basis.entry(k, i);
        let each = [0, 1];
        Self {
            forward: each.map(|part| {
                Matrix::new(vectors[part].len(), counts[part], registers, |k, i| entry(vectors[part][k], cells[i]))
            }),
            backward: each.map(|part| {
                Matrix::new(counts[part], vectors[part].len(), registers, |i, k| entry(vectors[part][k], cells[i]))
            }),
            mirrored,
            lone,
            vectors,
        }
    }

    fn len(&self) -> usize {
        2 * self.mirrored.len() + self.lone.len()
    }

    /// Returns the packs of scratch.
    pub(super) fn scratch(&self) -> usize {
        4 * self.len()
    }

    /// Returns the bytes of its matrices.
    pub(super) fn bytes(&self) -> usize {
        self.forward.iter().chain(&self.backward).map(|matrix| size_of_val(&matrix.entries[..])).sum()
    }

    #[inline(always)]
    pub(super) fn forward<S: Simd>(
        &self,
        simd: S,
        [from, to]: [&mut [f64]; 2],
        load: impl Fn(usize) -> Both<S>,
        mut store: impl FnMut(usize, Both<S>),
    ) {
        let (width, sizes) = (2 * S::F64_LANES, [self.mirrored.len() + self.lone.len(), self.mirrored.len()]);
        let (even, odd) = from.split_at_mut(sizes[0] * width);
        {
            let [(a, _), (b, _)] = [&mut *even, &mut *odd].map(|part| S::as_mut_simd_f64s(part).0.as_chunks_mut::<2>());
            for (m, &[i, mirror]) in self.mirrored.iter().enumerate() {
                let (x, y) = (load(i), load(mirror));
                a[m] = registers([x[0] + y[0], x[1] + y[1]]);
                b[m] = registers([x[0] - y[0], x[1] - y[1]]);
            }
            for (a, &i) in a[self.mirrored.len()..].iter_mut().zip(&self.lone) {
                *a = registers(load(i));
            }
        }
        let (first, second) = to.split_at_mut(self.vectors[0].len() * width);
        simd.vectorize(Times { matrix: &self.forward[0], x: &*even, y: &mut *first });
        simd.vectorize(Times { matrix: &self.forward[1], x: &*odd, y: &mut *second });
        for (part, vectors) in [&*first, &*second].into_iter().zip(&self.vectors) {
            for (x, &k) in S::as_simd_f64s(part).0.as_chunks::<2>().0.iter().zip(vectors) {
                store(k, packs(simd, *x));
            }
        }
    }

    #[inline(always)]
    pub(super) fn backward<S: Simd>(
        &self,
        simd: S,
        [from, to]: [&mut [f64]; 2],
        load: impl Fn(usize) -> Both<S>,
        mut store: impl FnMut(usize, Both<S>),
    ) {
        let (width, sizes) = (2 * S::F64_LANES, [self.mirrored.len() + self.lone.len(), self.mirrored.len()]);
        let (first, second) = from.split_at_mut(self.vectors[0].len() * width);
        for (part, vectors) in [&mut *first, &mut *second].into_iter().zip(&self.vectors) {
            for (x, &k) in S::as_mut_simd_f64s(part).0.as_chunks_mut::<2>().0.iter_mut().zip(vectors) {
                *x = registers(load(k));
            }
        }
        let (even, odd) = to.split_at_mut(sizes[0] * width);
        simd.vectorize(Times { matrix: &self.backward[0], x: &*first, y: &mut *even });
        simd.vectorize(Times { matrix: &self.backward[1], x: &*second, y: &mut *odd });
        let [(a, _), (b, _)] = [&*even, &*odd].map(|part| S::as_simd_f64s(part).0.as_chunks::<2>());
        for ((&a, &b), &[i, mirror]) in a.iter().zip(b).zip(&self.mirrored) {
            let (a, b) = (packs(simd, a), packs(simd, b));
            store(i, [a[0] + b[0], a[1] + b[1]]);
            store(mirror, [a[0] - b[0], a[1] - b[1]]);
        }
        for (&a, &i) in a[self.mirrored.len()..].iter().zip(&self.lone) {
            store(i, packs(simd, a));
        }
    }
}

impl Matrix {
    fn new(rows: usize, columns: usize, registers: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        // Two sums per row, besides their operands.
        let most = if registers >= 32 { 8 } else { 4 };
        let mut this = Self { rows, columns, most, entries: Vec::with_capacity(rows * columns) };
        let panels: Vec<_> = this.panels().collect();
        for (first, size) in panels {
            let rows = |column| (first..first + size).map(move |row| (row, column));
            this.entries.extend((0..columns).flat_map(rows).map(|(row, column)| entry(row, column)));
        }
        this
    }

    /// Returns the first row of each panel and its number of rows.
    fn panels(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (rows, most, mut first) = (self.rows, self.most, 0);
        std::iter::from_fn(move || {
            let size = [8, 4, 2, 1].into_iter().find(|&size| size <= most && first + size <= rows)?;
            first += size;
            Some((first - size, size))
        })
    }
}

/// Computes y = A x for two packs of lines.
struct Times<'a> {
    matrix: &'a Matrix,
    x: &'a [f64],
    y: &'a mut [f64],
}

impl WithSimd for Times<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { matrix, x, y } = self;
        let (x, _) = S::as_simd_f64s(x).0.as_chunks::<2>();
        let (y, _) = S::as_mut_simd_f64s(y).0.as_chunks_mut::<2>();
        let x = &x[..matrix.columns];
        for (first, size) in matrix.panels() {
            let panel = &matrix.entries[first * matrix.columns..][..size * matrix.columns];
            let y = &mut y[first..first + size];
            match size {
                8 => times::<8, S>(simd, panel, x, y),
                4 => times::<4, S>(simd, panel, x, y),
                2 => times::<2, S>(simd, panel, x, y),
                _ => times::<1, S>(simd, panel, x, y),
            }
        }
    }
}

#[inline(always)]
fn times<const R: usize, S: Simd>(simd: S, panel: &[f64], x: &[[S::f64s; 2]], y: &mut [[S::f64s; 2]]) {
    let mut sums = [[Pack::splat(simd, 0.0); 2]; R];
    for (entries, &x) in panel.as_chunks::<R>().0.iter().zip(x) {
        let x = packs(simd, x);
        for (sum, &entry) in sums.iter_mut().zip(entries) {
            let entry = Pack::splat(simd, entry);
            *sum = [entry.mul_add(x[0], sum[0]), entry.mul_add(x[1], sum[1])];
        }
    }
    for (y, sum) in y.iter_mut().zip(sums) {
        *y = registers(sum);
    }
}
