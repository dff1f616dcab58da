//! Problems of kind "heat": `[heat]`, in addition to the sections of "diffusion".

use std::path::{Path, PathBuf};

use isobar::internals::forms::Forms;
use isobar::options::{Scheme, StepGuess, Steps};
use isobar::problem::{self, Heat, Spacing};
use isobar::{HeatOptions, Shape};
use isobar_io::{Mesh, checkpoint, npy};
use serde::{Deserialize, Deserializer};

use crate::assembled::{mesh_around, mesh_of};
use crate::fingerprint::Fingerprint;
use crate::{Assembled, DiffusionCase, Document, Error, Matrix, Result, RhsKind, Unknowns, memory};

/// The heat equation u_t = ∇·(κ∇u) − c u + f.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatCase {
    /// Coefficients, sides and sources: `[grid]`, `[diffusion]` and `[problem.rhs]`.
    pub diffusion: DiffusionCase,
    /// `[heat]`
    pub section: HeatSection,
    /// The time steps; with automatic lengths, a guess of the first one and the end time.
    pub steps: Steps,
    /// Whether unknowns are at points, with the default resolved.
    pub at_points: bool,
}

/// The inputs of a run, with their files read.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The problem in space.
    pub heat: Heat,
    /// The fingerprint of the problem.
    pub fingerprint: Fingerprint,
    /// The positions of the unknowns.
    pub mesh: Mesh,
    /// The initial state, C order.
    pub initial: Vec<f64>,
}

/// `[heat]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatSection {
    /// Length of a step, in the unit of time.
    pub dt: StepLength,
    /// The largest estimated error of a step relative to ‖u‖, if dt is "auto".
    pub step_tolerance: Option<f64>,
    /// End time; a run begins at 0.
    pub end_time: f64,
    /// The initial state.
    #[serde(default)]
    pub initial: Initial,
    /// The first guess of each step's solve.
    #[serde(default)]
    pub first_guess: StepGuess,
    /// The time discretisation.
    #[serde(default)]
    pub scheme: Scheme,
    /// The positions of the unknowns; by default at points, unless `[diffusion.boundary]` or `grid.spacing` is given.
    pub unknowns: Option<Unknowns>,
    /// Steps between two frames of the output; 0 writes the last state only.
    #[serde(default)]
    pub output_every: usize,
    /// Path of the checkpoint; after reading, relative to the working directory.
    pub checkpoint: Option<PathBuf>,
    /// Steps between two checkpoints; 0 writes one only at the end or on an interrupt.
    #[serde(default)]
    pub checkpoint_every: usize,
}

/// `heat.dt`
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepLength {
    /// A fixed length.
    Given(f64),
    /// Chosen at each step, so that the estimated error stays below `heat.step_tolerance`.
    Auto,
}

impl<'de> Deserialize<'de> for StepLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let forms = Forms::<Self> {
            word: |word| (word == "auto").then_some(Self::Auto),
            number: |dt| Some(Self::Given(dt)),
            ..Forms::new("a number, or \"auto\"")
        };
        forms.read(deserializer)
    }
}

/// Default of `heat.step_tolerance`.
const STEP_ERROR: f64 = 1e-4;
/// First guess of an automatic step length, relative to the end time.
const FIRST_STEP: f64 = 1e-3;

/// `heat.initial`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initial {
    /// 3 sin πx sin πy sin πz.
    #[default]
    Sine,
    /// Uniform in (−1, 1), seeded by `problem.rhs.seed`.
    Random,
    /// u = 0.
    Zero,
    /// An `.npy` file of shape (nz, ny, nx), or a checkpoint of a run on this grid.
    File(PathBuf),
}

impl HeatCase {
    pub(crate) fn read(document: &Document<'_>, folder: &Path) -> Result<Self> {
        let mut diffusion = DiffusionCase::read("heat", document, folder)?;
        let mut section: HeatSection = document.read("heat")?;
        let dt = match section.dt {
            StepLength::Given(dt) => dt,
            StepLength::Auto => FIRST_STEP * section.end_time,
        };
        let steps = Steps::new(dt, section.end_time).map_err(|error| document.failure_of(error))?;
        match (section.dt, section.step_tolerance) {
            (StepLength::Given(_), Some(_)) => {
                return Err(document.failure_at_key(
                    "heat.step_tolerance",
                    "is used only with heat.dt = \"auto\"; set that, or remove this key",
                ));
            }
            (StepLength::Auto, Some(error)) if !(error > 0.0 && error < 1.0) => {
                let message = format!("{error} is out of range; use a number between 0 and 1, such as 1e-4");
                return Err(document.failure_at_key("heat.step_tolerance", &message));
            }
            _ => {}
        }
        let is_in_cells = document.get("diffusion.boundary").is_some() || document.get("grid.spacing").is_some();
        let at_points = section.unknowns.map_or(!is_in_cells, |unknowns| unknowns == Unknowns::Points);
        if at_points {
            diffusion.section.place_at_points("heat.unknowns", document)?;
        }
        if diffusion.rhs.kind == Some(RhsKind::Manufactured) {
            let message =
                "is not supported for kind \"heat\"; use \"none\", \"constant\", \"random\", \"smooth\" or \"file\"";
            return Err(document.failure_at_key("problem.rhs.kind", message));
        }
        if section.checkpoint.is_none() && section.checkpoint_every > 0 {
            return Err(document.failure_at_key("heat.checkpoint_every", "needs heat.checkpoint, the file to write"));
        }
        section.checkpoint = section.checkpoint.map(|path| folder.join(path));
        if let Initial::File(path) = &mut section.initial {
            *path = folder.join(&*path);
        }
        Ok(Self { diffusion, section, steps, at_points })
    }

    /// Returns the files that are read.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        let initial = match &self.section.initial {
            Initial::File(path) => Some(path.as_path()),
            _ => None,
        };
        self.diffusion.inputs().chain(initial)
    }

    /// Returns the grid's shape.
    pub fn shape(&self) -> Shape {
        self.diffusion.shape
    }

    /// Returns the options of the time stepper.
    pub fn options(&self) -> HeatOptions {
        let (scheme, guess) = (self.section.scheme, self.section.first_guess);
        HeatOptions { steps: self.steps, error: self.step_tolerance(), scheme, guess }
    }

    /// Returns the largest estimated error of a step, if step lengths are automatic.
    pub fn step_tolerance(&self) -> Option<f64> {
        (self.section.dt == StepLength::Auto).then(|| self.section.step_tolerance.unwrap_or(STEP_ERROR))
    }

    /// Describes the problem in one line, for the summary of a run.
    pub fn describe(&self) -> String {
        let Steps { dt, end, .. } = self.steps;
        let mut text = self.diffusion.describe();
        if let Some(error) = self.step_tolerance() {
            let scheme = self.section.scheme.name();
            return text + &format!(", automatic steps with an error of at most {error:e} to {end}, {scheme}");
        }
        text += &format!(", {} steps of {dt} to {end}, {}", self.steps.count(), self.section.scheme.name());
        if let Some(last) = self.steps.last {
            text += &format!(" (the last step is {last:.6} long, because the end is not a multiple of the step)");
        }
        text
    }

    /// Returns the size of the box.
    pub fn size(&self) -> [f64; 3] {
        let Shape { nx, ny, nz } = self.shape();
        let extent = |d: usize, n: usize| self.diffusion.spacing[d].extent(n);
        [extent(0, nx), extent(1, ny), extent(2, nz)]
    }

    /// Builds the problem in space and its fingerprint, reading its files.
    fn problem(&self) -> Result<(Heat, Fingerprint)> {
        let problem = self.diffusion.problem()?;
        let body = self.body(&problem)?;
        let fingerprint = Fingerprint::new(&problem, body.as_deref(), self.at_points);
        let heat = if self.at_points {
            Heat::at_points(&problem, self.size(), body)?
        } else {
            Heat::in_cells(&problem, body)?
        };
        Ok((heat, fingerprint))
    }

    /// Returns f, if it is not 0.
    fn body(&self, problem: &problem::DiffusionProblem) -> Result<Option<Vec<f64>>> {
        let (rows, rhs, kind) = (0..self.shape().ny, &self.diffusion.rhs, self.diffusion.rhs_kind());
        if matches!(kind, RhsKind::None | RhsKind::Manufactured) {
            return Ok(None);
        }
        // Without boundary values, sources and wells, which are added later.
        let computed = |kind| Ok(problem.checked()?.body_in(&rows, kind, rhs.seed, problem::Weighting::None));
        rhs.values(kind, self.shape(), &rows, computed, Ok).map(Some)
    }

    /// Returns the initial state, C order.
    ///
    /// # Errors
    /// A file that cannot be read or does not fit; not enough memory.
    pub fn initial(&self, heat: &Heat) -> Result<Vec<f64>> {
        let (Shape { nx, ny, nz }, seed) = (self.shape(), self.diffusion.rhs.seed);
        let cells = self.shape().cells();
        match &self.section.initial {
            Initial::Sine => Ok(heat.sine(self.size())),
            Initial::Zero => memory::fill("the first state", cells, |_, _| {}),
            Initial::Random => memory::fill("the first state", cells, |first, piece: &mut [f64]| {
                piece.iter_mut().zip(first..).for_each(|(value, n)| *value = problem::random(seed, n));
            }),
            Initial::File(path) => {
                let shape = [nz, ny, nx];
                let read = if checkpoint::is_one(path) {
                    checkpoint::read_state(path, shape)
                } else {
                    // The command writes NaN in inactive cells.
                    npy::read_with_gaps(path, shape, &heat.inactive().unwrap_or_default())
                };
                read.map_err(|error| Error::new(format!("heat.initial: {error}")))
            }
        }
    }

    /// Returns the exact solution at a time, if known: for the sine with u = 0 on the sides, a constant coefficient
    /// and no other terms.
    pub fn exact(&self, heat: &Heat, time: f64) -> Option<Vec<f64>> {
        let section = &self.diffusion.section;
        let crate::values::Values::Number(kappa) = section.coefficient else { return None };
        let is_plain = self.at_points
            && self.section.initial == Initial::Sine
            && heat.source.is_none()
            && section.reaction.is_none()
            && section.active.is_none()
            && section.multiplier.is_none()
            && section.coefficient_y.is_none()
            && section.coefficient_z.is_none()
            && section.boundary.are_zero();
        let Shape { nx, ny, nz } = self.shape();
        let rate: f64 = [nx, ny, nz]
            .into_iter()
            .zip(self.size())
            .filter(|&(n, _)| n > 1)
            .map(|(_, length)| (std::f64::consts::PI / length).powi(2))
            .sum();
        let factor = (-kappa * rate * time).exp();
        is_plain.then(|| heat.sine(self.size()).into_iter().map(|u| factor * u).collect())
    }

    /// Returns the mesh of the unknowns.
    pub fn mesh(&self, heat: &Heat) -> Mesh {
        if self.at_points {
            return mesh_around(&heat.coordinates, self.size());
        }
        mesh_of(self.shape(), &self.diffusion.spacing)
    }

    /// Builds the problem in space with the mesh and the initial state.
    ///
    /// # Errors
    /// The errors of [`DiffusionCase::problem`] and [`HeatCase::initial`]; a coefficient that is positive nowhere; an input that does
    /// not fit.
    pub fn parts(&self) -> Result<Parts> {
        let (heat, fingerprint) = self.problem()?;
        let (mesh, initial) = (self.mesh(&heat), self.initial(&heat)?);
        Ok(Parts { heat, fingerprint, mesh, initial })
    }

    /// Makes the linear system of the first step.
    pub fn assemble(&self) -> Result<Assembled> {
        let Parts { heat, mesh, initial, .. } = self.parts()?;
        let c = 1.0 / (self.section.scheme.theta() * self.steps.length(0));
        let matrix = heat.shifted(c)?;
        let mass = |n: usize| match &heat.mass {
            problem::Mass::Uniform(volume) => *volume,
            problem::Mass::Given(volumes) => volumes[n],
        };
        let source = |n: usize| heat.source.as_ref().map_or(0.0, |source| source[n]);
        let inactive = heat.inactive();
        let value = |(n, u): (usize, &f64)| {
            if inactive.as_ref().is_some_and(|inactive| inactive[n]) { 0.0 } else { c * mass(n) * u + source(n) }
        };
        let rhs = memory::collect("the right-hand side", initial.len(), initial.iter().enumerate().map(value))?;
        let active = inactive.map(|inactive| inactive.into_iter().map(|inactive| !inactive).collect());
        Ok(Assembled { matrix: Matrix::Diffusion(matrix), rhs, exact: None, active, mesh, box_of_cells: None })
    }

    /// Returns whether cell widths, and so the masses, differ.
    pub(crate) fn has_various_cells(&self) -> bool {
        self.diffusion.spacing.iter().any(|spacing| matches!(spacing, Spacing::Given(_)))
    }
}
