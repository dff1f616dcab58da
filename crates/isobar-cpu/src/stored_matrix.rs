//! Stored matrices on processor cores: the comparison of paper A, and any matrix of a user.

use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use isobar_core::prelude::{
    Capabilities, Diagonal, Layout, LineSolver, Operator, Real, Result, Shape, Supports, lock, read, write,
};
use isobar_core::reference::{self, Bands, check_indices};
use isobar_core::stencil::{self, Lines};

use crate::{Cpu, Shared, Vector};

/// A [`stencil::StoredMatrix`] on processor cores, its rows in the order of the layout (those of padding empty).
#[derive(Debug)]
pub struct StoredMatrix<T> {
    cpu: Cpu,
    layout: Layout,
    row_starts: Vec<usize>,
    columns: Vec<u32>,
    values: RwLock<Values<T>>,
}

/// The data that an update changes.
#[derive(Debug)]
struct Values<T> {
    entries: Vec<T>,
    /// 1 over the diagonal, 0 in padding.
    inverse_diagonal: Vec<T>,
}

impl<T: Real> StoredMatrix<T> {
    /// Renumbers rows and columns to positions in the layout.
    fn new(cpu: &Cpu, stencil: &stencil::StoredMatrix, layout: Layout) -> Result<Self> {
        check_indices(&layout)?;
        let matrix = stencil.matrix();
        let position = |row: usize| {
            let (i, j, k) = stencil.grid_point(row);
            layout.index(i, j, k)
        };
        let (mut row_starts, mut columns) =
            (Vec::with_capacity(layout.len() + 1), Vec::with_capacity(matrix.entries()));
        row_starts.push(0);
        for row in rows_by_position(&layout) {
            if let Some(row) = row {
                columns.extend(matrix.row(row).map(|(column, _)| position(column) as u32));
            }
            row_starts.push(columns.len());
        }
        let values = Values { entries: vec![T::ZERO; columns.len()], inverse_diagonal: vec![T::ZERO; layout.len()] };
        let stored = Self { cpu: cpu.clone(), layout, row_starts, columns, values: RwLock::new(values) };
        stored.set(stencil);
        Ok(stored)
    }

    /// Rounds the entries of a matrix of the same pattern.
    fn set(&self, stencil: &stencil::StoredMatrix) {
        let mut values = write(&self.values);
        let Values { entries, inverse_diagonal } = &mut *values;
        for (position, row) in rows_by_position(&self.layout).enumerate() {
            let Some(row) = row else { continue };
            inverse_diagonal[position] = T::ZERO;
            let stored = &mut entries[self.row_starts[position]..self.row_starts[position + 1]];
            for (entry, (column, value)) in stored.iter_mut().zip(stencil.matrix().row(row)) {
                *entry = T::from_f64(value);
                if column == row && value != 0.0 {
                    inverse_diagonal[position] = T::from_f64(1.0 / value);
                }
            }
        }
    }

    fn values(&self) -> RwLockReadGuard<'_, Values<T>> {
        read(&self.values)
    }
}

/// Returns the row of each position in the layout, as [`stencil::StoredMatrix`] numbers them.
fn rows_by_position(layout: &Layout) -> impl Iterator<Item = Option<usize>> + use<> {
    let layout = *layout;
    let Shape { nx, nz, .. } = layout.shape();
    (0..layout.len()).map(move |position| layout.grid_point(position).map(|(i, j, k)| i + nx * (k + nz * j)))
}

impl<T: Real> Operator<Cpu, T> for StoredMatrix<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (x, values) = (x.entries(), self.values());
        let out = Shared::of(y.entries_mut());
        self.cpu.for_each_part(x.len(), |_, start, end| {
            // SAFETY: parts do not overlap.
            let y = unsafe { out.row_mut(start as isize, end - start) };
            for (y, ends) in y.iter_mut().zip(self.row_starts[start..=end].windows(2)) {
                let range = ends[0]..ends[1];
                let mut sum = T::ZERO;
                for (&column, &value) in self.columns[range.clone()].iter().zip(&values.entries[range]) {
                    sum += value * x[column as usize];
                }
                *y = sum;
            }
        });
        Ok(())
    }

    fn coefficient_bytes(&self) -> usize {
        let values = self.values();
        size_of_val(&self.row_starts[..])
            + size_of_val(&self.columns[..])
            + size_of_val(&values.entries[..])
            + size_of_val(&values.inverse_diagonal[..])
    }
}

impl<T: Real> Diagonal<Cpu, T> for StoredMatrix<T> {
    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, values) = (r.entries(), self.values());
        let out = Shared::of(z.entries_mut());
        self.cpu.for_each_part(r.len(), |_, start, end| {
            // SAFETY: parts do not overlap.
            let z = unsafe { out.row_mut(start as isize, end - start) };
            for ((z, &r), &inverse) in z.iter_mut().zip(&r[start..end]).zip(&values.inverse_diagonal[start..end]) {
                *z = r * inverse;
            }
        });
        Ok(())
    }
}

/// The vertical tridiagonal blocks of a matrix, stored as three vectors, for the Thomas algorithm with lanes across columns.
#[derive(Debug)]
struct StoredTridiagonal<T> {
    cpu: Cpu,
    layout: Layout,
    /// The entries below, on and above the diagonal.
    bands: RwLock<[Vector<T>; 3]>,
    /// The elimination factors of a half plane for each thread.
    factors: Mutex<Vec<Vec<T>>>,
}

impl<T: Real> StoredTridiagonal<T> {
    /// Extracts the blocks.
    fn new(cpu: &Cpu, stencil: &stencil::StoredMatrix, layout: Layout) -> Result<Self> {
        let room = || Vector::zeros(cpu, &layout);
        let bands = RwLock::new([room()?, room()?, room()?]);
        let factors = Mutex::new(vec![vec![T::ZERO; layout.half_plane()]; cpu.threads_for(layout.len())]);
        let tridiagonal = Self { cpu: cpu.clone(), layout, bands, factors };
        tridiagonal.set(stencil)?;
        Ok(tridiagonal)
    }

    fn set(&self, stencil: &stencil::StoredMatrix) -> Result<()> {
        let Bands { below, diagonal, above } = Bands::<T>::new(stencil, &self.layout)?;
        let mut bands = write(&self.bands);
        // A pivot of 1 in padding keeps its zeros free of NaN.
        for ((band, plain), padding) in bands.iter_mut().zip([below, diagonal, above]).zip([T::ZERO, T::ONE, T::ZERO]) {
            self.copy(&plain, padding, band);
        }
        Ok(())
    }

    fn copy(&self, plain: &reference::Vector<T>, padding: T, band: &mut Vector<T>) {
        for (position, (entry, &value)) in band.entries_mut().iter_mut().zip(plain.entries()).enumerate() {
            *entry = if self.layout.grid_point(position).is_some() { value } else { padding };
        }
    }
}

impl<T: Real> LineSolver<Cpu, T> for StoredTridiagonal<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let mut factors = lock(&self.factors);
        let bands = read(&self.bands);
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
                let bands = bands.each_ref().map(|band| &band.entries()[range.clone()]);
                self.cpu.vectorize::<T>(
                    #[inline(always)]
                    || thomas(bands, &r.entries()[range.clone()], z, factors, pitch),
                );
            }
        });
        Ok(())
    }
}

impl Supports<stencil::StoredMatrix> for Cpu {
    type Operator<T: Real> = StoredMatrix<T>;

    fn operator<T: Real>(&self, stencil: &stencil::StoredMatrix) -> Result<Arc<StoredMatrix<T>>> {
        Ok(Arc::new(StoredMatrix::new(self, stencil, self.layout(stencil)?)?))
    }

    fn update<T: Real>(&self, operator: &StoredMatrix<T>, stencil: &stencil::StoredMatrix) -> Result<bool> {
        operator.set(stencil);
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<StoredMatrix<T>>) -> Capabilities<Self, T> {
        Capabilities::of_rows(operator)
    }

    fn lines<T: Real>(
        &self,
        stencil: &stencil::StoredMatrix,
        operator: &Arc<StoredMatrix<T>>,
    ) -> Result<Option<Lines<Self, stencil::StoredMatrix, T>>> {
        let blocks = Arc::new(StoredTridiagonal::<T>::new(self, stencil, operator.layout)?);
        let solver = Arc::clone(&blocks) as Arc<dyn LineSolver<Self, T>>;
        let update = move |stencil: &stencil::StoredMatrix| blocks.set(stencil);
        Ok(Some(Lines { solver, update: Some(Box::new(update)) }))
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
