//! Problems whose grid is divided among the ranks of a program that runs under MPI.

use isobar::Shape;
use isobar::internals::dist::{Kind, Tell, Told};

use crate::array::Array;
use crate::handle::{free_handle, hand_out, hand_out_handle, required, sized};
use crate::problem::{DiffusionArrays, Problem, diffusion};
use crate::status::{
    Failure, ISOBAR_DEVICE, ISOBAR_INVALID, ISOBAR_OK, ISOBAR_OUT_OF_MEMORY, ISOBAR_UNSUPPORTED, Result, coded,
};

/// The ranks of a communicator, seen by one of them.
pub struct Ranks(isobar::Ranks);

impl Tell for Failure {
    fn tell(&self) -> Told {
        let kind = match self.code {
            _ if self.names_cell => Kind::NotFinite,
            ISOBAR_INVALID => Kind::Invalid,
            ISOBAR_UNSUPPORTED => Kind::Unsupported,
            ISOBAR_OUT_OF_MEMORY => Kind::OutOfMemory,
            _ => Kind::Device,
        };
        Told { kind, message: self.message.clone() }
    }

    fn told([rank, size]: [usize; 2], Told { kind, message }: Told) -> Self {
        let code = match kind {
            Kind::Invalid | Kind::NotFinite => ISOBAR_INVALID,
            Kind::Unsupported => ISOBAR_UNSUPPORTED,
            Kind::OutOfMemory => ISOBAR_OUT_OF_MEMORY,
            Kind::Device => ISOBAR_DEVICE,
        };
        Self::new(code, format!("rank {rank} of {size}: {message}"))
    }
}

/// Does something on all ranks, or on none; without ranks, here.
pub(crate) fn on_all<R>(ranks: Option<&isobar::Ranks>, work: impl FnOnce() -> Result<R>) -> Result<R> {
    match ranks {
        Some(ranks) => ranks.together(work),
        None => work(),
    }
}

/// The cells of a grid that this rank has.
pub(crate) fn own_shape(ranks: Option<&isobar::Ranks>, whole: Shape) -> Result<Shape> {
    Ok(match ranks {
        Some(ranks) => Shape { ny: ranks.rows(whole)?.len(), ..whole },
        None => whole,
    })
}

/// An array's values in every cell of the grid, of which each rank has its rows.
///
/// # Safety
/// All elements of the array can be read.
pub(crate) unsafe fn whole_values(
    array: &Array,
    what: &str,
    ranks: Option<&isobar::Ranks>,
    whole: Shape,
) -> Result<Vec<f64>> {
    // SAFETY: promised by the caller.
    let own = on_all(ranks, || unsafe { array.values(what, own_shape(ranks, whole)?) })?;
    Ok(match ranks {
        Some(ranks) => ranks.together(|| ranks.collect(&own, whole))?,
        None => own,
    })
}

/// Takes part in what the ranks of a communicator do together, in a program that runs under MPI: it calls MPI_Init before, and MPI_Finalize
/// after. `communicator` is an MPI_Fint: in Fortran the communicator, in C MPI_Comm_c2f(communicator), or MPI_Comm_toint(communicator) from MPI 5
/// on. Messages go over a duplicate of it, which is freed when this handle is and all that was made on it.
///
/// All ranks make the calls that are about such ranks, this one being the first, in the same order; where one of them fails, it fails on all,
/// with the code and the message of the first rank that has one. MPI that was started for fewer threads than MPI_THREAD_SERIALIZED
/// is used from the thread that has started it, which is to make these calls. MPICH, Open MPI and the MPI 5 ABI will do.
///
/// # Safety
/// `ranks` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_ranks_create(communicator: i32, ranks: *mut *mut Ranks) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe { hand_out_handle(ranks, || Ok(Ranks(isobar::Ranks::on_communicator(communicator)?))) })
}

/// Which rows in y of a grid with `ny` of them are this rank's: `count` rows from row `first` on, counted from 0. They are as many on all ranks or
/// nearly so, and begin where coarser grids can be divided too.
///
/// # Safety
/// `ranks` is a handle, `first` and `count` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_ranks_rows(
    ranks: *const Ranks,
    ny: usize,
    first: *mut usize,
    count: *mut usize,
) -> i32 {
    coded(|| {
        // SAFETY: promised by the caller.
        let rows = unsafe { required("ranks", ranks)? }.0.rows(Shape::new(1, ny, 1))?;
        // SAFETY: promised by the caller.
        unsafe {
            hand_out("first", first, rows.start)?;
            hand_out("count", count, rows.len())?;
        }
        Ok(ISOBAR_OK)
    })
}

/// Divides a problem, which every rank has made of the whole grid, among ranks. From now on its arrays, and those of all that is made from it, are
/// those of this rank's own rows, {nz, count, nx}; a solver and a run through time are made and used by all ranks together, each on its share of the
/// cores or on its GPU. The progress functions of all ranks are heard.
///
/// # Safety
/// Both are handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_divide(problem: *mut Problem, ranks: *const Ranks) -> i32 {
    coded(|| {
        // SAFETY: promised by the caller.
        let (problem, ranks) = unsafe { (required("problem", problem)?, required("ranks", ranks)?) };
        ranks.0.together(|| -> Result<()> {
            ranks.0.rows(problem.system.shape())?;
            problem.divide(ranks.0.clone())
        })?;
        Ok(ISOBAR_OK)
    })
}

/// As isobar_problem_diffusion with isobar_problem_divide, from arrays of this rank's own rows of a grid with `ny` rows, {nz, count, nx};
/// widths and sides are those of the whole grid. All ranks together. Every rank keeps the coefficients of the whole grid.
///
/// # Safety
/// `description` and what it points to can be read, `ranks` is a handle, `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_diffusion_rows(
    description: *const DiffusionArrays,
    ny: usize,
    ranks: *const Ranks,
    out: *mut *mut Problem,
) -> i32 {
    coded(|| {
        let make = || {
            // SAFETY: promised by the caller.
            let ranks = &unsafe { required("ranks", ranks)? }.0;
            ranks.together(|| {
                // SAFETY: promised by the caller.
                let problem = unsafe { diffusion(sized("isobar_diffusion", description)?, Some((ranks, ny)))? };
                problem.divide(ranks.clone())?;
                Ok(problem)
            })
        };
        // SAFETY: promised by the caller.
        unsafe { hand_out_handle(out, make) }
    })
}

/// Frees ranks; null is allowed. What was made on them can still be used.
///
/// # Safety
/// `ranks` is a handle that is not used again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_ranks_free(ranks: *mut Ranks) {
    // SAFETY: promised by the caller.
    unsafe { free_handle(ranks) }
}
