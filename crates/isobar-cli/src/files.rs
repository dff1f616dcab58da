//! Everything a command is to write is looked at before the work: a run of an hour must not end
//! with "no such folder".

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// A file to be written, and the option that asked for it.
pub type Target<'a> = (&'static str, Option<&'a Path>);

/// Checks that every target can be written, that no two are the same file, and that none is an input.
///
/// # Errors
/// The first target that could not be written, with the remedy.
pub fn check(targets: &[Target<'_>], inputs: &[&Path]) -> Result<()> {
    let wanted: Vec<(&str, &Path)> = targets.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (n, &(option, path)) in wanted.iter().enumerate() {
        if inputs.iter().any(|input| same_file(input, path)) {
            return Err(Failure::new(format!(
                "{option} {}: would overwrite an input of this run; choose another name",
                path.display()
            )));
        }
        if let Some((other, _)) = wanted[..n].iter().find(|(_, earlier)| same_file(earlier, path)) {
            return Err(Failure::new(format!(
                "{option} {}: {other} writes to the same file; choose another name",
                path.display()
            )));
        }
        isobar_io::check_writable(path).map_err(|error| Failure::new(format!("{option} {error}")))?;
    }
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (real(a), real(b)) {
        // Two things may well go to /dev/null.
        (Some(a), Some(b)) => a == b && (a.is_file() || a.is_dir() || !a.exists()),
        _ => a == b,
    }
}

/// The path without links; of a file that does not exist yet, that of its folder with the name.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    })
}
