//! Solvers on this machine's processor cores, as objects. They are compiled only here.

use crate::Cpu;

isobar_core::compile_solvers!(Cpu);
