//! Aggregates of the diffusion operator's cells: connected components, bodies of one material, and E = Zᵀ A Z.

use std::collections::HashMap;

use super::{Axis, Diffusion, Stencil};
use crate::backend::AggregateMap;
use crate::disjoint_sets::DisjointSets;
use crate::operator::aggregate::{Components, Entry};

impl Diffusion {
    /// The connected components; nothing where all cells are active, joined, and tied to something fixed.
    pub fn components(&self) -> Option<Components> {
        let shape = self.shape();
        if self.is_one_piece() {
            let is_anchored = self.is_anchored();
            return (!is_anchored).then(|| Components { all: AggregateMap::whole(shape), anchored: vec![false] });
        }
        let mut sets = DisjointSets::new(shape.cells());
        self.for_each_open_face(|lower, upper, _| sets.union(lower, upper));
        let active: Vec<bool> = self.cells().map(|at| self.is_active(at)).collect();
        let all = sets.aggregates(shape, |cell| active[cell]);
        let mut anchored = vec![false; all.count()];
        self.for_each_shift(|cell, _| {
            if let Some(component) = all.aggregate(cell) {
                anchored[component] = true;
            }
        });
        let is_regular = anchored.iter().all(|&anchored| anchored) && active.iter().all(|&active| active);
        (!is_regular).then_some(Components { all, anchored })
    }

    /// Connected bodies: neighbours belong together where their half transmissibilities differ by less than a factor of
    /// ten.
    pub fn bodies(&self) -> AggregateMap {
        /// Coefficients that differ less than so many times are one material.
        const ONE_MATERIAL: f64 = 10.0;
        let mut sets = DisjointSets::new(self.shape().cells());
        for at in self.cells() {
            for axis in Axis::ALL {
                let Some(upper) = self.upper(axis, at) else { continue };
                let (a, b) = (self.half(axis, at), self.half(axis, upper));
                if a.min(b) > 0.0 && a.max(b) < ONE_MATERIAL * a.min(b) {
                    sets.union(self.cell(at), self.cell(upper));
                }
            }
        }
        let active: Vec<bool> = self.cells().map(|at| self.is_active(at)).collect();
        sets.aggregates(self.shape(), |cell| active[cell])
    }

    /// E = Zᵀ A Z, as [`AggregateOperator::galerkin`](crate::operator::AggregateOperator::galerkin) has it.
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
