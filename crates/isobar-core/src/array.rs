//! Callers' arrays: any strides, in host memory or in that of a GPU.

mod device;
mod elements;
mod passes;
mod places;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use crate::error::{Error, Result};
use crate::execute::Execute;
use crate::layout::{Axis, Shape, Slab};

pub use device::DeviceArray;
use elements::Elements;
pub(crate) use passes::average_copies;
pub use places::{Source, Target};

/// A caller's three-dimensional array of any strides: borrowed, and copied only where necessary.
///
/// Strides are in elements and ordered (x, y, z). The default of the field's files, C order with shape (nz, ny, nx), is [`ArrayView::c_order`].
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a, T> {
    data: Elements<'a, T>,
    shape: Shape,
    place: Place,
}

/// The writable counterpart of [`ArrayView`].
#[derive(Debug)]
pub struct ArrayViewMut<'a, T> {
    data: Elements<'a, T>,
    /// No other view has these elements.
    owner: PhantomData<&'a mut [T]>,
    shape: Shape,
    place: Place,
}

/// The place of an array's elements in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The position of element (0, 0, 0).
    origin: usize,
    /// Strides for x, y and z; a negative one counts backwards.
    strides: [isize; 3],
}

impl Place {
    fn c_order(shape: Shape) -> Self {
        Self { origin: 0, strides: c_order_strides(shape).map(usize::cast_signed) }
    }

    /// Returns the place, if all elements of an array of this shape lie among `len`.
    fn checked(self, len: usize, shape: Shape) -> Result<Self> {
        match self.range(shape) {
            Some((first, last)) if first >= 0 && last < len as i128 => Ok(self),
            _ => Err(Error::shape(
                "array",
                format!("{len} elements"),
                format!(
                    "room for {shape} cells at strides (x, y, z) = {:?} from element {}",
                    self.strides, self.origin
                ),
            )),
        }
    }

    /// Returns the first and the last element used.
    fn range(self, shape: Shape) -> Option<(i128, i128)> {
        let (mut first, mut last) = (self.origin as i128, self.origin as i128);
        for (n, stride) in shape.extents().into_iter().zip(self.strides) {
            let extent = (n.max(1) as i128 - 1).checked_mul(stride as i128)?;
            let end = if extent < 0 { &mut first } else { &mut last };
            *end = end.checked_add(extent)?;
        }
        Some((first, last))
    }

    #[inline(always)]
    fn of(self, i: usize, j: usize, k: usize) -> usize {
        let [x, y, z] = self.strides;
        let (x, y, z) = (x.cast_unsigned(), y.cast_unsigned(), z.cast_unsigned());
        // Arithmetic modulo 2⁶⁴ is right for strides of either sign.
        let inside = i.wrapping_mul(x).wrapping_add(j.wrapping_mul(y)).wrapping_add(k.wrapping_mul(z));
        self.origin.wrapping_add(inside)
    }

    /// Returns the position of an element, if there is such a cell: beyond lie the elements of other parts.
    #[inline(always)]
    fn inside(self, shape: Shape, [i, j, k]: [usize; 3]) -> usize {
        assert!(i < shape.nx && j < shape.ny && k < shape.nz, "cell {:?} of a grid of {shape}", [i, j, k]);
        self.of(i, j, k)
    }

    /// Returns the place of the elements from another row on.
    fn at(self, j: usize) -> Self {
        Self { origin: self.of(0, j, 0), ..self }
    }

    /// Returns the place of the same elements with the directions in another order.
    fn in_order(self, order: [usize; 3]) -> Self {
        Self { strides: order.map(|axis| self.strides[axis]), ..self }
    }

    /// Returns whether each cell surely has an element of its own: each stride is larger than all that smaller strides reach.
    fn is_apart(self, shape: Shape) -> bool {
        let mut steps = shape.extents().into_iter().zip(self.strides).filter(|(n, _)| *n > 1).collect::<Vec<_>>();
        steps.sort_by_key(|(_, stride)| stride.unsigned_abs());
        let mut reach = 0;
        steps.into_iter().all(|(n, stride)| {
            let is_beyond = stride.unsigned_abs() > reach;
            reach = (n - 1).saturating_mul(stride.unsigned_abs()).saturating_add(reach);
            is_beyond
        })
    }

    /// Returns the strides of elements that follow each other in memory in some order of directions; those of single cells are 0.
    fn dense(self, shape: Shape) -> Option<[usize; 3]> {
        let mut steps: Vec<_> = (0..3).filter(|&axis| shape.extents()[axis] > 1).collect();
        steps.sort_by_key(|&axis| self.strides[axis]);
        let (mut strides, mut cells) = ([0; 3], 1);
        for axis in steps {
            strides[axis] = usize::try_from(self.strides[axis]).ok().filter(|&stride| stride == cells)?;
            cells *= shape.extents()[axis];
        }
        Some(strides)
    }

    fn is_c_order(self, shape: Shape) -> bool {
        let strides = self.strides.into_iter().zip(Self::c_order(shape).strides);
        // The stride of a single element is never used.
        strides.zip(shape.extents()).all(|((own, wanted), n)| own == wanted || n == 1)
    }
}

fn c_order_strides(shape: Shape) -> [usize; 3] {
    [1, shape.nx, shape.nx * shape.ny]
}

impl<'a, T: Copy> ArrayView<'a, T> {
    /// Makes a view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        // A stride beyond isize is outside any slice.
        Self::from_origin(data, 0, shape, strides.map(|stride| isize::try_from(stride).unwrap_or(isize::MAX)))
    }

    /// Makes a view whose element (0, 0, 0) is number `origin`; strides (x, y, z) in elements may be negative.
    ///
    /// # Errors
    /// [`Error::Shape`] if an element would lie outside `data`.
    pub fn from_origin(data: &'a [T], origin: usize, shape: Shape, strides: [isize; 3]) -> Result<Self> {
        let place = Place { origin, strides }.checked(data.len(), shape)?;
        Ok(Self { data: Elements::of(data), shape, place })
    }

    /// Makes a view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Ok(Self { data: Elements::of(data), shape, place: Place::c_order(shape) })
    }

    /// Makes an array with one value everywhere.
    pub fn constant(value: &'a T, shape: Shape) -> Self {
        Self { data: Elements::of(std::slice::from_ref(value)), shape, place: Place { origin: 0, strides: [0; 3] } }
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns some of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has fewer.
    pub fn part(&self, part: Slab) -> Result<Self> {
        check_part(self.shape, part)?;
        Ok(Self { data: self.data, shape: part.shape(self.shape), place: self.place.at(part.first) })
    }

    /// Describes the array with its directions in another order.
    pub(crate) fn in_order(self, order: [usize; 3]) -> Self {
        Self { shape: self.shape.in_order(order), place: self.place.in_order(order), ..self }
    }

    /// Returns the entries in C order, (nz, ny, nx), if they lie so in memory.
    pub fn as_c_order(&self) -> Option<&'a [T]> {
        let Place { origin, .. } = self.place;
        self.place.is_c_order(self.shape).then(|| self.data.slice(origin..origin + self.shape.cells()))
    }

    /// Returns the entries as they lie in memory, and their strides (x, y, z), if nothing lies between them.
    pub fn dense(&self) -> Option<(&'a [T], [usize; 3])> {
        let (Place { origin, .. }, strides) = (self.place, self.place.dense(self.shape)?);
        Some((self.data.slice(origin..origin + self.shape.cells()), strides))
    }

    /// Returns the entries of each layer in C order, (ny, nx), if they lie so in memory.
    pub fn layers(&self) -> Option<Vec<&'a [T]>> {
        let layer = Shape { nz: 1, ..self.shape };
        let entries = |k: usize| {
            let start = self.place.of(0, 0, k);
            self.data.slice(start..start + layer.cells())
        };
        self.place.is_c_order(layer).then(|| (0..self.shape.nz).map(entries).collect())
    }

    /// Returns the entries of a line in x, if they are contiguous.
    ///
    /// # Panics
    /// Panics if there is no such line.
    pub fn line(&self, j: usize, k: usize) -> Option<&'a [T]> {
        let start = self.place.inside(self.shape, [0, j, k]);
        (self.place.strides[0] == 1).then(|| self.data.slice(start..start + self.shape.nx))
    }

    /// Returns one entry.
    ///
    /// # Panics
    /// Panics if there is no such cell.
    #[inline(always)]
    pub fn get(&self, i: usize, j: usize, k: usize) -> T {
        self.data.get(self.place.inside(self.shape, [i, j, k]))
    }
}

impl<'a, T: Copy> ArrayViewMut<'a, T> {
    /// Makes a view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// See [`ArrayViewMut::from_origin`].
    pub fn new(data: &'a mut [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        // A stride beyond isize is outside any slice.
        Self::from_origin(data, 0, shape, strides.map(|stride| isize::try_from(stride).unwrap_or(isize::MAX)))
    }

    /// Makes a view whose element (0, 0, 0) is number `origin`; strides (x, y, z) in elements may be negative.
    ///
    /// # Errors
    /// [`Error::Shape`] if an element would lie outside `data`; [`Error::Invalid`] if cells might share an element.
    pub fn from_origin(data: &'a mut [T], origin: usize, shape: Shape, strides: [isize; 3]) -> Result<Self> {
        let place = Place { origin, strides }.checked(data.len(), shape)?;
        if !place.is_apart(shape) {
            return Err(Error::invalid(
                "array",
                format!(
                    "strides (x, y, z) = {strides:?}, by which cells may share a number in memory; give the result one for each cell"
                ),
            ));
        }
        Ok(Self { data: Elements::to_write(data), owner: PhantomData, shape, place })
    }

    /// Makes a view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a mut [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Ok(Self { data: Elements::to_write(data), owner: PhantomData, shape, place: Place::c_order(shape) })
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Borrows the view to write.
    pub fn reborrow(&mut self) -> ArrayViewMut<'_, T> {
        ArrayViewMut { ..*self }
    }

    /// Describes the array with its directions in another order.
    pub(crate) fn in_order(&mut self, order: [usize; 3]) -> ArrayViewMut<'_, T> {
        self.with(self.shape.in_order(order), self.place.in_order(order))
    }

    /// Borrows the array to read.
    pub fn as_view(&self) -> ArrayView<'_, T> {
        ArrayView { data: self.data, shape: self.shape, place: self.place }
    }

    /// Returns some of its rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has fewer.
    pub fn into_part(self, part: Slab) -> Result<Self> {
        check_part(self.shape, part)?;
        Ok(self.with(part.shape(self.shape), self.place.at(part.first)))
    }

    /// Divides it into rows, so that each part may be written by another thread.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has fewer rows; [`Error::Invalid`] if parts share a row.
    pub fn into_parts(self, parts: &[Slab]) -> Result<Vec<Self>> {
        parts.iter().try_for_each(|&part| check_part(self.shape, part))?;
        let shared = |a: &Slab, b: &Slab| a.first < b.beyond && b.first < a.beyond;
        if parts.iter().enumerate().any(|(n, a)| parts[n + 1..].iter().any(|b| shared(a, b))) {
            return Err(Error::invalid("array", "parts that share a row; give each row to one part"));
        }
        Ok(parts.iter().map(|part| self.with(part.shape(self.shape), self.place.at(part.first))).collect())
    }

    /// Makes a view of some of its elements; the caller must not use two that share an element at a time.
    fn with<'b>(&self, shape: Shape, place: Place) -> ArrayViewMut<'b, T>
    where
        'a: 'b,
    {
        ArrayViewMut { data: self.data, owner: PhantomData, shape, place }
    }

    /// Returns the entries in C order, (nz, ny, nx), if they lie so in memory.
    pub fn as_c_order_mut(&mut self) -> Option<&mut [T]> {
        let Place { origin, .. } = self.place;
        // SAFETY: the elements of this view, while it is borrowed.
        self.place.is_c_order(self.shape).then(|| unsafe { self.data.slice_mut(origin..origin + self.shape.cells()) })
    }

    /// Returns the entries as they lie in memory, and their strides (x, y, z), if nothing lies between them.
    pub fn dense_mut(&mut self) -> Option<(&mut [T], [usize; 3])> {
        let Place { origin, .. } = self.place;
        let strides = self.place.dense(self.shape)?;
        // SAFETY: the elements of this view, while it is borrowed.
        Some((unsafe { self.data.slice_mut(origin..origin + self.shape.cells()) }, strides))
    }

    /// Returns its layers.
    pub fn layers(&mut self) -> Vec<ArrayViewMut<'_, T>> {
        (0..self.shape.nz).map(|k| self.slice(Axis::Z, k)).collect()
    }

    /// Returns the cells whose number along an axis is n; the caller sees to it that no two elements of slices are used at a time.
    fn slice<'b>(&self, axis: Axis, n: usize) -> ArrayViewMut<'b, T>
    where
        'a: 'b,
    {
        let mut first = [0; 3];
        first[axis as usize] = n;
        let [i, j, k] = first;
        let place = Place { origin: self.place.of(i, j, k), ..self.place };
        self.with(self.shape.faces_on_side(axis), place)
    }

    /// Calls `f(n, slice)` for the cells of each number along an axis, by all threads.
    pub fn for_each_slice(
        &mut self,
        execute: &impl Execute,
        axis: Axis,
        f: impl Fn(usize, &mut ArrayViewMut<'_, T>) + Sync,
    ) where
        T: Send + Sync,
    {
        let count = self.shape.extents()[axis as usize];
        let mut slices: Vec<_> = (0..count).map(|n| self.slice(axis, n)).collect();
        execute.for_each(&mut slices, f);
    }

    /// Stores a line in x.
    ///
    /// # Panics
    /// Panics if there are fewer values than cells.
    pub fn set_line(&mut self, j: usize, k: usize, values: &[T]) {
        let (start, values) = (self.place.inside(self.shape, [0, j, k]), &values[..self.shape.nx]);
        if self.place.strides[0] == 1 {
            // SAFETY: elements of this view, which is borrowed to write.
            unsafe { self.data.slice_mut(start..start + self.shape.nx) }.copy_from_slice(values);
        } else {
            values.iter().enumerate().for_each(|(i, &value)| self.set(i, j, k, value));
        }
    }

    /// Stores one entry.
    ///
    /// # Panics
    /// Panics if there is no such cell.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, k: usize, value: T) {
        // SAFETY: an element of this view, which is borrowed to write.
        unsafe { self.data.set(self.place.inside(self.shape, [i, j, k]), value) };
    }
}

fn check_part(shape: Shape, Slab { first, beyond }: Slab) -> Result<()> {
    if first < beyond && beyond <= shape.ny {
        Ok(())
    } else {
        Err(Error::shape("array", shape, format!("rows {first} to {beyond}")))
    }
}

fn exact_length(len: usize, shape: Shape) -> Result<()> {
    if len == shape.cells() {
        Ok(())
    } else {
        Err(Error::shape("array", format!("{len} elements"), format!("{} = {shape}", shape.cells())))
    }
}
