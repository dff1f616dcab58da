//! This module holds the coefficients of a problem in GPU memory, from which its matrix and right-hand sides are made.

use std::sync::Arc;

use isobar_core::array::DeviceArray;
use isobar_core::error::{Error, Result};
use isobar_core::layout::Shape;
use isobar_core::problem::{Boundary, Phases, Spacing, Weight};
use isobar_core::real::{Precision, Real};
use isobar_core::reference::check_shape;
use isobar_core::stencil::{Coefficients, Diffusion, KnownShift, Spread};

use super::{Form, NONE, along, source, words};
use crate::Cuda;
use crate::launch::Arguments;
use crate::memory::Buffer;

/// An array in C order on a GPU, which owns its memory.
#[derive(Debug)]
pub struct DeviceField {
    pub(super) array: DeviceArray,
    _memory: Buffer,
}

impl DeviceField {
    /// Allocates an array of this shape.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the GPU has too little memory.
    pub(super) fn new<S: Real>(cuda: &Cuda, shape: Shape) -> Result<Self> {
        let what = format!("a coefficient of {shape} cells");
        let memory = Buffer::new(cuda.context(), shape.cells() * size_of::<S>(), &what)?;
        // SAFETY: the memory is of this size, and lives as long as the array.
        let array = unsafe { DeviceArray::c_order::<S>(memory.start(), shape, cuda.ordinal()) };
        // Solvers, which have other streams, read it after what is submitted here, and before later work.
        Ok(Self { array: array.on_stream(cuda.context().stream() as u64), _memory: memory })
    }

    /// Allocates an array of the shape and the precision of another one.
    pub(super) fn like(cuda: &Cuda, array: &DeviceArray) -> Result<Self> {
        match array.precision() {
            Precision::F32 => Self::new::<f32>(cuda, array.shape()),
            _ => Self::new::<f64>(cuda, array.shape()),
        }
    }

    /// Returns the array, which is valid as long as this field is there.
    pub fn array(&self) -> DeviceArray {
        self.array
    }
}

/// The report on an array of which nothing has been seen, for `Found` of problem.cu.
pub(super) const UNSEEN: [u64; 4] = [u64::MAX, u64::MAX, f64::INFINITY.to_bits(), 0];

/// Returns what a report says of an array without wrong values.
pub(super) fn spread_of([_, least, positive, most]: [u64; 4]) -> Spread {
    let [least, positive, most] = [least, positive, most].map(f64::from_bits);
    Spread { least, positive, most }
}

impl Form {
    /// Allocates an array of the grid's shape.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the GPU has too little memory.
    pub fn new_field<S: Real>(&self) -> Result<DeviceField> {
        DeviceField::new::<S>(&self.cuda, self.shape)
    }

    /// Submits to = from Δx^p Δy^q Δz^r.
    pub(super) fn scale(&self, from: &DeviceArray, [p, q, r]: [i32; 3], to: &DeviceArray) -> Result<()> {
        let arguments = |arguments: Arguments| arguments.with(p).with(q).with(r);
        self.submit("scale", [words(from), words(to)], self.shape, arguments)
    }

    /// Makes an array of κ from the phases of an image, in single precision where that represents each κ.
    pub(super) fn of_phases(&self, phases: &Phases) -> Result<DeviceField> {
        check_shape(phases.shape(), self.shape)?;
        let mut kappa = [0.0; Phases::MOST];
        kappa[..phases.kappa().len()].copy_from_slice(phases.kappa());
        let is_single = kappa.iter().all(|&kappa| f64::from(kappa as f32) == kappa);
        let field = if is_single { self.new_field::<f32>()? } else { self.new_field::<f64>()? };
        let table = Buffer::from_slice(self.cuda.context(), &kappa, "the coefficients of phases")?;
        self.cuda.staged(&[phases.numbers()], |numbers| {
            let kernel = self.cuda.module(source()).kernel("look_up")?;
            let len = self.shape.cells();
            let arguments = Arguments::new().with(len as i64).with(numbers).with(table.start());
            let arguments = arguments.with(field.array.pointer()).with(i32::from(is_single));
            self.cuda.elementwise(kernel, len, arguments)
        })?;
        Ok(field)
    }

    /// Copies callers' arrays, in their precision.
    pub(super) fn copied(&self, arrays: &[&DeviceArray]) -> Result<Vec<DeviceField>> {
        arrays.iter().try_for_each(|array| check_shape(array.shape(), self.shape))?;
        let copies: Vec<_> = arrays.iter().map(|array| DeviceField::like(&self.cuda, array)).collect::<Result<_>>()?;
        self.with_arrays(arrays, &[], || {
            arrays.iter().zip(&copies).try_for_each(|(array, copy)| self.scale(array, [0; 3], &copy.array))
        })?;
        Ok(copies)
    }

    /// Makes the matrix for κ, one array, two (in x and y, in z) or three, and c, for a solver on this GPU that is made or updated while these
    /// arrays are there.
    ///
    /// # Errors
    /// See [`Form::gradient`], and the errors of [`Diffusion::new`].
    pub fn stencil(&self, kappa: &[DeviceArray], reaction: Option<&DeviceArray>) -> Result<Diffusion> {
        let along = along(kappa)?;
        let numbers = [[0, 0, 0], [0, 0, 1], [0, 1, 2]][kappa.len() - 1];
        let (plan, axes) = self.problem.matrix_fields(numbers);
        let (mut fields, mut made, mut shift) = (Vec::new(), Vec::new(), None);
        let is_robin = |side: &Boundary| matches!(side, Boundary::Robin { .. });
        let given: Vec<_> = kappa.iter().chain(reaction).collect();
        let has_wells = !self.problem.wells.is_empty();
        let has_shift = reaction.is_some() || has_wells || self.problem.boundary.iter().flatten().any(is_robin);
        let has_kernels = has_shift || plan.iter().any(|(_, weight)| *weight != Weight::One);
        let make = || {
            for (axis, weight) in plan {
                let kappa = along[axis as usize];
                if weight == Weight::One {
                    fields.push(*kappa);
                    continue;
                }
                let field = self.new_field::<f64>()?;
                self.scale(kappa, weight.powers(axis), &field.array)?;
                fields.push(field.array);
                made.push(field);
            }
            if has_shift {
                let field = self.new_field::<f64>()?;
                self.of_cells("shift", along, reaction, &field.array)?;
                shift = Some(field.array);
                made.push(field);
            }
            Ok(())
        };
        if has_kernels {
            self.with_arrays(&given, &[], make)?;
        } else {
            // The solver waits for the arrays when it reads them.
            given.iter().try_for_each(|array| check_shape(array.shape(), self.shape)).and_then(|()| make())?;
        }
        let cells = Coefficients::DeviceCells { fields, axes, shift };
        let matrix = Diffusion::new(self.shape, cells, None, self.problem.matrix_sides())?;
        let widths = &self.problem.spacing;
        let (crossing, strengths) = (Spacing::crossing(widths, self.shape), Spacing::strengths(widths, self.shape));
        Ok(matrix.with_widths(crossing, strengths).owned_by(Arc::new(made)))
    }

    /// Checks sources and wells with κ of their cells, which is copied to the host.
    ///
    /// # Errors
    /// See [`DiffusionProblem::check_points`] and [`Form::gradient`].
    ///
    /// [`DiffusionProblem::check_points`]: isobar_core::problem::DiffusionProblem::check_points
    pub fn check_points(&self, kappa: &[DeviceArray]) -> Result<()> {
        let [x, y, _] = along(kappa)?;
        self.problem.check_points(|column, layers| {
            let read = |array: &DeviceArray| self.cuda.read_array(&array.column(column, layers)?);
            let along_x = read(x)?;
            let along_y = if y == x { along_x.clone() } else { read(y)? };
            Ok([along_x, along_y])
        })
    }

    /// Finds the data for a direct solve of a matrix: the spreads of the coefficients, and the arguments of [`Diffusion::with_known_shift`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for coefficients that are negative or not finite, and shifts that are not finite, naming the first cell; the errors of the GPU.
    pub fn examined(&self, matrix: Diffusion) -> Result<Diffusion> {
        let Coefficients::DeviceCells { fields, shift, .. } = matrix.coefficients() else { return Ok(matrix) };
        let arrays: Vec<_> = fields.iter().collect();
        let mut spreads = Vec::new();
        self.with_arrays(&arrays, &[], || {
            spreads = self.spreads("diffusion.coefficient", fields)?;
            Ok(())
        })?;
        let is_even = spreads.iter().all(|field| field.is_even());
        let known = shift.map_or_else(|| Ok(KnownShift::default()), |shift| self.examine(&shift, is_even))?;
        matrix.with_spreads(spreads)?.with_known_shift(known)
    }

    /// Does as [`Form::examined`] where a shift is negative, as only a direct solver can then be made.
    ///
    /// # Errors
    /// See [`Form::examined`].
    pub fn examined_if_negative(&self, matrix: Diffusion) -> Result<Diffusion> {
        match matrix.coefficients() {
            Coefficients::DeviceCells { shift: Some(shift), .. } if self.first_cells(shift)?[1].is_some() => {
                self.examined(matrix)
            }
            _ => Ok(matrix),
        }
    }

    /// Finds the known properties of a shift; the sums only if they are useful: with fields of one value each.
    fn examine(&self, shift: &DeviceArray, is_even: bool) -> Result<KnownShift> {
        let (shape, extents) = (self.shape, self.shape.extents());
        let [not_finite, negative, no_sum] = self.first_cells(shift)?;
        if let Some(n) = not_finite {
            let [i, j, k] = shape.place(n);
            return Err(Error::invalid(
                "the shift",
                format!("not finite, first in cell (i, j, k) = ({i}, {j}, {k}), counted from 0"),
            ));
        }
        let read = |at: [usize; 3], shape| self.cuda.read_array(&shift.part(at, shape)?);
        let found = |at| Ok::<_, Error>((at, read(at, Shape::new(1, 1, 1))?[0]));
        let negative = negative.map(|n| found(shape.place(n))).transpose()?;
        if no_sum.is_some() || !is_even {
            return Ok(KnownShift { negative, sums: None });
        }
        let middle = extents.map(|n| n / 2);
        let mut sums = Vec::new();
        for d in 0..3 {
            let (mut at, mut line) = (middle, [1; 3]);
            (at[d], line[d]) = (0, extents[d]);
            let mut numbers = read(at, Shape::new(line[0], line[1], line[2]))?;
            // The number of the middle cell, which all three have, counts once.
            let rest = if d == 0 { 0.0 } else { numbers[middle[d]] };
            numbers.iter_mut().for_each(|number| *number -= rest);
            sums.push(numbers);
        }
        Ok(KnownShift { negative, sums: sums.try_into().ok() })
    }

    /// Returns the first cells whose shifts are not finite, negative, and no sum of numbers along the axes.
    fn first_cells(&self, shift: &DeviceArray) -> Result<[Option<usize>; 3]> {
        let mut found = [u64::MAX; 3];
        let report = Buffer::from_slice(self.cuda.context(), &found, "a report on shifts")?;
        self.with_arrays(&[shift], &[], || {
            self.submit("examine", [words(shift)], self.shape, |arguments| arguments.with(report.start()))
        })?;
        report.read(&mut found)?;
        Ok(found.map(|n| (n != u64::MAX).then_some(n as usize)))
    }

    /// Finds the spread of each array.
    fn spreads(&self, what: &str, arrays: &[DeviceArray]) -> Result<Vec<Spread>> {
        let reports = Buffer::from_slice(self.cuda.context(), &vec![UNSEEN; arrays.len()], "reports on coefficients")?;
        for (n, array) in arrays.iter().enumerate() {
            let report = reports.start() + (n * size_of_val(&UNSEEN)) as u64;
            self.submit("spread", [words(array)], self.shape, |arguments| arguments.with(report))?;
        }
        let mut found = vec![UNSEEN; arrays.len()];
        reports.read(&mut found)?;
        let Shape { nx, ny, .. } = self.shape;
        let read = |report: [u64; 4]| match usize::try_from(report[0]) {
            Ok(n) if n < self.shape.cells() => {
                let (i, j, k) = (n % nx, n / nx % ny, n / (nx * ny));
                let message =
                    format!("negative or not finite, first in cell (i, j, k) = ({i}, {j}, {k}), counted from 0");
                Err(Error::invalid(what, message))
            }
            _ => Ok(spread_of(report)),
        };
        found.into_iter().map(read).collect()
    }

    /// Writes the right-hand side of [`DiffusionProblem::rhs_from`] for the source density `body` (0 if absent) times volumes.
    ///
    /// [`DiffusionProblem::rhs_from`]: isobar_core::problem::DiffusionProblem::rhs_from
    ///
    /// # Errors
    /// See [`Form::gradient`].
    pub fn write_rhs(&self, kappa: &[DeviceArray], body: Option<&DeviceArray>, to: &DeviceArray) -> Result<()> {
        let along = along(kappa)?;
        let read: Vec<_> = along.into_iter().chain(body).collect();
        self.with_arrays(&read, &[to], || self.of_cells("rhs", along, body, to))
    }

    /// Submits one of the kernels `rhs` and `shift`.
    fn of_cells(
        &self,
        kernel: &'static str,
        along: [&DeviceArray; 3],
        density: Option<&DeviceArray>,
        to: &DeviceArray,
    ) -> Result<()> {
        let [x, y, z] = along.map(words);
        self.submit(kernel, [x, y, z, density.map_or(NONE, words), words(to)], self.shape, |arguments| arguments)?;
        let is_shift = i32::from(kernel == "shift");
        self.submit_points("points", [x, y, z, words(to)], |arguments| arguments.with(is_shift))
    }
}
