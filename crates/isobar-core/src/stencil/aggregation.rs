//! Aggregates of the diffusion operator's cells: connected components, bodies of one material, and E = Zᵀ A Z.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::spread::Spread;
use super::{Axis, Coefficients, Diffusion, Side, Stencil};
use crate::disjoint_sets::{DisjointSets, for_each_set};
use crate::execute::{PIECE, shared};
use crate::operator::aggregate::{Components, Entry};
use crate::{AggregateMap, Execute, Shape};

/// Rows of cells that a thread takes at a time.
const ROWS: usize = 64;

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

    /// Returns the connected components, if it knows them without a search.
    pub fn known_components(&self) -> Option<&Components> {
        self.components.as_deref()
    }

    /// Returns the connected components, or nothing where all cells form one component with a shift.
    pub fn components(&self, execute: &impl Execute) -> Option<Components> {
        if let Some(known) = self.known_components() {
            return Some(known.clone());
        }
        let shape = self.shape();
        if self.is_one_piece() {
            let is_anchored = self.is_anchored();
            return (!is_anchored).then(|| Components { all: AggregateMap::whole(shape), anchored: vec![false] });
        }
        let sets = self.joined(execute, Self::open_faces);
        let all = sets.aggregates(execute, shape, |row, is_active| self.find_active(row, is_active));
        let anchored = self.anchored(execute, &all);
        let is_regular = anchored.iter().all(|&anchored| anchored) && all.has_all_cells();
        (!is_regular).then_some(Components { all, anchored })
    }

    /// Makes the matrix of some of the connected components alone: the cells of all others become inactive. `components` are those of
    /// this matrix, whose coefficients are those of cells on the host, without a shift. Where all are kept, arrays are shared.
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
        let known = (all.cells() < self.shape().cells()).then(|| Arc::new(Components { all: all.clone(), anchored }));
        self.components = known;
        self
    }

    /// Makes the matrix with fixed values on both sides of an axis. It shares all arrays.
    #[doc(hidden)]
    #[must_use]
    pub fn between_sides(&self, axis: Axis, execute: &impl Execute) -> Self {
        let mut this = self.clone();
        this.sides[axis as usize] = [Side::Fixed; 2];
        this.components = self.components.as_ref().map(|known| {
            let anchored = this.anchored(execute, &known.all);
            Arc::new(Components { all: known.all.clone(), anchored })
        });
        this
    }

    /// Returns whether each of these components has a shift somewhere.
    fn anchored(&self, execute: &impl Execute, all: &AggregateMap) -> Vec<bool> {
        let anchored: Vec<AtomicBool> = (0..all.count()).map(|_| AtomicBool::new(false)).collect();
        self.for_each_rows(execute, |row| {
            self.for_each_shift_of_row(row, |cell, _| {
                if let Some(component) = all.aggregate(cell)
                    && !anchored[component].load(Ordering::Relaxed)
                {
                    anchored[component].store(true, Ordering::Relaxed);
                }
            });
        });
        anchored.into_iter().map(AtomicBool::into_inner).collect()
    }

    /// Returns Σ s over the cells of each component.
    pub fn ties(&self, components: &Components) -> Vec<f64> {
        let mut ties = vec![0.0; components.all.count()];
        self.for_each_shift(|cell, shift| {
            if let Some(component) = components.all.aggregate(cell) {
                ties[component] += shift;
            }
        });
        ties
    }

    /// Returns the connected bodies of one material: neighbours belong together where their half transmissibilities
    /// differ by less than a factor of ten.
    pub fn bodies(&self, execute: &impl Execute) -> AggregateMap {
        /// Coefficients within this factor are one material.
        const ONE_MATERIAL: f64 = 10.0;
        let sets = self.joined(execute, |stencil, axis, row, joined| {
            for (i, joined) in joined.iter_mut().enumerate() {
                let at = [i, row % stencil.shape().ny, row / stencil.shape().ny];
                let of = |upper| [stencil.half(axis, at), stencil.half(axis, upper)];
                let is_one = |[a, b]: [f64; 2]| a.min(b) > 0.0 && a.max(b) < ONE_MATERIAL * a.min(b);
                *joined = u8::from(stencil.upper(axis, at).map(of).is_some_and(is_one));
            }
        });
        sets.aggregates(execute, self.shape(), |row, is_active| self.find_active(row, is_active))
    }

    /// Calls `f` with the number of each row of cells, j + ny k.
    fn for_each_rows(&self, execute: &impl Execute, f: impl Fn(usize) + Sync) {
        let Shape { ny, nz, .. } = self.shape();
        let rows = ny * nz;
        execute.for_each(&mut vec![(); rows.div_ceil(ROWS)], |n, ()| (n * ROWS..rows.min((n + 1) * ROWS)).for_each(&f));
    }

    /// Joins cells with their upper neighbours where `find(self, axis, row, out)` leaves an entry other than 0.
    fn joined<E: Execute>(&self, execute: &E, find: impl Fn(&Self, Axis, usize, &mut [u8]) + Sync) -> DisjointSets {
        let Shape { nx, ny, nz } = self.shape();
        let mut sets = DisjointSets::new(execute, nx * ny * nz);
        let joins = sets.joins();
        let mut along = vec![0u8; nx * ny * nz];
        execute.prefer_large_pages(&along);
        execute.for_each(&mut along.chunks_mut(nx * ROWS).collect::<Vec<_>>(), |n, rows| {
            for (m, along) in rows.chunks_exact_mut(nx).enumerate() {
                let row = n * ROWS + m;
                find(self, Axis::X, row, along);
                joins.join_runs(along, (row * nx) as u32);
            }
        });
        self.for_each_rows(execute, |row| {
            let mut open = vec![0; nx];
            for (axis, [dj, dk]) in [(Axis::Y, [1, 0]), (Axis::Z, [0, 1])] {
                let upper = (row % ny + dj) % ny + ny * ((row / ny + dk) % nz);
                if upper == row {
                    continue;
                }
                find(self, axis, row, &mut open);
                // Nothing is left to join where the previous cells are joined, and each to its own.
                let (own, other) = (&along[row * nx..][..nx], &along[upper * nx..][..nx]);
                let mut before = 0;
                for (open, (own, other)) in open.iter_mut().zip(own.iter().zip(other)) {
                    let is_open = *open;
                    *open &= !before;
                    before = is_open & own & other;
                }
                for_each_set(&open, |i| {
                    joins.join((row * nx + i) as u32, (upper * nx + i) as u32);
                });
            }
        });
        sets
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::Serial;
    use crate::problem::random;
    use crate::stencil::Side;

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

    /// The components that a restricted matrix knows are those that a search finds.
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

    #[test]
    fn components_are_those_that_one_can_walk_through() {
        let shapes = [Shape::new(7, 5, 6), Shape::new(1, 9, 4), Shape::new(16, 1, 1), Shape::new(12, 11, 1)];
        let ring = [Side::Periodic; 2];
        let sides =
            [[[Side::Closed; 2]; 3], [ring, [Side::Closed; 2], ring], [[Side::Fixed, Side::Closed], ring, ring]];
        for (n, (shape, sides)) in shapes.iter().flat_map(|&shape| sides.map(|sides| (shape, sides))).enumerate() {
            for closed in [0.2, 0.5, 0.8] {
                let field: Vec<f64> = (0..shape.cells())
                    .map(|cell| if 0.5 * (random(n as u64, cell) + 1.0) < closed { 0.0 } else { 1.0 + cell as f64 })
                    .collect();
                let stencil = Diffusion::of_field(shape, field, [2.0; 3], None, sides).unwrap();
                let expected = walked(&stencil);
                let Some(Components { all, anchored }) = stencil.components(&Serial) else {
                    assert!(!expected.contains(&AggregateMap::NONE), "{shape}, {sides:?}");
                    continue;
                };
                assert_eq!(all.ids(), expected, "{shape}, {sides:?}");
                let ties = stencil.ties(&Components { all: all.clone(), anchored: anchored.clone() });
                for (component, &anchored) in anchored.iter().enumerate() {
                    let own = stencil.cells().filter(|&at| expected[stencil.cell(at)] as usize == component);
                    let tie: f64 = own.map(|at| stencil.shift(at)).sum();
                    assert_eq!(anchored, tie > 0.0);
                    assert!((ties[component] - tie).abs() <= 1e-12 * tie);
                }
            }
        }
    }
}
