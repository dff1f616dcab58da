//! Arrays given by their addresses, for callers in other languages.

use std::ops::Range;

use isobar_core::prelude::{
    ArrayView, ArrayViewMut, DeviceArray, Error, Guess, Observer, Outcome, Precision, Real, Result, Shape, Source,
    Target,
};
use isobar_cuda::Cuda;

use crate::arrays::{Input, Output};
use crate::solver::Solver;

/// A `RawArray` describes an array of another language by its address, strides and precision, in host or GPU memory. It
/// is plain data and owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArray {
    pointer: usize,
    shape: Shape,
    strides: [isize; 3],
    precision: Precision,
    memory: RawMemory,
}

/// The memory that an array is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawMemory {
    /// The memory of the host.
    Host,
    /// The memory of a CUDA device.
    Cuda {
        /// The number of the device.
        ordinal: usize,
        /// The `cudaStream_t` or `CUstream`, as a number, whose queued work precedes any use of the array; without one
        /// that work has finished.
        stream: Option<u64>,
    },
}

impl RawArray {
    /// Describes the array whose element (0, 0, 0) is at `pointer`. `shape`, and `strides` in bytes, are in C order: (nz, ny, nx), or
    /// (ny, nx), or (nx). Without strides it is contiguous. If an array has no elements, its pointer, strides and memory are ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a null pointer, one that is not aligned, more than three dimensions, or strides that are no
    /// multiple of an element.
    pub fn new(
        pointer: usize,
        shape: &[usize],
        strides: Option<&[isize]>,
        precision: Precision,
        memory: RawMemory,
    ) -> Result<Self> {
        let dimensions = shape.len();
        let is_valid = (1..=3).contains(&dimensions) && strides.is_none_or(|strides| strides.len() == dimensions);
        Error::unless(is_valid, "array", || {
            format!("{dimensions} dimensions; use one to three, (nz, ny, nx) in C order, and as many strides")
        })?;
        let size = match precision {
            Precision::F64 => 8,
            Precision::F32 => 4,
            Precision::Mixed => return Err(Error::invalid("array", "mixed precision; elements are f64 or f32")),
        };
        let extent = |d: usize| if d < dimensions { shape[dimensions - 1 - d] } else { 1 };
        let grid = Shape::new(extent(0), extent(1), extent(2));
        let cells = grid.nx.checked_mul(grid.ny).and_then(|plane| plane.checked_mul(grid.nz));
        let fits = cells.and_then(|cells| cells.checked_mul(size)).is_some_and(|bytes| isize::try_from(bytes).is_ok());
        Error::unless(fits, "array", || format!("{shape:?} is more than any memory holds"))?;
        if shape.contains(&0) {
            return Ok(Self { pointer: size, shape: grid, strides: [0; 3], precision, memory: RawMemory::Host });
        }
        Error::unless(pointer != 0, "array", || "a null pointer; give the address of element (0, 0, 0)")?;
        let is_aligned = pointer.is_multiple_of(size);
        Error::unless(is_aligned, "array", || format!("address {pointer:#x} is no multiple of {size} bytes; copy it"))?;
        let mut elements = [1, grid.nx as isize, (grid.nx * grid.ny) as isize];
        if let Some(strides) = strides {
            for (d, bytes) in strides.iter().rev().enumerate() {
                Error::unless(bytes % size as isize == 0, "array", || {
                    format!("a stride of {bytes} bytes is no multiple of an element's {size}; copy it")
                })?;
                elements[d] = bytes / size as isize;
            }
        }
        Ok(Self { pointer, shape: grid, strides: elements, precision, memory })
    }

    /// Describes an array of double precision in C order in host memory.
    ///
    /// # Errors
    /// See [`RawArray::new`].
    pub fn c_order(start: *const f64, Shape { nx, ny, nz }: Shape) -> Result<Self> {
        Self::new(start.addr(), &[nz, ny, nx], None, Precision::F64, RawMemory::Host)
    }

    /// Describes the array behind `count` arrays of this shape in C order, of which this is the first.
    #[must_use]
    pub fn behind(self, count: usize) -> Self {
        Self { pointer: self.pointer + count * self.shape.cells() * self.size(), ..self }
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the type of the elements.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns which memory the array is in.
    pub fn memory(&self) -> RawMemory {
        self.memory
    }

    fn is_empty(&self) -> bool {
        self.shape.extents().contains(&0)
    }

    /// Returns the bytes of an element.
    fn size(&self) -> usize {
        if self.precision == Precision::F32 { size_of::<f32>() } else { size_of::<f64>() }
    }

    /// Returns how many elements before and behind element (0, 0, 0) belong to the array.
    fn reach(&self) -> Result<[usize; 2]> {
        let [mut before, mut behind] = [0_isize; 2];
        let extents = self.shape.extents();
        for (n, stride) in extents.into_iter().zip(self.strides) {
            let far = (n.max(1) as isize - 1).checked_mul(stride);
            let end = if stride < 0 { &mut before } else { &mut behind };
            let sum = far.and_then(|far| end.checked_add(far));
            *end =
                sum.ok_or_else(|| Error::invalid("array", format!("strides {:?} leave any memory", self.strides)))?;
        }
        Ok([before.unsigned_abs(), behind.unsigned_abs()])
    }

    /// Returns the addresses of all its bytes, gaps between elements included.
    ///
    /// # Errors
    /// [`Error::Invalid`] for strides that leave the address space.
    pub fn addresses(&self) -> Result<Range<usize>> {
        if self.is_empty() {
            return Ok(self.pointer..self.pointer);
        }
        let size = self.size();
        let [before, behind] = self.reach()?;
        let ends = before.checked_mul(size).and_then(|bytes| self.pointer.checked_sub(bytes)).zip(
            behind.checked_add(1).and_then(|n| n.checked_mul(size)).and_then(|bytes| self.pointer.checked_add(bytes)),
        );
        let length = |&(first, beyond): &(usize, usize)| isize::try_from(beyond - first).is_ok();
        match ends.filter(length) {
            Some((first, beyond)) => Ok(first..beyond),
            None => Err(Error::invalid("array", format!("strides {:?} leave any memory", self.strides))),
        }
    }

    /// Returns whether the two may share memory.
    ///
    /// # Errors
    /// See [`RawArray::addresses`].
    pub fn overlaps(&self, other: &Self) -> Result<bool> {
        let place = |array: &Self| match array.memory {
            RawMemory::Host => None,
            RawMemory::Cuda { ordinal, .. } => Some(ordinal),
        };
        let (a, b) = (self.addresses()?, other.addresses()?);
        Ok(place(self) == place(other) && a.start < b.end && b.start < a.end)
    }

    /// Returns whether the two share an element: exactly if their elements are equally far apart, else as [`RawArray::overlaps`].
    fn shares(&self, other: &Self) -> Result<bool> {
        /// Returns whether `offset` is a sum of fewer than n strides, forwards or backwards, of every direction; the largest is last.
        fn reaches(offset: isize, directions: &[(usize, usize)]) -> bool {
            let Some((&(n, stride), rest)) = directions.split_last() else { return offset == 0 };
            let stride = stride.cast_signed();
            let whole = offset.div_euclid(stride);
            [whole, whole + 1].into_iter().any(|k| k.unsigned_abs() < n && reaches(offset - k * stride, rest))
        }
        if self.is_empty() || other.is_empty() || !self.overlaps(other)? {
            return Ok(false);
        }
        if (self.shape, self.strides, self.precision) != (other.shape, other.strides, other.precision) || self.repeats()
        {
            return Ok(true);
        }
        let offset = other.pointer.wrapping_sub(self.pointer).cast_signed() / self.size().cast_signed();
        Ok(reaches(offset, &self.directions()))
    }

    /// Returns the number of elements and the distance of neighbours in each direction with more than one, the largest distance last.
    fn directions(&self) -> Vec<(usize, usize)> {
        let strides = self.strides.map(isize::unsigned_abs);
        let mut directions: Vec<_> = self.shape.extents().into_iter().zip(strides).filter(|&(n, _)| n > 1).collect();
        directions.sort_unstable_by_key(|&(_, stride)| stride);
        directions
    }

    /// Returns whether two of its elements share memory, as after broadcasting; such an array cannot be written.
    pub fn repeats(&self) -> bool {
        let mut reached = 0_usize;
        !self.is_empty()
            && self.directions().into_iter().any(|(n, stride)| {
                let inside = stride <= reached;
                reached = reached.saturating_add((n - 1).saturating_mul(stride));
                inside
            })
    }

    /// Returns it as an array to read.
    ///
    /// # Errors
    /// See [`RawArray::addresses`]; [`Error::Unsupported`] for negative strides on a device.
    ///
    /// # Safety
    /// While 'a lasts, all elements lie in memory of the given kind, which stays allocated, is initialised, and is
    /// written by nobody.
    pub unsafe fn source<'a>(&self) -> Result<Source<'a>> {
        Ok(match (self.memory, self.precision) {
            (RawMemory::Cuda { .. }, _) => self.on_device()?.into(),
            // SAFETY: promised by the caller.
            (RawMemory::Host, Precision::F32) => unsafe { self.view::<f32>()? }.into(),
            // SAFETY: promised by the caller.
            (RawMemory::Host, _) => unsafe { self.view::<f64>()? }.into(),
        })
    }

    /// Returns it as an array to write.
    ///
    /// # Errors
    /// See [`RawArray::source`]; [`Error::Invalid`] if two elements share memory.
    ///
    /// # Safety
    /// While 'a lasts, all elements lie in memory of the given kind, which stays allocated, is initialised, and is read
    /// and written by nobody else.
    pub unsafe fn target<'a>(&self) -> Result<Target<'a>> {
        Error::unless(!self.repeats(), "the array to write", || "its elements share memory; give one of its own")?;
        Ok(match (self.memory, self.precision) {
            (RawMemory::Cuda { .. }, _) => self.on_device()?.into(),
            // SAFETY: promised by the caller.
            (RawMemory::Host, Precision::F32) => unsafe { self.view_mut::<f32>()? }.into(),
            // SAFETY: promised by the caller.
            (RawMemory::Host, _) => unsafe { self.view_mut::<f64>()? }.into(),
        })
    }

    /// Returns its values on the host in C order, (nz, ny, nx).
    ///
    /// # Errors
    /// See [`RawArray::source`]; the errors of the device.
    ///
    /// # Safety
    /// See [`RawArray::source`]; the promise holds until this returns.
    pub unsafe fn read(&self) -> Result<Vec<f64>> {
        // SAFETY: promised by the caller.
        match unsafe { self.source()? } {
            Source::Device(array) => Cuda::shared(array.device())?.read_array(&array),
            on_host => on_host.to_vec(),
        }
    }

    /// Sets its values, which are in C order, (nz, ny, nx).
    ///
    /// # Errors
    /// See [`RawArray::target`]; [`Error::Shape`] for another number of values; the errors of the device.
    ///
    /// # Safety
    /// See [`RawArray::target`]; the promise holds until this returns.
    pub unsafe fn write(&self, values: &[f64]) -> Result<()> {
        // SAFETY: promised by the caller.
        match unsafe { self.target()? } {
            Target::Device(array) => Cuda::shared(array.device())?.write_array(values, &array),
            mut on_host => on_host.write(values),
        }
    }

    /// Calls a function with an array to read and one to write, which may overlap: on the host an overlapping source is
    /// copied first.
    ///
    /// # Errors
    /// The errors of [`RawArray::source`], of [`RawArray::target`] and of `call`.
    ///
    /// # Safety
    /// See [`RawArray::source`] and [`RawArray::target`]; the promises hold until this returns, but the two may share memory.
    pub unsafe fn with<R, E: From<Error>>(
        from: &Self,
        to: &Self,
        call: impl FnOnce(Source<'_>, Target<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        if from.memory == RawMemory::Host && from.overlaps(to)? {
            // SAFETY: promised by the caller.
            let (values, target) = unsafe { (from.read()?, to.target()?) };
            return call(ArrayView::c_order(&values, from.shape)?.into(), target);
        }
        // SAFETY: promised by the caller; on the host they share nothing.
        let (source, target) = unsafe { (from.source()?, to.target()?) };
        call(source, target)
    }

    fn on_device(&self) -> Result<DeviceArray> {
        let RawMemory::Cuda { ordinal, stream } = self.memory else {
            return Err(Error::Unsupported("a host array where one on a device is needed".into()));
        };
        if self.strides.iter().any(|&stride| stride < 0) {
            return Err(Error::Unsupported("negative strides of an array in the memory of a GPU; copy it".into()));
        }
        let strides = self.strides.map(isize::unsigned_abs);
        // SAFETY: the callers of `source` and `target` promise this.
        let array = unsafe {
            match self.precision {
                Precision::F32 => DeviceArray::new::<f32>(self.pointer as u64, self.shape, strides, ordinal),
                _ => DeviceArray::new::<f64>(self.pointer as u64, self.shape, strides, ordinal),
            }
        };
        Ok(stream.map_or(array, |stream| array.on_stream(stream)))
    }

    /// # Safety
    /// See [`RawArray::source`], for elements of type `T` in host memory.
    unsafe fn view<'a, T: Real>(&self) -> Result<ArrayView<'a, T>> {
        if self.is_empty() {
            return ArrayView::c_order(&[], self.shape);
        }
        let (range, [before, _]) = (self.addresses()?, self.reach()?);
        // SAFETY: between the first and the last element, which the caller promises to be one allocation; aligned, not null
        // and no longer than isize::MAX by construction.
        let data = unsafe { std::slice::from_raw_parts(range.start as *const T, range.len() / size_of::<T>()) };
        ArrayView::from_origin(data, before, self.shape, self.strides)
    }

    /// # Safety
    /// See [`RawArray::target`], for elements of type `T` in host memory.
    unsafe fn view_mut<'a, T: Real>(&self) -> Result<ArrayViewMut<'a, T>> {
        if self.is_empty() {
            return ArrayViewMut::c_order(&mut [], self.shape);
        }
        let (range, [before, _]) = (self.addresses()?, self.reach()?);
        // SAFETY: as in `view`, and nobody else uses it.
        let data = unsafe { std::slice::from_raw_parts_mut(range.start as *mut T, range.len() / size_of::<T>()) };
        ArrayViewMut::from_origin(data, before, self.shape, self.strides)
    }
}

impl Solver {
    /// Calls [`Solver::solve_many`] with arrays given by their addresses. The u of a system may be its own right-hand
    /// side, but shares memory with no other.
    ///
    /// # Errors
    /// See [`Solver::solve_many`]; [`Error::Invalid`] for a u whose elements share memory, and for a u that shares memory with the u or the right-hand side of
    /// another system.
    ///
    /// # Safety
    /// See [`RawArray::with`], for every pair.
    pub unsafe fn solve_many_raw(
        &mut self,
        systems: impl IntoIterator<Item = (RawArray, RawArray)>,
        guess: Guess,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<Outcome>> {
        let (shape, systems) = (self.shape(), Vec::from_iter(systems));
        for (n, (_, u)) in systems.iter().enumerate() {
            for (m, (b, other)) in systems.iter().enumerate().filter(|&(m, _)| m != n) {
                let name = if u.shares(other)? { "u" } else { "b" };
                if name == "u" || u.shares(b)? {
                    let message =
                        format!("u of system {n} shares memory with {name} of system {m}; give every system its own");
                    return Err(Error::invalid("the solutions", message));
                }
            }
        }
        self.solve_all(systems, guess, observer, &|(rhs, u), solve| {
            // SAFETY: promised by the caller.
            unsafe { RawArray::with(rhs, u, |rhs, u| solve(rhs.source(shape)?, u.target(shape)?)) }
        })
    }
}

impl From<DeviceArray> for RawArray {
    fn from(array: DeviceArray) -> Self {
        let memory = RawMemory::Cuda { ordinal: array.device(), stream: array.stream() };
        let strides = array.strides().map(usize::cast_signed);
        let (pointer, precision) = (array.pointer() as usize, array.precision());
        Self { pointer, shape: array.shape(), strides, precision, memory }
    }
}

impl<'a> Input<'a> for Source<'a> {
    fn source(self, _: Shape) -> Result<Source<'a>> {
        Ok(self)
    }
}

impl<'a> Output<'a> for Target<'a> {
    fn target(self, _: Shape) -> Result<Target<'a>> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(data: &[f64], shape: &[usize], strides: Option<&[isize]>) -> Result<RawArray> {
        RawArray::new(data.as_ptr() as usize, shape, strides, Precision::F64, RawMemory::Host)
    }

    #[test]
    fn elements_are_where_the_strides_say() {
        let data: Vec<f64> = (0..24).map(f64::from).collect();
        let entry = |array: &RawArray, i, j, k| {
            // SAFETY: `data` outlives it.
            let Source::F64(view) = unsafe { array.source() }.unwrap() else { panic!("f64") };
            view.get(i, j, k)
        };
        let plain = raw(&data, &[2, 3, 4], None).unwrap();
        assert_eq!(plain.shape(), Shape::new(4, 3, 2));
        assert_eq!(entry(&plain, 3, 2, 1), 23.0);
        let fortran = raw(&data, &[2, 3, 4], Some(&[8, 16, 48])).unwrap();
        assert_eq!(entry(&fortran, 1, 0, 1), 7.0);
        let backwards = raw(&data[23..], &[24], Some(&[-8])).unwrap();
        assert_eq!((backwards.shape(), entry(&backwards, 23, 0, 0)), (Shape::new(24, 1, 1), 0.0));
        let broadcast = raw(&data, &[5, 6], Some(&[0, 8])).unwrap();
        assert!(broadcast.repeats() && entry(&broadcast, 5, 4, 0) == 5.0);
        assert!(!fortran.repeats() && !backwards.repeats() && !plain.repeats());
        assert!(raw(&data, &[3, 4], Some(&[8, 8])).unwrap().repeats());
        let [low, high] = [&data[..12], &data[12..]].map(|half| raw(half, &[12], None).unwrap());
        assert!(!low.overlaps(&high).unwrap() && plain.overlaps(&high).unwrap());
        // Interleaved, side by side in larger rows, and one row further.
        let [even, odd] = [&data[..], &data[1..]].map(|from| raw(from, &[12], Some(&[16])).unwrap());
        let at = |n: usize| raw(&data[n..], &[3, 4], Some(&[64, 8])).unwrap();
        assert!(even.overlaps(&odd).unwrap() && !even.shares(&odd).unwrap() && even.shares(&even).unwrap());
        assert!(!at(0).shares(&at(4)).unwrap() && at(0).shares(&at(3)).unwrap() && plain.shares(&high).unwrap());
    }

    #[test]
    fn arrays_follow_each_other() {
        let data: Vec<f64> = (0..24).map(f64::from).collect();
        let first = RawArray::c_order(data.as_ptr(), Shape::new(4, 3, 1)).unwrap();
        assert_eq!(first, raw(&data, &[1, 3, 4], None).unwrap());
        assert_eq!(first.behind(0), first);
        // SAFETY: `data` outlives it.
        assert_eq!(unsafe { first.behind(1).read() }.unwrap(), data[12..]);
    }

    #[test]
    fn what_cannot_be_an_array_is_refused() {
        let data = [0.0; 4];
        assert!(raw(&data, &[], None).is_err() && raw(&data, &[1; 4], None).is_err());
        assert!(raw(&data, &[4], Some(&[8, 8])).is_err() && raw(&data, &[4], Some(&[4])).is_err());
        assert!(raw(&data, &[usize::MAX, 2], None).is_err());
        assert!(RawArray::new(0, &[4], None, Precision::F64, RawMemory::Host).is_err());
        assert!(RawArray::new(12, &[4], None, Precision::F64, RawMemory::Host).is_err());
        // SAFETY: it has no elements.
        let none = |pointer| unsafe { RawArray::new(pointer, &[3, 0], None, Precision::F64, RawMemory::Host)?.read() };
        assert!([0, 12].into_iter().all(|pointer| none(pointer).unwrap().is_empty()));
        let wild = raw(&data, &[3, 3], Some(&[isize::MAX - 7, isize::MAX - 7])).unwrap();
        assert!(wild.addresses().is_err());
    }
}
