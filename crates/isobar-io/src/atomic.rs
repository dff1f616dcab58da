//! Files that are there whole or not at all.
//!
//! A file is written beside its target under a temporary name, flushed to the disk and renamed.
//! Whatever fails, the temporary goes away and an earlier target stays as it was. Only a process that is killed without
//! notice (SIGKILL, a power cut) leaves one, `.isobar-*.tmp`, which the next that writes to the same folder removes, on Linux and on
//! the same machine; what is left of another machine, or of a time before the machine was started again, can be deleted.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::temporary::{TemporaryFile, TemporaryFolder};

/// A chain of links longer than this is taken for a circle, as the system takes it.
const MOST_LINKS: usize = 40;

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
    let target = resolve(path)?;
    let written = if is_stream(path) { write_stream(path, fill) } else { replace_file(&target, fill) };
    written.map_err(|source| failed(path, &target, source))
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
    let target = resolve(path)?;
    let probe = || -> io::Result<()> {
        if target.exists() {
            OpenOptions::new().write(true).open(&target)?;
        }
        TemporaryFile::new_in(folder(&target)).map(drop)
    };
    probe().map_err(|source| failed(path, &target, source))
}

/// Whether a folder could be made beside `path` now. Leaves nothing behind.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    let target = resolve(path)?;
    TemporaryFolder::new_in(folder(&target)).map(drop).map_err(|source| failed(path, &target, source))
}

/// Replaces the folder `path` by what `fill` puts into an empty one beside it.
///
/// An existing `path` is replaced if it passes `check`, which is asked in the last moment.
pub(crate) fn replace_folder(
    path: &Path,
    check: impl FnOnce() -> io::Result<()>,
    fill: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<()> {
    let target = resolve(path)?;
    let replace = || -> io::Result<()> {
        let fresh = TemporaryFolder::new_in(folder(&target))?;
        fill(fresh.path())?;
        sync_tree(fresh.path())?;
        fresh.persist(&target, check)?;
        sync_folder(folder(&target));
        Ok(())
    };
    replace().map_err(|source| failed(path, &target, source))
}

pub(crate) fn failed(path: &Path, target: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_path_buf(), folder: folder(target).to_path_buf(), source }
}

/// The folder that holds `path`.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

fn refuse_folder(path: &Path) -> Result<()> {
    let ends_as_folder = [&b"/"[..], b"/."].iter().any(|end| path.as_os_str().as_encoded_bytes().ends_with(end));
    if path.is_dir() {
        Err(Error::IsFolder { path: path.to_path_buf() })
    } else if ends_as_folder || path.file_name().is_none() {
        Err(Error::NotAFileName { path: path.to_path_buf() })
    } else {
        Ok(())
    }
}

/// A device, a pipe or one of this process's own streams: written to directly, for a rename would
/// replace the name and not reach whoever listens.
pub(crate) fn is_stream(path: &Path) -> bool {
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

fn replace_file(target: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut fresh = TemporaryFile::new_in(folder(target))?;
    let file = fresh.as_file_mut();
    let mut out = BufWriter::with_capacity(1 << 20, &mut *file);
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    if let Ok(old) = fs::metadata(target) {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    fresh.persist(target)?;
    sync_folder(folder(target));
    Ok(())
}

/// Where the content goes: through symbolic links to what they point at, so that the links survive. The last of them
/// may point at nothing yet.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    // Without a slash at the end, which would hide a link.
    let mut target: PathBuf = path.components().collect();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target.set_file_name(next),
            Err(_) => return Ok(target),
        }
    }
    Err(failed(path, path, io::Error::other("its symbolic links lead back to themselves")))
}

/// Flushes every file and folder under `root` to the disk.
pub(crate) fn sync_tree(root: &Path) -> io::Result<()> {
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
pub(crate) fn sync_folder(folder: &Path) {
    if let Ok(open) = File::open(folder) {
        let _unsupported_on_some_disks = open.sync_all();
    }
}

#[cfg(test)]
mod tests;
