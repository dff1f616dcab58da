//! All sources for a stencil with a header, for tests that compile them.

use isobar_core::prelude::{Diffusion, Real, Stencil};

use super::form::Form;
use super::points::tile;
use crate::compile::Source;
use crate::diffusion::Kind;

/// Returns all sources for stencils of this form and line solves for columns with these numbers of layers; `wide` for vectors too
/// long for tests; for the smallest and the largest shared memory of a GPU.
pub(crate) fn all<T: Real>(stencil: &Diffusion, layers: &[usize], wide: bool) -> Vec<Source> {
    let form = Form { wide, ..Form::new(Kind::of(stencil), stencil.shape()) };
    let mut all = vec![
        form.passes::<T>(),
        form.triangular::<T>(),
        form.colours::<T>(),
        form.small_colours::<T>(),
        form.look::<T>(),
        form.whole_grid::<T>(stencil.shape(), 64 << 10, 1),
        form.whole_grid::<T>(stencil.shape(), 227 << 10, 0),
    ];
    all.extend(layers.iter().map(|&layers| form.lines::<T>(layers)));
    all.extend(layers.iter().filter_map(|&layers| form.sweeps::<T>(layers)));
    all.extend(form.colours_streamed_source::<T>());
    all.extend(tile::sources::<T>(stencil, wide));
    all
}
