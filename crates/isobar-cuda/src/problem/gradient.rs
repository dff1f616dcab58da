//! Derivatives by the coefficients of a diffusion problem.

use isobar_core::array::DeviceArray;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Axis, Shape};
use isobar_core::reference::check_shape;

use super::{Form, NONE, along, words};
use crate::launch::Arguments;

/// Arrays for the derivatives of a number J(u) by the coefficients of a problem; a derivative without an array is not wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derivatives<'a> {
    /// The derivatives with respect to each κ; as many as there are, or none.
    pub kappa: &'a [DeviceArray],
    /// The derivatives with respect to c.
    pub reaction: Option<DeviceArray>,
    /// The derivatives with respect to f.
    pub body: Option<DeviceArray>,
}

impl Form {
    /// Computes the derivatives of [`DiffusionProblem::gradient`] in one pass over the cells, and −V λ u by c and V λ by f, V the volume of an
    /// active cell. `kappa` are one array, two (in x and y, in z) or three; `pair` is a solution u and its adjoint λ.
    ///
    /// [`DiffusionProblem::gradient`]: isobar_core::problem::DiffusionProblem::gradient
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of another shape, [`Error::Unsupported`] for arrays on another GPU, [`Error::Invalid`] for another number of
    /// derivatives than κ; the errors of the GPU.
    pub fn gradient(
        &self,
        kappa: &[DeviceArray],
        pair: [&DeviceArray; 2],
        moves_rhs: bool,
        wanted: Derivatives<'_>,
    ) -> Result<()> {
        let along = along(kappa)?;
        let read: Vec<_> = along.into_iter().chain(pair).collect();
        let count = wanted.kappa.len();
        if count != 0 && count != kappa.len() {
            let message = format!("{count} arrays for derivatives, and {} of κ; pass as many", kappa.len());
            return Err(Error::invalid("kappa", message));
        }
        let (by_kappa, others) = (wanted.kappa, [&wanted.reaction, &wanted.body]);
        let [x, y, z] = along.map(words);
        let [u, adjoint] = pair.map(words);
        let [by_x, by_y, by_z] = std::array::from_fn(|n| by_kappa.get(n).map_or(NONE, words));
        let [by_reaction, by_body] = others.map(|array| array.as_ref().map_or(NONE, words));
        let arrays = [x, y, z, u, adjoint, by_x, by_y, by_z, by_reaction, by_body];
        let written: Vec<_> = by_kappa.iter().chain(others.into_iter().flatten()).collect();
        let arguments = |arguments: Arguments| arguments.with(kappa.len() as i32).with(i32::from(moves_rhs));
        self.with_arrays(&read, &written, || {
            self.submit("gradient", arrays, self.shape, arguments)?;
            if count == 0 { Ok(()) } else { self.submit_points("points_gradient", arrays, arguments) }
        })
    }

    /// Computes the derivatives of [`DiffusionProblem::side_gradient`] by the values, or fluxes, and by the coefficients of a side, of the shape of
    /// the grid with one cell across the side.
    ///
    /// [`DiffusionProblem::side_gradient`]: isobar_core::problem::DiffusionProblem::side_gradient
    ///
    /// # Errors
    /// See [`Form::gradient`].
    pub fn side_gradient(
        &self,
        kappa: &[DeviceArray],
        pair: [&DeviceArray; 2],
        (axis, is_upper): (Axis, bool),
        moves_rhs: bool,
        wanted: [&DeviceArray; 2],
    ) -> Result<()> {
        let along = along(kappa)?;
        let read: Vec<_> = along.into_iter().chain(pair).collect();
        let ([x, y, z], [u, adjoint], [by_value, by_coefficient]) =
            (along.map(words), pair.map(words), wanted.map(words));
        let arrays = [x, y, z, u, adjoint, by_value, by_coefficient];
        let mut extents = self.shape.extents();
        extents[axis as usize] = 1;
        let [nx, ny, nz] = extents;
        let faces = Shape { nx, ny, nz };
        read.iter().try_for_each(|array| check_shape(array.shape(), self.shape))?;
        wanted.iter().try_for_each(|array| check_shape(array.shape(), faces))?;
        let arguments =
            |arguments: Arguments| arguments.with(axis as i32).with(i32::from(is_upper)).with(i32::from(moves_rhs));
        let what = "derivatives by a side";
        self.cuda.with_device_arrays(&read, &wanted, what, || self.submit("side_gradient", arrays, faces, arguments))
    }
}
