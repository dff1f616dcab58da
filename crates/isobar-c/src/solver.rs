//! Solvers.

use std::ffi::{c_char, c_void};
use std::sync::MutexGuard;
use std::time::Instant;

use isobar::{Device, Guess, Ranks, RawArray, Shape};
use isobar_case::solver_options;

use crate::array::Array;
use crate::handle::{Exclusive, free_handle, hand_out_handle, required};
use crate::outcome::{Progress, judged, observer};
use crate::problem::Problem;
use crate::run::Run;
use crate::status::{Failure, ISOBAR_INTERRUPTED, ISOBAR_OK, Result, coded};
use crate::text;
use crate::together::{on_all, require_same_call};

/// A solver with all its memory, on one device. It does not refer to the problem that it was made from.
pub struct Solver(pub(crate) Exclusive<Run<isobar::Solver>>);

/// Opens the device of this process, or that of all ranks.
pub(crate) fn open(ranks: Option<&Ranks>, device: Option<&str>, threads: usize) -> Result<Device> {
    if threads > isize::MAX as usize {
        let message = format!("threads is {}; use 1 or more, or 0 for one per core", threads.cast_signed());
        return Err(Failure::invalid(message));
    }
    let (device, threads) = (device.unwrap_or("auto"), (threads > 0).then_some(threads));
    Ok(match ranks {
        Some(ranks) => ranks.open(device, threads)?,
        None => Device::parse(device, threads)?,
    })
}

/// Makes a solver. `options` are keys of a case file's section `[solver]` as TOML or as a JSON object, such as "tolerance = 1e-8"; null
/// means the options of the problem's case, or defaults: a tolerance of 1e-5 relative to the residual of the first guess
/// (norm = "initial"). `device` is "auto", "cpu", "cuda", "cuda:N", or several GPUs as "cuda:0,1"; null means "auto". `threads` is the number of
/// CPU threads; 0 means one per core. If the problem is divided among ranks, "auto" means "cpu", "cuda" gives each rank a GPU, and 0 threads means this rank's share of the
/// machine's cores.
///
/// # Safety
/// `problem` is a valid handle, texts are null-terminated, `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_create(
    problem: *const Problem,
    options: *const c_char,
    device: *const c_char,
    threads: usize,
    out: *mut *mut Solver,
) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        let clock = Instant::now();
        let problem = required("problem", problem)?;
        let (system, ranks) = (&problem.system, problem.ranks());
        let solver = on_all(ranks, || {
            place?;
            require_same_call(ranks, || "solver_create".into())?;
            let (options, device) = (text::optional("options", options)?, text::optional("device", device)?);
            let options = options.map_or_else(|| Ok(system.options()), solver_options)?;
            Ok(system.matrix.solver(&open(ranks, device, threads)?, &options)?)
        })?;
        Ok(Solver(Exclusive::of("solver", solver, system.label(), clock, ranks)))
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// Solves A u = b. The first guess is u = 0, or the content of `u` if `from_u` is not 0. `b` and `u` may be the same array, and
/// may be in host memory or in that of the solver's device. `progress` may be null. Returns ISOBAR_OK if the true residual meets the
/// tolerance; after ISOBAR_NOT_CONVERGED and ISOBAR_INTERRUPTED u holds the best iterate.
///
/// # Safety
/// `solver` is a valid handle; the arrays are as described and not used elsewhere during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_solve(
    solver: *mut Solver,
    b: *const Array,
    u: *const Array,
    from_u: i32,
    progress: Progress,
    data: *mut c_void,
) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let (mut state, outcome, seconds) = solve_by(solver, from_u, |solver, guess, ranks, own| {
            let (from, to) = (required("b", b)?.shaped("b", own)?, required("u", u)?.shaped("u", own)?);
            require_same_call(ranks, || {
                format!("solve with b in {}, u in {}, from {}", from.precision(), to.precision(), first(guess))
            })?;
            let mut observer = observer(progress, data, ranks)?;
            Ok(RawArray::with(&from, &to, |b, u| solver.solve_observed(b, u, guess, &mut observer))?)
        })?;
        let judged = judged(&outcome);
        state.last = Some((outcome, seconds));
        judged
    })
}

/// Solves on all ranks by `solve`, and returns the result with the seconds of the call.
///
/// # Safety
/// `solver` is a valid handle, not freed while the returned values are used.
unsafe fn solve_by<'s, R>(
    solver: *mut Solver,
    from_u: i32,
    solve: impl FnOnce(&mut isobar::Solver, Guess, Option<&Ranks>, Shape) -> Result<R>,
) -> Result<(MutexGuard<'s, Run<isobar::Solver>>, R, f64)> {
    // SAFETY: promised by the caller.
    let solver: &'s Solver = unsafe { required("solver", solver)? };
    let mut state = solver.0.lock()?;
    let clock = Instant::now();
    let guess = if from_u == 0 { Guess::Zero } else { Guess::Given };
    let found = state.on_all(|work, ranks, own| solve(work, guess, ranks, own))?;
    Ok((state, found, clock.elapsed().as_secs_f64()))
}

/// Solves A u = b for `count` right-hand sides, some at the same time; other threads then call `progress`, one at a time.
/// `b[n]` and `u[n]` are as in isobar_solver_solve, and `u[n]` must not share memory with the b or u of another system. If `codes` is not null,
/// `codes[n]` becomes ISOBAR_OK, ISOBAR_NOT_CONVERGED or ISOBAR_INTERRUPTED; after an interruption the remaining systems are not solved and get that
/// code too. Returns ISOBAR_OK if all systems have it, otherwise the first other code; isobar_last_error then names the system.
/// isobar_solver_report describes the last system. After any other error `codes` is unchanged.
///
/// # Safety
/// The conditions of isobar_solver_solve; `b`, `u` and `codes` have `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_solve_many(
    solver: *mut Solver,
    b: *const Array,
    u: *const Array,
    count: usize,
    from_u: i32,
    codes: *mut i32,
    progress: Progress,
    data: *mut c_void,
) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let (mut state, outcomes, seconds) = solve_by(solver, from_u, |solver, guess, ranks, own| {
            let (b, u) = (arrays("b", b, count, own)?, arrays("u", u, count, own)?);
            let kinds = |arrays: &[RawArray]| {
                arrays.iter().map(|array| array.precision().to_string()).collect::<Vec<_>>().join(", ")
            };
            require_same_call(ranks, || {
                format!("solve_many of {count} systems, b in {}, u in {}, from {}", kinds(&b), kinds(&u), first(guess))
            })?;
            Ok(solver.solve_many_raw(b.into_iter().zip(u), guess, &mut observer(progress, data, ranks)?)?)
        })?;
        let mut first = Ok(ISOBAR_OK);
        for n in 0..count {
            let code = match outcomes.get(n).map(judged) {
                Some(Err(failure)) => {
                    let code = failure.code;
                    first = first.and(Err(Failure { message: format!("system {n}: {}", failure.message), ..failure }));
                    code
                }
                Some(Ok(code)) => code,
                None => {
                    let message = format!("system {n}: interrupted before it was solved");
                    first = first.and(Err(Failure { code: ISOBAR_INTERRUPTED, message, names_cell: false }));
                    ISOBAR_INTERRUPTED
                }
            };
            if !codes.is_null() {
                *codes.add(n) = code;
            }
        }
        state.last = outcomes.into_iter().last().map(|outcome| (outcome, seconds));
        first
    })
}

/// Returns the locations of several arrays.
///
/// # Safety
/// There are `count` arrays, or the pointer is null.
unsafe fn arrays(what: &str, first: *const Array, count: usize, shape: Shape) -> Result<Vec<RawArray>> {
    // SAFETY: promised by the caller.
    unsafe { required(what, first)? };
    (0..count)
        .map(|n| {
            // SAFETY: promised by the caller.
            unsafe { required(what, first.wrapping_add(n))? }.shaped(&format!("{what}[{n}]"), shape)
        })
        .collect()
}

/// Computes v = A u.
///
/// # Safety
/// The conditions of isobar_solver_solve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_apply(solver: *mut Solver, u: *const Array, v: *const Array) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        required("solver", solver)?.0.on_all(|solver, ranks, own| {
            let (u, v) = (required("u", u)?.shaped("u", own)?, required("v", v)?.shaped("v", own)?);
            require_same_call(ranks, || format!("apply with u in {}, v in {}", u.precision(), v.precision()))?;
            Ok(RawArray::with(&u, &v, |u, v| solver.apply(u, v))?)
        })
    })
}

/// Updates the solver in place with the coefficients of another problem, such as that of the next time step. Widths of cells and the values of sides
/// may differ too. The number of cells, the kinds of sides, and whether there are c or Robin sides must be the same, and the problem must be divided
/// among ranks if the solver is. A report or derivatives need a new solve.
///
/// # Safety
/// Both are valid handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_update(solver: *mut Solver, problem: *const Problem) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let mut state = required("solver", solver)?.0.lock()?;
        state.on_all(|solver, ranks, _| {
            let problem = required("problem", problem)?;
            problem.require_division_of("solver", ranks)?;
            require_same_call(ranks, || "solver_update".into())?;
            Ok(problem.system.matrix.update(solver)?)
        })?;
        // The last solve was one with another matrix.
        state.last = None;
        Ok(ISOBAR_OK)
    })
}

/// Returns the report of the last solve as JSON, with the keys of the command's --report; `checks` and the copy bandwidth are null. The text is valid
/// until the next call with this solver.
///
/// # Safety
/// `solver` is a valid handle; `text` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_report(solver: *mut Solver, text: *mut *const c_char) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let none = "there is no solve to report; call isobar_solver_solve first";
        required("solver", solver)?.0.hand_out_report(isobar::Solver::description, none, text)
    })
}

/// Frees a solver; null is allowed.
///
/// # Safety
/// `solver` is null, or a valid handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_free(solver: *mut Solver) {
    // SAFETY: promised by the caller.
    unsafe { free_handle(solver) }
}

/// Names a first guess.
fn first(guess: Guess) -> &'static str {
    if guess == Guess::Given { "u" } else { "zero" }
}
