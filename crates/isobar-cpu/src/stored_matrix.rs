//! Stored matrices on processor cores: the comparison of paper A.

use std::sync::{Mutex, PoisonError};

use isobar_core::error::Result;
use isobar_core::layout::{Layout, Shape};
use isobar_core::operator::{LineSolver, OnBackend, Operator};
use isobar_core::real::Real;
use isobar_core::reference;
use isobar_core::stencil::Csr;

use crate::cpu::Cpu;
use crate::shared::Shared;
use crate::vector::Vector;

/// A [`Csr`] matrix, its rows in the order of the layout (those of padding empty).
#[derive(Debug)]
pub struct StoredMatrix<T> {
    cpu: Cpu,
    layout: Layout,
    row_starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<T>,
    /// 1 over the diagonal, 0 in padding.
    inverse_diagonal: Vec<T>,
}

impl<T: Real> StoredMatrix<T> {
    /// Renumbers rows and columns to positions in the layout.
    ///
    /// # Errors
    /// [`Shape`](isobar_core::Error::Shape) where the matrix does not act on such vectors.
    pub(crate) fn new(cpu: &Cpu, matrix: &Csr, layout: &Layout) -> Result<Self> {
        reference::check_matrix(matrix, layout)?;
        let shape = layout.shape();
        let position = |row: usize| {
            let (i, j, k) = reference::grid_point(row, shape);
            layout.index(i, j, k)
        };
        let mut row_at = vec![None; layout.len()];
        for row in 0..matrix.rows() {
            row_at[position(row)] = Some(row);
        }
        let mut stored = Self {
            cpu: cpu.clone(),
            layout: *layout,
            row_starts: Vec::with_capacity(layout.len() + 1),
            columns: Vec::with_capacity(matrix.entries()),
            values: Vec::with_capacity(matrix.entries()),
            inverse_diagonal: vec![T::ZERO; layout.len()],
        };
        stored.row_starts.push(0);
        for (place, row) in row_at.into_iter().enumerate() {
            for (column, value) in row.into_iter().flat_map(|row| matrix.row(row)) {
                if Some(column) == row {
                    stored.inverse_diagonal[place] = T::from_f64(1.0 / value);
                }
                stored.columns.push(position(column) as u32);
                stored.values.push(T::from_f64(value));
            }
            stored.row_starts.push(stored.values.len());
        }
        Ok(stored)
    }
}

impl<T> OnBackend<Cpu> for StoredMatrix<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }
}

impl<T: Real> Operator<Cpu, T> for StoredMatrix<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let x = x.entries();
        let out = Shared::of(y.entries_mut());
        self.cpu.for_each_part(x.len(), |_, start, end| {
            // SAFETY: parts do not overlap.
            let y = unsafe { out.row_mut(start as isize, end - start) };
            for (y, ends) in y.iter_mut().zip(self.row_starts[start..=end].windows(2)) {
                let range = ends[0]..ends[1];
                let mut sum = T::ZERO;
                for (&column, &value) in self.columns[range.clone()].iter().zip(&self.values[range]) {
                    sum += value * x[column as usize];
                }
                *y = sum;
            }
        });
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        for ((z, &r), &inverse) in z.entries_mut().iter_mut().zip(r.entries()).zip(&self.inverse_diagonal) {
            *z = r * inverse;
        }
        Ok(())
    }
}

/// The vertical tridiagonal blocks of a matrix, stored as three vectors; the Thomas algorithm with
/// lanes across columns.
#[derive(Debug)]
pub struct StoredTridiagonal<T> {
    cpu: Cpu,
    layout: Layout,
    below: Vector<T>,
    diagonal: Vector<T>,
    above: Vector<T>,
    /// Elimination factors of a half plane, one a thread.
    factors: Mutex<Vec<Vec<T>>>,
}

impl<T: Real> StoredTridiagonal<T> {
    /// Extracts the blocks.
    ///
    /// # Errors
    /// [`Shape`](isobar_core::Error::Shape) where the matrix does not act on such vectors.
    pub(crate) fn new(cpu: &Cpu, matrix: &Csr, layout: &Layout) -> Result<Self> {
        let plain = reference::StoredTridiagonal::<T>::new(matrix, layout)?;
        let copy = |band: &reference::Vector<T>, padding: T| -> Result<Vector<T>> {
            let mut out = Vector::zeros(cpu, layout)?;
            // A pivot of 1 in padding keeps its zeros free of NaN.
            out.entries_mut().fill(padding);
            let Shape { nx, ny, nz } = layout.shape();
            for j in 0..ny {
                for k in 0..nz {
                    for i in 0..nx {
                        out.entries_mut()[layout.index(i, j, k)] = band.get(i, j, k);
                    }
                }
            }
            Ok(out)
        };
        let [below, diagonal, above] = plain.bands();
        Ok(Self {
            cpu: cpu.clone(),
            layout: *layout,
            below: copy(below, T::ZERO)?,
            diagonal: copy(diagonal, T::ONE)?,
            above: copy(above, T::ZERO)?,
            factors: Mutex::new(vec![vec![T::ZERO; layout.half_plane()]; cpu.threads_for(layout.len())]),
        })
    }
}

impl<T> OnBackend<Cpu> for StoredTridiagonal<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }
}

impl<T: Real> LineSolver<Cpu, T> for StoredTridiagonal<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let mut factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = factors.len();
        let spaces = Shared::of(&mut factors);
        let out = Shared::of(z.entries_mut());
        let half_planes = 2 * self.layout.shape().ny;
        let (len, pitch) = (self.layout.half_plane(), self.layout.pitch());
        self.cpu.for_each(threads, |n| {
            // SAFETY: thread n alone uses space n.
            let factors = &mut unsafe { spaces.row_mut(n as isize, 1) }[0];
            for h in half_planes * n / threads..half_planes * (n + 1) / threads {
                let range = h * len..(h + 1) * len;
                // SAFETY: each half plane belongs to one thread.
                let z = unsafe { out.row_mut(range.start as isize, len) };
                let bands = [&self.below, &self.diagonal, &self.above].map(|band| &band.entries()[range.clone()]);
                self.cpu.dispatch::<T, _>(|| thomas(bands, &r.entries()[range.clone()], z, factors, pitch));
            }
        });
        Ok(())
    }
}

#[inline(always)]
fn thomas<T: Real>([below, diagonal, above]: [&[T]; 3], r: &[T], z: &mut [T], factors: &mut [T], pitch: usize) {
    for start in (0..r.len()).step_by(pitch) {
        let row = start..start + pitch;
        let (z_below, z) = z.split_at_mut(start);
        let (factors_below, factors) = factors.split_at_mut(start);
        let (below, diagonal, above, r) = (&below[row.clone()], &diagonal[row.clone()], &above[row.clone()], &r[row]);
        let (z, factors) = (&mut z[..pitch], &mut factors[..pitch]);
        if start == 0 {
            for m in 0..pitch {
                let inverse = T::ONE / diagonal[m];
                z[m] = r[m] * inverse;
                factors[m] = above[m] * inverse;
            }
        } else {
            let (z_below, factors_below) = (&z_below[start - pitch..], &factors_below[start - pitch..]);
            for m in 0..pitch {
                let inverse = T::ONE / (diagonal[m] - below[m] * factors_below[m]);
                z[m] = (r[m] - below[m] * z_below[m]) * inverse;
                factors[m] = above[m] * inverse;
            }
        }
    }
    for start in (0..r.len() - pitch).step_by(pitch).rev() {
        let (z, z_above) = z.split_at_mut(start + pitch);
        let (z, z_above, factors) = (&mut z[start..], &z_above[..pitch], &factors[start..start + pitch]);
        for m in 0..pitch {
            z[m] -= factors[m] * z_above[m];
        }
    }
}
