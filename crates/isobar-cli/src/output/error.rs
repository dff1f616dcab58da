//! What can go wrong between a field and the disk, in words that say what to do about it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file could not be read, written or drawn. Every message names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The ending of an output file names no format.
    #[error(
        "{path}: cannot tell the output format from this ending; use .npy (NumPy), .vti (ParaView) or .zarr (xarray)"
    )]
    UnknownEnding {
        /// The output file as the user wrote it.
        path: PathBuf,
    },
    /// The plot is not called `.png`.
    #[error("{path}: the plot is a PNG image; give it a name that ends in .png")]
    NotPng {
        /// The plot file as the user wrote it.
        path: PathBuf,
    },
    /// A file is wanted where a folder is.
    #[error("{path}: is a folder; name a file, for example {example}")]
    IsFolder {
        /// The folder.
        path: PathBuf,
        /// A file name in that folder.
        example: PathBuf,
    },
    /// A `.zarr` target exists and replacing it would destroy something else.
    #[error("{path}: exists and is not a zarr store, so it is not replaced; move it away or choose another name")]
    NotZarr {
        /// The file or folder in the way.
        path: PathBuf,
    },
    /// The operating system refused to write.
    #[error("{path}: cannot write: {reason}")]
    Write {
        /// The file that was to be written; what stood there before is untouched.
        path: PathBuf,
        /// Cause and remedy.
        reason: Reason,
    },
    /// A field handed in does not fit its own shape. A mistake of the caller, not of the user.
    #[error("field {name}: {what} has {found} entries, its shape (nz, ny, nx) wants {expected}")]
    Inconsistent {
        /// The field.
        name: String,
        /// Which of its arrays.
        what: &'static str,
        /// The length of that array.
        found: usize,
        /// The length that fits the shape.
        expected: usize,
    },
    /// The picture could not be drawn.
    #[error("{path}: cannot draw the plot: {reason}")]
    Draw {
        /// The plot file.
        path: PathBuf,
        /// What the drawing library says.
        reason: String,
    },
    /// An input array could not be read.
    #[error("{path}: {reason}")]
    Npy {
        /// The input file.
        path: PathBuf,
        /// What is wrong with it.
        reason: NpyError,
    },
}

impl OutputError {
    /// A failed write to `path`.
    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        let reason = Reason { source, folder: super::atomic::folder(path).to_path_buf() };
        OutputError::Write { path: path.to_path_buf(), reason }
    }
}

/// An operating-system error with its remedy.
#[derive(Debug)]
pub(crate) struct Reason {
    source: io::Error,
    folder: PathBuf,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.display();
        match self.source.kind() {
            ErrorKind::StorageFull => f.write_str("the disk is full; free some space or write to another disk"),
            ErrorKind::QuotaExceeded => {
                f.write_str("your disk quota is used up; delete something or write to another disk")
            }
            ErrorKind::FileTooLarge => {
                f.write_str("the file would be larger than this disk or `ulimit -f` allows; write to another disk")
            }
            ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "permission denied; choose a folder that you may write to, or make {folder} and the file writable (chmod u+w)"
                )
            }
            ErrorKind::ReadOnlyFilesystem => {
                write!(f, "{folder} is on a read-only disk; choose another folder")
            }
            ErrorKind::NotFound => {
                write!(f, "the folder {folder} does not exist; create it first (mkdir -p {folder})")
            }
            ErrorKind::NotADirectory => {
                write!(f, "{folder} is not a folder; choose another place")
            }
            ErrorKind::InvalidFilename => f.write_str("the file name is too long or not allowed; choose another"),
            ErrorKind::BrokenPipe => f.write_str("the program reading from it has stopped"),
            _ => write!(f, "{}; check the disk or choose another place", self.source),
        }
    }
}

/// What is wrong with an input `.npy` file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NpyError {
    #[error("no such file; check the path")]
    Missing,
    #[error("is a folder; name the .npy file in it")]
    Folder,
    #[error("is not a regular file; save the array to a .npy file with numpy.save")]
    Special,
    #[error("permission denied; make the file readable (chmod u+r)")]
    Permission,
    #[error("cannot read: {0}")]
    Io(io::Error),
    #[error("is not a .npy file (it does not start with \\x93NUMPY); save the array with numpy.save")]
    NotNpy,
    #[error("is a .npz archive; save the one array in it with numpy.save")]
    Npz,
    #[error("has the unknown .npy version {major}.{minor}; save the array again with numpy.save")]
    Version { major: u8, minor: u8 },
    #[error("has a damaged .npy header ({0}); save the array again with numpy.save")]
    Header(String),
    #[error(
        "has dtype {0}, a real number (float64, float32, an integer or bool) is expected; convert with a.astype(\"float64\")"
    )]
    Dtype(String),
    #[error("has shape {}, the grid wants {} = {axes}{}", tuple(found), tuple(expected), shape_remedy(found, expected))]
    Shape { found: Vec<u64>, expected: Vec<u64>, axes: &'static str },
    #[error(
        "is stored in Fortran (column-major) order; save numpy.ascontiguousarray(a), which keeps the shape and writes C order"
    )]
    FortranOrder,
    #[error("is cut short: its header promises {expected} bytes of data, {found} are there; copy or save it again")]
    Truncated { found: u64, expected: u64 },
    #[error("has {0} bytes after its array; save the array again with numpy.save, one array a file")]
    Trailing(u64),
    #[error("a{index:?} is {value}; every entry must be finite (numpy.isfinite(a).all())")]
    NotFinite { index: Vec<usize>, value: f64 },
    #[error("holds {0} values, more than this machine's memory can take; choose a smaller grid")]
    Memory(usize),
}

/// (4, 8, 10), as Python prints it.
fn tuple(shape: &[u64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => {
            let entries: Vec<_> = shape.iter().map(u64::to_string).collect();
            format!("({})", entries.join(", "))
        }
    }
}

/// The step that most likely gives the expected shape.
fn shape_remedy(found: &[u64], expected: &[u64]) -> String {
    let size = |shape: &[u64]| shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n));
    if found.len() > 1 && found.iter().eq(expected.iter().rev()) {
        "; the axes are reversed: save numpy.ascontiguousarray(a.transpose())".into()
    } else if found.len() != expected.len() && size(found) == size(expected) {
        format!("; if the values are in that order, save a.reshape{}", tuple(expected))
    } else {
        "; change the grid or the array".into()
    }
}
