//! This module resolves options: the user's, completed by a matrix's choice.

use super::Choice;
use crate::options::{CyclePrecision, Method, MultigridOptions, Norm, Preconditioner, Smoother, SolverOptions};
use crate::{Error, Precision, Result};

impl SolverOptions {
    /// Returns whether method, preconditioner, multigrid and precision are left open, so that a direct solve, or a trial, may be
    /// chosen.
    pub fn leaves_all_open(&self) -> bool {
        self.method == Method::Auto
            && self.preconditioner == Preconditioner::Auto
            && self.deflation.is_none()
            && self.norm != Norm::Scaled
            && self.precision == Precision::F64
            && self.multigrid == MultigridOptions::default()
    }

    /// Returns whether these options, or the choice that they leave open, may lead to multigrid with lines.
    pub(crate) fn may_have_lines(&self) -> bool {
        matches!(self.method, Method::Auto | Method::Cg | Method::Multigrid)
            && matches!(self.preconditioner, Preconditioner::Auto | Preconditioner::Multigrid)
            && matches!(self.multigrid.smoother, Smoother::Auto | Smoother::LineRedBlack)
            && self.deflation.is_none()
    }

    /// Returns whether these options lead to conjugate gradients with an incomplete factorisation of the whole grid.
    pub(crate) fn has_factors(&self) -> bool {
        matches!(self.method, Method::Auto | Method::Cg)
            && matches!(
                self.preconditioner,
                Preconditioner::Ic { block: None } | Preconditioner::Mic { block: None, .. }
            )
            && self.deflation.is_none()
    }

    /// Returns whether the storage of cycles is left open, and they precondition conjugate gradients in double precision: with
    /// this method and this preconditioner where these are left open too.
    pub(crate) fn leaves_cycles_open(&self, method: Method, preconditioner: Preconditioner) -> bool {
        let or = |wanted, chosen| if wanted == Method::Auto { chosen } else { wanted };
        let preconditioner =
            if self.preconditioner == Preconditioner::Auto { preconditioner } else { self.preconditioner };
        (self.precision, self.multigrid.precision) == (Precision::F64, CyclePrecision::Auto)
            && or(self.method, method) == Method::Cg
            && preconditioner == Preconditioner::Multigrid
            && self.deflation.is_none()
    }

    /// Replaces `Auto` by the stencil's own choice of method, preconditioner and smoother, and checks the options together.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the key that conflicts with the others.
    pub fn resolved(&self, choice: &Choice) -> Result<Self> {
        self.validate()?;
        let mut this = self.clone();
        if this.method == Method::Auto {
            this.method = if this.deflation.is_some() { Method::Cg } else { choice.method };
        }
        if this.preconditioner == Preconditioner::Auto {
            this.preconditioner = choice.preconditioner;
        }
        if this.multigrid.smoother == Smoother::Auto {
            let is_chosen = this.method == choice.method
                && (this.method.is_stationary() || this.preconditioner == choice.preconditioner);
            this.multigrid.smoother = if is_chosen { choice.smoother } else { Smoother::LineRedBlack };
        }
        if this.method.is_stationary() {
            this.preconditioner = Preconditioner::None;
        }
        if this.method != Method::Cg {
            this.deflation = None;
        }
        if this.method == Method::Direct {
            // Eigenvalues differ by more than the digits of single precision.
            this.precision = Precision::F64;
        }
        // A method that is left open has cycles.
        let has_cycles = matches!(this.method, Method::Auto | Method::Multigrid | Method::Modes)
            || this.preconditioner == Preconditioner::Multigrid;
        if this.precision == Precision::Mixed && !has_cycles {
            return Err(Error::invalid(
                "solver.precision",
                "\"mixed\" runs single-precision multigrid cycles inside a double-precision iteration, so it needs \
                 solver.method = \"multigrid\" or solver.preconditioner.kind = \"multigrid\"; use \"f64\" or \"f32\" with \
                 the others",
            ));
        }
        this.multigrid.precision = this.cycle_precision(choice)?;
        if this.norm == Norm::Scaled && this.method != Method::Cg {
            return Err(Error::invalid(
                "solver.norm",
                format!(
                    "\"scaled\" is for conjugate gradients, not for {:?}; use \"initial\" or \"rhs\"",
                    this.method.name()
                ),
            ));
        }
        Ok(this)
    }

    /// Returns notes about requests of these options that the resolved ones do not use.
    pub(crate) fn unused_by(&self, resolved: &Self) -> Vec<String> {
        let is_given = |kind| !matches!(kind, Preconditioner::Auto | Preconditioner::None);
        let mut notes = Vec::new();
        if resolved.method.is_stationary() && is_given(self.preconditioner) {
            notes.push(format!("the preconditioner {:?}", self.preconditioner.name()));
        }
        if self.deflation.is_some() && resolved.deflation.is_none() {
            notes.push("deflation".into());
        }
        let method = resolved.method.name();
        let mut notes: Vec<String> = notes
            .into_iter()
            .map(|what| format!("{what} is not used by the method {method:?}; use \"cg\" with it"))
            .collect();
        if self.precision != resolved.precision && resolved.method == Method::Direct {
            notes.push(format!(
                "the precision {:?} is not used by the method \"direct\", which computes in double precision",
                self.precision.to_string()
            ));
        }
        notes
    }

    /// Returns the key that keeps a direct solve from being chosen where the method and the preconditioner are left open, if there is one.
    pub(crate) fn rules_out_direct(&self) -> Option<&'static str> {
        if (self.method, self.preconditioner) != (Method::Auto, Preconditioner::Auto) {
            return None;
        }
        let keys = [
            ("solver.precision", self.precision != Precision::F64),
            ("solver.multigrid", self.multigrid != MultigridOptions::default()),
            ("solver.deflation", self.deflation.is_some()),
            ("solver.norm", self.norm == Norm::Scaled),
        ];
        keys.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Resolves `multigrid.precision`, given options with resolved method and preconditioner.
    fn cycle_precision(&self, choice: &Choice) -> Result<CyclePrecision> {
        let given = self.multigrid.precision;
        if self.precision != Precision::F64 {
            if given == CyclePrecision::F64 && self.has_cycles() {
                return Err(Error::invalid(
                    "solver.multigrid.precision",
                    format!(
                        "\"f64\" inside solver.precision = \"{}\"; leave it out, or use \"f64\" for both",
                        self.precision
                    ),
                ));
            }
            return Ok(CyclePrecision::F32);
        }
        Ok(match given {
            CyclePrecision::Auto if self.leaves_cycles_open(self.method, self.preconditioner) => choice.cycles,
            CyclePrecision::Auto => CyclePrecision::F64,
            given => given,
        })
    }

    /// Returns the options for a preconditioner of the caller's own, whose outer iteration may be left open.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they ask for multigrid cycles or for another precision than double.
    pub(crate) fn for_own_preconditioner(&self, is_symmetric: bool) -> Result<Self> {
        let mut options = self.clone();
        if options.method == Method::Auto {
            options.method = if is_symmetric { Method::Cg } else { Method::Bicgstab };
        }
        if options.method.is_stationary() {
            let method = options.method.name();
            return Err(Error::invalid(
                "solver.method",
                format!(
                    "{method:?} takes no preconditioner; a preconditioner of your own goes with \"cg\" or \"bicgstab\""
                ),
            ));
        }
        if options.precision != Precision::F64 {
            return Err(Error::invalid(
                "solver.precision",
                format!("\"{}\" with a preconditioner of your own, which works in double precision", options.precision),
            ));
        }
        options.preconditioner = Preconditioner::None;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Deflation;

    #[test]
    fn automatic_choices_are_the_stencils() {
        let choice = Choice::new(Method::Cg, Preconditioner::Multigrid);
        let resolved = SolverOptions::default().resolved(&choice).unwrap();
        assert_eq!((resolved.method, resolved.preconditioner), (Method::Cg, Preconditioner::Multigrid));
        let cycles = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() }.resolved(&choice).unwrap();
        assert_eq!(cycles.preconditioner, Preconditioner::None);
        let mixed = SolverOptions { precision: Precision::Mixed, ..SolverOptions::default() };
        assert!(mixed.resolved(&choice).is_ok());
        assert!(mixed.resolved(&Choice::new(Method::Cg, Preconditioner::Line)).is_err());
    }

    #[test]
    fn the_smoother_is_that_of_the_choice_if_all_else_is() {
        let points =
            Choice { smoother: Smoother::PointRedBlack, ..Choice::new(Method::Multigrid, Preconditioner::Multigrid) };
        let hybrid = Choice { smoother: Smoother::PointLine, ..Choice::galerkin() };
        let of = |method, preconditioner, choice: &Choice| {
            let options = SolverOptions { method, preconditioner, ..SolverOptions::default() };
            options.resolved(choice).unwrap().multigrid.smoother
        };
        use Preconditioner::{Auto, Multigrid, None};
        assert_eq!(of(Method::Auto, Auto, &points), Smoother::PointRedBlack);
        assert_eq!(of(Method::Multigrid, Auto, &points), Smoother::PointRedBlack);
        assert_eq!(of(Method::Auto, Auto, &hybrid), Smoother::PointLine);
        for (method, preconditioner) in [(Method::Cg, Auto), (Method::Cg, Multigrid), (Method::Bicgstab, Multigrid)] {
            assert_eq!(of(method, preconditioner, &points), Smoother::LineRedBlack, "{method:?} {preconditioner:?}");
        }
        assert_eq!(of(Method::Multigrid, Auto, &hybrid), Smoother::LineRedBlack);
        assert_eq!(of(Method::Cg, None, &hybrid), Smoother::LineRedBlack);
    }

    #[test]
    fn what_a_method_does_not_use_is_noted() {
        let choice = Choice::new(Method::Cg, Preconditioner::Multigrid);
        let notes = |method, preconditioner| {
            let deflation = Some(Deflation::default());
            let options = SolverOptions { method, preconditioner, deflation, ..SolverOptions::default() };
            options.unused_by(&options.resolved(&choice).unwrap())
        };
        assert!(notes(Method::Cg, Preconditioner::Line).is_empty());
        let cycles = notes(Method::Multigrid, Preconditioner::Line);
        assert!(
            cycles[0].starts_with("the preconditioner \"line\" is not used by the method \"multigrid\""),
            "{cycles:?}"
        );
        assert!(cycles[1].starts_with("deflation is not used"), "{cycles:?}");
        assert_eq!(notes(Method::Direct, Preconditioner::Auto).len(), 1);
        let direct = SolverOptions { method: Method::Direct, precision: Precision::Mixed, ..SolverOptions::default() };
        let notes = direct.unused_by(&direct.resolved(&choice).unwrap());
        assert!(notes[0].starts_with("the precision \"mixed\" is not used by the method \"direct\""), "{notes:?}");
    }
}
