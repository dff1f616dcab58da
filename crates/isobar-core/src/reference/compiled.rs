//! Solvers on the reference back end, for development builds: test programs link them and need not compile them for themselves.

use super::Reference;

crate::compile_solvers!(Reference);
