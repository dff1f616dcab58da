//! Weights of interpolation in the order of transfers.

use isobar_core::prelude::{Layout, Real};
use isobar_core::stencil::galerkin::{Execute, Weights};

use crate::cpu::Cpu;

/// Weights of the halved directions.
#[derive(Default)]
pub(super) struct AxisWeights<T> {
    pub(super) x: Option<Stored<T>>,
    pub(super) y: Option<Stored<T>>,
    pub(super) z: Option<Stored<T>>,
}

/// Planes of odd cells, by j of the whole grid: rows of k, as long as those of the middle. Planes outside this subdomain are
/// empty.
pub(super) struct Stored<T> {
    pub(super) planes: Vec<[Vec<T>; 2]>,
    is_needed: Vec<bool>,
    row: usize,
}

impl<T: Real> Stored<T> {
    /// Takes the weights of a subdomain's planes, and of its halo planes.
    pub(super) fn new<N: Real>(weights: &Weights<N>, part: &Layout, row: usize) -> Self {
        let (planes, _) = weights.planes();
        let [before, after] = part.halo().map(usize::cast_signed);
        let mut is_needed = vec![false; planes];
        for j in -before..part.shape().ny.cast_signed() + after {
            is_needed.get_mut(part.row_there(j)).into_iter().for_each(|is_needed| *is_needed = true);
        }
        Self { planes: (0..planes).map(|_| [Vec::new(), Vec::new()]).collect(), is_needed, row }
    }

    pub(super) fn set<N: Real>(&mut self, cpu: &Cpu, weights: &Weights<N>) {
        let (grid, row, (_, here)) = (weights.odd, self.row, weights.planes());
        let planes = self.planes.iter_mut().enumerate();
        let mut needed: Vec<_> = planes.zip(&self.is_needed).filter_map(|(plane, is)| is.then_some(plane)).collect();
        Execute::for_each(
            cpu,
            &mut needed,
            #[inline(always)]
            |_, (j, plane)| {
                let j = here(*j) as isize;
                for (which, stored) in plane.iter_mut().enumerate() {
                    stored.resize(row * grid.shape.nz, T::ZERO);
                    for k in 0..grid.shape.nz {
                        let from = &weights.rows(j, k as isize)[which][1..=grid.shape.nx];
                        let to = &mut stored[k * row..][..grid.shape.nx];
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to = T::from_f64(from.to_f64()));
                    }
                }
            },
        );
    }

    /// Returns the weights [below, above] of row k of plane j.
    #[inline(always)]
    pub(super) fn rows(&self, j: usize, k: usize) -> [&[T]; 2] {
        let [below, above] = &self.planes[j];
        [&below[k * self.row..(k + 1) * self.row], &above[k * self.row..(k + 1) * self.row]]
    }
}

/// Computes out += w x.
#[inline(always)]
pub(super) fn add_weighted<T: Real>(out: &mut [T], w: &[T], x: &[T]) {
    out.iter_mut().zip(w).zip(x).for_each(|((out, &w), &x)| *out += w * x);
}

/// Computes out = a x + b y.
#[inline(always)]
pub(super) fn combine<T: Real>(out: &mut [T], [a, b]: [&[T]; 2], x: &[T], y: &[T]) {
    out.iter_mut()
        .zip(a.iter().zip(x))
        .zip(b.iter().zip(y))
        .for_each(|((out, (&a, &x)), (&b, &y))| *out = a * x + b * y);
}
