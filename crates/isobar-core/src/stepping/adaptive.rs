//! Adaptive step lengths by an estimate of the error of a step.
//!
//! The matrix K + c M of a step is that of backward Euler for a part of the step. With R the factor of a solve on a mode, R =
//! 1/(1 + z/2) for Crank–Nicolson and 1/(1 + z) for backward Euler, z = Δt λ, further solves with the same matrix give a
//! result of one order more:
//!
//! ```text
//! Crank–Nicolson:  2R − 1,  third order: −1/3 + 2R² − ⅔R³,     difference ⅔(1 − R)³ = z³/12 + …
//! backward Euler:  R,       second order: −½ + 2R − ½R²,       difference ½(1 − R)² = z²/2 + …
//! ```

use crate::options::Scheme;
use crate::{Backend, Error, Layout, Result, Scalar};

/// The fraction of the allowed error that a step aims at.
const SAFETY: f64 = 0.9;
/// The smallest and the largest ratio of successive step lengths.
const LEAST: f64 = 0.2;
const MOST: f64 = 3.0;
/// The smallest increase of a step, since it changes the matrix.
const WORTHWHILE: f64 = 1.25;
/// The shortest step, relative to the whole run: the first steps from a state that does not satisfy the sides may be very short, and later ones grow.
const SHORTEST: f64 = 1e-15;
/// The shortest step, relative to the time, to which shorter ones would hardly add.
const SHORTEST_AT: f64 = 1e-13;
/// The most rejections of a step: errors that do not fall with its length are those of the solves.
const MOST_REJECTED: usize = 40;
/// The smallest squared norm that is precise, as are those of much smaller errors; its inverse is the largest.
const SMALLEST_SQUARE: f64 = 1e-200;
/// The exponent of two by which states outside that range are multiplied, once or twice.
const SCALE: i32 = 480;
/// An end within this many steps is reached by one.
const NEAR: f64 = 1.0 + 1e-6;

/// The state of step-length control.
pub(super) struct Control<B: Backend> {
    /// The largest estimated error of a step, relative to ‖u‖.
    pub(super) tolerance: f64,
    /// States after one solve and after two.
    pub(super) states: [B::Vector<f64>; 2],
}

impl<B: Backend> Control<B> {
    /// # Errors
    /// [`Error::Invalid`] for an invalid tolerance; see [`Backend::zeros`].
    pub(super) fn new(backend: &B, layout: &Layout, tolerance: f64) -> Result<Self> {
        if !(tolerance > 0.0 && tolerance < 1.0) {
            let message = format!("{tolerance} is not a relative error; use a number between 0 and 1, such as 1e-4");
            return Err(Error::invalid("heat.step_tolerance", message));
        }
        Ok(Self { tolerance, states: [backend.zeros(layout)?, backend.zeros(layout)?] })
    }
}

/// Returns the length of a step of at most `wanted`, and whether it leads to the end.
///
/// # Errors
/// [`Error::Invalid`] if it is too short to ever reach the end, or has been `rejected` too often.
pub(super) fn length(wanted: f64, [time, end]: [f64; 2], rejected: usize, tolerance: f64) -> Result<(f64, bool)> {
    if wanted < SHORTEST * end || wanted < SHORTEST_AT * time || rejected > MOST_REJECTED {
        let message = format!(
            "an error of {tolerance:e} requires steps shorter than {wanted:.1e} at t = {time}; raise it, or lower solver.tolerance: \
             the estimate may be dominated by the errors of the solves"
        );
        return Err(Error::invalid("heat.step_tolerance", message));
    }
    let left = end - time;
    Ok(if left <= NEAR * wanted { (left, true) } else { (wanted, false) })
}

/// Returns the length of the next step, after a step of `dt` with this estimated error.
pub(super) fn next_length(scheme: Scheme, dt: f64, error: f64, tolerance: f64, may_grow: bool) -> f64 {
    let order = match scheme {
        Scheme::CrankNicolson => 3.0,
        Scheme::BackwardEuler => 2.0,
    };
    let factor = (SAFETY * (tolerance / error.max(f64::MIN_POSITIVE)).powf(1.0 / order)).clamp(LEAST, MOST);
    let is_kept = error <= tolerance && (factor < WORTHWHILE || !may_grow);
    // The length changes only where that pays.
    if is_kept { dt } else { dt * if error <= tolerance { factor } else { factor.min(SAFETY) } }
}

/// Computes ‖difference‖ over the larger norm of the states before and after; `spare` is overwritten, `out` are the places of the three squares.
pub(super) fn ratio<B: Backend>(
    backend: &B,
    [before, after, difference]: [&B::Vector<f64>; 3],
    spare: &mut B::Vector<f64>,
    scalars: &mut B::Scalars,
    out: [Scalar; 3],
) -> Result<f64> {
    let mut exponent = 0_i32;
    let [error, size] = loop {
        for (x, out) in [before, after, difference].into_iter().zip(out) {
            if exponent == 0 {
                backend.dot(x, x, out.of(scalars))?;
                continue;
            }
            backend.convert(x, spare)?;
            backend.scale(2f64.powi(exponent), spare)?;
            backend.dot(&*spare, &*spare, out.of(scalars))?;
        }
        let bank = backend.read(scalars)?;
        let [before, after, error] = out.map(|scalar| bank[scalar.index()]);
        let size = before.max(after);
        // Squares of very small or very large states underflow or overflow; those of a multiple do not.
        let step = if size < SMALLEST_SQUARE { SCALE } else { -SCALE };
        if (SMALLEST_SQUARE..=1.0 / SMALLEST_SQUARE).contains(&size) || exponent.abs() > SCALE || exponent * step < 0 {
            break [error, size];
        }
        exponent += step;
    };
    Ok(if size == 0.0 { 0.0 } else { (error / size).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_error() {
        let next = |error, may_grow| next_length(Scheme::CrankNicolson, 1.0, error, 1e-3, may_grow);
        assert_eq!([next(0.0, true), next(1e9, true), next(0.0, false)], [MOST, LEAST, 1.0]);
        assert!((next(1e-3 / 8.0, true) - 1.8).abs() < 1e-12);
        assert!((next(8e-3, true) - 0.45).abs() < 1e-12);
        assert_eq!(next(0.9e-3, true), 1.0);
        assert!((next_length(Scheme::BackwardEuler, 2.0, 4e-3, 1e-3, true) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn the_end_is_met_and_what_is_too_short_is_said() {
        assert_eq!(length(0.25, [0.5, 1.0], 0, 1e-4).unwrap(), (0.25, false));
        assert_eq!(length(0.3, [0.75, 1.0], 0, 1e-4).unwrap(), (0.25, true));
        assert_eq!(length(1e-12, [0.0, 1.0], 14, 1e-4).unwrap(), (1e-12, false));
        for (wanted, time, rejected) in [(1e-14, 0.5, 0), (1e-16, 0.0, 0), (0.1, 0.5, 41)] {
            let message = length(wanted, [time, 1.0], rejected, 1e-4).unwrap_err().to_string();
            assert!(message.contains("heat.step_tolerance"), "{message}");
        }
    }
}
