//! Matrices that couple a cell to its six neighbours, row by row; all steps follow from the couplings alone.

use std::fmt::Debug;
use std::sync::{RwLock, RwLockReadGuard};

use super::{Reference, Vector};
use crate::operator::{Diagonal, Guess, LineSmoother, LineSolver, MixedSmoother, Operator, Relaxation, Sweep};
use crate::options::Smoother;
use crate::stencil::Stencil;
use crate::{Colour, Layout, Real, Result, Shape, read, write};

/// A cell, by (i, j, k).
pub type At = [usize; 3];

/// One off-diagonal entry, −t.
#[derive(Clone, Copy, Debug)]
pub struct Coupling<T> {
    /// The neighbour.
    pub to: At,
    /// t
    pub t: T,
    /// Whether the entry belongs to the column's tridiagonal block.
    pub in_line: bool,
    /// Whether the neighbour has the higher number, unknowns being numbered x first, then y, then z.
    pub higher: bool,
}

/// The rows of a matrix: (A u)_n = s_n u_n + Σ_m t_nm (u_n − u_m).
pub trait Rows<T>: Debug + Send + Sync {
    /// Returns t to the neighbours: west, east, south, north, below, above.
    fn couplings(&self, at: At) -> [Option<Coupling<T>>; 6];

    /// Returns s.
    fn shift(&self, at: At) -> T;

    /// Returns [`Operator::coefficient_vectors`].
    fn coefficient_vectors(&self) -> f64;
}

/// A stencil with such rows.
pub trait SevenPoint: Stencil {
    /// The rows of the matrix, rounded to T.
    type Rows<T: Real>: Rows<T>;

    /// Returns which directions are periodic.
    fn periodic(&self) -> [bool; 3] {
        [false; 3]
    }

    /// Computes the rows, for vectors with a layout.
    fn rows<T: Real>(&self, layout: &Layout) -> Result<Self::Rows<T>>;
}

/// A [`SevenPoint`] stencil on the reference back end.
#[derive(Debug)]
pub struct Plain<S: SevenPoint, T: Real> {
    pub(super) layout: Layout,
    state: RwLock<State<S, T>>,
}

/// The data that an update changes.
#[derive(Debug)]
pub(super) struct State<S: SevenPoint, T: Real> {
    pub(super) stencil: S,
    pub(super) rows: S::Rows<T>,
}

impl<S: SevenPoint, T: Real> Plain<S, T> {
    /// Computes the rows.
    pub fn new(stencil: &S) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let state = State { stencil: stencil.clone(), rows: stencil.rows(&layout)? };
        Ok(Self { layout, state: RwLock::new(state) })
    }

    /// Replaces the coefficients.
    pub fn update(&self, stencil: &S) -> Result<()> {
        let state = State { stencil: stencil.clone(), rows: stencil.rows(&self.layout)? };
        *write(&self.state) = state;
        Ok(())
    }

    /// Returns the coefficients. They are replaced as a whole, so that a panic elsewhere does no harm.
    pub(super) fn state(&self) -> RwLockReadGuard<'_, State<S, T>> {
        read(&self.state)
    }
}

pub(super) fn get<T: Real>(v: &Vector<T>) -> impl Fn(At) -> T + '_ {
    |[i, j, k]| v.get(i, j, k)
}

pub(super) fn fill<T: Real>(y: &mut Vector<T>, mut value: impl FnMut(At) -> T) {
    y.fill_with(|i, j, k| value([i, j, k]));
}

pub(super) fn inverse<T: Real>(x: T) -> T {
    if x > T::ZERO { T::ONE / x } else { T::ZERO }
}

/// Computes (A u)_n from differences: a constant gives exactly s u.
pub(super) fn row<T: Real>(rows: &impl Rows<T>, at: At, u: impl Fn(At) -> T) -> T {
    let here = u(at);
    rows.couplings(at).into_iter().flatten().fold(rows.shift(at) * here, |sum, n| sum + n.t * (here - u(n.to)))
}

pub(super) fn diagonal<T: Real>(rows: &impl Rows<T>, at: At) -> T {
    rows.couplings(at).into_iter().flatten().fold(rows.shift(at), |sum, n| sum + n.t)
}

fn same_column(a: At, b: At) -> bool {
    a[..2] == b[..2]
}

/// Replaces the values of a column by the solution with its tridiagonal block. Every quantity is a sum of positive numbers: the
/// pivot of layer k is t_{k+½} + e_k, with the excess e_k = (s and couplings out of the column)_k + t_{k−½} e_{k−1} / (t_{k−½}' +
/// e_{k−1}), t' being the coupling back. A decoupled column has the last pivot 0, and gets the solution with 0 at its top. The
/// coupling t across a periodic top is not part of the tridiagonal block; instead its two cells get 2t on the diagonal, so that M
/// − A is still positive semi-definite (with t alone, M⁻¹A can have the eigenvalue 2, and relaxation stalls).
fn solve_column<T: Real>(rows: &impl Rows<T>, [i, j]: [usize; 2], values: &mut [T], ratios: &mut [T]) {
    let nz = values.len();
    let (mut excess_over_pivot, mut y_before) = (T::ZERO, T::ZERO);
    for k in 0..nz {
        let at = [i, j, k];
        let (mut out, mut below, mut above) = (rows.shift(at), T::ZERO, T::ZERO);
        for n in rows.couplings(at).into_iter().flatten() {
            match (n.in_line, n.higher) {
                (true, false) => below = n.t,
                (true, true) => above = n.t,
                (false, _) => out += if same_column(n.to, at) { n.t + n.t } else { n.t },
            }
        }
        let excess = out + below * excess_over_pivot;
        let reciprocal = inverse(above + excess);
        y_before = (values[k] + below * y_before) * reciprocal;
        values[k] = y_before;
        ratios[k] = above * reciprocal;
        excess_over_pivot = excess * reciprocal;
    }
    for k in (0..nz - 1).rev() {
        values[k] += ratios[k] * values[k + 1];
    }
}

fn for_each_column<T: Real>(layout: &Layout, mut f: impl FnMut([usize; 2], &mut [T], &mut [T])) {
    let Shape { nx, ny, nz } = layout.shape();
    let (mut values, mut ratios) = (vec![T::ZERO; nz], vec![T::ZERO; nz]);
    for j in 0..ny {
        for i in 0..nx {
            f([i, j], &mut values, &mut ratios);
        }
    }
}

impl<S: SevenPoint, T: Real> Operator<Reference, T> for Plain<S, T> {
    fn backend(&self) -> &Reference {
        &Reference
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let state = self.state();
        fill(y, |at| row(&state.rows, at, get(x)));
        Ok(())
    }

    fn coefficient_vectors(&self) -> f64 {
        self.state().rows.coefficient_vectors()
    }
}

impl<S: SevenPoint, T: Real> Diagonal<Reference, T> for Plain<S, T> {
    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let state = self.state();
        fill(z, |at| get(r)(at) * inverse(diagonal(&state.rows, at)));
        Ok(())
    }
}

impl<S: SevenPoint, T: Real> LineSolver<Reference, T> for Plain<S, T> {
    fn backend(&self) -> &Reference {
        &Reference
    }

    fn line_coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors()
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let state = self.state();
        for_each_column(&self.layout, |[i, j], values, ratios| {
            for (k, value) in values.iter_mut().enumerate() {
                *value = r.get(i, j, k);
            }
            solve_column(&state.rows, [i, j], values, ratios);
            for (k, &value) in values.iter().enumerate() {
                z.set(i, j, k, value);
            }
        });
        Ok(())
    }
}

impl<S: SevenPoint, T: Real> LineSmoother<Reference, T> for Plain<S, T> {
    fn smooth(&self, sweep: Sweep<'_, Vector<T>>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        if guess == Guess::Zero {
            u.all_entries_mut().fill(T::ZERO);
        }
        let rho = T::from_f64(relaxation.rho);
        let state = self.state();
        if relaxation.smoother == Smoother::LineJacobi {
            fill(scratch, |at| get(f)(at) - row(&state.rows, at, get(u)));
            let r = scratch.clone();
            self.solve_lines(&r, scratch)?;
            for (u, &e) in u.entries_mut().iter_mut().zip(scratch.entries()) {
                *u += rho * e;
            }
            return Ok(());
        }
        if relaxation.smoother == Smoother::PointRedBlack {
            self.relax_points_by_colour(relaxation, f, u);
            return Ok(());
        }
        for colour in relaxation.colours() {
            let colour = self.layout.local(colour);
            for_each_column(&self.layout, |[i, j], values, ratios| {
                if Colour::of(i, j) != colour {
                    return;
                }
                // u + ρ(M⁻¹(f − (A − M)u) − u): a column's own old values are not multiplied by the vertical
                // couplings, whose rounding would dominate the residual.
                for (k, value) in values.iter_mut().enumerate() {
                    let at = [i, j, k];
                    *value = f.get(i, j, k);
                    for n in state.rows.couplings(at).into_iter().flatten().filter(|n| !n.in_line) {
                        let lagged = if same_column(n.to, at) { u.get(i, j, k) } else { T::ZERO };
                        *value += n.t * (get(u)(n.to) + lagged);
                    }
                }
                solve_column(&state.rows, [i, j], values, ratios);
                for (k, &value) in values.iter().enumerate() {
                    let old = u.get(i, j, k);
                    u.set(i, j, k, if relaxation.rho == 1.0 { value } else { old + rho * (value - old) });
                }
            });
        }
        Ok(())
    }
}

impl<S: SevenPoint> MixedSmoother<Reference> for Plain<S, f64> {}

impl<S: SevenPoint, T: Real> Plain<S, T> {
    /// Computes u += ρ D⁻¹(f − A u) in the cells with i + j + k even, then in the others, or in the opposite order.
    fn relax_points_by_colour(&self, relaxation: Relaxation, f: &Vector<T>, u: &mut Vector<T>) {
        let (state, rho) = (self.state(), T::from_f64(relaxation.rho));
        for colour in relaxation.colours() {
            let colour = self.layout.local(colour) as usize;
            // Cells of one colour lie in columns of both, alternating by layer.
            for at @ [i, j, k] in self.layout.shape().places().filter(|at| at.iter().sum::<usize>() % 2 == colour) {
                let change = get(f)(at) - row(&state.rows, at, get(u));
                let relaxed = get(u)(at) + rho * (change * inverse(diagonal(&state.rows, at)));
                u.set(i, j, k, relaxed);
            }
        }
    }
}
