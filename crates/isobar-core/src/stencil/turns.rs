//! This module maps arrays of the caller's grid to the solver's grid, which may hold a periodic direction twice or have its directions in another
//! order.
//!
//! With n periodic cells, n odd, a checkerboard does not fit: the first and the last are neighbours of one colour. Two copies of the direction have
//! 2n cells, on which colours alternate. With the coefficients and the right-hand side repeated on the second copy, A u = b has the solution of the n
//! cells repeated, since a shift by n changes neither A nor b. Iterates need not be repeated, as their errors depend on colours and tiles: a caller
//! gets the mean of the copies, whose residual is the mean of theirs, and so, relative to b, at most the reported one. A solve takes twice the work
//! and memory, on any back end; callers' arrays do not change.

use std::sync::Arc;

use crate::execute::{Host, shared};
use crate::layout::undo_order;
use crate::{ArrayView, DeviceArray, Error, Layout, Real, Result, Shape};

/// The number of copies of the caller's grid in a solver's grid, along x and y, or the order of its directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    x: usize,
    y: usize,
    /// The caller's direction that each of the solver's is. If it is another one, there is one copy.
    pub(crate) order: [usize; 3],
}

/// The order of a caller's directions.
pub(super) const SAME: [usize; 3] = [0, 1, 2];

impl Turns {
    /// One copy: the solver's grid is the caller's.
    pub const ONE: Self = Self { x: 1, y: 1, order: SAME };
    /// A plane whose rows are the solver's layers.
    pub const UPRIGHT: Self = Self { x: 1, y: 1, order: [0, 2, 1] };

    /// Returns the fewest copies that make periodic x and y even.
    pub fn of(shape: Shape, is_periodic: [bool; 3]) -> Self {
        let turns = |n: usize, is_ring: bool| if is_ring && n > 1 && n % 2 == 1 { 2 } else { 1 };
        Self { x: turns(shape.nx, is_periodic[0]), y: turns(shape.ny, is_periodic[1]), ..Self::ONE }
    }

    /// Returns the order of directions in which the caller's are these.
    pub(crate) fn in_order(order: [usize; 3]) -> Self {
        Self { order, ..Self::ONE }
    }

    /// Returns whether a solver's grid with directions in this order needs no copies.
    pub(super) fn is_one_copy(self, shape: Shape, is_periodic: [bool; 3]) -> bool {
        Self::of(self.around(shape), self.of_axes(is_periodic)).count() == 1
    }

    /// Returns a property of the solver's directions, given that of the caller's.
    pub(crate) fn of_axes<T: Copy>(self, axes: [T; 3]) -> [T; 3] {
        self.order.map(|axis| axes[axis])
    }

    /// Returns a property of pairs of the solver's directions, given that of the caller's: of x and y, x and z, y and z.
    pub(crate) fn of_pairs<T: Copy>(self, [xy, xz, yz]: [T; 3]) -> [T; 3] {
        // A pair of directions is named by the third direction, which it does not contain.
        let [x, y, z] = self.of_axes([yz, xz, xy]);
        [z, y, x]
    }

    /// Returns the cell of the caller's grid that is this one of the solver's, of which there is one copy; or its extents, given the solver's.
    pub(crate) fn callers_cell(self, at: [usize; 3]) -> [usize; 3] {
        undo_order(self.order, at)
    }

    /// Returns whether rows of the caller's grid, a single layer, are a solver's layers.
    pub(crate) fn sets_up(self, shape: Shape) -> bool {
        self == Self::UPRIGHT && shape.nz == 1
    }

    /// Returns how many copies of each cell there are.
    pub fn count(self) -> usize {
        self.x * self.y
    }

    /// Returns the solver's grid.
    pub fn around(self, shape: Shape) -> Shape {
        let [nx, ny, nz] = self.of_axes(shape.extents());
        Shape { nx: self.x * nx, ny: self.y * ny, nz }
    }

    /// Returns the caller's grid.
    pub fn once(self, around: Shape) -> Shape {
        let [nx, ny, nz] = self.callers_cell(self.one_copy(around).extents());
        Shape { nx, ny, nz }
    }

    /// Returns one copy of the caller's grid, with directions in the solver's order.
    pub(crate) fn one_copy(self, around: Shape) -> Shape {
        Shape { nx: around.nx / self.x, ny: around.ny / self.y, ..around }
    }

    /// Returns a note for the user, if any.
    pub fn describe(self, shape: Shape) -> Option<String> {
        if self.sets_up(shape) {
            return Some("solved by lines along y".into());
        }
        if self.order != SAME {
            let [x, y, z] = self.of_axes(["x", "y", "z"]);
            return Some(format!("solved as {} cells, with {x}, {y}, {z} of the grid as x, y, z", self.around(shape)));
        }
        let rings = [("x", self.x, shape.nx), ("y", self.y, shape.ny)];
        let odd: Vec<_> = rings
            .iter()
            .filter(|ring| ring.1 > 1)
            .map(|(axis, _, n)| format!("{axis} is periodic with {n} cells"))
            .collect();
        (!odd.is_empty()).then(|| {
            format!(
                "{}, an odd number: solved on two copies of it, {} cells, which takes twice the time of an even number{}",
                odd.join(" and "),
                self.around(shape).cells(),
                if odd.len() > 1 { " in each" } else { "" }
            )
        })
    }

    /// Returns whether values in C order on the caller's grid are in another order on the solver's.
    pub(crate) fn moves(self, shape: Shape) -> bool {
        let long = self.order.into_iter().filter(|&axis| shape.extents()[axis] > 1);
        !long.is_sorted()
    }

    /// Returns values of the caller's grid, in C order, in that of the solver's, on all copies.
    pub(crate) fn repeat_shared(self, values: &Arc<[f64]>, shape: Shape) -> Result<Arc<[f64]>> {
        if self.count() == 1 && !self.moves(shape) {
            return Ok(Arc::clone(values));
        }
        let source = ArrayView::c_order(values, shape)?.in_order(self.order);
        let (once, around) = (source.shape(), self.around(shape));
        let row = |row: usize, values: &mut [f64]| {
            let (j, k) = (row % around.ny % once.ny, row / around.ny);
            let (first, copies) = values.split_at_mut(once.nx);
            first.iter_mut().enumerate().for_each(|(i, value)| *value = source.get(i, j, k));
            copies.chunks_mut(once.nx).for_each(|copy| copy.copy_from_slice(first));
        };
        Ok(shared(&Host, around.cells(), around.nx, row))
    }

    /// Returns values of the caller's grid in C order, on all copies.
    pub(crate) fn repeat<T: Real>(self, source: &ArrayView<'_, T>) -> Vec<T> {
        let shape = source.shape();
        let mut values = Vec::with_capacity(self.around(shape).cells());
        for (k, j) in (0..shape.nz).flat_map(|k| (0..self.y * shape.ny).map(move |j| (k, j % shape.ny))) {
            let start = values.len();
            match source.line(j, k) {
                Some(line) => values.extend_from_slice(line),
                None => values.extend((0..shape.nx).map(|i| source.get(i, j, k))),
            }
            for _ in 1..self.x {
                values.extend_from_within(start..start + shape.nx);
            }
        }
        values
    }

    /// Describes an array of the caller's grid in the memory of a GPU on all copies.
    pub(crate) fn repeat_on_device(self, array: DeviceArray) -> DeviceArray {
        array.in_order(self.order).repeated([self.x, self.y].map(|copies| copies as u8))
    }

    /// Returns whether a direction with several copies is divided among ranks, for vectors of this layout.
    pub fn are_divided(self, layout: &Layout) -> bool {
        self.y > 1 && layout.divides_ring()
    }

    /// Fails if there is more than one copy.
    ///
    /// # Errors
    /// [`Error::Unsupported`], naming `what`, which copies do not support.
    pub fn require_one(self, what: &str) -> Result<()> {
        if self.count() == 1 {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "{what} where x or y is periodic with an odd number of cells; use an even number"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::array::average_copies;
    use crate::stencil::{Axis, Coefficients, Diffusion, Side, Spread, Stencil};

    #[test]
    fn two_turns_of_an_odd_ring() {
        let shape = Shape::new(3, 5, 2);
        let ring = [Side::Periodic; 2];
        let all = Turns::of(shape, [true; 3]);
        assert_eq!((all.count(), all.around(shape)), (4, Shape::new(6, 10, 2)));
        assert_eq!(all.once(all.around(shape)), shape);
        assert_eq!(Turns::of(Shape::new(1, 4, 3), [true; 3]), Turns::ONE);
        assert_eq!(Turns::of(shape, [false, false, true]), Turns::ONE);
        let values: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + n as f64).collect();
        let sides = [ring, ring, [Side::Fixed, Side::Closed]];
        let stencil = Diffusion::of_field(shape, values.clone(), [1.0; 3], Some(values.clone()), sides).unwrap();
        let twice = stencil.repeated(all).unwrap();
        // A commutes with the shift by a copy, so that the product of a repeated vector is repeated.
        let view = |values: &[f64]| all.repeat(&ArrayView::c_order(values, shape).unwrap());
        let once = stencil.times(&values);
        let (found, expected) = (twice.times(&view(&values)), view(&once));
        let difference = found.iter().zip(&expected).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
        assert!(difference < 1e-10, "{difference}");
        let mut layer: Vec<f64> = (0..60).map(f64::from).collect();
        average_copies(all.around(shape), [3, 5], &mut layer);
        // Cell (1, 2) is at columns 1 and 4 of rows 2 and 7, six columns wide.
        assert_eq!([13, 16, 43, 46].map(|n| layer[n]), [(13.0 + 16.0 + 43.0 + 46.0) / 4.0; 4]);
        assert_eq!((stencil.turns(), twice.turns()), (all, Turns::ONE));
        assert_eq!(stencil.around(all).unwrap().shape(), twice.shape());
        let text = all.describe(shape).unwrap();
        assert!(
            ["x is periodic with 3", "y is periodic with 5", "120 cells"].iter().all(|part| text.contains(part)),
            "{text}"
        );
        assert_eq!(Turns::ONE.describe(shape), None);
    }

    #[test]
    fn what_is_said_of_cells_names_those_of_the_caller() {
        let shape = Shape::new(1, 4, 6);
        let turns = Turns::in_order([1, 2, 0]);
        let mut shift = vec![1.0; shape.cells()];
        shift[shape.number([0, 3, 2])] = -1.0;
        let stencil = Diffusion::of_field(shape, vec![1.0; 24], [1.0; 3], Some(shift), [[Side::Fixed; 2]; 3]).unwrap();
        let said = |stencil: &Diffusion| stencil.check_iterated().unwrap_err().to_string();
        let turned = stencil.around(turns).unwrap();
        assert!(turned.shape() == Shape::new(4, 6, 1) && said(&turned).contains("(0, 3, 2)"), "{}", said(&turned));
        // SAFETY: the elements are never read.
        let array = unsafe { DeviceArray::c_order::<f64>(64, shape, 0) };
        assert_eq!(array.in_order(turns.order).callers_cell([3, 2, 0]), [0, 3, 2]);
    }

    #[test]
    fn coefficients_on_a_gpu_are_repeated_where_they_are() {
        let (shape, sides) = (Shape::new(3, 4, 2), [[Side::Periodic; 2], [Side::Closed; 2], [Side::Fixed; 2]]);
        // SAFETY: the elements are never read.
        let field = unsafe { DeviceArray::c_order::<f32>(64, shape, 1) };
        let cells = Coefficients::DeviceCells { fields: vec![field], axes: [(0, 1.0); 3], shift: Some(field) };
        let owner = Arc::new(());
        let stencil = Diffusion::new(shape, cells, None, sides).unwrap().owned_by(owner.clone());
        let stencil = stencil.with_spreads(vec![Spread::of_one(2.0)]).unwrap();
        let around = stencil.around(stencil.turns()).unwrap().into_owned();
        drop(stencil);
        assert_eq!(
            (around.shape(), around.spreads()[0].most, Arc::strong_count(&owner)),
            (Shape::new(6, 4, 2), 2.0, 2)
        );
        let Coefficients::DeviceCells { fields, shift, .. } = around.coefficients() else { panic!("{around:?}") };
        for array in fields.iter().chain(shift) {
            assert_eq!((array.shape(), array.period()), (around.shape(), [3, 4]));
            assert_eq!((array.pointer(), array.strides()), (64, field.strides()));
        }
        // All copies have the same values, so they are repeated.
        let cells = Coefficients::DeviceCells { fields: vec![field], axes: [(0, 1.0); 3], shift: None };
        let known = Diffusion::new(shape, cells, None, sides).unwrap().with_known(Arc::new(|n| n as f64));
        let around = known.around(known.turns()).unwrap();
        assert_eq!(around.half(Axis::X, [4, 2, 1]), known.half(Axis::X, [1, 2, 1]));
    }
}
