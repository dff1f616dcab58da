//! Files that are there whole or not at all.
//!
//! A file is written beside its target under a temporary name, flushed to the disk and renamed.
//! Whatever fails, the temporary goes away and an earlier target stays as it was.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use crate::error::{Error, Result};

const PREFIX: &str = ".isobar-";
const SUFFIX: &str = ".tmp";

/// Writes `bytes` as the whole content of `path`.
///
/// # Errors
/// [`Error::Write`] or [`Error::IsFolder`]; `path` is then as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes the whole content of `path` through `fill`, without holding it in memory.
///
/// # Errors
/// Those of [`write_whole`], and those of `fill`.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    refuse_folder(path)?;
    let written = if is_stream(path) { write_stream(path, fill) } else { replace_file(path, fill) };
    written.map_err(|source| Error::write(path, source))
}

/// Whether a file could be written at `path` now. Leaves nothing behind.
///
/// # Errors
/// Those of [`write_whole`].
pub fn check(path: &Path) -> Result<()> {
    refuse_folder(path)?;
    if is_stream(path) {
        // Opening a pipe may wait for its reader, and a device shows its errors only when written to.
        return Ok(());
    }
    let probe = || -> io::Result<()> {
        let target = resolve(path)?;
        if target.exists() {
            OpenOptions::new().write(true).open(&target)?;
        }
        Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile_in(folder(&target))?;
        Ok(())
    };
    probe().map_err(|source| Error::write(path, source))
}

/// Whether a folder could be made beside `path` now. Leaves nothing behind.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    new_folder(path).map(drop).map_err(|source| Error::write(path, source))
}

/// Replaces the folder `path` by what `fill` puts into an empty one beside it.
///
/// The caller has made sure that an existing `path` is a folder that may go.
pub(crate) fn replace_folder(path: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let replace = || -> io::Result<()> {
        let target = resolve(path)?;
        let fresh = new_folder(&target)?;
        fill(fresh.path())?;
        sync_tree(fresh.path())?;
        // A folder cannot be renamed over one with content: the old one steps aside first, and
        // comes back should the new one not take its place.
        let old = new_folder(&target)?;
        let aside = old.path().join("old");
        let had_old = target.exists();
        if had_old {
            fs::rename(&target, &aside)?;
        }
        if let Err(error) = fs::rename(fresh.path(), &target) {
            if had_old && fs::rename(&aside, &target).is_err() {
                // Better a stray folder than a lost result.
                let _kept = old.keep();
            }
            return Err(error);
        }
        // The temporary is now the target: nothing is left for its guard to remove.
        let _moved = fresh.keep();
        sync_folder(folder(&target));
        Ok(())
    };
    replace().map_err(|source| Error::write(path, source))
}

/// The folder that holds `path`.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

fn refuse_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::IsFolder { path: path.to_path_buf() });
    }
    Ok(())
}

/// A device, a pipe or one of this process's own streams: written to directly, for a rename would
/// replace the name and not reach whoever listens.
fn is_stream(path: &Path) -> bool {
    let own = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    own.iter().any(|stream| path.starts_with(stream))
        || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn write_stream(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Appending keeps what `isobar … > log` has already put into a redirected standard output.
    let mut out = BufWriter::new(OpenOptions::new().append(true).open(path)?);
    fill(&mut out)?;
    out.flush()
}

fn replace_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = resolve(path)?;
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    permissions(&mut builder, 0o666);
    let mut fresh = builder.tempfile_in(folder(&target))?;
    let mut out = BufWriter::with_capacity(1 << 20, fresh.as_file_mut());
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    if let Ok(old) = fs::metadata(&target) {
        fresh.as_file().set_permissions(old.permissions())?;
    }
    fresh.as_file().sync_all()?;
    fresh.persist(&target).map_err(|failed| failed.error)?;
    sync_folder(folder(&target));
    Ok(())
}

/// Where the content goes: through a symbolic link to what it points at, so that the link survives.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(folder(path).join(fs::read_link(path)?)),
            resolved => resolved,
        }
    } else {
        Ok(path.to_path_buf())
    }
}

fn new_folder(target: &Path) -> io::Result<TempDir> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    permissions(&mut builder, 0o777);
    builder.tempdir_in(folder(target))
}

/// Temporary files are private by default; a result is as readable as the user's umask lets it be.
#[cfg(unix)]
fn permissions(builder: &mut Builder<'_, '_>, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
fn permissions(_builder: &mut Builder<'_, '_>, _mode: u32) {}

/// Flushes every file and folder under `root` to the disk.
fn sync_tree(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(root);
    Ok(())
}

/// Makes a rename last through a power cut, where the file system can: the content is safe by
/// then, so a refusal is no failure.
fn sync_folder(folder: &Path) {
    if let Ok(open) = File::open(folder) {
        let _unsupported_on_some_disks = open.sync_all();
    }
}

#[cfg(test)]
mod tests;
