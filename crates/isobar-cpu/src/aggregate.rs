//! Aggregates on processor cores.

use std::sync::Mutex;

use isobar_core::backend::AggregateBackend;
use isobar_core::prelude::{AggregateMap, Colour, Error, Execute, Layout, Real, Result, lock};
use isobar_dist::PartBackend;
use pulp::WithSimd;

use crate::blas::Dot;
use crate::{Cpu, Shared, Vector};

/// The most parts of a grid that have their own sums.
const MAX_PARTS: usize = 64;
/// The fewest cells in a part.
const SMALLEST_PART: usize = 1 << 14;
/// Matrices with fewer entries are multiplied on one thread.
const ENTRIES_WORTH_A_THREAD: usize = 1 << 15;

/// An [`AggregateMap`] as runs of consecutive entries of a vector that belong to one aggregate, or to none.
///
/// Aggregates are strongly coupled cells or blocks, so that runs are long; a map without two equal neighbours takes 16 bytes a
/// cell.
#[derive(Debug)]
pub struct Aggregates {
    layout: Layout,
    /// The runs in the order of the layout; each one ends where the next begins, and the last is empty.
    runs: Vec<Run>,
    /// The first run of each plane; a run never crosses into the next plane.
    first_runs: Vec<usize>,
    /// The runs of a subdomain's halo rows, counted from the beginning of their plane.
    halo: [Option<Vec<Run>>; 2],
    parts: Vec<Part>,
    /// The partial sums: one for each aggregate that a part may contain.
    partial_sums: Mutex<Vec<f64>>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    id: u32,
}

/// Consecutive planes that are summed together.
#[derive(Clone, Debug)]
struct Part {
    planes: std::ops::Range<usize>,
    /// A range with all aggregates that have cells in the part.
    ids: std::ops::Range<usize>,
    /// The position of their sums.
    sums: usize,
}

impl Aggregates {
    fn new(cpu: &Cpu, map: &AggregateMap) -> Result<Self> {
        let layout = Layout::new(map.shape())?;
        let shape = layout.shape();
        let plane = 2 * layout.half_plane();
        let mut of_planes: Vec<(Vec<Run>, std::ops::Range<usize>)> = vec![(Vec::new(), 0..0); shape.ny];
        Execute::for_each(cpu, &mut of_planes, |j, (runs, ids)| {
            let (mut least, mut beyond, mut end) = (usize::MAX, 0, j * plane);
            map.for_each_run_of_plane(&layout, j, |id, places| {
                let goes_on = places.start == end && runs.last().is_some_and(|run| run.id == id);
                if places.start > end {
                    runs.push(Run { start: end, id: AggregateMap::NONE });
                }
                if !goes_on {
                    (least, beyond) = (least.min(id as usize), beyond.max(id as usize + 1));
                    runs.push(Run { start: places.start, id });
                }
                end = places.end;
            });
            if end < (j + 1) * plane {
                runs.push(Run { start: end, id: AggregateMap::NONE });
            }
            *ids = least.min(beyond)..beyond;
        });
        let mut runs: Vec<Run> = Vec::with_capacity(of_planes.iter().map(|(runs, _)| runs.len()).sum::<usize>() + 1);
        let mut first_runs = Vec::with_capacity(shape.ny + 1);
        let mut ids = Vec::with_capacity(shape.ny);
        for (of_plane, ids_of_plane) in of_planes {
            first_runs.push(runs.len());
            runs.extend(of_plane);
            ids.push(ids_of_plane);
        }
        first_runs.push(runs.len());
        runs.push(Run { start: layout.len(), id: AggregateMap::NONE });

        let planes = shape.ny.div_ceil(MAX_PARTS).max(SMALLEST_PART.div_ceil(plane));
        let mut sums = 0;
        let parts = (0..shape.ny).step_by(planes).map(|start| {
            let planes = start..(start + planes).min(shape.ny);
            let met = ids[planes.clone()].iter().filter(|ids| !ids.is_empty());
            let ids = met.cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
            let part = Part { planes, sums, ids };
            sums += part.ids.len();
            part
        });
        let parts = parts.collect();
        // The row before the first has the colours of row 1.
        let [before, after] = map.halo();
        let halo = [(before, 1), (after, shape.ny)].map(|(ids, j)| ids.map(|ids| runs_of_row(&layout, j, ids)));
        Ok(Self { layout, runs, first_runs, halo, parts, partial_sums: Mutex::new(vec![0.0; sums]) })
    }

    /// Returns the runs of some planes, and the next one, where the last ends.
    fn runs(&self, planes: &std::ops::Range<usize>) -> &[Run] {
        &self.runs[self.first_runs[planes.start]..=self.first_runs[planes.end]]
    }

    /// Writes plane `plane` of Z a, which may be a halo row; plane −1 is the row before the first.
    pub(crate) fn expand<T: Real>(&self, plane: isize, a: &[f64], out: &mut [T]) {
        let (runs, origin) = match &self.halo {
            [Some(runs), _] if plane < 0 => (&runs[..], 0),
            [_, Some(runs)] if plane.unsigned_abs() == self.layout.shape().ny => (&runs[..], 0),
            _ => {
                let plane = plane.unsigned_abs();
                let runs = self.first_runs[plane]..=self.first_runs[plane + 1];
                (&self.runs[runs], plane * 2 * self.layout.half_plane())
            }
        };
        for pair in runs.windows(2) {
            let value = if pair[0].id == AggregateMap::NONE { T::ZERO } else { T::from_f64(a[pair[0].id as usize]) };
            out[pair[0].start - origin..pair[1].start - origin].fill(value);
        }
    }

    /// Runs `f(part)` for all parts, on all threads.
    fn for_each_part(&self, cpu: &Cpu, f: impl Fn(&Part) + Sync) {
        let threads = cpu.threads_for(self.layout.len()).min(self.parts.len());
        cpu.for_each(threads, |n| {
            for part in &self.parts[self.parts.len() * n / threads..self.parts.len() * (n + 1) / threads] {
                f(part);
            }
        });
    }
}

/// Returns the runs of a row whose cells are in these aggregates, x first, then layers, with an empty one at the end; colours
/// are those of row j.
fn runs_of_row(layout: &Layout, j: usize, ids: &[u32]) -> Vec<Run> {
    let (nx, half_plane) = (layout.shape().nx, layout.half_plane());
    let mut runs: Vec<Run> = Vec::new();
    for start in 0..2 * half_plane {
        let (m, k) = (start % layout.pitch(), start % half_plane / layout.pitch());
        let i = 2 * m + layout.parity(j, Colour::BOTH[start / half_plane]);
        let id = if i < nx { ids[i + nx * k] } else { AggregateMap::NONE };
        if runs.last().is_none_or(|run| run.id != id) {
            runs.push(Run { start, id });
        }
    }
    runs.push(Run { start: 2 * half_plane, id: AggregateMap::NONE });
    runs
}

/// A dense square matrix, stored row by row.
#[derive(Debug)]
pub struct AggregateMatrix {
    size: usize,
    entries: Vec<f64>,
}

/// Adds the sums of runs to those of their aggregates, counted from the aggregate `first`.
struct AddSums<'a, T> {
    entries: &'a [T],
    runs: &'a [Run],
    first: usize,
    sums: &'a mut [f64],
}

#[inline(always)]
fn add_lanes<T: Real, const LANES: usize>(chunks: &[[T; LANES]]) -> f64 {
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] += chunk[lane].to_f64();
        }
    }
    lanes.iter().sum()
}

impl<T: Real> WithSimd for AddSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { entries, runs, first, sums } = self;
        for pair in runs.windows(2) {
            if pair[0].id == AggregateMap::NONE {
                continue;
            }
            let (chunks, rest) = entries[pair[0].start..pair[1].start].as_chunks::<32>();
            let mut total = 0.0;
            // Among closed cells most runs are short, and rows of small grids are.
            if !chunks.is_empty() {
                total = add_lanes(chunks);
            }
            let (chunks, rest) = rest.as_chunks::<8>();
            if !chunks.is_empty() {
                total += add_lanes(chunks);
            }
            sums[pair[0].id as usize - first] += total + rest.iter().map(|x| x.to_f64()).sum::<f64>();
        }
    }
}

impl AggregateBackend for Cpu {
    type Aggregates = Aggregates;
    type AggregateVector = Vec<f64>;
    type AggregateMatrix = AggregateMatrix;

    fn sums_on_host(&self) -> bool {
        self.ranks().is_some()
    }

    fn aggregates(&self, map: &AggregateMap) -> Result<Aggregates> {
        Aggregates::new(self, map)
    }

    fn aggregate_vector(&self, count: usize) -> Result<Vec<f64>> {
        Ok(vec![0.0; count])
    }

    fn aggregate_matrix(&self, size: usize, entries: &[f64]) -> Result<AggregateMatrix> {
        if entries.len() != size * size {
            let found = format!("{} entries", entries.len());
            return Err(Error::shape("a matrix of aggregates", found, format!("{size} × {size}")));
        }
        Ok(AggregateMatrix { size, entries: entries.to_vec() })
    }

    fn aggregate_sums<T: Real>(&self, x: &Vector<T>, aggregates: &Aggregates, sums: &mut Vec<f64>) -> Result<()> {
        let entries = x.entries();
        // The sums hold nothing between calls, so that a panic elsewhere does no harm.
        let mut partial = lock(&aggregates.partial_sums);
        let shared = Shared::of(&mut partial);
        aggregates.for_each_part(self, |part| {
            // SAFETY: each part has sums of its own.
            let sums = unsafe { shared.row_mut(part.sums as isize, part.ids.len()) };
            sums.fill(0.0);
            let runs = aggregates.runs(&part.planes);
            self.dispatch::<f64, _>(AddSums { entries, runs, first: part.ids.start, sums });
        });
        sums.fill(0.0);
        for part in &aggregates.parts {
            let partial = &partial[part.sums..part.sums + part.ids.len()];
            for (sum, partial) in sums[part.ids.clone()].iter_mut().zip(partial) {
                *sum += partial;
            }
        }
        match self.ranks() {
            Some(ranks) if x.layout().is_part() => ranks.world().sum(sums),
            _ => Ok(()),
        }
    }

    fn add_aggregated<T: Real>(&self, aggregates: &Aggregates, a: &Vec<f64>, y: &mut Vector<T>) -> Result<()> {
        assert_eq!(aggregates.layout.len(), y.entries().len(), "aggregates of another grid");
        let shared = Shared::of(y.entries_mut());
        aggregates.for_each_part(self, |part| {
            for pair in aggregates.runs(&part.planes).windows(2) {
                if pair[0].id == AggregateMap::NONE {
                    continue;
                }
                let a = T::from_f64(a[pair[0].id as usize]);
                // SAFETY: runs do not overlap, and lie within vectors of their layout.
                for y in unsafe { shared.row_mut(pair[0].start as isize, pair[1].start - pair[0].start) } {
                    *y += a;
                }
            }
        });
        Ok(())
    }

    fn aggregate_multiply(&self, matrix: &AggregateMatrix, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<()> {
        let size = matrix.size;
        let threads = self.threads().min(matrix.entries.len() / ENTRIES_WORTH_A_THREAD).clamp(1, size.max(1));
        let out = Shared::of(y);
        self.for_each(threads, |n| {
            for row in size * n / threads..size * (n + 1) / threads {
                let entries = &matrix.entries[row * size..(row + 1) * size];
                let value = self.dispatch::<f64, _>(Dot { x: entries, y: &x[..size] });
                // SAFETY: each row has one thread.
                unsafe { out.set(row as isize, value) };
            }
        });
        Ok(())
    }

    fn aggregate_scale(&self, f: &Vec<f64>, x: &Vec<f64>, y: &mut Vec<f64>) -> Result<()> {
        for ((y, f), x) in y.iter_mut().zip(f).zip(x) {
            *y = f * x;
        }
        Ok(())
    }

    fn read_aggregated(&self, x: &Vec<f64>, to: &mut [f64]) -> Result<()> {
        to.copy_from_slice(x);
        Ok(())
    }

    fn write_aggregated(&self, from: &[f64], x: &mut Vec<f64>) -> Result<()> {
        x.copy_from_slice(from);
        Ok(())
    }
}
