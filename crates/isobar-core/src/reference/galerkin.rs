//! Galerkin levels, cell by cell.

use std::sync::{Arc, RwLock};

use super::seven_point::{At, Plain, fill, get};
use super::{Reference, Vector};
use crate::backend::AggregateBackend;
use crate::operator::{Correction, Guess, LineSmoother, Operator, Sweep, Transfer};
use crate::options::Smoother;
use crate::stencil::galerkin::couplings::{COLOURS, UPPER, along, upper_offset};
use crate::stencil::galerkin::{Bodies, Couplings, Directions, Execute, Matrix, Offset, Ranked, Weights};
use crate::stencil::galerkin_levels::{Finer, SupportsGalerkin};
use crate::stencil::{Axis, Diffusion};
use crate::{Backend, Colour, Layout, Precision, Real, Result, read, write};

/// A pivot below this fraction of its diagonal is rounding.
const SINGULAR_PIVOT: f64 = 1e-13;

/// A 27-point operator, in one precision.
#[derive(Debug)]
pub struct Plain27<T: Real> {
    layout: Layout,
    rows: RwLock<Rows27<T>>,
}

impl<T: Real> Plain27<T> {
    fn new(matrix: &Couplings) -> Result<Self> {
        let layout = Layout::new(matrix.grid.shape)?;
        Ok(Self { rows: RwLock::new(Rows27::new(matrix, &layout)?), layout })
    }
}

/// The coefficients of the operator.
#[derive(Debug)]
struct Rows27<T> {
    /// The offsets between cells, and the entries in double precision.
    matrix: Couplings,
    /// Couplings by stored offset.
    couplings: Vec<Option<Vector<T>>>,
    sums: Vector<T>,
    inverse_pivots: Vector<T>,
}

impl<T: Real> Rows27<T> {
    fn new(matrix: &Couplings, layout: &Layout) -> Result<Self> {
        let of = |value: &dyn Fn(At) -> f64| -> Result<Vector<T>> {
            let mut v = Vector::zeros(layout)?;
            fill(&mut v, |at| T::from_f64(value(at)));
            Ok(v)
        };
        let couplings = (0..UPPER)
            .map(|n| matrix.present[n].then(|| of(&|at| matrix.coupling(at, upper_offset(n)))).transpose())
            .collect::<Result<_>>()?;
        let sums = of(&|[i, j, k]| matrix.sums(j, k as isize)[i + 1])?;
        Ok(Self { matrix: matrix.clone(), couplings, sums, inverse_pivots: Self::inverse_pivots(matrix, layout)? })
    }

    /// Returns the cells coupled to a cell, and their couplings.
    fn row(&self, at: At) -> impl Iterator<Item = (Offset, At, T)> + '_ {
        self.couplings.iter().enumerate().filter_map(|(n, c)| Some((n, c.as_ref()?))).flat_map(move |(n, c)| {
            let upper = upper_offset(n);
            let lower = upper.map(|d| -d);
            let above = self.matrix.neighbour(at, upper).map(|to| (upper, to, get(c)(at)));
            let below = self.matrix.neighbour(at, lower).map(|to| (lower, to, get(c)(to)));
            [above, below].into_iter().flatten()
        })
    }

    /// Computes 1 / pivot of every column's tridiagonal block, upwards, in double precision: pivots are sums of row sums
    /// and couplings; couplings to cells of the same colour across periodic ends, which use old values, count twice.
    fn inverse_pivots(matrix: &Couplings, layout: &Layout) -> Result<Vector<T>> {
        let shape = layout.shape();
        let mut inverses = Vector::zeros(layout)?;
        for (i, j) in (0..shape.ny).flat_map(|j| (0..shape.nx).map(move |i| (i, j))) {
            let (mut ratio, mut below) = (0.0, 0.0);
            for k in 0..shape.nz {
                let at = [i, j, k];
                let s = matrix.sums(j, k as isize)[i + 1];
                let (mut out, mut above, mut diagonal) = (s, 0.0, s);
                for offset in matrix.offsets() {
                    let Some(to) = matrix.neighbour(at, offset) else { continue };
                    let c = matrix.coupling(at, offset);
                    diagonal += c;
                    if is_in_line(shape.nz, at, offset) {
                        above += if offset[2] > 0 { c } else { 0.0 };
                    } else {
                        out += c + if colour(at) == colour(to) { c.abs() } else { 0.0 };
                    }
                }
                let excess = out + below * ratio;
                let pivot = above + excess;
                let is_regular = pivot > SINGULAR_PIVOT * diagonal && pivot > 0.0;
                let inverse = if is_regular { 1.0 / pivot } else { 0.0 };
                inverses.set(i, j, k, T::from_f64(inverse));
                (ratio, below) = (excess * inverse, above);
            }
        }
        Ok(inverses)
    }

    /// Solves a column's tridiagonal block for a right-hand side in `values`.
    fn solve_column(&self, [i, j]: [usize; 2], values: &mut [T]) {
        let above = |k: usize| match &self.couplings[along(Axis::Z)] {
            Some(c) if k + 1 < self.matrix.grid.shape.nz => c.get(i, j, k),
            _ => T::ZERO,
        };
        for k in 0..values.len() {
            let below = if k > 0 { above(k - 1) * values[k - 1] } else { T::ZERO };
            values[k] = (values[k] + below) * self.inverse_pivots.get(i, j, k);
        }
        for k in (0..values.len() - 1).rev() {
            values[k] += above(k) * self.inverse_pivots.get(i, j, k) * values[k + 1];
        }
    }
}

fn magnitude<T: Real>(c: T) -> T {
    if c < T::ZERO { -c } else { c }
}

/// Returns whether an offset stays within a column without crossing a periodic end.
fn is_in_line(nz: usize, [_, _, k]: At, [dx, dy, dz]: Offset) -> bool {
    dx == 0 && dy == 0 && (0..nz as isize).contains(&(k as isize + dz))
}

/// Returns (i mod 2, j mod 2) as a number.
fn colour([i, j, _]: At) -> usize {
    i % 2 + 2 * (j % 2)
}

impl<T: Real> Operator<Reference, T> for Plain27<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let rows = read(&self.rows);
        fill(y, |at| {
            let here = get(x)(at);
            rows.row(at).fold(get(&rows.sums)(at) * here, |sum, (_, to, c)| sum + c * (here - get(x)(to)))
        });
        Ok(())
    }

    fn coefficient_vectors(&self) -> f64 {
        let rows = read(&self.rows);
        (2 + rows.couplings.iter().flatten().count()) as f64
    }
}

impl<T: Real> LineSmoother<Reference, T> for Plain27<T> {
    fn smooth(&self, sweep: Sweep<'_, Vector<T>>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, .. } = sweep;
        if guess == Guess::Zero {
            u.entries_mut().fill(T::ZERO);
        }
        let rows = read(&self.rows);
        let shape = self.layout.shape();
        let rho = T::from_f64(relaxation.rho);
        let mut values = vec![T::ZERO; shape.nz];
        let is_jacobi = relaxation.smoother == Smoother::LineJacobi;
        for n in 0..if is_jacobi { 1 } else { 4 } {
            let wanted = if relaxation.first == Colour::Red { n } else { 3 - n };
            // Cells of one colour across a periodic end enter with old values.
            let old = u.clone();
            for (i, j) in (0..shape.ny).flat_map(|j| (0..shape.nx).map(move |i| (i, j))) {
                if !is_jacobi && colour([i, j, 0]) != wanted {
                    continue;
                }
                for (k, value) in values.iter_mut().enumerate() {
                    let at = [i, j, k];
                    *value = f.get(i, j, k);
                    for (offset, to, c) in rows.row(at) {
                        if !is_in_line(shape.nz, at, offset) {
                            *value += c * get(&old)(to);
                            // Across a periodic end.
                            if colour(at) == colour(to) {
                                *value += magnitude(c) * get(&old)(at);
                            }
                        }
                    }
                }
                rows.solve_column([i, j], &mut values);
                for (k, &value) in values.iter().enumerate() {
                    let before = u.get(i, j, k);
                    u.set(i, j, k, if relaxation.rho == 1.0 { value } else { before + rho * (value - before) });
                }
            }
        }
        Ok(())
    }

    fn colours(&self) -> usize {
        COLOURS
    }
}

/// The transfer P = P_x P_y P_z over the halved directions, and R = Pᵀ.
pub struct Interpolation<T: Real> {
    fine: Arc<dyn LineSmoother<Reference, T>>,
    coarse: Layout,
    weights: RwLock<Vec<Weights>>,
}

impl<T: Real> Interpolation<T> {
    /// Returns the coarse cells from which a cell is interpolated in one direction, with their weights.
    fn parents(weights: &Weights, at: At) -> [Option<(At, T)>; 2] {
        let d = weights.axis as usize;
        let mut to = at;
        to[d] = at[d] / 2;
        if at[d].is_multiple_of(2) {
            return [Some((to, T::ONE)), None];
        }
        let [below, above] = weights.get(to).map(T::from_f64);
        let mut next = to;
        next[d] = (to[d] + 1) % weights.coarse.extents()[d];
        [Some((to, below)), Some((next, above))]
    }
}

impl<T: Real> Transfer<Reference, T> for Interpolation<T> {
    fn fine(&self) -> &dyn LineSmoother<Reference, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        true
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let all = read(&self.weights);
        let mut from = f.clone();
        for weights in all.iter() {
            let mut to = Vector::zeros(&Layout::new(weights.coarse.shape)?)?;
            for at in weights.fine.shape.places() {
                for ([i, j, k], weight) in Self::parents(weights, at).into_iter().flatten() {
                    to.set(i, j, k, to.get(i, j, k) + weight * get(&from)(at));
                }
            }
            from = to;
        }
        coarse_f.entries_mut().copy_from_slice(from.entries());
        Ok(())
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let all = read(&self.weights);
        let mut from = coarse_u.clone();
        for weights in all.iter().rev() {
            let mut to = Vector::zeros(&Layout::new(weights.fine.shape)?)?;
            fill(&mut to, |at| {
                Self::parents(weights, at)
                    .into_iter()
                    .flatten()
                    .fold(T::ZERO, |sum, (at, weight): (At, T)| sum + weight * get(&from)(at))
            });
            from = to;
        }
        u.entries_mut().iter_mut().zip(from.entries()).for_each(|(u, &v)| *u += v);
        Ok(())
    }
}

/// Corrections of the constants of strongly coupled aggregates.
#[derive(Debug)]
pub struct BodyCorrection {
    bodies: RwLock<Vec<Bodies>>,
}

impl<T: Real> Correction<Reference, T> for BodyCorrection {
    fn is_active(&self) -> bool {
        !read(&self.bodies).is_empty()
    }

    fn correct(&self, r: &Vector<T>, u: &mut Vector<T>, guess: Guess) -> Result<()> {
        let all = read(&self.bodies);
        if guess == Guess::Zero {
            Reference.clear(u)?;
        }
        for bodies in all.iter() {
            for (n, factor) in bodies.factors.iter().enumerate() {
                let cells = bodies.cells_of(n);
                let sum: f64 = cells.iter().map(|&cell| r.entries()[cell as usize].to_f64()).sum();
                cells.iter().for_each(|&cell| u.entries_mut()[cell as usize] += T::from_f64(factor * sum));
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let all = read(&self.bodies);
        all.iter().map(Bodies::bytes).sum()
    }
}

impl Execute for Reference {
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        items.iter_mut().enumerate().for_each(|(n, item)| f(n, item));
    }
}

impl Ranked for Reference {}

impl SupportsGalerkin for Reference {
    type Coarse<T: Real> = Plain27<T>;
    type Interpolation<T: Real> = Interpolation<T>;
    type BodyCorrection<T: Real> = BodyCorrection;

    fn finest<T: Real>(&self, stencil: &Diffusion, _: &Arc<Self::Operator<T>>) -> Result<Matrix> {
        // Other back ends are compared with this.
        Matrix::of(self, stencil, Precision::F64)
    }

    fn coarse<T: Real>(&self, matrix: &Matrix) -> Result<Arc<Plain27<T>>> {
        Ok(Arc::new(Plain27::new(&matrix.in_double())?))
    }

    fn update_coarse<T: Real>(&self, coarse: &Plain27<T>, matrix: &Matrix) -> Result<()> {
        let layout = Layout::new(matrix.grid().shape)?;
        *write(&coarse.rows) = Rows27::new(&matrix.in_double(), &layout)?;
        Ok(())
    }

    fn interpolation<T: Real>(
        &self,
        finer: Finer<'_, Self, T>,
        coarse: &Layout,
        weights: Directions,
    ) -> Result<Arc<Interpolation<T>>> {
        let fine: Arc<dyn LineSmoother<Self, T>> = match finer {
            Finer::Finest(finest) => Arc::<Plain<Diffusion, T>>::clone(finest) as _,
            Finer::Coarse(coarse) => Arc::clone(coarse) as _,
        };
        Ok(Arc::new(Interpolation { fine, coarse: *coarse, weights: RwLock::new(weights.in_double()) }))
    }

    fn update_interpolation<T: Real>(&self, between: &Interpolation<T>, weights: Directions) -> Result<()> {
        *write(&between.weights) = weights.in_double();
        Ok(())
    }

    fn body_correction<T: Real>(&self, _: &Layout, bodies: Vec<Bodies>) -> Result<Arc<BodyCorrection>> {
        Ok(Arc::new(BodyCorrection { bodies: RwLock::new(bodies) }))
    }

    fn update_bodies<T: Real>(&self, correction: &BodyCorrection, bodies: Vec<Bodies>) -> Result<()> {
        *write(&correction.bodies) = bodies;
        Ok(())
    }

    fn inverse(&self, matrix: &Matrix, levels: Precision) -> Result<Self::AggregateMatrix> {
        self.aggregate_matrix(matrix.grid().shape.cells(), &matrix.inverse(levels))
    }
}
