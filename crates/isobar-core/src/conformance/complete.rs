//! Back ends that support all stencils of the suite.

use crate::prelude::*;
use crate::stencil::StoredMatrix;

/// A back end that supports all stencils of the suite.
pub(super) trait Complete: Supports<TensorProduct> + Supports<Diffusion> + Supports<StoredMatrix> {}

impl<B: Supports<TensorProduct> + Supports<Diffusion> + Supports<StoredMatrix>> Complete for B {}
