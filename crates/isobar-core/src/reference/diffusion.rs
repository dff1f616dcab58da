//! The diffusion operator, cell by cell.

use super::{Reference, Vector};
use crate::backend::{DiffusionBackend, HostScalars, Slot};
use crate::error::Result;
use crate::layout::{Colour, Layout, Shape};
use crate::operator::{Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation};
use crate::options::Smoother;
use crate::real::Real;
use crate::region::{RegionMap, RegionOperator};
use crate::stencil::{Axis, Diffusion};
use crate::triangular::TriangularOperator;

/// [`Diffusion`] on the reference back end: every transmissibility computed once, in double precision.
#[derive(Clone, Debug)]
pub struct PlainDiffusion<T> {
    layout: Layout,
    stencil: Diffusion,
    /// Of each direction, T between a cell and its upper neighbour.
    faces: [Vector<T>; 3],
    /// Dirichlet sides included.
    shift: Vector<T>,
    /// [`Diffusion::transfer_weights`]
    weights: [Option<Vector<T>>; 2],
}

type At = [usize; 3];

impl<T> Neighbour<T> {
    fn same_column(&self, [i, j, _]: At) -> bool {
        self.at[0] == i && self.at[1] == j
    }
}

/// The other side of a face.
struct Neighbour<T> {
    at: At,
    /// The transmissibility between.
    t: T,
    /// Whether the coupling belongs to the column's tridiagonal block.
    in_line: bool,
    /// Whether the neighbour has the higher number.
    higher: bool,
}

impl<T: Real> PlainDiffusion<T> {
    /// Computes transmissibilities.
    ///
    /// # Errors
    /// Those of [`Layout::new`] and [`Vector::zeros`].
    pub fn new(stencil: &Diffusion, with_transfers: bool) -> Result<Self> {
        let [weights_x, weights_y] = if with_transfers { stencil.transfer_weights() } else { [None, None] };
        let layout = Layout::new(stencil.shape())?;
        let of = |value: &dyn Fn(At) -> f64| -> Result<Vector<T>> {
            let mut v = Vector::zeros(&layout)?;
            v.fill_with(|i, j, k| T::from_f64(value([i, j, k])));
            Ok(v)
        };
        Ok(Self {
            layout,
            faces: [
                of(&|at| stencil.face(Axis::X, at))?,
                of(&|at| stencil.face(Axis::Y, at))?,
                of(&|at| stencil.face(Axis::Z, at))?,
            ],
            shift: of(&|at| stencil.shift(at))?,
            weights: [
                weights_x.map(|w| of(&|at| w[stencil.cell(at)])).transpose()?,
                weights_y.map(|w| of(&|at| w[stencil.cell(at)])).transpose()?,
            ],
            stencil: stencil.clone(),
        })
    }

    fn face(&self, axis: Axis, [i, j, k]: At) -> T {
        self.faces[axis as usize].get(i, j, k)
    }

    /// Every face of a cell.
    fn neighbours(&self, at: At) -> impl Iterator<Item = Neighbour<T>> + '_ {
        let Shape { nx, ny, nz } = self.layout.shape();
        let faces = Axis::ALL.into_iter().flat_map(move |axis| {
            let (d, n) = (axis as usize, [nx, ny, nz][axis as usize]);
            let lower = self.stencil.lower(axis, at).map(|lower| {
                let wraps = at[d] == 0;
                Neighbour { at: lower, t: self.face(axis, lower), in_line: axis == Axis::Z && !wraps, higher: wraps }
            });
            let upper = self.stencil.upper(axis, at).map(|upper| {
                let wraps = at[d] + 1 == n;
                Neighbour { at: upper, t: self.face(axis, at), in_line: axis == Axis::Z && !wraps, higher: !wraps }
            });
            [lower, upper]
        });
        faces.flatten()
    }

    fn diagonal(&self, at @ [i, j, k]: At) -> T {
        self.neighbours(at).fold(self.shift.get(i, j, k), |sum, n| sum + n.t)
    }

    /// 1/d, and 0 where d is.
    fn inverse_diagonal(&self, at: At) -> T {
        inverse(self.diagonal(at))
    }

    /// (A u)_n, from differences: a constant gives exactly s u.
    fn row(&self, at @ [i, j, k]: At, u: impl Fn(At) -> T) -> T {
        let here = u(at);
        self.neighbours(at).fold(self.shift.get(i, j, k) * here, |sum, n| sum + n.t * (here - u(n.at)))
    }

    fn fill(&self, y: &mut Vector<T>, mut value: impl FnMut(At) -> T) {
        y.fill_with(|i, j, k| value([i, j, k]));
    }

    /// Replaces the values of a column by the solution with its tridiagonal block. Everything is a sum of
    /// positive numbers: the pivot of level k is T_{k+½} + e_k, with the excess
    /// e_k = (s and faces out of the column)_k + T_{k−½} e_{k−1} / (T_{k−½} + e_{k−1}).
    /// A column tied to nothing has the last pivot 0, and gets the solution with 0 at its top. The face T of a
    /// periodic top is not part of the tridiagonal block; instead its two cells get 2T on the diagonal, so that M − A
    /// is still positive semi-definite (with T alone, M⁻¹A can have the eigenvalue 2, and relaxation stalls).
    fn solve_column(&self, i: usize, j: usize, values: &mut [T], ratios: &mut [T]) {
        let nz = values.len();
        let (mut below, mut excess_over_pivot, mut y_before) = (T::ZERO, T::ZERO, T::ZERO);
        for k in 0..nz {
            let at = [i, j, k];
            let mut out = self.shift.get(i, j, k);
            for n in self.neighbours(at).filter(|n| !n.in_line) {
                out += if n.same_column(at) { n.t + n.t } else { n.t };
            }
            let above = if k + 1 < nz { self.face(Axis::Z, at) } else { T::ZERO };
            let excess = out + below * excess_over_pivot;
            let pivot = above + excess;
            let reciprocal = inverse(pivot);
            y_before = (values[k] + below * y_before) * reciprocal;
            values[k] = y_before;
            ratios[k] = above * reciprocal;
            excess_over_pivot = excess * reciprocal;
            below = above;
        }
        for k in (0..nz - 1).rev() {
            values[k] += ratios[k] * values[k + 1];
        }
    }

    fn for_each_column(&self, mut f: impl FnMut(usize, usize, &mut [T], &mut [T])) {
        let Shape { nx, ny, nz } = self.layout.shape();
        let (mut values, mut ratios) = (vec![T::ZERO; nz], vec![T::ZERO; nz]);
        for j in 0..ny {
            for i in 0..nx {
                f(i, j, &mut values, &mut ratios);
            }
        }
    }
}

fn inverse<T: Real>(x: T) -> T {
    if x > T::ZERO { T::ONE / x } else { T::ZERO }
}

fn get<T: Real>(v: &Vector<T>) -> impl Fn(At) -> T + '_ {
    |[i, j, k]| v.get(i, j, k)
}

impl<T> OnBackend<Reference> for PlainDiffusion<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }
}

impl<T: Real> Operator<Reference, T> for PlainDiffusion<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.fill(y, |at| self.row(at, get(x)));
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.fill(z, |at| get(r)(at) * self.inverse_diagonal(at));
        Ok(())
    }

    fn coefficient_vectors(&self) -> f64 {
        self.stencil.coefficient_vectors()
    }
}

impl<T: Real> LineSolver<Reference, T> for PlainDiffusion<T> {
    fn line_coefficient_vectors(&self) -> f64 {
        self.stencil.coefficient_vectors()
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.for_each_column(|i, j, values, ratios| {
            for (k, value) in values.iter_mut().enumerate() {
                *value = r.get(i, j, k);
            }
            self.solve_column(i, j, values, ratios);
            for (k, &value) in values.iter().enumerate() {
                z.set(i, j, k, value);
            }
        });
        Ok(())
    }
}

impl<T: Real> LineOperator<Reference, T> for PlainDiffusion<T> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        if guess == Guess::Zero {
            u.entries_mut().fill(T::ZERO);
        }
        let rho = T::from_f64(relaxation.rho);
        if relaxation.smoother == Smoother::LineJacobi {
            self.fill(scratch, |at| get(f)(at) - self.row(at, get(u)));
            let r = scratch.clone();
            self.solve_lines(&r, scratch)?;
            for (u, &e) in u.entries_mut().iter_mut().zip(scratch.entries()) {
                *u += rho * e;
            }
            return Ok(());
        }
        for colour in [relaxation.first, relaxation.first.other()] {
            self.for_each_column(|i, j, values, ratios| {
                if Colour::of(i, j) != colour {
                    return;
                }
                for (k, value) in values.iter_mut().enumerate() {
                    *value = f.get(i, j, k);
                    for n in self.neighbours([i, j, k]).filter(|n| !n.in_line) {
                        let lagged = if n.same_column([i, j, k]) { u.get(i, j, k) } else { T::ZERO };
                        *value += n.t * (get(u)(n.at) + lagged);
                    }
                }
                self.solve_column(i, j, values, ratios);
                for (k, &value) in values.iter().enumerate() {
                    let old = u.get(i, j, k);
                    u.set(i, j, k, if relaxation.rho == 1.0 { value } else { old + rho * (value - old) });
                }
            });
        }
        Ok(())
    }
}

impl<T: Real> TriangularOperator<Reference, T> for PlainDiffusion<T> {
    fn relax_lower(
        &self,
        r: &Vector<T>,
        w: &Vector<T>,
        v: &mut Vector<T>,
        rho: Option<(Slot, &mut HostScalars)>,
    ) -> Result<()> {
        let mut sum = 0.0;
        self.fill(v, |at| {
            let lower = self.neighbours(at).filter(|n| !n.higher).fold(T::ZERO, |sum, n| sum + n.t * get(w)(n.at));
            let value = (get(r)(at) + lower) * self.inverse_diagonal(at);
            sum += self.diagonal(at).to_f64() * value.to_f64() * value.to_f64();
            value
        });
        if let Some((slot, scalars)) = rho {
            scalars.0[slot.index()] = sum;
        }
        Ok(())
    }

    fn relax_upper(&self, v: &Vector<T>, w: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.fill(z, |at| {
            let upper = self.neighbours(at).filter(|n| n.higher).fold(T::ZERO, |sum, n| sum + n.t * get(w)(n.at));
            get(v)(at) + upper * self.inverse_diagonal(at)
        });
        Ok(())
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        self.fill(z, |at| {
            let (mut squares, mut sum) = (T::ZERO, T::ZERO);
            let here = get(inverse_diagonal)(at);
            for n in self.neighbours(at) {
                let there = get(inverse_diagonal)(n.at);
                let weight = if scaled { n.t * here * there } else { n.t * if n.higher { here } else { there } };
                sum += weight * get(r)(n.at);
                if !n.higher {
                    squares += if scaled { weight * n.t } else { weight * weight };
                }
            }
            // Scaled: (r/d)(1 + Σ T²/(d d_m)), and weight · T is T²/(d d_m).
            sum + get(r)(at) * if scaled { here * (T::ONE + squares) } else { T::ONE + squares }
        });
        Ok(())
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let same_block = |a: At, b: At| self.stencil.cell(a) / block == self.stencil.cell(b) / block;
        let cells: Vec<At> = self.stencil.cells().collect();
        for &at @ [i, j, k] in &cells {
            let within = self.neighbours(at).filter(|n| !n.higher && same_block(at, n.at));
            let sum = within.fold(get(r)(at), |sum, n| sum + n.t * get(z)(n.at));
            z.set(i, j, k, sum * get(inverse_pivots)(at));
        }
        for &at @ [i, j, k] in cells.iter().rev() {
            let within = self.neighbours(at).filter(|n| n.higher && same_block(at, n.at));
            let sum = within.fold(T::ZERO, |sum, n| sum + n.t * get(z)(n.at));
            let value = z.get(i, j, k) + sum * get(inverse_pivots)(at);
            z.set(i, j, k, value);
        }
        Ok(())
    }
}

impl<T: Real> RegionOperator<Reference, T> for PlainDiffusion<T> {
    fn subtract_regional(
        &self,
        regions: &RegionMap,
        a: &Vec<f64>,
        p: &Vector<T>,
        q: &mut Vector<T>,
        sigma: Slot,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let value = |at: At| regions.region(self.stencil.cell(at)).map_or(T::ZERO, |region| T::from_f64(a[region]));
        let mut sum = 0.0;
        for at @ [i, j, k] in self.stencil.cells() {
            let entry = q.get(i, j, k) - self.row(at, value);
            q.set(i, j, k, entry);
            sum += entry.to_f64() * p.get(i, j, k).to_f64();
        }
        scalars.0[sigma.index()] = sum;
        Ok(())
    }
}

impl DiffusionBackend for Reference {
    type Diffusion<T: Real> = PlainDiffusion<T>;

    fn diffusion<T: Real>(&self, stencil: &Diffusion, with_transfers: bool) -> Result<PlainDiffusion<T>> {
        PlainDiffusion::new(stencil, with_transfers)
    }
}

impl<T: Real> PlainDiffusion<T> {
    /// The coarse cells that a fine one takes its correction from, with their weights.
    fn interpolation(&self, coarse: &Self, at @ [i, j, k]: At) -> [(Option<At>, T); 4] {
        let coarse = coarse.layout.shape();
        // Own coarse cell, weight, and the neighbour on the cell's side.
        let of = |axis: Axis, count: usize| {
            let (d, periodic) = (axis as usize, self.stencil.is_periodic(axis));
            let Some(weights) = &self.weights[d] else { return (at[d], T::ZERO, None) };
            let own = at[d] / 2;
            let far = match (at[d].is_multiple_of(2), periodic) {
                (true, true) => Some((own + count - 1) % count),
                (true, false) => own.checked_sub(1),
                (false, true) => Some((own + 1) % count),
                (false, false) => Some(own + 1).filter(|&far| far < count),
            };
            (own, weights.get(i, j, k), far)
        };
        let (own_x, w_x, far_x) = of(Axis::X, coarse.nx);
        let (own_y, w_y, far_y) = of(Axis::Y, coarse.ny);
        [
            (Some([own_x, own_y, k]), (T::ONE - w_x) * (T::ONE - w_y)),
            (far_x.map(|x| [x, own_y, k]), w_x * (T::ONE - w_y)),
            (far_y.map(|y| [own_x, y, k]), (T::ONE - w_x) * w_y),
            (far_x.and_then(|x| Some([x, far_y?, k])), w_x * w_y),
        ]
    }
}

impl<T: Real> MultigridOperator<Reference, T> for PlainDiffusion<T> {
    fn has_adjoint_transfers(&self) -> bool {
        true
    }

    fn restrict(&self, coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        coarse_f.entries_mut().fill(T::ZERO);
        for at in self.stencil.cells() {
            for (to, weight) in self.interpolation(coarse, at) {
                if let Some([i, j, k]) = to {
                    coarse_f.set(i, j, k, coarse_f.get(i, j, k) + weight * get(f)(at));
                }
            }
        }
        Ok(())
    }

    fn prolong(&self, coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        for at @ [i, j, k] in self.stencil.cells() {
            let terms = self.interpolation(coarse, at);
            let correction = terms
                .iter()
                .fold(T::ZERO, |sum, &(from, w)| sum + from.map_or(T::ZERO, |from| w * get(coarse_u)(from)));
            u.set(i, j, k, u.get(i, j, k) + correction);
        }
        Ok(())
    }
}
