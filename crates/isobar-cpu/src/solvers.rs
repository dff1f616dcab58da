//! Solvers on this machine's processor cores, as objects. They are compiled only here.

use crate::Cpu;

isobar_dist::compile_solvers!(Cpu);
