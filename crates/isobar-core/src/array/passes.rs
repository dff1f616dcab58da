//! Passes over callers' arrays in host memory, on all threads.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{ArrayView, ArrayViewMut, Source, Target};
use crate::error::{Error, Result};
use crate::execute::{Host, for_each_piece, no_room, try_pieces};
use crate::layout::Shape;
use crate::real::Real;

/// Numbers that are converted at a time.
const BUFFER: usize = 512;

impl<T: Real> ArrayView<'_, T> {
    /// Copies the elements from number `first` in C order on.
    fn read_from(&self, first: usize, values: &mut [f64]) {
        if let Some(all) = self.as_c_order() {
            return convert(&all[first..], values);
        }
        let Shape { nx, ny, .. } = self.shape;
        let (mut n, mut rest) = (first, values);
        while !rest.is_empty() {
            let (i, row) = (n % nx, n / nx);
            let (part, beyond) = rest.split_at_mut((nx - i).min(rest.len()));
            self.read_line([i, row % ny, row / ny], part);
            (n, rest) = (n + part.len(), beyond);
        }
    }

    /// Copies elements of a line in x.
    fn read_line(&self, [i, j, k]: [usize; 3], values: &mut [f64]) {
        let start = self.place.of(i, j, k);
        match self.place.strides[0] {
            1 => convert(self.data.slice(start..start + values.len()), values),
            0 => values.fill(self.data.get(start).to_f64()),
            _ => values.iter_mut().zip(i..).for_each(|(value, i)| *value = self.get(i, j, k).to_f64()),
        }
    }
}

fn convert<T: Real>(from: &[T], to: &mut [f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f64());
}

impl<T: Real> ArrayViewMut<'_, T> {
    fn write(&mut self, values: &[f64]) {
        let Shape { nx, ny, .. } = self.shape;
        if let Some(all) = self.as_c_order_mut() {
            for_each_piece(&Host, all, |first, piece| {
                piece.iter_mut().zip(&values[first..]).for_each(|(to, &value)| *to = T::from_f64(value));
            });
            return;
        }
        for (row, values) in values.chunks(nx.max(1)).enumerate() {
            let (j, k) = (row % ny, row / ny);
            values.iter().enumerate().for_each(|(i, &value)| self.set(i, j, k, T::from_f64(value)));
        }
    }
}

impl<'a> Source<'a> {
    /// Returns a function that copies the elements from a number in C order on.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an array on a device.
    pub fn reader(self) -> Result<impl Fn(usize, &mut [f64]) + Sync + 'a> {
        if let Self::Device(_) = self {
            return Err(not_on_the_host());
        }
        Ok(move |first: usize, values: &mut [f64]| match &self {
            Self::F64(view) => view.read_from(first, values),
            Self::F32(view) => view.read_from(first, values),
            Self::Device(_) => {}
        })
    }

    /// Returns its values in C order, (nz, ny, nx).
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an array on a device, [`Error::Invalid`] if memory cannot be allocated.
    pub fn to_vec(self) -> Result<Vec<f64>> {
        let cells = self.shape().cells();
        try_pieces(&Host, cells, self.reader()?).map_err(|_| no_room(cells))
    }

    /// Returns which of its values are not 0, in C order.
    ///
    /// # Errors
    /// See [`Source::to_vec`]; [`Error::Invalid`] for NaN and negative numbers, which other programs give to cells of a fixed value.
    pub fn to_mask(self) -> Result<Vec<bool>> {
        let (cells, read) = (self.shape().cells(), self.reader()?);
        let [holds_nan, holds_negative] = [const { AtomicBool::new(false) }; 2];
        let set = |first: usize, mask: &mut [bool]| {
            let mut buffer = [0.0; BUFFER];
            for (n, mask) in mask.chunks_mut(BUFFER).enumerate() {
                let values = &mut buffer[..mask.len()];
                read(first + n * BUFFER, values);
                if values.iter().any(|value| value.is_nan()) {
                    holds_nan.store(true, Relaxed);
                }
                if values.iter().any(|value| *value < 0.0) {
                    holds_negative.store(true, Relaxed);
                }
                mask.iter_mut().zip(values).for_each(|(is_set, value)| *is_set = *value != 0.0);
            }
        };
        let mask = try_pieces(&Host, cells, set).map_err(|_| no_room(cells))?;
        let wrong = [(holds_nan, "NaN"), (holds_negative, "negative numbers")];
        if let Some((_, what)) = wrong.into_iter().find(|(holds, _)| holds.load(Relaxed)) {
            let message = format!("it holds {what}; use 0 for inactive cells and 1 for active ones");
            return Err(Error::invalid("the mask of active cells", message));
        }
        Ok(mask)
    }
}

impl Target<'_> {
    /// Sets its values, which are in C order, (nz, ny, nx).
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of values; [`Error::Unsupported`] for an array on a device.
    pub fn write(&mut self, values: &[f64]) -> Result<()> {
        let shape = self.shape();
        if values.len() != shape.cells() {
            return Err(Error::shape("array", shape, format!("{} cells", values.len())));
        }
        match self {
            Self::F64(view) => view.write(values),
            Self::F32(view) => view.write(values),
            Self::Device(_) => return Err(not_on_the_host()),
            Self::Nothing(_) => {}
        }
        Ok(())
    }
}

/// Replaces all copies of a cell by their mean, in values in C order of the copies of a grid with these numbers of cells in x and y.
pub(crate) fn average_copies<T: Real>(Shape { nx, ny, .. }: Shape, [x, y]: [usize; 2], values: &mut [T]) {
    let weight = T::from_f64(1.0 / (nx / x * (ny / y)) as f64);
    for layer in values.chunks_exact_mut(nx * ny) {
        for (j, i) in (0..y).flat_map(|j| (0..x).map(move |i| (j, i))) {
            let copies = || (j..ny).step_by(y).flat_map(|j| (i..nx).step_by(x).map(move |i| i + nx * j));
            let mean = weight * copies().fold(T::ZERO, |sum, at| sum + layer[at]);
            copies().for_each(|at| layer[at] = mean);
        }
    }
}

fn not_on_the_host() -> Error {
    Error::Unsupported("an array in the memory of a GPU where one of the host is needed; copy it".into())
}
