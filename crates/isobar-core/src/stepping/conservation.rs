//! The heat of components that exchange none with their surroundings.

use crate::Result;
use crate::build::{Solve, System};
use crate::execute::Host;
use crate::operator::Operator;
use crate::stencil::{Diffusion, Stencil, Supports};

/// The components that nothing fixes: without a side with a value, a Robin side, a reaction or a well. In these K has the null space of constants, so
/// that a step conserves their heat but for sources: Σ c M w = Σ b. A residual within the tolerance may hide an error of that sum: the matrix
/// K + c M of a long step is nearly singular. A constant for each component corrects it.
pub(super) struct Conservation<B: Supports<Diffusion>> {
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
    /// Finds the components on the solver's grid; returns nothing if there are none. `factor` is c times the volume of all cells, and `mass` is c M
    /// if volumes differ.
    pub(super) fn new(
        backend: &B,
        stiffness: &Diffusion,
        system: &System<B, Diffusion>,
        mass: Option<&dyn Operator<B, f64>>,
        [c, factor]: [f64; 2],
    ) -> Result<Option<Self>> {
        let stiffness = stiffness.around(system.turns())?;
        let Some(operator) = system.capabilities.aggregates.clone() else { return Ok(None) };
        let Some(components) = backend.enter(|| stiffness.components(&Host)) else { return Ok(None) };
        let map = components.floating();
        let sizes = map.sizes();
        if sizes.is_empty() {
            return Ok(None);
        }
        let mut sums = backend.aggregate_vector(sizes.len())?;
        let aggregates = backend.aggregates(&map.on(operator.layout())?)?;
        let mut masses: Vec<f64> = sizes.iter().map(|&size| size as f64 * factor).collect();
        let mut product = None;
        if let Some(mass) = mass {
            // c M times 1 in each component.
            let (mut ones, mut found) = (backend.zeros(&system.layout)?, backend.zeros(&system.layout)?);
            backend.write_aggregated(&vec![1.0; sizes.len()], &mut sums)?;
            backend.add_aggregated(&aggregates, &sums, &mut ones)?;
            mass.apply(&mut ones, &mut found)?;
            backend.aggregate_sums(&found, &aggregates, &mut sums)?;
            backend.read_aggregated(&sums, &mut masses)?;
            product = Some(found);
        }
        masses.iter_mut().for_each(|mass| *mass /= c);
        let cells: usize = sizes.iter().sum();
        let stiffness = stiffness.largest_row() * cells as f64 / masses.iter().sum::<f64>();
        let host = [vec![0.0; sizes.len()], vec![0.0; sizes.len()]];
        Ok(Some(Self { aggregates, sums, product, stiffness, masses, host }))
    }

    /// Adds the constants to w, the solution of (K + c M) w = b; the arguments are those of [`Conservation::new`].
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
