//! Assembly of an iteration with its preconditioner from options.

use std::sync::Arc;

use super::direct::not_on_ranks;
use super::in_precision::InPrecision;
use super::jacobi::choose;
use crate::direct::Separable;
use crate::operator::{Capabilities, Diagonal, LineSmoother};
use crate::options::{Acceleration, Method, Norm, Preconditioner as Kind, Smoother, SolverOptions, Start};
use crate::policy::jacobi::on_ranks;
use crate::policy::ladder;
use crate::policy::modes::{Plan, single_suffices};
use crate::precond::multigrid::Cycle;
use crate::precond::{
    Deflation, Fallback, Identity, IncompleteCholesky, IncompletePoisson, Jacobi, Line, Modal, ModalProblems, Neumann,
    Own, OwnPreconditioner, Pieces, Preconditioner, Single, relaxations,
};
use crate::solver::Iteration;
use crate::solver::batch::LineBatch;
use crate::solver::bicgstab::Bicgstab;
use crate::solver::cg::Cg;
use crate::solver::jacobi::{Jacobi as Relaxed, describe};
use crate::solver::modes::ByModes;
use crate::solver::multigrid::{MixedMultigrid, Multigrid};
use crate::stencil::{Hierarchy, Modes, Stencil, Supports, Update, levels};
use crate::{Backend, Error, Precision, Real, Result, Shape};

/// An iteration, and its description.
pub(super) struct Parts<S, I: ?Sized> {
    /// The iteration, or a preconditioner.
    pub(super) made: Box<I>,
    /// The grids of multigrid.
    pub(super) levels: Vec<Shape>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// Bytes of coefficients on the device.
    pub(super) coefficient_bytes: usize,
    /// Updates of everything that depends on coefficients, in order, except the finest operator in double precision.
    pub(super) updates: Vec<Update<S>>,
}

impl<S, I: ?Sized> Parts<S, I> {
    pub(super) fn new(made: Box<I>) -> Self {
        Self { made, levels: Vec::new(), notes: Vec::new(), coefficient_bytes: 0, updates: Vec::new() }
    }

    /// Adds another operator's update and bytes.
    fn add(&mut self, copy: Option<(Update<S>, usize)>) {
        if let Some((update, bytes)) = copy {
            self.updates.push(update);
            self.coefficient_bytes += bytes;
        }
    }

    /// Wraps the object and keeps the rest.
    fn with<J: ?Sized>(self, wrap: impl FnOnce(Box<I>) -> Result<Box<J>>) -> Result<Parts<S, J>> {
        let Self { made, levels, notes, coefficient_bytes, updates } = self;
        Ok(Parts { made: wrap(made)?, levels, notes, coefficient_bytes, updates })
    }
}

/// A stencil's matrix in one precision, from which parts are made.
pub(super) struct Maker<'a, B: Supports<S>, S: Stencil, T: Real> {
    pub(super) backend: &'a B,
    pub(super) stencil: &'a S,
    options: &'a SolverOptions,
    /// The factors of the matrix, or of the nearest box, if they have been found already.
    pub(super) factors: Option<&'a Separable>,
    /// Whether a component of the grid is floating.
    is_floating: bool,
    operator: Arc<B::Operator<T>>,
    pub(super) capabilities: Capabilities<B, T>,
}

/// Builds the iteration of resolved options, in their precision.
///
/// # Errors
/// [`Error::Unsupported`] if the stencil does not support it; the errors of the device.
pub(super) fn assemble<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    operator: &Arc<B::Operator<f64>>,
    own: Option<Box<dyn OwnPreconditioner>>,
    factors: Option<&Separable>,
    is_floating: bool,
) -> Result<Parts<S, dyn Iteration<B, f64>>> {
    let double = Maker { factors, ..Maker::new(backend, stencil, options, Arc::clone(operator), is_floating) };
    if let Some(own) = own {
        let own = Own::new(backend, backend.layout(stencil)?, own);
        return double.krylov(Parts::new(Box::new(own)));
    }
    if options.method == Method::Direct {
        return double.direct();
    }
    match options.storage() {
        Precision::F64 => double.iteration(),
        Precision::F32 => {
            let (single, updates, bytes) = double.another::<f32>()?;
            let mut parts = single.iteration()?;
            parts.updates.splice(0..0, updates);
            parts.coefficient_bytes += bytes;
            parts.with(|inner| Ok(Box::new(InPrecision::new(backend, backend.layout(stencil)?, inner)?) as _))
        }
        Precision::Mixed if options.method == Method::Modes => double.modes::<f32>(),
        Precision::Mixed => {
            let (single, updates, bytes) = double.another::<f32>()?;
            let mut parts = if options.method == Method::Multigrid {
                mixed_multigrid(&double, &single)?
            } else {
                let cycle = single.multigrid()?;
                if options.rounds_residuals() {
                    // If these cycles fail, double precision follows, which has reserves.
                    cycle.with(|cycle| single.rounded(&double, cycle))?
                } else {
                    let layout = backend.layout(stencil)?;
                    let converted = cycle.with(|cycle| Ok(Box::new(Single::new(layout, cycle)?) as _))?;
                    double.krylov(double.with_reserves(converted)?)?
                }
            };
            parts.updates.splice(0..0, updates);
            parts.coefficient_bytes += bytes;
            Ok(parts)
        }
    }
}

fn mixed_multigrid<B: Supports<S>, S: Stencil>(
    double: &Maker<'_, B, S, f64>,
    single: &Maker<'_, B, S, f32>,
) -> Result<Parts<S, dyn Iteration<B, f64>>> {
    let Maker { backend, options, .. } = double;
    let hierarchy = single.hierarchy()?;
    let relaxation = relaxations(&hierarchy, &options.multigrid)[0];
    let top = backend
        .mixed_top(&double.operator, &single.operator, &hierarchy, relaxation)?
        .ok_or_else(|| unsupported("solver.precision: \"mixed\"", "\"f64\""))?;
    single
        .cycle_of(hierarchy)?
        .with(|cycle| Ok(Box::new(MixedMultigrid::new(*cycle, top, options.multigrid.start)?) as _))
}

fn unsupported(what: &str, instead: &str) -> Error {
    Error::Unsupported(format!("{what} is not for matrices of this kind; use {instead}"))
}

fn key_of(smoother: Smoother) -> String {
    format!("solver.multigrid.smoother: {:?}", smoother.name())
}

/// A maker, the updates of its operator, and the bytes of that.
type Another<'a, B, S, T> = (Maker<'a, B, S, T>, Vec<Update<S>>, usize);

impl<B: Supports<S>, S: Stencil> Maker<'_, B, S, f32> {
    /// Makes conjugate gradients on the operator in double precision, with residuals in single.
    fn rounded(
        &self,
        double: &Maker<'_, B, S, f64>,
        preconditioner: Box<dyn Preconditioner<B, f32>>,
    ) -> Result<Box<dyn Iteration<B, f64>>> {
        self.watching(Cg::rounded(Arc::clone(&double.capabilities.operator), preconditioner)?)
    }
}

impl<'a, B: Supports<S>, S: Stencil, T: Real> Maker<'a, B, S, T> {
    fn new(
        backend: &'a B,
        stencil: &'a S,
        options: &'a SolverOptions,
        operator: Arc<B::Operator<T>>,
        is_floating: bool,
    ) -> Self {
        let capabilities = backend.capabilities(&operator);
        Self { backend, stencil, options, factors: None, is_floating, operator, capabilities }
    }

    /// Makes the same maker in another precision, with its own operator.
    fn another<R: Real>(&self) -> Result<Another<'a, B, S, R>> {
        let Self { backend, stencil, options, is_floating, .. } = *self;
        let operator = backend.rounded::<T, R>(stencil, &self.operator)?;
        let this = Maker::new(backend, stencil, options, Arc::clone(&operator), is_floating);
        let bytes = this.capabilities.operator.coefficient_bytes();
        let (device, from) = (backend.clone(), Arc::clone(&self.operator));
        let update: Update<S> = Box::new(move |stencil| device.round_again::<T, R>(stencil, &from, &operator));
        Ok((this, vec![update], bytes))
    }

    fn iteration(&self) -> Result<Parts<S, dyn Iteration<B, T>>> {
        match self.options.method {
            Method::Multigrid => {
                let start = self.options.multigrid.start;
                return self.cycle()?.with(|cycle| Ok(Box::new(Multigrid::new(*cycle, start)?) as _));
            }
            Method::Modes if single_suffices(&self.options.modes) => return self.modes::<f32>(),
            Method::Modes => return self.modes::<T>(),
            Method::Jacobi => return self.jacobi(),
            _ => {}
        }
        self.krylov(self.with_reserves(self.preconditioner()?)?)
    }

    /// Adds the replacements of a preconditioner that fails or is slow, if the matrix has them.
    fn with_reserves(&self, first: Parts<S, dyn Preconditioner<B, T>>) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        let kind = self.options.preconditioner;
        let mut reserves: Vec<(&'static str, Box<dyn Preconditioner<B, T>>)> = Vec::new();
        let mut updates = Vec::new();
        for reserve in ladder::reserves(kind, self.stencil.shape().nz) {
            if reserve == Kind::Line {
                let Some(lines) = self.backend.lines(self.stencil, &self.operator)? else { continue };
                updates.extend(lines.update);
                reserves.push((reserve.name(), Box::new(Line(lines.solver))));
            } else if let Some(diagonal) = self.capabilities.diagonal.clone() {
                reserves.push((reserve.name(), Box::new(Jacobi(diagonal))));
            }
        }
        if reserves.is_empty() {
            return Ok(first);
        }
        let mut parts = first
            .with(|first| Ok(Box::new(Fallback::new(kind.name(), first, reserves)) as Box<dyn Preconditioner<B, T>>))?;
        parts.updates.extend(updates);
        Ok(parts)
    }

    fn krylov(&self, preconditioner: Parts<S, dyn Preconditioner<B, T>>) -> Result<Parts<S, dyn Iteration<B, T>>> {
        let operator = Arc::clone(&self.capabilities.operator);
        if self.options.method == Method::Bicgstab {
            return preconditioner.with(|preconditioner| Ok(Box::new(Bicgstab::new(operator, preconditioner)?) as _));
        }
        let deflation = self.deflation()?;
        let idle = deflation.as_ref().and_then(Deflation::why_idle);
        let cg = |preconditioner| self.watching(Cg::deflated(operator, preconditioner, deflation)?);
        let mut parts = preconditioner.with(cg)?;
        parts.notes.extend(idle.map(str::to_owned));
        Ok(parts)
    }

    /// Makes conjugate gradients on an operator in precision R, with residuals in that of this matrix.
    fn watching<R: Real>(&self, cg: Cg<B, R, T>) -> Result<Box<dyn Iteration<B, R>>> {
        Ok(match self.options.norm {
            Norm::Scaled => Box::new(cg.watching_scaled(self.diagonal()?)?),
            _ => Box::new(cg),
        })
    }

    fn diagonal(&self) -> Result<Arc<dyn Diagonal<B, T>>> {
        self.capabilities.diagonal.clone().ok_or_else(|| unsupported("an iteration with the diagonal", "\"none\""))
    }

    fn deflation(&self) -> Result<Option<Deflation<B, T>>> {
        let Some(deflation) = &self.options.deflation else { return Ok(None) };
        match &self.capabilities.aggregates {
            Some(operator) => Deflation::new(Arc::clone(operator), self.stencil.shape(), deflation).map(Some),
            None => Err(Error::Unsupported(
                "solver.method: \"deflated-cg\" is for problems of kind \"diffusion\" or \"poisson\"; use \"cg\" or \
                 \"multigrid\""
                    .into(),
            )),
        }
    }

    /// Makes the preconditioner of Krylov methods. A new kind is a line here.
    fn preconditioner(&self) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        let kind = self.options.preconditioner;
        let what = format!("solver.preconditioner.kind: {:?}", kind.name());
        // The update and the bytes of the copy that has triangular parts, where the operator has none.
        let mut copies: Option<(Update<S>, usize)> = None;
        let mut triangular = || {
            let (triangular, copy) =
                self.offered(|capabilities| capabilities.triangular.clone())?.ok_or_else(|| {
                    if self.backend.device().ranks > 1 {
                        return not_on_ranks(&what, "\"jacobi\", \"line\" or \"multigrid\"");
                    }
                    let why = if self.stencil.is_symmetric() {
                        "is not for matrices of this kind"
                    } else {
                        "needs a symmetric matrix"
                    };
                    Error::Unsupported(format!("{what} {why}; use \"none\", \"jacobi\", \"line\" or \"multigrid\""))
                })?;
            copies = copy;
            Ok::<_, Error>(triangular)
        };
        let made: Box<dyn Preconditioner<B, T>> = match kind {
            Kind::None | Kind::Auto => Box::new(Identity(self.backend.clone())),
            Kind::Jacobi => Box::new(Jacobi(self.diagonal()?)),
            Kind::Line => return self.line(),
            Kind::Direct => return self.nearest_box(),
            Kind::Multigrid => return self.multigrid(),
            Kind::Modes => return self.modal(),
            Kind::Amg => return self.algebraic(),
            Kind::Neumann { order } => Box::new(Neumann::new(triangular()?, order)?),
            Kind::IncompletePoisson { scaling } => Box::new(IncompletePoisson::new(triangular()?, scaling)?),
            Kind::BlockIc { .. } | Kind::Ic { .. } | Kind::Mic { .. } => {
                let triangular = triangular()?;
                if !triangular.substitutes() {
                    return Err(not_on_ranks(&what, "\"neumann\", \"ssor-ai\", \"line\" or \"multigrid\""));
                }
                let blocks = IncompleteCholesky::<B, T>::blocks(kind, self.stencil.shape().nx);
                let (block, relaxation) = blocks.unwrap_or_default();
                Box::new(IncompleteCholesky::new(triangular, block, relaxation)?)
            }
            // The series truncated after one term: (I − D⁻¹Lᵀ) D⁻¹ (I − L D⁻¹).
            Kind::SsorAi => Box::new(Neumann::new(triangular()?, 1)?),
        };
        let mut parts = Parts::new(made);
        parts.add(copies);
        Ok(parts)
    }

    /// Returns a capability of the operator, or else of the same matrix with stored faces, with its update and its bytes.
    fn offered<C>(
        &self,
        of: impl Fn(&Capabilities<B, T>) -> Option<C>,
    ) -> Result<Option<(C, Option<(Update<S>, usize)>)>> {
        if let Some(offered) = of(&self.capabilities) {
            return Ok(Some((offered, None)));
        }
        let Some(stored) = self.backend.stored_faces::<T>(self.stencil)? else { return Ok(None) };
        let bytes = stored.capabilities.operator.coefficient_bytes();
        Ok(of(&stored.capabilities).map(|offered| (offered, Some((stored.update, bytes)))))
    }

    fn line(&self) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        let lines = self.backend.lines(self.stencil, &self.operator)?;
        let lines =
            lines.ok_or_else(|| unsupported("solver.preconditioner.kind: \"line\"", "\"jacobi\" or \"none\""))?;
        let mut parts: Parts<S, dyn Preconditioner<B, T>> = Parts::new(Box::new(Line(lines.solver)));
        parts.updates.extend(lines.update);
        Ok(parts)
    }

    fn hierarchy(&self) -> Result<Hierarchy<B, S, T>> {
        let &Self { backend, stencil, options, ref operator, .. } = self;
        // Levels are made in hundreds of short passes.
        let found = backend.enter(|| levels(backend, stencil, operator, &options.multigrid))?;
        found.ok_or_else(|| {
            let smoother = self.options.multigrid.smoother;
            if smoother.begins_with_points() {
                let what = key_of(smoother);
                if self.capabilities.aggregates.is_none() {
                    return unsupported(&what, "\"line-red-black\" or \"line-jacobi\"");
                }
                if backend.device().ranks > 1 {
                    return not_on_ranks(&what, "\"line-red-black\"");
                }
                return Error::Unsupported(format!("{what} is not for this device; use \"line-red-black\""));
            }
            Error::Unsupported(
                "multigrid is not for matrices of this kind; use solver.method = \"cg\" or \"bicgstab\", with the \
                 preconditioner \"jacobi\" or \"line\""
                    .into(),
            )
        })
    }

    /// Makes one cycle; with levels that end in an exact solve, the constants of disconnected components are projected out,
    /// which is known to help there.
    fn multigrid(&self) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        let hierarchy = self.hierarchy()?;
        let pieces = self.capabilities.aggregates.clone().filter(|_| hierarchy.coarsest.is_some());
        self.cycle_of(hierarchy)?.with(|cycle| {
            Ok(match pieces {
                Some(operator) => Box::new(Pieces::new(cycle, operator)?) as Box<dyn Preconditioner<B, T>>,
                None => cycle as _,
            })
        })
    }

    fn cycle(&self) -> Result<Parts<S, Cycle<B, T>>> {
        self.cycle_of(self.hierarchy()?)
    }

    /// Makes Jacobi's method.
    fn jacobi(&self) -> Result<Parts<S, dyn Iteration<B, T>>> {
        let (points, copy) = self.offered(|capabilities| capabilities.points.clone())?.ok_or_else(|| {
            if self.backend.device().ranks > 1 {
                return not_on_ranks("solver.method: \"jacobi\"", "\"cg\" or \"multigrid\"");
            }
            Error::Unsupported(
                "solver.method: \"jacobi\" is not for matrices of this kind on this device; use \"cg\", \"multigrid\", or the \
                 preconditioner \"jacobi\" of \"cg\""
                    .into(),
            )
        })?;
        let shape = self.stencil.shape();
        let options = &self.options.jacobi;
        let (options, why) = if self.backend.device().ranks > 1 { on_ranks(options) } else { (options.clone(), None) };
        let suggested = if options.batch { points.suggested_line_tile() } else { points.suggested_tile() };
        if options.batch {
            self.check_batch()?;
        }
        let cycle = options.cycle(shape, points.periodic(), self.is_floating, suggested)?;
        let (cycle, tried) = choose(&*points, &options, cycle)?;
        if options.batch {
            let notes = describe(&cycle, shape).into_iter().chain(tried);
            let notes =
                notes.chain([format!("{} lines, each with a stopping test of its own", shape.ny)]).collect::<Vec<_>>();
            let mut parts = Parts::new(Box::new(LineBatch::new(points, shape, cycle, self.options)?) as _);
            parts.add(copy);
            parts.notes.extend(notes);
            return Ok(parts);
        }
        let is_accelerated = options.acceleration == Acceleration::Chebyshev;
        let relaxed = Relaxed::new(points, shape, cycle, is_accelerated)?;
        let notes: Vec<_> =
            describe(&cycle, shape).into_iter().chain(why).chain(tried).chain(relaxed.describe_momentum()).collect();
        let mut parts = Parts::new(Box::new(relaxed) as _);
        parts.add(copy);
        parts.notes.extend(notes);
        Ok(parts)
    }

    /// Fails if the lines of the grid cannot be a batch.
    fn check_batch(&self) -> Result<()> {
        let Shape { ny, nz, .. } = self.stencil.shape();
        let ranks = self.backend.device().ranks;
        let message = if ranks > 1 {
            format!("on {ranks} ranks, each of which would stop by its own lines; run on one")
        } else if nz > 1 {
            format!("lines of a grid of {nz} layers; put them side by side in y: grid.nz = 1, grid.ny = {}", ny * nz)
        } else if !self.stencil.has_lines_apart() {
            "lines along x are coupled in y, or coefficients are on a device; use diffusion.coefficient_y = 0.0, or batch = \
             false"
                .into()
        } else if self.options.precision != Precision::F64 {
            format!("in precision \"{}\"; use \"f64\"", self.options.precision)
        } else if self.options.norm == Norm::Scaled {
            "with norm = \"scaled\"; use \"initial\" or \"rhs\"".into()
        } else {
            return Ok(());
        };
        Err(Error::invalid("solver.jacobi.batch", message))
    }

    /// Makes the iteration by vertical modes, in a precision of their own.
    fn modes<C: Real>(&self) -> Result<Parts<S, dyn Iteration<B, T>>> {
        let start = self.options.multigrid.start;
        self.modal_problems::<C>("solver.method: \"modes\"", self.options.tolerance, start)?
            .with(|made| Ok(Box::new(ByModes::new(made.0, made.1)?) as _))
    }

    /// Makes the preconditioner of sweeps and a correction in vertical modes.
    fn modal(&self) -> Result<Parts<S, dyn Preconditioner<B, T>>> {
        /// The planned reduction of a residual by one application.
        const REDUCTION: f64 = 1e-2;
        let sweeps = self.options.modes.sweeps.given().unwrap_or(1);
        self.modal_problems::<T>("solver.preconditioner.kind: \"modes\"", REDUCTION, Start::Zero)?
            .with(|made| Ok(Box::new(Modal::new(made.0, sweeps)?) as _))
    }

    /// Makes the problems of as many modes as reach a tolerance, and their plan.
    fn modal_problems<C: Real>(
        &self,
        what: &str,
        tolerance: f64,
        start: Start,
    ) -> Result<Parts<S, (ModalProblems<B, T, C>, Plan)>> {
        let made = self.backend.modes::<T, C>(self.stencil, &self.operator, self.options, tolerance)?;
        let Modes { transfer, problems, plan } = made.ok_or_else(|| unsupported(what, "\"auto\" or \"multigrid\""))?;
        let smoother = self.options.multigrid.smoother;
        if smoother.begins_with_points() {
            return Err(unsupported(&key_of(smoother), "\"line-red-black\" or \"line-jacobi\""));
        }
        let cycle = Cycle::new(&problems, &self.options.multigrid)?;
        // All modes; a rank may have some of them only.
        let levels = problems.shapes().into_iter().map(|level| Shape { nz: plan.count, ..level }).collect();
        let mut notes = problems.notes;
        notes.push(plan.to_string());
        Ok(Parts {
            levels,
            coefficient_bytes: coarse_bytes(&problems.levels),
            updates: vec![problems.update],
            notes,
            made: Box::new((ModalProblems::new(transfer, cycle, plan.factors(), start)?, plan)),
        })
    }

    fn cycle_of(&self, hierarchy: Hierarchy<B, S, T>) -> Result<Parts<S, Cycle<B, T>>> {
        let coefficient_bytes = coarse_bytes(&hierarchy.levels[1..]);
        let hierarchy = hierarchy.at_once(&self.options.multigrid)?;
        Ok(Parts {
            made: Box::new(Cycle::new(&hierarchy, &self.options.multigrid)?),
            levels: hierarchy.shapes(),
            notes: hierarchy.notes,
            coefficient_bytes,
            updates: vec![hierarchy.update],
        })
    }
}

fn coarse_bytes<B: Backend, T: Real>(levels: &[Arc<dyn LineSmoother<B, T>>]) -> usize {
    levels.iter().map(|level| level.coefficient_bytes()).sum()
}
