//! Solvers on a GPU as trait objects. They are compiled only here.

use crate::Cuda;

isobar_core::compile_solvers!(Cuda);
