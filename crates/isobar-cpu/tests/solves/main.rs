//! What solves on processor cores promise beyond the conformance suite, one program so that the solvers are compiled for
//! them once.

mod diffusion_suite;
mod heat;
mod jacobi;
mod published_numbers;
