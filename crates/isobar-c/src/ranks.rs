//! Problems whose grid is divided among the ranks of an MPI program.

use isobar::Shape;

use crate::handle::{free_handle, hand_out, hand_out_handle, required, sized};
use crate::problem::{DiffusionArrays, Problem, diffusion};
use crate::status::{ISOBAR_OK, Result, coded};
use crate::together::require_same_call;

/// The ranks of an MPI communicator.
pub struct Ranks(isobar::Ranks);

/// Makes ranks from a communicator of an MPI program, which calls MPI_Init before and MPI_Finalize after. `communicator` is an MPI_Fint: in Fortran
/// the communicator itself, in C MPI_Comm_c2f(communicator), or MPI_Comm_toint(communicator) from MPI 5 on. Messages use a duplicate of the
/// communicator, which is freed when this handle and everything made from it are freed.
///
/// Calls with these ranks, including this first one, are collective: all ranks make them in the same order. If a call fails on one rank, it fails on
/// all, with the code and the message of the first rank that failed; so does a call that differs from rank 0's. A null handle on one rank cannot be
/// reported: the others wait. MPICH, Open MPI and the MPI 5 ABI are supported.
///
/// Threads: if MPI was initialised with less than MPI_THREAD_SERIALIZED, the thread that initialised it must make these calls. With
/// MPI_THREAD_SERIALIZED any thread may make them, and threads that use different ranks at the same time take turns inside isobar; but the program must
/// not call MPI itself, in any thread, during such a call. With MPI_THREAD_MULTIPLE it may. Calls with the same ranks are made one at a time, and
/// threads that make ranks do it in the same order on every rank.
///
/// # Safety
/// `ranks` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_ranks_create(communicator: i32, ranks: *mut *mut Ranks) -> i32 {
    // SAFETY: promised by the caller.
    unsafe {
        hand_out_handle(ranks, |place| {
            let ranks = isobar::Ranks::on_communicator(communicator)?;
            ranks.together(|| place)?;
            Ok(Ranks(ranks))
        })
    }
}

/// Returns the rows in y that this rank has, of a grid with `ny` rows: `count` rows from row `first` on, counted from 0. Ranks have equal or nearly
/// equal numbers of rows, and begin where coarser levels can be divided too.
///
/// # Safety
/// `ranks` is a valid handle; `first` and `count` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_ranks_rows(
    ranks: *const Ranks,
    ny: usize,
    first: *mut usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let rows = required("ranks", ranks)?.0.rows(Shape::new(1, ny, 1))?;
        hand_out("first", first, rows.start)?;
        hand_out("count", count, rows.len())?;
        Ok(ISOBAR_OK)
    })
}

/// Divides a problem, which every rank has made of the whole grid, among ranks. From then on, its arrays and those of solvers and runs made from it
/// have this rank's rows only, {nz, count, nx}. All ranks make and use such a solver or run together, each on its share of the
/// cores or on its GPU. A progress function on any rank can stop the solve.
///
/// # Safety
/// Both are valid handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_divide(problem: *mut Problem, ranks: *const Ranks) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let ranks = required("ranks", ranks)?;
        ranks.0.together(|| -> Result<()> {
            let problem = required("problem", problem)?;
            require_same_call(Some(&ranks.0), || "problem_divide".into())?;
            ranks.0.rows(problem.system.shape())?;
            problem.divide(ranks.0.clone())
        })?;
        Ok(ISOBAR_OK)
    })
}

/// Makes a diffusion problem that is divided among ranks, from arrays of this rank's rows of a grid with `ny` rows, {nz, count, nx};
/// widths and sides are those of the whole grid. It is collective. Every rank keeps the coefficients of the whole grid.
///
/// # Safety
/// `description` and everything it points to are readable, `ranks` is a valid handle, `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_diffusion_rows(
    description: *const DiffusionArrays,
    ny: usize,
    ranks: *const Ranks,
    out: *mut *mut Problem,
) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        let ranks = &required("ranks", ranks)?.0;
        ranks.together(|| {
            place?;
            let problem = diffusion(sized("isobar_diffusion", description)?, Some((ranks, ny)))?;
            problem.divide(ranks.clone())?;
            Ok(problem)
        })
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// Frees ranks; null is allowed. Problems, solvers and runs made with them remain usable.
///
/// # Safety
/// `ranks` is null, or a valid handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_ranks_free(ranks: *mut Ranks) {
    // SAFETY: promised by the caller.
    unsafe { free_handle(ranks) }
}
