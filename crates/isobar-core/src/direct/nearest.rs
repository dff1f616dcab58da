//! The nearest box of a matrix, for preconditioning.

use super::separate::{faces_of, sample};
use super::{AxisMatrix, Lines, Separable, SeparableRows};
use crate::error::{Error, Result};
use crate::execute::{Execute, Host};
use crate::layout::Axis;

/// The cells along an axis for which eigenvectors, whose time grows with the cube, take seconds.
pub(crate) const MOST_EIGENVECTORS: usize = 2048;

/// The cells that are sampled in each layer across an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Samples {
    /// A few, which show whether a fit is worth its time; couplings are exact where they are separable but for closed cells.
    Few = 16,
    /// As many as leave an eleventh of noise in the factors.
    Many = 128,
}

/// Passes in which the factors of each axis are fitted with the others fixed.
const FITS: usize = 8;

/// The separable matrix nearest to another, and its distance.
#[derive(Clone, Debug)]
pub(crate) struct Nearest {
    /// The factors of that matrix.
    pub(crate) factors: Separable,
    /// The fraction of open cells among the samples.
    pub(crate) open: f64,
    /// The standard deviation of the logarithms of open cells' couplings from those of the factors.
    pub(crate) spread: f64,
}

/// Finds the separable matrix nearest to another, without its inactive cells: couplings are fitted in their logarithms by products of one
/// factor an axis, shifts by their mean along lines. The result is positive definite: without any shift, a small one is added everywhere. Its lines are
/// along a given axis, or along one that suits a single rank.
///
/// # Errors
/// [`Error::Invalid`] if no cell is open.
pub(crate) fn nearest(matrix: &dyn SeparableRows, line: Option<Axis>, most: Samples) -> Result<Nearest> {
    let shape = matrix.shape();
    let extents = shape.extents();
    let mut fits = [const { None }; 3];
    Host.for_each(&mut fits, |axis, fit| {
        *fit = (extents[axis] > 1).then(|| Fit::of(matrix, axis, extents, |d| samples(extents, d, most)));
    });
    let [x, y, z] = fits.map(Option::transpose);
    let fits = [x?, y?, z?];
    let line = line.map_or_else(|| line_of(extents), |axis| axis as usize);
    let across = [[1, 2], [0, 2], [0, 1]][line];
    // The mean of the masses in both others' couplings.
    let mass = |axis: usize| {
        let of: Vec<&Fit> = (0..3).filter(|&other| other != axis).filter_map(|other| fits[other].as_ref()).collect();
        let weight = |n: usize| (of.iter().map(|fit| fit.logs[axis][n]).sum::<f64>() / of.len().max(1) as f64).exp();
        (0..extents[axis]).map(weight).collect::<Vec<_>>()
    };
    let couplings = |axis: usize| match &fits[axis] {
        Some(fit) => faces_of(&fit.along(axis), matrix.is_by_cells(), matrix.is_periodic(axis)),
        None => vec![0.0; extents[axis]],
    };
    let sides = |axis: usize| {
        let mut shift = vec![0.0; extents[axis]];
        if let Some(fit) = &fits[axis] {
            let (along, n) = (fit.along(axis), shift.len());
            let [lower, upper] = matrix.fixed_sides(axis);
            shift[0] += if lower { along[0] } else { 0.0 };
            shift[n - 1] += if upper { along[n - 1] } else { 0.0 };
        }
        shift
    };
    let factors = across.map(|axis| AxisMatrix { mass: mass(axis), shift: sides(axis), couplings: couplings(axis) });
    let weights = across.map(|axis| match &fits[axis] {
        Some(fit) => fit.logs[line].iter().map(|log| log.exp()).collect(),
        None => vec![0.0; extents[line]],
    });
    let mut this = Separable {
        shape,
        line,
        across,
        factors,
        lines: Lines { shift: sides(line), couplings: couplings(line), weights, least_pivot: 0.0 },
        is_exact: false,
    };
    this.add_mean_ties(matrix, extents);
    if this.is_singular() {
        this.tie_a_little();
    }
    let fits = || fits.iter().flatten();
    let open = fits().map(|fit| fit.open).fold(1.0, f64::min);
    Ok(Nearest { factors: this, open, spread: fits().map(|fit| fit.spread).fold(0.0, f64::max) })
}

/// Returns the axis of lines: z, or the last with several cells; but the longest if transforms along it would take too long.
fn line_of(extents: [usize; 3]) -> usize {
    let last = (0..3).rev().find(|&axis| extents[axis] > 1).unwrap_or(2);
    let longest = (0..3).max_by_key(|&axis| extents[axis]).unwrap_or(2);
    if extents[longest] > MOST_EIGENVECTORS { longest } else { last }
}

/// A fit of log h by the sum of one number an axis.
struct Fit {
    /// The logarithms along each axis: along the couplings' own axis including the mean, along the others with mean 0.
    logs: [Vec<f64>; 3],
    /// See [`Nearest`].
    open: f64,
    spread: f64,
}

impl Fit {
    /// Fits the couplings along an axis by `samples(d)` cells of each layer across axis d.
    fn of(
        matrix: &dyn SeparableRows,
        axis: usize,
        extents: [usize; 3],
        samples: impl Fn(usize) -> u64,
    ) -> Result<Self> {
        let has_last = matrix.is_by_cells() || matrix.is_periodic(axis);
        let layers = (0..3).flat_map(|d| (0..extents[d]).map(move |n| (d, n)));
        let samples = &samples;
        let cells = layers.flat_map(|(d, n)| (0..samples(d)).map(move |number| sample(d, n, number, extents)));
        let (mut count, mut open) = (0_usize, Vec::<([usize; 3], f64)>::new());
        for at in cells.filter(|at| has_last || at[axis] + 1 < extents[axis]) {
            count += 1;
            let coupling = matrix.coupling(axis, at);
            if coupling > 0.0 && coupling.is_finite() {
                open.push((at, coupling.ln()));
            }
        }
        if open.is_empty() {
            return Err(Error::invalid(
                "solver.preconditioner.kind",
                format!(
                    "\"direct\" is made from the couplings of open cells, and among some cells of every layer none is coupled in {}; \
                     use \"multigrid\"",
                    ["x", "y", "z"][axis]
                ),
            ));
        }
        let mut logs = extents.map(|n| vec![0.0; n]);
        for _ in 0..FITS {
            // The axis itself, which includes the mean, is fitted last.
            for d in (0..3).filter(|&d| d != axis).chain([axis]) {
                let (mut sums, mut counts) = (vec![0.0; extents[d]], vec![0usize; extents[d]]);
                for &(at, log) in &open {
                    let others: f64 = (0..3).filter(|&e| e != d).map(|e| logs[e][at[e]]).sum();
                    sums[at[d]] += log - others;
                    counts[at[d]] += 1;
                }
                let found = |n: usize| (counts[n] > 0).then(|| sums[n] / counts[n] as f64);
                let known: Vec<Option<f64>> = (0..extents[d]).map(found).collect();
                logs[d] = fill_gaps(&known);
                if d != axis {
                    let mean = logs[d].iter().sum::<f64>() / logs[d].len() as f64;
                    logs[d].iter_mut().for_each(|log| *log -= mean);
                }
            }
        }
        let product = |at: [usize; 3]| (0..3).map(|d| logs[d][at[d]]).sum::<f64>();
        let squares: f64 = open.iter().map(|&(at, log)| (log - product(at)).powi(2)).sum();
        let (found, spread) = (open.len() as f64, (squares / open.len() as f64).sqrt());
        Ok(Self { open: found / count as f64, spread, logs })
    }

    fn along(&self, axis: usize) -> Vec<f64> {
        self.logs[axis].iter().map(|log| log.exp()).collect()
    }
}

/// Replaces unknown numbers by the nearest known ones.
fn fill_gaps(known: &[Option<f64>]) -> Vec<f64> {
    let places: Vec<usize> = (0..known.len()).filter(|&n| known[n].is_some()).collect();
    let nearest = |n: usize| {
        let next = places.partition_point(|&place| place < n);
        let beside = [next.checked_sub(1).map(|last| places[last]), places.get(next).copied()];
        beside.into_iter().flatten().min_by_key(|place| place.abs_diff(n)).and_then(|place| known[place])
    };
    (0..known.len()).map(|n| known[n].or_else(|| nearest(n)).unwrap_or(0.0)).collect()
}

/// Returns how many cells of each layer across an axis are sampled: fewer if layers are small, or many.
fn samples(extents: [usize; 3], axis: usize, most: Samples) -> u64 {
    /// The most samples of a grid, which take 32 bytes each.
    const MOST: usize = 1 << 20;
    let layer: usize = (0..3).filter(|&d| d != axis).map(|d| extents[d]).product();
    (most as u64).min(2 * layer as u64).min((MOST / extents[axis]).max(2) as u64)
}

impl Separable {
    /// Adds the mean shift of cells, layer by layer along the lines.
    fn add_mean_ties(&mut self, matrix: &dyn SeparableRows, extents: [usize; 3]) {
        let Some(tie) = matrix.shift() else { return };
        let [a, b] = self.across;
        for k in 0..extents[self.line] {
            let cells =
                (0..samples(extents, self.line, Samples::Many)).map(|number| sample(self.line, k, number, extents));
            let open = cells.filter(|&at| (0..3).any(|axis| matrix.coupling(axis, at) > 0.0));
            let (sum, count) = open.fold((0.0, 0), |(sum, count), at| {
                let weight = self.factors[0].mass[at[a]] * self.factors[1].mass[at[b]];
                (sum + tie(at).max(0.0) / weight, count + 1)
            });
            self.lines.shift[k] += if count > 0 { sum / f64::from(count) } else { 0.0 };
        }
    }

    /// Adds to every cell a shift of about the smallest nonzero eigenvalue.
    fn tie_a_little(&mut self) {
        let smallest = |matrix: &AxisMatrix| {
            let n = matrix.len() as f64;
            let (mass, length) = (matrix.mass.iter().sum::<f64>(), matrix.couplings.iter().filter(|&&t| t > 0.0));
            // The couplings of a line in series, over its mass.
            let through = 1.0 / length.map(|t| 1.0 / t).sum::<f64>().max(f64::MIN_POSITIVE);
            if n > 1.0 { through / mass } else { f64::INFINITY }
        };
        let along = AxisMatrix {
            mass: vec![1.0; self.lines.len()],
            shift: Vec::new(),
            couplings: self.lines.couplings.clone(),
        };
        let [first, second] = [0, 1].map(|which| {
            let mean = self.lines.weights[which].iter().sum::<f64>() / self.lines.len() as f64;
            if mean > 0.0 { smallest(&self.factors[which]) * mean } else { f64::INFINITY }
        });
        let tie = first.min(second).min(smallest(&along));
        let tie = if tie.is_finite() { tie } else { 1.0 };
        self.lines.shift.iter_mut().for_each(|shift| *shift = tie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_take_the_nearest_number() {
        let known = [None, None, Some(3.0), None, None, None, Some(7.0), Some(8.0), None];
        assert_eq!(fill_gaps(&known), [3.0, 3.0, 3.0, 3.0, 3.0, 7.0, 7.0, 8.0, 8.0]);
        assert_eq!(fill_gaps(&[None; 3]), [0.0; 3]);
    }

    #[test]
    fn long_grids_take_no_more_samples_than_others() {
        for (extents, line) in [([500_000, 2, 1], 0), ([2, 500_000, 1], 1), ([512, 512, 128], 2), ([64, 40, 1], 1)] {
            let count: u64 = (0..3).map(|axis| samples(extents, axis, Samples::Many) * extents[axis] as u64).sum();
            assert!(count <= 3 << 20, "{extents:?}: {count}");
            assert_eq!(line_of(extents), line, "{extents:?}");
        }
    }
}
