//! The case file: TOML text and `--set` overrides in, a typed [`Case`] out.
//!
//! * `document` the tree of keys and values, with their places,
//! * `explain` error messages,
//! * `planned` what the format names but this version cannot do,
//! * [`problem`] which problem it is, [`helmholtz`] and [`diffusion`] what each kind reads,
//! * [`values`] numbers of cells: from files and recipes,
//! * [`assembled`], [`matrix`] the linear system that comes of it.

pub mod assembled;
pub mod diffusion;
mod document;
mod explain;
pub mod helmholtz;
pub mod matrix;
mod planned;
pub mod problem;
#[cfg(test)]
mod tests;
pub mod values;

use std::path::Path;

use isobar::grid::GridOptions;
use isobar::options::{Method, PreconditionerKind, SolverOptions};
use serde::Deserialize;

use crate::args::CaseArgs;
use crate::failure::{Failure, Result};
use document::Document;
pub use problem::Problem;

/// The sections of a case file.
const SECTIONS: [&str; 4] = ["problem", "grid", "diffusion", "solver"];

/// Everything a case file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The file, as the user named it.
    pub name: String,
    /// `[problem]`, `[grid]` and `[diffusion]`
    pub problem: Problem,
    /// `[solver]`
    pub solver: SolverOptions,
    /// `solver.guess`
    pub guess: FirstGuess,
}

/// `solver.guess`: where the iteration starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstGuess {
    /// Zeros.
    #[default]
    Zero,
    /// Uniform in (0, 1), from `problem.rhs.seed`: rough, so that no solution is found fast by luck (paper D).
    Random,
}

impl Case {
    /// Reads the case file and applies the overrides of the command line.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, has a key or value that is not known, of the wrong type
    /// or out of range; the message shows the line or the `--set` at fault.
    pub fn load(args: &CaseArgs) -> Result<Self> {
        let path = &args.case;
        let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            Failure::at(
                path,
                format!(
                    "byte {} is not UTF-8; a case file is TOML text (is this the right file?)",
                    error.utf8_error().valid_up_to()
                ),
            )
        })?;
        let mut overrides = args.set.clone();
        overrides.extend(args.precision.iter().map(|precision| format!("solver.precision={precision}")));
        Self::parse(path, &text, &overrides)
    }

    /// The same from text; relative paths in it are relative to `path`'s folder.
    ///
    /// # Errors
    /// Those of [`Case::load`].
    pub fn parse(path: &Path, text: &str, overrides: &[String]) -> Result<Self> {
        let name = path.display().to_string();
        let mut document = Document::parse(&name, text)?;
        for argument in overrides {
            document.set(argument)?;
        }
        for (key, node) in document.sections() {
            if !SECTIONS.contains(&key.get_ref().as_ref()) {
                let (message, help) = explain::unknown_key(key.get_ref(), &SECTIONS);
                return Err(document.failure(Some(key.span()), &message, help.as_deref()));
            }
            if !node.get_ref().is_table() {
                let message = format!("{key} must be a section, [{key}]", key = key.get_ref());
                return Err(document.failure(Some(node.span()), &message, None));
            }
        }

        let folder = path.parent().unwrap_or(Path::new(""));
        let problem = Problem::read(&document, folder)?;
        let (solver, guess) = read_solver(&document, &problem)?;
        Ok(Self { name, problem, solver, guess })
    }
}

/// `[solver]`, with the defaults of the problem.
fn read_solver(document: &Document<'_>, problem: &Problem) -> Result<(SolverOptions, FirstGuess)> {
    let mut solver: SolverOptions = document.read_without("solver", &["guess"])?;
    let guess = match document.get("solver.guess") {
        Some(_) => document.read("solver.guess")?,
        None => FirstGuess::default(),
    };
    if let Problem::Diffusion(_) = problem {
        if document.get("solver.method").is_none() {
            solver.method = Method::Cg;
        }
        if document.get("solver.preconditioner.kind").is_none() {
            solver.preconditioner.kind = PreconditionerKind::Multigrid;
        }
    }
    solver.validate().map_err(|error| at_key(document, error))?;
    Ok((solver, guess))
}

/// An error of the library, shown at the key that it names.
fn at_key(document: &Document<'_>, error: isobar::Error) -> Failure {
    match error {
        isobar::Error::Invalid { key, message } => document.failure_at_key(&key, &message),
        other => other.into(),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let message = match error.kind() {
        ErrorKind::NotFound => "no such file; give the path of a case file, such as cases/panel.toml".to_owned(),
        ErrorKind::IsADirectory => "a folder; give the path of a case file in it".to_owned(),
        ErrorKind::PermissionDenied => "permission denied; make it readable".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    Failure::at(path, message)
}

/// Every dotted key that a case may hold, for suggestions.
fn keys() -> Vec<String> {
    let mut found = Vec::new();
    flatten("problem", &problem::defaults(), &mut found);
    flatten("grid", &serde_json::json!(GridOptions::default()), &mut found);
    flatten("solver", &serde_json::json!(SolverOptions::default()), &mut found);
    found.push("solver.guess".to_owned());
    found.extend(diffusion::KEYS.map(str::to_owned));
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
