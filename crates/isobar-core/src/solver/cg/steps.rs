//! The operator's steps of conjugate gradients, for vectors r, z and q in its precision or in single precision.

use std::sync::Arc;

use crate::backend::AggregateBackend;
use crate::operator::{Direction, Operator};
use crate::precond::{Deflation, Preconditioner};
use crate::traffic::{self, Traffic};
use crate::{Backend, Real, Result, Sum};

/// A vector of a back end.
type Vector<B, T> = <B as Backend>::Vector<T>;
/// b, u and r.
type System<'v, B, T, S> = (&'v Vector<B, T>, &'v mut Vector<B, T>, &'v mut Vector<B, S>);

/// The steps of an operator in precision T, for an iteration whose r, z and q are in precision S.
pub(super) trait Steps<B: AggregateBackend, T: Real, S: Real>: Send {
    /// Returns the operator.
    fn operator(&self) -> &Arc<dyn Operator<B, T>>;

    /// Returns whether the search direction needs a second vector, see [`Operator::needs_next_direction`].
    fn needs_next_direction(&self) -> Result<bool>;

    /// r = b − A u;  ‖r‖²
    fn residual(&mut self, system: System<'_, B, T, S>, norm: Sum<'_, B>) -> Result<()>;

    /// u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩
    fn advance(&mut self, v: Direction<'_, Vector<B, T>, Vector<B, S>>, scalars: &mut B::Scalars) -> Result<()>;

    /// Computes z = M⁻¹ r of vectors of the operator's precision; `own` are the iteration's.
    fn precondition(
        &self,
        preconditioner: &mut dyn Preconditioner<B, S>,
        vectors: [&mut Vector<B, T>; 2],
        own: [&mut Vector<B, S>; 2],
    ) -> Result<()>;

    /// Returns whether rounding separates r from b − A u, so that it has to be computed again on the way.
    fn rounds(&self) -> bool {
        false
    }

    /// Corrects u in the deflation space before an iteration, with r.
    fn correct_before(&mut self, _: System<'_, B, T, S>, _: Sum<'_, B>) -> Result<()> {
        Ok(())
    }

    /// Corrects u in the deflation space after an iteration.
    fn correct_after(&mut self, _: System<'_, B, T, S>, _: Sum<'_, B>) -> Result<()> {
        Ok(())
    }

    /// Returns whether a step works on the host.
    fn needs_host(&self) -> bool {
        self.operator().needs_host()
    }

    /// Recomputes everything that depends on the coefficients, except for the operator.
    fn update(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes the same steps for another queue, if they can be made.
    fn another(&self) -> Result<Option<Box<dyn Steps<B, T, S>>>>;

    /// Returns the traffic of the fused step of each iteration, and that of a projection after it.
    fn traffic(&self) -> (Traffic, Option<Traffic>);

    /// Returns the number of its vectors in the operator's precision.
    fn vectors(&self) -> usize {
        0
    }
}

/// Steps with all vectors in the operator's precision, and with deflation where it is asked for.
pub(super) struct Full<B: AggregateBackend, T: Real> {
    pub(super) operator: Arc<dyn Operator<B, T>>,
    pub(super) deflation: Option<Deflation<B, T>>,
}

impl<B: AggregateBackend, T: Real> Steps<B, T, T> for Full<B, T> {
    fn operator(&self) -> &Arc<dyn Operator<B, T>> {
        &self.operator
    }

    fn needs_next_direction(&self) -> Result<bool> {
        self.operator.needs_next_direction(false)
    }

    fn residual(&mut self, (b, u, r): System<'_, B, T, T>, norm: Sum<'_, B>) -> Result<()> {
        self.operator.residual(b, [u, r], norm)
    }

    fn advance(&mut self, v: Direction<'_, Vector<B, T>>, scalars: &mut B::Scalars) -> Result<()> {
        let Direction { u, p, mut next, z, q, alpha, beta, sigma } = v;
        let step = Direction { u, p: &mut *p, next: next.as_deref_mut(), z, q: &mut *q, alpha, beta, sigma };
        self.operator.advance_direction(step, scalars)?;
        match &mut self.deflation {
            Some(deflation) => deflation.project(next.unwrap_or(p), q, sigma.of(scalars)),
            None => Ok(()),
        }
    }

    fn precondition(
        &self,
        preconditioner: &mut dyn Preconditioner<B, T>,
        [r, z]: [&mut Vector<B, T>; 2],
        _: [&mut Vector<B, T>; 2],
    ) -> Result<()> {
        preconditioner.apply(r, z)
    }

    fn correct_before(&mut self, (b, u, r): System<'_, B, T, T>, (norm, scalars): Sum<'_, B>) -> Result<()> {
        let Some(deflation) = &mut self.deflation else { return Ok(()) };
        for _ in 0..deflation.passes() {
            deflation.correct(r, u)?;
            self.operator.residual(b, [u, r], norm.of(scalars))?;
        }
        Ok(())
    }

    fn correct_after(&mut self, (b, u, r): System<'_, B, T, T>, norm: Sum<'_, B>) -> Result<()> {
        let Some(deflation) = self.deflation.as_mut().filter(|deflation| deflation.passes() > 0) else { return Ok(()) };
        self.operator.residual(b, [u, r], norm)?;
        deflation.correct(r, u)
    }

    fn needs_host(&self) -> bool {
        self.operator.needs_host() || self.deflation.as_ref().is_some_and(Deflation::needs_host)
    }

    fn update(&mut self) -> Result<()> {
        self.deflation.as_mut().map_or(Ok(()), Deflation::update)
    }

    fn another(&self) -> Result<Option<Box<dyn Steps<B, T, T>>>> {
        let again = || Box::new(Self { operator: Arc::clone(&self.operator), deflation: None }) as _;
        Ok(self.deflation.is_none().then(again))
    }

    fn traffic(&self) -> (Traffic, Option<Traffic>) {
        (traffic::ADVANCE_DIRECTION, self.deflation.as_ref().map(|_| traffic::PROJECT))
    }
}

/// Steps with r, z and q in single precision: u, p and all arithmetic stay in the operator's.
pub(super) struct Rounded<B: AggregateBackend, T: Real> {
    operator: Arc<dyn Operator<B, T>>,
    /// b − A u, before it is rounded.
    exact: Vector<B, T>,
}

impl<B: AggregateBackend, T: Real> Rounded<B, T> {
    pub(super) fn new(operator: Arc<dyn Operator<B, T>>) -> Result<Self> {
        Ok(Self { exact: operator.backend().zeros(operator.layout())?, operator })
    }
}

impl<B: AggregateBackend, T: Real> Steps<B, T, f32> for Rounded<B, T> {
    fn operator(&self) -> &Arc<dyn Operator<B, T>> {
        &self.operator
    }

    fn needs_next_direction(&self) -> Result<bool> {
        self.operator.needs_next_direction(true)
    }

    fn residual(&mut self, (b, u, r): System<'_, B, T, f32>, norm: Sum<'_, B>) -> Result<()> {
        self.operator.residual(b, [u, &mut self.exact], norm)?;
        self.operator.backend().convert(&self.exact, r)
    }

    fn advance(&mut self, v: Direction<'_, Vector<B, T>, Vector<B, f32>>, scalars: &mut B::Scalars) -> Result<()> {
        self.operator.advance_direction_single(v, scalars)
    }

    fn precondition(
        &self,
        preconditioner: &mut dyn Preconditioner<B, f32>,
        [r, z]: [&mut Vector<B, T>; 2],
        [own_r, own_z]: [&mut Vector<B, f32>; 2],
    ) -> Result<()> {
        let backend = self.operator.backend();
        backend.convert(r, own_r)?;
        preconditioner.apply(own_r, own_z)?;
        backend.convert(own_z, z)
    }

    fn rounds(&self) -> bool {
        true
    }

    fn another(&self) -> Result<Option<Box<dyn Steps<B, T, f32>>>> {
        Ok(Some(Box::new(Self::new(Arc::clone(&self.operator))?)))
    }

    fn traffic(&self) -> (Traffic, Option<Traffic>) {
        (traffic::ADVANCE_DIRECTION_SINGLE, None)
    }

    fn vectors(&self) -> usize {
        1
    }
}
