//! A preconditioner with the constants of disconnected components as additional coarse vectors.

use std::sync::Arc;

use super::Preconditioner;
use crate::backend::AggregateBackend;
use crate::execute::rows;
use crate::operator::AggregateOperator;
use crate::operator::aggregate::Components;
use crate::traffic::{self, StepTraffic};
use crate::{AggregateMap, Host, Layout, Real, Result};

/// The preconditioner M⁻¹ with the constants of the connected components of a matrix, Z, as additional coarse vectors:
///
/// M⁻¹ + Z E⁻¹ Zᵀ,  E = Zᵀ A Z,
///
/// for components whose shifts are small beside their couplings; E is diagonal, their shifts. The mean of floating components is removed before and
/// after. Coarse grids do not separate components that are closer to each other than a coarse cell, and an almost free constant there is the
/// slowest vector of all.
///
/// Components of one cell are left out, as lines solve them exactly on every grid, and the largest if it has a shift, as coarse grids have it. A
/// single floating one needs nothing: r has no mean but for rounding, since neither the right-hand side nor A u has one; and the constant in z =
/// M⁻¹ r changes neither A z nor ⟨r, z⟩. It is removed from the solution at the end, and from z if its norm matters, in
/// [`project_out`](Preconditioner::project_out).
///
/// Storage if there are others: an n-vector besides the preconditioner's own.
pub struct Pieces<B: AggregateBackend, T: Real> {
    inner: Box<dyn Preconditioner<B, T>>,
    operator: Arc<dyn AggregateOperator<B, T>>,
    found: Option<Found<B, T>>,
}

struct Found<B: AggregateBackend, T: Real> {
    pieces: B::Aggregates,
    /// 1 / E of components whose shifts are small beside their couplings; 0 for others.
    inverses: B::AggregateVector,
    /// −1 / cells of floating components; 0 for others.
    means: B::AggregateVector,
    /// Whether there are components with a shift that is small beside their couplings.
    any_held: bool,
    /// Whether an iteration needs these coarse vectors.
    several: bool,
    /// See [`Components::is_one_floating`].
    is_one_floating: bool,
    r: B::Vector<T>,
    sums: B::AggregateVector,
    scaled: B::AggregateVector,
    /// E⁻¹ Zᵀ r
    coarse: B::AggregateVector,
}

impl<B: AggregateBackend, T: Real> Found<B, T> {
    fn new(operator: &dyn AggregateOperator<B, T>, components: Option<Components>) -> Result<Option<Self>> {
        let Some(components) = components else { return Ok(None) };
        let is_one_floating = components.is_one_floating();
        let Components { all, anchored } = components;
        let sizes = all.sizes();
        let largest = (0..sizes.len()).max_by_key(|&piece| sizes[piece]);
        // 1 / E or −1 / cells of the components that are treated.
        let of_floating =
            |(&size, &is_held): (&usize, &bool)| (size > 1 && !is_held).then(|| [0.0, -1.0 / size as f64]);
        let mut of_piece: Vec<Option<[f64; 2]>> = sizes.iter().zip(&anchored).map(of_floating).collect();
        let may_be_weak = |&piece: &usize| sizes[piece] > 1 && anchored[piece] && Some(piece) != largest;
        let held: Vec<usize> = (0..sizes.len()).filter(may_be_weak).collect();
        if !held.is_empty() {
            let ties = ties(operator, &all)?;
            for (piece, [tie, diagonal]) in held.into_iter().map(|piece| (piece, ties[piece])) {
                of_piece[piece] = (tie > 0.0 && tie < WEAK * diagonal).then(|| [1.0 / tie, 0.0]);
            }
        }
        let kept: Vec<bool> = of_piece.iter().map(Option::is_some).collect();
        let (inverses, means): (Vec<f64>, Vec<f64>) = of_piece.into_iter().flatten().map(|[a, b]| (a, b)).unzip();
        let count = means.len();
        if count == 0 {
            return Ok(None);
        }
        // The largest alone, if it floats, needs nothing during an iteration.
        let several = count > 1 || largest.is_some_and(|largest| !kept[largest]);
        let (backend, layout, pieces) = (operator.backend(), operator.layout(), all.of_kept(&kept, &Host));
        let numbers = |from: &[f64]| -> Result<B::AggregateVector> {
            let mut numbers = backend.aggregate_vector(count)?;
            backend.write_aggregated(from, &mut numbers)?;
            Ok(numbers)
        };
        let any_held = inverses.iter().any(|&inverse| inverse > 0.0);
        let pieces = backend.aggregates(&pieces.on(operator.layout())?)?;
        let r = backend.zeros(&if several { *layout } else { Layout::smallest()? })?;
        Ok(Some(Self {
            pieces,
            inverses: numbers(&inverses)?,
            means: numbers(&means)?,
            any_held,
            several,
            is_one_floating,
            r,
            sums: backend.aggregate_vector(count)?,
            scaled: backend.aggregate_vector(count)?,
            coarse: backend.aggregate_vector(count)?,
        }))
    }

    fn apply(
        &mut self,
        backend: &B,
        inner: &mut dyn Preconditioner<B, T>,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
    ) -> Result<()> {
        let Self { pieces, inverses, means, sums, scaled, coarse, .. } = self;
        backend.aggregate_sums(r, pieces, sums)?;
        backend.aggregate_scale(inverses, sums, coarse)?;
        backend.aggregate_scale(means, sums, scaled)?;
        backend.plus_aggregated(pieces, scaled, r, &mut self.r)?;
        inner.apply(&mut self.r, z)?;
        self.remove_means(backend, z)?;
        if self.any_held { backend.add_aggregated(&self.pieces, &self.coarse, z) } else { Ok(()) }
    }

    /// Subtracts from z its means over floating components.
    fn remove_means(&mut self, backend: &B, z: &mut B::Vector<T>) -> Result<()> {
        backend.aggregate_sums(z, &self.pieces, &mut self.sums)?;
        backend.aggregate_scale(&self.means, &self.sums, &mut self.scaled)?;
        backend.add_aggregated(&self.pieces, &self.scaled, z)
    }
}

/// A component whose shift is less than this part of its diagonal has a constant that is reduced slowly.
const WEAK: f64 = 0.05;

/// Returns 1ᵀ A 1 and the sum of the diagonal of each component. With x = ±1 in turn, xᵀ A x is twice the latter less the former.
fn ties<B: AggregateBackend, T: Real>(
    operator: &dyn AggregateOperator<B, T>,
    pieces: &AggregateMap,
) -> Result<Vec<[f64; 2]>> {
    let (backend, layout, shape) = (operator.backend(), operator.layout(), pieces.shape());
    let (ids, count) = (pieces.ids(), 2 * pieces.count());
    let halves = rows(&Host, ids.len(), shape.nx, |row, halves: &mut [u32]| {
        let (first, of_row) = (row % shape.ny + row / shape.ny, &ids[row * shape.nx..]);
        for ((half, &id), n) in halves.iter_mut().zip(of_row).zip(first..) {
            *half = if id == AggregateMap::NONE { id } else { 2 * id + (n % 2) as u32 };
        }
    });
    let halves = backend.aggregates(&AggregateMap::from_parts(shape, halves, count).on(operator.layout())?)?;
    let mut numbers = backend.aggregate_vector(count)?;
    let mut products = |sign: f64| -> Result<Vec<f64>> {
        let (mut x, mut product) = (backend.zeros(layout)?, backend.zeros(layout)?);
        backend.write_aggregated(&[1.0, sign].repeat(count / 2), &mut numbers)?;
        backend.add_aggregated(&halves, &numbers, &mut x)?;
        operator.apply(&mut x, &mut product)?;
        backend.aggregate_sums(&product, &halves, &mut numbers)?;
        let mut sums = vec![0.0; count];
        backend.read_aggregated(&numbers, &mut sums)?;
        Ok(sums.as_chunks().0.iter().map(|[red, black]| red + sign * black).collect())
    };
    let (ones, signs) = (products(1.0)?, products(-1.0)?);
    Ok(ones.into_iter().zip(signs).map(|(tie, alternating)| [tie, 0.5 * (tie + alternating)]).collect())
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
            Some(found) if found.several => found.apply(self.operator.backend(), &mut *self.inner, r, z),
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
            // The two sums, and additions, one of them to another vector.
            let additions = if found.any_held { 3.0 } else { 2.0 };
            steps.extend([step(traffic::NORM, 2.0), step(traffic::AXPY, additions)]);
        }
        steps
    }

    fn workspace_bytes(&self) -> usize {
        let vectors = self.found.as_ref().map_or(0, |found| usize::from(found.several));
        vectors * self.operator.layout().len() * size_of::<T>() + self.inner.workspace_bytes()
    }
}
