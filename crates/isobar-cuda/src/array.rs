//! Callers' arrays, in host memory or on the GPU, converted to the layout and back.

use isobar_core::array::{ArrayView, ArrayViewMut, DeviceArray};
use isobar_core::backend::Backend;
use isobar_core::error::{Error, Result};
use isobar_core::execute::{Host, for_each_row};
use isobar_core::layout::{Axis, Layout, Shape};
use isobar_core::real::{Precision, Real};
use isobar_core::reference::check_shape;

use crate::cuda::Cuda;
use crate::driver::Pointer;
use crate::launch::{Argument, Arguments, Kernel, refuse_while_recording};
use crate::memory::Buffer;
use crate::vector::{Vector, index};

/// Layers of an array from which on each is copied where it lies, such as those of a rank's rows; smaller ones are packed before. B
const LAYER: usize = 1 << 18;

/// `Array` of array.cu: strides in elements, and the elements in x and y.
#[derive(Clone, Copy)]
#[repr(C)]
struct Array([i64; 3], [i32; 2]);

// SAFETY: three 64-bit and two 32-bit integers, as in array.cu.
unsafe impl Argument for Array {}

impl Array {
    fn of(array: &DeviceArray) -> Self {
        Self(array.strides().map(|stride| stride as i64), array.period().map(|n| n as i32))
    }

    fn c_order(shape: Shape) -> Self {
        Self::with_strides(shape, c_order(shape))
    }

    fn with_strides(Shape { nx, ny, .. }: Shape, strides: [usize; 3]) -> Self {
        Self(strides.map(|stride| stride as i64), [nx as i32, ny as i32])
    }
}

/// The number by which Python hands over arrays of any library in CUDA's default stream; its other name, 1, is that stream alone.
const DEFAULT_STREAM: u64 = 0;

/// The number of the first invalid coefficient if there is none.
const NONE: u64 = u64::MAX;

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Import,
    Export,
}

/// Returns the number of the first invalid coefficient, and 1 if coefficients have changed.
fn read_report(report: &Buffer) -> Result<[u64; 2]> {
    let mut read = [NONE, 1];
    report.read(&mut read)?;
    Ok(read)
}

impl Cuda {
    /// Copies between a vector in precision T and an array in precision S on this GPU.
    fn reorder<T: Real>(
        &self,
        way: Way,
        precision: Precision,
        layout: &Layout,
        array: Array,
        [from, to]: [Pointer; 2],
    ) -> Result<()> {
        let name = match (way, precision) {
            (Way::Import, Precision::F32) => "import_f32",
            (Way::Import, _) => "import_f64",
            (Way::Export, Precision::F32) => "export_f32",
            (Way::Export, _) => "export_f64",
        };
        let Shape { nx, ny, nz } = layout.shape();
        let arguments = Arguments::new().with(nx as i32);
        let arguments = if way == Way::Export { arguments.with(ny as i32) } else { arguments };
        let arguments = arguments.with(nz as i32).with(layout.pitch() as i32).with(array).with(from).with(to);
        self.over_rows(self.array_kernel::<T>(name)?, layout, arguments)
    }

    /// Copies a vector to an array in C order on this GPU; of several copies of periodic axes it takes the mean.
    pub(crate) fn take_c_order(&self, layout: &Layout, shape: Shape, pointers: [Pointer; 2]) -> Result<()> {
        self.reorder::<f64>(Way::Export, Precision::F64, layout, Array::c_order(shape), pointers)
    }

    /// Copies an array in C order on this GPU to a vector, to all copies of periodic axes.
    pub(crate) fn place_c_order(&self, layout: &Layout, shape: Shape, pointers: [Pointer; 2]) -> Result<()> {
        self.reorder::<f64>(Way::Import, Precision::F64, layout, Array::c_order(shape), pointers)
    }

    /// Launches a kernel in which each thread has two cells of a row.
    fn over_rows(&self, kernel: Kernel, layout: &Layout, arguments: Arguments) -> Result<()> {
        let Shape { ny, nz, .. } = layout.shape();
        self.launch(kernel, [layout.pitch().div_ceil(32), nz.div_ceil(8), ny], [32, 8], arguments)
    }

    /// Copies coefficients from the host to the layout: consecutive pieces of an array in C order, times a factor; cells from `end` on, in any
    /// direction, are set to zero. Returns whether a number has changed.
    pub(crate) fn upload_coefficients<T: Real>(
        &self,
        layout: &Layout,
        pieces: &[&[f64]],
        factor: f64,
        end: [usize; 3],
        to: Pointer,
    ) -> Result<bool> {
        let shape = layout.shape();
        let given = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if given != shape.cells() {
            return Err(Error::shape("coefficients", given.to_string(), format!("{} = {shape}", shape.cells())));
        }
        let report = self.report()?;
        self.staged(pieces, |from| {
            self.place_coefficients::<T>(
                layout,
                Precision::F64,
                Array::c_order(shape),
                [factor, 0.0],
                end,
                [from, to, report.start()],
            )
        })?;
        let [_, changed] = read_report(&report)?;
        Ok(changed != 0)
    }

    /// Copies coefficients from a caller's array on this GPU to the layout, times a factor; cells beyond the array are set to zero. Returns whether a number has
    /// changed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for coefficients below `least` or not finite, naming the first cell.
    pub(crate) fn import_coefficients<T: Real>(
        &self,
        layout: &Layout,
        what: &str,
        source: &DeviceArray,
        [factor, least]: [f64; 2],
        to: Pointer,
    ) -> Result<bool> {
        let (shape @ Shape { nx, ny, .. }, end) = (layout.shape(), source.shape().extents());
        if !end.into_iter().zip(shape.extents()).all(|(end, n)| end <= n) {
            return Err(Error::shape(what, source.shape(), format!("at most {shape}")));
        }
        let report = self.report()?;
        self.with_device_arrays(&[source], &[], "importing", || {
            let pointers = [source.pointer(), to, report.start()];
            self.place_coefficients::<T>(layout, source.precision(), Array::of(source), [factor, least], end, pointers)
        })?;
        let [first, changed] = read_report(&report)?;
        if first == NONE {
            return Ok(changed != 0);
        }
        let first = first as usize;
        let [i, j, k] = source.callers_cell([first % nx, first / nx % ny, first / nx / ny]);
        Err(Error::invalid(
            what,
            format!("negative or not finite, first in cell (i, j, k) = ({i}, {j}, {k}), counted from 0"),
        ))
    }

    /// Sets coefficients to zero. Returns whether a number has changed.
    pub(crate) fn clear_coefficients<T: Real>(&self, layout: &Layout, to: Pointer) -> Result<bool> {
        let (report, array) = (self.report()?, Array::c_order(layout.shape()));
        self.place_coefficients::<T>(layout, Precision::F64, array, [1.0, 0.0], [0; 3], [to, to, report.start()])?;
        let [_, changed] = read_report(&report)?;
        Ok(changed != 0)
    }

    /// Makes the report of `import_coefficients` of array.cu.
    fn report(&self) -> Result<Buffer> {
        Buffer::from_slice(self.context(), &[NONE, 0], "a report on coefficients")
    }

    fn place_coefficients<T: Real>(
        &self,
        layout: &Layout,
        precision: Precision,
        array: Array,
        [factor, least]: [f64; 2],
        end: [usize; 3],
        [from, to, report]: [Pointer; 3],
    ) -> Result<()> {
        let Shape { nx, ny, nz } = layout.shape();
        let arguments = Arguments::new()
            .with(nx as i32)
            .with(ny as i32)
            .with(nz as i32)
            .with(layout.pitch() as i32)
            .with(array)
            .with(factor)
            .with(least)
            .with(end.map(|n| n as i32))
            .with(from)
            .with(to)
            .with(report);
        let name = match precision {
            Precision::F32 => "import_coefficients_f32",
            _ => "import_coefficients_f64",
        };
        self.over_rows(self.array_kernel::<T>(name)?, layout, arguments)
    }

    /// Reads a caller's array on this GPU to the host in C order.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an array on another GPU; the errors of the GPU.
    pub fn read_array(&self, source: &DeviceArray) -> Result<Vec<f64>> {
        let layout = Layout::new(source.shape())?;
        let mut vector = Vector::<f64>::zeros(self.context(), &layout)?;
        self.import_array(source, &mut vector)?;
        let mut values = vec![0.0; source.shape().cells()];
        self.download_array(&vector, &mut ArrayViewMut::c_order(&mut values, source.shape())?)?;
        Ok(values)
    }

    /// Writes values in C order to a caller's array on this GPU.
    ///
    /// # Errors
    /// See [`Cuda::read_array`]; [`Error::Shape`] for another number of values.
    pub fn write_array(&self, values: &[f64], target: &DeviceArray) -> Result<()> {
        let layout = Layout::new(target.shape())?;
        let mut vector = Vector::<f64>::zeros(self.context(), &layout)?;
        self.upload_array(ArrayView::c_order(values, target.shape())?, &mut vector)?;
        self.export_array(&vector, target)
    }

    pub(crate) fn upload_array<S: Real, T: Real>(
        &self,
        source: ArrayView<'_, S>,
        target: &mut Vector<T>,
    ) -> Result<()> {
        refuse_while_recording("uploading")?;
        let layout = *target.layout();
        let shape = layout.shape();
        check_shape(source.shape(), shape)?;
        let packed: Vec<S>;
        let is_worth_it = |layers: &Vec<&[S]>| layers.iter().all(|layer| size_of_val(*layer) >= LAYER);
        let mut strides = c_order(shape);
        let pieces = match (source.dense(), source.layers().filter(is_worth_it)) {
            (Some((data, own)), _) => {
                strides = own;
                vec![data]
            }
            (None, Some(layers)) => layers,
            (None, None) => {
                let Shape { nx, ny, .. } = shape;
                let mut values = vec![S::ZERO; shape.cells()];
                for_each_row(&Host, &mut values, nx, |row, values| {
                    let (j, k) = (row % ny, row / ny);
                    match source.line(j, k) {
                        Some(line) => values.copy_from_slice(line),
                        None => values.iter_mut().enumerate().for_each(|(i, value)| *value = source.get(i, j, k)),
                    }
                });
                packed = values;
                vec![&packed[..]]
            }
        };
        self.staged(&pieces, |from| {
            let array = Array::with_strides(shape, strides);
            self.reorder::<T>(Way::Import, S::PRECISION, &layout, array, [from, target.pointer()])
        })
    }

    pub(crate) fn download_array<S: Real, T: Real>(
        &self,
        source: &Vector<T>,
        target: &mut ArrayViewMut<'_, S>,
    ) -> Result<()> {
        refuse_while_recording("downloading")?;
        let layout = *source.layout();
        let shape = layout.shape();
        check_shape(target.shape(), shape)?;
        let export_by =
            |array, to| self.reorder::<T>(Way::Export, S::PRECISION, &layout, array, [source.pointer(), to]);
        if let Some((data, strides)) = target.dense_mut() {
            return self.fetch(data, |to| export_by(Array::with_strides(shape, strides), to));
        }
        let export = |to| export_by(Array::c_order(shape), to);
        let is_worth_it = size_of::<S>() * shape.nx * shape.ny >= LAYER;
        let mut layers = target.layers();
        if is_worth_it
            && let Some(pieces) = layers.iter_mut().map(ArrayViewMut::as_c_order_mut).collect::<Option<Vec<_>>>()
        {
            return self.fetch_pieces(pieces, export);
        }
        let mut packed = vec![S::ZERO; shape.cells()];
        self.fetch(&mut packed, export)?;
        target.for_each_slice(&Host, Axis::Z, |k, layer| {
            let rows = packed.chunks_exact(shape.nx).skip(k * shape.ny).take(shape.ny);
            rows.enumerate().for_each(|(j, values)| layer.set_line(j, 0, values));
        });
        Ok(())
    }

    /// Copies a caller's array on this GPU to a vector. Afterwards, work in the array's stream (or, without a stream, anyone)
    /// may change the array.
    pub(crate) fn import_array<T: Real>(&self, source: &DeviceArray, target: &mut Vector<T>) -> Result<()> {
        let (layout, to) = (*target.layout(), target.pointer());
        self.with_device_array(source, &layout, "importing", || {
            self.reorder::<T>(Way::Import, source.precision(), &layout, Array::of(source), [source.pointer(), to])
        })
    }

    /// Copies a vector to a caller's array on this GPU. Afterwards, the array is complete for work in its stream, or, without a stream
    /// or with stream 0, for anyone.
    pub(crate) fn export_array<T: Real>(&self, source: &Vector<T>, target: &DeviceArray) -> Result<()> {
        let (layout, from) = (*source.layout(), source.pointer());
        check_shape(target.shape(), layout.shape())?;
        self.with_device_arrays(&[], &[target], "exporting", || {
            self.reorder::<T>(Way::Export, target.precision(), &layout, Array::of(target), [from, target.pointer()])
        })
    }

    /// Submits work on a caller's array after the work submitted to its stream so far and before later work.
    pub(crate) fn with_device_array(
        &self,
        array: &DeviceArray,
        layout: &Layout,
        what: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        check_shape(array.shape(), layout.shape())?;
        self.with_device_arrays(&[array], &[], what, work)
    }

    /// Submits work on callers' arrays after the work submitted to their streams so far and before later work. Afterwards, arrays that were read
    /// may be changed, and those that were written are complete, for work in their streams, or, without a stream or, if they were written, with
    /// stream 0, for anyone.
    pub(crate) fn with_device_arrays(
        &self,
        read: &[&DeviceArray],
        written: &[&DeviceArray],
        what: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        refuse_while_recording(what)?;
        let mut streams = Vec::new();
        for array in read.iter().chain(written) {
            if array.device() != self.ordinal() {
                return Err(Error::Unsupported(format!(
                    "an array in the memory of cuda:{} where one of cuda:{} is needed; copy it to that GPU, or make the solver on this \
                     one",
                    array.device(),
                    self.ordinal()
                )));
            }
            if !streams.contains(&array.stream()) {
                streams.push(array.stream());
            }
        }
        let given = || streams.iter().flatten().copied();
        given().try_for_each(|stream| self.context().wait_for(stream))?;
        work()?;
        given().try_for_each(|stream| self.context().hold_back(stream))?;
        // The streams that PyTorch and CuPy create do not wait for it.
        let is_default = |array: &&DeviceArray| array.stream() == Some(DEFAULT_STREAM);
        if streams.contains(&None) || written.iter().any(is_default) { self.synchronize() } else { Ok(()) }
    }

    /// Replaces every cell by the mean of the cells that lie whole periods apart in x and y.
    pub(crate) fn average_copies<T: Real>(&self, [x, y]: [usize; 2], of: &mut Vector<T>) -> Result<()> {
        let (layout, Shape { nx, ny, nz }) = (*of.layout(), of.layout().shape());
        let cells = [nx, ny, nz, layout.pitch(), x, y];
        let arguments = cells.into_iter().fold(Arguments::new(), |arguments, n| arguments.with(n as i32));
        self.over_rows(self.array_kernel::<T>("average")?, &layout, arguments.with(of.pointer()))
    }

    fn array_kernel<T: Real>(&self, name: &'static str) -> Result<Kernel> {
        self.array_modules()[index::<T>()].kernel(name)
    }
}

pub(crate) fn c_order(Shape { nx, ny, .. }: Shape) -> [usize; 3] {
    [1, nx, nx * ny]
}
