//! The factors of a separable matrix.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{AxisMatrix, Lines, Separable, has_small_factors};
use crate::execute::find_in_rows;
use crate::real::harmonic;
use crate::{Error, Host, Result, Shape};

/// The largest relative difference of numbers from products of factors: rounding, which refinement removes.
const TOLERANCE: f64 = 1e-11;
/// The largest difference that is the rounding of a few products.
pub(super) const EXACT: f64 = 1e-14;
/// Shifts below this fraction of the couplings are the rounding of zero.
const NEGLIGIBLE: f64 = 1e-13;

/// A symmetric matrix with six neighbours a cell, for the search for factors.
pub(crate) trait SeparableRows: Sync {
    /// Returns the shape of the grid.
    fn shape(&self) -> Shape;

    /// Returns whether an axis is periodic.
    fn is_periodic(&self, axis: usize) -> bool;

    /// Returns whether [`SeparableRows::coupling`] is that from a cell's centre to its faces, whose harmonic mean a face between two cells
    /// has; else it is that of the face to the next cell.
    fn is_by_cells(&self) -> bool;

    /// Returns the coupling of a cell along an axis.
    fn coupling(&self, axis: usize, at: [usize; 3]) -> f64;

    /// Writes the couplings of the first cells of the row (j, k), one after another.
    fn fill(&self, axis: usize, [j, k]: [usize; 2], row: &mut [f64]) {
        row.iter_mut().enumerate().for_each(|(i, coupling)| *coupling = self.coupling(axis, [i, j, k]));
    }

    /// Returns whether all couplings of an axis are known to be equal.
    fn is_constant(&self, axis: usize) -> bool {
        let _ = axis;
        false
    }

    /// Returns whether the lower and the upper side of an axis add [`SeparableRows::coupling`] to the shift of their cells.
    fn fixed_sides(&self, axis: usize) -> [bool; 2] {
        let _ = axis;
        [false; 2]
    }

    /// Returns the shift of a cell without [`SeparableRows::fixed_sides`]; nothing if it is zero everywhere.
    fn shift(&self) -> Option<&(dyn Fn([usize; 3]) -> f64 + Sync)>;

    /// Returns the shifts of the row (j, k), if they lie in memory one after another.
    fn shift_row(&self, [j, k]: [usize; 2]) -> Option<&[f64]> {
        let _ = (j, k);
        None
    }

    /// Returns whether the shift is known to be a sum of numbers along each axis.
    fn shift_is_sum(&self) -> bool {
        false
    }
}

/// The couplings of one axis as products: f along it, times factors along the others.
struct Rank {
    along: Vec<f64>,
    /// 1 at the first cell.
    across: [Vec<f64>; 3],
    is_exact: bool,
}

/// Finds the factors of a separable matrix.
///
/// # Errors
/// [`Error::Invalid`] naming the first cell whose number differs from the product of its neighbours' factors, and both numbers.
pub(crate) fn separate(matrix: &dyn SeparableRows) -> Result<Separable> {
    let shape = matrix.shape();
    let extents = shape.extents();
    // The axes are tried in turn, because most matrices are refused by the first.
    let rank = |axis: usize| (extents[axis] > 1).then(|| Rank::of(matrix, axis, extents)).transpose();
    let ranks = [rank(0)?, rank(1)?, rank(2)?];
    let mut refused = None;
    for line in possible_lines(matrix, &ranks, extents)? {
        match along(matrix, &ranks, extents, line) {
            Ok(found) => return Ok(found),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    // There is at least one line.
    Err(refused.unwrap_or_else(|| not_separable(2, [0; 3], 0.0, "another")))
}

/// Returns the factors with lines along this axis.
fn along(matrix: &dyn SeparableRows, ranks: &[Option<Rank>; 3], extents: [usize; 3], line: usize) -> Result<Separable> {
    let across = [[1, 2], [0, 2], [0, 1]][line];
    // A transformed axis has the same masses in the couplings of both others.
    let mass = |axis: usize| {
        let other = (0..3).filter(|&other| other != axis).find_map(|other| ranks[other].as_ref());
        other.map_or_else(|| vec![1.0; extents[axis]], |rank| rank.across[axis].clone())
    };
    let faces =
        |axis: usize| ranks[axis].as_ref().map_or_else(|| vec![0.0; extents[axis]], |rank| rank.faces(matrix, axis));
    let sides = |axis: usize| {
        let mut shift = vec![0.0; extents[axis]];
        if let Some(rank) = &ranks[axis] {
            let n = shift.len();
            let [lower, upper] = matrix.fixed_sides(axis);
            shift[0] += if lower { rank.along[0] } else { 0.0 };
            shift[n - 1] += if upper { rank.along[n - 1] } else { 0.0 };
        }
        shift
    };
    let factors = across.map(|axis| AxisMatrix { mass: mass(axis), shift: sides(axis), couplings: faces(axis) });
    let weights = across.map(|axis| match &ranks[axis] {
        Some(rank) => rank.across[line].clone(),
        None => vec![0.0; extents[line]],
    });
    let lines = Lines { shift: sides(line), couplings: faces(line), weights, least_pivot: 0.0 };
    // Masses of a transformed axis are those in the couplings of one of both others.
    let are_equal = |axis: usize| {
        let mut masses = (0..3).filter(|&other| other != axis).filter_map(|other| ranks[other].as_ref());
        let (Some(a), Some(b)) = (masses.next(), masses.next()) else { return true };
        a.across[axis].iter().zip(&b.across[axis]).all(|(a, b)| (a - b).abs() <= EXACT * a)
    };
    let is_exact = ranks.iter().flatten().all(|rank| rank.is_exact) && across.into_iter().all(are_equal);
    let mut this = Separable { shape: matrix.shape(), line, across, factors, lines, is_exact };
    // An axis of one cell has no couplings, and its sides are shifts.
    let fixed: Vec<usize> =
        (0..3).filter(|&axis| extents[axis] == 1 && matrix.fixed_sides(axis).contains(&true)).collect();
    let stored = matrix.shift();
    if stored.is_some() || !fixed.is_empty() {
        let tie = |at: [usize; 3]| {
            let sides = fixed.iter().map(|&axis| {
                let count = matrix.fixed_sides(axis).into_iter().filter(|&is_fixed| is_fixed).count();
                count as f64 * matrix.coupling(axis, at)
            });
            stored.map_or(0.0, |shift| shift(at)) + sides.sum::<f64>()
        };
        // With constant couplings every sum fits.
        let fits = matrix.shift_is_sum() && (0..3).all(|axis| extents[axis] == 1 || matrix.is_constant(axis));
        let row = |place: [usize; 2]| if fixed.is_empty() { matrix.shift_row(place) } else { None };
        this.add_ties(&tie, &row, fits)?;
    }
    Ok(this)
}

impl Rank {
    /// Returns the products, each checked.
    fn of(matrix: &dyn SeparableRows, axis: usize, extents: [usize; 3]) -> Result<Self> {
        let at = |d: usize, n: usize| [0, 1, 2].map(|e| if e == d { n } else { 0 });
        let first = matrix.coupling(axis, [0; 3]);
        if !(first > 0.0 && first.is_finite()) {
            return Err(not_separable(axis, [0; 3], first, "above 0"));
        }
        if matrix.is_constant(axis) {
            let across = [0, 1, 2].map(|d| vec![1.0; extents[d]]);
            return Ok(Self { along: vec![first; extents[axis]], across, is_exact: true });
        }
        let entries = |d: usize, count: usize| (0..count).map(move |n| matrix.coupling(axis, at(d, n)));
        let count = |d: usize| {
            let has_no_last = d == axis && !matrix.is_by_cells() && !matrix.is_periodic(axis);
            extents[d] - usize::from(has_no_last)
        };
        let along: Vec<f64> = entries(axis, count(axis)).collect();
        let across = [0, 1, 2].map(|d| match d == axis {
            true => vec![1.0; extents[d]],
            false => entries(d, extents[d]).map(|value| value / first).collect(),
        });
        // Inactive cells.
        let closed = [0, 1, 2].iter().find_map(|&d| {
            let values = if d == axis { &along } else { &across[d] };
            let is_open = |value: f64| value > 0.0 && value.is_finite();
            values.iter().position(|&value| !is_open(value)).map(|n| at(d, n))
        });
        if let Some(at) = closed {
            return Err(not_separable(axis, at, matrix.coupling(axis, at), "above 0"));
        }
        let mut this = Self { along, across, is_exact: true };
        let is_exact = AtomicBool::new(true);
        let [nx, ny, nz] = [0, 1, 2].map(count);
        let of_x = if axis == 0 { &this.along } else { &this.across[0] };
        let wrong = find_in_rows(&Host, ny * nz, nx, |mut rows| {
            let mut values = vec![0.0; nx];
            rows.find_map(|row| {
                let (j, k) = (row % ny, row / ny);
                matrix.fill(axis, [j, k], &mut values);
                let times = this.product(axis, [0, j, k]) / of_x[0];
                let fits = |found: f64, of_x: f64, within: f64| (found - of_x * times).abs() <= within * (of_x * times);
                // Checks a whole row first, which nearly always fits.
                let all = values.iter().zip(of_x).fold(true, |all, (&found, &of_x)| all & fits(found, of_x, EXACT));
                if all {
                    return None;
                }
                is_exact.store(false, Relaxed);
                let wrong = values.iter().zip(of_x).position(|(&found, &of_x)| !fits(found, of_x, TOLERANCE));
                wrong.map(|i| [i, j, k])
            })
        });
        match wrong {
            None => {
                this.is_exact = is_exact.into_inner();
                Ok(this)
            }
            Some(at) => {
                let product = this.product(axis, at);
                Err(not_separable(axis, at, matrix.coupling(axis, at), &format!("{product:.6e}")))
            }
        }
    }

    fn product(&self, axis: usize, at: [usize; 3]) -> f64 {
        let [x, y, z] = [0, 1, 2].map(|d| if d == axis { self.along[at[d]] } else { self.across[d][at[d]] });
        x * y * z
    }

    /// Returns t between a cell and the next.
    fn faces(&self, matrix: &dyn SeparableRows, axis: usize) -> Vec<f64> {
        let mut along = self.along.clone();
        along.resize(self.across[axis].len(), 0.0);
        faces_of(&along, matrix.is_by_cells(), matrix.is_periodic(axis))
    }
}

/// Returns t between a cell and the next from couplings along an axis, of cells to their faces or of faces.
pub(super) fn faces_of(along: &[f64], is_by_cells: bool, is_periodic: bool) -> Vec<f64> {
    let n = along.len();
    let face = |i: usize| match (i + 1 < n || is_periodic, is_by_cells) {
        (false, _) => 0.0,
        (true, true) => harmonic(along[i], along[(i + 1) % n]),
        (true, false) => along[i],
    };
    (0..n).map(face).collect()
}

fn not_separable(axis: usize, at: [usize; 3], found: f64, wanted: &str) -> Error {
    let name = ["x", "y", "z"][axis];
    let mut next = at;
    next[axis] += 1;
    Error::invalid(
        "solver.method",
        format!(
            "\"direct\" needs coefficients that are products of one factor a direction, and between the cells {at:?} and {next:?}, \
             neighbours in {name}, the coupling is {found:.6e} where such a product is {wanted}; use \"auto\""
        ),
    )
}

/// Returns the possible axes of lines, the best first: the one along which the others' couplings vary, if there is one.
fn possible_lines(matrix: &dyn SeparableRows, ranks: &[Option<Rank>; 3], extents: [usize; 3]) -> Result<Vec<usize>> {
    // An axis whose masses differ between the couplings of both others must be the axis of lines.
    let differ = |axis: usize| {
        let mut others = (0..3).filter(|&other| other != axis).filter_map(|other| ranks[other].as_ref());
        let (Some(a), Some(b)) = (others.next(), others.next()) else { return None };
        let values = a.across[axis].iter().zip(&b.across[axis]);
        values.enumerate().find(|(_, (a, b))| (*a - *b).abs() > TOLERANCE * a.abs()).map(|(n, (a, b))| (n, *a, *b))
    };
    let layered: Vec<_> = (0..3).filter_map(|axis| differ(axis).map(|found| (axis, found))).collect();
    let named = |(axis, (n, a, b)): (usize, (usize, f64, f64))| {
        format!("{} (cell {n}: {a:.6e} in one direction, {b:.6e} in another)", ["x", "y", "z"][axis])
    };
    match layered[..] {
        [] => {}
        [(only, _)] => return Ok(vec![only]),
        [first, second, ..] => {
            return Err(Error::invalid(
                "solver.method",
                format!(
                    "\"direct\" takes coefficients that vary along one axis, and those of this matrix vary along {} and {}; use \
                     \"auto\"",
                    named(first),
                    named(second)
                ),
            ));
        }
    }
    /// Cells up to which any transform is fast enough, or one of small factors.
    const LONG: usize = 2048;
    const LONGEST: usize = 8192;
    // The cost of a transform without a fast algorithm: eigenvectors, more expensive on a periodic axis, and a product with them.
    let cost = |axis: usize| {
        let first = |rank: &Rank| rank.along[0];
        let is_stretched = |rank: &Rank| rank.along.iter().any(|&t| (t - first(rank)).abs() > TOLERANCE * first(rank));
        match &ranks[axis] {
            Some(rank) if is_stretched(rank) => extents[axis] * if matrix.is_periodic(axis) { 4 } else { 1 },
            // Not every device has transforms of such lengths.
            _ if extents[axis] > LONG && !(extents[axis] <= LONGEST && has_small_factors(extents[axis])) => {
                extents[axis] / 4
            }
            _ => 0,
        }
    };
    let mut lines = vec![2, 1, 0];
    lines.sort_by_key(|&axis| (extents[axis] == 1, std::cmp::Reverse(cost(axis))));
    Ok(lines)
}

/// Returns whether a few cells are consistent with a separable matrix, so that a search is worthwhile.
pub(crate) fn looks_separable(matrix: &dyn SeparableRows) -> bool {
    /// Cells of each axis.
    const SAMPLES: u64 = 64;
    let shape = matrix.shape();
    let extents = shape.extents();
    (0..3).filter(|&axis| extents[axis] > 1 && !matrix.is_constant(axis)).all(|axis| {
        let of = |at: [usize; 3]| matrix.coupling(axis, at);
        let first = of([0; 3]);
        (0..SAMPLES).map(|number| sample(axis, 0, number, extents)).all(|mut at| {
            at[axis] = (at[(axis + 1) % 3] + at[(axis + 2) % 3]) % (extents[axis] - 1);
            let alone = |d: usize| of([0, 1, 2].map(|e| if e == d { at[d] } else { 0 }));
            let (found, product) = (of(at), alone(0) / first * (alone(1) / first) * alone(2));
            first > 0.0 && (found - product).abs() <= TOLERANCE * product
        })
    })
}

/// Writes the shifts of the row (j, k) from their parts: c along lines, and what depends on one transformed axis alone.
fn fill_ties(
    (line, [first, second], lines): (usize, &[AxisMatrix; 2], &Lines),
    (layer, profiles): (&[f64], &[Vec<f64>; 2]),
    [j, k]: [usize; 2],
    row: &mut [f64],
) {
    let [w, v] = &lines.weights;
    if line == 0 {
        let (masses, p, q) =
            (first.mass[j] * second.mass[k], profiles[0][j] / first.mass[j], profiles[1][k] / second.mass[k]);
        let terms = row.iter_mut().zip(layer).zip(w.iter().zip(v));
        terms.for_each(|((tie, layer), (w, v))| *tie = masses * (layer + p * w + q * v));
        return;
    }
    let (n, k) = if line == 1 { (k, j) } else { (j, k) };
    let (alone, times) = (second.mass[n] * layer[k] + profiles[1][n] * v[k], second.mass[n] * w[k]);
    let terms = row.iter_mut().zip(first.mass.iter().zip(&profiles[0]));
    terms.for_each(|(tie, (mass, profile))| *tie = alone * mass + times * profile);
}

/// Returns a cell of a layer, the same every time.
pub(super) fn sample(axis: usize, layer: usize, number: u64, extents: [usize; 3]) -> [usize; 3] {
    let mut z = (layer as u64) << 32 | (axis as u64) << 24 | number;
    [0, 1, 2].map(|d| {
        z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        if d == axis { layer } else { ((mixed >> 33) % extents[d] as u64) as usize }
    })
}

impl Separable {
    /// Adds the shift: c along lines, and parts that depend on one transformed axis alone. Each cell is checked for this form, unless it is
    /// known to have it; those of a `row` first together.
    fn add_ties<'a>(
        &mut self,
        tie: &(dyn Fn([usize; 3]) -> f64 + Sync),
        row: &(dyn Fn([usize; 2]) -> Option<&'a [f64]> + Sync),
        fits: bool,
    ) -> Result<()> {
        let Self { shape, line, across, factors, lines, is_exact } = &mut *self;
        let [a, b] = *across;
        let place = |m: usize, n: usize, k: usize| {
            let mut at = [0; 3];
            (at[a], at[b], at[*line]) = (m, n, k);
            at
        };
        let reduced = |m: usize, n: usize, k: usize| tie(place(m, n, k)) / (factors[0].mass[m] * factors[1].mass[n]);
        // Starts from the smallest shifts, so that no added one is negative.
        let least =
            |count: usize, of: &dyn Fn(usize) -> f64| (0..count).min_by(|&a, &b| of(a).total_cmp(&of(b))).unwrap_or(0);
        let k0 = lines.len() / 2;
        let m0 = least(factors[0].len(), &|m| reduced(m, factors[1].len() / 2, k0));
        let n0 = least(factors[1].len(), &|n| reduced(m0, n, k0));
        let strongest = |couplings: &[f64]| couplings.iter().fold(0f64, |most, &t| most.max(t));
        let layer: Vec<f64> = (0..lines.len()).map(|k| reduced(m0, n0, k)).collect();
        let profile = |which: usize| -> Vec<f64> {
            let (AxisMatrix { mass, couplings, .. }, weight) = (&factors[which], lines.weights[which][k0]);
            let small = NEGLIGIBLE * (strongest(couplings) + layer[k0].abs() / weight.max(f64::MIN_POSITIVE));
            let of = |n: usize| {
                let value = if which == 0 { reduced(n, n0, k0) } else { reduced(m0, n, k0) };
                let tie = if weight > 0.0 { mass[n] * (value - layer[k0]) / weight } else { 0.0 };
                if tie.abs() <= small * mass[n] { 0.0 } else { tie }
            };
            (0..mass.len()).map(of).collect()
        };
        let profiles = [profile(0), profile(1)];
        // A shift of all layers is one, however small: it alone determines the constant. Rounding has both signs.
        let is_given = layer.iter().all(|&tie| tie > 0.0);
        let small = if is_given { 0.0 } else { NEGLIGIBLE * strongest(&lines.couplings) };
        let layer: Vec<f64> = layer.into_iter().map(|tie| if tie.abs() <= small { 0.0 } else { tie }).collect();
        // The couplings determine how much of a shift is rounding.
        let scale = |which: usize, n: usize, k: usize| {
            let AxisMatrix { couplings, mass, .. } = &factors[which];
            let around = couplings[n].max(couplings[n.saturating_sub(1)]);
            lines.weights[which][k] * around / mass[n]
        };
        let are_exact = AtomicBool::new(true);
        let check = |at: [usize; 3]| {
            let (m, n, k) = (at[a], at[b], at[*line]);
            let (found, [first, second]) = (reduced(m, n, k), &profiles);
            let parts = [
                layer[k],
                first[m] / factors[0].mass[m] * lines.weights[0][k],
                second[n] / factors[1].mass[n] * lines.weights[1][k],
            ];
            let size = parts.iter().fold(found.abs(), |most, part| most.max(part.abs()));
            let size = size + scale(0, m, k) + scale(1, n, k) + lines.couplings[k];
            let sum: f64 = parts.iter().sum();
            if (found - sum).abs() > EXACT * size {
                are_exact.store(false, Relaxed);
            }
            ((found - sum).abs() > TOLERANCE * size).then_some((found, sum))
        };
        let Shape { nx, ny, nz } = *shape;
        // With a stricter bound, which hardly any matrix misses that has this form.
        let row_fits = |place: [usize; 2]| {
            let Some(found) = row(place) else { return false };
            let mut values = vec![0.0; nx];
            fill_ties((*line, factors, lines), (&layer, &profiles), place, &mut values);
            let close = |found: f64, wanted: f64| (found - wanted).abs() <= EXACT * found.abs();
            found.iter().zip(&values).fold(true, |all, (&found, &wanted)| all & close(found, wanted))
        };
        let to_check = if fits { 0 } else { ny * nz };
        let wrong = find_in_rows(&Host, to_check, nx, |mut rows| {
            let of_cell = |at: [usize; 3]| check(at).map(|found| (at, found));
            rows.find_map(|row| {
                let (j, k) = (row % ny, row / ny);
                if row_fits([j, k]) { None } else { (0..nx).find_map(|i| of_cell([i, j, k])) }
            })
        });
        if let Some(([i, j, k], (found, sum))) = wrong {
            return Err(Error::invalid(
                "solver.method",
                format!(
                    "with a reaction, a time step or a Robin side, \"direct\" takes κ that varies along at most one axis (a Robin side's own), a \
                     reaction that varies along one, and no wells; these add {found:.6e} to cell ({i}, {j}, {k}) for its volume, where a separable \
                     matrix would have {sum:.6e}. Use \"auto\""
                ),
            ));
        }
        *is_exact &= are_exact.into_inner();
        lines.shift.iter_mut().zip(&layer).for_each(|(shift, tie)| *shift += tie);
        for (factor, profile) in factors.iter_mut().zip(&profiles) {
            factor.shift.iter_mut().zip(profile).for_each(|(shift, tie)| *shift += tie);
        }
        if lines.shift.iter().any(|&shift| shift < 0.0) {
            let sizes = lines.couplings.iter().zip(&lines.shift).map(|(coupling, shift)| coupling + shift.abs());
            lines.least_pivot = f64::EPSILON.sqrt() * sizes.fold(0.0, f64::max);
        }
        Ok(())
    }
}
