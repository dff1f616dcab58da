//! The interface of a stencil to the engine: the entries of its matrix, a pack of cells at a time.

use std::fmt::Debug;

use isobar_core::prelude::{Pack, Real};
use pulp::{Simd, WithSimd};

use crate::{Columns, Cpu, Geometry, HalfPlane};

/// A loop over one half plane, written once for all kinds of coefficients. (A trait, not a closure: only
/// functions that are sure to be inlined get this machine's vector instructions.)
pub(crate) trait Kernel<T: Real> {
    /// The sums of the loop.
    type Output;

    /// Runs the loop; all implementations are `#[inline(always)]`.
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> Self::Output;
}

/// A kernel with its operands.
pub(crate) struct On<'a, K, T, C> {
    pub(crate) kernel: K,
    pub(crate) geometry: Geometry<'a, T>,
    pub(crate) coefficients: &'a C,
}

impl<T: Real, K: Kernel<T>, C: Coefficients<T>> WithSimd for On<'_, K, T, C> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> K::Output {
        let Self { kernel, geometry: g, coefficients: c } = self;
        if S::IS_SCALAR {
            return run_without_vectors(kernel, g, c.without_vectors());
        }
        if C::IS_PLAIN {
            return kernel.run(simd, Geometry { periodic: [false; 3], replaces_ends: false, ..g }, c);
        }
        kernel.run(simd, g, c)
    }
}

/// Runs a kernel on a processor without vector instructions. It is compiled once for a kernel: few processors need it.
#[inline(never)]
fn run_without_vectors<T: Real, K: Kernel<T>, C: Coefficients<T>>(kernel: K, g: Geometry<'_, T>, c: &C) -> K::Output {
    let periodic = if C::IS_PLAIN { [false; 3] } else { g.periodic };
    kernel.run(pulp::Scalar::new(), Geometry { periodic, ..g }, c)
}

/// The stored data of an operator, with coefficients of one kind or of one of several.
pub(crate) trait Stored<T: Real>: Debug + Send + Sync {
    /// Runs a loop with this machine's instructions, compiled for the stored kind.
    fn run<K: Kernel<T>>(&self, cpu: &Cpu, g: Geometry<'_, T>, kernel: K) -> K::Output;

    /// Returns [`coefficient_vectors`](isobar_core::operator::Operator::coefficient_vectors).
    fn vectors(&self) -> f64;

    /// Returns the bytes of all that is stored.
    fn bytes(&self) -> usize;
}

/// One kind of coefficients; loops are compiled for each.
pub(crate) trait Coefficients<T: Real>: Sync {
    /// Whether no direction is ever periodic, and entries beyond the ends of lines in x are zero.
    const IS_PLAIN: bool;
    /// The coefficients of some columns of a half plane.
    type Tile<'a, S: Simd>: TileCoefficients<S, T>
    where
        Self: 'a;
    /// Coefficients for processors without vector instructions: these, or more general ones for which loops are compiled anyway.
    type WithoutVectors: Coefficients<T>;

    /// Returns the coefficients for processors without vector instructions.
    fn without_vectors(&self) -> &Self::WithoutVectors;

    /// Returns the coefficients of some columns of a half plane.
    fn tile<'a, S: Simd>(&'a self, simd: S, g: Geometry<'a, T>, h: &HalfPlane, columns: Columns) -> Self::Tile<'a, S>;
}

/// The coefficients of some columns of a half plane.
pub(crate) trait TileCoefficients<S: Simd, T: Real> {
    /// The coefficients of one layer.
    type Row: RowCoefficients<S, T>;

    /// Returns the coefficients of layer k.
    fn row(&self, k: usize) -> Self::Row;
}

/// The coefficients of one layer of some columns.
pub(crate) trait RowCoefficients<S: Simd, T: Real> {
    /// The entries of a pack.
    type Entries: Entries<S, T>;

    /// Returns the entries of pack i.
    fn get(&self, i: usize) -> Self::Entries;

    /// Prefetches the data needed a little after pack i.
    fn fetch_ahead(&self, i: usize);
}

/// The rows of the matrix A = W A' of a pack of cells, W a diagonal matrix that makes A' cheap:
///
/// (A' u)_n = s_n u_n + Σ_m t_nm (u_n − u_m)
pub(crate) trait Entries<S: Simd, T: Real>: Copy {
    /// Returns s.
    fn shift(&self) -> Pack<S, T>;

    /// Returns t: west, east, south, north.
    fn horizontal(&self) -> [Pack<S, T>; 4];

    /// Returns t: below, above; `None` where the grid has one layer.
    fn vertical(&self) -> Option<[Pack<S, T>; 2]>;

    /// s + Σ t over the horizontal neighbours
    #[inline(always)]
    fn excess(&self) -> Pack<S, T> {
        let [west, east, south, north] = self.horizontal();
        self.shift() + ((west + east) + (south + north))
    }

    /// s + Σ t
    #[inline(always)]
    fn diagonal(&self) -> Pack<S, T> {
        match self.vertical() {
            Some([below, above]) => self.excess() + (below + above),
            None => self.excess(),
        }
    }

    /// Σ t v over the horizontal neighbours
    #[inline(always)]
    fn horizontal_sum(&self, [v_west, v_east, v_south, v_north]: [Pack<S, T>; 4]) -> Pack<S, T> {
        let [west, east, south, north] = self.horizontal();
        west.mul_add(v_west, east * v_east) + south.mul_add(v_south, north * v_north)
    }

    /// x + Σ t v over the horizontal neighbours
    #[inline(always)]
    fn add_horizontal_sum(&self, v: [Pack<S, T>; 4], x: Pack<S, T>) -> Pack<S, T> {
        x + self.horizontal_sum(v)
    }

    /// Computes A' u from differences: a constant gives exactly s u.
    #[inline(always)]
    fn apply(&self, u: Pack<S, T>, around: [Pack<S, T>; 4], beside: [Pack<S, T>; 2]) -> Pack<S, T> {
        let ([west, east, south, north], [v_west, v_east, v_south, v_north]) = (self.horizontal(), around);
        let x = west.mul_add(u - v_west, east * (u - v_east));
        let y = south.mul_add(u - v_south, north.mul_add(u - v_north, self.shift() * u));
        match self.vertical() {
            Some([below, above]) => {
                let [v_below, v_above] = beside;
                below.mul_add(u - v_below, above.mul_add(u - v_above, x)) + y
            }
            None => x + y,
        }
    }

    /// Returns 1/x of a pivot or a diagonal entry, and 0 for 0.
    #[inline(always)]
    fn invert(x: Pack<S, T>) -> Pack<S, T> {
        x.reciprocal()
    }

    /// W x
    #[inline(always)]
    fn times_weight(&self, x: Pack<S, T>) -> Pack<S, T> {
        x
    }

    /// f − W x
    #[inline(always)]
    fn less_weighted(&self, f: Pack<S, T>, x: Pack<S, T>) -> Pack<S, T> {
        f - x
    }

    /// W⁻¹ x
    #[inline(always)]
    fn over_weight(&self, x: Pack<S, T>) -> Pack<S, T> {
        x
    }
}
