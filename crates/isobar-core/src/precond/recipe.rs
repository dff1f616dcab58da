//! How a cycle of multigrid goes on each of its levels.

use std::sync::Arc;

use crate::backend::Backend;
use crate::layout::Colour;
use crate::operator::{Relaxation, Transfer};
use crate::options::{MultigridOptions, Smoother};
use crate::real::Real;
use crate::stencil::Hierarchy;

/// How a cycle goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    /// Before the coarse correction.
    pub(super) relaxation: Relaxation,
    /// After it.
    pub(super) post_relaxation: Relaxation,
    pub(super) pre: usize,
    pub(super) post: usize,
    pub(super) coarse_sweeps: usize,
}

/// How each level of a hierarchy is relaxed before the coarse correction.
pub(crate) fn relaxations<B: Backend, S, T: Real>(
    hierarchy: &Hierarchy<B, S, T>,
    options: &MultigridOptions,
) -> Vec<Relaxation> {
    Recipe::of_levels(hierarchy, options).into_iter().map(|recipe| recipe.relaxation).collect()
}

impl Recipe {
    /// Of each level of a hierarchy, the first of which may be relaxed by points and the others by lines.
    pub(super) fn of_levels<B: Backend, S, T: Real>(
        hierarchy: &Hierarchy<B, S, T>,
        options: &MultigridOptions,
    ) -> Vec<Self> {
        let is_symmetric =
            |transfers: &[Arc<dyn Transfer<B, T>>]| transfers.iter().all(|transfer| transfer.is_adjoint());
        let count = hierarchy.levels.len();
        if hierarchy.by_points == 0 {
            return vec![Self::new(options, is_symmetric(&hierarchy.transfers)); count];
        }
        let (by_points, by_lines) = hierarchy.transfers.split_at(hierarchy.by_points);
        let points = MultigridOptions { smoother: Smoother::PointRedBlack, ..options.clone() };
        let lines = MultigridOptions { smoother: Smoother::LineRedBlack, relaxation: None, ..options.clone() };
        let mut recipes = vec![Self::new(&points, is_symmetric(by_points)); hierarchy.by_points];
        recipes.resize(count, Self::new(&lines, is_symmetric(by_lines)));
        recipes
    }

    fn new(options: &MultigridOptions, is_symmetric: bool) -> Self {
        let relaxation =
            Relaxation { smoother: options.smoother.or_lines(), rho: options.relaxation(), first: Colour::Red };
        let post_first = if is_symmetric { Colour::Black } else { Colour::Red };
        Self {
            relaxation,
            post_relaxation: Relaxation { first: post_first, ..relaxation },
            pre: options.pre,
            post: options.post,
            coarse_sweeps: options.coarse_sweeps,
        }
    }
}
