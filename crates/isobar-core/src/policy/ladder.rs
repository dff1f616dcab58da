//! The continuation of a solve after an iteration that was slow or failed.

use crate::options::{CyclePrecision, Deflation, Method, Preconditioner, Smoother, SolverOptions, Stripes};
use crate::outcome::Stop;
use crate::real::Precision;

/// The continuation after an iteration that ended without the true residual that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// Replaces the solver for former coefficients by the one that is chosen for these.
    ChooseAgain,
    /// Replaces the iteration by another one.
    Replace(Replacement),
    /// Replaces a preconditioner that failed by a simpler one, or restarts from the true residual.
    Recover,
    /// Replaces a slow preconditioner by a simpler one, or by the fastest of all.
    Hurry,
    /// Restarts from the true residual.
    Restart,
    /// Ends the solve.
    End,
}

/// An iteration that was slow or failed, and what replaces it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Replacement {
    /// The choice that follows a trial.
    Trial,
    /// Lines, in cycles or in a preconditioner, instead of points: [`after_points`].
    Points,
    /// A Krylov method with cycles instead of these alone: [`around_cycles`].
    Cycles,
    /// Multigrid instead of no preconditioner in time steps: [`with_multigrid`].
    Plain,
    /// Algebraic multigrid, [`with_algebraic`], or multigrid deflated by large bodies, [`with_bodies`].
    Multigrid,
    /// Double precision instead of multigrid in single precision: [`in_double`].
    Single,
}

/// The state of a solve whose iteration has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// Whether the true residual is finite.
    pub(crate) is_finite: bool,
    /// Whether coefficients have changed since the choice, which may be made again.
    pub(crate) is_old: bool,
    /// Whether the iteration is only tried.
    pub(crate) is_tried: bool,
    /// Whether points are relaxed in cycles that were chosen automatically.
    pub(crate) is_replaceable: bool,
    /// Whether other cycles were chosen automatically as the method.
    pub(crate) is_cycles: bool,
    /// Whether multigrid may follow time steps without a preconditioner.
    pub(crate) is_plain: bool,
    /// Whether algebraic multigrid or deflation by large bodies may follow multigrid.
    pub(crate) is_multigrid: bool,
    /// Whether multigrid in single precision is in use.
    pub(crate) is_single: bool,
    /// Whether the best iterate is kept.
    pub(crate) keeps_best: bool,
}

/// Decides how a solve continues after an iteration that stopped for this reason by its own residual, or for none because it is slow.
pub(crate) fn next(stop: Option<Stop>, state: State) -> Next {
    let is_slow = stop.is_none();
    let has_failed = matches!(stop, Some(Stop::Breakdown | Stop::Diverged));
    let is_weak = is_slow || has_failed || stop == Some(Stop::Stagnated);
    match state {
        State { is_finite: true, is_old: true, .. } if is_slow => Next::ChooseAgain,
        State { is_finite: true, is_tried: true, .. } if is_weak => Next::Replace(Replacement::Trial),
        State { is_finite: true, is_replaceable: true, .. } if is_weak => Next::Replace(Replacement::Points),
        State { is_finite: true, is_cycles: true, .. } if is_weak => Next::Replace(Replacement::Cycles),
        State { is_finite: true, is_plain: true, .. } if is_slow || has_failed => Next::Replace(Replacement::Plain),
        State { is_finite: true, is_multigrid: true, .. } if is_slow => Next::Replace(Replacement::Multigrid),
        State { is_finite: true, is_single: true, .. } if is_slow || has_failed => Next::Replace(Replacement::Single),
        State { is_finite: true, keeps_best: true, .. } if has_failed => Next::Recover,
        _ if is_slow => Next::Hurry,
        _ if stop == Some(Stop::Converged) => Next::Restart,
        _ => Next::End,
    }
}

/// Returns the simpler preconditioners that replace one which fails or is slow, in this order: lines, then the diagonal. None holds a
/// vector that the others do not.
pub(crate) fn reserves(kind: Preconditioner, layers: usize) -> impl Iterator<Item = Preconditioner> {
    // Without layers, lines are the diagonal.
    let has_cycles = matches!(kind, Preconditioner::Multigrid | Preconditioner::Modes | Preconditioner::Amg);
    let lines = (has_cycles && layers > 1).then_some(Preconditioner::Line);
    let is_simplest = matches!(kind, Preconditioner::None | Preconditioner::Auto | Preconditioner::Jacobi);
    lines.into_iter().chain((!is_simplest).then_some(Preconditioner::Jacobi))
}

/// Returns these options with the nearest box as the preconditioner.
pub(crate) fn with_box(mut options: SolverOptions) -> SolverOptions {
    options.preconditioner = Preconditioner::Direct;
    in_double(options)
}

/// Returns these options for conjugate gradients with multigrid, whose cycles are left open.
pub(crate) fn with_multigrid(mut options: SolverOptions) -> SolverOptions {
    (options.method, options.preconditioner) = (Method::Cg, Preconditioner::Multigrid);
    options.multigrid.precision = CyclePrecision::Auto;
    options
}

/// Returns these options for a Krylov method that is preconditioned by vertical modes, or by cycles of multigrid; or by lines, if cycles have hardly
/// reduced the residual of an unsymmetric matrix: with strong advection modes and cycles on coarse grids do not help.
pub(crate) fn around_cycles(
    mut options: SolverOptions,
    is_symmetric: bool,
    has_modes: bool,
    has_reduced: bool,
) -> SolverOptions {
    if !is_symmetric && !has_reduced {
        (options.method, options.preconditioner) = (Method::Bicgstab, Preconditioner::Line);
        return in_double(options);
    }
    if has_modes && options.precision == Precision::Mixed {
        // Cycles in single precision are not enough here, and modes around an iteration are in double.
        options = in_double(options);
    }
    options.method = if is_symmetric { Method::Cg } else { Method::Bicgstab };
    options.preconditioner = if has_modes { Preconditioner::Modes } else { Preconditioner::Multigrid };
    options.multigrid.precision = CyclePrecision::Auto;
    options
}

/// Returns these options for conjugate gradients with algebraic multigrid.
pub(crate) fn with_algebraic(mut options: SolverOptions) -> SolverOptions {
    options.preconditioner = Preconditioner::Amg;
    in_double(options)
}

/// Returns these options with deflation by large bodies.
pub(crate) fn with_bodies(mut options: SolverOptions) -> SolverOptions {
    options.deflation = Some(Deflation { stripes: Stripes::LargeBodies, ..Deflation::default() });
    options
}

/// Returns these options with everything in double precision.
pub(crate) fn in_double(mut options: SolverOptions) -> SolverOptions {
    options.precision = Precision::F64;
    options.multigrid.precision = CyclePrecision::F64;
    options
}

/// Returns options for conjugate gradients with the given preconditioner, with lines where that is multigrid.
pub(crate) fn by_lines(mut options: SolverOptions, preconditioner: Preconditioner) -> SolverOptions {
    (options.method, options.preconditioner) = (Method::Cg, preconditioner);
    options.multigrid.smoother = Smoother::LineRedBlack;
    options
}

/// Returns the options that follow cycles that relax points: cycles with lines, if the user `asked` for multigrid as the method and there are such; else
/// [`by_lines`], in double precision where no cycles are left for single precision.
pub(crate) fn after_points(mut options: SolverOptions, preconditioner: Preconditioner, asked: Method) -> SolverOptions {
    if (asked, preconditioner) == (Method::Multigrid, Preconditioner::Multigrid) {
        options.multigrid.smoother = Smoother::LineRedBlack;
        return options;
    }
    let options = by_lines(options, preconditioner);
    let has_cycles = preconditioner == Preconditioner::Multigrid;
    if options.storage() == Precision::Mixed && !has_cycles { in_double(options) } else { options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_points_in_cycles_by_name() {
        let mut points = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
        points.multigrid.smoother = Smoother::PointRedBlack;
        let after = |reserve, asked| {
            let after = after_points(points.clone(), reserve, asked);
            assert_eq!(after.multigrid.smoother, Smoother::LineRedBlack);
            (after.method, after.preconditioner)
        };
        let [cycles, line] = [Preconditioner::Multigrid, Preconditioner::Line];
        assert_eq!(after(cycles, Method::Auto), (Method::Cg, cycles));
        assert_eq!(after(cycles, Method::Multigrid), (Method::Multigrid, Preconditioner::Auto));
        // Ranks that cannot share Galerkin grids have no cycles with lines.
        assert_eq!(after(line, Method::Multigrid), (Method::Cg, line));
    }

    #[test]
    fn replacements_have_an_order() {
        let none = State {
            is_finite: true,
            is_old: false,
            is_tried: false,
            is_replaceable: false,
            is_cycles: false,
            is_plain: false,
            is_multigrid: false,
            is_single: false,
            keeps_best: true,
        };
        let single = State { is_single: true, ..none };
        let multigrid = State { is_multigrid: true, ..single };
        let plain = State { is_plain: true, ..multigrid };
        assert_eq!([next(None, plain), next(Some(Stop::Breakdown), plain)], [Next::Replace(Replacement::Plain); 2]);
        assert_eq!(
            [next(None, multigrid), next(Some(Stop::Diverged), multigrid)],
            [Next::Replace(Replacement::Multigrid), Next::Replace(Replacement::Single)]
        );
        let points = State { is_replaceable: true, ..single };
        let boxed = State { is_tried: true, ..points };
        let old = State { is_old: true, ..boxed };
        assert_eq!(
            [next(None, old), next(Some(Stop::Breakdown), old)],
            [Next::ChooseAgain, Next::Replace(Replacement::Trial)]
        );
        let broken = Some(Stop::Breakdown);
        for stop in [None, broken, Some(Stop::Diverged)] {
            let all = [boxed, points, single].map(|state| next(stop, state));
            assert_eq!(
                all,
                [
                    Next::Replace(Replacement::Trial),
                    Next::Replace(Replacement::Points),
                    Next::Replace(Replacement::Single)
                ]
            );
        }
        assert_eq!(next(Some(Stop::Stagnated), points), Next::Replace(Replacement::Points));
        let cycles = State { is_cycles: true, keeps_best: false, ..none };
        let weak = [None, broken, Some(Stop::Diverged), Some(Stop::Stagnated)];
        assert_eq!(weak.map(|stop| next(stop, cycles)), [Next::Replace(Replacement::Cycles); 4]);
        assert_eq!(next(Some(Stop::Stagnated), single), Next::End);
        assert_eq!([next(None, none), next(broken, none)], [Next::Hurry, Next::Recover]);
        assert_eq!(next(broken, State { keeps_best: false, ..none }), Next::End);
        // No iteration continues from a residual that is not finite, except with another preconditioner after a slow one.
        let lost = State { is_finite: false, ..boxed };
        assert_eq!([next(None, lost), next(broken, lost)], [Next::Hurry, Next::End]);
        for state in [none, boxed] {
            assert_eq!(next(Some(Stop::Converged), state), Next::Restart);
            assert_eq!(next(Some(Stop::MaxIterations), state), Next::End);
        }
    }

    #[test]
    fn cycles_that_reduce_nothing_are_followed_by_lines() {
        let of = |is_symmetric, has_reduced| {
            let options = around_cycles(SolverOptions::default(), is_symmetric, true, has_reduced);
            (options.method, options.preconditioner)
        };
        assert_eq!(of(false, false), (Method::Bicgstab, Preconditioner::Line));
        assert_eq!(of(false, true), (Method::Bicgstab, Preconditioner::Modes));
        assert_eq!([of(true, false), of(true, true)], [(Method::Cg, Preconditioner::Modes); 2]);
    }

    #[test]
    fn reserves_are_simpler() {
        let of = |kind, layers| reserves(kind, layers).collect::<Vec<_>>();
        assert_eq!(of(Preconditioner::Multigrid, 2), [Preconditioner::Line, Preconditioner::Jacobi]);
        assert_eq!(of(Preconditioner::Modes, 2), [Preconditioner::Line, Preconditioner::Jacobi]);
        assert_eq!(of(Preconditioner::Multigrid, 1), [Preconditioner::Jacobi]);
        assert_eq!(of(Preconditioner::Line, 2), [Preconditioner::Jacobi]);
        assert_eq!(of(Preconditioner::Jacobi, 2), []);
    }
}
