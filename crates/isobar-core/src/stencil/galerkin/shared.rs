//! Strongly coupled aggregates with cells of several ranks.
//!
//! Each rank joins its own cells, and those of the row after its last to them. An aggregate is labelled by the number of its first cell in the whole grid. Ranks send
//! the labels of their first and last rows to their neighbours and collect the pairs of labels that couplings between two ranks join; so each finds by itself
//! which aggregates are one. Their numbers of cells are collected, then the sums of those that are small, and added in the order of ranks.

use std::collections::{BTreeMap, HashMap};

use super::bodies::{Bodies, CANCELLED, DAMPING, LARGEST, LOOSE, at, piece_of};
use super::couplings::Couplings;
use super::window::{Window, collect_any};
use super::{Ranked, Serial};
use crate::disjoint_sets::{DisjointSets, Joins};
use crate::execute::PIECE;
use crate::real::{Real, bytes_of, bytes_of_mut};
use crate::{Result, Shape};

/// The sums over the cells of an aggregate that decide whether it is worth correcting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// D: row sums and couplings that leave the aggregate.
    pub leaving: f64,
    /// Their absolute values.
    pub absolute: f64,
    /// The diagonal.
    pub diagonals: f64,
}

impl Sums {
    /// Adds up those of some cells; `first_of` returns the number of a cell's aggregate.
    pub(super) fn of<N: Real>(
        matrix: &Couplings<N>,
        cells: impl Iterator<Item = [usize; 3]>,
        first_of: impl Fn([usize; 3]) -> u32,
    ) -> Self {
        let mut sums = Self::default();
        for cell @ [i, j, k] in cells {
            let own = first_of(cell);
            let s = matrix.sums(j, k as isize)[i + 1].to_f64();
            let mut diagonal = s;
            sums.leaving += s;
            sums.absolute += s.abs();
            for offset in matrix.offsets() {
                let c = matrix.row(j, k as isize, offset)[i + 1].to_f64();
                diagonal += c;
                if c != 0.0 && matrix.neighbour(cell, offset).is_some_and(|to| first_of(to) != own) {
                    sums.leaving += c;
                    sums.absolute += c.abs();
                }
            }
            sums.diagonals += diagonal;
        }
        sums
    }

    /// Adds those of other cells of the aggregate.
    pub fn add(&mut self, of_rank: Self) {
        self.leaving += of_rank.leaving;
        self.absolute += of_rank.absolute;
        self.diagonals += of_rank.diagonals;
    }

    /// Returns ω / D if the aggregate is worth correcting, 0 otherwise; `least` is the smallest D relative to the sum of diagonals.
    pub fn factor(&self, least: f64) -> f64 {
        let Self { leaving, absolute, diagonals } = *self;
        let is_worth_it = leaving > CANCELLED * absolute && leaving > least * diagonals && leaving < LOOSE * diagonals;
        if is_worth_it { DAMPING / leaving } else { 0.0 }
    }
}

/// The aggregates that couplings between ranks join; none on one rank.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The first label of each aggregate whose label is another, or that is shared.
    first: HashMap<u32, u32>,
    /// The first labels of the cells of the rows before and after the rank's own.
    beside: [Vec<u32>; 2],
    /// The rank's own cells of each shared aggregate that is not too large, by first label, in ascending order.
    cells: BTreeMap<u32, Vec<u32>>,
}

impl Shared {
    /// Finds the shared aggregates, given the sets of this rank's cells and the number of other cells of each set, which it clears for those that it finds.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(super) fn find<N: Real>(
        on: &impl Ranked,
        matrix: &Couplings<N>,
        sets: Joins<'_>,
        sizes: &mut [u32],
    ) -> Result<Self> {
        let Some(window) = matrix.window.as_deref() else { return Ok(Self::default()) };
        let (shape, rows) = (matrix.grid.shape, window.own());
        let row = shape.nx * shape.nz;
        let labels_of = |j: usize| (row * j..row * (j + 1)).map(|cell| label(window, shape, sets.first(cell as u32)));
        let ends = [rows.start, rows.end - 1].map(labels_of);
        let has = [rows.start > 0, rows.end < shape.ny];
        let ends: Vec<Vec<f64>> = ends
            .into_iter()
            .zip(has)
            .map(|(labels, has)| labels.take(if has { row } else { 0 }).map(f64::from).collect())
            .collect();
        let mut beside = [0, 1].map(|n| vec![0.0; ends[n].len()]);
        let [before, after] = &mut beside;
        on.exchange([0, 1].map(|n| bytes_of(&ends[n])), [bytes_of_mut(before), bytes_of_mut(after)])?;
        let mut beside = beside.map(|labels| labels.into_iter().map(|label| label as u32).collect::<Vec<_>>());
        // Cells of the next row that are joined to cells of this rank.
        let next = (row * rows.end..).zip(&beside[1]).filter_map(|(cell, &there)| {
            let first = sets.first(cell as u32);
            (first != cell as u32).then(|| [label(window, shape, first), there])
        });
        let mut pairs: Vec<[u32; 2]> = next.collect();
        pairs.sort_unstable();
        pairs.dedup();
        let pairs: Vec<f64> = pairs.into_iter().flatten().map(f64::from).collect();
        let first = merged(&collect_any(on, window.ranks(), &pairs)?);
        for label in beside.iter_mut().flatten() {
            *label = first.get(label).copied().unwrap_or(*label);
        }
        let mut this = Self { first, beside, ..Self::default() };
        this.take_own(on, window, shape, sets, sizes)?;
        Ok(this)
    }

    /// Finds this rank's cells of shared aggregates.
    fn take_own(
        &mut self,
        on: &impl Ranked,
        window: &Window,
        shape: Shape,
        sets: Joins<'_>,
        sizes: &mut [u32],
    ) -> Result<()> {
        /// Marks the first cell of a set that is shared.
        const SHARED: u32 = u32::MAX;
        let (row, rows) = (shape.nx * shape.nz, window.own());
        let own = row * rows.start..row * rows.end;
        let offset = label(window, shape, own.start as u32);
        let here = |label: u32| Some((label.checked_sub(offset)? as usize + own.start, label));
        let sets_here = self.first.keys().filter_map(|&label| here(label)).filter(|(cell, _)| *cell < own.end);
        let sets_here: Vec<(usize, u32)> = sets_here.map(|(cell, label)| (cell, self.first[&label])).collect();
        let counts = sets_here.iter().flat_map(|&(cell, first)| [f64::from(first), f64::from(sizes[cell]) + 1.0]);
        let counts = collect_any(on, window.ranks(), &counts.collect::<Vec<_>>())?;
        let mut totals = HashMap::new();
        counts.as_chunks().0.iter().for_each(|&[first, count]| *totals.entry(first as u32).or_insert(0.0) += count);
        let mut is_any = false;
        for &(cell, first) in &sets_here {
            let is_small = totals.get(&first).is_some_and(|&total| total <= f64::from(LARGEST));
            sizes[cell] = if is_small { SHARED } else { 0 };
            is_any |= is_small;
        }
        if !is_any {
            return Ok(());
        }
        let mut pieces = vec![Vec::new(); own.len().div_ceil(PIECE)];
        on.for_each(&mut pieces, |piece, found| {
            found.extend(piece_of(&own, piece).filter(|&cell| sizes[sets.parent(cell) as usize] == SHARED));
        });
        for cell in pieces.into_iter().flatten() {
            if let Some(&first) = self.first.get(&label(window, shape, sets.parent(cell))) {
                self.cells.entry(first).or_default().push(cell);
            }
        }
        sets_here.into_iter().for_each(|(cell, _)| sizes[cell] = 0);
        Ok(())
    }

    /// Returns a number of the aggregate of a cell, of this rank or of the row before or after: the first cell of its set, or in a window its first label.
    #[inline(always)]
    pub(super) fn first_of<N: Real>(&self, matrix: &Couplings<N>, sets: Joins<'_>, [i, j, k]: [usize; 3]) -> u32 {
        let shape @ Shape { nx, nz, .. } = matrix.grid.shape;
        let first = || sets.parent((i + nx * (k + nz * j)) as u32);
        let Some(window) = &matrix.window else { return first() };
        let own = window.own();
        if own.contains(&j) {
            let label = label(window, shape, first());
            return self.first.get(&label).copied().unwrap_or(label);
        }
        self.beside[usize::from(j >= own.end)][i + nx * k]
    }

    /// Returns the shared aggregates that are worth correcting, in the same order on all ranks, with this rank's cells of them.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(super) fn bodies<N: Real>(
        &self,
        on: &impl Ranked,
        matrix: &Couplings<N>,
        least: f64,
        place: impl Fn([usize; 3]) -> u32,
        first_of: impl Fn([usize; 3]) -> u32 + Copy,
    ) -> Result<Bodies> {
        let mut bodies = Bodies { starts: vec![0], ..Bodies::default() };
        let Some(window) = matrix.window.as_deref().filter(|_| !self.first.is_empty()) else { return Ok(bodies) };
        let shape = matrix.grid.shape;
        // The label and the sums.
        let own = self.cells.iter().map(|(&label, cells)| {
            let Sums { leaving, absolute, diagonals } =
                Sums::of(matrix, cells.iter().map(|&cell| at(shape, cell)), first_of);
            [f64::from(label), leaving, absolute, diagonals]
        });
        let own: Vec<[f64; 4]> = own.collect();
        let mut all = collect_any(on, window.ranks(), own.as_flattened())?;
        let (all, _) = all.as_chunks_mut::<4>();
        // In the order of ranks for each label.
        all.sort_by(|a, b| a[0].total_cmp(&b[0]));
        for of_ranks in all.chunk_by(|a, b| a[0] == b[0]) {
            let mut sums = Sums::default();
            of_ranks
                .iter()
                .for_each(|&[_, leaving, absolute, diagonals]| sums.add(Sums { leaving, absolute, diagonals }));
            let factor = sums.factor(least);
            if factor > 0.0 {
                let own = self.cells.get(&(of_ranks[0][0] as u32)).into_iter().flatten();
                bodies.push(own.map(|&cell| place(at(shape, cell))), factor);
            }
        }
        bodies.shared = bodies.factors.len();
        Ok(bodies)
    }
}

/// Returns the number in the whole grid of a cell of a window.
#[inline(always)]
fn label(window: &Window, shape: Shape, cell: u32) -> u32 {
    let row = (shape.nx * shape.nz) as u32;
    cell % row + row * window.there((cell / row) as usize) as u32
}

/// Returns the smallest of all labels that pairs of labels join to each.
pub fn merged(pairs: &[f64]) -> HashMap<u32, u32> {
    let pairs: Vec<u32> = pairs.iter().map(|&label| label as u32).collect();
    let mut labels = pairs.clone();
    labels.sort_unstable();
    labels.dedup();
    let number = |label: u32| labels.partition_point(|&other| other < label) as u32;
    let mut sets = DisjointSets::new(&Serial, labels.len());
    let sets = sets.joins();
    for [a, b] in pairs.as_chunks().0 {
        sets.join(number(*a), number(*b));
    }
    (0..).zip(&labels).map(|(n, &label)| (label, labels[sets.first(n) as usize])).collect()
}
