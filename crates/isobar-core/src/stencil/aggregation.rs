//! Aggregates of the diffusion operator's cells: connected components, bodies of one material, and E = Zᵀ A Z.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::spread::Spread;
use super::{Axis, Coefficients, Diffusion, Side, Stencil};
use crate::backend::Runs;
use crate::disjoint_sets::DisjointSets;
use crate::execute::{PIECE, shared};
use crate::operator::aggregate::{Components, Entry};
use crate::{AggregateMap, Execute, Shape};

/// The rows of cells that a thread takes at a time.
const ROWS: usize = 64;

/// The connected components of a matrix as [`Diffusion::components`] returns them, if they were given or have been found. Copies of the
/// matrix share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    given: Option<Arc<Components>>,
    found: Arc<OnceLock<Option<Components>>>,
}

impl Found {
    /// Returns only the components that the caller gave, for arrays whose numbers may have changed since.
    pub(super) fn given(&self) -> Self {
        Self { given: self.given.clone(), found: Arc::default() }
    }

    fn known(&self) -> Option<Option<Components>> {
        let given = self.given.as_deref().map(|given| Some(given.clone()));
        given.or_else(|| self.found.get().cloned())
    }

    fn or_find(&self, find: impl FnOnce() -> Option<Components>) -> Option<Components> {
        let given = self.given.as_deref().cloned();
        given.or_else(|| self.found.get_or_init(find).clone())
    }
}

impl PartialEq for Found {
    /// Returns true: they do not make it another matrix.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl From<Components> for Found {
    fn from(components: Components) -> Self {
        Self { given: Some(Arc::new(components)), found: Arc::default() }
    }
}

impl Diffusion {
    /// Returns whether every face is known to be open, so that all cells are connected.
    pub fn is_one_piece(&self) -> bool {
        matches!(self.coefficients(), Coefficients::Cells { .. })
            && self.spreads().iter().all(|field| !field.has_zeros())
    }

    /// Returns whether any cell has a shift.
    pub(crate) fn is_anchored(&self) -> bool {
        let Shape { ny, nz, .. } = self.shape();
        (0..ny * nz).any(|row| {
            let mut is_anchored = false;
            self.for_each_shift_of_row(row, |_, _| is_anchored = true);
            is_anchored
        })
    }

    /// Returns [`Diffusion::components`] if they are known without a search.
    pub fn known_components(&self) -> Option<Option<Components>> {
        self.components.known()
    }

    /// Returns the connected components, or nothing if all cells form one component with a shift. They are searched for once, by
    /// this matrix or a copy of it.
    pub fn components(&self, execute: &impl Execute) -> Option<Components> {
        self.components.or_find(|| self.find_components(execute))
    }

    fn find_components(&self, execute: &impl Execute) -> Option<Components> {
        let shape = self.shape();
        if self.is_one_piece() {
            let is_anchored = self.is_anchored();
            return (!is_anchored).then(|| Components { all: AggregateMap::whole(shape), anchored: vec![false] });
        }
        let faces = |axis, row, open: &mut [u8]| self.open_faces(axis, row, open);
        let all = connected(execute, shape, |row, is_active| self.find_active(row, is_active), faces);
        components_of(execute, all, |row, tied| self.find_shifts(row, tied))
    }

    /// Returns [`Diffusion::components`], found from a mark for each cell in C order: bit 0, whether it is active; bits 1 to 3, whether
    /// its upper faces in x, y and z are open; bit 4, whether it has a shift.
    pub fn components_by_marks(&self, execute: &impl Execute, marks: &[u8]) -> Option<Components> {
        let (shape, nx) = (self.shape(), self.shape().nx);
        let bits = |row: usize, bit: u8| marks[row * nx..][..nx].iter().map(move |mark| mark >> bit & 1);
        let find = |row, bit, is_set: &mut [bool]| {
            is_set.iter_mut().zip(bits(row, bit)).for_each(|(is_set, bit)| *is_set = bit != 0);
        };
        let faces = |axis: Axis, row: usize, open: &mut [u8]| {
            open.iter_mut().zip(bits(row, axis as u8 + 1)).for_each(|(open, bit)| *open = bit);
        };
        let search = || {
            let all = connected(execute, shape, |row, is_active| find(row, 0, is_active), faces);
            components_of(execute, all, |row, tied| find(row, 4, tied))
        };
        self.components.or_find(search)
    }

    /// Makes the matrix of some of the connected components alone: the cells of all others become inactive. `components` are those of this matrix, whose
    /// coefficients must be those of cells, on the host, without a shift. If all are kept, arrays are shared.
    #[doc(hidden)]
    #[must_use]
    pub fn restricted(&self, components: &AggregateMap, kept: &[bool], execute: &impl Execute) -> Self {
        let (mut this, all) = (self.clone(), components.of_kept(kept, execute));
        if kept.contains(&false)
            && let Coefficients::Cells { fields, .. } = &mut this.coefficients
        {
            let (ids, cells) = (all.ids(), self.shape().cells());
            for (field, spread) in fields.iter_mut().zip(&mut this.spreads) {
                let closed = shared(execute, cells, PIECE, |piece, values| {
                    let before = field[piece * PIECE..].iter().zip(&ids[piece * PIECE..]);
                    let of = |(&value, &id): (&f64, &u32)| if id == AggregateMap::NONE { 0.0 } else { value };
                    values.iter_mut().zip(before).for_each(|(value, before)| *value = of(before));
                });
                // The numbers have been checked with all others.
                *spread = Spread::of(execute, &closed).unwrap_or(*spread);
                *field = closed;
            }
        }
        this.with_components(&all)
    }

    /// Takes the connected components of its active cells, which it then need not search for. It has no shift and closed sides.
    #[doc(hidden)]
    #[must_use]
    pub fn with_components(mut self, all: &AggregateMap) -> Self {
        let anchored = vec![false; all.count()];
        let known = (all.cells() < self.shape().cells()).then(|| Components { all: all.clone(), anchored });
        self.components = known.map_or_else(Found::default, Found::from);
        self
    }

    /// Makes the matrix with fixed values on both sides of an axis. It shares all arrays.
    #[doc(hidden)]
    #[must_use]
    pub fn between_sides(&self, axis: Axis, execute: &impl Execute) -> Self {
        let mut this = self.clone();
        this.sides[axis as usize] = [Side::Fixed; 2];
        this.components = match self.known_components() {
            Some(Some(Components { all, .. })) => {
                let anchored = anchored(execute, &all, |row, tied| this.find_shifts(row, tied));
                Components { all, anchored }.into()
            }
            _ => Found::default(),
        };
        this
    }

    /// Finds which cells of row j + ny k have a shift.
    fn find_shifts(&self, row: usize, tied: &mut [bool]) {
        tied.fill(false);
        let first = row * tied.len();
        self.for_each_shift_of_row(row, |cell, _| tied[cell - first] = true);
    }

    /// Returns the connected bodies of one material: neighbours belong to one body if their half transmissibilities differ by less than a factor of ten or,
    /// if only faces are stored, if the transmissibility of their face is more than a tenth of either cell's largest.
    pub fn bodies(&self, execute: &impl Execute) -> AggregateMap {
        /// Coefficients within this factor are one material.
        const ONE_MATERIAL: f64 = 10.0;
        let shape = self.shape();
        let has_faces = matches!(self.coefficients, Coefficients::Faces(_));
        let largest = |at: [usize; 3]| {
            let of = |axis| self.face(axis, at).max(self.lower(axis, at).map_or(0.0, |lower| self.face(axis, lower)));
            Axis::ALL.map(of).into_iter().fold(0.0, f64::max)
        };
        let is_one = |axis: Axis, at: [usize; 3], upper: [usize; 3]| {
            let [least, most] = if has_faces {
                [self.face(axis, at), largest(at).max(largest(upper))]
            } else {
                let [a, b] = [at, upper].map(|cell| self.half(axis, cell));
                [a.min(b), a.max(b)]
            };
            least > 0.0 && most < ONE_MATERIAL * least
        };
        let joined = |axis: Axis, row: usize, joined: &mut [u8]| {
            for (i, joined) in joined.iter_mut().enumerate() {
                let at = [i, row % shape.ny, row / shape.ny];
                *joined = u8::from(self.upper(axis, at).is_some_and(|upper| is_one(axis, at, upper)));
            }
        };
        connected(execute, shape, |row, is_active| self.find_active(row, is_active), joined)
    }

    /// Returns E = Zᵀ A Z; see [`AggregateOperator::galerkin`](crate::operator::AggregateOperator::galerkin).
    pub fn galerkin(&self, map: &AggregateMap) -> Vec<Entry> {
        let mut sums = vec![0.0; map.count()];
        let mut off = HashMap::<(u32, u32), f64>::new();
        let ids = map.ids();
        self.for_each_shift(|cell, shift| {
            if ids[cell] != AggregateMap::NONE {
                sums[ids[cell] as usize] += shift;
            }
        });
        self.for_each_open_face(|lower, upper, t| {
            let (here, there) = (ids[lower], ids[upper]);
            if here == there {
                return;
            }
            match (here == AggregateMap::NONE, there == AggregateMap::NONE) {
                (false, false) => *off.entry((here.max(there), here.min(there))).or_default() -= t,
                (false, true) => sums[here as usize] += t,
                (true, _) => sums[there as usize] += t,
            }
        });
        let sums = sums.into_iter().enumerate().map(|(n, value)| Entry { row: n, column: n, value });
        let off =
            off.into_iter().map(|((row, column), value)| Entry { row: row as usize, column: column as usize, value });
        sums.chain(off).collect()
    }
}

/// Finds the sets of a grid's cells that are connected by open faces, and numbers them in the order of their first cells.
///
/// For row j + ny k `cells` sets whether each cell belongs to any set, and `faces` whether its upper face in a direction is open: 1 or 0. The upper
/// neighbour of the last cell of a periodic direction is the first one.
pub(crate) fn connected(
    execute: &impl Execute,
    shape: Shape,
    cells: impl Fn(usize, &mut [bool]) + Sync,
    faces: impl Fn(Axis, usize, &mut [u8]) + Sync,
) -> AggregateMap {
    let Shape { ny, nz, .. } = shape;
    let (runs, around) = Runs::of_cells(execute, shape, |row, is_in, joined| {
        cells(row, is_in);
        faces(Axis::X, row, joined);
    });
    let mut sets = DisjointSets::new(execute, runs.count());
    let joins = sets.joins();
    for row in around {
        let of_row = runs.of_row(row);
        joins.join(of_row.start as u32, of_row.end as u32 - 1);
    }
    for_each_row(execute, shape, 0, |row, open| {
        let (j, k) = (row % ny, row / ny);
        for (axis, above) in [(Axis::Y, (j + 1) % ny + ny * k), (Axis::Z, j + ny * ((k + 1) % nz))] {
            if above == row {
                continue;
            }
            faces(axis, row, open);
            runs.for_each_overlap(row, above, |lower, upper, cells| {
                if open[cells].contains(&1) {
                    joins.join(lower, upper);
                }
            });
        }
    });
    let (ids, count) = sets.numbered(execute);
    AggregateMap::of_runs(shape, Arc::new(runs), ids.into(), count)
}

/// Makes the components of a matrix from its connected sets of active cells, or nothing if all cells are in components with a shift. `find` sets
/// which cells of row j + ny k have a shift.
fn components_of(
    execute: &impl Execute,
    all: AggregateMap,
    find: impl Fn(usize, &mut [bool]) + Sync,
) -> Option<Components> {
    let anchored = anchored(execute, &all, find);
    let is_regular = anchored.iter().all(|&anchored| anchored) && all.has_all_cells();
    (!is_regular).then_some(Components { all, anchored })
}

/// Returns whether each component has a shift somewhere; `find` as in [`components_of`].
fn anchored(execute: &impl Execute, all: &AggregateMap, find: impl Fn(usize, &mut [bool]) + Sync) -> Vec<bool> {
    let anchored: Vec<AtomicBool> = (0..all.count()).map(|_| AtomicBool::new(false)).collect();
    for_each_row(execute, all.shape(), false, |row, tied| {
        find(row, tied);
        if tied.contains(&true) {
            all.for_each_run(row, |component, cells| {
                if tied[cells].contains(&true) {
                    anchored[component as usize].store(true, Ordering::Relaxed);
                }
            });
        }
    });
    anchored.into_iter().map(AtomicBool::into_inner).collect()
}

/// Calls `f(row, values)` for every row, j + ny k, on all threads, with an array of a value for each cell of a row, which a thread uses again.
fn for_each_row<X: Copy + Sync>(execute: &impl Execute, shape: Shape, value: X, f: impl Fn(usize, &mut [X]) + Sync) {
    let rows = shape.ny * shape.nz;
    execute.for_each(&mut vec![(); rows.div_ceil(ROWS)], |piece, ()| {
        let mut values = vec![value; shape.nx];
        (piece * ROWS..rows.min((piece + 1) * ROWS)).for_each(|row| f(row, &mut values));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::Serial;
    use crate::problem::random;
    use crate::stencil::Side;
    use crate::stencil::turns::Turns;

    /// Finds components cell by cell, numbered in the order of their first cells.
    fn walked(stencil: &Diffusion) -> Vec<u32> {
        let shape = stencil.shape();
        let mut ids = vec![AggregateMap::NONE; shape.cells()];
        let mut next = 0;
        for start in stencil.cells().filter(|&at| stencil.is_active(at)) {
            if ids[stencil.cell(start)] != AggregateMap::NONE {
                continue;
            }
            let mut left = vec![start];
            while let Some(at) = left.pop() {
                if ids[stencil.cell(at)] == AggregateMap::NONE {
                    ids[stencil.cell(at)] = next;
                    left.extend(stencil.neighbours(at).filter(|(_, t)| *t > 0.0).map(|(to, _)| to));
                }
            }
            next += 1;
        }
        ids
    }

    /// Checks that the known components of a restricted matrix are those that a search finds.
    #[test]
    fn parts_know_their_components() {
        for (n, shape) in [Shape::new(7, 5, 6), Shape::new(1, 9, 4), Shape::new(12, 11, 1)].into_iter().enumerate() {
            for open in [0.5, 0.8, 2.0] {
                let of_cell = |cell: usize| if random(n as u64, cell).abs() < open { 1.0 + cell as f64 } else { 0.0 };
                let field: Vec<f64> = (0..shape.cells()).map(of_cell).collect();
                let with_sides =
                    |field: &[f64], sides| Diffusion::of_field(shape, field, [2.0; 3], None, sides).unwrap();
                let whole = with_sides(&field, [[Side::Closed; 2]; 3]);
                let Components { all, .. } = whole.components(&Serial).unwrap();
                let every_third: Vec<bool> = (0..all.count()).map(|component| component % 3 == 0).collect();
                for kept in [every_third, vec![true; all.count()]] {
                    let part = whole.restricted(&all, &kept, &Serial);
                    let is_kept = |cell: usize| all.aggregate(cell).is_some_and(|component| kept[component]);
                    let field: Vec<f64> = (0..shape.cells()).map(|n| if is_kept(n) { field[n] } else { 0.0 }).collect();
                    for axis in Axis::ALL {
                        let mut sides = [[Side::Closed; 2]; 3];
                        sides[axis as usize] = [Side::Fixed; 2];
                        let searched = with_sides(&field, sides);
                        let known = part.between_sides(axis, &Serial);
                        assert_eq!(known.components(&Serial), searched.components(&Serial), "{shape}, {axis:?}");
                        assert_eq!(
                            (known.coefficients(), known.spreads()),
                            (searched.coefficients(), searched.spreads())
                        );
                    }
                }
            }
        }
    }

    /// Checks that a solver that is made or updated measures arrays on a GPU again, whose numbers may have changed.
    #[test]
    fn what_was_found_in_arrays_on_a_gpu_is_not_kept() {
        let shape = Shape::new(3, 2, 1);
        // SAFETY: the elements are never read.
        let field = unsafe { crate::DeviceArray::c_order::<f64>(0, shape, 0) };
        let cells = Coefficients::DeviceCells { fields: vec![field], axes: [(0, 1.0); 3], shift: None };
        let device = Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]).unwrap();
        let host = device.on_host(|_| Ok(vec![1.0, 0.0, 1.0, 1.0, 0.0, 0.0])).unwrap();
        let found = host.components(&Serial);
        assert_eq!(found.as_ref().map(|found| found.all.count()), Some(2));
        assert_eq!(device.known_components(), Some(found.clone()));
        assert_eq!(device.around(Turns::ONE).unwrap().known_components(), None);
        let given = device.with_components(&found.unwrap().all);
        assert_eq!(given.around(Turns::ONE).unwrap().known_components(), given.known_components());
        assert!(given.known_components().is_some());
    }

    #[test]
    fn components_are_those_that_one_can_walk_through() {
        let shapes = [Shape::new(7, 5, 6), Shape::new(1, 9, 4), Shape::new(16, 1, 1), Shape::new(12, 11, 1)];
        let ring = [Side::Periodic; 2];
        let sides =
            [[[Side::Closed; 2]; 3], [ring, [Side::Closed; 2], ring], [[Side::Fixed, Side::Closed], ring, ring]];
        for (n, (shape, sides)) in shapes.iter().flat_map(|&shape| sides.map(|sides| (shape, sides))).enumerate() {
            for (closed, fields, is_shifted) in [(0.2, 1, false), (0.5, 1, true), (0.5, 3, false), (0.8, 1, false)] {
                let of_cell = |field: usize| {
                    move |cell| {
                        if 0.5 * (random((7 * field + n) as u64, cell) + 1.0) < closed {
                            0.0
                        } else {
                            1.0 + cell as f64
                        }
                    }
                };
                let field = |field| (0..shape.cells()).map(of_cell(field)).collect::<Vec<f64>>().into();
                let shift = |cell: usize| if random(99, cell) < -0.6 { 1.0 } else { 0.0 };
                let make = || {
                    let axes = [0, 1, 2].map(|axis: usize| (axis % fields, 2.0));
                    let cells = Coefficients::Cells { fields: (0..fields).map(field).collect(), axes };
                    let shift = is_shifted.then(|| (0..shape.cells()).map(shift).collect());
                    Diffusion::new(shape, cells, shift, sides).unwrap()
                };
                let stencil = make();
                let mark = |at| {
                    let open = Axis::ALL.map(|axis| {
                        let upper = stencil.upper(axis, at).filter(|&upper| upper != at);
                        upper.is_some_and(|upper| stencil.half(axis, at) > 0.0 && stencil.half(axis, upper) > 0.0)
                    });
                    let bits = [stencil.is_active(at), open[0], open[1], open[2], stencil.shift(at) > 0.0];
                    (0..).zip(bits).map(|(bit, is_set)| u8::from(is_set) << bit).sum()
                };
                let marks: Vec<u8> = stencil.cells().map(mark).collect();
                assert_eq!(
                    make().components_by_marks(&Serial, &marks),
                    stencil.components(&Serial),
                    "{shape}, {sides:?}"
                );
                let expected = walked(&stencil);
                let Some(Components { all, anchored }) = stencil.components(&Serial) else {
                    assert!(!expected.contains(&AggregateMap::NONE), "{shape}, {sides:?}");
                    continue;
                };
                assert_eq!(all.ids(), expected, "{shape}, {sides:?}");
                for (component, &anchored) in anchored.iter().enumerate() {
                    let own = stencil.cells().filter(|&at| expected[stencil.cell(at)] as usize == component);
                    let tie: f64 = own.map(|at| stencil.shift(at)).sum();
                    assert_eq!(anchored, tie > 0.0);
                }
            }
        }
    }
}
