//! Solvers on a GPU, as objects. They are compiled here, and nowhere else.

use crate::Cuda;

isobar_dist::compile_solvers!(Cuda);
