//! The choice of a solver, and the replacements that are left.

use crate::options::{Method, Norm, Preconditioner, SolverOptions};
use crate::policy::begin::{AfterTrial, Beginning};
use crate::policy::watch::Replaceable;
use crate::stencil::Stencil;

/// What was asked of a solver, what was chosen for its matrix, and what may replace it.
#[derive(Clone)]
pub(super) struct Decision<S> {
    /// The options of the caller, if the solver may be made anew for other coefficients.
    pub(super) requested: Option<SolverOptions>,
    /// The options of the first choice, which leave nothing open.
    pub(super) first: SolverOptions,
    /// The options for other coefficients after a direct solve, if that was chosen.
    pub(super) after_direct: Option<SolverOptions>,
    /// Whether a direct solve was chosen for some coefficients.
    pub(super) was_direct: bool,
    /// Whether one direction coupled cells at most, where that decides on the solver.
    pub(super) had_one_direction: bool,
    /// What follows a trial, while that goes on.
    pub(super) after_trial: Option<AfterTrial>,
    /// The preconditioner of the safer method.
    pub(super) reserve: Preconditioner,
    /// The replacements of a slow iteration.
    pub(super) replaceable: Replaceable,
    /// Whether multigrid suits the matrix.
    pub(super) has_levels: bool,
    /// The coefficients of the last update, in the caller's order, until a solve has shown whether the choice suits them; not those in a caller's
    /// arrays on a GPU, whose numbers may have changed.
    pub(super) latest: Option<S>,
    /// Whether a solve was slow and another solver would be chosen for the latest coefficients.
    pub(super) is_outdated: bool,
    /// See [`crate::stencil::Stencil::hold`].
    pub(super) hold: Option<f64>,
    /// Whether no strong preconditioner was chosen because a shift dominates the couplings.
    pub(super) is_dominated: bool,
    /// The number of notes about this choice, with which the description begins.
    pub(super) first_notes: usize,
}

impl<S> Decision<S> {
    /// Notes a choice by `open` options, or by those for iterations, where a direct solve is not chosen.
    pub(super) fn new<F>(began: &Beginning<F>, [open, for_iterations]: [&SolverOptions; 2]) -> Self {
        let used = if began.is_direct { open } else { for_iterations };
        Self {
            requested: None,
            first: began.options.clone(),
            after_direct: began.is_direct.then(|| for_iterations.clone()),
            was_direct: began.is_direct,
            had_one_direction: false,
            after_trial: began.after_trial.clone(),
            reserve: began.reserve,
            replaceable: Replaceable::of(used, [open, for_iterations], [began.is_replaceable, began.is_cycles]),
            has_levels: began.has_levels,
            latest: None,
            is_outdated: false,
            is_dominated: false,
            hold: None,
            first_notes: 0,
        }
    }

    /// Returns this choice for a solver without replacements, beside the one that decides.
    pub(super) fn without_replacements(&self) -> Self
    where
        S: Clone,
    {
        // A trial is watched there too; the main solver then continues a slow solve.
        Self { latest: None, after_direct: None, ..self.clone() }
    }

    /// Returns whether another solver may continue a solve that is slow.
    pub(super) fn may_be_replaced(&self) -> bool {
        let Replaceable { is_points, is_cycles, is_plain, .. } = self.replaceable;
        self.after_trial.is_some() || is_points || is_cycles || is_plain
    }

    /// Notes whether a shift is known to dominate the couplings, if conjugate gradients without multigrid are the solver's own choice.
    pub(super) fn note_dominance<T: Stencil>(&mut self, stencil: &T, tolerance: f64) {
        let is_open = self.requested.as_ref().is_some_and(SolverOptions::leaves_all_open);
        let by = self.first.preconditioner;
        let is_simple = matches!(by, Preconditioner::None | Preconditioner::Jacobi | Preconditioner::Line);
        let is_chosen = is_open && is_simple && self.first.method == Method::Cg;
        self.is_dominated = is_chosen && stencil.is_dominated(by, tolerance);
    }

    /// Returns whether the method is the solver's own choice, and residuals are relative to b, whatever the first guess.
    pub(super) fn chooses(&self) -> bool {
        self.requested.as_ref().is_some_and(|options| options.method == Method::Auto && options.norm != Norm::Initial)
    }

    /// Changes the tolerance of all options that may be used later.
    pub(super) fn set_tolerance(&mut self, tolerance: f64) {
        let later = [self.after_direct.as_mut(), self.after_trial.as_mut().map(|after| &mut after.options)];
        later.into_iter().flatten().for_each(|options| options.tolerance = tolerance);
    }
}
