//! This module changes coefficients: everything that depends on them is updated, or the solver is made again if another one suits them.

use std::sync::Arc;

use super::arrays::download;
use super::direct::{chosen, factors_of, is_divided, lines_of};
use super::system::{System, null_space};
use crate::direct::Separable;
use crate::error::{Error, Result};
use crate::operator::Guess;
use crate::options::{Method, Preconditioner, SolverOptions};
use crate::outcome::Outcome;
use crate::policy::begin::{Beginning, Direct, begin};
use crate::solver::Observer;
use crate::solver::monitor::Progress;
use crate::stencil::{Stencil, Supports, Update};
use crate::{Source, Target};

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Chooses method and preconditioner for a matrix on the solver's grid, if the options leave them open. `is_own` states whether the
    /// preconditioner is the caller's, `is_set_up` whether directions were reordered for cycles.
    pub(super) fn beginning(
        backend: &B,
        stencil: &S,
        operator: &Arc<B::Operator<f64>>,
        [open, options]: [&SolverOptions; 2],
        [is_own, is_set_up]: [bool; 2],
    ) -> Result<Beginning<Separable>> {
        let is_divided = is_divided(backend);
        let direct = Direct {
            is_possible: backend.has_direct(),
            // An indefinite matrix is factored even if its coefficients must be copied from the GPU, because no iteration solves it.
            factors: || match chosen(backend, stencil) {
                None if !stencil.is_definite() => factors_of(backend, stencil).ok().filter(Separable::pays),
                found => found,
            },
            is_undivided: || is_divided && stencil.chooses_direct().is_some(),
            // In a plane that is solved upright, lines take a dozen iterations.
            nearest: || {
                let tried =
                    (!is_set_up).then(|| stencil.tries_box(backend.products_like_rest(), lines_of(backend))).flatten();
                tried.filter(|tried| backend.direct_pays(&tried.factors))
            },
        };
        begin([open, options], is_own, direct, || backend.choice(stencil, operator, options))
    }

    /// Changes the coefficients; see [`Solve::update`](super::Solve::update).
    ///
    /// # Errors
    /// See there.
    pub fn update(&mut self, stencil: &S) -> Result<()> {
        self.bounds.stuck = None;
        Error::unless_equal("the new operator", stencil.shape(), self.turns().once(self.stencil.shape()))?;
        let callers = stencil;
        let around = stencil.around(self.turns())?;
        let stencil = &*around;
        self.stencil.check_update(stencil)?;
        if !stencil.is_symmetric() && self.options.method == Method::Cg {
            return Err(Error::invalid("the new operator", "not symmetric, which conjugate gradients need it to be"));
        }
        // Lines that ranks divide may leave an axis without a fast transform, where one rank has its lines. An error keeps the old factors.
        let is_open = self.decision.after_direct.is_some() && is_divided(&self.backend) && stencil.is_definite();
        let is_direct = self.options.method == Method::Direct;
        let mut is_left = is_direct && is_open && chosen(&self.backend, stencil).is_none();
        if is_direct
            && !is_left
            && let Err(error) = self.updates.iter().try_for_each(|update| update(stencil))
        {
            if self.decision.after_direct.is_none() {
                return Err(error);
            }
            is_left = true;
        }
        let uses_modes = self.options.method == Method::Modes || self.options.preconditioner == Preconditioner::Modes;
        if uses_modes && let Err(error) = stencil.check_modes() {
            let may_change = self.decision.requested.as_ref().is_some_and(SolverOptions::leaves_all_open);
            return if may_change && self.make_anew(callers)? { Ok(()) } else { Err(error) };
        }
        if self.options.method != Method::Direct || is_left {
            stencil.check_iterated()?;
        }
        let is_other = is_left || self.returns_to_direct(stencil) || self.gains_or_loses_directions(stencil);
        if is_other && self.make_anew(callers)? {
            return Ok(());
        }
        self.stencil = stencil.clone();
        let was_current = std::mem::replace(&mut self.is_current, false);
        let has_changed = self.backend.update(&*self.operator, stencil)?;
        let is_renewed = has_changed || !was_current || self.options.method == Method::Direct;
        if is_renewed {
            self.renew(stencil, is_left)?;
            self.decision.hold = self.stencil.hold();
            self.decision.note_dominance(&self.stencil, self.options.tolerance);
            self.decision.latest =
                (self.decision.requested.is_some() && callers.keeps_numbers()).then(|| callers.clone());
        }
        self.is_current = true;
        self.left = None;
        for other in &mut self.beside {
            other.stencil = self.stencil.clone();
            other.is_current &= !is_renewed;
        }
        Ok(())
    }

    /// Fails after an update that failed on its way, when the solver has neither matrix completely.
    pub(super) fn check_current(&self) -> Result<()> {
        if self.is_current {
            return Ok(());
        }
        Err(Error::invalid(
            "the solver",
            "its last update ended with an error on the way, so it has neither the old coefficients nor the new ones completely; update it again, \
             or make a new solver",
        ))
    }

    /// Makes everything again that depends on the coefficients, except for the operator; `is_left` states whether the direct solver cannot solve
    /// with them.
    fn renew(&mut self, stencil: &S, is_left: bool) -> Result<()> {
        let own = if self.options.method == Method::Direct { &[] } else { &self.updates[..] };
        let other = self.symmetric.iter().flat_map(|(_, updates)| updates).filter(|_| !is_left);
        let updates: Vec<&Update<S>> = own.iter().chain(other).collect();
        // A box that is only tried may be missing; on several ranks not for reasons that one of them may have alone.
        let updated = self.backend.enter(|| updates.iter().try_for_each(|update| update(stencil)));
        let is_boxless = match &updated {
            Ok(()) => false,
            Err(_) if self.options.preconditioner != Preconditioner::Direct => false,
            Err(Error::Invalid { .. } | Error::Unsupported(_)) => self.decision.after_trial.is_some(),
            Err(_) => self.decision.after_trial.is_some() && !is_divided(&self.backend),
        };
        if !is_boxless {
            updated?;
        }
        let was_floating = self.is_floating();
        match &mut self.null_space {
            Some(space) if self.capabilities.aggregates.is_some() && stencil.check_iterated().is_ok() => {
                space.update()?;
            }
            space => *space = null_space(&self.capabilities, stencil)?,
        }
        if is_left {
            return self.leave_direct();
        }
        if let Some(after) = self.decision.after_trial.take_if(|_| is_boxless) {
            return self.replace(after.options);
        }
        if self.options.method == Method::Jacobi && self.is_floating() != was_floating {
            // The relaxation depends on it.
            return self.replace(self.options.clone());
        }
        if let Some((symmetric, _)) = &mut self.symmetric {
            symmetric.update()?;
        }
        self.iteration.update()
    }

    /// Returns whether a solver that was direct once may be so again.
    fn returns_to_direct(&self, stencil: &S) -> bool {
        let is_open = self.decision.requested.as_ref().is_some_and(SolverOptions::leaves_all_open);
        let has_left = self.decision.was_direct && self.options.method != Method::Direct;
        has_left && is_open && chosen(&self.backend, stencil).is_some()
    }

    /// Returns whether this device chooses another solver because at most one direction of a matrix couples cells.
    pub(super) fn decides_one_direction(stencil: &S) -> bool {
        B::ORIENTATION.has_order_of_lines() && stencil.has_one_direction()
    }

    /// Returns whether an iteration was chosen for several directions that couple cells and this matrix has one, or the reverse.
    fn gains_or_loses_directions(&self, stencil: &S) -> bool {
        let is_open = self.decision.requested.as_ref().is_some_and(SolverOptions::leaves_all_open);
        let is_chosen = is_open && self.options.method != Method::Direct;
        is_chosen && Self::decides_one_direction(stencil) != self.decision.had_one_direction
    }

    /// Makes the solver again for other coefficients, as [`System::new`] does. Returns false if options do not allow that, or if memory does not
    /// suffice for both.
    fn make_anew(&mut self, stencil: &S) -> Result<bool> {
        let Some(options) = self.options_given() else { return Ok(false) };
        let is_alone = self.backend.device().ranks == 1;
        let was_direct = self.decision.was_direct;
        match Self::new(&self.backend, stencil, &options) {
            Ok(mut made) => {
                made.decision.was_direct |= was_direct;
                *self = Self { bounds: self.bounds, ..made };
            }
            Err(Error::OutOfMemory { .. }) if is_alone => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Returns the user's options, with those that were changed since.
    fn options_given(&self) -> Option<SolverOptions> {
        let SolverOptions { tolerance, compatibility, .. } = self.options;
        self.decision.requested.clone().map(|requested| SolverOptions { tolerance, compatibility, ..requested })
    }

    /// Returns whether another solver would be chosen for the latest coefficients than for those for which this one was made.
    pub(super) fn is_chosen_otherwise(&self) -> Result<bool> {
        let (Some(callers), Some(options)) = (&self.decision.latest, self.options_given()) else { return Ok(false) };
        let turns = self.backend.turns(callers, &options);
        if turns != self.turns() {
            return Ok(true);
        }
        let is_set_up = turns.sets_up(callers.shape());
        let found = Self::beginning(&self.backend, &self.stencil, &self.operator, [&options; 2], [false, is_set_up])?;
        Ok(found.options
            != SolverOptions {
                tolerance: options.tolerance,
                compatibility: options.compatibility,
                ..self.decision.first.clone()
            })
    }

    /// Makes the solver again for the latest coefficients and continues the solve from the current u, which it writes to the caller's array
    /// first.
    pub(super) fn go_on_anew(
        &mut self,
        rhs: Source<'_>,
        mut u: Target<'_>,
        first: Outcome,
        observer: &mut Observer<'_>,
    ) -> Result<Outcome> {
        download(&self.backend, &self.callers, &self.u, &mut u)?;
        if let Some(latest) = self.decision.latest.take() {
            self.make_anew(&latest)?;
        }
        let Outcome { iterations, mut history, mut notes, timing, .. } = first;
        let most = self.options.max_iterations;
        self.options.max_iterations = most.saturating_sub(iterations);
        let found = self.solve_here(rhs, u, Guess::Given, &mut |seen| {
            observer(&Progress { iteration: iterations + seen.iteration, ..*seen })
        });
        self.options.max_iterations = most;
        let mut outcome = found?;
        notes.push(format!(
            "the solver for former coefficients was slow up to iteration {iterations}; continued with one for these: {}",
            self.description.method
        ));
        notes.append(&mut outcome.notes);
        history.extend(outcome.history.iter().skip(1));
        outcome.timing.upload += timing.upload;
        outcome.timing.solve += timing.solve;
        Ok(Outcome { iterations: iterations + outcome.iterations, history, notes, ..outcome })
    }
}
