//! The beginning of a solve: directly, with a trial, or as suits the matrix.

use super::Choice;
use super::choice::Tried;
use super::direct::Trial;
use super::ladder::with_box;
use crate::error::Result;
use crate::options::{Method, Preconditioner, Smoother, SolverOptions};

/// The beginning of a solve, and its reserves.
pub(crate) struct Beginning<F> {
    /// Options that leave nothing open.
    pub(crate) options: SolverOptions,
    /// The factors of the matrix, for a direct solve that was chosen, or of the nearest box, where that is tried.
    pub(crate) factors: Option<F>,
    /// Whether a direct solve was chosen, which other coefficients may not allow.
    pub(crate) is_direct: bool,
    /// What follows a trial, if it begins with one.
    pub(crate) after_trial: Option<AfterTrial>,
    /// Whether a smoother that relaxes points was chosen, which lines may replace.
    pub(crate) is_replaceable: bool,
    /// Whether other cycles were chosen as the method, and a Krylov method with them may replace them.
    pub(crate) is_cycles: bool,
    /// The preconditioner in reserve.
    pub(crate) reserve: Preconditioner,
    /// Whether multigrid suits the matrix.
    pub(crate) has_levels: bool,
    /// The reasons for all that.
    pub(crate) why: Vec<String>,
}

/// What follows a trial: of conjugate gradients without multigrid, or with the nearest box.
#[derive(Clone, Debug)]
pub(crate) struct AfterTrial {
    /// The options that follow.
    pub(crate) options: SolverOptions,
    /// The most iterations that the tolerance may take in the trial.
    pub(crate) most_iterations: f64,
}

impl<F> Beginning<F> {
    /// Begins with a matrix's choice for all that the options leave open.
    pub(crate) fn by(choice: &Choice, options: &SolverOptions) -> Result<Self> {
        let resolved = options.resolved(choice)?;
        let is_chosen = options.method == Method::Auto;
        let has_cycles = matches!(resolved.method, Method::Multigrid | Method::Modes);
        let is_replaceable =
            options.multigrid.smoother == Smoother::Auto && resolved.multigrid.smoother.begins_with_points();
        Ok(Self {
            is_replaceable,
            is_cycles: is_chosen && has_cycles && !is_replaceable,
            options: resolved,
            factors: None,
            is_direct: false,
            after_trial: None,
            reserve: choice.preconditioner,
            has_levels: choice.method == Method::Multigrid
                || matches!(choice.preconditioner, Preconditioner::Multigrid | Preconditioner::Amg),
            why: choice.why.clone().into_iter().collect(),
        })
    }
}

/// The facts that decide on a direct solve, found only if they are needed.
pub(crate) struct Direct<A, U, N> {
    /// Whether the device solves directly.
    pub(crate) is_possible: bool,
    /// Returns the factors of the matrix, if it has any and a direct solve pays.
    pub(crate) factors: A,
    /// Returns whether a single rank would solve directly what several do not.
    pub(crate) is_undivided: U,
    /// Returns the nearest box where that may be faster than multigrid.
    pub(crate) nearest: N,
}

/// The allowed iterations over those of a trial from which there is one, so that enough are left for what follows.
const ENOUGH: f64 = 2.0;

/// Decides how a solve begins, in this order: directly, if the matrix is separable; by conjugate gradients without multigrid, if `choice`, the
/// matrix's own, tries them; with the nearest box, if `choice` is conjugate gradients with multigrid, and the box is near enough to be tried; by
/// `choice`. The options are those that leave a direct solve
/// open or not, and those of anything else. `is_own` states whether the preconditioner is the caller's own.
///
/// # Errors
/// The errors of [`SolverOptions::resolved`]; the errors of `choice`.
pub(crate) fn begin<F>(
    [open, options]: [&SolverOptions; 2],
    is_own: bool,
    direct: Direct<impl Fn() -> Option<F>, impl FnOnce() -> bool, impl FnOnce() -> Option<Trial<F>>>,
    choice: impl FnOnce() -> Result<Choice>,
) -> Result<Beginning<F>> {
    let may_be_direct = |options: &SolverOptions| !is_own && options.leaves_all_open() && direct.is_possible;
    if let Some(factors) = may_be_direct(open).then(&direct.factors).flatten() {
        let beginning = Beginning::by(&Choice::direct(), open)?;
        return Ok(Beginning { factors: Some(factors), is_direct: true, ..beginning });
    }
    let choice = choice()?;
    let mut beginning = Beginning::by(&choice, options)?;
    let is_tried = |tried: &Tried| {
        !is_own && options.leaves_all_open() && options.max_iterations as f64 >= ENOUGH * tried.most_iterations
    };
    if let Some(Tried { preconditioner, most_iterations }) = choice.tried.filter(is_tried) {
        beginning.why = vec!["no multigrid at first: the shift may dominate the couplings".into()];
        beginning.after_trial = Some(AfterTrial { options: beginning.options.clone(), most_iterations });
        (beginning.options.method, beginning.options.preconditioner) = (Method::Cg, preconditioner);
        (beginning.is_replaceable, beginning.is_cycles) = (false, false);
        return Ok(beginning);
    }
    let has_multigrid = (choice.method, choice.preconditioner) == (Method::Cg, Preconditioner::Multigrid);
    if let Some(Trial { factors, why, most_iterations }) =
        (may_be_direct(options) && has_multigrid).then(direct.nearest).flatten()
    {
        beginning.why = vec![format!("conjugate gradients with the nearest box: {why}")];
        beginning.after_trial = Some(AfterTrial { options: beginning.options.clone(), most_iterations });
        beginning.options = with_box(beginning.options);
        beginning.factors = Some(factors);
        (beginning.is_replaceable, beginning.is_cycles) = (false, false);
        return Ok(beginning);
    }
    if may_be_direct(open) && (direct.is_undivided)() {
        beginning.why.push(
            "one rank would solve this directly; several iterate, as its lines along y, which ranks divide, do not have a fast solution"
                .into(),
        );
    }
    beginning.why.extend(choice.why_cycles);
    Ok(beginning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_solves_come_before_the_nearest_box_before_the_choice() {
        let begun = |options: &SolverOptions, [is_possible, is_separable, is_near]: [bool; 3], choice: Choice| {
            let nearest = || is_near.then(|| Trial { factors: "box", why: "it is near".into(), most_iterations: 36.0 });
            let factors = || is_separable.then_some("matrix");
            let direct = Direct { is_possible, factors, is_undivided: || is_separable, nearest };
            begin([options; 2], false, direct, || Ok(choice)).unwrap()
        };
        let open = SolverOptions::default();
        let all = begun(&open, [true; 3], Choice::galerkin());
        assert_eq!((all.options.method, all.factors, all.is_direct), (Method::Direct, Some("matrix"), true));
        let near = begun(&open, [true, false, true], Choice::galerkin());
        assert_eq!((near.options.preconditioner, near.factors), (Preconditioner::Direct, Some("box")));
        assert_eq!(near.after_trial.map(|after| after.options.preconditioner), Some(Preconditioner::Multigrid));
        // The box is a preconditioner, and replaces that of conjugate gradients alone.
        let cycles = begun(&open, [true, false, true], Choice::cycles());
        assert_eq!((cycles.options.method, cycles.factors), (Method::Multigrid, None));
        let other = begun(&open, [false, true, true], Choice::galerkin());
        assert!(other.factors.is_none() && other.why.is_empty());
        // Conjugate gradients are tried before the box, if everything is open and enough iterations are allowed.
        let tried = Some(Tried { preconditioner: Preconditioner::None, most_iterations: 40.0 });
        let trial = |options: &SolverOptions| begun(options, [true, false, true], Choice { tried, ..Choice::cycles() });
        let plain = trial(&open);
        assert_eq!((plain.options.method, plain.options.preconditioner), (Method::Cg, Preconditioner::None));
        assert_eq!(plain.after_trial.map(|after| after.options.method), Some(Method::Multigrid));
        for other in [
            SolverOptions { method: Method::Multigrid, ..open.clone() },
            SolverOptions { max_iterations: 79, ..open.clone() },
        ] {
            assert!(trial(&other).after_trial.is_none());
        }
        let direct = Direct { is_possible: true, factors: || None::<&str>, is_undivided: || true, nearest: || None };
        let divided = begin([&open; 2], false, direct, || Ok(Choice::galerkin())).unwrap();
        assert!(divided.factors.is_none() && divided.why[0].contains("one rank would solve this directly"));
        let asked = SolverOptions { method: Method::Cg, ..open };
        assert!(begun(&asked, [true; 3], Choice::galerkin()).factors.is_none());
    }
}
