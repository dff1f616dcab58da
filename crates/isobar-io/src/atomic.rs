//! Files that appear complete or not at all.
//!
//! A file is written next to its target under a temporary name, flushed to the disk and renamed.
//! After any failure the temporary file is removed and an earlier target is unchanged. Only a process that is killed without
//! notice (SIGKILL, a power cut) leaves its temporary behind, `.isobar-*.tmp`. On Linux, the next isobar process on the same machine that
//! writes to that folder removes it. Temporaries of another machine, or from before a reboot, can be deleted by hand.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::temporary::{TemporaryFile, TemporaryFolder, folder};

/// Longest chain of symbolic links that is followed, as in the Linux kernel; a longer one is treated as a loop.
const MOST_LINKS: usize = 40;

/// Writes `bytes` as the whole content of `path`.
///
/// # Errors
/// [`Error::Write`] or [`Error::IsFolder`]; `path` is then unchanged.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Writes the whole content of `path` through `fill`, without holding it in memory.
///
/// # Errors
/// The errors of [`write_whole`] and of `fill`.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    refuse_folder(path)?;
    let target = resolve(path)?;
    let written = if is_stream(path) { write_stream(path, fill) } else { replace_file(&target, fill) };
    written.map_err(|source| failed(path, &target, source))
}

/// Checks that a file could be written at `path` now. Leaves nothing behind.
pub fn check(path: &Path) -> Result<()> {
    refuse_folder(path)?;
    if is_stream(path) {
        // Opening a pipe may wait for its reader, and a device reports errors only on writing.
        return Ok(());
    }
    let target = resolve(path)?;
    let probe = || -> io::Result<()> {
        match fs::metadata(&target) {
            Ok(_) => drop(OpenOptions::new().write(true).open(&target)?),
            // A name that is too long, for example.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        TemporaryFile::new_in(folder(&target)).map(drop)
    };
    probe().map_err(|source| failed(path, &target, source))
}

/// A folder made next to its final place; removed if it is dropped before it is put there.
pub(crate) struct NewFolder {
    path: PathBuf,
    target: PathBuf,
    folder: TemporaryFolder,
}

impl NewFolder {
    pub(crate) fn begin(path: &Path) -> Result<Self> {
        let target = resolve(path)?;
        let folder = TemporaryFolder::new_in(folder(&target)).map_err(|source| failed(path, &target, source))?;
        Ok(Self { path: path.to_path_buf(), target, folder })
    }

    /// Returns where the folder is until it is put in its place.
    pub(crate) fn now_at(&self) -> &Path {
        self.folder.path()
    }

    /// Writes into the folder, whose present path `write` is given.
    pub(crate) fn fill(&self, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
        write(self.now_at()).map_err(|source| failed(&self.path, &self.target, source))
    }

    /// Puts the folder in its place. `check` decides, just before, whether one that exists there may be replaced.
    pub(crate) fn finish(self, check: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.fill(sync_tree)?;
        let Self { path, target, folder: fresh } = self;
        let mut refusal = None;
        let replaced = fresh.persist(&target, || {
            check(&path).map_err(|error| {
                refusal = Some(error);
                io::Error::other("not replaceable")
            })
        });
        match refusal {
            Some(error) => return Err(error),
            None => replaced.map_err(|source| failed(&path, &target, source))?,
        }
        sync_folder(folder(&target));
        Ok(())
    }
}

pub(crate) fn failed(path: &Path, target: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_path_buf(), folder: folder(target).to_path_buf(), source }
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

/// Returns whether `path` is a device, a pipe or one of this process's own streams. These are written to directly: a rename would
/// replace the name and the reader would get nothing.
pub(crate) fn is_stream(path: &Path) -> bool {
    let own = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    own.iter().any(|stream| path.starts_with(stream))
        || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn write_stream(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Appending keeps what a redirected standard output (`isobar … > log`) holds already.
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

/// Follows symbolic links to the file that holds the content, so that the links survive. The last link may point at
/// a file that does not exist yet.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    // Without a trailing slash, which would hide a link.
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

/// Makes a rename survive a power cut, where the file system can. The content is on the disk by then, so a refusal is ignored.
fn sync_folder(folder: &Path) {
    if let Ok(open) = File::open(folder) {
        let _unsupported_on_some_disks = open.sync_all();
    }
}

#[cfg(test)]
mod tests;
