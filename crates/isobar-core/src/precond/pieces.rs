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
    /// 1 / E; 0 of pieces that float.
    inverses: Vec<f64>,
    /// Cells of pieces that float; 0 of others.
    sizes: Vec<usize>,
    /// Whether constants are taken out of pieces that do not float.
    deflates: bool,
    r: B::Vector<T>,
    product: B::Vector<T>,
    sums: B::AggregateVector,
    host: Vec<f64>,
    /// Q r by piece.
    coarse: Vec<f64>,
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
        let sizes = components.all.sizes().into_iter().enumerate().map(|(n, size)| if floats(n) { size } else { 0 });
        let (backend, layout) = (operator.backend(), operator.layout());
        let product = if deflates { *layout } else { crate::layout::Layout::smallest()? };
        Ok(Some(Self {
            pieces: backend.aggregates(&components.all)?,
            inverses,
            sizes: sizes.collect(),
            deflates,
            r: backend.zeros(layout)?,
            product: backend.zeros(&product)?,
            sums: backend.aggregate_vector(count)?,
            host: vec![0.0; count],
            coarse: vec![0.0; count],
            scalars: backend.scalars()?,
        }))
    }

    /// Σ over each piece, to the host.
    fn add_up(&mut self, backend: &B, of_product: bool, x: &B::Vector<T>) -> Result<()> {
        let Self { pieces, product, sums, host, .. } = self;
        backend.aggregate_sums(if of_product { product } else { x }, pieces, sums)?;
        backend.read_aggregated(sums, host)
    }

    fn apply(
        &mut self,
        operator: &dyn AggregateOperator<B, T>,
        inner: &mut dyn Preconditioner<B, T>,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
    ) -> Result<()> {
        let backend = operator.backend();
        self.add_up(backend, false, r)?;
        for (n, sum) in self.host.iter_mut().enumerate() {
            self.coarse[n] = *sum * self.inverses[n];
            *sum = if self.sizes[n] > 0 { -*sum / self.sizes[n] as f64 } else { 0.0 };
        }
        backend.convert(r, &mut self.r)?;
        backend.write_aggregated(&self.host, &mut self.sums)?;
        backend.add_aggregated(&self.pieces, &self.sums, &mut self.r)?;
        if self.deflates {
            backend.write_aggregated(&self.coarse, &mut self.sums)?;
            operator.subtract_aggregated(&self.pieces, &self.sums, r, &mut self.r, UNUSED, &mut self.scalars)?;
        }
        inner.apply(&self.r, z)?;
        self.add_up(backend, false, z)?;
        for (mean, &size) in self.host.iter_mut().zip(&self.sizes) {
            *mean = if size > 0 { -*mean / size as f64 } else { 0.0 };
        }
        if self.deflates {
            operator.apply(z, &mut self.product)?;
            backend.write_aggregated(&self.host, &mut self.sums)?;
            backend.add_aggregated(&self.pieces, &self.sums, z)?;
            self.add_up(backend, true, r)?;
            for n in 0..self.host.len() {
                self.host[n] = self.coarse[n] - self.host[n] * self.inverses[n];
            }
        }
        backend.write_aggregated(&self.host, &mut self.sums)?;
        backend.add_aggregated(&self.pieces, &self.sums, z)
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
        self.found.is_some() || self.inner.needs_host()
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let mut steps = self.inner.apply_traffic(cells);
        if let Some(found) = &self.found {
            let step = |step, count: f64| {
                let vectors = self.operator.coefficient_vectors();
                StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count)
            };
            // Two sums and two additions, and r copied.
            steps.extend([step(traffic::COPY, 1.0), step(traffic::NORM, 2.0), step(traffic::AXPY, 2.0)]);
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
