//! The tensor-product operator, row by row.

use super::{Reference, Vector};
use crate::error::Result;
use crate::layout::{Colour, Layout, Shape};
use crate::operator::{Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation};
use crate::options::Smoother;
use crate::real::Real;
use crate::stencil::TensorProduct;

/// [`TensorProduct`] on the reference back end. Coefficients are rounded to T once; sums are taken in
/// the order in which the formulas stand, differences before products where that avoids
/// cancellation.
#[derive(Clone, Debug)]
pub struct PlainTensorProduct<T> {
    layout: Layout,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    d: Vec<T>,
    area: Vec<T>,
    west: Vec<T>,
    east: Vec<T>,
    south: Vec<T>,
    north: Vec<T>,
    total: Vec<T>,
}

impl<T: Real> PlainTensorProduct<T> {
    /// Rounds the coefficients.
    ///
    /// # Errors
    /// Those of [`Layout::new`].
    pub fn new(stencil: &TensorProduct) -> Result<Self> {
        let round = |values: &[f64]| values.iter().map(|&v| T::from_f64(v)).collect();
        let (v, h) = (stencil.vertical(), stencil.horizontal());
        Ok(Self {
            layout: Layout::new(stencil.shape())?,
            a: round(&v.a),
            b: round(&v.b),
            c: round(&v.c),
            d: round(&v.d),
            area: round(&h.area),
            west: round(&h.west),
            east: round(&h.east),
            south: round(&h.south),
            north: round(&h.north),
            total: round(&h.total),
        })
    }

    fn shape(&self) -> Shape {
        self.layout.shape()
    }

    /// Σ α_{TT'} u_{T',k}
    fn neighbours(&self, u: &Vector<T>, i: usize, j: usize, k: usize) -> T {
        let Shape { nx, ny, .. } = self.shape();
        let n = i + nx * j;
        let mut sum = T::ZERO;
        if i > 0 {
            sum += self.west[n] * u.get(i - 1, j, k);
        }
        if i + 1 < nx {
            sum += self.east[n] * u.get(i + 1, j, k);
        }
        if j > 0 {
            sum += self.south[n] * u.get(i, j - 1, k);
        }
        if j + 1 < ny {
            sum += self.north[n] * u.get(i, j + 1, k);
        }
        sum
    }

    /// (A u)_{i,j,k}, the vertical part by differences: |T| (a u_k − b (u_k − u_{k+1}) − c (u_k − u_{k−1})).
    fn row(&self, u: &Vector<T>, i: usize, j: usize, k: usize) -> T {
        let n = i + self.shape().nx * j;
        let centre = u.get(i, j, k);
        let mut vertical = self.a[k] * centre;
        if k + 1 < self.shape().nz {
            vertical -= self.b[k] * (centre - u.get(i, j, k + 1));
        }
        if k > 0 {
            vertical -= self.c[k] * (centre - u.get(i, j, k - 1));
        }
        self.area[n] * vertical + self.d[k] * (self.neighbours(u, i, j, k) - self.total[n] * centre)
    }

    /// Solves one column's tridiagonal system; `rhs` becomes the solution.
    ///
    /// Gaussian elimination of (a − b − c − s d, b, c), s = α_T/|T|, in a form without cancellation:
    /// with e = pivot + b, which is the sum of the positive terms a, −s d and −c e₋/pivot₋, nothing
    /// is ever subtracted. (Grassmann, Taksar and Heyman, 1985, do this for Markov chains.) In single
    /// precision, with couplings b, c a million times a, that is what keeps the columns exact.
    fn solve_column(&self, n: usize, rhs: &mut [T], factors: &mut [T]) {
        let nz = rhs.len();
        let s = self.total[n] / self.area[n];
        let (mut excess_ratio, mut below) = (T::ZERO, T::ZERO);
        for k in 0..nz {
            let excess = self.a[k] - s * self.d[k] - self.c[k] * excess_ratio;
            let inverse = T::ONE / (excess - self.b[k]);
            let y = (rhs[k] / self.area[n] - self.c[k] * below) * inverse;
            rhs[k] = y;
            below = y;
            factors[k] = -(self.b[k] * inverse);
            excess_ratio = excess * inverse;
        }
        for k in (0..nz - 1).rev() {
            rhs[k] += factors[k] * rhs[k + 1];
        }
    }

    fn for_each_column(&self, mut f: impl FnMut(usize, usize, &mut [T], &mut [T])) {
        let Shape { nx, ny, nz } = self.shape();
        let (mut column, mut factors) = (vec![T::ZERO; nz], vec![T::ZERO; nz]);
        for j in 0..ny {
            for i in 0..nx {
                f(i, j, &mut column, &mut factors);
            }
        }
    }

    /// The index of the coarse neighbour across from column i: the nearer of the two that
    /// interpolation uses besides i / 2, or `None` outside.
    fn coarse_neighbour(i: usize, coarse_n: usize) -> Option<usize> {
        if i.is_multiple_of(2) { (i / 2).checked_sub(1) } else { Some(i / 2 + 1).filter(|&n| n < coarse_n) }
    }
}

impl<T> OnBackend<Reference> for PlainTensorProduct<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }
}

impl<T: Real> Operator<Reference, T> for PlainTensorProduct<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        y.fill_with(|i, j, k| self.row(x, i, j, k));
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let nx = self.shape().nx;
        z.fill_with(|i, j, k| {
            let n = i + nx * j;
            let diagonal = self.area[n] * (self.a[k] - self.b[k] - self.c[k]) - self.total[n] * self.d[k];
            r.get(i, j, k) / diagonal
        });
        Ok(())
    }
}

impl<T: Real> LineSolver<Reference, T> for PlainTensorProduct<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let nx = self.shape().nx;
        self.for_each_column(|i, j, column, factors| {
            for (k, value) in column.iter_mut().enumerate() {
                *value = r.get(i, j, k);
            }
            self.solve_column(i + nx * j, column, factors);
            for (k, &value) in column.iter().enumerate() {
                z.set(i, j, k, value);
            }
        });
        Ok(())
    }
}

impl<T: Real> LineOperator<Reference, T> for PlainTensorProduct<T> {
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
        let Shape { nx, .. } = self.shape();
        let rho = T::from_f64(relaxation.rho);
        match relaxation.smoother {
            Smoother::LineJacobi => {
                scratch.fill_with(|i, j, k| f.get(i, j, k) - self.row(u, i, j, k));
                self.for_each_column(|i, j, column, factors| {
                    for (k, value) in column.iter_mut().enumerate() {
                        *value = scratch.get(i, j, k);
                    }
                    self.solve_column(i + nx * j, column, factors);
                    for (k, &value) in column.iter().enumerate() {
                        u.set(i, j, k, u.get(i, j, k) + rho * value);
                    }
                });
            }
            Smoother::LineRedBlack => {
                for colour in [relaxation.first, relaxation.first.other()] {
                    self.for_each_column(|i, j, column, factors| {
                        if Colour::of(i, j) != colour {
                            return;
                        }
                        // u + ρ(M⁻¹(f − (A − M)u) − u): a column's own old values never meet the
                        // vertical operator, whose rounding would drown the residual.
                        for (k, value) in column.iter_mut().enumerate() {
                            *value = f.get(i, j, k) - self.d[k] * self.neighbours(u, i, j, k);
                        }
                        self.solve_column(i + nx * j, column, factors);
                        for (k, &value) in column.iter().enumerate() {
                            let old = u.get(i, j, k);
                            u.set(i, j, k, if relaxation.rho == 1.0 { value } else { old + rho * (value - old) });
                        }
                    });
                }
            }
        }
        Ok(())
    }
}

impl<T: Real> MultigridOperator<Reference, T> for PlainTensorProduct<T> {
    fn restrict(&self, coarse: &Self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        debug_assert_eq!(self.shape().halved(), Some(coarse.shape()));
        coarse_f.fill_with(|i, j, k| {
            let (i, j) = (2 * i, 2 * j);
            (f.get(i, j, k) + f.get(i + 1, j, k)) + (f.get(i, j + 1, k) + f.get(i + 1, j + 1, k))
        });
        Ok(())
    }

    fn prolong(&self, coarse: &Self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (Shape { nx, ny, .. }, fine) = (coarse.shape(), self.shape());
        let weight = |w: f64| T::from_f64(w / 16.0);
        for j in 0..fine.ny {
            for k in 0..fine.nz {
                for i in 0..fine.nx {
                    // Outside, the value mirrors with the opposite sign, in each direction.
                    let (x, y) = (Self::coarse_neighbour(i, nx), Self::coarse_neighbour(j, ny));
                    let (sign_x, sign_y) = (if x.is_some() { 1.0 } else { -1.0 }, if y.is_some() { 1.0 } else { -1.0 });
                    let (near_x, near_y) = (i / 2, j / 2);
                    let (far_x, far_y) = (x.unwrap_or(near_x), y.unwrap_or(near_y));
                    let correction = weight(9.0) * coarse_u.get(near_x, near_y, k)
                        + weight(3.0 * sign_x) * coarse_u.get(far_x, near_y, k)
                        + weight(3.0 * sign_y) * coarse_u.get(near_x, far_y, k)
                        + weight(sign_x * sign_y) * coarse_u.get(far_x, far_y, k);
                    u.set(i, j, k, u.get(i, j, k) + correction);
                }
            }
        }
        Ok(())
    }
}
