//! The residual of a solve between callers' arrays.

use std::ops::Range;

use isobar_core::prelude::{Pack, Separable, Shape, Slab};
use pulp::{Simd, WithSimd};

use super::tables::each;
use crate::row_sum::RowSum;
use crate::{Cpu, Shared};

/// The cells that a thread judges before it takes others.
const CELLS_A_TURN: usize = 8192;

/// The rows of a grid that a rank has, and those beside them in y, layer by layer.
pub(super) struct Own {
    pub(super) rows: Slab,
    pub(super) beside: [Vec<f64>; 2],
}

/// Returns ‖b − mean − A u‖² and ‖b − mean‖² of all rows or of a rank's own, the same for any number of threads.
pub(super) fn judge(cpu: &Cpu, factors: &Separable, own: Option<&Own>, [b, u]: [&[f64]; 2], mean: f64) -> [f64; 2] {
    let terms = factors.terms();
    let shape = own.map_or(factors.shape, |own| own.rows.shape(factors.shape));
    let (rows, a_turn) = (shape.ny * shape.nz, (CELLS_A_TURN / shape.nx).max(1));
    let mut sums = vec![[0.0; 2]; rows.div_ceil(a_turn)];
    let of_turns = Shared::of(&mut sums);
    each(cpu, cpu.threads_for(shape.cells()), rows.div_ceil(a_turn), |turn, _| {
        let rows = turn * a_turn..((turn + 1) * a_turn).min(rows);
        let judged = cpu.dispatch::<f64, _>(Rows { terms, shape, own, b, u, mean, rows });
        // SAFETY: each turn has its own.
        unsafe { of_turns.set(turn as isize, judged) };
    });
    sums.into_iter().fold([0.0; 2], |[r, b], sum| [r + sum[0], b + sum[1]])
}

/// Some rows, in C order of y and z.
struct Rows<'a> {
    /// See [`isobar_core::direct::Separable::terms`].
    terms: [[&'a [f64]; 4]; 3],
    /// The shape of the arrays.
    shape: Shape,
    own: Option<&'a Own>,
    b: &'a [f64],
    u: &'a [f64],
    mean: f64,
    rows: Range<usize>,
}

/// A row of u with its neighbours in y and z, and what couples them.
struct Row<'a> {
    b: &'a [f64],
    own: &'a [f64],
    /// The weight along x.
    x: f64,
    y: Across<'a>,
    z: Across<'a>,
}

/// The rows before and after one, the couplings to them and the shift, times their weight in the direction across.
struct Across<'a> {
    beside: [&'a [f64]; 2],
    couplings: [f64; 2],
    shift: f64,
}

impl WithSimd for Rows<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; 2] {
        let n = self.shape.nx;
        let [couplings, shifts, ..] = self.terms[0];
        let weights = [self.terms[1][2], self.terms[2][2]];
        let (mut of_residual, mut of_rhs) = (RowSum::<S, f64>::new(simd), RowSum::<S, f64>::new(simd));
        let mut rest = [0.0; 2];
        let pack = |values: &[f64], i: usize| Pack::new(simd, S::as_simd_f64s(&values[i..i + S::F64_LANES]).0[0]);
        for row in self.rows.clone() {
            let row = self.row(row);
            let mut single = |i: usize| {
                let [before, after] = beside(i, n);
                let u = row.own[i];
                let mut all = couplings[i] * (u - row.own[after]) + couplings[before] * (u - row.own[before]);
                all = row.x * (all + shifts[i] * u);
                for (weights, across) in weights.iter().zip([&row.y, &row.z]) {
                    let ([before, after], [t_before, t_after]) = (across.beside.map(|row| row[i]), across.couplings);
                    all += weights[i] * (t_before * (u - before) + t_after * (u - after) + across.shift * u);
                }
                let b = row.b[i] - self.mean;
                rest[0] += (b - all) * (b - all);
                rest[1] += b * b;
            };
            single(0);
            let mut i = 1;
            while i + S::F64_LANES < n {
                let (u, splat) = (pack(row.own, i), |value: f64| Pack::splat(simd, value));
                let east = pack(couplings, i) * (u - pack(row.own, i + 1));
                let west = pack(couplings, i - 1).mul_add(u - pack(row.own, i - 1), east);
                let b = pack(row.b, i) - splat(self.mean);
                let mut r = b - splat(row.x) * pack(shifts, i).mul_add(u, west);
                for (weights, across) in weights.iter().zip([&row.y, &row.z]) {
                    let [t_before, t_after] = across.couplings.map(splat);
                    let before = t_before * (u - pack(across.beside[0], i));
                    let both = t_after.mul_add(u - pack(across.beside[1], i), before);
                    r = r - pack(weights, i) * splat(across.shift).mul_add(u, both);
                }
                of_residual.add_product(r, r);
                of_rhs.add_product(b, b);
                i += S::F64_LANES;
            }
            (i..n).for_each(single);
            of_residual.end_short_row();
            of_rhs.end_short_row();
        }
        [of_residual.total() + rest[0], of_rhs.total() + rest[1]]
    }
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(&self, row: usize) -> Row<'a> {
        let Shape { nx, ny, nz } = self.shape;
        let [x, y, z] = self.terms;
        let (j, k) = (row % ny, row / ny);
        let row = |j: usize, k: usize| nx * (j + ny * k)..nx * (j + ny * k + 1);
        let u = |j: usize, k: usize| &self.u[row(j, k)];
        let in_y = match self.own {
            None => beside(j, ny).map(|j| u(j, k)),
            Some(Own { beside: [before, after], .. }) => {
                let of = |row: &'a [f64]| &row[nx * k..nx * (k + 1)];
                [if j == 0 { of(before) } else { u(j - 1, k) }, if j + 1 == ny { of(after) } else { u(j + 1, k) }]
            }
        };
        let at = j + self.own.map_or(0, |own| own.rows.first);
        let across = |[couplings, shifts, _, weights]: [&[f64]; 4], at: usize, other: usize, beside: [&'a [f64]; 2]| {
            let [before, _] = self::beside(at, couplings.len());
            let weight = weights[other];
            let couplings = [before, at].map(|at| weight * couplings[at]);
            Across { beside, couplings, shift: weight * shifts[at] }
        };
        Row {
            b: &self.b[row(j, k)],
            own: u(j, k),
            x: x[2][at] * x[3][k],
            y: across(y, at, k, in_y),
            z: across(z, k, at, beside(k, nz).map(|k| u(j, k))),
        }
    }
}

/// Returns the cells before and after one of n; across open ends the coupling is 0.
#[inline(always)]
fn beside(i: usize, n: usize) -> [usize; 2] {
    [if i == 0 { n - 1 } else { i - 1 }, if i + 1 == n { 0 } else { i + 1 }]
}
