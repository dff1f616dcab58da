//! Everything a case file says.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use isobar::Guess;
use isobar::grid::GridOptions;
use isobar::options::SolverOptions;
use isobar::problem::random;
use serde::Deserialize;

use crate::assembled::Assembled;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::overrides::Override;
use crate::problem::Problem;
use crate::text::shorten;
use crate::{diffusion, explain, heat, memory, problem, reader};

/// The sections of a case file.
const SECTIONS: [&str; 7] = ["problem", "grid", "diffusion", "faces", "heat", "solver", "output"];

/// Everything a case file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The equation, its grid and its right-hand side: `[problem]`, `[grid]` and `[diffusion]`.
    pub problem: Problem,
    /// The method and its parameters, `[solver]`; what is left open, the matrix chooses.
    pub solver: SolverOptions,
    /// Where the iteration starts, `solver.guess`.
    pub guess: FirstGuess,
    /// The files that `[output]` asks for, beside those of the command line.
    pub output: OutputSection,
}

/// `[output]`: what the command writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSection {
    /// The fluxes through all faces, a zarr store; after reading, relative to the working directory.
    pub flux: Option<PathBuf>,
}

/// `solver.guess`: where the iteration starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstGuess {
    /// u₀ = 0.
    #[default]
    Zero,
    /// u₀ = 1 (papers C and E).
    Ones,
    /// Uniform in (0, 1), from `problem.rhs.seed`: rough, so that no solution is found fast by luck (paper D).
    Random,
}

impl From<FirstGuess> for Guess {
    fn from(guess: FirstGuess) -> Self {
        match guess {
            FirstGuess::Zero => Self::Zero,
            FirstGuess::Ones | FirstGuess::Random => Self::Given,
        }
    }
}

impl Case {
    /// Reads a case file and applies overrides, one after another.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, has a key or value that is not known, of the wrong type
    /// or out of range; the message shows the line or the override at fault.
    pub fn load(path: impl AsRef<Path>, overrides: &[Override]) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_limited(path).map_err(|error| unreadable(path, &error))?;
        if bytes.len() as u64 > LONGEST {
            let message =
                format!("longer than {} MiB; a case file is TOML text (is this the right file?)", LONGEST >> 20);
            return Err(Error::at(path, message));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            Error::at(
                path,
                format!(
                    "byte {} is not UTF-8; a case file is TOML text (is this the right file?)",
                    error.utf8_error().valid_up_to()
                ),
            )
        })?;
        Self::parse(path, &text, overrides)
    }

    /// The same from text; relative paths in it are relative to `path`'s folder.
    ///
    /// # Errors
    /// Those of [`Case::load`].
    pub fn parse(path: &Path, text: &str, overrides: &[Override]) -> Result<Self> {
        let name = path.display().to_string();
        let mut document = Document::parse(&name, text)?;
        for change in overrides {
            document.set(change)?;
        }
        for (key, node) in document.sections() {
            if !SECTIONS.contains(&key.get_ref().as_ref()) {
                let (message, help) = explain::unknown_key("", key.get_ref(), &SECTIONS);
                return Err(document.failure(Some(key.span()), &message, help.as_deref()));
            }
            if !node.get_ref().is_table() {
                let (key, found) = (key.get_ref(), reader::in_words(node.get_ref()));
                let message = format!("{key} must be a section, [{key}], not {found}");
                return Err(document.failure(Some(node.span()), &message, None));
            }
        }

        let folder = path.parent().unwrap_or(Path::new(""));
        let problem = Problem::read(&document, folder)?;
        let (solver, guess) = read_solver(&document)?;
        let output = read_output(&document, &problem, folder)?;
        Ok(Self { path: path.to_path_buf(), problem, solver, guess, output })
    }

    /// The file, as the user named it.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The files that it is read from: the case itself and those that it names.
    pub fn inputs(&self) -> Vec<&Path> {
        let mut inputs = self.problem.inputs();
        inputs.insert(0, &self.path);
        inputs
    }

    /// Builds the linear system, reading the files that the case names.
    ///
    /// # Errors
    /// An input that cannot be read or does not fit the grid; coefficients that make no sensible matrix.
    pub fn assemble(&self) -> Result<Assembled> {
        self.problem.assemble().map_err(|error| Error::at(&self.path, error))
    }

    /// The same with b and the exact solution in some rows of the grid, (nz, rows, nx) in C order: of a file these alone are read.
    ///
    /// # Errors
    /// As [`Case::assemble`], of what is read.
    pub fn assemble_in(&self, rows: &Range<usize>) -> Result<Assembled> {
        self.problem.assemble_in(rows).map_err(|error| Error::at(&self.path, error))
    }

    /// The right-hand side of a body source of the caller's own, shape (nz, ny, nx) in C order: weighted as the case says, with
    /// boundary values, sources and wells.
    ///
    /// # Errors
    /// As [`Case::assemble`]; another number of cells; a heat equation, whose right-hand side is that of a step.
    pub fn rhs_from(&self, body: Vec<f64>) -> Result<Vec<f64>> {
        self.problem.rhs_from(body).map_err(|error| Error::at(&self.path, error))
    }

    /// Where the iteration starts: shape (nz, ny, nx), C order.
    ///
    /// # Errors
    /// Memory that cannot be had.
    pub fn first_guess(&self) -> Result<Vec<f64>> {
        self.first_guess_in(&(0..self.problem.shape().ny))
    }

    /// The same in some rows of the grid: shape (nz, rows, nx).
    ///
    /// # Errors
    /// As [`Case::first_guess`].
    pub fn first_guess_in(&self, rows: &Range<usize>) -> Result<Vec<f64>> {
        let (shape, seed) = (self.problem.shape(), self.problem.seed());
        let row = shape.nx * rows.len();
        let cells = row * shape.nz;
        match self.guess {
            FirstGuess::Zero => memory::fill("the solution", cells, |_, _| {}),
            FirstGuess::Ones => memory::fill("the first guess", cells, |_, piece| piece.fill(1.0)),
            FirstGuess::Random => {
                let of_grid = |n: usize| n % row + shape.nx * (rows.start + shape.ny * (n / row));
                memory::fill("the first guess", cells, |first, piece: &mut [f64]| {
                    piece.iter_mut().zip(first..).for_each(|(value, n)| *value = random_value(seed, of_grid(n)));
                })
            }
        }
    }
}

/// Uniform in (0, 1): a first guess so rough that no solution is found fast by luck.
///
/// # Errors
/// Memory that cannot be had.
pub fn random_guess(seed: u64, cells: usize) -> Result<Vec<f64>> {
    memory::fill("the first guess", cells, |first, piece: &mut [f64]| {
        piece.iter_mut().zip(first..).for_each(|(value, n)| *value = random_value(seed, n));
    })
}

fn random_value(seed: u64, cell: usize) -> f64 {
    0.5 * (1.0 + random(seed, cell))
}

/// `[output]`, checked for what the problem has.
fn read_output(document: &Document<'_>, problem: &Problem, folder: &Path) -> Result<OutputSection> {
    let mut output: OutputSection = document.read("output")?;
    let Some(flux) = &mut output.flux else { return Ok(output) };
    let fail = |message: &str| Err(document.failure_at_key("output.flux", message));
    match problem {
        Problem::Diffusion(case) if case.faces.is_some() => {
            return fail("fluxes are those of [diffusion], and this case has [faces]; leave it out");
        }
        Problem::Diffusion(case) if case.section.unknowns == diffusion::Unknowns::Cells => {}
        Problem::Diffusion(_) => {
            return fail(
                "fluxes are those through faces of cells; leave it out, or set diffusion.unknowns = \"cells\"",
            );
        }
        _ => {
            let kind = problem.kind();
            return fail(&format!("fluxes belong to problem.kind = \"diffusion\", not \"{kind}\"; leave it out"));
        }
    }
    if !flux.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zarr")) {
        return fail("fluxes are three arrays and need a zarr store; use a name that ends in .zarr");
    }
    *flux = folder.join(&*flux);
    Ok(output)
}

/// `[solver]`; what it leaves open is the matrix's to choose.
fn read_solver(document: &Document<'_>) -> Result<(SolverOptions, FirstGuess)> {
    let solver = read_options(document, &["guess"])?;
    let guess = match document.get("solver.guess") {
        Some(_) => document.read("solver.guess")?,
        None => FirstGuess::default(),
    };
    Ok((solver, guess))
}

/// The same without keys that somebody else reads.
pub(crate) fn read_options(document: &Document<'_>, apart: &[&str]) -> Result<SolverOptions> {
    let solver: SolverOptions = document.read_without("solver", apart)?;
    solver.validate().map_err(|error| at_key(document, error))?;
    Ok(solver)
}

/// An error of the library, shown at the key that it names.
pub(crate) fn at_key(document: &Document<'_>, error: isobar::Error) -> Error {
    match error {
        isobar::Error::Invalid { key, message } => document.failure_at_key(&key, &shorten(&message)),
        other => other.into(),
    }
}

/// A case file longer than this is none, and `/dev/zero` never ends. B
const LONGEST: u64 = 64 << 20;

/// The content of a file, or its beginning where it is longer than [`LONGEST`].
fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    let message = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "no such file; give the path of a case file, such as cases/panel.toml".to_owned()
        }
        ErrorKind::IsADirectory => "a folder; give the path of a case file in it".to_owned(),
        ErrorKind::PermissionDenied => "permission denied; make it readable".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    Error::at(path, message)
}

/// Every dotted key that a case may hold, for suggestions.
pub(crate) fn keys() -> Vec<String> {
    let mut found = Vec::new();
    flatten("problem", &problem::defaults(), &mut found);
    flatten("grid", &serde_json::json!(GridOptions::default()), &mut found);
    found.extend(SolverOptions::keys().map(|key| format!("solver.{key}")));
    found.extend(["solver.guess", "output.flux"].map(str::to_owned));
    found.extend(diffusion::KEYS.map(str::to_owned));
    found.extend(heat::KEYS.map(str::to_owned));
    found
}

fn flatten(prefix: &str, value: &serde_json::Value, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, member) in members {
                flatten(&format!("{prefix}.{key}"), member, into);
            }
        }
        _ => into.push(prefix.to_owned()),
    }
}
