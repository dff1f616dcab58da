//! A preconditioner with the constants of disconnected pieces taken out.

use std::sync::Arc;

use super::Preconditioner;
use crate::backend::{AggregateBackend, Scalar};
use crate::error::Result;
use crate::operator::AggregateOperator;
use crate::real::Real;
use crate::traffic::{self, StepTraffic};

/// Not looked at.
const UNUSED: Scalar = Scalar::new(0);

/// M⁻¹ inside a deflation of the constants Z of the pieces that a matrix falls into, E = Zᵀ A Z (diagonal: what a piece is
/// tied to by):
///
/// Q + (I − Q A) M⁻¹ (I − A Q),  Q = Z E⁻¹ Zᵀ,
///
/// with the mean taken out before and after over pieces that are tied to nothing. Coarse grids know nothing of pieces that
/// are closer to each other than their cells are wide, and a constant that is next to free there is the slowest vector of
/// all. A single piece that is tied to something needs none of this.
///
/// Storage: 2 n-vectors beside the preconditioner's own, where there is more than one piece, 1 where one floats.
pub struct Pieces<B: AggregateBackend, T: Real> {
    inner: Box<dyn Preconditioner<B, T>>,
    operator: Arc<dyn AggregateOperator<B, T>>,
    found: Option<Found<B, T>>,
}

struct Found<B: AggregateBackend, T: Real> {
    pieces: B::Aggregates,
    /// 1 / E and −1 / E; 0 of pieces that float.
    inverses: [B::AggregateVector; 2],
    /// −1 / cells of pieces that float; 0 of others.
    means: B::AggregateVector,
    /// Whether constants are taken out of pieces that do not float.
    deflates: bool,
    r: B::Vector<T>,
    product: B::Vector<T>,
    sums: B::AggregateVector,
    scaled: B::AggregateVector,
    /// E⁻¹ Zᵀ r
    coarse: B::AggregateVector,
    scalars: B::Scalars,
}

impl<B: AggregateBackend, T: Real> Found<B, T> {
    fn new(operator: &dyn AggregateOperator<B, T>) -> Result<Option<Self>> {
        let Some(components) = operator.components()? else { return Ok(None) };
        let count = components.all.count();
        let floats = |piece: usize| !components.anchored[piece];
        let deflates = count > 1 && !(0..count).all(floats);
        if count == 0 || (!deflates && !(0..count).any(floats)) {
            return Ok(None);
        }
        let mut inverses = vec![0.0; count];
        if deflates {
            for entry in operator.galerkin(&components.all)? {
                let is_tied = entry.row == entry.column && components.anchored[entry.row] && entry.value > 0.0;
                if is_tied {
                    inverses[entry.row] = 1.0 / entry.value;
                }
            }
        }
        let sizes = components.all.sizes().into_iter().enumerate();
        let means: Vec<f64> = sizes.map(|(n, size)| if floats(n) { -1.0 / size as f64 } else { 0.0 }).collect();
        let negative: Vec<f64> = inverses.iter().map(|inverse| -inverse).collect();
        let (backend, layout) = (operator.backend(), operator.layout());
        let numbers = |from: &[f64]| -> Result<B::AggregateVector> {
            let mut numbers = backend.aggregate_vector(count)?;
            backend.write_aggregated(from, &mut numbers)?;
            Ok(numbers)
        };
        let product = if deflates { *layout } else { crate::layout::Layout::smallest()? };
        Ok(Some(Self {
            pieces: backend.aggregates(&components.all)?,
            inverses: [numbers(&inverses)?, numbers(&negative)?],
            means: numbers(&means)?,
            deflates,
            r: backend.zeros(layout)?,
            product: backend.zeros(&product)?,
            sums: backend.aggregate_vector(count)?,
            scaled: backend.aggregate_vector(count)?,
            coarse: backend.aggregate_vector(count)?,
            scalars: backend.scalars()?,
        }))
    }

    fn apply(
        &mut self,
        operator: &dyn AggregateOperator<B, T>,
        inner: &mut dyn Preconditioner<B, T>,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
    ) -> Result<()> {
        let backend = operator.backend();
        let Self { pieces, inverses: [inverse, negative], means, sums, scaled, coarse, .. } = self;
        backend.aggregate_sums(r, pieces, sums)?;
        backend.aggregate_scale(means, sums, scaled)?;
        backend.plus_aggregated(pieces, scaled, r, &mut self.r)?;
        if self.deflates {
            backend.aggregate_scale(inverse, sums, coarse)?;
            operator.subtract_aggregated(pieces, coarse, r, &mut self.r, UNUSED, &mut self.scalars)?;
        }
        inner.apply(&self.r, z)?;
        backend.aggregate_sums(z, pieces, sums)?;
        backend.aggregate_scale(means, sums, scaled)?;
        if self.deflates {
            // Of z with its means, which A does not see.
            operator.apply(z, &mut self.product)?;
            backend.add_aggregated(pieces, scaled, z)?;
            backend.aggregate_sums(&self.product, pieces, sums)?;
            backend.aggregate_scale(negative, sums, scaled)?;
            backend.add_aggregated(pieces, coarse, z)?;
        }
        backend.add_aggregated(pieces, scaled, z)
    }
}

impl<B: AggregateBackend, T: Real> Pieces<B, T> {
    /// Around a preconditioner of a matrix.
    ///
    /// # Errors
    /// What finding the pieces reports; as [`Backend::zeros`](crate::backend::Backend::zeros).
    pub fn new(inner: Box<dyn Preconditioner<B, T>>, operator: Arc<dyn AggregateOperator<B, T>>) -> Result<Self> {
        let found = Found::new(&*operator)?;
        Ok(Self { inner, operator, found })
    }
}

impl<B: AggregateBackend, T: Real> Preconditioner<B, T> for Pieces<B, T> {
    fn backend(&self) -> &B {
        self.inner.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        match &mut self.found {
            Some(found) => found.apply(&*self.operator, &mut *self.inner, r, z),
            None => self.inner.apply(r, z),
        }
    }

    fn update(&mut self) -> Result<()> {
        self.found = Found::new(&*self.operator)?;
        self.inner.update()
    }

    fn is_variable(&self) -> bool {
        self.inner.is_variable()
    }

    fn needs_host(&self) -> bool {
        self.inner.needs_host()
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let mut steps = self.inner.apply_traffic(cells);
        if let Some(found) = &self.found {
            let step = |step, count: f64| {
                let vectors = self.operator.coefficient_vectors();
                StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count)
            };
            // Two sums and two additions, one of them to another vector.
            steps.extend([step(traffic::NORM, 2.0), step(traffic::AXPY, 2.0)]);
            if found.deflates {
                steps.push(step(traffic::APPLY, 2.0));
            }
        }
        steps
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = self.found.as_ref().map_or(0, |found| 1 + usize::from(found.deflates));
        vectors * self.operator.layout().len() * size_of::<T>() + self.inner.workspace_bytes()
    }
}
