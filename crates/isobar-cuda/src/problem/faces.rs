//! Conductances of faces in the memory of a GPU.

use std::sync::Arc;

use isobar_core::array::DeviceArray;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Axis, Shape};
use isobar_core::problem::FaceProblem;
use isobar_core::reference::check_shape;
use isobar_core::stencil::{Coefficients, Diffusion, Side, Spread};

use super::cells::{DeviceField, UNSEEN, spread_of};
use super::{MOST_BLOCKS, NONE, Words, submit, words};
use crate::cuda::Cuda;
use crate::halving::bits;
use crate::launch::Arguments;
use crate::memory::Buffer;
use crate::vector::check_size;

/// A matrix of conductances between neighbours whose arrays are in the memory of a GPU; [`FaceProblem`] is the specification.
#[derive(Clone, Debug)]
pub struct DeviceFaces {
    cuda: Cuda,
    shape: Shape,
    is_periodic: [bool; 3],
    fields: Arc<Fields>,
    /// The mean conductance of each direction.
    means: [f64; 3],
    spreads: Vec<Spread>,
}

/// Copies of the callers' arrays, 0 where a mask closes a face or a cell.
#[derive(Debug)]
struct Fields {
    /// None where there are no faces.
    faces: [Option<DeviceField>; 3],
    shift: Option<DeviceField>,
}

/// Returns `Extents` of problem.cu.
fn extents(shape: Shape) -> [i32; 3] {
    shape.extents().map(|n| n as i32)
}

impl DeviceFaces {
    /// Copies arrays of the shapes that [`FaceProblem::new`] takes; conductances are 0 where there is no array. A cell is active where the mask is not 0.
    ///
    /// Returns nothing where the numbers need a look on the host, which has an answer or a message for them: numbers that are negative or not finite, none
    /// that is not 0, and active cells that have neither a conductance nor a shift.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of other shapes; [`Error::Unsupported`] for arrays on another GPU and grids that are too large; the errors of the GPU.
    pub fn new(
        cuda: &Cuda,
        shape: Shape,
        faces: &[Option<DeviceArray>; 3],
        is_periodic: [bool; 3],
        shift: Option<&DeviceArray>,
        active: Option<&DeviceArray>,
    ) -> Result<Option<Self>> {
        /// Blocks above each other, of which each adds its sum to the others'.
        const FEW_BLOCKS: usize = 16;
        /// The bits of seven digits.
        const ROUGH: u64 = !0 << 28;
        check_size(shape)?;
        let cells = shape.extents();
        let mut wanted = Vec::new();
        for (array, axis) in faces.iter().zip(Axis::ALL) {
            let (d, is_ring) = (axis as usize, is_periodic[axis as usize]);
            let Some(array) = array else { continue };
            Error::unless_equal(
                &format!("conductances in {}", ["x", "y", "z"][d]),
                array.shape(),
                shape.faces_between(axis, is_ring),
            )?;
            if cells[d] > 1 {
                wanted.push((d, array));
            }
        }
        shift.iter().chain(&active).try_for_each(|array| check_shape(array.shape(), shape))?;
        wanted.extend(shift.map(|shift| (3, shift)));
        let copies: Vec<_> = wanted.iter().map(|(_, array)| DeviceField::like(cuda, array)).collect::<Result<_>>()?;
        // The sum comes after the spread.
        let mut found = vec![[UNSEEN.as_slice(), &[0]].concat(); wanted.len()].concat();
        let (reports, isolated) = (
            Buffer::from_slice(cuda.context(), &found, "reports on conductances")?,
            Buffer::from_slice(cuda.context(), &[0u64], "a report on cells")?,
        );
        let masked = active.map_or(NONE, words);
        let read: Vec<_> = wanted.iter().map(|(_, array)| *array).chain(active).collect();
        let rings = bits(is_periodic);
        cuda.with_device_arrays(&read, &[], "a problem on the GPU", || {
            for (n, ((d, from), copy)) in wanted.iter().zip(&copies).enumerate() {
                let report = reports.start() + (n * 5 * size_of::<u64>()) as u64;
                let arguments = Arguments::new()
                    .with([words(from), masked, words(&copy.array)])
                    .with(extents(from.shape()))
                    .with(*d as i32)
                    .with(cells.get(*d).map_or(0, |&n| n as i32))
                    .with(report);
                submit(cuda, "copy_faces", from.shape(), FEW_BLOCKS, arguments)?;
            }
            if active.is_some() {
                let mut arrays = [NONE, NONE, NONE, NONE, masked];
                wanted.iter().zip(&copies).for_each(|((d, _), copy)| arrays[*d] = words(&copy.array));
                let arguments = Arguments::new().with(arrays).with(extents(shape)).with(rings);
                submit(cuda, "find_isolated", shape, MOST_BLOCKS, arguments.with(isolated.start()))?;
            }
            Ok(())
        })?;
        let mut is_isolated = [0u64];
        reports.read(&mut found)?;
        isolated.read(&mut is_isolated)?;
        let (found, _) = found.as_chunks::<5>();
        let mut fields = Fields { faces: [None, None, None], shift: None };
        let (mut means, mut spreads) = ([0.0; 3], Vec::new());
        for (((d, array), copy), &[first, least, positive, most, sum]) in wanted.into_iter().zip(copies).zip(found) {
            if first != u64::MAX {
                return Ok(None);
            }
            spreads.push(spread_of([first, least, positive, most]));
            match fields.faces.get_mut(d) {
                Some(field) => *field = Some(copy),
                None => fields.shift = Some(copy),
            }
            if let Some(mean) = means.get_mut(d) {
                // Threads add their sums in any order, on which the last digits depend.
                let found = f64::from_bits(sum) / array.shape().cells() as f64;
                *mean = f64::from_bits(found.to_bits() & ROUGH);
            }
        }
        if is_isolated != [0] || spreads.iter().all(|spread| spread.most == 0.0) {
            return Ok(None);
        }
        Ok(Some(Self { cuda: cuda.clone(), shape, is_periodic, fields: Arc::new(fields), means, spreads }))
    }

    /// Returns the number of the GPU.
    pub fn ordinal(&self) -> usize {
        self.cuda.ordinal()
    }

    /// Returns the smallest positive number of the arrays, and the largest.
    pub fn sizes(&self) -> [f64; 2] {
        let of = |[least, most]: [f64; 2], spread: &Spread| [least.min(spread.positive), most.max(spread.most)];
        self.spreads.iter().fold([f64::INFINITY, 0.0], of)
    }

    /// Makes the matrix, for a solver on this GPU. It keeps the arrays.
    ///
    /// # Errors
    /// None but for memory.
    pub fn stencil(&self) -> Result<Diffusion> {
        let Fields { faces, shift } = &*self.fields;
        let array = |field: &Option<DeviceField>| field.as_ref().map(DeviceField::array);
        let faces = Box::new(faces.each_ref().map(array));
        let coefficients = Coefficients::DeviceFaces { faces, shift: array(shift), means: self.means };
        let sides = self.is_periodic.map(|is_ring| [if is_ring { Side::Periodic } else { Side::Closed }; 2]);
        Ok(Diffusion::new(self.shape, coefficients, None, sides)?.owned_by(Arc::clone(&self.fields) as _))
    }

    /// Writes the right-hand side for the inflow of each cell, 0 if absent and in inactive cells; see [`FaceProblem::write_rhs`].
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of another shape, [`Error::Unsupported`] for arrays on another GPU; the errors of the GPU.
    pub fn write_rhs(&self, inflow: Option<&DeviceArray>, to: &DeviceArray) -> Result<()> {
        inflow.into_iter().chain([to]).try_for_each(|array| check_shape(array.shape(), self.shape))?;
        let words_of = |field: &Option<DeviceField>| field.as_ref().map_or(NONE, |field| words(&field.array));
        let [x, y, z]: [Words; 3] = self.fields.faces.each_ref().map(words_of);
        let arrays = [x, y, z, words_of(&self.fields.shift), inflow.map_or(NONE, words), words(to)];
        let read: Vec<_> = inflow.into_iter().collect();
        self.cuda.with_device_arrays(&read, &[to], "a problem on the GPU", || {
            let arguments = Arguments::new().with(arrays).with(extents(self.shape));
            submit(&self.cuda, "rhs_of_faces", self.shape, MOST_BLOCKS, arguments.with(bits(self.is_periodic)))
        })
    }

    /// Copies the arrays to the host, for computations there.
    ///
    /// # Errors
    /// The errors of the GPU.
    pub fn on_host(&self) -> Result<FaceProblem> {
        let mut faces = [Vec::new(), Vec::new(), Vec::new()];
        for (axis, values) in Axis::ALL.into_iter().zip(&mut faces) {
            let d = axis as usize;
            let count = self.shape.faces_between(axis, self.is_periodic[d]).cells();
            *values = match &self.fields.faces[d] {
                Some(field) => self.cuda.read_array(&field.array)?,
                None => vec![0.0; count],
            };
        }
        let shift = self.fields.shift.as_ref().map(|field| self.cuda.read_array(&field.array)).transpose()?;
        FaceProblem::new(self.shape, faces, self.is_periodic, shift, None)
    }
}
