//! Where a solver's grid is not its caller's: periodic directions of an odd number of cells, and directions in another order.
//!
//! With n periodic cells, n odd, a checkerboard does not fit: the first and the last are neighbours of one colour. Two copies of
//! the direction have 2n cells, on which colours alternate; with the coefficients and the right-hand side repeated on the second
//! copy, A u = b has the solution of the n cells repeated, since a shift by n changes neither A nor b. Iterates need not be repeated, as their errors
//! depend on colours and tiles: a caller gets the mean of the copies, whose residual is the mean of theirs, and so, relative to
//! b, at most the reported one. A solve takes twice the work and memory, on any back end; callers' arrays do not change.
//!
//! A plane lies as its device solves it best, whichever direction has one cell: upright, nx × 1 × nz, for relaxation of lines, which are along z
//! and which a plane needs whose couplings are stronger in x here and in y there; or flat, nx × ny × 1. The numbers in memory are the same.
//!
//! In space rows, along x, are contiguous in memory, and lines, along z, are solved one after the other: long rows and short lines take the least
//! time. Directions change places where that saves much of it; coefficients and callers' arrays are then copied in another order.

use std::sync::Arc;

use crate::execute::{Host, shared};
use crate::options::{Method, Smoother, SolverOptions};
use crate::policy::direct::CROSSING;
use crate::{ArrayView, DeviceArray, Error, Layout, Real, Result, Shape};

/// What decides the order in which the solvers of a device have a grid's directions. Measured: docs/notes/diffusion-multigrid.md, "Directions that
/// cross" and "The order of directions".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Orientation {
    /// The factor by which directions cross from which planes are upright.
    pub upright_from: f64,
    /// Whether other planes are flat. Otherwise those with one cell in x or y are upright.
    pub are_flat: bool,
    /// The time that a row takes beside its cells, in units of that of a cell in a long row and a short line.
    pub row: f64,
    /// The time that one colour of the rows above each other takes beside them.
    pub half_plane: f64,
    /// The time that a layer of lines across y takes beside them, in units of that of one, as few can be shared by several threads.
    pub plane: f64,
    /// The part by which each cell of a line lengthens the time of all.
    pub line: f64,
    /// The length up to which several threads share a line.
    pub longest_shared: usize,
    /// The most cells in y.
    pub most_rows: usize,
}

impl Orientation {
    /// Returns the time that a cell takes; infinity where a grid is not supported.
    fn time(self, [nx, ny, nz]: [usize; 3]) -> f64 {
        /// Lines that threads do not share.
        const NOT_SHARED: f64 = 8.0;
        if ny > self.most_rows {
            return f64::INFINITY;
        }
        let not_shared = if nz > self.longest_shared { NOT_SHARED } else { 0.0 };
        let along_x = (self.row + self.half_plane / nz as f64) / nx as f64;
        (1.0 + along_x + self.line * nz as f64 + not_shared) * if ny > 1 { 1.0 + self.plane / ny as f64 } else { 1.0 }
    }
}

/// The number of copies of the caller's grid in a solver's grid, along x and y, or the order of its directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    x: usize,
    y: usize,
    /// The caller's direction that each of the solver's is. If it is another one, there is one copy.
    pub(crate) order: [usize; 3],
}

/// The order of a caller's directions.
const SAME: [usize; 3] = [0, 1, 2];

impl Turns {
    /// One copy: the solver's grid is the caller's.
    pub const ONE: Self = Self { x: 1, y: 1, order: SAME };
    /// A plane whose rows are the solver's layers.
    pub const UPRIGHT: Self = Self { order: [0, 2, 1], ..Self::ONE };

    /// Returns the fewest copies that make periodic x and y even.
    pub fn of(shape: Shape, is_periodic: [bool; 3]) -> Self {
        let turns = |n: usize, is_ring: bool| if is_ring && n > 1 && n % 2 == 1 { 2 } else { 1 };
        Self { x: turns(shape.nx, is_periodic[0]), y: turns(shape.ny, is_periodic[1]), ..Self::ONE }
    }

    /// Returns the order in which a device's solver with these options has a grid's directions, which cross by `crossing()`; nothing where it is
    /// the caller's.
    pub(crate) fn of_device(
        shape: Shape,
        is_periodic: [bool; 3],
        (options, orientation): (&SolverOptions, Orientation),
        crossing: impl FnOnce() -> f64,
    ) -> Option<Self> {
        let turned = if shape.extents().contains(&1) {
            Self::of_plane(shape, is_periodic, (options, orientation), crossing)?
        } else {
            Self::of_space(shape, is_periodic, (options, orientation), crossing)?
        };
        (turned != Self::ONE && turned.is_one_copy(shape, is_periodic)).then_some(turned)
    }

    /// Returns whether a solver's grid with directions in this order needs no copies.
    fn is_one_copy(self, shape: Shape, is_periodic: [bool; 3]) -> bool {
        Self::of(self.around(shape), self.of_axes(is_periodic)).count() == 1
    }

    fn of_plane(
        shape: Shape,
        is_periodic: [bool; 3],
        (options, orientation): (&SolverOptions, Orientation),
        crossing: impl FnOnce() -> f64,
    ) -> Option<Self> {
        let has_lines = options.may_have_lines();
        if !has_lines && options.method != Method::Direct {
            return None;
        }
        let [flat, upright] = match shape.extents().map(|n| n > 1) {
            [true, true, false] => [SAME, [0, 2, 1]],
            [true, false, true] => [[0, 2, 1], SAME],
            [false, true, true] => [[1, 2, 0], [1, 0, 2]],
            _ => return None,
        };
        let is_flat = shape.nz == 1 || (orientation.are_flat && options.multigrid.smoother == Smoother::Auto);
        let crosses = has_lines && crossing() >= orientation.upright_from.max(CROSSING);
        // Lines do not solve periodic directions exactly.
        let is_flat = is_flat && !(crosses && !is_periodic[upright[2]]);
        let own = Self { order: if is_flat { flat } else { upright }, ..Self::ONE };
        let [x, y, z] = own.order;
        let exchanged = Self { order: if is_flat { [y, x, z] } else { [z, y, x] }, ..Self::ONE };
        if crosses {
            return Some(own);
        }
        Some(own.or_faster(&[exchanged], (shape, is_periodic), (options, orientation)).unwrap_or(own))
    }

    fn of_space(
        shape: Shape,
        is_periodic: [bool; 3],
        (options, orientation): (&SolverOptions, Orientation),
        crossing: impl FnOnce() -> f64,
    ) -> Option<Self> {
        /// Where directions cross by more, lines in z may be what makes iterations few.
        const MOST_CROSSING: f64 = 1e3;
        // Of equals the first is taken: rows along y, and the caller's rows as lines, which are nearer each other in memory.
        let others = [[1, 2, 0], [1, 0, 2], [2, 1, 0], [2, 0, 1], [0, 2, 1]].map(|order| Self { order, ..Self::ONE });
        let best = Self::ONE.or_faster(&others, (shape, is_periodic), (options, orientation));
        best.filter(|_| crossing() < MOST_CROSSING)
    }

    /// Returns the order of several in which cells take the least time, where that is much less than in this one.
    fn or_faster(
        self,
        others: &[Self],
        (shape, is_periodic): (Shape, [bool; 3]),
        (options, orientation): (&SolverOptions, Orientation),
    ) -> Option<Self> {
        /// Fewer cells take little time in any order.
        const FEW: usize = 30_000;
        /// The time in this order over that in another one from which copies in that are worth while.
        const GAIN: f64 = 1.3;
        /// The time where lines are periodic, over that where they are not.
        const PERIODIC_LINES: f64 = 1.4;
        let has_lines = options.may_have_lines() && options.multigrid.smoother == Smoother::Auto;
        if shape.cells() < FEW || !(has_lines || options.method == Method::Direct) {
            return None;
        }
        let time = |turns: &Self| {
            let lines = if is_periodic[turns.order[2]] { PERIODIC_LINES } else { 1.0 };
            lines * orientation.time(turns.around(shape).extents())
        };
        let others = others.iter().filter(|turns| turns.is_one_copy(shape, is_periodic));
        let best = others.min_by(|a, b| time(a).total_cmp(&time(b)))?;
        let copies = Self::of(self.around(shape), self.of_axes(is_periodic)).count() as f64;
        (time(best).is_finite() && copies * time(&self) >= GAIN * time(best)).then_some(*best)
    }

    /// Returns a property of the solver's directions, given that of the caller's.
    pub(crate) fn of_axes<T: Copy>(self, axes: [T; 3]) -> [T; 3] {
        self.order.map(|axis| axes[axis])
    }

    /// Returns a property of pairs of the solver's directions, given that of the caller's: of x and y, x and z, y and z.
    pub(crate) fn of_pairs<T: Copy>(self, [xy, xz, yz]: [T; 3]) -> [T; 3] {
        // Of three directions a pair leaves one out.
        let [x, y, z] = self.of_axes([yz, xz, xy]);
        [z, y, x]
    }

    /// Returns the cell of the caller's grid that is this one of the solver's, of which there is one copy; or its extents, given the solver's.
    pub(crate) fn callers_cell(self, at: [usize; 3]) -> [usize; 3] {
        let mut cell = at;
        self.order.into_iter().zip(at).for_each(|(axis, n)| cell[axis] = n);
        cell
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
        let [nx, ny, nz] = self.callers_cell([around.nx / self.x, around.ny / self.y, around.nz]);
        Shape { nx, ny, nz }
    }

    /// Returns a note for the user, if any.
    pub fn describe(self, shape: Shape) -> Option<String> {
        if self.sets_up(shape) {
            return Some("solved by lines along y, on grids halved along x".into());
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

    /// Returns values of the caller's grid, in C order, in that of the solver's; there is one copy.
    pub(crate) fn reorder(self, values: &Arc<[f64]>, shape: Shape) -> Result<Arc<[f64]>> {
        if !self.moves(shape) {
            return Ok(Arc::clone(values));
        }
        let source = ArrayView::c_order(values, shape)?.in_order(self.order);
        let Shape { nx, ny, nz } = source.shape();
        let row = |row: usize, values: &mut [f64]| {
            let (j, k) = (row % ny, row / ny);
            values.iter_mut().enumerate().for_each(|(i, value)| *value = source.get(i, j, k));
        };
        Ok(shared(&Host, nx * ny * nz, nx, row))
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
        (self.x > 1 && layout.has_halo_columns()) || (self.y > 1 && layout.divides_ring())
    }

    /// Fails where there is more than one copy.
    ///
    /// # Errors
    /// [`Error::Unsupported`], naming what is not supported then.
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
    use crate::options::Preconditioner;
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
    fn rows_are_long_and_lines_short() {
        let (options, few) = (SolverOptions::default(), Shape::new(8, 8, 64));
        let cpu = Orientation {
            row: 45.0,
            half_plane: 300.0,
            plane: 6.0,
            longest_shared: usize::MAX,
            most_rows: usize::MAX,
            ..Orientation::default()
        };
        let gpu =
            Orientation { row: 16.0, line: 2.5e-3, longest_shared: 512, most_rows: 32767, ..Orientation::default() };
        let turned = |shape: Shape, is_periodic, orientation| {
            let turns = Turns::of_device(shape, is_periodic, (&options, orientation), || 1.0)?;
            let at = [1, 2, 3];
            assert_eq!(turns.callers_cell(turns.of_axes(at)), at);
            assert_eq!(turns.once(turns.around(shape)), shape);
            assert!(turns.moves(shape));
            Some(turns.around(shape).extents())
        };
        for device in [cpu, gpu] {
            for shape in [few, Shape::new(64, 64, 64), Shape::new(300, 90, 20), Shape::new(600, 600, 600)] {
                assert_eq!(turned(shape, [false; 3], device), None, "{shape}");
            }
            assert_eq!(turned(Shape::new(2, 90, 400), [false; 3], device), Some([400, 90, 2]));
            assert_eq!(turned(Shape::new(20, 100, 200), [false; 3], device), Some([200, 100, 20]));
            // An odd periodic direction is solved by lines rather than on two copies.
            assert_eq!(turned(Shape::new(200, 15, 60), [false, true, false], device), Some([200, 60, 15]));
            assert_eq!(turned(Shape::new(201, 15, 60), [true, true, false], device), None);
            let crossing = Turns::of_device(Shape::new(2, 90, 400), [false; 3], (&options, device), || 1e4);
            assert_eq!(crossing, None);
        }
        // Planes: flat, and upright where a CPU has them so.
        let [xy, xz, yz] = [Shape::new(20, 3000, 1), Shape::new(20, 1, 3000), Shape::new(1, 20, 3000)];
        assert_eq!(
            [xy, xz, yz].map(|shape| turned(shape, [false; 3], cpu)),
            [Some([3000, 20, 1]), Some([3000, 1, 20]), Some([3000, 1, 20])]
        );
        let flat = Orientation { are_flat: true, ..gpu };
        assert_eq!([xy, xz, yz].map(|shape| turned(shape, [false; 3], flat)), [Some([3000, 20, 1]); 3]);
        // More rows than a GPU has.
        let rows = Shape::new(500, 40_000, 1);
        assert_eq!(turned(rows, [false; 3], flat), Some([40_000, 500, 1]));
        // Lines that are too long for a GPU.
        let long = Shape::new(400, 400, 1000);
        assert_eq!([cpu, gpu].map(|device| turned(long, [false; 3], device).is_some()), [false, true]);
        let given = SolverOptions { preconditioner: Preconditioner::Jacobi, ..SolverOptions::default() };
        assert_eq!(Turns::of_device(long, [false; 3], (&given, gpu), || 1.0), None);
    }

    #[test]
    fn planes_lie_as_a_device_has_them() {
        let options = SolverOptions::default();
        let plane = |shape: Shape, is_periodic, are_flat, crossing| {
            let planes = Orientation { upright_from: 100.0, are_flat, ..Orientation::default() };
            let turns = Turns::of_device(shape, is_periodic, (&options, planes), || crossing);
            let around = turns.unwrap_or(Turns::ONE).around(shape);
            assert_eq!(turns.unwrap_or(Turns::ONE).once(around), shape);
            around.extents()
        };
        let [xy, xz, yz] = [Shape::new(4, 6, 1), Shape::new(4, 1, 6), Shape::new(1, 4, 6)];
        for shape in [xy, xz, yz] {
            let is_flat = shape == xy;
            assert_eq!(plane(shape, [false; 3], true, 0.0), [4, 6, 1]);
            assert_eq!(plane(shape, [false; 3], false, 0.0), if is_flat { [4, 6, 1] } else { [4, 1, 6] });
            assert_eq!(plane(shape, [false; 3], true, 100.0), [4, 1, 6]);
            assert_eq!(plane(shape, [false; 3], false, 100.0), [4, 1, 6]);
        }
        // Lines in a periodic direction are not solved exactly, and copies of an odd one are those of the caller's grid.
        assert_eq!(plane(xy, [false, true, false], false, 100.0), [4, 6, 1]);
        assert_eq!(plane(xz, [false, false, true], true, 100.0), [4, 6, 1]);
        assert_eq!(plane(Shape::new(1, 5, 6), [false, true, false], false, 0.0), [1, 5, 6]);
        assert_eq!(plane(Shape::new(4, 6, 2), [false; 3], true, 100.0), [4, 6, 2]);
        let turns = Turns { order: [1, 2, 0], ..Turns::ONE };
        assert_eq!(turns.describe(yz).as_deref(), Some("solved as 4×6×1 cells, with y, z, x of the grid as x, y, z"));
        assert_eq!(
            (turns.of_axes(['x', 'y', 'z']), turns.of_pairs(["xy", "xz", "yz"])),
            (['y', 'z', 'x'], ["yz", "xy", "xz"])
        );
    }

    #[test]
    fn what_is_said_of_cells_names_those_of_the_caller() {
        let shape = Shape::new(1, 4, 6);
        let turns = Turns { order: [1, 2, 0], ..Turns::ONE };
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
        // What is known of one copy is known of all.
        let cells = Coefficients::DeviceCells { fields: vec![field], axes: [(0, 1.0); 3], shift: None };
        let known = Diffusion::new(shape, cells, None, sides).unwrap().with_known(Arc::new(|n| n as f64));
        let around = known.around(known.turns()).unwrap();
        assert_eq!(around.half(Axis::X, [4, 2, 1]), known.half(Axis::X, [1, 2, 1]));
    }
}
