//! Time steps of the heat equation.

use std::ffi::{c_char, c_void};
use std::time::Instant;

use isobar::options::{Scheme, SolverOptions, StepGuess, Steps};
use isobar::{ArrayView, Device, HeatOptions, Ranks, TimeStepper, problem};
use isobar_case::heat::Parts;
use isobar_case::{Label, solver_options};

use crate::array::Array;
use crate::handle::{Exclusive, free_handle, hand_out, hand_out_handle, required, sized};
use crate::outcome::{Progress, judged, observer};
use crate::problem::Problem;
use crate::run::Run;
use crate::solver::open;
use crate::status::{Failure, ISOBAR_OK, Result, coded};
use crate::text;
use crate::together::{on_all, own_shape, presence, require_same_call, whole_values};

/// A run of the heat equation u_t = ∇·(κ∇u) − c u + f: its state u and all memory that the steps need, on one device.
pub struct Heat(Exclusive<Run<TimeStepper>>);

/// The Crank–Nicolson scheme: second order; the energy does not grow in any step.
pub const ISOBAR_CRANK_NICOLSON: i32 = 0;
/// The backward Euler scheme: first order; smooths rough states immediately.
pub const ISOBAR_BACKWARD_EULER: i32 = 1;

/// Options of time steps. With all members 0 except `size`, `dt` and `end_time`: Crank–Nicolson with steps of equal length.
#[repr(C)]
pub struct TimeSteps {
    /// sizeof(isobar_time_steps), which identifies the version of this struct.
    pub size: usize,
    /// Length of a step; with a step tolerance, of the first step.
    pub dt: f64,
    /// End time; a run begins at 0, and the last step is shortened if necessary.
    pub end_time: f64,
    /// 0: steps of equal length. Otherwise step lengths are chosen so that the estimated error of each step, relative to the state, stays below this.
    pub step_tolerance: f64,
    /// ISOBAR_CRANK_NICOLSON or ISOBAR_BACKWARD_EULER.
    pub scheme: i32,
    /// Not 0: the first guess of a step is extrapolated linearly from the previous two states; 0: it is the previous state.
    pub extrapolates: i32,
}

/// A step.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Step {
    /// Number of the step, from 1.
    pub number: usize,
    /// Time at the end of the step.
    pub time: f64,
    /// Length of the step.
    pub dt: f64,
    /// Estimated error relative to the state with a step tolerance, else 0.
    pub error: f64,
    /// True relative residual of its solve.
    pub relative_residual: f64,
    /// Iterations of its solve.
    pub iterations: usize,
    /// 1 if the end time is reached, else 0.
    pub is_last: i32,
}

/// The inputs of a run.
struct Start {
    name: String,
    heat: problem::Heat,
    /// The initial state in this rank's cells.
    initial: Vec<f64>,
    options: HeatOptions,
    solver: SolverOptions,
    device: Device,
}

impl Start {
    fn begin(self, clock: Instant, ranks: Option<&Ranks>) -> Result<Heat> {
        let Self { name, heat, initial, options, solver, device } = self;
        let label = Label { case: name, kind: "heat", shape: heat.shape() };
        let own = own_shape(ranks, heat.shape())?;
        let mut stepper = TimeStepper::new(&device, heat, options, &solver)?;
        stepper.set(ArrayView::c_order(&initial, own)?)?;
        Ok(Heat(Exclusive::of("heat equation", stepper, label, clock, ranks)))
    }
}

/// Makes the heat equation from a diffusion problem and the source density f of every cell.
///
/// # Safety
/// `source` is null or as described.
unsafe fn in_space(problem: &Problem, source: *const Array) -> Result<problem::Heat> {
    let (system, ranks) = (&problem.system, problem.ranks());
    // SAFETY: promised by the caller.
    let body = unsafe { source.as_ref().map(|f| whole_values(f, "source", ranks, system.shape())).transpose()? };
    if let Some(f) = body.as_ref().filter(|f| f.iter().any(|value| !value.is_finite())) {
        // It is 0 in inactive cells, whatever f is there.
        let b = system.on_host()?.rhs(Some(f.clone()))?;
        if let Some(n) = b.iter().position(|value| !value.is_finite()) {
            let [i, j, k] = system.shape().place(n);
            return Err(isobar::Error::NotFinite { what: "source".into(), value: f[n], i, j, k }.into());
        }
    }
    Ok(system.heat(body)?)
}

fn how_to_step(steps: &TimeSteps) -> Result<HeatOptions> {
    let scheme = match steps.scheme {
        ISOBAR_CRANK_NICOLSON => Scheme::CrankNicolson,
        ISOBAR_BACKWARD_EULER => Scheme::BackwardEuler,
        other => {
            let message = format!("scheme {other}; use ISOBAR_CRANK_NICOLSON or ISOBAR_BACKWARD_EULER");
            return Err(Failure::invalid(message));
        }
    };
    let guess = if steps.extrapolates == 0 { StepGuess::Previous } else { StepGuess::Extrapolated };
    let error = (steps.step_tolerance != 0.0).then_some(steps.step_tolerance);
    Ok(HeatOptions { steps: Steps::new(steps.dt, steps.end_time)?, error, scheme, guess })
}

/// Begins a run of the heat equation. κ, c, sides and the grid are from a problem made by isobar_problem_diffusion; `source` is f in every cell, or
/// null for 0; `u` is the initial state. `options`, `device` and `threads` are as for isobar_solver_create; the tolerance is relative to the first
/// residual of each step, or to ‖b‖ where that is smaller. All arguments are copied. If the problem is divided among ranks, `source` and `u` are this rank's rows.
///
/// # Safety
/// `problem` is a valid handle, arrays and texts are as described, `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_create(
    problem: *const Problem,
    source: *const Array,
    u: *const Array,
    steps: *const TimeSteps,
    options: *const c_char,
    device: *const c_char,
    threads: usize,
    out: *mut *mut Heat,
) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        let clock = Instant::now();
        let problem = required("problem", problem)?;
        let ranks = problem.ranks();
        on_all(ranks, || {
            place?;
            let given = source.as_ref();
            require_same_call(ranks, || format!("heat_create {}", presence("source", given)))?;
            let heat = in_space(problem, source)?;
            let initial = required("u", u)?.values("u", own_shape(ranks, heat.shape())?)?;
            let (options, device) = (text::optional("options", options)?, text::optional("device", device)?);
            let steps = sized("isobar_time_steps", steps)?;
            let (options, solver) = (how_to_step(steps)?, solver_options(options.unwrap_or(""))?);
            let device = open(ranks, device, threads)?;
            Start { name: "arrays".into(), heat, initial, options, solver, device }.begin(clock, ranks)
        })
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// Begins the run of a case file's text (TOML) of kind "heat", with its initial state. Relative paths in it are
/// relative to `folder`; null means the working directory. Outputs and checkpoints of the case are ignored.
///
/// # Safety
/// Texts are null-terminated; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_from_case(
    text: *const c_char,
    folder: *const c_char,
    device: *const c_char,
    threads: usize,
    out: *mut *mut Heat,
) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        place?;
        let clock = Instant::now();
        let (case, device) = (text::case(text, folder)?, text::optional("device", device)?);
        let isobar_case::Problem::Heat(heat) = &case.problem else {
            let kind = case.problem.kind();
            return Err(Failure::invalid(format!(
                "problem.kind is \"{kind}\", not \"heat\"; use isobar_problem_from_case and isobar_solver_create"
            )));
        };
        let (Parts { heat: in_space, initial, .. }, options) = (heat.parts()?, heat.options());
        let device = open(None, device, threads)?;
        let (name, solver) = (case.name(), case.solver.clone());
        Start { name, heat: in_space, initial, options, solver, device }.begin(clock, None)
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// Takes the next step and describes it in `step`, which may be null. `progress`, which may be null, is called in every iteration of its solve. After
/// ISOBAR_NOT_CONVERGED or ISOBAR_INTERRUPTED the state is unchanged. A step after the last is ISOBAR_INVALID.
///
/// # Safety
/// `heat` is a valid handle; `step` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_step(
    heat: *mut Heat,
    progress: Progress,
    data: *mut c_void,
    step: *mut Step,
) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let mut run = required("heat", heat)?.0.lock()?;
        let clock = Instant::now();
        let taken = run.on_all(|stepper, ranks, _| {
            require_same_call(ranks, || "heat_step".into())?;
            let mut observe = observer(progress, data, ranks)?;
            Ok(stepper.step_observed(&mut observe)?)
        })?;
        let seen = Step {
            number: taken.number,
            time: taken.time,
            dt: taken.dt,
            error: taken.error.unwrap_or(0.0),
            relative_residual: taken.outcome.relative_residual,
            iterations: taken.iterations,
            is_last: run.work.is_finished().into(),
        };
        let judged = if taken.is_taken { Ok(ISOBAR_OK) } else { judged(&taken.outcome) };
        run.last = Some((taken.outcome, clock.elapsed().as_secs_f64()));
        if !step.is_null() {
            step.write(seen);
        }
        judged
    })
}

/// Writes the current state to an array, in host memory or in that of the device.
///
/// # Safety
/// `heat` is a valid handle; the array is as described and not used elsewhere during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_state(heat: *mut Heat, u: *const Array) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        required("heat", heat)?
            .0
            .on_all(|stepper, _, own| Ok(stepper.state(required("u", u)?.shaped("u", own)?.target()?)?))
    })
}

/// Replaces the current state, for models that change it between steps; the step number and the time continue.
///
/// # Safety
/// The conditions of isobar_heat_state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_set_state(heat: *mut Heat, u: *const Array) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        required("heat", heat)?
            .0
            .on_all(|stepper, _, own| Ok(stepper.replace(required("u", u)?.shaped("u", own)?.source()?)?))
    })
}

/// Changes coefficients, widths of cells, boundary values and sources from the next step on. The number of cells, the active cells, the kinds of sides, and
/// whether cells have one volume must be the same; the state is kept.
///
/// # Safety
/// `heat` and `problem` are valid handles; `source` is null or an array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_update(heat: *mut Heat, problem: *const Problem, source: *const Array) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        required("heat", heat)?.0.on_all(|stepper, ranks, _| {
            let problem = required("problem", problem)?;
            problem.require_division_of("run", ranks)?;
            let given = source.as_ref();
            require_same_call(ranks, || format!("heat_update {}", presence("source", given)))?;
            Ok(stepper.update(in_space(problem, source)?)?)
        })
    })
}

/// Computes the energy ½ ∫ κ|∇u|² of the current state plus the terms of c and f: ½ uᵀK u − sᵀu.
///
/// # Safety
/// `heat` is a valid handle; `energy` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_energy(heat: *mut Heat, energy: *mut f64) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        required("heat", heat)?.0.on_all(|stepper, ranks, _| {
            required("energy", energy)?;
            require_same_call(ranks, || "heat_energy".into())?;
            hand_out("energy", energy, stepper.energy()?)
        })
    })
}

/// Returns the report of the last step's solve, as isobar_solver_report does. The text is valid until the next call with this handle.
///
/// # Safety
/// `heat` is a valid handle; `text` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_report(heat: *mut Heat, text: *mut *const c_char) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let none = "there is no step to report; call isobar_heat_step first";
        required("heat", heat)?.0.hand_out_report(TimeStepper::description, none, text)
    })
}

/// Frees a run; null is allowed.
///
/// # Safety
/// `heat` is null, or a valid handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_heat_free(heat: *mut Heat) {
    // SAFETY: promised by the caller.
    unsafe { free_handle(heat) }
}
