//! The heat of components that exchange none with their surroundings.

use crate::build::{Solve, System};
use crate::operator::Operator;
use crate::problem::{Heat, Mass};
use crate::stencil::turns::Turns;
use crate::stencil::{Diffusion, Side, Supports};
use crate::{AggregateMap, Result};

/// The components of a grid that nothing fixes: no side with a value, no Robin side, reaction or well. In these K has the null space of constants, so
/// that a step conserves their heat but for sources: Σ c M w = Σ b. A residual within the tolerance may hide an error of that sum: the matrix
/// K + c M of a long step is nearly singular. A constant for each component corrects it.
pub(super) struct Conservation<B: Supports<Diffusion>> {
    map: AggregateMap,
    aggregates: B::Aggregates,
    sums: B::AggregateVector,
    /// M w, if volumes differ.
    product: Option<B::Vector<f64>>,
    /// The largest diagonal entry of K in relation to the mean of M, below which direct solves of a step conserve heat by themselves.
    stiffness: f64,
    /// Σ M of each component.
    masses: Vec<f64>,
    /// Σ b and Σ c M w of each component.
    host: [Vec<f64>; 2],
}

/// The largest ratio of K to c M for which a direct solve loses no more than a few digits of the heat.
const PRECISE: f64 = 1e3;

impl<B: Supports<Diffusion>> Conservation<B> {
    /// Finds the components; returns nothing if something fixes values, or if the solver's grid is not the caller's.
    pub(super) fn new(backend: &B, heat: &Heat, system: &System<B, Diffusion>) -> Result<Option<Self>> {
        let stiffness = &heat.stiffness;
        let is_fixed = stiffness.sides().as_flattened().contains(&Side::Fixed) || stiffness.has_shift();
        let Some(operator) =
            system.capabilities.aggregates.clone().filter(|_| !is_fixed && system.turns() == Turns::ONE)
        else {
            return Ok(None);
        };
        let Some(components) = backend.enter(|| stiffness.components(&crate::execute::Host)) else { return Ok(None) };
        let map = components.floating();
        let count = map.sizes().len();
        let mut this = Self {
            aggregates: backend.aggregates(&operator.own_cells(map.clone())?)?,
            sums: backend.aggregate_vector(count)?,
            product: matches!(heat.mass, Mass::Given(_)).then(|| backend.zeros(&system.layout)).transpose()?,
            stiffness: 0.0,
            masses: Vec::new(),
            host: [vec![0.0; count], vec![0.0; count]],
            map,
        };
        this.set_masses(heat);
        Ok(Some(this))
    }

    /// Computes Σ M, and again for another problem.
    pub(super) fn set_masses(&mut self, heat: &Heat) {
        self.masses = match &heat.mass {
            Mass::Uniform(volume) => self.map.sizes().into_iter().map(|size| size as f64 * volume).collect(),
            Mass::Given(volumes) => {
                let mut masses = vec![0.0; self.masses.len().max(self.host[0].len())];
                let of_cells = (0..volumes.len()).filter_map(|cell| Some((self.map.aggregate(cell)?, volumes[cell])));
                of_cells.for_each(|(component, volume)| masses[component] += volume);
                masses
            }
        };
        let cells: usize = self.map.sizes().iter().sum();
        self.stiffness = heat.stiffness.largest_row() * cells as f64 / self.masses.iter().sum::<f64>();
    }

    /// Adds the constants to w, the solution of (K + c M) w = b: `factor` is c times the volume of all cells, and `mass` is c M if volumes differ.
    pub(super) fn restore(
        &mut self,
        backend: &B,
        system: &mut System<B, Diffusion>,
        mass: Option<&dyn Operator<B, f64>>,
        [c, factor]: [f64; 2],
    ) -> Result<()> {
        if system.description().method == "direct" && self.stiffness < PRECISE * c {
            return Ok(());
        }
        let Self { aggregates, sums, product, masses, host: [of_b, of_w], .. } = self;
        let (b, w) = system.vectors_mut();
        backend.aggregate_sums(b, aggregates, sums)?;
        backend.read_aggregated(sums, of_b)?;
        let factor = match (mass, product) {
            (Some(mass), Some(product)) => {
                mass.apply(w, product)?;
                backend.aggregate_sums(product, aggregates, sums)?;
                1.0
            }
            _ => {
                backend.aggregate_sums(w, aggregates, sums)?;
                factor
            }
        };
        backend.read_aggregated(sums, of_w)?;
        for ((missing, of_w), mass) in of_b.iter_mut().zip(of_w).zip(masses) {
            *missing = (*missing - factor * *of_w) / (c * *mass);
        }
        if of_b.iter().any(|missing| !missing.is_finite()) {
            return Ok(());
        }
        backend.write_aggregated(of_b, sums)?;
        backend.add_aggregated(aggregates, sums, w)
    }
}
