//! Regions on a card: one number each, and small dense matrices.
//!
//! Sums go through *runs*, pieces of memory that belong to one region, sorted by region: a warp adds up an item of
//! a few thousand cells, then a block the items of a region. The order never changes, and neither does the sum.

use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::real::Real;
use isobar_core::region::{RegionBackend, RegionMap};

use crate::compile::Source;
use crate::cuda::{Cuda, check_size};
use crate::driver::Pointer;
use crate::kernels;
use crate::launch::{Arguments, Kernel, Launch, refuse_while_recording};
use crate::memory::{Buffer, require};
use crate::vector::{Vector, c_name, index};

/// The kernels, in one precision.
pub fn source<T: Real>() -> Source {
    Source::new("region", kernels::REGION).define("REAL", c_name::<T>())
}

/// A [`RegionMap`] on the card.
#[derive(Debug)]
pub struct Regions {
    layout: Layout,
    count: usize,
    /// By the position of cells in vectors.
    ids: Buffer,
    items: usize,
    first_run: Buffer,
    runs: Buffer,
    first_item: Buffer,
    /// A number an item.
    partial: Buffer,
    /// In double and in single precision.
    kernels: [Kernels; 2],
}

#[derive(Clone, Copy, Debug)]
struct Kernels {
    sum_runs: Kernel,
    sum_items: Kernel,
    add: Kernel,
    clear: Kernel,
}

impl Regions {
    /// Where the region of each position is.
    pub(crate) fn ids(&self) -> Pointer {
        self.ids.start()
    }
}

/// One double-precision number a region, on the card.
#[derive(Debug)]
pub struct RegionVector {
    count: usize,
    buffer: Buffer,
}

impl RegionVector {
    pub(crate) fn pointer(&self) -> Pointer {
        self.buffer.start()
    }
}

/// A dense square matrix on the card, row after row.
#[derive(Debug)]
pub struct RegionMatrix {
    size: usize,
    buffer: Buffer,
    multiply: Kernel,
}

/// Runs by region, cut into items.
struct Runs {
    /// start << 16 | length
    runs: Vec<u64>,
    /// Of each item, and the number of runs.
    first_run: Vec<u32>,
    /// Of each region, and the number of items.
    first_item: Vec<u32>,
}

/// Calls `visit(region, start, length)` for every piece of memory, of at most so many cells, that belongs to one region.
fn for_each_run(map: &RegionMap, layout: &Layout, longest: usize, mut visit: impl FnMut(usize, usize, usize)) {
    let Shape { nx, ny, nz } = layout.shape();
    let ids = map.ids();
    for j in 0..ny {
        for colour in Colour::BOTH {
            let (parity, columns) = (layout.parity(j, colour), layout.columns(j, colour));
            for k in 0..nz {
                let row = nx * (j + ny * k) + parity;
                let id = |m: usize| ids[row + 2 * m];
                let mut m = 0;
                while m < columns {
                    let start = m;
                    m += 1;
                    while m < columns && id(m) == id(start) && m - start < longest {
                        m += 1;
                    }
                    if id(start) != RegionMap::NONE {
                        visit(id(start) as usize, layout.index(2 * start + parity, j, k), m - start);
                    }
                }
            }
        }
    }
}

impl Runs {
    /// Items have about so many cells.
    fn new(map: &RegionMap, layout: &Layout, item: usize) -> Result<Self> {
        let count = map.count();
        let mut first = vec![0usize; count + 1];
        for_each_run(map, layout, item, |region, _, _| first[region + 1] += 1);
        for region in 0..count {
            first[region + 1] += first[region];
        }
        let total = first[count];
        if u32::try_from(total).is_err() {
            return Err(Error::Unsupported(format!(
                "{count} regions in {total} pieces on CUDA; at most {} are counted. Use regions that are not so scattered, \
                 such as blocks",
                u32::MAX
            )));
        }
        let mut runs = vec![0; total];
        let mut next = first.clone();
        for_each_run(map, layout, item, |region, start, length| {
            runs[next[region]] = ((start as u64) << 16) | length as u64;
            next[region] += 1;
        });
        let (mut first_run, mut first_item) = (Vec::new(), vec![0]);
        for region in 0..count {
            let (begin, end) = (first[region], first[region + 1]);
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
        Ok(Self { runs, first_run, first_item })
    }
}

impl Cuda {
    /// Bytes in all of what is about to be put on the card.
    fn require(&self, bytes: usize, what: &str) -> Result<()> {
        refuse_while_recording("allocating")?;
        require(self.context(), bytes, what).map(drop)
    }
}

impl RegionBackend for Cuda {
    type Regions = Regions;
    type RegionVector = RegionVector;
    type RegionMatrix = RegionMatrix;

    fn regions(&self, map: &RegionMap) -> Result<Regions> {
        check_size(map.shape())?;
        let layout = Layout::new(map.shape())?;
        // Two items for every warp that the card can hold at once; a length fits 16 bits.
        let item = (map.shape().cells() / (128 * self.context().multiprocessors)).clamp(256, 8192);
        let runs = Runs::new(map, &layout, item)?;
        let items = runs.first_run.len() - 1;
        let what = format!("{} regions of {} cells", map.count(), map.shape());
        let lists = 4 * (runs.first_run.len() + runs.first_item.len()) + 8 * (runs.runs.len() + items);
        self.require(4 * layout.len() + lists, &what)?;

        let mut ids = vec![RegionMap::NONE; layout.len()];
        let Shape { nx, ny, nz } = map.shape();
        for k in 0..nz {
            for j in 0..ny {
                let row = &map.ids()[nx * (j + ny * k)..][..nx];
                for (i, &id) in row.iter().enumerate() {
                    ids[layout.index(i, j, k)] = id;
                }
            }
        }
        let modules = self.modules(&[source::<f64>(), source::<f32>()])?;
        let kernels = |n: usize| -> Result<Kernels> {
            Ok(Kernels {
                sum_runs: modules[n].kernel("sum_runs")?,
                sum_items: modules[n].kernel("sum_items")?,
                add: modules[n].kernel("add_regional")?,
                clear: modules[n].kernel("clear_outside")?,
            })
        };
        let context = self.context();
        Ok(Regions {
            layout,
            count: map.count(),
            ids: Buffer::from_slice(context, &ids, &what)?,
            items,
            first_run: Buffer::from_slice(context, &runs.first_run, &what)?,
            runs: from_slice(self, &runs.runs, &what)?,
            first_item: Buffer::from_slice(context, &runs.first_item, &what)?,
            partial: Buffer::zeros(context, 8 * items, &what)?,
            kernels: [kernels(0)?, kernels(1)?],
        })
    }

    fn region_vector(&self, count: usize) -> Result<RegionVector> {
        self.require(8 * count, "a number a region")?;
        Ok(RegionVector { count, buffer: Buffer::zeros(self.context(), 8 * count, "a number a region")? })
    }

    fn region_matrix(&self, size: usize, entries: &[f64]) -> Result<RegionMatrix> {
        if entries.len() != size * size {
            return Err(Error::shape("a matrix of regions", format!("{} entries", entries.len()), format!("{size}²")));
        }
        let what = format!("a matrix of {size}×{size} regions");
        self.require(size_of_val(entries), &what)?;
        let buffer = from_slice(self, entries, &what)?;
        Ok(RegionMatrix { size, buffer, multiply: self.modules(&[source::<f64>()])?[0].kernel("multiply")? })
    }

    fn region_sums<T: Real>(&self, x: &Vector<T>, regions: &Regions, sums: &mut RegionVector) -> Result<()> {
        /// Warps a block of `sum_runs`.
        const WARPS: usize = 8;
        let kernels = &regions.kernels[index::<T>()];
        let arguments = Arguments::new()
            .with(regions.items as i32)
            .with(regions.first_run.start())
            .with(regions.runs.start())
            .with(x.pointer())
            .with(regions.partial.start());
        let grid = [regions.items.div_ceil(WARPS) as u32, 1, 1];
        let block = [32 * WARPS as u32, 1];
        self.submit(Launch { kernel: kernels.sum_runs, grid, block, shared_bytes: 0, arguments })?;
        let arguments =
            Arguments::new().with(regions.first_item.start()).with(regions.partial.start()).with(sums.pointer());
        let grid = [regions.count as u32, 1, 1];
        self.submit(Launch { kernel: kernels.sum_items, grid, block: [128, 1], shared_bytes: 0, arguments })
    }

    fn add_regional<T: Real>(&self, regions: &Regions, a: &RegionVector, y: &mut Vector<T>) -> Result<()> {
        let len = regions.layout.len();
        let arguments = Arguments::new().with(len as i64).with(regions.ids()).with(a.pointer()).with(y.pointer());
        self.elementwise(regions.kernels[index::<T>()].add, len, arguments)
    }

    fn clear_outside<T: Real>(&self, regions: &Regions, x: &mut Vector<T>) -> Result<()> {
        let len = regions.layout.len();
        let arguments = Arguments::new().with(len as i64).with(regions.ids()).with(x.pointer());
        self.elementwise(regions.kernels[index::<T>()].clear, len, arguments)
    }

    fn region_multiply(&self, matrix: &RegionMatrix, x: &RegionVector, y: &mut RegionVector) -> Result<()> {
        let arguments =
            Arguments::new().with(matrix.size as i32).with(matrix.buffer.start()).with(x.pointer()).with(y.pointer());
        let grid = [matrix.size as u32, 1, 1];
        self.submit(Launch { kernel: matrix.multiply, grid, block: [128, 1], shared_bytes: 0, arguments })
    }

    fn read_regional(&self, x: &RegionVector, to: &mut [f64]) -> Result<()> {
        refuse_while_recording("reading the numbers of regions")?;
        check_count(to.len(), x.count)?;
        if to.is_empty() { Ok(()) } else { x.buffer.read(to) }
    }

    fn write_regional(&self, from: &[f64], x: &mut RegionVector) -> Result<()> {
        refuse_while_recording("writing the numbers of regions")?;
        check_count(from.len(), x.count)?;
        if from.is_empty() { Ok(()) } else { x.buffer.write(from) }
    }
}

fn check_count(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::shape("the numbers of regions", found.to_string(), expected.to_string()))
    }
}

/// As [`Buffer::from_slice`], of nothing too.
fn from_slice<D: Copy>(cuda: &Cuda, data: &[D], what: &str) -> Result<Buffer> {
    if data.is_empty() {
        return Buffer::zeros(cuda.context(), 0, what);
    }
    Buffer::from_slice(cuda.context(), data, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_one_run_of_its_region() {
        for (nx, ny, nz, count) in [(1, 1, 1, 1), (7, 5, 3, 4), (64, 6, 2, 3), (33, 9, 1, 200)] {
            let shape = Shape::new(nx, ny, nz);
            let layout = Layout::new(shape).unwrap();
            let id = |n: usize| {
                let id = (isobar_core::problem::random(1, n / 3).abs() * (count + 1) as f64) as u32;
                if id as usize >= count { RegionMap::NONE } else { id }
            };
            let map = RegionMap::new(shape, (0..shape.cells()).map(id).collect(), count).unwrap();
            for item in [1, 5, 1000] {
                let Runs { runs, first_run, first_item } = Runs::new(&map, &layout, item).unwrap();
                assert_eq!((first_item.len(), first_run.len()), (count + 1, first_item[count] as usize + 1));
                let mut found = vec![RegionMap::NONE; shape.cells()];
                for region in 0..count {
                    for n in first_item[region]..first_item[region + 1] {
                        let [begin, end] = [first_run[n as usize] as usize, first_run[n as usize + 1] as usize];
                        assert!(begin < end);
                        for run in &runs[begin..end] {
                            for place in run >> 16..(run >> 16) + (run & 0xffff) {
                                let (i, j, k) = layout.grid_point(place as usize).unwrap();
                                let cell = &mut found[i + nx * (j + ny * k)];
                                assert_eq!(*cell, RegionMap::NONE);
                                *cell = region as u32;
                            }
                        }
                    }
                }
                assert_eq!(found, map.ids());
            }
        }
    }
}
