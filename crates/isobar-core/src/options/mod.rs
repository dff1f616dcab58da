//! Options of a solve, as plain data with the names of the case file.
//!
//! * this file: [`SolverOptions`], the method, norms, [`Deflation`],
//! * [`multigrid`], [`modes`], [`jacobi`] and [`preconditioner`]: options of these parts,
//! * [`CyclePrecision`]: the storage of cycles,
//! * [`PointCycle`]: `[solver.jacobi]` resolved on a grid,
//! * `unused`: notes about parts that a solver does not use,
//! * [`heat`]: schemes and lengths of time steps.

mod cycles;
mod deflation;
pub mod heat;
pub mod jacobi;
pub mod modes;
pub mod multigrid;
mod point_cycle;
pub mod preconditioner;
mod unused;
mod verdict;

use serde::{Deserialize, Deserializer, Serialize};

use crate::forms::Forms;
use crate::{Error, Precision, Result};

pub use deflation::{CoarseSolve, Deflation, Stripes};
pub use heat::{Scheme, StepGuess, Steps};
pub use jacobi::{Acceleration, JacobiOptions, Overlap};
pub use modes::{Count, ModesOptions};
pub use multigrid::{CyclePrecision, MultigridOptions, Smoother, Start};
pub use point_cycle::{PointCycle, Span};
pub use preconditioner::Preconditioner;
pub use verdict::{Compatibility, Judge, Norm};

/// The outer iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// The choice depends on the stencil.
    #[default]
    Auto,
    /// Transforms and tridiagonal systems, where coefficients are products of one factor a direction.
    Direct,
    /// Multigrid cycles.
    Multigrid,
    /// Vertical modes of a tensor-product matrix, and line relaxation.
    Modes,
    /// Jacobi's method, plain or hierarchical.
    Jacobi,
    /// Preconditioned conjugate gradients.
    Cg,
    /// BiCGStab, for non-symmetric operators.
    Bicgstab,
}

impl Method {
    /// Returns its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Direct => "direct",
            Self::Multigrid => "multigrid",
            Self::Modes => "modes",
            Self::Jacobi => "jacobi",
            Self::Cg => "cg",
            Self::Bicgstab => "bicgstab",
        }
    }

    /// Returns whether it repeats the same step on u alone, without a preconditioner.
    pub fn is_stationary(self) -> bool {
        matches!(self, Self::Direct | Self::Multigrid | Self::Modes | Self::Jacobi)
    }
}

/// `[solver]`
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Section")]
pub struct SolverOptions {
    /// The outer iteration.
    pub method: Method,
    /// Stop at ‖r‖ ≤ tolerance · ‖r₀‖ (or ‖b‖).
    pub tolerance: f64,
    /// The norm that the tolerance is relative to.
    pub norm: Norm,
    /// The largest number of iterations.
    pub max_iterations: usize,
    /// Storage of vectors and coefficients.
    pub precision: Precision,
    /// Multigrid, as a method or as a preconditioner.
    pub multigrid: MultigridOptions,
    /// Vertical modes.
    pub modes: ModesOptions,
    /// Jacobi's method.
    pub jacobi: JacobiOptions,
    /// The preconditioner of the Krylov methods.
    pub preconditioner: Preconditioner,
    /// The deflation of conjugate gradients, if any.
    pub deflation: Option<Deflation>,
    /// The treatment of a right-hand side without a solution.
    pub compatibility: Compatibility,
    /// The solution whose residual is judged where the caller's array is in single precision.
    pub judge: Judge,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self {
            method: Method::default(),
            tolerance: 1e-5,
            norm: Norm::default(),
            max_iterations: 500,
            precision: Precision::default(),
            multigrid: MultigridOptions::default(),
            modes: ModesOptions::default(),
            jacobi: JacobiOptions::default(),
            preconditioner: Preconditioner::default(),
            deflation: None,
            compatibility: Compatibility::default(),
            judge: Judge::default(),
        }
    }
}

/// Methods by their names in case files; one of them stands for conjugate gradients with deflation.
#[derive(Clone, Copy, Debug, Serialize)]
struct MethodName(&'static str);

impl MethodName {
    const ALL: &'static [&'static str] =
        &["auto", "direct", "multigrid", "modes", "jacobi", "cg", "deflated-cg", "bicgstab"];
}

impl<'de> Deserialize<'de> for MethodName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = |name: &str| Self::ALL.iter().copied().find(|&known| known == name);
        Forms::<_>::one_of(Self::ALL, word).read(deserializer).map(Self)
    }
}

/// [`SolverOptions`] in the form of case files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    method: Option<MethodName>,
    tolerance: Option<f64>,
    norm: Option<Norm>,
    max_iterations: Option<usize>,
    precision: Option<Precision>,
    multigrid: Option<MultigridOptions>,
    modes: Option<ModesOptions>,
    jacobi: Option<JacobiOptions>,
    preconditioner: Option<Preconditioner>,
    deflation: Option<Deflation>,
    compatibility: Option<Compatibility>,
    judge: Option<Judge>,
}

impl From<SolverOptions> for Section {
    fn from(options: SolverOptions) -> Self {
        Self {
            method: Some(MethodName(options.method_name())),
            tolerance: Some(options.tolerance),
            norm: Some(options.norm),
            max_iterations: Some(options.max_iterations),
            precision: Some(options.precision),
            multigrid: Some(options.multigrid),
            modes: Some(options.modes),
            jacobi: Some(options.jacobi),
            preconditioner: Some(options.preconditioner),
            deflation: options.deflation,
            compatibility: Some(options.compatibility),
            judge: Some(options.judge),
        }
    }
}

impl<'de> Deserialize<'de> for SolverOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let section = Section::deserialize(deserializer)?;
        let default = Self::default();
        // Keys of other methods are ignored, so that a method can be tried by changing one key.
        let (method, deflation) = match section.method.map_or("auto", |method| method.0) {
            "direct" => (Method::Direct, None),
            "multigrid" => (Method::Multigrid, None),
            "modes" => (Method::Modes, None),
            "jacobi" => (Method::Jacobi, None),
            "cg" => (Method::Cg, None),
            "deflated-cg" => (Method::Cg, Some(section.deflation.unwrap_or_default())),
            "bicgstab" => (Method::Bicgstab, None),
            _ => (Method::Auto, section.deflation),
        };
        Ok(Self {
            method,
            tolerance: section.tolerance.unwrap_or(default.tolerance),
            norm: section.norm.unwrap_or(default.norm),
            max_iterations: section.max_iterations.unwrap_or(default.max_iterations),
            precision: section.precision.unwrap_or(default.precision),
            multigrid: section.multigrid.unwrap_or(default.multigrid),
            modes: section.modes.unwrap_or(default.modes),
            jacobi: section.jacobi.unwrap_or(default.jacobi),
            preconditioner: section.preconditioner.unwrap_or(default.preconditioner),
            deflation,
            compatibility: section.compatibility.unwrap_or(default.compatibility),
            judge: section.judge.unwrap_or(default.judge),
        })
    }
}

impl SolverOptions {
    /// Returns the method's name in case files, which for conjugate gradients includes deflation.
    pub fn method_name(&self) -> &'static str {
        match (self.method, &self.deflation) {
            (Method::Cg, Some(_)) => "deflated-cg",
            (method, _) => method.name(),
        }
    }

    /// Checks each value separately.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the key, its value and the range it must lie in.
    pub fn validate(&self) -> Result<()> {
        check_tolerance("solver.tolerance", self.tolerance)?;
        self.multigrid.validate()?;
        self.modes.validate()?;
        self.jacobi.validate()?;
        if let Preconditioner::Neumann { order } = self.preconditioner {
            Error::unless(order <= MOST_TERMS, "solver.preconditioner.order", || {
                format!("{order} terms of the Neumann series; more than {MOST_TERMS} never pay, 1 or 2 are usual")
            })?;
        }
        if let Preconditioner::BlockIc { block: Some(0) }
        | Preconditioner::Ic { block: Some(0) }
        | Preconditioner::Mic { block: Some(0), .. } = self.preconditioner
        {
            return Err(Error::invalid("solver.preconditioner.block", "0 unknowns; use 1 or more, such as 8 nx"));
        }
        if let Preconditioner::Mic { relaxation, .. } = self.preconditioner {
            Error::unless((0.0..=1.0).contains(&relaxation), "solver.preconditioner.relaxation", || {
                format!("{relaxation} is not from 0 to 1; 1 is modified incomplete Cholesky, 0 is the plain one")
            })?;
        }
        Ok(())
    }
}

/// The longest Neumann series.
const MOST_TERMS: usize = 50;

/// Checks the tolerance of a relative residual.
///
/// # Errors
/// [`Error::Invalid`] for one that is not between 0 and 1.
pub fn check_tolerance(what: &str, tolerance: f64) -> Result<()> {
    let is_valid = tolerance > 0.0 && tolerance < 1.0;
    Error::unless(is_valid, what, || format!("{tolerance} is not between 0 and 1; a usual value is 1e-5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SolverOptions {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_method_name_may_include_deflation() {
        assert_eq!(read("{}"), SolverOptions::default());
        let deflated = read(r#"{"method": "deflated-cg"}"#);
        assert_eq!((deflated.method, deflated.deflation.clone()), (Method::Cg, Some(Deflation::default())));
        assert_eq!(deflated.method_name(), "deflated-cg");
        let with = |method: &str| {
            let given =
                read(&format!(r#"{{"method": "{method}", "deflation": {{"stripes": {{"blocks": [2, 2, 1]}}}}}}"#));
            given.deflation.map(|deflation| deflation.stripes)
        };
        assert_eq!(with("deflated-cg"), Some(Stripes::Blocks([2, 2, 1])));
        assert_eq!(with("auto"), Some(Stripes::Blocks([2, 2, 1])));
        // A section for another method is ignored.
        assert_eq!((with("cg"), with("multigrid")), (None, None));
    }

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "{}",
            r#"{"method": "cg", "preconditioner": {"kind": "block-ic", "block": 4}}"#,
            r#"{"method": "deflated-cg", "deflation": {"coarse": "inverse"}}"#,
            r#"{"method": "auto", "deflation": {"stripes": "bodies"}, "precision": "f32"}"#,
        ] {
            let options = read(text);
            assert_eq!(read(&serde_json::to_string(&options).unwrap()), options, "{text}");
        }
    }

    #[test]
    fn a_preconditioner_carries_its_parameters() {
        let of = |text: &str| read(&format!(r#"{{"preconditioner": {text}}}"#)).preconditioner;
        assert_eq!(of(r#"{"kind": "neumann"}"#), Preconditioner::Neumann { order: 2 });
        assert_eq!(of(r#"{"kind": "neumann", "order": 1}"#), Preconditioner::Neumann { order: 1 });
        assert_eq!(of(r#"{"kind": "line", "order": 1}"#), Preconditioner::Line);
        assert_eq!(of(r#"{"kind": "ic", "relaxation": 0.5}"#), Preconditioner::Ic { block: None });
        assert_eq!(of(r#"{"kind": "mic"}"#), Preconditioner::Mic { relaxation: 1.0, block: None });
        let half = Preconditioner::Mic { relaxation: 0.5, block: Some(8) };
        assert_eq!(of(r#"{"kind": "mic", "relaxation": 0.5, "block": 8}"#), half);
        assert_eq!(of(r#""jacobi""#), Preconditioner::Jacobi);
        assert_eq!(of("{}"), Preconditioner::Auto);
        for wrong in [r#"{"kind": "lines"}"#, r#"{"kind": "line", "ordr": 1}"#, r#""lines""#, "3"] {
            assert!(
                serde_json::from_str::<SolverOptions>(&format!(r#"{{"preconditioner": {wrong}}}"#)).is_err(),
                "{wrong}"
            );
        }
        for name in Preconditioner::NAMES {
            assert_eq!(of(&format!("{name:?}")).name(), *name);
        }
    }

    #[test]
    fn every_value_has_bounds() {
        let invalid = |change: &dyn Fn(&mut SolverOptions)| {
            let mut options = SolverOptions::default();
            change(&mut options);
            options.validate().unwrap_err().to_string()
        };
        assert!(invalid(&|o| o.tolerance = 0.0).contains("tolerance"));
        assert!(
            invalid(&|o| (o.multigrid.pre, o.multigrid.post) = (1001, usize::MAX))
                .contains("1001 sweeps; use 1000 or fewer")
        );
        assert!(invalid(&|o| o.multigrid.coarse_sweeps = 1 << 40).contains("coarse_sweeps"));
        assert!(invalid(&|o| o.multigrid.visits = Some(vec![2, 0])).contains("0 visits"));
        assert!(invalid(&|o| o.preconditioner = Preconditioner::BlockIc { block: Some(0) }).contains("block"));
        assert!(invalid(&|o| o.preconditioner = Preconditioner::Ic { block: Some(0) }).contains("block"));
        for relaxation in [-0.1, 1.1, f64::NAN] {
            let mic = Preconditioner::Mic { relaxation, block: None };
            assert!(invalid(&|o| o.preconditioner = mic).contains("relaxation"));
        }
        assert!(invalid(&|o| o.preconditioner = Preconditioner::Neumann { order: 51 }).contains("51 terms"));
    }
}
