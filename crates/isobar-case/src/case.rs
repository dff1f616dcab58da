//! Case files.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use isobar::Guess;
use isobar::options::SolverOptions;
use isobar::problem::random;
use serde::Deserialize;

use crate::keys::keys;
use crate::output::{OutputSection, read_output};
use crate::overrides::Override;
use crate::rhs::RhsKind;
use crate::{Assembled, Document, Error, Problem, Result, explain, memory, reader};

/// The sections of a case file.
const SECTIONS: [&str; 7] = ["problem", "grid", "diffusion", "faces", "heat", "solver", "output"];

/// The content of a case file.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The equation, its grid and its right-hand side: `[problem]`, `[grid]`, `[diffusion]` or `[faces]`, and `[heat]`.
    pub problem: Problem,
    /// The method and its parameters, `[solver]`; options left open are chosen for the matrix.
    pub solver: SolverOptions,
    /// The first guess of the iteration, `solver.guess`.
    pub guess: FirstGuess,
    /// The files of `[output]`, in addition to those of the command line.
    pub output: OutputSection,
    /// Notes about keys that are not used.
    pub notes: Vec<String>,
}

/// `solver.guess`: the first guess of the iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstGuess {
    /// u₀ = 0.
    #[default]
    Zero,
    /// u₀ = 1 (papers C and E).
    Ones,
    /// Uniform in (0, 1), seeded by `problem.rhs.seed`: rough, so that a smooth first guess does not flatter a solver (paper D).
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
    /// Reads a case file and applies overrides in order.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML, or a key is unknown, or a value has the wrong type or
    /// is out of range. The message shows the line or the override at fault.
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

    /// Parses a case from text; relative paths in it are relative to `path`'s folder.
    pub fn parse(path: &Path, text: &str, overrides: &[Override]) -> Result<Self> {
        let name = path.display().to_string();
        let mut document = Document::parse(&name, text, keys)?;
        for change in overrides {
            document.set(change)?;
        }
        for (key, node) in document.sections() {
            if !SECTIONS.contains(&key.get_ref().as_ref()) {
                let (message, help) = explain::unknown_key("", key.get_ref(), &SECTIONS, keys);
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
        let layers = problem.shape().nz;
        if let Some(count) = solver.modes.count.given().filter(|&count| count > layers) {
            let message = format!("{count} modes of a grid of {layers} layers, which has no more than these");
            return Err(document.failure_at_key("solver.modes.count", &message));
        }
        let output = read_output(&document, &problem, folder)?;
        let notes = unused(&document, &problem, &solver, guess);
        Ok(Self { path: path.to_path_buf(), problem, solver, guess, output, notes })
    }

    /// Returns the file's name as the user wrote it.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Returns the files that are read: the case itself and those that it names.
    pub fn inputs(&self) -> Vec<&Path> {
        let mut inputs = self.problem.inputs();
        inputs.insert(0, &self.path);
        inputs
    }

    /// Builds the linear system, reading the files that the case names.
    ///
    /// # Errors
    /// An input that cannot be read or does not fit the grid; coefficients that give no valid matrix.
    pub fn assemble(&self) -> Result<Assembled> {
        self.problem.assemble().map_err(|error| Error::at(&self.path, error))
    }

    /// Builds the linear system with b and the exact solution in some rows of the grid, (nz, rows, nx) in C order. Only these rows of a file are read.
    ///
    /// # Errors
    /// The errors of [`Case::assemble`] for the part that is read.
    pub fn assemble_in(&self, rows: &Range<usize>) -> Result<Assembled> {
        self.problem.assemble_in(rows).map_err(|error| Error::at(&self.path, error))
    }

    /// Builds the linear system without b if [`Case::rhs`] can compute that later; returns nothing for other problems.
    ///
    /// # Errors
    /// The errors of [`Case::assemble`].
    pub(crate) fn assemble_without_rhs(&self) -> Result<Option<Assembled>> {
        self.problem.assemble_without_rhs().map_err(|error| Error::at(&self.path, error))
    }

    /// Returns b, shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// The errors of [`Case::assemble`].
    pub(crate) fn rhs(&self) -> Result<Vec<f64>> {
        self.problem.rhs().map_err(|error| Error::at(&self.path, error))
    }

    /// Returns the right-hand side for a body source given by the caller, shape (nz, ny, nx) in C order: weighted as in the case, plus
    /// boundary values, sources and wells.
    ///
    /// # Errors
    /// The errors of [`Case::assemble`]; a wrong number of cells; a heat equation, which has a right-hand side per step only.
    pub fn rhs_from(&self, body: Vec<f64>) -> Result<Vec<f64>> {
        self.problem.rhs_from(body).map_err(|error| Error::at(&self.path, error))
    }

    /// Returns the first guess, shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn first_guess(&self) -> Result<Vec<f64>> {
        self.first_guess_in(&(0..self.problem.shape().ny))
    }

    /// Returns the first guess in some rows of the grid, shape (nz, rows, nx).
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

/// Returns random numbers, uniform in (0, 1): a rough first guess, with which no solver is fast by luck.
///
/// # Errors
/// Not enough memory.
pub fn random_guess(seed: u64, cells: usize) -> Result<Vec<f64>> {
    memory::fill("the first guess", cells, |first, piece: &mut [f64]| {
        piece.iter_mut().zip(first..).for_each(|(value, n)| *value = random_value(seed, n));
    })
}

fn random_value(seed: u64, cell: usize) -> f64 {
    0.5 * (1.0 + random(seed, cell))
}

/// Reads `[solver]`. Options left open are chosen for the matrix.
fn read_solver(document: &Document<'_>) -> Result<(SolverOptions, FirstGuess)> {
    let solver = read_options(document, &["guess"])?;
    let guess = match document.get("solver.guess") {
        Some(_) => document.read("solver.guess")?,
        None => FirstGuess::default(),
    };
    Ok((solver, guess))
}

/// Reads `[solver]` without the keys that another function reads.
pub(crate) fn read_options(document: &Document<'_>, apart: &[&str]) -> Result<SolverOptions> {
    let solver: SolverOptions = document.read_without("solver", apart)?;
    solver.validate().map_err(|error| document.failure_of(error))?;
    Ok(solver)
}

/// Parameters of preconditioners, and the kinds that have them.
const PARAMETERS: [(&str, &[&str]); 4] = [
    ("block", &["block-ic", "ic", "mic"]),
    ("scaling", &["incomplete-poisson"]),
    ("order", &["neumann"]),
    ("relaxation", &["mic"]),
];

/// Returns notes about keys that have no effect because of another key. Those of methods are known when a solver is made.
fn unused(document: &Document<'_>, problem: &Problem, solver: &SolverOptions, guess: FirstGuess) -> Vec<String> {
    let mut notes = Vec::new();
    let kind = problem.rhs_kind();
    let has_random_state = guess == FirstGuess::Random || problem.begins_randomly();
    if document.get("problem.rhs.seed").is_some() && kind != RhsKind::Random && !has_random_state {
        let kind = kind.name();
        notes.push(format!(
            "problem.rhs.seed is not used by a right-hand side of kind \"{kind}\"; use \"random\" with it"
        ));
    }
    if document.get("solver.deflation").is_some() && solver.deflation.is_none() {
        let method = solver.method_name();
        notes.push(format!("solver.deflation is not used by the method {method:?}; use \"deflated-cg\" with it"));
    }
    let kind = solver.preconditioner.name();
    for (key, kinds) in PARAMETERS {
        let key = format!("solver.preconditioner.{key}");
        if document.get(&key).is_some() && !kinds.contains(&kind) {
            let others = kinds.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(" or ");
            notes.push(format!("{key} is not used by the preconditioner {kind:?}; use {others} with it"));
        }
    }
    notes
}

/// The size of the largest case file, because reading `/dev/zero` never ends. B
const LONGEST: u64 = 64 << 20;

/// Reads a file, or its beginning if it is longer than [`LONGEST`].
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
        ErrorKind::IsADirectory => "is a folder; give the path of a case file in it".to_owned(),
        ErrorKind::PermissionDenied => "permission denied; make it readable".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    Error::at(path, message)
}
