//! A linear system: an operator, an iteration and the judgement at the end.

use std::sync::Arc;
use std::time::Instant;

use super::arrays::{CallersGrid, download, find_not_finite, upload};
use super::assembly::{Parts, assemble};
use super::decision::Decision;
use super::direct;
use super::run::Bounds;
use super::solve::{Balance, Description, Solve, is_final};
use crate::backend::{AggregateBackend, copy_bandwidth};
use crate::operator::{Capabilities, Diagonal, Guess};
use crate::options::{Compatibility, Judge, Method, Norm, Preconditioner, SolverOptions, check_tolerance};
use crate::outcome::Outcome;
use crate::policy::begin::Beginning;
use crate::precond::{NullSpace, OwnPreconditioner};
use crate::problem::SIDES;
use crate::solver::{Iteration, Observer};
use crate::stencil::turns::Turns;
use crate::stencil::{Stencil, Supports, Update};
use crate::{AggregateMap, Error, Layout, Result, Scalar, Shape, Source, Target};

/// A linear system on one back end: the operator in double precision, which judges, and an iteration in any precision, which
/// solves.
///
/// Storage: b and u in double precision, and for Krylov methods the best u, besides the iteration's own.
pub struct System<B: Supports<S>, S: Stencil> {
    pub(super) backend: B,
    /// The queue of its work; 0 is the first.
    pub(super) queue: usize,
    /// Solvers of the same matrix for other queues, made on demand.
    pub(super) beside: Vec<Self>,
    pub(super) stencil: S,
    pub(super) operator: Arc<B::Operator<f64>>,
    pub(crate) capabilities: Capabilities<B, f64>,
    pub(super) updates: Vec<Update<S>>,
    pub(super) null_space: Option<NullSpace<B>>,
    pub(super) iteration: Box<dyn Iteration<B, f64>>,
    pub(super) options: SolverOptions,
    pub(crate) layout: Layout,
    pub(crate) callers: CallersGrid,
    pub(super) b: B::Vector<f64>,
    pub(super) u: B::Vector<f64>,
    /// Scratch memory, if the operator's residual norm needs it.
    pub(super) scratch: B::Vector<f64>,
    /// The solution in single precision, once a caller's array has it.
    pub(super) single: Option<B::Vector<f32>>,
    /// The preconditioner for other programs' iterations where the iteration's own cycles are not symmetric, made on demand.
    pub(super) symmetric: Option<Symmetric<B, S>>,
    /// A residual and its correction, once a preconditioner of several steps is used.
    pub(super) spare: Option<[B::Vector<f64>; 2]>,
    /// The best iterate, for iterations whose residual may rise.
    pub(super) best: Option<B::Vector<f64>>,
    pub(super) decision: Decision<S>,
    /// The bounds of the reference norm in time steps.
    pub(super) bounds: Bounds,
    /// Whether everything made from the coefficients matches the operator's; false after a failed update.
    pub(super) is_current: bool,
    /// Whether b and u are those of the last solve, which may have been between arrays.
    pub(super) has_solution: bool,
    /// The residual that the last solve left, if it converged and the matrix is the same: a first guess with it is its solution, whose error has been judged.
    pub(super) left: Option<f64>,
    /// The diagonal, and D⁻¹ r, where the norm is ‖D^−½ r‖.
    pub(super) scaled: Option<(Arc<dyn Diagonal<B, f64>>, B::Vector<f64>)>,
    pub(super) scalars: B::Scalars,
    pub(super) description: Description,
}

/// An iteration, and the updates of its matrices.
pub(super) type Symmetric<B, S> = (Box<dyn Iteration<B, f64>>, Vec<Update<S>>);

/// ‖r‖²
pub(super) const NORM: Scalar = Scalar::new(0);
/// The scalars of [`Balance`]: outflow, excess and work.
const OUTFLOW: Scalar = Scalar::new(1);
const EXCESS: Scalar = Scalar::new(2);
const WORK: Scalar = Scalar::new(3);

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Puts operator, iteration and vectors on a device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for options that are invalid alone or together; [`Error::Unsupported`] for those that this stencil
    /// does not support; the errors of the device.
    pub fn new(backend: &B, stencil: &S, options: &SolverOptions) -> Result<Self> {
        let made = Self::assembled(backend, stencil, [options; 2], None)?;
        let mut decision = Decision { requested: Some(options.clone()), ..made.decision };
        decision.note_dominance(&made.stencil, options.tolerance);
        Ok(Self { decision, ..made })
    }

    /// Makes a solver with a caller's own preconditioner instead of the options'.
    ///
    /// # Errors
    /// See [`System::new`]; [`Error::Invalid`] if the options ask for multigrid cycles or for another precision than double.
    pub fn with_preconditioner(
        backend: &B,
        stencil: &S,
        options: &SolverOptions,
        own: Box<dyn OwnPreconditioner>,
    ) -> Result<Self> {
        let options = options.for_own_preconditioner(stencil.is_symmetric())?;
        Self::assembled(backend, stencil, [&options; 2], Some(own))
    }

    pub(super) fn assembled(
        backend: &B,
        stencil: &S,
        [open, options]: [&SolverOptions; 2],
        own: Option<Box<dyn OwnPreconditioner>>,
    ) -> Result<Self> {
        let is_own = own.is_some();
        [open, options].into_iter().try_for_each(SolverOptions::validate)?;
        let turns = backend.turns(stencil, options);
        if is_own {
            turns.require_one("a preconditioner of your own")?;
        }
        let (described, is_set_up) = (turns.describe(stencil.shape()), turns.sets_up(stencil.shape()));
        let (idle, callers_stencil) = (stencil.idle_sides(), stencil);
        let around = stencil.around(turns)?;
        let stencil = &*around;
        let layout = backend.layout(stencil)?;
        let callers = CallersGrid::new(backend, turns.once(stencil.shape()), turns, &layout)?;
        let operator = backend.operator::<f64>(stencil)?;
        let began = Self::beginning(backend, stencil, &operator, [open, options], [is_own, is_set_up])?;
        let mut decision = Decision::new(&began, [open, options]);
        (decision.had_one_direction, decision.hold) = (Self::decides_one_direction(stencil), stencil.hold());
        let asked = if began.is_direct { open } else { options };
        let Beginning { options, factors, why, .. } = began;
        check_symmetry(stencil, options.method)?;
        if options.method != Method::Direct {
            stencil.check_iterated()?;
        }
        backend.prepare(stencil, &operator, &options)?;
        // A direct solve needs no copies of periodic axes, unless ranks divide them.
        let (factors, described) = match (options.method, factors) {
            (Method::Direct, found) => {
                let found = found.map_or_else(|| direct::factors_of(backend, stencil), Ok)?;
                let all = stencil.shape();
                let solved = if direct::is_divided(backend) { all } else { turns.one_copy(all) };
                (Some(found.once(solved)), described.filter(|_| solved == all))
            }
            (_, factors) => (factors, described),
        };
        let capabilities = backend.capabilities(&operator);
        let null_space = null_space(&capabilities, stencil)?;
        let is_floating = null_space.as_ref().is_some_and(NullSpace::is_floating);
        let Parts { made: iteration, levels, mut notes, coefficient_bytes, updates } =
            assemble(backend, stencil, &options, &operator, own, factors.as_ref(), is_floating)?;
        notes.extend(why);
        decision.first_notes = notes.len();
        notes.extend(described);
        if !is_own {
            notes.extend(asked.unused_by(&options));
            let is_chosen = || backend.has_direct() && direct::chosen(backend, stencil).is_some();
            if let Some(key) = open.rules_out_direct().filter(|_| is_chosen()) {
                notes.push(format!("{key} is for iterations; without it this would be solved directly"));
            }
        }
        notes.extend(idle.into_iter().map(|(axis, side)| {
            let side = SIDES[axis as usize][side];
            format!("the value on the side {side} has no effect: no open cell touches it")
        }));
        let singular = null_space.as_ref().and_then(|space| {
            let of_one = if turns.count() > 1 { callers_stencil.floating_sizes() } else { None };
            space.describe(turns.count(), of_one)
        });
        let is_incomplete = matches!(options.preconditioner, Preconditioner::Ic { .. } | Preconditioner::Mic { .. });
        if singular.is_some() && is_incomplete && !is_own {
            notes.push("the last pivot of a floating component is not positive; its diagonal entry replaces it".into());
        }
        notes.extend(singular);
        if null_space.is_none() && stencil.has_constants() {
            notes.push(UNTREATED.to_owned());
        }
        let diagonal = match (options.norm, &capabilities.diagonal) {
            (Norm::Scaled, Some(diagonal)) => Some(Arc::clone(diagonal)),
            _ => None,
        };
        let scratch_layout = scratch_layout(&capabilities, diagonal.is_some())?;
        let keeps_best = !options.method.is_stationary();
        let vectors = if keeps_best { 3 } else { 2 } * layout.len()
            + scratch_layout.len()
            + if diagonal.is_some() { layout.len() } else { 0 };
        let description = Description {
            device: backend.device(),
            shares: backend.shares(turns.once(stencil.shape())),
            method: options.method_name().into(),
            preconditioner: if is_own { "own" } else { options.preconditioner.name() }.into(),
            precision: options.precision,
            levels,
            notes,
            bytes: vectors * size_of::<f64>() + iteration.workspace_bytes(),
            coefficient_bytes: capabilities.operator.coefficient_bytes() + coefficient_bytes,
            traffic: iteration.traffic(),
            smoother: options.multigrid.smoother,
        };
        backend.await_prepared()?;
        Ok(Self {
            b: backend.zeros(&layout)?,
            u: backend.zeros(&layout)?,
            scratch: backend.zeros(&scratch_layout)?,
            single: None,
            symmetric: None,
            spare: None,
            best: keeps_best.then(|| backend.zeros(&layout)).transpose()?,
            decision,
            bounds: Bounds::default(),
            is_current: true,
            has_solution: true,
            left: None,
            scaled: diagonal.map(|diagonal| Ok::<_, Error>((diagonal, backend.zeros(&layout)?))).transpose()?,
            scalars: backend.scalars()?,
            backend: backend.clone(),
            queue: 0,
            beside: Vec::new(),
            stencil: stencil.clone(),
            operator,
            capabilities,
            updates,
            null_space,
            iteration,
            options,
            layout,
            callers,
            description,
        })
    }
}

const UNTREATED: &str =
    "the matrix is singular: x is known up to a constant, and most right-hand sides have no solution";

/// Fails for a method that needs a symmetric matrix, where this one is not.
fn check_symmetry(stencil: &impl Stencil, method: Method) -> Result<()> {
    let why = match method {
        _ if stencil.is_symmetric() => return Ok(()),
        Method::Cg => "conjugate gradients need a symmetric matrix, and this one is not; use \"auto\" or \"bicgstab\"",
        Method::Modes => {
            "vertical modes are those of a symmetric matrix, and this one is not, by advection; use \"multigrid\", or \
             \"bicgstab\" with the preconditioner \"modes\""
        }
        _ => return Ok(()),
    };
    Err(Error::invalid("solver.method", why))
}

/// Finds the null space of a matrix. A component floats if its shift is zero, which is not decisive where some shifts are
/// negative.
pub(super) fn null_space<B: Supports<S>, S: Stencil>(
    capabilities: &Capabilities<B, f64>,
    stencil: &S,
) -> Result<Option<NullSpace<B>>> {
    if stencil.check_iterated().is_err() {
        return Ok(None);
    }
    match &capabilities.aggregates {
        Some(aggregates) => NullSpace::new(Arc::clone(aggregates)).map(Some),
        // Without symmetry, what A x adds up to is not known.
        None if stencil.has_constants() && stencil.is_symmetric() => {
            NullSpace::of_constants(Arc::clone(&capabilities.operator), stencil.shape()).map(Some)
        }
        None => Ok(None),
    }
}

/// Returns the layout of the scratch for norms.
pub(super) fn scratch_layout<B: AggregateBackend>(of: &Capabilities<B, f64>, is_scaled: bool) -> Result<Layout> {
    if is_scaled || of.operator.norm_needs_scratch() { Ok(*of.operator.layout()) } else { Layout::smallest() }
}

/// Methods for callers whose vectors are on the device already: fill [`System::rhs_mut`], and [`System::solution_mut`] where
/// there is a first guess, then call [`System::solve_in_place`].
impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Returns b.
    pub fn rhs_mut(&mut self) -> &mut B::Vector<f64> {
        &mut self.b
    }

    /// Returns the copies of the stencil's grid in the solver's grid.
    pub(crate) fn turns(&self) -> Turns {
        self.callers.turns
    }

    /// Returns u.
    pub fn solution(&self) -> &B::Vector<f64> {
        &self.u
    }

    /// Returns u, as a first guess.
    pub fn solution_mut(&mut self) -> &mut B::Vector<f64> {
        &mut self.u
    }

    /// Returns b and u.
    pub fn vectors_mut(&mut self) -> (&mut B::Vector<f64>, &mut B::Vector<f64>) {
        (&mut self.b, &mut self.u)
    }

    /// Bounds the norm that residuals are relative to, where that is ‖r₀‖, for a time step with this [`Bounds::content`].
    pub(crate) fn bound_reference(&mut self, content: Option<f64>) {
        self.bounds = Bounds { is_capped: true, content, ..self.bounds };
    }

    /// Notes that rounding has left this residual, or that another state begins.
    pub(crate) fn note_stuck(&mut self, residual: Option<f64>) {
        self.bounds.stuck = residual;
    }

    /// Computes b = A x.
    pub fn apply_to(&mut self, x: &mut B::Vector<f64>) -> Result<()> {
        self.capabilities.operator.apply(x, &mut self.b)
    }

    /// Computes ‖b − A u‖, ‖b‖ and ‖u‖ for the current b and u.
    pub(crate) fn norms_left(&mut self) -> Result<[f64; 3]> {
        Ok([self.true_residual()?, self.norm_of_rhs()?, self.norm_of_solution()?])
    }

    /// Solves A u = b with the b and u that are on the device; nothing is copied.
    ///
    /// # Errors
    /// [`Error::Invalid`] if b or the residual of the first guess is not finite; the errors of the device.
    pub fn solve_in_place(&mut self, guess: Guess, observer: &mut Observer<'_>) -> Result<Outcome> {
        let clock = Instant::now();
        self.check_current()?;
        let norms = self.norms(guess)?;
        self.run(norms, guess, observer, clock, false)
    }
}

impl<B: Supports<S>, S: Stencil> Solve<S> for System<B, S> {
    fn solve(&mut self, rhs: Source<'_>, u: Target<'_>, guess: Guess, observer: &mut Observer<'_>) -> Result<Outcome> {
        match self.queue {
            0 => self.solve_here(rhs, u, guess, observer),
            queue => self.backend.clone().on_queue(queue, || self.solve_here(rhs, u, guess, observer)),
        }
    }

    fn beside(&mut self, systems: usize) -> Result<Vec<&mut dyn Solve<S>>> {
        Ok(self.on_other_queues(systems)?.iter_mut().map(|other| other as &mut dyn Solve<S>).collect())
    }

    fn apply(&mut self, u: Source<'_>, mut v: Target<'_>) -> Result<()> {
        self.check_current()?;
        self.check_shapes([("u", u.shape()), ("v = A u", v.shape())])?;
        upload(&self.backend, &self.callers, u, &mut self.u)?;
        if let Some(space) = &self.null_space {
            space.clear_inactive(&mut self.u)?;
        }
        self.capabilities.operator.apply(&mut self.u, &mut self.b)?;
        download(&self.backend, &self.callers, &self.b, &mut v)
    }

    fn precondition(&mut self, r: Source<'_>, mut z: Target<'_>, iterations: usize) -> Result<()> {
        self.check_current()?;
        self.check_shapes([("the residual r", r.shape()), ("z = M⁻¹ r", z.shape())])?;
        System::precondition(self, r, &mut z, iterations)
    }

    fn set_tolerance(&mut self, tolerance: f64) -> Result<()> {
        check_tolerance("the tolerance", tolerance)?;
        self.options.tolerance = tolerance;
        self.decision.set_tolerance(tolerance);
        self.beside.iter_mut().try_for_each(|other| other.set_tolerance(tolerance))
    }

    fn update(&mut self, stencil: &S) -> Result<()> {
        System::update(self, stencil)
    }

    fn balance(&mut self) -> Result<Balance> {
        self.callers.turns.require_one("sums of a solution")?;
        if !self.has_solution {
            return Err(Error::Unsupported(
                "sums of a solution that went from array to array; solve into no array".into(),
            ));
        }
        let Self { backend, stencil, capabilities, b, u, layout, scalars, .. } = self;
        if capabilities.aggregates.is_none() {
            return Err(Error::Unsupported("sums of a solution are computed for diffusion only".into()));
        }
        let (mut r, mut ones) = (backend.zeros::<f64>(layout)?, backend.zeros::<f64>(layout)?);
        let all = backend.aggregates(&AggregateMap::whole(stencil.shape()).on(layout)?)?;
        let mut one = backend.aggregate_vector(1)?;
        backend.write_aggregated(&[1.0], &mut one)?;
        backend.add_aggregated(&all, &one, &mut ones)?;
        let operator = &capabilities.operator;
        operator.residual(b, [u, &mut r], NORM.of(scalars))?;
        backend.dot(&r, &ones, EXCESS.of(scalars))?;
        backend.dot(&r, u, WORK.of(scalars))?;
        operator.residual(b, [&mut ones, &mut r], NORM.of(scalars))?;
        backend.dot(&r, u, OUTFLOW.of(scalars))?;
        let sums = backend.read(scalars)?;
        let [outflow, excess, work] = [OUTFLOW, EXCESS, WORK].map(|sum| sums[sum.index()]);
        Ok(Balance { outflow: -outflow, excess, work })
    }

    fn set_compatibility(&mut self, compatibility: Compatibility) -> Compatibility {
        self.beside.iter_mut().for_each(|other| other.options.compatibility = compatibility);
        std::mem::replace(&mut self.options.compatibility, compatibility)
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn copy_bandwidth(&self) -> Result<f64> {
        copy_bandwidth(&self.backend, self.layout.shape())
    }
}

impl<B: Supports<S>, S: Stencil> System<B, S> {
    pub(super) fn solve_here(
        &mut self,
        rhs: Source<'_>,
        mut u: Target<'_>,
        guess: Guess,
        observer: &mut Observer<'_>,
    ) -> Result<Outcome> {
        let clock = Instant::now();
        self.check_current()?;
        self.check_shapes([("the right-hand side", rhs.shape()), ("the solution", u.shape())])?;
        if guess == Guess::Zero
            && let Some(outcome) = self.solve_arrays(&rhs, &mut u, observer)?
        {
            self.has_solution = false;
            return Ok(outcome);
        }
        self.has_solution = true;
        upload(&self.backend, &self.callers, rhs, &mut self.b)?;
        let mut is_there = matches!(rhs, Source::Device(_));
        if guess == Guess::Given {
            let first = u.as_source().ok_or_else(|| Error::invalid("the first guess", "no array has one"))?;
            is_there &= matches!(first, Source::Device(_));
            upload(&self.backend, &self.callers, first, &mut self.u)?;
        }
        // The solve does not include the transfer of arrays, on any rank. Of arrays on the device that is a short pass, and waiting for it would take longer.
        if !is_there || self.backend.shares(self.stencil.shape()).is_some() {
            self.backend.synchronize()?;
        }
        let upload = clock.elapsed().as_secs_f64();
        let clock = Instant::now();
        let norms = self.norms(guess)?;
        if !norms.rhs.is_finite() {
            find_not_finite("the right-hand side", rhs)?;
        }
        if let Some(first) = u.as_source().filter(|_| !norms.initial.is_finite()) {
            find_not_finite("the first guess", first)?;
        }
        let rounds = u.is_single() && self.options.judge == Judge::Array;
        self.decision.replaceable.is_old = self.decision.latest.is_some() && self.queue == 0 && self.decision.chooses();
        let mut outcome = self.run(norms, guess, observer, clock, rounds)?;
        let clock = Instant::now();
        if std::mem::take(&mut self.decision.is_outdated) {
            return self.go_on_anew(rhs, u, outcome, observer);
        }
        self.decision.latest = None;
        outcome.is_returned &= self.queue == 0 || is_final(&outcome);
        // Where there is no solution, an array that had no first guess gets that of zero.
        if outcome.is_returned || guess == Guess::Zero && self.queue == 0 {
            download(&self.backend, &self.callers, &self.u, &mut u)?;
        }
        outcome.timing.upload = upload;
        outcome.timing.download = clock.elapsed().as_secs_f64();
        Ok(outcome)
    }

    fn check_shapes(&self, arrays: [(&str, Shape); 2]) -> Result<()> {
        let expected = self.callers.shape(&self.layout);
        arrays.into_iter().try_for_each(|(what, shape)| Error::unless_equal(what, shape, expected))
    }
}
