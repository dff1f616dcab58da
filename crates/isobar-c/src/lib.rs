//! isobar for C, C++ and Fortran.
//!
//! The header `include/isobar.h` is made from this crate; `examples/` shows its use, `fortran/isobar.f90` is a module over it.
//!
//! * [`problem`] what is to be solved: from the text of a case file, or from arrays,
//! * [`solver`] made once and used many times,
//! * [`gradient`] derivatives of a solve,
//! * [`heat`] a state on its way through time,
//! * [`ranks`] a grid that is divided among the ranks of a program that runs under MPI,
//! * [`mod@array`] a caller's array, wherever it lies,
//! * [`outcome`] what comes of a solve, and who looks on,
//! * [`status`] codes, and the text of the last error.
//!
//! Every function returns a code, never panics, and may be called from any thread. A handle that is used from two threads at
//! once says so by `ISOBAR_BUSY` and comes to no harm.

pub mod array;
pub mod gradient;
mod handle;
pub mod heat;
pub mod outcome;
pub mod problem;
pub mod ranks;
pub mod solver;
pub mod status;
mod text;

use std::ffi::c_char;

/// The version of the library, such as "0.2.0".
#[unsafe(no_mangle)]
pub extern "C" fn isobar_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
