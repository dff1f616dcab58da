//! Symmetric matrices of couplings, row by row.

use super::{Aggregates, NONE};
use crate::Execute;

/// The rows of a chunk, which are relaxed in sequence while others have the values of before. It does not depend on the number of threads.
const CHUNK: usize = 1 << 14;

/// A matrix with row sums s ≥ 0 and couplings c ≥ 0: A_kk = s_k + Σ c_kl, A_kl = −c_kl.
///
/// Couplings are in single precision. Diagonals are sums of them as they are stored, so that rows of a floating component still sum to 0.
pub(crate) struct Couplings {
    /// The place of each row's first coupling, and one past the last.
    starts: Vec<u32>,
    /// The place of each row's first coupling above the diagonal.
    middles: Vec<u32>,
    /// Ascending in each row.
    columns: Vec<u32>,
    values: Vec<f32>,
    sums: Vec<f64>,
    /// The inverses of diagonals, to which couplings between chunks are added (ℓ₁ hybrid sweeps: Baker, Falgout, Kolev and Yang, *Multigrid smoothers
    /// for ultraparallel computing*, SIAM J. Sci. Comput. 33, 2011); 0 for a row of zeros.
    inverses: Vec<f64>,
}

/// A row that is being made: its couplings in any order, repeated ones too, and its sum.
#[derive(Default)]
pub(crate) struct Row {
    /// Columns and couplings.
    pub(crate) couplings: Vec<(u32, f64)>,
    /// The row sum.
    pub(crate) sum: f64,
}

/// The rows that a thread has made.
#[derive(Default)]
struct Made {
    ends: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f32>,
    sums: Vec<f64>,
}

impl Couplings {
    /// Returns the matrix without rows.
    pub(super) fn empty() -> Self {
        let starts = vec![0];
        let (middles, columns, values, sums, inverses) = Default::default();
        Self { starts, middles, columns, values, sums, inverses }
    }

    /// Makes a matrix of `count` rows, which `set` writes to an empty [`Row`].
    pub(crate) fn of_rows(execute: &impl Execute, count: usize, set: impl Fn(usize, &mut Row) + Sync) -> Self {
        let mut chunks: Vec<Made> = (0..count.div_ceil(CHUNK)).map(|_| Made::default()).collect();
        execute.for_each(&mut chunks, |chunk, made| {
            let mut row = Row::default();
            for k in chunk * CHUNK..count.min((chunk + 1) * CHUNK) {
                row.couplings.clear();
                row.sum = 0.0;
                set(k, &mut row);
                made.push(k as u32, &mut row);
            }
        });
        let count_of_all = chunks.iter().map(|made| made.columns.len()).sum();
        let mut this = Self {
            starts: Vec::with_capacity(count + 1),
            middles: Vec::with_capacity(count),
            columns: Vec::with_capacity(count_of_all),
            values: Vec::with_capacity(count_of_all),
            sums: Vec::with_capacity(count),
            inverses: Vec::with_capacity(count),
        };
        this.starts.push(0);
        for Made { ends, columns, values, sums } in chunks {
            let first = this.columns.len() as u32;
            this.starts.extend(ends.into_iter().map(|end| first + end));
            this.columns.extend(columns);
            this.values.extend(values);
            this.sums.extend(sums);
        }
        for k in 0..count {
            let (first, (columns, _)) = (this.starts[k], this.row(k));
            let below = columns.iter().take_while(|&&l| (l as usize) < k).count();
            this.middles.push(first + below as u32);
            let between: f64 =
                entries(this.row(k)).filter(|&(l, _)| l / CHUNK != k / CHUNK).map(|(_, value)| value).sum();
            let diagonal = this.diagonal(k) + between;
            this.inverses.push(if diagonal > 0.0 { 1.0 / diagonal } else { 0.0 });
        }
        this
    }

    /// Returns the matrix of aggregates, PᵀAP where P has their indicator vectors: couplings to unknowns of none are part of row sums.
    pub(super) fn aggregated(&self, execute: &impl Execute, aggregates: &Aggregates) -> Self {
        Self::of_rows(execute, aggregates.count(), |number, row| {
            for k in aggregates.members(number) {
                row.sum += self.sums[k];
                for (l, value) in entries(self.row(k)) {
                    match aggregates.of[l] {
                        NONE => row.sum += value,
                        other if other as usize == number => {}
                        other => row.couplings.push((other, value)),
                    }
                }
            }
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.sums.len()
    }

    pub(super) fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// Returns A_kk.
    pub(super) fn diagonal(&self, k: usize) -> f64 {
        self.sums[k] + self.row(k).1.iter().map(|&value| f64::from(value)).sum::<f64>()
    }

    /// Returns the couplings of a row: columns l, ascending, and c_kl.
    #[inline(always)]
    pub(super) fn row(&self, k: usize) -> Entries<'_> {
        self.between(self.starts[k], self.starts[k + 1])
    }

    /// Returns those with l < k.
    #[inline(always)]
    pub(super) fn below(&self, k: usize) -> Entries<'_> {
        self.between(self.starts[k], self.middles[k])
    }

    #[inline(always)]
    fn between(&self, first: u32, end: u32) -> Entries<'_> {
        let places = first as usize..end as usize;
        (&self.columns[places.clone()], &self.values[places])
    }

    pub(super) fn bytes(&self) -> usize {
        let of_rows = 2 * size_of::<u32>() + 2 * size_of::<f64>();
        self.rows() * of_rows + self.columns.len() * (size_of::<u32>() + size_of::<f32>())
    }

    /// Computes z by a sweep of Gauss–Seidel from 0, in ascending order in each chunk.
    pub(super) fn sweep_up(&self, execute: &impl Execute, r: &[f64], z: &mut [f64]) {
        for_each_chunk(execute, z, |first, z| {
            for n in 0..z.len() {
                let k = first + n;
                let mut sum = r[k];
                for (l, value) in entries(self.below(k)) {
                    // Rows of other chunks have zeros.
                    if let Some(z) = z.get(l.wrapping_sub(first)) {
                        sum += value * z;
                    }
                }
                z[n] = sum * self.inverses[k];
            }
        });
    }

    /// Computes r − A z without the couplings within aggregates, whose sums over each are those of r − A z: strong couplings, most of which are within
    /// aggregates, then cost no digits, and what leaves one aggregate enters another to the last one.
    pub(super) fn residual_between(&self, execute: &impl Execute, of: &[u32], [r, z]: [&[f64]; 2], out: &mut [f64]) {
        for_each_chunk(execute, out, |first, out| {
            for (out, k) in out.iter_mut().zip(first..) {
                let (number, here, mut sum) = (of[k], z[k], r[k] - self.sums[k] * z[k]);
                for (l, value) in entries(self.row(k)).filter(|&(l, _)| of[l] != number) {
                    sum -= value * (here - z[l]);
                }
                *out = sum;
            }
        });
    }

    /// Improves z by a sweep of Gauss–Seidel in descending order in each chunk. `before` is room for a copy of z.
    pub(super) fn sweep_down(&self, execute: &impl Execute, r: &[f64], z: &mut [f64], before: &mut [f64]) {
        if z.len() > CHUNK {
            for_each_chunk(execute, before, |first, before| before.copy_from_slice(&z[first..][..before.len()]));
        }
        let before = &*before;
        for_each_chunk(execute, z, |first, z| {
            for n in (0..z.len()).rev() {
                let k = first + n;
                let mut sum = r[k];
                for (l, value) in entries(self.row(k)) {
                    sum += value * z.get(l.wrapping_sub(first)).copied().unwrap_or_else(|| before[l] + z[n]);
                }
                z[n] = sum * self.inverses[k];
            }
        });
    }

    /// Computes y = A x.
    pub(super) fn multiply(&self, execute: &impl Execute, x: &[f64], y: &mut [f64]) {
        for_each_chunk(execute, y, |first, y| {
            for (y, k) in y.iter_mut().zip(first..) {
                let mut sum = self.sums[k] * x[k];
                // Differences lose no digits where couplings are large.
                for (l, value) in entries(self.row(k)) {
                    sum += value * (x[k] - x[l]);
                }
                *y = sum;
            }
        });
    }
}

/// The columns and the values of some couplings of a row.
pub(super) type Entries<'a> = (&'a [u32], &'a [f32]);

/// Returns the column and the value of each.
#[inline(always)]
pub(super) fn entries((columns, values): Entries<'_>) -> impl Iterator<Item = (usize, f64)> {
    columns.iter().zip(values).map(|(&l, &value)| (l as usize, f64::from(value)))
}

impl Made {
    /// Adds row k: its couplings in order, repeated ones as one, without one to itself.
    fn push(&mut self, k: u32, row: &mut Row) {
        row.couplings.sort_unstable_by_key(|&(column, _)| column);
        let merged = row.couplings.chunk_by(|a, b| a.0 == b.0);
        for same in merged {
            let (column, value) = (same[0].0, same.iter().map(|(_, value)| value).sum::<f64>() as f32);
            if column != k && value >= f32::MIN_POSITIVE {
                self.columns.push(column);
                self.values.push(value);
            }
        }
        self.ends.push(self.columns.len() as u32);
        self.sums.push(row.sum);
    }
}

/// Calls `f(first, chunk)` for all chunks of a vector.
pub(super) fn for_each_chunk(execute: &impl Execute, all: &mut [f64], f: impl Fn(usize, &mut [f64]) + Sync) {
    if all.len() <= CHUNK {
        return f(0, all);
    }
    let mut chunks: Vec<&mut [f64]> = all.chunks_mut(CHUNK).collect();
    execute.for_each(&mut chunks, |chunk, values| f(chunk * CHUNK, values));
}

/// Returns the sums of `of(k)` over all k < `count`, chunk by chunk.
pub(super) fn sums<const N: usize>(
    execute: &impl Execute,
    count: usize,
    of: impl Fn(usize) -> [f64; N] + Sync,
) -> [f64; N] {
    let add = |mut sums: [f64; N], terms: [f64; N]| {
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
        sums
    };
    let of_chunk = |chunk: usize| (chunk * CHUNK..count.min((chunk + 1) * CHUNK)).map(&of).fold([0.0; N], add);
    let mut chunks = vec![[0.0; N]; count.div_ceil(CHUNK)];
    execute.for_each(&mut chunks, |chunk, sums| *sums = of_chunk(chunk));
    chunks.into_iter().fold([0.0; N], add)
}
