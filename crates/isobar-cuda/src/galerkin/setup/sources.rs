//! Sources and names of the kernels.

use isobar_core::prelude::{Axis, Real};
use isobar_core::stencil::galerkin::Grid;
use isobar_core::stencil::galerkin::bodies::{CANCELLED, CONTRAST, DAMPING, LARGEST, LOOSE};
use isobar_core::stencil::galerkin::couplings::{UPPER, along};
use isobar_core::stencil::galerkin::product::{COLLAPSED, coarse_offsets};
use isobar_core::stencil::galerkin::weights::{LEANING, NEARLY_ONE, NEGLIGIBLE as NEGLIGIBLE_WEIGHT, SMALL_SHIFT};

use isobar_dist::PartBackend;

use crate::galerkin::sources::{self, bits};
use crate::kernels::galerkin::setup as kernels;
use crate::vector::c_name;
use crate::{Cuda, Source, aggregate};

/// The number type of matrices and weights during setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Single precision.
    Single,
    /// Double precision.
    Double,
}

impl Number {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Single => size_of::<f32>(),
            Self::Double => size_of::<f64>(),
        }
    }

    /// Defines the number type for a source.
    fn source(self, name: &'static str, text: &'static str) -> Source {
        let number = match self {
            Self::Single => c_name::<f32>(),
            Self::Double => c_name::<f64>(),
        };
        Source::new(name, text).define("NUMBER", number)
    }
}

/// The kernels of weights in x, y and z.
pub(super) const COMPUTE: [[&str; 4]; 3] = [
    ["start_x", "factorise_x", "relax_x", "finish_x"],
    ["start_y", "factorise_y", "relax_y", "finish_y"],
    ["start_z", "factorise_z", "relax_z", "finish_z"],
];

/// The kernels of products halved in x, y and z.
pub(super) const PRODUCT: [&str; 3] = ["product_x", "product_y", "product_z"];
/// The kernels that treat collapsed cells.
pub(super) const HOLD: [&str; 3] = ["hold_x", "hold_y", "hold_z"];

/// Returns the source of the kernels that depend on the operator's precision.
pub fn source<T: Real>(number: Number) -> Source {
    number.source("galerkin_finest", kernels::FINEST).define("REAL", c_name::<T>())
}

/// Returns all other sources, with products for any matrix and for one with couplings in these directions.
pub fn sources(number: Number, present: &[bool; UPPER], coarse: &[bool; UPPER]) -> [Source; 9] {
    [
        measures(number),
        weights_source(number),
        any_product(number),
        product_of(number, present, coarse),
        collapsed_source(number),
        bodies_source(number),
        inverse_source(number),
        rows_source(number),
        shared_source(number),
    ]
}

pub(super) fn measures(number: Number) -> Source {
    number.source("galerkin_measures", kernels::MEASURES).define("CONTRAST", literal(CONTRAST))
}

pub(super) fn weights_source(number: Number) -> Source {
    number
        .source("galerkin_weights", kernels::WEIGHTS)
        .define("LEANING", literal(LEANING))
        .define("NEARLY_ONE", literal(NEARLY_ONE))
        .define("SMALL_SHIFT", literal(SMALL_SHIFT))
        .define("NEGLIGIBLE", literal(NEGLIGIBLE_WEIGHT))
}

fn any_product(number: Number) -> Source {
    number.source("galerkin_product", kernels::PRODUCT)
}

fn product_of(number: Number, present: &[bool; UPPER], coarse: &[bool; UPPER]) -> Source {
    any_product(number).define("PRESENT", bits(*present)).define("COARSE_PRESENT", bits(*coarse))
}

pub(super) fn collapsed_source(number: Number) -> Source {
    number.source("galerkin_collapsed", kernels::COLLAPSED).define("COLLAPSED", literal(COLLAPSED))
}

pub(super) fn bodies_source(number: Number) -> Source {
    number
        .source("galerkin_setup_bodies", kernels::BODIES)
        .define("LARGEST", LARGEST)
        .define("LOOSE", literal(LOOSE))
        .define("CANCELLED", literal(CANCELLED))
        .define("DAMPING", literal(DAMPING))
}

pub(super) fn rows_source(number: Number) -> Source {
    number.source("galerkin_rows", kernels::ROWS)
}

pub(super) fn shared_source(number: Number) -> Source {
    number.source("galerkin_setup_shared", kernels::SHARED)
}

pub(super) fn inverse_source(number: Number) -> Source {
    number.source("galerkin_inverse", kernels::INVERSE)
}

/// Returns the couplings of the matrices between the seven-point matrix and the one coarsened in all directions.
fn on_the_way(grid: &Grid) -> [[bool; UPPER]; 4] {
    let first = std::array::from_fn(|n| Axis::ALL.into_iter().any(|axis| n == along(axis)));
    let mut all = [first; 4];
    for (n, axis) in Axis::ALL.into_iter().enumerate() {
        all[n + 1] = coarse_offsets(&all[n], axis, grid);
    }
    all
}

/// Returns the source of a product. On the finest levels the couplings are known at compile time; other products test for them.
pub(super) fn product(number: Number, grid: &Grid, present: &[bool; UPPER], coarse: &[bool; UPPER]) -> Source {
    let is_on_the_way = on_the_way(grid).windows(2).any(|pair| pair == [*present, *coarse]);
    if is_on_the_way { product_of(number, present, coarse) } else { any_product(number) }
}

/// Requests the compilation of the kernels that make Galerkin levels of a grid in a number type, and of those that use them in
/// precision T.
pub(crate) fn expect_levels<T: Real>(cuda: &Cuda, number: Number, grid: &Grid, has_contrast: bool) {
    const BODIES: &[&str] =
        &["keep_bodies", "begin_search", "label_tiles", "join_cells", "count_cells", "number_bodies", "list_cells"];
    const SHARED: &[&str] = &["begin_edges", "label_edges", "list_edges", "take_shared", "mark_shared", "sum_shared"];
    // The kernels that take longest to compile come first.
    let way = on_the_way(grid);
    if grid.seven_points() == way[0] {
        for (pair, name) in way.windows(2).zip(PRODUCT) {
            cuda.expect(product_of(number, &pair[0], &pair[1]), &[name]);
        }
    }
    if has_contrast {
        cuda.expect(bodies_source(number), BODIES);
    }
    cuda.expect(source::<T>(number), &["couplings_of_cells", "store"]);
    cuda.expect(measures(number), &["look_at_finest", "mean_couplings"]);
    cuda.expect(weights_source(number), COMPUTE.as_flattened());
    cuda.expect(collapsed_source(number), &HOLD);
    let [_, lines, interpolate, bodies] = sources::sources::<T>();
    for is_small in [false, true] {
        cuda.expect(sources::apply_source::<T>(is_small), &["residual_field", "residual_later"]);
    }
    cuda.expect(lines, &["begin_factorise", "factorise"]);
    cuda.expect(
        interpolate,
        &["prolong", "prolong_halved", "restrict_field", "restrict_halved", "restrict_even", "restrict_odd"],
    );
    cuda.expect(any_product(number), &PRODUCT);
    if cuda.ranks().is_some() {
        cuda.expect(rows_source(number), &["copy_rows"]);
        if has_contrast {
            cuda.expect(shared_source(number), SHARED);
        }
    }
    cuda.expect(inverse_source(number), &["begin_inverse", "invert_block", "eliminate_block"]);
    cuda.expect(aggregate::source::<T>(), &["multiply_cells"]);
    if has_contrast {
        cuda.expect(bodies, &["correct_bodies"]);
    }
}

/// Formats a number for C++.
fn literal(value: f64) -> String {
    format!("{value:e}")
}
