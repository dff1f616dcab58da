//! Tests of solves on the reference back end, in one program so that the solvers are compiled once.

mod algebraic;
mod choices;
mod deflation;
mod diffusion_multigrid;
mod diffusion_order;
mod direct;
mod error_estimates;
mod galerkin;
mod golden;
mod handed_back;
mod heat;
mod inactive;
mod incomplete_cholesky;
mod iteration_counts;
mod jacobi;
mod judgement;
mod matrix_market;
mod modes;
mod one_application;
mod order;
mod point_cycles;
mod rings;
mod steady_heat;
