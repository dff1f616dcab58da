//! Right-hand sides of extreme size, which are scaled by a power of two; that is exact, since solving is linear.

use super::system::System;
use crate::operator::Guess;
use crate::options::{Method, SolverOptions};
use crate::policy::modes::single_suffices;
use crate::stencil::{Stencil, Supports};
use crate::{Precision, Result};

/// The exponent that scales a b whose sum of squares overflows or vanishes in double precision.
const FAR: i32 = 600;
/// The largest exponent that surely exists, as does its negative.
const MOST: i32 = 1000;

/// The exponent of the power of two by which b and u are scaled during a solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scaling(i32);

impl Scaling {
    /// Returns the scaling that makes ‖b‖ computable, where it is not.
    pub(super) fn to_be_measured(norm: f64) -> Self {
        Self(if norm == 0.0 {
            FAR
        } else if norm == f64::INFINITY {
            -FAR
        } else {
            0
        })
    }

    /// Returns the factor that scales a b of this norm to about 1, where an iteration in this precision would over- or underflow;
    /// `before` is the scaling so far.
    pub(super) fn for_solving(norm: f64, precision: Precision, before: Self) -> Self {
        let room = match precision {
            Precision::F64 => 400,
            // Squares of numbers in single precision are summed in it.
            _ => 40,
        };
        if !(norm.is_finite() && norm > 0.0) {
            return Self(0);
        }
        let exponent = norm.log2().round() as i32;
        let wanted = if exponent.abs() > room { -exponent } else { 0 };
        Self((before.0 + wanted).clamp(-MOST, MOST) - before.0)
    }

    /// Returns both scalings combined.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Returns the inverse.
    #[must_use]
    pub(super) fn back(self) -> Self {
        Self(-self.0)
    }

    /// Returns whether it changes nothing.
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the factor.
    pub(super) fn factor(self) -> f64 {
        2f64.powi(self.0)
    }
}

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Scales b, and a first guess, by a power of two where their range requires it. Returns ‖b‖ after that; `norm` is its value
    /// before, where known.
    pub(super) fn bring_into_range(&mut self, guess: Guess, norm: Option<f64>) -> Result<(f64, Scaling)> {
        let norm = match norm {
            Some(norm) => norm,
            None => self.norm_of_rhs()?,
        };
        let first = Scaling::to_be_measured(norm);
        let norm = self.scale_rhs(first, norm)?;
        let SolverOptions { method, modes, .. } = &self.options;
        // Cycles that may follow during the solve may be in single precision.
        let in_single = *method == Method::Modes && single_suffices(modes) || self.decision.may_be_replaced();
        let second =
            Scaling::for_solving(norm, if in_single { Precision::Mixed } else { self.options.storage() }, first);
        let norm = self.scale_rhs(second, norm)?;
        let all = first.and(second);
        if norm == 0.0 {
            // There is nothing to scale; where the norm is ‖D^−½ b‖, b may lie in cells without a diagonal, and is checked after this.
            self.backend.scale(first.back().factor(), &mut self.b)?;
            return Ok((norm, Scaling::default()));
        }
        if guess == Guess::Given && !all.is_none() {
            self.backend.scale(all.factor(), &mut self.u)?;
        }
        Ok((norm, all))
    }

    /// Scales b of norm `norm`, and returns its norm afterwards.
    fn scale_rhs(&mut self, scaling: Scaling, norm: f64) -> Result<f64> {
        if scaling.is_none() {
            return Ok(norm);
        }
        self.backend.scale(scaling.factor(), &mut self.b)?;
        self.norm_of_rhs()
    }

    /// Scales b and u.
    pub(super) fn scale(&mut self, scaling: Scaling) -> Result<()> {
        if scaling.is_none() {
            return Ok(());
        }
        self.backend.scale(scaling.factor(), &mut self.u)?;
        self.backend.scale(scaling.factor(), &mut self.b)
    }

    /// Undoes the scaling. Returns whether the numbers of u are finite, and not all below those that have all digits, judged by its norm. A state of time
    /// steps may decay to 0.
    pub(super) fn bring_back(&mut self, scaling: Scaling) -> Result<bool> {
        if scaling.is_none() {
            return Ok(true);
        }
        let mut norm = self.norm_of_solution()?;
        if norm == 0.0 {
            // The squares of numbers that are not 0 may vanish.
            let measured = Scaling::to_be_measured(norm);
            self.backend.scale(measured.factor(), &mut self.u)?;
            norm = self.norm_of_solution()? * measured.back().factor();
            self.backend.scale(measured.back().factor(), &mut self.u)?;
        }
        let may_vanish = norm == 0.0 || self.bounds.is_capped;
        self.scale(scaling.back())?;
        let norm = norm * scaling.back().factor();
        Ok(norm.is_finite() && (may_vanish || norm >= f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_exist_and_bring_norms_to_one() {
        for precision in [Precision::F64, Precision::F32, Precision::Mixed] {
            for exponent in -1070..=1023 {
                let norm = 1.5 * f64::from(exponent).exp2();
                // The norm by its sum of squares.
                let seen = (norm * norm).sqrt();
                let first = Scaling::to_be_measured(seen);
                let norm = norm * first.factor();
                let second = Scaling::for_solving(norm, precision, first);
                let (all, brought) = (first.and(second), norm * second.factor());
                assert!(all.factor().is_normal() && all.back().factor().is_normal(), "{exponent}: {all:?}");
                let room = if precision == Precision::F64 { 400 } else { 40 };
                assert!(brought.log2().abs() <= f64::from(room.max(80)) + 1.0, "{exponent}: {brought:e}");
            }
        }
        assert!(Scaling::for_solving(f64::NAN, Precision::F32, Scaling::default()).is_none());
        assert!(Scaling::for_solving(3.0, Precision::F32, Scaling::default()).is_none());
    }
}
