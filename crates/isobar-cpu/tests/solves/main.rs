//! Tests of solves on processor cores beyond the conformance suite, in one program so that the solvers are compiled once.

mod diffusion_suite;
mod heat;
mod jacobi;
mod published_numbers;
mod updates;
