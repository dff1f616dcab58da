//! Sweeps over the whole grid in the order of unknowns, each in one launch of a systolic array: `kernels/seven_point/systolic.cuh`.

use std::sync::{Arc, OnceLock};

use isobar_core::prelude::{Real, Result, Shape, get_or_make};

use super::form::Form;
use crate::kernels::seven_point::WHOLE_GRID;
use crate::{Arguments, Buffer, Cuda, Launch, Module, Pointer, Reduction, Source};

/// Largest number of computing warps per block, as in the kernels' launch bounds.
const MOST_WARPS: usize = 4;
/// Warps per computing warp: itself, four that prepare rows, and one that transfers values along x. One more
/// transfers values along the chain to the first warp of a block.
const ROLES: usize = 6;
/// Rows prepared in advance; fewer if blocks have little shared memory.
const AHEAD: usize = 3;
/// Number of steps for which a warp has slots for values along the chain.
const SLOTS: usize = 16;
/// Slots of a warp for values along x.
const X_BOXES: usize = 64;
/// Shared memory of a block outside its warps. B
const BLOCK_BYTES: usize = 1 << 10;
/// Bytes of a warp's counters.
const COUNTS: usize = 32;
/// Bytes of the tickets.
const TICKETS: usize = 16;

/// The kind of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sweep {
    /// `factorise_whole`
    Factorise,
    /// `substitute_up`, with or without the residual, and `substitute_down`
    Substitute,
}

/// The arrangement of warps over a grid, as in systolic.cuh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Array {
    shape: Shape,
    /// Bits of the periodic directions.
    periodic: u32,
    /// Bytes per number.
    bytes: usize,
    /// Lanes of a warp side by side in x, each with two cells; the other lanes extend along the chain.
    lanes: usize,
    /// Rows prepared in advance.
    ahead: usize,
}

impl Array {
    /// Chooses the arrangement for a GPU. Sixteen lanes in x read whole lines of
    /// memory, if blocks have space for enough warps. If tiles have a multiprocessor each, memory is not the limit,
    /// and eight lanes shorten the delay between the first lane and the last.
    fn new<T: Real>(form: &Form, shape: Shape, shared_memory: usize, multiprocessors: usize) -> Self {
        let room = shared_memory.saturating_sub(BLOCK_BYTES);
        let wide = Self { shape, periodic: form.kind.periodic(), bytes: size_of::<T>(), lanes: 16, ahead: AHEAD };
        let narrow = Self { lanes: 8, ..wide };
        let is_large = narrow.tiles(MOST_WARPS / 2).into_iter().product::<usize>() > multiprocessors;
        let has_room = MOST_WARPS * wide.warp_bytes(Sweep::Substitute) <= room;
        let most = if shape.nz == 1 || (is_large && has_room) { wide } else { narrow };
        if most.warp_bytes(Sweep::Factorise) <= room { most } else { Self { ahead: 1, ..most } }
    }

    /// Returns the lanes of a warp in x and along the chain.
    fn lanes(&self) -> [usize; 2] {
        [self.lanes, 32 / self.lanes]
    }

    /// Returns the direction in which warps march, y or z: the longer one, since in the other direction warps wait for each other.
    fn march(&self) -> u32 {
        if self.shape.nz > self.shape.ny { 2 } else { 1 }
    }

    /// Returns the rows of a warp, and its layers along the chain.
    fn rows_and_layers(&self) -> [usize; 2] {
        let Shape { ny, nz, .. } = self.shape;
        if self.march() == 2 { [nz, ny] } else { [ny, nz] }
    }

    fn is_periodic_along_chain(&self) -> bool {
        self.shape.nz > 1 && self.periodic >> (3 - self.march()) & 1 == 1
    }

    fn is_periodic_along_x(&self) -> bool {
        self.periodic & 1 == 1
    }

    /// Returns the shared memory of a warp.
    fn warp_bytes(&self, sweep: Sweep) -> usize {
        let deep = usize::from(self.shape.nz > 1);
        let (around_chain, around_x) =
            (usize::from(self.is_periodic_along_chain()), usize::from(self.is_periodic_along_x()));
        // Numbers per row, for each of a lane's cells and for the lane.
        let (pairs, singles) = match sweep {
            Sweep::Factorise => (5 + 2 * deep + 2 * around_chain, 2 * around_x),
            Sweep::Substitute => (3 + deep + around_chain, around_x),
        };
        let [in_x, in_chain] = self.lanes();
        ((in_x + in_chain - 1 + self.ahead) * 32 * (2 * pairs + singles) + SLOTS * 2 * in_x + X_BOXES) * self.bytes
            + COUNTS
    }

    /// Returns the warps per block. If half as many warps suffice for every tile to have its own multiprocessor, fewer
    /// warps share one.
    fn warps(&self, sweep: Sweep, shared_memory: usize, multiprocessors: usize) -> usize {
        let [_, layers] = self.rows_and_layers();
        let [_, in_chain] = self.lanes();
        let most = (shared_memory.saturating_sub(BLOCK_BYTES) / self.warp_bytes(sweep)).min(MOST_WARPS);
        let few = (MOST_WARPS / 2).min(most).max(1);
        let wanted = if self.tiles(few).into_iter().product::<usize>() <= multiprocessors { few } else { most };
        wanted.min(layers.div_ceil(in_chain)).max(1)
    }

    /// Returns the tiles in x and along the chain.
    fn tiles(&self, warps: usize) -> [usize; 2] {
        let [_, layers] = self.rows_and_layers();
        let [in_x, in_chain] = self.lanes();
        [self.shape.nx.div_ceil(2 * in_x), layers.div_ceil(in_chain * warps)]
    }

    /// Returns the number of values in transfer between tiles at once.
    fn mail(&self, warps: usize) -> usize {
        let [rows, layers] = self.rows_and_layers();
        let [in_x, in_chain] = self.lanes();
        let [chunks, groups] = self.tiles(warps);
        let from_chunks = if self.is_periodic_along_x() { chunks } else { chunks - 1 };
        let from_groups = if self.is_periodic_along_chain() { groups } else { groups - 1 };
        from_chunks * layers.next_multiple_of(in_chain) * (rows + in_chain - 1)
            + from_groups * chunks * (rows + in_x - 1) * 2 * in_x
    }
}

/// Sweeps over one grid.
#[derive(Debug)]
pub(super) struct WholeGrid {
    module: Arc<Module>,
    array: Array,
    /// Tickets and transferred values, zero between launches; for one sweep at a time, since all run in order.
    mail: OnceLock<Buffer>,
    reduction: OnceLock<Reduction>,
}

impl Form {
    /// Chooses the arrangement for a grid of this shape on a GPU.
    pub(super) fn whole_grid<T: Real>(&self, shape: Shape, shared_memory: usize, multiprocessors: usize) -> Source {
        let array = Array::new::<T>(self, shape, shared_memory, multiprocessors);
        self.source::<T>("seven_point_whole_grid", WHOLE_GRID)
            .define("MARCH", array.march())
            .define("LANES", array.lanes)
            .define("AHEAD", array.ahead)
            .define("SUBSTITUTE_BYTES", array.warp_bytes(Sweep::Substitute))
            .define("FACTORISE_BYTES", array.warp_bytes(Sweep::Factorise))
    }
}

impl WholeGrid {
    /// Makes the state of triangular solves. Nothing is compiled or allocated before the first sweep.
    pub(super) fn new<T: Real>(cuda: &Cuda, form: &Form, shape: Shape) -> Self {
        let context = cuda.context();
        let (shared_memory, multiprocessors) = (context.shared_memory, context.multiprocessors);
        Self {
            module: cuda.module(form.whole_grid::<T>(shape, shared_memory, multiprocessors)),
            array: Array::new::<T>(form, shape, shared_memory, multiprocessors),
            mail: OnceLock::new(),
            reduction: OnceLock::new(),
        }
    }

    /// Has kernels compiled that will probably be needed.
    pub(super) fn expect(&self, kernels: &[&'static str]) {
        self.module.expect(kernels);
    }

    /// Launches a sweep by a kernel whose first arguments are a stencil's operands and the tickets; sums are written to `sums`.
    pub(super) fn sweep(
        &self,
        cuda: &Cuda,
        sweep: Sweep,
        name: &'static str,
        operands: Arguments,
        more: impl FnOnce(Arguments) -> Arguments,
        sums: Option<Pointer>,
    ) -> Result<()> {
        let context = cuda.context();
        let warps_of = |sweep| self.array.warps(sweep, context.shared_memory, context.multiprocessors);
        let warps = warps_of(sweep);
        let mail = get_or_make(&self.mail, || {
            let numbers = [Sweep::Factorise, Sweep::Substitute].map(|sweep| self.array.mail(warps_of(sweep)));
            let bytes = TICKETS + numbers[0].max(numbers[1]) * self.array.bytes;
            Buffer::zeros(context, bytes, "the values transferred between a sweep's tiles")
        })?;
        let tiles = self.array.tiles(warps).into_iter().product();
        let mut arguments = more(operands.with(mail.start()));
        if let Some(sums) = sums {
            let reduction = get_or_make(&self.reduction, || Reduction::new(context, tiles))?;
            arguments = reduction.append(arguments, tiles, sums);
        }
        let shared_bytes = warps * self.array.warp_bytes(sweep);
        cuda.submit(Launch {
            kernel: self.module.kernel_with(name, shared_bytes)?,
            grid: [tiles as u32, 1, 1],
            block: [(32 * (warps * ROLES + 1)) as u32, 1],
            shared_bytes: shared_bytes as u32,
            arguments,
        })
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::layout::Shape;

    use super::{AHEAD, Array, BLOCK_BYTES, SLOTS, Sweep};

    /// The rules of systolic.cuh: whether a warp may take a step, given the steps of the others.
    struct Waves {
        array: Array,
        warps: usize,
        /// Steps taken, by tile and warp.
        taken: Vec<Vec<usize>>,
    }

    impl Waves {
        fn new(array: Array, warps: usize) -> Self {
            let tiles = array.tiles(warps).into_iter().product();
            Self { array, warps, taken: vec![vec![0; warps]; tiles] }
        }

        /// Returns the steps that a warp takes, and the layers before its first one; no steps for a warp without layers.
        fn steps_and_layer(&self, group: usize, warp: usize) -> (usize, usize) {
            let [in_x, in_chain] = self.array.lanes();
            let [rows, layers] = self.array.rows_and_layers();
            let layer = (group * self.warps + warp) * in_chain;
            (if layer < layers { rows + in_x + in_chain - 2 } else { 0 }, layer)
        }

        /// Returns whether the inputs of a warp's next step are available: the first lane takes a row at the step of its number.
        fn may_step(&self, tile: usize, warp: usize) -> bool {
            let [in_x, in_chain] = self.array.lanes();
            let [rows, layers] = self.array.rows_and_layers();
            let [chunks, groups] = self.array.tiles(self.warps);
            let (chunk, group, step) = (tile % chunks, tile / chunks, self.taken[tile][warp]);
            let (steps, layer) = self.steps_and_layer(group, warp);
            if step >= steps {
                return false;
            }
            // Another warp has sent the values that the lanes `behind` the first receive at this step.
            let sent = |tile: usize, warp: usize, by: usize| self.taken[tile][warp] > by;
            // All lanes of a step send and receive, also those that have no row then.
            let (along_x, along_chain) = (step < rows + in_chain - 1, step < rows + in_x - 1);
            let mut may = chunk == 0 || !along_x || sent(tile - 1, warp, step + in_x - 1);
            if along_chain && warp > 0 {
                may &= sent(tile, warp - 1, step + in_chain - 1);
            } else if along_chain && group > 0 {
                may &= sent(tile - chunks, self.warps - 1, step + in_chain - 1);
            }
            // The slots of the next warp must be empty.
            let (next_steps, _) = if warp + 1 < self.warps { self.steps_and_layer(group, warp + 1) } else { (0, 0) };
            if next_steps > 0 && step + 1 >= in_chain + SLOTS {
                may &= self.taken[tile][warp + 1] > step + 1 - in_chain - SLOTS;
            }
            // Across the periodic ends of x and of the chain lie the first cells of the first chunk and group.
            if self.array.is_periodic_along_x() && self.array.shape.nx > 2 && chunk + 1 == chunks {
                let apart = if chunks > 1 { 0 } else { self.array.shape.nx.div_ceil(2) - 1 };
                may &= step < apart || sent(group * chunks, warp, step - apart);
            }
            if self.array.is_periodic_along_chain() && group + 1 == groups && layer + in_chain >= layers && layers > 1 {
                let lanes_apart = layers - 1 - layer;
                may &= step < lanes_apart || sent(chunk, 0, step - lanes_apart);
            }
            may
        }

        /// Takes all steps with this many blocks resident, in an order that `seed` decides.
        fn run(&mut self, resident: usize, mut seed: u64) {
            let [chunks, _] = self.array.tiles(self.warps);
            let mut at_work: Vec<usize> = Vec::new();
            let mut next = 0;
            loop {
                while at_work.len() < resident && next < self.taken.len() {
                    at_work.push(next);
                    next += 1;
                }
                if at_work.is_empty() {
                    break;
                }
                let ready: Vec<_> = at_work
                    .iter()
                    .flat_map(|&tile| (0..self.warps).map(move |warp| (tile, warp)))
                    .filter(|&(tile, warp)| self.may_step(tile, warp))
                    .collect();
                assert!(!ready.is_empty(), "all of {at_work:?} wait: {:?}", self.array);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (tile, warp) = ready[(seed >> 33) as usize % ready.len()];
                while self.may_step(tile, warp) {
                    self.taken[tile][warp] += 1;
                }
                at_work.retain(|&tile| {
                    (0..self.warps).any(|warp| self.taken[tile][warp] < self.steps_and_layer(tile / chunks, warp).0)
                });
            }
        }
    }

    #[test]
    fn tiles_wait_for_those_before_them_and_for_no_others() {
        for nx in [1, 2, 3, 16, 17, 70] {
            for (ny, nz) in [(1, 1), (9, 1), (2, 2), (7, 4), (31, 5), (5, 31), (12, 33)] {
                for (periodic, lanes) in [(0, 8), (0, 16), (7, 8), (7, 16)] {
                    let array = Array { shape: Shape::new(nx, ny, nz), periodic, bytes: 8, lanes, ahead: AHEAD };
                    for (warps, resident) in [(1, 1), (1, 1000), (3, 1), (3, 2), (7, 3)] {
                        Waves::new(array, warps).run(resident, (nx * ny + nz + resident) as u64);
                    }
                }
            }
        }
    }

    #[test]
    fn small_cards_have_room_for_a_warp() {
        for (shape, lanes) in [(Shape::new(50, 50, 1), 16), (Shape::new(50, 50, 50), 8)] {
            for sweep in [Sweep::Factorise, Sweep::Substitute] {
                let array = Array { shape, periodic: 7, bytes: 8, lanes, ahead: 1 };
                assert!(array.warp_bytes(sweep) + BLOCK_BYTES <= 64 << 10, "{shape} {sweep:?}");
            }
        }
    }
}
