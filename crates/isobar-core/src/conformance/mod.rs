//! The conformance suite: every back end must agree with the reference, up to rounding.
//!
//! [`suite`] lists all checks for a back end and a precision. A test binary without a harness of its own runs them:
//!
//! ```
//! use isobar_core::conformance::{Checks, suite};
//! use isobar_core::reference::Reference;
//!
//! let checks: Checks<Reference> = suite::<Reference, f64>();
//! assert!(checks.iter().any(|(name, _)| name == "tensor_product::apply"));
//! ```
//!
//! Data that a step must not read is filled with NaN first, so that a wrong read shows.
//!
//! * `fixture`: grids of awkward sizes, stencils of every kind, vectors on both sides, and the comparison,
//! * `vectors`: copies, vector operations, aggregates,
//! * `steps`: each fused step of an operator, `triangular`: those of its triangular parts,
//! * `points`: relaxation of points, in sweeps and in tiles,
//! * [`galerkin`] and `point_levels`: the levels of diffusion, `levels`: transfers, and the steps that fuse them with sweeps, in
//!   one precision and in two, `modes`: transfers between a grid and its vertical modes,
//! * [`direct`]: boxes that are solved without iterating, `crossing`: grids whose widths grow in several directions,
//! * [`arrays`]: solves and vectors of plain arrays, `solves`: whole solves, and bad input, `many`: several at a time, `updates`: operators
//!   that change.

pub mod arrays;
mod complete;
mod crossing;
pub mod direct;
mod fixture;
pub mod galerkin;
mod levels;
mod many;
mod modes;
mod point_levels;
mod points;
mod solves;
mod steps;
mod triangular;
mod updates;
mod vectors;

use self::fixture::Sample;
use crate::backend::AggregateBackend;
use crate::real::Real;
use crate::stencil::{Diffusion, StoredMatrix, Supports, TensorProduct};

/// Checks by name. Each panics where the back end differs from the reference.
pub type Checks<B> = Vec<(String, Box<dyn Fn(&B) + Send + Sync>)>;

macro_rules! checks {
    ($($group:expr => [$($name:literal => $check:expr),* $(,)?]),* $(,)?) => {{
        let mut all: Checks<B> = Vec::new();
        $($(all.push((format!("{}::{}", $group, $name), Box::new($check)));)*)*
        all
    }};
}

/// Returns all checks for a back end, in a precision.
pub fn suite<B, T: Real>() -> Checks<B>
where
    B: Supports<TensorProduct> + Supports<Diffusion> + Supports<StoredMatrix>,
{
    let mut all = vector_suite::<B, T>();
    all.extend(steps_of::<B, TensorProduct, T>("tensor_product"));
    all.extend(steps_of::<B, Diffusion, T>("diffusion"));
    all.extend(checks! {
        "tensor_product" => [
            "transfers" => levels::transfers::<B, TensorProduct, T>,
            "fused_transfers" => levels::fused_transfers::<B, TensorProduct, T>,
            "update" => updates::tensor_product::<B, T>,
            "stored_faces" => triangular::stored_faces::<B, T>,
            "modes" => modes::steps::<B, T, T>,
            "cycles_of_modes" => modes::cycles::<B, T>,
            "update_of_modes" => modes::update::<B, T>,
        ],
        "diffusion" => [
            "transfers" => levels::transfers::<B, Diffusion, T>,
            "fused_transfers" => levels::fused_transfers::<B, Diffusion, T>,
            "exact_cycles_of_cells_alike" => points::exact_even::<B, T>,
            "adjoint_transfers" => levels::adjoint_transfers::<B, T>,
            "relax_triangles" => triangular::relax::<B, T>,
            "incomplete_poisson" => triangular::incomplete_poisson::<B, T>,
            "factorise_and_substitute" => triangular::factorise_and_substitute::<B, T>,
            "deflation_step" => triangular::subtract_aggregated::<B, T>,
            "aggregation" => triangular::aggregation::<B, T>,
            "galerkin_levels" => galerkin::levels::<B, T>,
            "galerkin_coarsest" => galerkin::coarsest::<B, T>,
            "point_levels" => point_levels::levels::<B, T>,
            "large_point_levels" => point_levels::large_levels::<B, T>,
            "point_levels_at_once" => point_levels::at_once::<B, T>,
            "update_of_point_levels" => point_levels::update::<B, T>,
            "points_above_lines" => point_levels::above_lines::<B, T>,
            "update" => updates::diffusion::<B, T>,
        ],
        "stored_matrix" => [
            "steps" => steps::stored_matrix::<B, T>,
            "update" => updates::stored_matrix::<B, T>,
        ],
        "solves" => [
            "tensor_product" => solves::tensor_product::<B, T>,
            "without_a_mass" => solves::without_a_mass::<B, T>,
            "diffusion" => solves::diffusion::<B, T>,
            "jacobi" => solves::jacobi::<B, T>,
            "points" => solves::points::<B, T>,
            "stored_matrix" => solves::stored_matrix::<B, T>,
            "small_grids" => solves::small_grids::<B, T>,
            "zero_right_hand_side" => solves::zero_right_hand_side::<B, T>,
            "extreme_right_hand_sides" => solves::extreme_right_hand_sides::<B, T>,
            "already_converged" => solves::already_converged::<B, T>,
            "not_finite" => solves::not_finite::<B, T>,
            "first_guess" => solves::first_guess::<B, T>,
            "after_a_failure" => solves::after_a_failure::<B, T>,
            "not_symmetric" => solves::not_symmetric::<B, T>,
            "too_few_iterations" => solves::too_few_iterations::<B, T>,
            "interrupted" => solves::interrupted::<B, T>,
            "unreachable_tolerance" => solves::unreachable_tolerance::<B, T>,
            "compatibility" => solves::compatibility::<B, T>,
        ],
    });
    if T::PRECISION == crate::real::Precision::F64 {
        all.extend(checks! {
            "tensor_product" => [
                "mixed_top" => levels::mixed_top::<B, TensorProduct>,
                "modes_in_single" => modes::steps::<B, f64, f32>,
            ],
            "diffusion" => ["mixed_top" => levels::mixed_top::<B, Diffusion>],
            "crossing" => ["planes" => crossing::planes::<B>, "slices" => crossing::slices::<B>, "oblong" => crossing::oblong::<B>, "lines" => crossing::lines::<B>],
            "direct" => ["boxes" => direct::boxes::<B>, "long" => direct::long::<B>, "indefinite" => direct::indefinite::<B>, "update" => direct::update::<B>],
        });
    }
    all
}

/// Returns the checks of steps that operators of both kinds have.
fn steps_of<B: Supports<S>, S: Sample, T: Real>(group: &str) -> Checks<B> {
    checks! {
        group => [
            "apply" => steps::apply::<B, S, T>,
            "diagonal" => steps::diagonal::<B, S, T>,
            "lines" => steps::lines::<B, S, T>,
            "advance_direction" => steps::advance_direction::<B, S, T>,
            "smooth" => steps::smooth::<B, S, T>,
            "relax_points" => points::relax::<B, S, T>,
            "exact_cycles" => points::exact::<B, S, T>,
            "lines_by_points" => points::lines::<B, S, T>,
            "padding" => steps::padding::<B, S, T>,
        ],
    }
}

/// Returns the checks of several systems for a back end with queues. They are compared with solves one after the other.
pub fn queue_suite<B: Supports<Diffusion>>() -> Checks<B> {
    checks! {
        "several_systems" => ["at_a_time" => many::at_a_time::<B>, "with_errors" => many::with_errors::<B>],
    }
}

/// Returns whether a check takes long: whole solves, large grids, all Galerkin levels, vertical modes, and incomplete Cholesky in blocks of
/// all sizes take most of a suite's time.
pub fn takes_long(name: &str) -> bool {
    const LONG: [&str; 5] = [
        "solves::",
        "diffusion::exact_cycles",
        "diffusion::factorise_and_substitute",
        "diffusion::galerkin_levels",
        "tensor_product::modes",
    ];
    LONG.iter().any(|start| name.starts_with(start))
}

/// Returns the checks that need no stencil.
fn vector_suite<B: AggregateBackend, T: Real>() -> Checks<B> {
    checks! {
        "vectors" => [
            "transfer" => vectors::transfer::<B, T>,
            "averages" => vectors::averages::<B, T>,
            "operations" => vectors::operations::<B, T>,
            "aggregates" => vectors::aggregates::<B, T>,
            "aggregate_matrices" => vectors::aggregate_matrices::<B>,
        ],
    }
}
