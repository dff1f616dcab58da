//! Temporary files and folders being written, listed so that a program that receives a signal can remove them.
//!
//! [`remove_all`] removes every temporary on the list and lets no new one be made. A lock that [`remove_all`] waits for is held while
//! a result is put in place and in every step that may make files inside a temporary folder, so that no such step is interrupted.
//!
//! A process that is killed without notice leaves its temporaries behind. The next process that makes a temporary in the same folder, on
//! the same machine, removes them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tempfile::{Builder, NamedTempFile, TempDir};

use crate::owner::Owner;

const PREFIX: &str = ".isobar-";
const SUFFIX: &str = ".tmp";
/// Prefix of a store that was moved aside for its replacement. No array's name begins with it.
const ASIDE: &str = "old~";

/// Removes every temporary file and folder of this process, `.isobar-*.tmp`. Outputs being written are lost, and their earlier
/// versions stay. For a program that is about to end because of a signal.
///
/// It locks, allocates and uses the disk, so it must not be called inside a signal handler, but from a thread that the handler
/// wakes. It waits for at most one chunk of a store. This process can write nothing afterwards.
pub fn remove_all() {
    LIST.remove_all();
}

/// The temporaries of this process.
static LIST: List = List::new();

/// The existing temporaries.
struct List(RwLock<Entries>);

struct Entries {
    paths: Vec<PathBuf>,
    /// Folders already cleared of leftovers of ended processes.
    swept: Vec<PathBuf>,
    closed: bool,
}

impl List {
    const fn new() -> Self {
        Self(RwLock::new(Entries { paths: Vec::new(), swept: Vec::new(), closed: false }))
    }

    // A panic elsewhere leaves the list valid.
    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_all(&self) {
        let mut entries = self.write();
        entries.closed = true;
        entries.paths.drain(..).for_each(|path| remove(&path));
    }

    /// Returns the prefix of this process's temporaries in a folder, after removing others' leftovers there.
    fn prefix(&self, folder: &Path) -> io::Result<String> {
        let Some(this) = Owner::this()? else { return Ok(PREFIX.to_owned()) };
        let is_new = !self.read().swept.iter().any(|swept| swept == folder);
        if is_new && sweep(folder, &this).is_ok() {
            self.write().swept.push(folder.to_path_buf());
        }
        Ok(format!("{PREFIX}{this}-"))
    }

    /// Makes a temporary with these permissions in a folder, and lists it.
    fn make<T>(
        &'static self,
        folder: &Path,
        mode: u32,
        make: impl FnOnce(&Builder<'_, '_>) -> io::Result<T>,
        path_of: impl FnOnce(&T) -> &Path,
    ) -> io::Result<(T, Entry)> {
        let prefix = self.prefix(folder)?;
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(SUFFIX);
        permissions(&mut builder, mode);
        let mut entries = self.write();
        entries.check_open()?;
        let made = make(&builder)?;
        let path = path_of(&made).to_path_buf();
        entries.paths.push(path.clone());
        Ok((made, Entry { list: self, path }))
    }
}

/// Removes leftovers of ended processes from a folder. A store that was moved aside for a replacement that never came is put back.
fn sweep(folder: &Path, this: &Owner) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().ends_with(SUFFIX.as_bytes())
            && Owner::of(&name, PREFIX).is_some_and(|owner| owner.is_gone(this))
        {
            let left = folder.join(name);
            if let Some((aside, target)) = aside_in(&left)
                && !folder.join(&target).exists()
            {
                fs::rename(aside, folder.join(target))?;
            }
            remove(&left);
        }
    }
    Ok(())
}

/// Finds a store moved aside into a temporary folder, and the name that it had.
fn aside_in(left: &Path) -> Option<(PathBuf, OsString)> {
    fs::read_dir(left).ok()?.find_map(|entry| {
        let entry = entry.ok()?;
        let target = entry.file_name().to_str()?.strip_prefix(ASIDE)?.into();
        Some((entry.path(), target))
    })
}

fn remove(path: &Path) {
    let _gone_or_not_ours_to_remove = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

impl Entries {
    fn forget(&mut self, path: &Path) {
        self.paths.retain(|listed| listed != path);
    }

    fn check_open(&self) -> io::Result<()> {
        if self.closed { Err(io::Error::other("the program is about to end")) } else { Ok(()) }
    }
}

/// An entry of the list.
struct Entry {
    list: &'static List,
    path: PathBuf,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.list.write().forget(&self.path);
    }
}

/// A file that is removed unless it is put in place.
pub(crate) struct TemporaryFile {
    // Dropped, and so removed, before its entry leaves the list.
    file: NamedTempFile,
    entry: Entry,
}

impl TemporaryFile {
    /// Makes a file in a folder, with the permissions of the user's umask.
    pub(crate) fn new_in(folder: &Path) -> io::Result<Self> {
        Self::on(&LIST, folder)
    }

    fn on(list: &'static List, folder: &Path) -> io::Result<Self> {
        let (file, entry) = list.make(folder, 0o666, |builder| builder.tempfile_in(folder), NamedTempFile::path)?;
        Ok(Self { file, entry })
    }

    pub(crate) fn as_file_mut(&mut self) -> &mut fs::File {
        self.file.as_file_mut()
    }

    /// Renames it to `target`, replacing an existing file.
    pub(crate) fn persist(self, target: &Path) -> io::Result<()> {
        let entries = self.entry.list.write();
        entries.check_open()?;
        self.file.persist(target).map(drop).map_err(|failed| failed.error)
    }
}

/// A folder that is removed with its content unless it is put in place.
pub(crate) struct TemporaryFolder {
    folder: TempDir,
    entry: Entry,
}

impl TemporaryFolder {
    /// Makes a folder in a folder, with the permissions of the user's umask.
    pub(crate) fn new_in(folder: &Path) -> io::Result<Self> {
        Self::on(&LIST, folder)
    }

    fn on(list: &'static List, folder: &Path) -> io::Result<Self> {
        let (folder, entry) = list.make(folder, 0o777, |builder| builder.tempdir_in(folder), TempDir::path)?;
        Ok(Self { folder, entry })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Renames it to `target`; an existing folder there must pass `check`, and is then removed.
    ///
    /// A folder cannot be renamed over a non-empty one, so the old one is first moved aside, and moved back if the rename fails.
    pub(crate) fn persist(self, target: &Path, check: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let old = Self::on(self.entry.list, folder(target))?;
        let mut aside = OsString::from(ASIDE);
        aside.push(target.file_name().unwrap_or_default());
        let aside = old.path().join(aside);
        // Released before the old folder is removed, which may take long.
        let mut entries = self.entry.list.write();
        entries.check_open()?;
        check()?;
        let had_old = target.exists();
        if had_old {
            fs::rename(target, &aside)?;
        }
        if let Err(error) = fs::rename(self.path(), target) {
            if had_old && fs::rename(&aside, target).is_err() {
                // A stray folder is better than a lost result.
                entries.forget(old.path());
                let _kept = old.folder.keep();
            }
            return Err(error);
        }
        // The temporary is now the target: its guard has nothing to remove.
        entries.forget(self.path());
        let _moved = self.folder.keep();
        Ok(())
    }
}

/// Gives results the permissions of the user's umask; temporary files are private by default.
#[cfg(unix)]
fn permissions(builder: &mut Builder<'_, '_>, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
fn permissions(_builder: &mut Builder<'_, '_>, _mode: u32) {}

/// Runs a step that makes files in a temporary folder; fails once the folder was removed.
pub(crate) fn step<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let entries = LIST.read();
    entries.check_open()?;
    act()
}

/// Returns the folder that holds `path`.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn list() -> &'static List {
        Box::leak(Box::new(List::new()))
    }

    fn is_empty(folder: &Path) -> bool {
        fs::read_dir(folder).unwrap().next().is_none()
    }

    #[test]
    fn all_go_and_none_come_after() {
        let (list, place) = (list(), tempfile::tempdir().unwrap());
        let mut file = TemporaryFile::on(list, place.path()).unwrap();
        file.as_file_mut().write_all(b"half").unwrap();
        let folder = TemporaryFolder::on(list, place.path()).unwrap();
        fs::write(folder.path().join("chunk"), b"half").unwrap();
        list.remove_all();
        assert!(is_empty(place.path()));
        let target = place.path().join("target");
        assert!(file.persist(&target).is_err());
        assert!(folder.persist(&target, || Ok(())).is_err());
        assert!(TemporaryFile::on(list, place.path()).is_err() && TemporaryFolder::on(list, place.path()).is_err());
        assert!(is_empty(place.path()));
    }

    #[test]
    fn what_is_in_its_place_stays() {
        let (list, place) = (list(), tempfile::tempdir().unwrap());
        let (file, store) = (place.path().join("file"), place.path().join("store"));
        TemporaryFile::on(list, place.path()).unwrap().persist(&file).unwrap();
        for _ in 0..2 {
            let folder = TemporaryFolder::on(list, place.path()).unwrap();
            fs::write(folder.path().join("chunk"), b"whole").unwrap();
            folder.persist(&store, || Ok(())).unwrap();
        }
        drop(TemporaryFolder::on(list, place.path()).unwrap());
        assert!(list.read().paths.is_empty());
        list.remove_all();
        assert!(file.is_file() && store.join("chunk").is_file());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }

    /// Returns a temporary name of a process that no longer exists.
    #[cfg(target_os = "linux")]
    fn left(place: &Path, name: &str) -> PathBuf {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let began = text.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
        child.wait().unwrap();
        let this = Owner::this().unwrap().unwrap().to_string();
        place.join(format!("{PREFIX}{}-{}-{began}-{name}{SUFFIX}", this.split('-').next().unwrap(), child.id()))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_killed_processes_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let (file, folder) = (left(place.path(), "file"), left(place.path(), "folder"));
        fs::write(&file, b"half").unwrap();
        fs::create_dir_all(folder.join("u/c/0/0")).unwrap();
        fs::write(folder.join("u/c/0/0/0"), b"half").unwrap();
        let others = [".isobar-a1B2c3.tmp", ".isobar-0-1-2-a1B2c3.tmp", "u.npy"].map(|name| place.path().join(name));
        others.iter().for_each(|other| fs::write(other, b"another's").unwrap());
        let live = TemporaryFolder::on(list(), place.path()).unwrap();
        drop(TemporaryFile::on(list(), place.path()).unwrap());
        assert!(!file.exists() && !folder.exists());
        assert!(live.path().exists() && others.iter().all(|other| other.exists()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_store_that_had_stepped_aside_comes_back() {
        let place = tempfile::tempdir().unwrap();
        let aside = left(place.path(), "aside");
        for (target, expected) in [("u.zarr", "old"), ("v.zarr", "new")] {
            let store = aside.join(format!("{ASIDE}{target}"));
            fs::create_dir_all(&store).unwrap();
            fs::write(store.join("chunk"), b"old").unwrap();
            if expected == "new" {
                fs::create_dir(place.path().join(target)).unwrap();
                fs::write(place.path().join(target).join("chunk"), b"new").unwrap();
            }
            drop(TemporaryFile::on(list(), place.path()).unwrap());
            assert!(!aside.exists());
            assert_eq!(fs::read_to_string(place.path().join(target).join("chunk")).unwrap(), expected);
        }
    }

    #[test]
    fn a_refused_folder_stays_as_it_was() {
        let (list, place) = (list(), tempfile::tempdir().unwrap());
        let store = place.path().join("store");
        fs::create_dir(&store).unwrap();
        let folder = TemporaryFolder::on(list, place.path()).unwrap();
        folder.persist(&store, || Err(io::Error::other("not ours"))).unwrap_err();
        assert!(is_empty(&store));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
