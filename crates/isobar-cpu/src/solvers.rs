//! Solvers on this machine's processor cores, as objects. They are compiled here, and nowhere else.

use crate::Cpu;

isobar_core::compile_solvers!(Cpu);
