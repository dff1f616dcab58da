//! Several systems with one matrix, as many at a time as the device has queues for.

use std::ops::ControlFlow;
use std::sync::Mutex;

use super::solve::{Solve, is_final};
use super::system::{System, null_space, scratch_layout};
use crate::operator::Guess;
use crate::options::Method;
use crate::outcome::Outcome;
use crate::solver::Observer;
use crate::stencil::{Stencil, Supports};
use crate::{Error, Result, Source, Target, lock};

/// A function that solves between two arrays.
pub type Call<'c> = dyn FnMut(Source<'_>, Target<'_>) -> Result<Outcome> + 'c;

/// A function that passes the right-hand side and the solution of a system to a solver.
pub type Arrays<'f, X> = dyn Fn(&mut X, &mut Call<'_>) -> Result<Outcome> + Sync + 'f;

/// Solves systems with one matrix until the observer ends a solve; returns the outcomes of the systems that were begun, which are the
/// first ones. If the device has several queues, several solvers, as many as fit in memory, take one system after another at the same
/// time. Systems that do not converge are solved again in turn, by the solver that has other methods in reserve.
///
/// # Errors
/// The errors of [`Solve::solve`], with the number of the system, counted from 0; [`Error::Invalid`] for no systems. After an error, the
/// u of all systems before that one hold their solutions.
pub fn solve_many<S, X: Send>(
    solver: &mut dyn Solve<S>,
    systems: Vec<X>,
    guess: Guess,
    observer: &mut Observer<'_>,
    arrays: &Arrays<'_, X>,
) -> Result<Vec<Outcome>> {
    Error::unless(!systems.is_empty(), "the right-hand sides", || "there are none; give one or more")?;
    let count = systems.len();
    let shared = Shared {
        waiting: Mutex::new(systems.into_iter().enumerate()),
        found: Mutex::new((0..count).map(|_| None).collect()),
        observer: Mutex::new((observer, false)),
    };
    if count > 1 {
        let mut beside = solver.beside(count)?;
        std::thread::scope(|scope| {
            for solver in &mut beside {
                scope.spawn(|| shared.work(&mut **solver, guess, arrays));
            }
        });
    }
    // This solver solves all systems that no other solver has solved.
    let found = std::mem::take(&mut *lock(&shared.found));
    let mut outcomes = Vec::with_capacity(count);
    for (n, found) in found.into_iter().enumerate() {
        let (mut system, outcome) = match found {
            Some((_, Ok(outcome))) if is_final(&outcome) || shared.is_ended() => {
                outcomes.push(outcome);
                continue;
            }
            Some((system, found)) => (system, found.map(drop)),
            None if shared.is_ended() => break,
            None => match lock(&shared.waiting).next() {
                Some((_, system)) => (system, Ok(())),
                None => break,
            },
        };
        let solved = outcome.and_then(|()| shared.solve(solver, &mut system, guess, arrays));
        outcomes.push(solved.map_err(|error| of_system(n, error))?);
    }
    Ok(outcomes)
}

/// The state that solvers of several systems share.
struct Shared<'s, 'o, X> {
    waiting: Mutex<std::iter::Enumerate<std::vec::IntoIter<X>>>,
    /// The systems that the other solvers have solved, with their outcomes.
    found: Mutex<Vec<Option<(X, Result<Outcome>)>>>,
    /// The observer, and whether it has ended a solve.
    observer: Mutex<(&'s mut Observer<'o>, bool)>,
}

impl<X: Send> Shared<'_, '_, X> {
    fn is_ended(&self) -> bool {
        lock(&self.observer).1
    }

    /// Solves the next systems until there are none, a solve fails, or the observer ends one.
    fn work<S>(&self, solver: &mut dyn Solve<S>, guess: Guess, arrays: &Arrays<'_, X>) {
        while !self.is_ended() {
            let Some((n, mut system)) = lock(&self.waiting).next() else { return };
            let outcome = self.solve(solver, &mut system, guess, arrays);
            if outcome.is_err() {
                // Later systems are not begun.
                lock(&self.waiting).by_ref().for_each(drop);
            }
            lock(&self.found)[n] = Some((system, outcome));
        }
    }

    fn solve<S>(
        &self,
        solver: &mut dyn Solve<S>,
        system: &mut X,
        guess: Guess,
        arrays: &Arrays<'_, X>,
    ) -> Result<Outcome> {
        arrays(system, &mut |rhs, u| {
            solver.solve(rhs, u, guess, &mut |seen| {
                let (observer, is_ended) = &mut *lock(&self.observer);
                if !*is_ended {
                    *is_ended = observer(seen).is_break();
                }
                if *is_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        })
    }
}

/// Adds to an error the number of its system.
pub fn of_system(n: usize, error: Error) -> Error {
    match error {
        Error::Invalid { key, message } => Error::Invalid { key: format!("system {n}: {key}"), message },
        Error::Shape { what, found, expected } => Error::Shape { what: format!("system {n}: {what}"), found, expected },
        Error::NotFinite { what, value, i, j, k } => {
            Error::NotFinite { what: format!("system {n}: {what}"), value, i, j, k }
        }
        Error::Unsupported(message) => Error::Unsupported(format!("system {n}: {message}")),
        Error::Device { device, message } => Error::Device { device, message: format!("system {n}: {message}") },
        other => other,
    }
}

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Returns as many solvers of this matrix for other queues as there are systems, if the device has queues and memory for them; none
    /// for one.
    pub(super) fn on_other_queues(&mut self, systems: usize) -> Result<&mut [Self]> {
        let bytes = if self.beside.is_empty() { self.description.bytes } else { 0 };
        let wanted = self.backend.queues(systems, &self.layout, bytes)?.min(systems);
        if self.beside.iter_mut().take(wanted).try_for_each(Self::follow).is_err() {
            // The other solvers are made again.
            self.beside.clear();
        }
        while self.beside.len() < wanted {
            match self.another(self.beside.len() + 1) {
                Ok(Some(other)) => self.beside.push(other),
                Ok(None) | Err(Error::OutOfMemory { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        let count = self.beside.len().min(wanted);
        if count < 2 {
            return Ok(&mut []);
        }
        self.backend.synchronize()?;
        Ok(&mut self.beside[..count])
    }

    /// Makes a solver of this matrix for another queue: with the same operators, its own vectors, and no method in reserve.
    fn another(&self, queue: usize) -> Result<Option<Self>> {
        // Operators of other matrices may have memory that only one solve may use at a time.
        let may_share =
            self.capabilities.aggregates.is_some() && matches!(self.options.method, Method::Cg | Method::Multigrid);
        let iteration = if may_share { self.iteration.another()? } else { None };
        let Some(iteration) = iteration else { return Ok(None) };
        let (backend, layout) = (&self.backend, &self.layout);
        let vector = || backend.zeros::<f64>(layout);
        let capabilities = backend.capabilities(&self.operator);
        Ok(Some(Self {
            queue,
            beside: Vec::new(),
            null_space: null_space(&capabilities, &self.stencil)?,
            scratch: backend.zeros(&scratch_layout(&capabilities, self.scaled.is_some())?)?,
            b: vector()?,
            u: vector()?,
            single: None,
            symmetric: None,
            spare: None,
            best: self.best.as_ref().map(|_| vector()).transpose()?,
            scaled: match &self.scaled {
                Some((diagonal, _)) => Some((diagonal.clone(), vector()?)),
                None => None,
            },
            scalars: backend.scalars()?,
            backend: backend.clone(),
            stencil: self.stencil.clone(),
            operator: self.operator.clone(),
            capabilities,
            updates: Vec::new(),
            iteration,
            options: self.options.clone(),
            layout: *layout,
            callers: self.callers,
            description: self.description.clone(),
            decision: self.decision.without_replacements(),
            ..*self
        }))
    }

    /// Recomputes everything that depends on the coefficients, except for the operators, if they have changed.
    fn follow(&mut self) -> Result<()> {
        if !self.is_current {
            if let Some(space) = &mut self.null_space {
                space.update()?;
            }
            self.iteration.update()?;
            self.is_current = true;
            self.left = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{ArrayView, ArrayViewMut};
    use crate::build::{Balance, Description};
    use crate::layout::Shape;
    use crate::options::{Compatibility, SolverOptions};
    use crate::outcome::Stop;
    use crate::reference::Reference;
    use crate::stencil::{Diffusion, Side};

    const SHAPE: Shape = Shape { nx: 6, ny: 1, nz: 1 };

    /// A solver with siblings for other queues, which may give up.
    struct Several {
        system: System<Reference, Diffusion>,
        beside: Vec<Self>,
        gives_up: bool,
        solved: usize,
    }

    impl Several {
        fn alone() -> Self {
            let stencil = Diffusion::of_field(
                SHAPE,
                vec![1.0; 6],
                [1.0; 3],
                None,
                [[Side::Fixed; 2], [Side::Closed; 2], [Side::Closed; 2]],
            )
            .unwrap();
            let options = SolverOptions { method: Method::Cg, tolerance: 1e-10, ..SolverOptions::default() };
            let system = System::new(&Reference, &stencil, &options).unwrap();
            Self { system, beside: Vec::new(), gives_up: false, solved: 0 }
        }

        /// Makes a solver with as many siblings, some of which give up.
        fn with(gives_up: &[bool]) -> Self {
            let beside = gives_up.iter().map(|&gives_up| Self { gives_up, ..Self::alone() }).collect();
            Self { beside, ..Self::alone() }
        }
    }

    impl Solve<Diffusion> for Several {
        fn solve(
            &mut self,
            rhs: Source<'_>,
            u: Target<'_>,
            guess: Guess,
            observer: &mut Observer<'_>,
        ) -> Result<Outcome> {
            self.solved += 1;
            let target = if self.gives_up { Target::Nothing(SHAPE) } else { u };
            let outcome = self.system.solve(rhs, target, guess, observer)?;
            Ok(if self.gives_up { Outcome { stop: Stop::Stagnated, ..outcome } } else { outcome })
        }

        fn beside(&mut self, _: usize) -> Result<Vec<&mut dyn Solve<Diffusion>>> {
            Ok(self.beside.iter_mut().map(|other| other as &mut dyn Solve<Diffusion>).collect())
        }

        fn apply(&mut self, u: Source<'_>, v: Target<'_>) -> Result<()> {
            self.system.apply(u, v)
        }

        fn precondition(&mut self, r: Source<'_>, z: Target<'_>, iterations: usize) -> Result<()> {
            Solve::precondition(&mut self.system, r, z, iterations)
        }

        fn set_tolerance(&mut self, tolerance: f64) -> Result<()> {
            Solve::set_tolerance(&mut self.system, tolerance)
        }

        fn update(&mut self, stencil: &Diffusion) -> Result<()> {
            self.system.update(stencil)
        }

        fn balance(&mut self) -> Result<Balance> {
            self.system.balance()
        }

        fn set_compatibility(&mut self, compatibility: Compatibility) -> Compatibility {
            self.system.set_compatibility(compatibility)
        }

        fn description(&self) -> &Description {
            self.system.description()
        }

        fn copy_bandwidth(&self) -> Result<f64> {
            self.system.copy_bandwidth()
        }
    }

    /// Solves for the right-hand sides n + 1, n = 0, 1, …, or those given; returns the outcomes and what is in the solutions' arrays.
    fn solve_some(
        solver: &mut Several,
        numbers: &[f64],
        observer: &mut Observer<'_>,
    ) -> (Result<Vec<Outcome>>, Vec<Vec<f64>>) {
        let rhs: Vec<Vec<f64>> = numbers.iter().map(|&number| vec![number; 6]).collect();
        let mut u = vec![vec![0.0; 6]; rhs.len()];
        let view = |(rhs, u)| Ok((ArrayView::c_order(rhs, SHAPE)?, ArrayViewMut::c_order(u, SHAPE)?));
        let systems: Result<Vec<(ArrayView<'_, f64>, ArrayViewMut<'_, f64>)>> = rhs
            .iter()
            .zip(&mut u)
            .map(|(rhs, u): (&Vec<f64>, &mut Vec<f64>)| view((rhs.as_slice(), u.as_mut_slice())))
            .collect();
        let outcomes = solve_many(solver, systems.unwrap(), Guess::Zero, observer, &|(rhs, u), solve| {
            solve((*rhs).into(), u.reborrow().into())
        });
        (outcomes, u)
    }

    #[test]
    fn outcomes_are_in_order_whoever_solves() {
        let numbers: Vec<f64> = (1..=20).map(f64::from).collect();
        let (expected, u) = solve_some(&mut Several::alone(), &numbers, &mut crate::solver::ignore);
        let expected: Vec<_> = expected.unwrap().into_iter().map(|outcome| outcome.history).collect();
        // Half of what six cells bring flows through either side, whose coupling is κ.
        assert!(u.iter().zip(&numbers).all(|(u, number)| (u[0] - 3.0 * number).abs() < 1e-9 * number), "{u:?}");
        for gives_up in [&[false; 3][..], &[true, false], &[true; 4]] {
            let mut several = Several::with(gives_up);
            let (found, v) = solve_some(&mut several, &numbers, &mut crate::solver::ignore);
            let found = found.unwrap();
            assert!(found.iter().all(Outcome::converged));
            assert!(found.into_iter().map(|outcome| outcome.history).eq(expected.iter().cloned()) && u == v);
            let given_up: usize = several.beside.iter().filter(|other| other.gives_up).map(|other| other.solved).sum();
            assert_eq!(several.solved, given_up, "the main solver solves what others gave up");
        }
    }

    #[test]
    fn an_error_names_its_system_and_earlier_ones_are_solved() {
        let mut numbers = [1.0; 9];
        numbers[5] = f64::NAN;
        for mut several in [Several::alone(), Several::with(&[false; 3]), Several::with(&[true; 2])] {
            let (found, u) = solve_some(&mut several, &numbers, &mut crate::solver::ignore);
            assert!(found.is_err_and(|error| error.to_string().contains("system 5")));
            assert!(u[..5].iter().all(|u| u[2] > 1.0), "{u:?}");
        }
        let none = solve_some(&mut Several::alone(), &[], &mut crate::solver::ignore).0;
        assert!(none.is_err_and(|error| error.to_string().contains("give one or more")));
    }

    #[test]
    fn an_observer_ends_all() {
        for mut several in [Several::alone(), Several::with(&[false; 3])] {
            let mut seen = 0;
            let (found, _) = solve_some(&mut several, &[1.0; 50], &mut |_| {
                seen += 1;
                if seen >= 8 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let found = found.unwrap();
            assert!(found.len() < 50, "{found:?}");
            let begun = several.solved + several.beside.iter().map(|other| other.solved).sum::<usize>();
            assert_eq!(found.len(), begun);
        }
    }
}
