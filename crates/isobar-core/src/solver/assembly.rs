//! From options to an iteration with its preconditioner.

use std::sync::Arc;

use super::bicgstab::Bicgstab;
use super::cg::{Cg, Form};
use super::multigrid::{MixedMultigrid, Multigrid};
use super::{Iteration, Monitor, StepTraffic};
use crate::backend::Backend;
use crate::deflation::Projection;
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::operator::{Guess, Operator};
use crate::options::{Method, PreconditionerKind, SolverOptions};
use crate::precond::multigrid::Cycle;
use crate::precond::{Converted, Diagonal, Identity, Line, Preconditioner};
use crate::real::{Precision, Real};
use crate::stencil::Stencil;

/// An iteration, and what to say about it.
pub(super) struct Parts<B: Backend, T: Real> {
    pub(super) iteration: Box<dyn Iteration<B, T>>,
    pub(super) levels: Vec<Shape>,
    pub(super) notes: Vec<String>,
}

/// Builds the iteration that the options ask for, in the precision that they ask for.
///
/// # Errors
/// [`Unsupported`](crate::Error::Unsupported) for what the stencil does not offer; what the device reports.
pub(super) fn assemble<B: Backend + Clone, S: Stencil<B>>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    operator: &Arc<S::Operator<f64>>,
) -> Result<Parts<B, f64>> {
    match options.precision {
        Precision::F64 => in_one_precision::<B, S, f64>(backend, stencil, options, Arc::clone(operator)),
        Precision::F32 => {
            let single = Arc::new(stencil.operator::<f32>(backend)?);
            let Parts { iteration, levels, notes } = in_one_precision::<B, S, f32>(backend, stencil, options, single)?;
            let inner = InPrecision::new(backend, Layout::new(stencil.shape())?, iteration)?;
            Ok(Parts { iteration: Box::new(inner), levels, notes })
        }
        Precision::Mixed => {
            let cycle = Cycle::<B, _, f32>::new(backend, stencil, &options.multigrid)?;
            let (levels, notes) = (cycle.shapes(), cycle.notes().to_vec());
            if options.method == Method::Multigrid {
                let iteration = Box::new(MixedMultigrid::new(Arc::clone(operator), cycle, &options.multigrid)?);
                return Ok(Parts { iteration, levels, notes });
            }
            let cycle = Converted::<B, _, f32>::new(backend, Layout::new(stencil.shape())?, cycle)?;
            let projection = projection(stencil, operator, options)?;
            let iteration = krylov(options, Arc::clone(operator), cycle, projection)?;
            Ok(Parts { iteration, levels, notes })
        }
    }
}

fn projection<B: Backend, S: Stencil<B>, T: Real>(
    stencil: &S,
    operator: &Arc<S::Operator<T>>,
    options: &SolverOptions,
) -> Result<Option<Box<dyn Projection<B, T>>>> {
    (options.method == Method::DeflatedCg).then(|| stencil.projection(operator, options)).transpose()
}

/// Builds the iteration wholly in precision T.
fn in_one_precision<B: Backend + Clone, S: Stencil<B>, T: Real>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    operator: Arc<S::Operator<T>>,
) -> Result<Parts<B, T>> {
    let cycle = || {
        let finest = stencil.level_from(backend, &operator)?;
        Cycle::<B, S::Operator<T>, T>::below(backend, stencil, &options.multigrid, finest)
    };
    if options.method == Method::Multigrid {
        let cycle = cycle()?;
        let (levels, notes) = (cycle.shapes(), cycle.notes().to_vec());
        let iteration = Box::new(Multigrid::new(cycle, options.multigrid.start)?);
        return Ok(Parts { iteration, levels, notes });
    }
    let (mut levels, mut notes) = (Vec::new(), Vec::new());
    let projection = projection(stencil, &operator, options)?;
    let iteration = match options.preconditioner.kind {
        PreconditionerKind::None => krylov(options, operator, Identity(backend.clone()), projection)?,
        PreconditionerKind::Jacobi => krylov(options, Arc::clone(&operator), Diagonal(operator), projection)?,
        PreconditionerKind::Line => krylov(options, Arc::clone(&operator), Line(operator), projection)?,
        PreconditionerKind::Multigrid => {
            let cycle = cycle()?;
            (levels, notes) = (cycle.shapes(), cycle.notes().to_vec());
            krylov(options, operator, cycle, projection)?
        }
        PreconditionerKind::BlockIc | PreconditionerKind::IncompletePoisson | PreconditionerKind::Neumann => {
            let preconditioner = stencil.preconditioner(&operator, options)?;
            krylov(options, operator, preconditioner, projection)?
        }
    };
    Ok(Parts { iteration, levels, notes })
}

fn krylov<B, A, M, T>(
    options: &SolverOptions,
    operator: Arc<A>,
    preconditioner: M,
    projection: Option<Box<dyn Projection<B, T>>>,
) -> Result<Box<dyn Iteration<B, T>>>
where
    B: Backend + Clone,
    A: Operator<B, T> + 'static,
    M: Preconditioner<B, T> + 'static,
    T: Real,
{
    let form = if options.method == Method::CgTextbook { Form::Textbook } else { Form::Fused };
    Ok(match options.method {
        Method::Bicgstab => Box::new(Bicgstab::new(operator, preconditioner)?),
        _ => Box::new(Cg::new(form, operator, preconditioner)?.deflated(projection).watching(options.norm)?),
    })
}

/// An iteration in precision T, used on vectors in double precision.
///
/// Storage: b and u in T.
struct InPrecision<B: Backend, T: Real> {
    backend: B,
    inner: Box<dyn Iteration<B, T>>,
    b: B::Vector<T>,
    u: B::Vector<T>,
    layout: Layout,
}

impl<B: Backend + Clone, T: Real> InPrecision<B, T> {
    fn new(backend: &B, layout: Layout, inner: Box<dyn Iteration<B, T>>) -> Result<Self> {
        let (b, u) = (backend.zeros(&layout)?, backend.zeros(&layout)?);
        Ok(Self { backend: backend.clone(), inner, b, u, layout })
    }
}

impl<B: Backend + Clone, T: Real> Iteration<B, f64> for InPrecision<B, T> {
    fn run(
        &mut self,
        b: &B::Vector<f64>,
        u: &mut B::Vector<f64>,
        guess: Guess,
        monitor: &mut Monitor<'_>,
    ) -> Result<()> {
        self.backend.convert(b, &mut self.b)?;
        if guess == Guess::Given {
            self.backend.convert(u, &mut self.u)?;
        }
        self.inner.run(&self.b, &mut self.u, guess, monitor)?;
        self.backend.convert(&self.u, u)
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        self.inner.traffic()
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.layout.len() * size_of::<T>() + self.inner.workspace_bytes()
    }
}
