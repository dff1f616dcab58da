//! Errors of reading and writing files, with remedies.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The result of every function that reads or writes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of reading or writing a file. Every message names the file and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ending of an output file's name belongs to no format.
    #[error(
        "{path}: cannot tell the output format from this ending; use .npy (NumPy), .vti or .vtr (ParaView), or .zarr (xarray)"
    )]
    UnknownEnding {
        /// The output file, as the user wrote it.
        path: PathBuf,
    },
    /// Cells of different widths were to be written in a format of evenly spaced cells.
    #[error(
        "{path}: this format is for evenly spaced cells, and this grid's cells differ in width; use a name that ends in .vtr (ParaView)"
    )]
    Graded {
        /// The output file, as the user wrote it.
        path: PathBuf,
    },
    /// A folder is in the place of a file to be written.
    #[error("{path}: is a folder; name a file in it")]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The path of a file ends in a slash, or in no name.
    #[error("{path:?}: does not name a file; give a name without a slash at its end")]
    NotAFileName {
        /// The path, as the user wrote it.
        path: PathBuf,
    },
    /// A `.zarr` target exists, and replacing it would destroy data that isobar did not write.
    #[error("{path}: {found}, so it is not replaced; move it away or choose another name")]
    NotReplaceable {
        /// The file or folder in the way.
        path: PathBuf,
        /// The reason why it does not count as a store written by isobar.
        found: String,
    },
    /// The file or folder at the place of a series of frames cannot be continued.
    #[error("{path}: {found}, so this run cannot add its frames; move it away or choose another name")]
    NotContinuable {
        /// The series, as the user wrote it.
        path: PathBuf,
        /// The reason why it does not fit.
        found: String,
    },
    /// The operating system refused to write.
    #[error("{path}: cannot write: {}", write_remedy(source, folder))]
    Write {
        /// The file to be written; its earlier content is unchanged.
        path: PathBuf,
        /// The folder of the file, with links followed.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An input could not be opened or read.
    #[error("{path}: {}", read_remedy(source))]
    Read {
        /// The input file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An input is not a usable array, image or checkpoint: of another format, damaged, or of another dtype or order.
    #[error("{path}: {problem}")]
    Unusable {
        /// The input file.
        path: PathBuf,
        /// The problem and the remedy.
        problem: String,
    },
    /// Frames at several times were to be written in a format that holds one field.
    #[error("{path}: this format holds one field; for frames in time use .zarr (xarray), .vti or .vtr (ParaView)")]
    NoSeries {
        /// The output file, as the user wrote it.
        path: PathBuf,
    },
    /// Several arrays were to be written in a format that holds one.
    #[error("{path}: fluxes are three arrays and need a zarr store; use a name that ends in .zarr")]
    NotAStore {
        /// The output, as the user wrote it.
        path: PathBuf,
    },
    /// The shape of an input array differs from the grid's.
    #[error(
        "{path}: has shape {}, but the grid needs {} = {axes}{}",
        tuple(found),
        tuple(expected),
        shape_remedy(found, expected)
    )]
    Shape {
        /// The input file.
        path: PathBuf,
        /// The shape that was found.
        found: Vec<u64>,
        /// The expected shape.
        expected: Vec<u64>,
        /// The expected shape in letters, such as "(nz, ny, nx)".
        axes: &'static str,
    },
    /// An entry of an input array is infinite or NaN.
    #[error("{path}: a{index:?} is {value}; every entry must be finite (numpy.isfinite(a).all())")]
    NotFinite {
        /// The input file.
        path: PathBuf,
        /// The index of the entry, as in Python.
        index: Vec<usize>,
        /// The entry.
        value: f64,
    },
    /// Memory could not be allocated.
    #[error(
        "{what} needs {:.1} GiB, more memory than this machine has; choose a smaller grid",
        *bytes as f64 / f64::from(1 << 30)
    )]
    OutOfMemory {
        /// The array to be stored.
        what: String,
        /// The size in bytes.
        bytes: u64,
    },
    /// The name of a field is not allowed in a store.
    #[error("field {name:?}: a store cannot hold an array of this name; use another, such as u")]
    FieldName {
        /// The name.
        name: String,
    },
    /// An array of a field does not fit the field's shape: a mistake of the calling program.
    #[error("field {name:?}: {what} has {found} entries, but its shape (nz, ny, nx) needs {expected}")]
    Inconsistent {
        /// The field.
        name: String,
        /// The array.
        what: &'static str,
        /// The length of that array.
        found: usize,
        /// The length that fits the shape.
        expected: usize,
    },
}

/// Describes an operating system's error on writing, with its remedy.
fn write_remedy(source: &io::Error, place: &Path) -> String {
    let folder = place.display();
    match source.kind() {
        ErrorKind::StorageFull => "the disk is full; free some space or write to another disk".into(),
        ErrorKind::QuotaExceeded => "your disk quota is used up; delete something or write to another disk".into(),
        ErrorKind::FileTooLarge => {
            "the file would be larger than this disk or `ulimit -f` allows; write to another disk".into()
        }
        ErrorKind::PermissionDenied => format!(
            "permission denied; choose a folder that you may write to, or make {folder} and the file writable (chmod u+w)"
        ),
        ErrorKind::ReadOnlyFilesystem => format!("{folder} is on a read-only disk; choose another folder"),
        ErrorKind::NotFound if place == Path::new(".") => {
            "the working folder no longer exists; change to one that does".into()
        }
        ErrorKind::NotFound if place.is_dir() => format!("no file can be made in {folder}; choose another folder"),
        ErrorKind::NotFound => format!("the folder {folder} does not exist; create it first (mkdir -p {folder})"),
        ErrorKind::NotADirectory => format!("{folder} is not a folder; choose another place"),
        ErrorKind::InvalidFilename => "the file name is too long or not allowed; choose another".into(),
        ErrorKind::BrokenPipe => "the program reading from it has stopped".into(),
        _ => format!("{source}; check the disk or choose another place"),
    }
}

/// Describes an operating system's error on reading, with its remedy.
fn read_remedy(source: &io::Error) -> String {
    match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => "no such file; check the path".into(),
        ErrorKind::IsADirectory => "is a folder; name a file in it".into(),
        ErrorKind::PermissionDenied => "permission denied; make the file readable (chmod u+r)".into(),
        _ => format!("cannot read: {source}"),
    }
}

/// Formats a shape as Python does: (4, 8, 10).
fn tuple(shape: &[u64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => {
            let entries: Vec<_> = shape.iter().map(u64::to_string).collect();
            format!("({})", entries.join(", "))
        }
    }
}

/// Returns the step that most likely gives the expected shape.
fn shape_remedy(found: &[u64], expected: &[u64]) -> String {
    let size = |shape: &[u64]| shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n));
    // Leading axes of one cell may be missing.
    let (_, several) = expected.split_at(expected.iter().take_while(|&&n| n == 1).count());
    let is_reversed = |expected: &[u64]| found.len() > 1 && found.iter().eq(expected.iter().rev());
    if is_reversed(expected) || is_reversed(several) {
        "; the axes are reversed: save numpy.ascontiguousarray(a.transpose())".into()
    } else if found.len() != expected.len() && size(found) == size(expected) {
        format!("; if the values are in that order, save a.reshape{}", tuple(expected))
    } else {
        "; change the grid or the array".into()
    }
}

#[cfg(test)]
mod tests {
    use super::shape_remedy;

    #[test]
    fn transposed_arrays_are_recognised() {
        for (found, expected) in [(&[4, 3, 2][..], &[2, 3, 4][..]), (&[4, 3], &[1, 3, 4]), (&[4, 3, 1], &[1, 3, 4])] {
            assert!(shape_remedy(found, expected).contains("the axes are reversed"), "{found:?}");
        }
        assert!(shape_remedy(&[12], &[1, 3, 4]).contains("a.reshape(1, 3, 4)"));
        assert!(shape_remedy(&[4, 4], &[1, 3, 4]).contains("change the grid"));
    }
}
