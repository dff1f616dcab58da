//! The order of a grid's directions in the solvers of a device. Measured: docs/notes/diffusion-multigrid.md, "Directions that cross" and "The order of
//! directions".
//!
//! A plane is stored as its device solves it fastest, whichever direction has one cell: upright, nx × 1 × nz, for relaxation of lines, which are along z
//! and which a plane needs whose couplings are stronger in x in some places and in y in others; or flat, nx × ny × 1. The numbers in memory are the same.
//!
//! Rows, along x, are contiguous in memory, and lines, along z, are solved one after the other: long rows and short lines take the least time,
//! and iterations are few where the strongest couplings are along lines. Directions change places where that saves much time; coefficients and callers' arrays are then copied in another order.

use super::turns::{SAME, Turns};
use crate::Shape;
use crate::options::{Method, Smoother, SolverOptions};
use crate::policy::direct::CROSSING;

/// The rules for the order of directions on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Orientation {
    /// The factor by which directions must cross for planes to be upright.
    pub upright_from: f64,
    /// Whether other planes are flat; otherwise those with one cell in x or y are upright.
    pub are_flat: bool,
    /// The time that a row takes in addition to its cells, in units of that of a cell in a long row and a short line.
    pub row: f64,
    /// The additional time of one colour of the rows above each other.
    pub half_plane: f64,
    /// The additional time of a layer of lines across y, in units of that of one, as few can be shared by several threads.
    pub plane: f64,
    /// The part by which each cell of a line lengthens the time of all.
    pub line: f64,
    /// The length up to which several threads share a line.
    pub longest_shared: usize,
    /// The most cells in y.
    pub most_rows: usize,
    /// Whether incomplete factorisations gain by long rows as well.
    pub has_rows_of_factors: bool,
    /// The time of a solve whose strongest couplings, 30 times the others, are not along z, where lines solve them, over that where they are; at
    /// most 1 if that is not known.
    pub strong_lines: f64,
    /// Whether ranks divide the rows, so that y stays y.
    pub divides_rows: bool,
}

/// The ratio of couplings at which [`Orientation::strong_lines`] is measured. The time grows by a power of it.
const STRONG: f64 = 30.0;

impl Orientation {
    /// Returns the order in which a solver with these options has a grid's directions, which cross by `crossing()` and whose mean couplings are
    /// `strengths()`; nothing if it is the caller's.
    pub(crate) fn turns(
        self,
        shape: Shape,
        is_periodic: [bool; 3],
        options: &SolverOptions,
        crossing: impl FnOnce() -> f64,
        strengths: impl FnOnce() -> [f64; 3],
    ) -> Option<Turns> {
        /// The limit of crossing in space: above it, lines in z may be the reason why iterations are few.
        const MOST_CROSSING: f64 = 1e3;
        let is_plane = shape.extents().contains(&1);
        let has_lines = options.may_have_lines();
        let is_open = has_lines && options.multigrid.smoother == Smoother::Auto;
        let grid = (shape, is_periodic);
        let strongest = || if is_open && self.has_order_of_lines() { strongest(strengths(), grid) } else { None };
        let turned = if options.has_factors() && self.has_rows_of_factors {
            let others: Vec<_> =
                others().into_iter().filter(|turns| !is_plane || turns.around(shape).nz == 1).collect();
            Self { half_plane: 0.0, ..self }.faster(Turns::ONE, &others, grid, None)
        } else if !has_lines && options.method != Method::Direct {
            None
        } else if is_plane && !self.divides_rows {
            self.of_plane(grid, [has_lines, is_open], crossing, strongest)
        } else if is_open || options.method == Method::Direct {
            self.faster(Turns::ONE, &others(), grid, strongest()).filter(|_| crossing() < MOST_CROSSING)
        } else {
            None
        }?;
        (turned != Turns::ONE && turned.is_one_copy(shape, is_periodic)).then_some(turned)
    }

    /// Returns the order in which the only direction that couples cells is z, if orders of this device are measured.
    pub(crate) fn of_lines(self, shape: Shape, is_periodic: [bool; 3], along: usize) -> Option<Turns> {
        let [own, exchanged] =
            [[[1, 2, 0], [2, 1, 0]], [[0, 2, 1], [2, 0, 1]], [SAME, [1, 0, 2]]][along].map(Turns::in_order);
        let turned = self.faster(own, &[exchanged], (shape, is_periodic), None).unwrap_or(own);
        (self.has_order_of_lines() && !self.divides_rows && turned.is_one_copy(shape, is_periodic)).then_some(turned)
    }

    /// Returns whether it is known how much the direction of lines matters.
    pub(crate) fn has_order_of_lines(self) -> bool {
        self.strong_lines > 1.0
    }

    /// Returns how a plane lies, for a solver that may have lines, or whose smoother is left open.
    fn of_plane(
        self,
        (shape, is_periodic): (Shape, [bool; 3]),
        [has_lines, is_open]: [bool; 2],
        crossing: impl FnOnce() -> f64,
        strongest: impl FnOnce() -> Option<(usize, f64)>,
    ) -> Option<Turns> {
        /// The time of a cell where lines solve the strongest couplings over that in a flat plane, beyond which fewer iterations do not pay.
        const MOST_OF_FLAT: f64 = 2.4;
        let [flat, upright] = match shape.extents().map(|n| n > 1) {
            [true, true, false] => [SAME, [0, 2, 1]],
            [true, false, true] => [[0, 2, 1], SAME],
            [false, true, true] => [[1, 2, 0], [1, 0, 2]],
            [false, true, false] => {
                return self.faster(Turns::ONE, &[Turns::in_order([1, 0, 2])], (shape, is_periodic), None);
            }
            [false, false, true] => {
                return self.faster(Turns::ONE, &[Turns::in_order([2, 1, 0])], (shape, is_periodic), None);
            }
            _ => return None,
        };
        let crosses = has_lines && crossing() >= self.upright_from.max(CROSSING);
        if !crosses && let Some((d, _)) = strongest() {
            // Lines along the strongest couplings, rows across them.
            let across = [flat[0], flat[1]].into_iter().find(|&e| e != d)?;
            let [x, y, z] = flat;
            let [lines, flat, exchanged] = [[across, z, d], [x, y, z], [y, x, z]].map(Turns::in_order);
            let time = |turns: Turns| self.time(turns.around(shape));
            let pays = time(lines) <= MOST_OF_FLAT * time(flat).min(time(exchanged));
            if pays && shape.extents()[d] <= self.longest_shared && lines.is_one_copy(shape, is_periodic) {
                return Some(lines);
            }
        }
        // Lines do not solve periodic directions exactly.
        let stays_flat = !crosses || is_periodic[upright[2]];
        let is_flat = stays_flat && (shape.nz == 1 || (self.are_flat && (is_open || !has_lines)));
        let own @ [x, y, z] = if is_flat { flat } else { upright };
        let exchanged = Turns::in_order(if is_flat { [y, x, z] } else { [z, y, x] });
        let own = Turns::in_order(own);
        if crosses || (has_lines && !is_open) {
            return Some(own);
        }
        Some(self.faster(own, &[exchanged], (shape, is_periodic), None).unwrap_or(own))
    }

    /// Returns the order of several in which cells take the least time, if that is much less than in the present one; the couplings of one of the caller's
    /// directions may be much the strongest.
    fn faster(
        self,
        own: Turns,
        others: &[Turns],
        (shape, is_periodic): (Shape, [bool; 3]),
        strongest: Option<(usize, f64)>,
    ) -> Option<Turns> {
        /// The number of cells below which any order takes little time,
        const FEW: usize = 30_000;
        /// unless their rows are so short that this much is saved.
        const SAVED: f64 = 5e5;
        /// The time in one order over that in another from which copies in that are worth while.
        const GAIN: f64 = 1.3;
        /// The time where lines are periodic, over that where they are not.
        const PERIODIC_LINES: f64 = 1.4;
        let time = |turns: &Turns| {
            let lines = if is_periodic[turns.order[2]] { PERIODIC_LINES } else { 1.0 };
            let iterations = match strongest {
                Some((d, ratio)) if turns.order[2] != d => self.strong_lines.powf(ratio.log(STRONG)),
                _ => 1.0,
            };
            lines * iterations * self.time(turns.around(shape))
        };
        let keeps_rows = |turns: &Turns| !self.divides_rows || turns.order[1] == 1;
        let others = others.iter().filter(|turns| keeps_rows(turns) && turns.is_one_copy(shape, is_periodic));
        let best = others.min_by(|a, b| time(a).total_cmp(&time(b)))?;
        let copies = Turns::of(own.around(shape), own.of_axes(is_periodic)).count() as f64;
        let (own, best_time, cells) = (copies * time(&own), time(best), shape.cells());
        let is_worth_copies = cells >= FEW || (own - best_time) * cells as f64 >= SAVED;
        (best_time.is_finite() && own >= GAIN * best_time && is_worth_copies).then_some(*best)
    }

    /// Returns the time that a cell takes; infinity if a grid is not supported.
    fn time(self, Shape { nx, ny, nz }: Shape) -> f64 {
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

/// Returns the direction whose couplings are much stronger than all others', if lines solve them, and how many times.
fn strongest(strengths: [f64; 3], (shape, is_periodic): (Shape, [bool; 3])) -> Option<(usize, f64)> {
    const MUCH: f64 = 8.0;
    /// In a plane, the largest ratio at which points may be relaxed.
    const MUCH_IN_PLANE: f64 = 4.0;
    /// The largest ratio of which times are known.
    const MOST: f64 = 1e3;
    // A direction of one cell couples nothing.
    let long = || (0..3).filter(|&d| shape.extents()[d] > 1);
    let d = long().max_by(|&a, &b| strengths[a].total_cmp(&strengths[b]))?;
    let others = long().filter(|&e| e != d).fold(0.0, |most: f64, e| most.max(strengths[e]));
    let much = if long().count() == 2 { MUCH_IN_PLANE } else { MUCH };
    (strengths[d] > much * others && !is_periodic[d]).then(|| (d, (strengths[d] / others).min(MOST)))
}

/// Returns all orders but the caller's. The first of equals is taken: the caller's rows become lines, so that neighbours are near each other in memory.
fn others() -> [Turns; 5] {
    [[1, 2, 0], [1, 0, 2], [2, 1, 0], [2, 0, 1], [0, 2, 1]].map(Turns::in_order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Preconditioner;

    #[test]
    fn rows_are_long_and_lines_short() {
        let (options, few) = (SolverOptions::default(), Shape::new(8, 8, 64));
        let cpu = Orientation {
            row: 45.0,
            half_plane: 300.0,
            plane: 6.0,
            longest_shared: usize::MAX,
            most_rows: usize::MAX,
            has_rows_of_factors: true,
            ..Orientation::default()
        };
        let gpu =
            Orientation { row: 16.0, line: 2.5e-3, longest_shared: 512, most_rows: 32767, ..Orientation::default() };
        let turned = |shape: Shape, is_periodic, orientation: Orientation| {
            let turns = orientation.turns(shape, is_periodic, &options, || 1.0, || [1.0; 3])?;
            let at = [1, 2, 3];
            assert_eq!(turns.callers_cell(turns.of_axes(at)), at);
            assert_eq!(turns.once(turns.around(shape)), shape);
            // Numbers along a single direction stay where they are.
            assert_eq!(turns.moves(shape), shape.extents().into_iter().filter(|&n| n > 1).count() > 1);
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
            let crossing = device.turns(Shape::new(2, 90, 400), [false; 3], &options, || 1e4, || [1.0; 3]);
            assert_eq!(crossing, None);
        }
        // A single row, and few cells in several rows.
        assert_eq!(turned(Shape::new(1, 1, 40_000), [false; 3], cpu), Some([40_000, 1, 1]));
        assert_eq!(turned(Shape::new(1, 2000, 1), [false; 3], cpu), Some([2000, 1, 1]));
        assert_eq!(turned(Shape::new(1, 200, 1), [false; 3], cpu), None);
        // Planes: flat, and upright on a CPU.
        let [xy, xz, yz] = [Shape::new(20, 3000, 1), Shape::new(20, 1, 3000), Shape::new(1, 20, 3000)];
        assert_eq!(
            [xy, xz, yz].map(|shape| turned(shape, [false; 3], cpu)),
            [Some([3000, 20, 1]), Some([3000, 1, 20]), Some([3000, 1, 20])]
        );
        let flat = Orientation { are_flat: true, ..gpu };
        assert_eq!([xy, xz, yz].map(|shape| turned(shape, [false; 3], flat)), [Some([3000, 20, 1]); 3]);
        // Lines along the direction of much the strongest couplings; none where there is one cell.
        let stretched = |shape: Shape, strengths: [f64; 3], orientation: Orientation| {
            let turns = orientation.turns(shape, [false; 3], &options, || 1.0, || strengths)?;
            Some(turns.around(shape).extents())
        };
        let lines = Orientation { strong_lines: 1.6, ..cpu };
        let on_ranks = Orientation { divides_rows: true, ..lines };
        let (plane, layers) = (Shape::new(30, 40, 1), Shape::new(30, 1, 40));
        let found = [[5.0, 1.0, 9.0], [1.0, 5.0, 9.0], [4.0, 1.0, 1.0]].map(|strengths| {
            [(plane, lines), (plane, on_ranks), (layers, lines)].map(|(shape, of)| stretched(shape, strengths, of))
        });
        assert_eq!(found[0], [Some([40, 1, 30]), None, None]);
        assert_eq!(found[1], [Some([30, 1, 40]), None, None]);
        assert_eq!(found[2], [None; 3]);
        assert_eq!(stretched(Shape::new(16, 3000, 1), [1.0, 9.0, 1.0], lines), Some([3000, 16, 1]));
        assert_eq!(stretched(Shape::new(1, 300, 400), [1.0; 3], on_ranks), Some([400, 300, 1]));
        assert_eq!(stretched(Shape::new(1, 400, 1), [1.0; 3], on_ranks), None);
        let named = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..options.clone() };
        assert_eq!(on_ranks.turns(Shape::new(1, 300, 400), [false; 3], &named, || 1.0, || [1.0; 3]), None);
        assert_eq!(stretched(layers, [5.0, 9.0, 1.0], lines), Some([40, 1, 30]));
        assert_eq!(stretched(plane, [5.0, 1.0, 9.0], Orientation { longest_shared: 29, ..lines }), None);
        // More rows than a GPU supports.
        let rows = Shape::new(500, 40_000, 1);
        assert_eq!(turned(rows, [false; 3], flat), Some([40_000, 500, 1]));
        // Lines that are too long for a GPU.
        let long = Shape::new(400, 400, 1000);
        assert_eq!([cpu, gpu].map(|device| turned(long, [false; 3], device).is_some()), [false, true]);
        // Incomplete factorisations on a CPU.
        let mic = Preconditioner::Mic { relaxation: 1.0, block: None };
        let factors = SolverOptions { method: Method::Cg, preconditioner: mic, ..SolverOptions::default() };
        let thin = Shape::new(1, 300, 200);
        let turned_by = |device: Orientation| device.turns(thin, [false; 3], &factors, || 1.0, || [1.0; 3]);
        assert_eq!(turned_by(cpu).map(|turns| turns.around(thin).extents()), Some([300, 200, 1]));
        assert_eq!(turned_by(gpu), None);
        let given = SolverOptions { preconditioner: Preconditioner::Jacobi, ..SolverOptions::default() };
        assert_eq!(gpu.turns(long, [false; 3], &given, || 1.0, || [1.0; 3]), None);
    }

    #[test]
    fn the_strongest_direction_is_that_of_lines() {
        let cpu =
            Orientation { row: 45.0, most_rows: usize::MAX, longest_shared: usize::MAX, ..Orientation::default() };
        let order = |strong_lines: f64, strengths: [f64; 3], is_periodic| {
            let orientation = Orientation { strong_lines, ..cpu };
            let turns = orientation.turns(
                Shape::new(64, 60, 56),
                is_periodic,
                &SolverOptions::default(),
                || 1.0,
                || strengths,
            )?;
            Some(turns.order[2])
        };
        for d in 0..2 {
            let mut strengths = [1.0, 2.0, 1.0];
            strengths[d] = 30.0;
            let mut ring = [false; 3];
            assert_eq!(order(1.6, strengths, ring), Some(d));
            assert_eq!(order(1.0, strengths, ring), None);
            ring[d] = true;
            assert_eq!(order(1.6, strengths, ring), None, "lines around a ring");
        }
        assert_eq!(order(1.6, [1.0, 1.0, 100.0], [false; 3]), None);
        // Long lines stay along z if they are stiff enough.
        let long = |stiff: f64| {
            let (shape, options) = (Shape::new(31, 31, 1025), SolverOptions::default());
            let device = Orientation { strong_lines: 1.6, ..cpu };
            device.turns(shape, [false; 3], &options, || 1.0, || [1.0, 1.0, stiff]).is_some()
        };
        assert_eq!([1.0, 10.0, 100.0, 1e3, 1e9].map(long), [true, true, false, false, false]);
        assert_eq!(order(1.6, [30.0, 30.0, 1.0], [false; 3]), None, "two directions alike");
    }

    #[test]
    fn lines_that_are_apart_lie_along_z() {
        let cpu = Orientation { row: 45.0, most_rows: usize::MAX, strong_lines: 1.6, ..Orientation::default() };
        let [space, plane] = [Shape::new(60, 200, 300), Shape::new(60, 4000, 1)];
        let order = |shape, along| cpu.of_lines(shape, [false; 3], along).map(|turns| turns.order);
        assert_eq!([0, 1, 2].map(|d| order(space, d)), [Some([1, 2, 0]), Some([0, 2, 1]), Some(SAME)]);
        assert_eq!([0, 1].map(|d| order(plane, d)), [Some([1, 2, 0]), Some([0, 2, 1])]);
        assert_eq!(order(Shape::new(1, 4000, 60), 2), Some([1, 0, 2]), "long rows");
        assert_eq!(cpu.of_lines(Shape::new(60, 201, 4), [false, true, false], 0), None, "an odd ring of rows");
        assert_eq!(Orientation { strong_lines: 1.0, ..cpu }.of_lines(space, [false; 3], 0), None);
    }

    #[test]
    fn planes_lie_as_a_device_has_them() {
        let options = SolverOptions::default();
        let plane = |shape: Shape, is_periodic, are_flat, crossing| {
            let planes = Orientation { upright_from: 100.0, are_flat, ..Orientation::default() };
            let turns = planes.turns(shape, is_periodic, &options, || crossing, || [1.0; 3]);
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
        let turns = Turns::in_order([1, 2, 0]);
        assert_eq!(turns.describe(yz).as_deref(), Some("solved as 4×6×1 cells, with y, z, x of the grid as x, y, z"));
        assert_eq!(
            (turns.of_axes(['x', 'y', 'z']), turns.of_pairs(["xy", "xz", "yz"])),
            (['y', 'z', 'x'], ["yz", "xy", "xz"])
        );
    }
}
