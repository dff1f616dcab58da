//! `[heat]`: time steps of the heat equation.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The time discretisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// (u' + u)/2 on the right-hand side: second order, and the discrete energy never grows (paper E, equation 2).
    #[default]
    CrankNicolson,
    /// Takes u' on the right-hand side: first order, and damps rough components.
    BackwardEuler,
}

impl Scheme {
    /// Returns θ, the weight of the new state.
    pub fn theta(self) -> f64 {
        match self {
            Self::CrankNicolson => 0.5,
            Self::BackwardEuler => 1.0,
        }
    }

    /// Returns its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrankNicolson => "crank-nicolson",
            Self::BackwardEuler => "backward-euler",
        }
    }
}

/// The first guess of a step's solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepGuess {
    /// The previous state.
    #[default]
    Previous,
    /// The linear extrapolation of the two previous states.
    Extrapolated,
    /// 1 everywhere, as in paper E's algorithm.
    Ones,
}

/// Steps of one length from time 0 to an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// The length of a step.
    pub dt: f64,
    /// The number of whole steps.
    pub whole: usize,
    /// The length of one more, shorter step, if the end is no multiple of dt.
    pub last: Option<f64>,
    /// The end.
    pub end: f64,
}

/// An end within this of a multiple of dt, relative to dt, is rounded to it.
const ROUNDING: f64 = 1e-6;
/// The most steps of a run.
const MOST_STEPS: f64 = 1e12;

impl Steps {
    /// Divides (0, end] into steps.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a dt or an end that is not positive and finite, and for more than 10¹² steps.
    pub fn new(dt: f64, end: f64) -> Result<Self> {
        for (key, value) in [("heat.dt", dt), ("heat.end_time", end)] {
            let is_valid = value > 0.0 && value.is_finite();
            Error::unless(is_valid, key, || format!("must be positive and finite, not {value}"))?;
        }
        let count = end / dt;
        Error::unless(count <= MOST_STEPS, "heat.dt", || {
            format!("{dt} makes {count:.1e} steps to heat.end_time = {end}; use a longer one")
        })?;
        let nearest = count.round();
        if nearest >= 1.0 && (count - nearest).abs() <= ROUNDING {
            return Ok(Self { dt, whole: nearest as usize, last: None, end });
        }
        let whole = count.floor();
        Ok(Self { dt, whole: whole as usize, last: Some(end - whole * dt), end })
    }

    /// Returns the number of steps.
    pub fn count(&self) -> usize {
        self.whole + usize::from(self.last.is_some())
    }

    /// Returns the time after `steps` steps.
    pub fn time(&self, steps: usize) -> f64 {
        if steps >= self.count() { self.end } else { steps as f64 * self.dt }
    }

    /// Returns the length of the step after `steps` steps.
    pub fn length(&self, steps: usize) -> f64 {
        if steps < self.whole { self.dt } else { self.last.unwrap_or(self.dt) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_are_no_multiples_shorten_the_last_step() {
        let steps = Steps::new(1e-3, 0.1).unwrap();
        assert_eq!((steps.count(), steps.last, steps.time(100), steps.time(3)), (100, None, 0.1, 3.0 * 1e-3));
        let steps = Steps::new(0.3, 1.0).unwrap();
        assert_eq!((steps.count(), steps.whole), (4, 3));
        assert!((steps.length(3) - 0.1).abs() < 1e-15 && steps.length(2) == 0.3);
        assert_eq!((steps.time(3), steps.time(4)), (3.0 * 0.3, 1.0));
        let one = Steps::new(2.0, 0.5).unwrap();
        assert_eq!((one.count(), one.length(0), one.time(1)), (1, 0.5, 0.5));
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for (dt, end, key) in [
            (0.0, 1.0, "heat.dt"),
            (-1.0, 1.0, "heat.dt"),
            (f64::NAN, 1.0, "heat.dt"),
            (1.0, f64::INFINITY, "heat.end_time"),
            (1.0, 0.0, "heat.end_time"),
            (1e-300, 1.0, "heat.dt"),
        ] {
            assert!(Steps::new(dt, end).unwrap_err().to_string().contains(key), "{dt} {end}");
        }
    }
}
