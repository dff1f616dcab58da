//! Detects outputs that would destroy other files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::atomic::{is_stream, resolve};
use crate::field::Format;
use crate::temporary::folder;

/// The way in which writing an output would destroy another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Both paths are the same file, possibly by another spelling or through links.
    Same,
    /// The output is a store, which is replaced as a whole, and the other file lies in it.
    Inside,
}

/// Returns how writing a result to `output` would destroy `other`, or `None` if it is safe. Neither needs to exist yet.
/// Devices and pipes, such as `/dev/null`, take any number of results and never clash.
pub fn clash(output: &Path, other: &Path) -> Option<Clash> {
    if is_stream(output) {
        return None;
    }
    let (Ok(target), Some(content)) = (resolve(output), real(other)) else {
        return (output == other).then_some(Clash::Same);
    };
    let target = named(&target)?;
    // A link inside a store is destroyed with the store, even if its target is not.
    let others = named(other).into_iter().chain([content.clone()]);
    if content == target {
        Some(Clash::Same)
    } else if matches!(Format::from_path(output), Ok(Format::Zarr))
        && others.into_iter().any(|other| other.starts_with(&target))
    {
        Some(Clash::Inside)
    } else {
        None
    }
}

/// Returns the path of the content, with all links followed.
fn real(path: &Path) -> Option<PathBuf> {
    named(&resolve(path).ok()?)
}

/// Returns the path of the name: links of its folder followed, a link at the end not.
fn named(path: &Path) -> Option<PathBuf> {
    let path: PathBuf = path.components().collect();
    match path.file_name() {
        Some(name) => Some(fs::canonicalize(folder(&path)).ok()?.join(name)),
        None => fs::canonicalize(path).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_and_links_lead_to_the_same_file() {
        let place = tempfile::tempdir().unwrap();
        let inside = |name: &str| place.path().join(name);
        fs::create_dir(inside("folder")).unwrap();
        for name in ["a.npy", "folder/a.npy"] {
            fs::write(inside(name), b"").unwrap();
        }
        let same = |a: &str, b: &str| clash(&inside(a), &inside(b)) == Some(Clash::Same);
        assert!(same("a.npy", "a.npy") && same("folder/../a.npy", "a.npy") && same("./a.npy", "folder//../a.npy"));
        assert!(same("new.npy", "folder/../new.npy"), "neither exists");
        assert!(!same("a.npy", "folder/a.npy") && !same("new.npy", "a.npy"));
        assert_eq!(clash(Path::new("no/such/a"), Path::new("no/such/a")), Some(Clash::Same));
        assert_eq!(clash(Path::new("/dev/null"), Path::new("/dev/null")), None);
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("folder", inside("link")).unwrap();
            symlink("../a.npy", inside("folder/up.npy")).unwrap();
            symlink("missing.npy", inside("dangling.npy")).unwrap();
            assert!(
                same("link/up.npy", "a.npy") && same("a.npy", "folder/up.npy") && same("link/a.npy", "folder/a.npy")
            );
            assert!(same("dangling.npy", "missing.npy") && same("missing.npy", "dangling.npy"));
            assert!(!same("dangling.npy", "a.npy"));
        }
    }

    #[test]
    fn stores_take_all_that_is_in_them() {
        let place = tempfile::tempdir().unwrap();
        let inside = |name: &str| place.path().join(name);
        fs::create_dir_all(inside("u.zarr/deep")).unwrap();
        fs::write(inside("k.npy"), b"").unwrap();
        let clash = |output: &str, other: &str| clash(&inside(output), &inside(other));
        assert_eq!(clash("u.zarr", "u.zarr/k.npy"), Some(Clash::Inside));
        assert_eq!(clash("u.zarr/", "u.zarr/deep/new.json"), Some(Clash::Inside));
        assert_eq!(clash("u.zarr", "u.zarr"), Some(Clash::Same));
        assert_eq!(clash("u.zarr", "u.zarr.npy"), None);
        assert_eq!(clash("u.npy", "u.npy/a"), None, "not a store");
        assert_eq!(clash("u.zarr/k.npy", "u.zarr"), None, "that way round it is safe");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("../k.npy", inside("u.zarr/link.npy")).unwrap();
            std::os::unix::fs::symlink("u.zarr", inside("v.zarr")).unwrap();
            assert_eq!(clash("u.zarr", "u.zarr/link.npy"), Some(Clash::Inside));
            assert_eq!(clash("v.zarr", "u.zarr/a"), Some(Clash::Inside));
            assert_eq!(clash("v.zarr", "k.npy"), None);
        }
    }
}
