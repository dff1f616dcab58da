//! isobar for C, C++ and Fortran.
//!
//! The header `include/isobar.h` is generated from this crate; `examples/` shows its use, and `fortran/isobar.f90` is a Fortran module based on it.
//!
//! * [`problem`]: linear systems from the text of a case file or from arrays,
//! * [`faces`]: linear systems from conductances,
//! * [`solver`]: solvers, made once and used many times,
//! * [`gradient`]: derivatives of a solve,
//! * [`heat`]: time steps of the heat equation,
//! * [`ranks`]: grids divided among the ranks of an MPI program,
//! * [`mod@array`]: callers' arrays in host or GPU memory,
//! * [`outcome`]: results of a solve and progress functions,
//! * [`status`]: return codes and the text of the last error.
//!
//! Every function returns a code, never panics, and may be called from any thread. If a handle is used by two threads at
//! once, the second call returns `ISOBAR_BUSY` and does nothing.

pub mod array;
mod environment;
pub mod faces;
pub mod gradient;
mod handle;
pub mod heat;
pub mod outcome;
pub mod problem;
pub mod ranks;
mod run;
pub mod solver;
pub mod status;
mod text;
mod together;

use std::ffi::c_char;

#[global_allocator]
static ALLOCATOR: isobar::LargePages = isobar::LargePages;

/// The major version of this header; isobar_version returns that of the library which is linked.
pub const ISOBAR_VERSION_MAJOR: i32 = 0;
/// The minor version of this header.
pub const ISOBAR_VERSION_MINOR: i32 = 2;
/// The patch version of this header.
pub const ISOBAR_VERSION_PATCH: i32 = 0;

/// Returns the version of the library, such as "0.2.0".
#[unsafe(no_mangle)]
pub extern "C" fn isobar_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
