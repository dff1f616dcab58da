//! Aggregates on a GPU: sets of cells with one value each, and small dense matrices.
//!
//! Sums use *runs*, contiguous pieces of memory that belong to one aggregate, sorted by aggregate: a warp sums an item of
//! a few thousand cells, then a block sums the items of an aggregate. The order is fixed, so sums are reproducible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isobar_core::backend::{AggregateBackend, multiply_cells};
use isobar_core::prelude::{AggregateMap, Error, Execute, Host, Layout, Real, Result, Shape};
use isobar_dist::PartBackend;

use crate::launch::refuse_while_recording;
use crate::memory::{Scratch, require};
use crate::vector::{c_name, check_size, index};
use crate::{Arguments, Buffer, Cuda, Launch, Module, Pointer, Source, Vector, kernels};

/// Returns the source of the kernels in one precision.
pub fn source<T: Real>() -> Source {
    Source::new("aggregate", kernels::AGGREGATE).define("REAL", c_name::<T>())
}

/// An [`AggregateMap`] on the GPU.
#[derive(Debug)]
pub struct Aggregates {
    layout: Layout,
    count: usize,
    /// The aggregate of each position in a vector, halo rows included.
    ids: Buffer,
    /// Number of positions in the halo row before the first row.
    before: usize,
    items: usize,
    /// Whether every aggregate consists of one item.
    is_itemised: bool,
    first_run: Buffer,
    runs: Buffer,
    first_item: Buffer,
    /// A partial sum per item.
    partial: Scratch,
    /// Kernels in double and in single precision.
    modules: [Arc<Module>; 2],
}

impl Aggregates {
    /// Returns the address of the array of aggregates by position. On a subdomain, halo rows lie before and after.
    pub(crate) fn ids(&self) -> Pointer {
        self.ids.start() + (size_of::<u32>() * self.before) as Pointer
    }
}

/// A double-precision number per aggregate, on the GPU.
#[derive(Debug)]
pub struct AggregateVector {
    count: usize,
    buffer: Buffer,
}

impl AggregateVector {
    pub(crate) fn pointer(&self) -> Pointer {
        self.buffer.start()
    }
}

/// A dense square matrix on the GPU, stored by rows.
#[derive(Debug)]
pub struct AggregateMatrix {
    size: usize,
    buffer: Buffer,
    module: Arc<Module>,
}

impl AggregateMatrix {
    /// Takes the entries, row by row.
    pub(crate) fn new(cuda: &Cuda, size: usize, buffer: Buffer) -> Self {
        Self { size, buffer, module: cuda.module(source::<f64>()) }
    }
}

/// The most parts in which runs are sorted at the same time.
const MOST_PARTS: usize = 64;

/// Runs sorted by aggregate and divided into items.
struct Runs {
    /// The runs of cells of one aggregate, as start << 16 | length.
    runs: Vec<u64>,
    /// The first run of each aggregate, then the number of runs.
    first: Vec<u32>,
    /// The first run of each item, then the number of runs.
    first_run: Vec<u32>,
    /// The first item of each aggregate, then the number of items.
    first_item: Vec<u32>,
}

/// Writes the aggregates of a halo row's cells, x first, then layers, in the order of row j; padding has none.
fn ids_of_halo(layout: &Layout, j: usize, ids: &[u32], plane: &mut [u32]) {
    plane.fill(AggregateMap::NONE);
    for (n, &id) in ids.iter().enumerate() {
        let (i, k) = (n % layout.shape().nx, n / layout.shape().nx);
        plane[layout.index(i, j, k) - j * plane.len()] = id;
    }
}

impl Runs {
    /// Makes items of about `item` cells.
    fn new(map: &AggregateMap, layout: &Layout, item: usize) -> Result<Self> {
        let count = map.count();
        let (Shape { ny, .. }, cells) = (layout.shape(), layout.shape().cells());
        // Sorted by counting, in parts whose counts take less memory than a number for every cell.
        let planes = ny.div_ceil((cells / (8 * count.max(1))).clamp(1, MOST_PARTS));
        let mut parts = vec![vec![0u32; count]; ny.div_ceil(planes)];
        let for_each_of = |part: usize, visit: &mut dyn FnMut(usize, usize, usize)| {
            for j in part * planes..ny.min((part + 1) * planes) {
                map.for_each_run_of_plane(layout, j, |id, places| {
                    for start in places.clone().step_by(item) {
                        visit(id as usize, start, item.min(places.end - start));
                    }
                });
            }
        };
        Host.for_each(&mut parts, |part, counts| for_each_of(part, &mut |aggregate, _, _| counts[aggregate] += 1));
        let total = parts.iter().flatten().map(|&count| count as usize).sum();
        if u32::try_from(total).is_err() {
            return Err(Error::Unsupported(format!(
                "{count} aggregates in {total} pieces on CUDA, where at most {} are supported; use less scattered \
                 aggregates, such as blocks",
                u32::MAX
            )));
        }
        let (mut first, mut next) = (Vec::with_capacity(count + 1), 0);
        for aggregate in 0..count {
            first.push(next);
            for places in &mut parts {
                (places[aggregate], next) = (next, next + places[aggregate]);
            }
        }
        first.push(next);
        let mut runs = Vec::new();
        runs.resize_with(total, AtomicU64::default);
        Host.for_each(&mut parts, |part, places| {
            for_each_of(part, &mut |aggregate, start, length| {
                let place = &mut places[aggregate];
                runs[*place as usize].store(((start as u64) << 16) | length as u64, Ordering::Relaxed);
                *place += 1;
            });
        });
        let runs: Vec<u64> = runs.into_iter().map(AtomicU64::into_inner).collect();
        let (mut first_run, mut first_item) = (Vec::new(), vec![0]);
        for aggregate in 0..count {
            let [begin, end] = [first[aggregate], first[aggregate + 1]].map(|run| run as usize);
            let mut cells = item;
            for (n, run) in runs[begin..end].iter().enumerate() {
                if cells >= item {
                    first_run.push((begin + n) as u32);
                    cells = 0;
                }
                cells += (run & 0xffff) as usize;
            }
            first_item.push(first_run.len() as u32);
        }
        first_run.push(total as u32);
        Ok(Self { runs, first, first_run, first_item })
    }
}

impl Runs {
    /// Returns the runs of one aggregate of all cells; padding holds zeros and may be summed too.
    fn of_all(layout: &Layout, item: usize) -> Self {
        let len = layout.len();
        let runs: Vec<u64> =
            (0..len).step_by(item).map(|start| ((start as u64) << 16) | item.min(len - start) as u64).collect();
        let items = runs.len() as u32;
        Self { runs, first: vec![0, items], first_run: (0..=items).collect(), first_item: vec![0, items] }
    }
}

impl Cuda {
    /// Checks that there is enough memory for an allocation.
    fn require(&self, bytes: usize, what: &str) -> Result<()> {
        refuse_while_recording("allocating")?;
        require(self.context(), bytes, what)
    }
}

impl Cuda {
    /// Has the kernels of sums over aggregates compiled.
    pub(crate) fn expect_aggregates<T: Real>(&self) {
        const SUMS: &[&str] =
            &["number_all", "number_runs", "sum_runs", "sum_items", "add_aggregated", "multiply", "scale"];
        self.expect(source::<T>(), SUMS);
    }
}

impl AggregateBackend for Cuda {
    type Aggregates = Aggregates;
    type AggregateVector = AggregateVector;
    type AggregateMatrix = AggregateMatrix;

    fn aggregates(&self, map: &AggregateMap) -> Result<Aggregates> {
        check_size(map.shape())?;
        let layout = Layout::new(map.shape())?;
        // Two items for every warp that the GPU can hold at once; lengths fit into 16 bits.
        let item = (map.shape().cells() / (128 * self.context().multiprocessors)).clamp(256, 8192);
        let (len, halo) = (2 * layout.half_plane(), map.halo());
        let beside = halo.map(|row| usize::from(row.is_some()));
        let is_all = map.is_whole() && beside == [0, 0];
        let runs = if is_all { Runs::of_all(&layout, item) } else { Runs::new(map, &layout, item)? };
        let items = runs.first_run.len() - 1;
        let what = format!("{} aggregates of {} cells", map.count(), map.shape());
        let places = layout.len() + (beside[0] + beside[1]) * len;
        let lists = 4 * (runs.first_run.len() + runs.first_item.len()) + 8 * (runs.runs.len() + items);
        self.require(4 * places + lists, &what)?;

        let context = self.context();
        let modules = [source::<f64>(), source::<f32>()].map(|source| self.module(source));
        let Shape { nx, ny, nz } = map.shape();
        let ids = Buffer::new(context, 4 * places, &what)?;
        let run_buffer = Buffer::from_slice(context, &runs.runs, &what)?;
        if is_all {
            let numbers = [nx, ny, nz, layout.pitch()];
            let arguments = numbers.into_iter().fold(Arguments::new(), |all, n| all.with(n as i32));
            let kernel = modules[0].kernel("number_all")?;
            self.elementwise(kernel, layout.len(), arguments.with(ids.start()))?;
        } else {
            ids.set(0, ids.bytes(), 0xff)?;
            let mut plane = vec![0; len];
            // The row before the first has the order of the second.
            for (row, j, at) in [(halo[0], 1, 0), (halo[1], ny, beside[0] + ny)] {
                if let Some(row) = row {
                    ids_of_halo(&layout, j, row, &mut plane);
                    self.send(&plane, ids.start() + (4 * at * len) as Pointer)?;
                }
            }
            let first = Buffer::from_slice(context, &runs.first, &what)?;
            let own = ids.start() + (4 * beside[0] * len) as Pointer;
            let arguments = Arguments::new().with(map.count() as i32).with(first.start());
            let arguments = arguments.with(run_buffer.start()).with(own);
            let blocks = runs.runs.len().div_ceil(256).max(1);
            self.launch(modules[0].kernel("number_runs")?, [blocks, 1, 1], [256, 1], arguments)?;
            // The kernel reads what is freed here.
            context.synchronize()?;
        }
        Ok(Aggregates {
            layout,
            count: map.count(),
            ids,
            before: beside[0] * len,
            items,
            is_itemised: (0..).zip(&runs.first_item).all(|(n, &first)| n == first),
            first_run: Buffer::from_slice(context, &runs.first_run, &what)?,
            runs: run_buffer,
            first_item: Buffer::from_slice(context, &runs.first_item, &what)?,
            partial: Scratch::new(context, 8 * items, &what)?,
            modules,
        })
    }

    fn sums_on_host(&self) -> bool {
        self.sums_by_host()
    }

    fn aggregate_vector(&self, count: usize) -> Result<AggregateVector> {
        refuse_while_recording("allocating")?;
        Ok(AggregateVector { count, buffer: Buffer::zeros(self.context(), 8 * count, "a vector of aggregates")? })
    }

    fn aggregate_matrix(&self, size: usize, entries: &[f64]) -> Result<AggregateMatrix> {
        refuse_while_recording("allocating")?;
        if entries.len() != size * size {
            return Err(Error::shape(
                "a matrix of aggregates",
                format!("{} entries", entries.len()),
                format!("{size}²"),
            ));
        }
        let what = format!("a matrix of {size}×{size} aggregates");
        let buffer = Buffer::from_slice(self.context(), entries, &what)?;
        Ok(AggregateMatrix::new(self, size, buffer))
    }

    fn aggregate_sums<T: Real>(
        &self,
        x: &Vector<T>,
        aggregates: &Aggregates,
        sums: &mut AggregateVector,
    ) -> Result<()> {
        /// Warps per block of `sum_runs`.
        const WARPS: usize = 8;
        let module = &aggregates.modules[index::<T>()];
        let partial = if aggregates.is_itemised { sums.pointer() } else { aggregates.partial.start() };
        let arguments = Arguments::new()
            .with(aggregates.items as i32)
            .with(aggregates.first_run.start())
            .with(aggregates.runs.start())
            .with(x.pointer())
            .with(partial);
        // A subdomain may have no cell of any aggregate.
        if aggregates.items > 0 {
            let grid = [aggregates.items.div_ceil(WARPS), 1, 1];
            self.launch(module.kernel("sum_runs")?, grid, [32 * WARPS, 1], arguments)?;
        }
        if !aggregates.is_itemised {
            let arguments = Arguments::new().with(aggregates.first_item.start()).with(partial).with(sums.pointer());
            // A few aggregates with many items each.
            let threads = if aggregates.items > 256 * aggregates.count { 1024 } else { 128 };
            self.launch(module.kernel("sum_items")?, [aggregates.count, 1, 1], [threads, 1], arguments)?;
        }
        if x.layout().is_part() { self.sum_over_ranks(sums.pointer(), aggregates.count) } else { Ok(()) }
    }

    fn add_aggregated<T: Real>(&self, aggregates: &Aggregates, a: &AggregateVector, y: &mut Vector<T>) -> Result<()> {
        let len = aggregates.layout.len();
        let arguments = Arguments::new().with(len as i64).with(aggregates.ids()).with(a.pointer()).with(y.pointer());
        self.elementwise(aggregates.modules[index::<T>()].kernel("add_aggregated")?, len, arguments)
    }

    fn plus_aggregated<T: Real>(
        &self,
        aggregates: &Aggregates,
        a: &AggregateVector,
        x: &Vector<T>,
        y: &mut Vector<T>,
    ) -> Result<()> {
        let len = aggregates.layout.len();
        let arguments = Arguments::new().with(len as i64).with(aggregates.ids()).with(a.pointer());
        let arguments = arguments.with(x.pointer()).with(y.pointer());
        self.elementwise(aggregates.modules[index::<T>()].kernel("plus_aggregated")?, len, arguments)
    }

    fn aggregate_multiply(&self, matrix: &AggregateMatrix, x: &AggregateVector, y: &mut AggregateVector) -> Result<()> {
        let arguments =
            Arguments::new().with(matrix.size as i32).with(matrix.buffer.start()).with(x.pointer()).with(y.pointer());
        self.launch(matrix.module.kernel("multiply")?, [matrix.size, 1, 1], [128, 1], arguments)
    }

    fn multiply_cells<T: Real>(
        &self,
        cells: &Aggregates,
        matrix: &AggregateMatrix,
        between: &mut [AggregateVector; 2],
        f: &Vector<T>,
        u: &mut Vector<T>,
    ) -> Result<()> {
        /// Rows of a block of `multiply_cells`, a warp each.
        const ROWS: usize = 8;
        if self.ranks().is_some() {
            return multiply_cells(self, cells, matrix, between, f, u);
        }
        let size = matrix.size;
        let shared_bytes = size_of::<f64>() * size;
        let arguments = Arguments::new().with(size as i32).with(cells.runs.start()).with(matrix.buffer.start());
        let kernel = cells.modules[index::<T>()].kernel_with("multiply_cells", shared_bytes)?;
        self.submit(Launch {
            kernel,
            grid: [size.div_ceil(ROWS) as u32, 1, 1],
            block: [32 * ROWS as u32, 1],
            shared_bytes: shared_bytes as u32,
            arguments: arguments.with(f.pointer()).with(u.pointer()),
        })
    }

    fn aggregate_scale(&self, f: &AggregateVector, x: &AggregateVector, y: &mut AggregateVector) -> Result<()> {
        let module = self.module(source::<f64>());
        let arguments = Arguments::new().with(y.count as i64).with(f.pointer()).with(x.pointer()).with(y.pointer());
        self.elementwise(module.kernel("scale")?, y.count, arguments)
    }

    fn read_aggregated(&self, x: &AggregateVector, to: &mut [f64]) -> Result<()> {
        refuse_while_recording("reading the numbers of aggregates")?;
        check_count(to.len(), x.count)?;
        x.buffer.read(to)
    }

    fn write_aggregated(&self, from: &[f64], x: &mut AggregateVector) -> Result<()> {
        refuse_while_recording("writing the numbers of aggregates")?;
        check_count(from.len(), x.count)?;
        x.buffer.write(from)
    }
}

fn check_count(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::shape("the numbers of aggregates", found.to_string(), expected.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_aggregate_of_all_cells_is_all_of_a_vector() {
        for (nx, ny, nz, item) in [(1, 1, 1, 256), (7, 5, 3, 256), (64, 33, 20, 1000)] {
            let layout = Layout::new(Shape::new(nx, ny, nz)).unwrap();
            let Runs { runs, first_run, first_item, .. } = Runs::of_all(&layout, item);
            assert_eq!((first_item.as_slice(), first_run.len()), (&[0, runs.len() as u32][..], runs.len() + 1));
            let end = runs.iter().fold(0, |end, run| {
                assert_eq!(run >> 16, end);
                end + (run & 0xffff)
            });
            assert_eq!(end, layout.len() as u64);
        }
    }

    #[test]
    fn halo_rows_have_the_aggregates_of_their_cells() {
        for (nx, ny, nz) in [(1, 1, 1), (7, 5, 3), (64, 6, 2)] {
            let layout = Layout::new(Shape::new(nx, ny, nz)).unwrap();
            let row: Vec<u32> =
                (0..(nx * nz) as u32).map(|n| if n % 3 == 1 { AggregateMap::NONE } else { n }).collect();
            let mut plane = vec![7; 2 * layout.half_plane()];
            ids_of_halo(&layout, ny, &row, &mut plane);
            for k in 0..nz {
                for i in 0..nx {
                    assert_eq!(plane[layout.index(i, ny, k) - ny * plane.len()], row[i + nx * k]);
                }
            }
            let count = |ids: &[u32]| ids.iter().filter(|id| **id != AggregateMap::NONE).count();
            assert_eq!(count(&plane), count(&row));
        }
    }

    #[test]
    fn every_cell_is_in_one_run_of_its_aggregate() {
        for (nx, ny, nz, count) in [(1, 1, 1, 1), (7, 5, 3, 4), (64, 6, 2, 3), (33, 9, 1, 200), (20, 9, 4, 1)] {
            let shape = Shape::new(nx, ny, nz);
            let layout = Layout::new(shape).unwrap();
            let id = |n: usize| {
                let id = (isobar_core::problem::random(1, n / 3).abs() * (count + 1) as f64) as u32;
                if id as usize >= count { AggregateMap::NONE } else { id }
            };
            let map = AggregateMap::new(shape, (0..shape.cells()).map(id).collect(), count).unwrap();
            for item in [1, 5, 1000] {
                let Runs { runs, first, first_run, first_item } = Runs::new(&map, &layout, item).unwrap();
                assert_eq!((first_item.len(), first_run.len()), (count + 1, first_item[count] as usize + 1));
                let firsts: Vec<u32> = first_item.iter().map(|&item| first_run[item as usize]).collect();
                assert_eq!(first, firsts);
                let mut found = vec![AggregateMap::NONE; shape.cells()];
                for aggregate in 0..count {
                    for n in first_item[aggregate]..first_item[aggregate + 1] {
                        let [begin, end] = [first_run[n as usize] as usize, first_run[n as usize + 1] as usize];
                        assert!(begin < end);
                        for run in &runs[begin..end] {
                            for place in run >> 16..(run >> 16) + (run & 0xffff) {
                                let (i, j, k) = layout.grid_point(place as usize).unwrap();
                                let cell = &mut found[i + nx * (j + ny * k)];
                                assert_eq!(*cell, AggregateMap::NONE);
                                *cell = aggregate as u32;
                            }
                        }
                    }
                }
                assert_eq!(found, map.ids());
            }
        }
    }
}
