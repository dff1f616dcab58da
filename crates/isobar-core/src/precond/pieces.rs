//! A preconditioner with the constants of disconnected components projected out.

use std::sync::Arc;

use super::Preconditioner;
use crate::backend::AggregateBackend;
use crate::operator::AggregateOperator;
use crate::operator::aggregate::Components;
use crate::traffic::{self, StepTraffic};
use crate::{Layout, Ratio, Real, Result, Scalar};

/// A scalar that is not read.
const UNUSED: Scalar = Scalar::new(0);

/// The preconditioner M⁻¹ inside a deflation of the constants Z of the connected components of a matrix, with E = Zᵀ A Z
/// (diagonal: each component's shift):
///
/// Q + (I − Q A) M⁻¹ (I − A Q),  Q = Z E⁻¹ Zᵀ,
///
/// with the mean of floating components removed before and after. Coarse grids do not separate components that are closer
/// to each other than a coarse cell, and an almost free constant there is the slowest vector of all.
///
/// A single component needs none of this. Where it floats, r has no mean but for rounding, since neither the right-hand
/// side nor A u has one; and the constant in z = M⁻¹ r changes neither A z nor ⟨r, z⟩. It is removed from the solution at
/// the end, and from z where its norm matters, in [`project_out`](Preconditioner::project_out).
///
/// Storage where there is more than one component: 2 n-vectors besides the preconditioner's own, 1 if all of them float.
pub struct Pieces<B: AggregateBackend, T: Real> {
    inner: Box<dyn Preconditioner<B, T>>,
    operator: Arc<dyn AggregateOperator<B, T>>,
    found: Option<Found<B, T>>,
}

struct Found<B: AggregateBackend, T: Real> {
    pieces: B::Aggregates,
    /// 1 / E and −1 / E; 0 for floating components.
    inverses: [B::AggregateVector; 2],
    /// −1 / cells of floating components; 0 for others.
    means: B::AggregateVector,
    /// Whether the constants of components that do not float are deflated.
    deflates: bool,
    /// Whether there are several components.
    several: bool,
    /// See [`Components::is_one_floating`].
    is_one_floating: bool,
    r: B::Vector<T>,
    product: B::Vector<T>,
    sums: B::AggregateVector,
    scaled: B::AggregateVector,
    /// E⁻¹ Zᵀ r
    coarse: B::AggregateVector,
    scalars: B::Scalars,
}

impl<B: AggregateBackend, T: Real> Found<B, T> {
    fn new(operator: &dyn AggregateOperator<B, T>, components: Option<Components>) -> Result<Option<Self>> {
        let Some(components) = components else { return Ok(None) };
        let is_one_floating = components.is_one_floating();
        let count = components.all.count();
        let floats = |piece: usize| !components.anchored[piece];
        let several = count > 1;
        if !several && !(0..count).any(floats) {
            return Ok(None);
        }
        let deflates = several && !(0..count).all(floats);
        let sizes = components.all.sizes().into_iter().enumerate();
        let means: Vec<f64> = sizes.map(|(n, size)| if floats(n) { -1.0 / size as f64 } else { 0.0 }).collect();
        let (backend, layout) = (operator.backend(), operator.layout());
        let numbers = |from: &[f64]| -> Result<B::AggregateVector> {
            let mut numbers = backend.aggregate_vector(count)?;
            backend.write_aggregated(from, &mut numbers)?;
            Ok(numbers)
        };
        let space = |is_needed| if is_needed { Ok(*layout) } else { Layout::smallest() };
        let (mut r, mut product) = (backend.zeros(&space(several)?)?, backend.zeros(&space(deflates)?)?);
        let pieces = backend.aggregates(&operator.own_cells(components.all)?)?;
        let (mut sums, mut inverses) = (backend.aggregate_vector(count)?, vec![0.0; count]);
        if deflates {
            // E = Zᵀ A Z, as A maps the constant of a component to its shift.
            backend.add_aggregated(&pieces, &numbers(&vec![1.0; count])?, &mut r)?;
            operator.apply(&mut r, &mut product)?;
            backend.aggregate_sums(&product, &pieces, &mut sums)?;
            let mut ties = vec![0.0; count];
            backend.read_aggregated(&sums, &mut ties)?;
            for ((inverse, tie), &anchored) in inverses.iter_mut().zip(ties).zip(&components.anchored) {
                *inverse = if anchored && tie > 0.0 { 1.0 / tie } else { 0.0 };
            }
        }
        let negative: Vec<f64> = inverses.iter().map(|inverse| -inverse).collect();
        Ok(Some(Self {
            pieces,
            inverses: [numbers(&inverses)?, numbers(&negative)?],
            means: numbers(&means)?,
            deflates,
            several,
            is_one_floating,
            r,
            product,
            sums,
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
        let Self { pieces, inverses: [inverse, _], means, sums, scaled, coarse, .. } = self;
        backend.aggregate_sums(r, pieces, sums)?;
        backend.aggregate_scale(means, sums, scaled)?;
        backend.plus_aggregated(pieces, scaled, r, &mut self.r)?;
        if self.deflates {
            backend.aggregate_scale(inverse, sums, coarse)?;
            if operator.subtracts_aggregated() {
                operator.subtract_aggregated(pieces, coarse, r, &mut self.r, UNUSED.of(&mut self.scalars))?;
            } else {
                backend.clear(&mut self.product)?;
                backend.add_aggregated(pieces, coarse, &mut self.product)?;
                operator.apply(&mut self.product, z)?;
                backend.axpy(Ratio::ONE.negated(), z, &mut self.r, &self.scalars)?;
            }
        }
        inner.apply(&mut self.r, z)?;
        if self.deflates {
            // z keeps its means, which A maps to zero.
            operator.apply(z, &mut self.product)?;
        }
        self.remove_means(backend, z)?;
        if self.deflates {
            let Self { pieces, inverses: [_, negative], sums, scaled, coarse, product, .. } = self;
            backend.aggregate_sums(product, pieces, sums)?;
            backend.aggregate_scale(negative, sums, scaled)?;
            backend.add_aggregated(pieces, coarse, z)?;
            backend.add_aggregated(pieces, scaled, z)?;
        }
        Ok(())
    }

    /// Subtracts from z its means over floating components.
    fn remove_means(&mut self, backend: &B, z: &mut B::Vector<T>) -> Result<()> {
        backend.aggregate_sums(z, &self.pieces, &mut self.sums)?;
        backend.aggregate_scale(&self.means, &self.sums, &mut self.scaled)?;
        backend.add_aggregated(&self.pieces, &self.scaled, z)
    }
}

impl<B: AggregateBackend, T: Real> Pieces<B, T> {
    /// Wraps a preconditioner of a matrix.
    ///
    /// # Errors
    /// The errors of finding the components; see [`Backend::zeros`](crate::backend::Backend::zeros).
    pub fn new(inner: Box<dyn Preconditioner<B, T>>, operator: Arc<dyn AggregateOperator<B, T>>) -> Result<Self> {
        let found = Found::new(&*operator, operator.components()?)?;
        Ok(Self { inner, operator, found })
    }
}

impl<B: AggregateBackend, T: Real> Preconditioner<B, T> for Pieces<B, T> {
    fn backend(&self) -> &B {
        self.inner.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        match &mut self.found {
            Some(found) if found.several => found.apply(&*self.operator, &mut *self.inner, r, z),
            _ => self.inner.apply(r, z),
        }
    }

    fn project_out(&mut self, z: &mut B::Vector<T>) -> Result<()> {
        match &mut self.found {
            Some(found) if !found.several => found.remove_means(self.operator.backend(), z),
            _ => Ok(()),
        }
    }

    fn is_strong(&self) -> bool {
        self.inner.is_strong()
    }

    fn update(&mut self) -> Result<()> {
        let components = self.operator.components()?;
        let was_one_floating = self.found.as_ref().is_some_and(|found| found.is_one_floating);
        if !Components::stay_one_floating(was_one_floating, components.as_ref()) {
            self.found = Found::new(&*self.operator, components)?;
        }
        self.inner.update()
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        let Some(inner) = self.inner.another()? else { return Ok(None) };
        Ok(Some(Box::new(Self::new(inner, Arc::clone(&self.operator))?)))
    }

    fn is_variable(&self) -> bool {
        self.inner.is_variable()
    }

    fn needs_host(&self) -> bool {
        let sums_on_host = self.found.is_some() && self.operator.backend().sums_on_host();
        self.inner.needs_host() || sums_on_host
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let mut steps = self.inner.apply_traffic(cells);
        if let Some(found) = self.found.as_ref().filter(|found| found.several) {
            let step = |step, count: f64| {
                let vectors = self.operator.coefficient_vectors();
                StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count)
            };
            // The two sums and two additions, one of them to another vector.
            steps.extend([step(traffic::NORM, 2.0), step(traffic::AXPY, 2.0)]);
            if found.deflates {
                steps.push(step(traffic::APPLY, 2.0));
            }
        }
        steps
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = self.found.as_ref().map_or(0, |found| usize::from(found.several) + usize::from(found.deflates));
        vectors * self.operator.layout().len() * size_of::<T>() + self.inner.workspace_bytes()
    }
}
