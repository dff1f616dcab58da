//! What every back end must do: the same as the reference, to rounding.
//!
//! [`conformance_suite!`](crate::conformance_suite) instantiates all checks for a back end and a
//! precision, as tests:
//!
//! ```
//! use isobar_core::reference::Reference;
//! isobar_core::conformance_suite!(reference_f64, Reference, f64);
//! ```
//!
//! A back end that is not a [`CsrBackend`](crate::backend::CsrBackend) adds `, without stored_matrix`; one that is a
//! [`DiffusionBackend`](crate::backend::DiffusionBackend) instantiates
//! [`diffusion_conformance_suite!`](crate::diffusion_conformance_suite) too.
//!
//! * [`fixture`] grids of awkward sizes, vectors on both sides, and the comparison,
//! * [`steps`] each fused step,
//! * [`solves`] whole solves, and what must come of bad input,
//! * [`diffusion`] and [`diffusion_solves`] the same for the diffusion operator.

pub mod diffusion;
pub mod diffusion_solves;
pub mod fixture;
pub mod solves;
pub mod steps;

/// Instantiates every check of the conformance suite as a test, in a module of the given name.
#[macro_export]
macro_rules! conformance_suite {
    ($module:ident, $backend:expr, $real:ty) => {
        $crate::conformance_suite!(@with $module, $backend, $real, , stored_matrix);
    };
    ($module:ident, $backend:expr, $real:ty, without stored_matrix) => {
        $crate::conformance_suite!(@with $module, $backend, $real);
    };
    (@with $module:ident, $backend:expr, $real:ty $(, , $more:ident)*) => {
        $crate::conformance_suite!(@checks $module, $backend, $real,
            steps: [
                transfer, vector_operations, apply_and_residual, diagonal, lines, advance_direction,
                precondition_residual, smooth, restrict_and_prolong, fused_multigrid_steps, mixed_step, up_and_down
                $(, $more)*
            ],
            solves: [
                every_method, size_one, zero_right_hand_side, already_converged, not_finite, first_guess,
                not_symmetric, too_few_iterations, unreachable_tolerance
            ]
        );
    };
    (@checks $module:ident, $backend:expr, $real:ty, $($group:ident: [$($check:ident),*]),*) => {
        #[cfg(test)]
        mod $module {
            use super::*;
            $($(
                #[test]
                fn $check() {
                    $crate::conformance::$group::$check::<_, $real>(&$backend);
                }
            )*)*
        }
    };
}

/// Instantiates every check of the diffusion operator as a test, in a module of the given name.
#[macro_export]
macro_rules! diffusion_conformance_suite {
    ($module:ident, $backend:expr, $real:ty) => {
        $crate::conformance_suite!(@checks $module, $backend, $real,
            diffusion: [
                diffusion_apply, diffusion_cg_steps, diffusion_lines, diffusion_smooth, diffusion_transfers,
                diffusion_adjoint_transfers, diffusion_triangular_steps, regions, region_matrices, diffusion_padding
            ],
            diffusion_solves: [diffusion_every_method, diffusion_small, diffusion_compatibility]
        );
    };
}
