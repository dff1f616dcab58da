//! `[problem.rhs]`: the right-hand side.

use std::ops::Range;
use std::path::{Path, PathBuf};

use isobar::Shape;
use isobar::problem::{self, Weighting};
use isobar_io::npy;
use serde::Deserialize;

use crate::{Document, Error, Result};

/// `[problem.rhs]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RhsSection {
    /// The kind of its entries; the default depends on the problem.
    pub kind: Option<RhsKind>,
    /// The seed of kind "random" and of a random first guess: equal seeds give equal numbers on every machine.
    pub seed: u64,
    /// Whether entries are values of f, to be integrated over cells, or entries of the vector b itself. The manufactured right-hand
    /// side of a Helmholtz problem is always integrated, because its solution would not be known otherwise.
    pub weighting: Weighting,
    /// The file of kind "file"; after reading, relative to the working directory.
    pub path: Option<PathBuf>,
}

/// `problem.rhs.kind`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RhsKind {
    /// f = 0: sides, sources and wells drive the solution.
    None,
    /// f = 1.
    Constant,
    /// Reproducible noise in [−1, 1).
    Random,
    /// A sum of two smooth functions of the relative position.
    Smooth,
    /// Computed from a known solution; for diffusion x = cos n in cell n, whatever sources and boundary values are.
    Manufactured,
    /// Read from an `.npy` file of shape (nz, ny, nx).
    File,
}

impl RhsKind {
    /// Returns its name in case files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Constant => "constant",
            Self::Random => "random",
            Self::Smooth => "smooth",
            Self::Manufactured => "manufactured",
            Self::File => "file",
        }
    }

    /// Returns the kind of f that is computed; nothing for f = 0 and for a file.
    pub(crate) fn computed(self) -> Option<problem::RhsKind> {
        match self {
            Self::None | Self::File => None,
            Self::Constant => Some(problem::RhsKind::Constant),
            Self::Random => Some(problem::RhsKind::Random),
            Self::Smooth => Some(problem::RhsKind::Smooth),
            Self::Manufactured => Some(problem::RhsKind::Manufactured),
        }
    }
}

impl RhsSection {
    /// Checks that the path is given exactly if the kind is "file", and makes it relative to a folder.
    pub(crate) fn complete(&mut self, document: &Document<'_>, folder: &Path) -> Result<()> {
        let from_file = self.kind == Some(RhsKind::File);
        match &mut self.path {
            Some(_) if !from_file && self.kind.is_none() => Err(document.failure_at_key(
                "problem.rhs.path",
                "is used only if problem.rhs.kind is \"file\"; set that, or remove this key",
            )),
            None if from_file => {
                let message = "\"file\" needs problem.rhs.path, an .npy file of shape (nz, ny, nx)";
                Err(document.failure_at_key("problem.rhs.kind", message))
            }
            Some(path) if from_file && path.as_os_str().is_empty() => {
                Err(document.failure_at_key("problem.rhs.path", "an empty path; name an .npy file"))
            }
            Some(path) => {
                *path = folder.join(&*path);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Describes the right-hand side of this kind for the summary.
    pub(crate) fn describe(&self, kind: RhsKind) -> String {
        match kind {
            RhsKind::None => "no body source".to_owned(),
            RhsKind::Constant => "constant right-hand side".to_owned(),
            RhsKind::Random => format!("random right-hand side (seed {})", self.seed),
            RhsKind::Smooth => "smooth right-hand side".to_owned(),
            RhsKind::Manufactured => "manufactured solution".to_owned(),
            RhsKind::File => format!("right-hand side from {}", self.path.as_deref().unwrap_or("".as_ref()).display()),
        }
    }

    /// Returns the right-hand side of this kind in some rows of the grid: as computed, or as made from values that are read.
    pub(crate) fn values(
        &self,
        kind: RhsKind,
        Shape { nx, ny, nz }: Shape,
        rows: &Range<usize>,
        computed: impl FnOnce(Option<problem::RhsKind>) -> isobar::Result<Vec<f64>>,
        from: impl FnOnce(Vec<f64>) -> isobar::Result<Vec<f64>>,
    ) -> Result<Vec<f64>> {
        if kind != RhsKind::File {
            return Ok(computed(kind.computed())?);
        }
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        let read = npy::read_rows(path, [nz, ny, nx], rows.clone());
        Ok(from(read.map_err(|error| Error::new(format!("problem.rhs.path: {error}")))?)?)
    }
}
