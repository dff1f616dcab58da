//! Tests of the files left by successful and failed writes.

use super::*;

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn replace_folder(path: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let fresh = NewFolder::begin(path)?;
    fresh.fill(fill)?;
    fresh.finish(|_| Ok(()))
}

#[test]
fn replaces_the_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    write_whole(&path, b"a long first version").unwrap();
    write_whole(&path, b"short").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"short");
    assert_eq!(entries(folder.path()), ["report.json"]);
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    write_whole(&path, b"old").unwrap();
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let error = write_with(&path, |out| {
        out.write_all(&[0; 3 << 20])?;
        Err(full())
    })
    .unwrap_err();
    assert!(error.to_string().contains("the disk is full; free some space"), "{error}");
    assert!(error.to_string().contains("report.json"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(entries(folder.path()), ["report.json"]);
}

#[test]
fn names_the_missing_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs/7/report.json");
    for error in [write_whole(&path, b"").unwrap_err(), check(&path).unwrap_err()] {
        let message = error.to_string();
        assert!(message.contains("does not exist; create it first (mkdir -p "), "{message}");
        assert!(message.contains("runs/7"), "{message}");
    }
}

#[test]
fn refuses_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let error = write_whole(folder.path(), b"").unwrap_err();
    assert!(error.to_string().contains("is a folder; name a file"), "{error}");
}

#[test]
fn refuses_what_names_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["u.npy/", "u.npy/.", "u.npy//", ".."] {
        let path = folder.path().join(name);
        for error in [write_whole(&path, b"").unwrap_err(), check(&path).unwrap_err()] {
            let message = error.to_string();
            assert!(
                message.contains("does not name a file") || name == ".." && message.contains("is a folder"),
                "{message}"
            );
        }
    }
    assert!(write_whole(Path::new(""), b"").unwrap_err().to_string().contains("does not name a file"));
    assert!(entries(folder.path()).is_empty());
}

#[test]
fn a_file_is_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"").unwrap();
    let error = write_whole(&folder.path().join("file/report.json"), b"").unwrap_err();
    assert!(error.to_string().contains("is not a folder"), "{error}");
}

#[test]
fn the_check_leaves_nothing_behind_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    check(&path).unwrap();
    drop(NewFolder::begin(&path).unwrap());
    assert!(entries(folder.path()).is_empty());
    fs::write(&path, b"old").unwrap();
    check(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    let error = write_whole(Path::new("/dev/full"), &[0; 1 << 16]).unwrap_err();
    assert!(error.to_string().contains("/dev/full: cannot write: the disk is full"), "{error}");
    write_whole(Path::new("/dev/null"), b"gone").unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[cfg(unix)]
#[test]
fn a_link_survives_and_its_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.json"), folder.path().join("link.json"));
    std::os::unix::fs::symlink("file.json", &link).unwrap();
    write_whole(&link, b"first").unwrap();
    write_whole(&link, b"second").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"second");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[cfg(unix)]
#[test]
fn links_to_nothing() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    symlink("second", inside("first")).unwrap();
    symlink("file", inside("second")).unwrap();
    check(&inside("first")).unwrap();
    write_whole(&inside("first"), b"content").unwrap();
    assert_eq!(fs::read(inside("file")).unwrap(), b"content");
    assert!(fs::symlink_metadata(inside("second")).unwrap().is_symlink());

    symlink("no/such/file", inside("nowhere")).unwrap();
    for error in [check(&inside("nowhere")).unwrap_err(), write_whole(&inside("nowhere"), b"").unwrap_err()] {
        let message = error.to_string();
        assert!(message.contains("no/such does not exist"), "{message}");
    }
    symlink("circle", inside("circle")).unwrap();
    let message = write_whole(&inside("circle"), b"").unwrap_err().to_string();
    assert!(message.contains("lead back to themselves"), "{message}");
    assert!(fs::symlink_metadata(inside("circle")).unwrap().is_symlink());

    symlink("u.zarr.d", inside("u.zarr")).unwrap();
    let slash = folder.path().join("u.zarr/");
    replace_folder(&slash, |fresh| fs::write(fresh.join("a"), b"")).unwrap();
    assert!(inside("u.zarr.d/a").is_file() && fs::symlink_metadata(inside("u.zarr")).unwrap().is_symlink());
}

#[cfg(unix)]
#[test]
fn keeps_the_permissions_of_the_file_it_replaces() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    write_whole(&path, b"first").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let plain = folder.path().join("plain");
    fs::write(&plain, b"").unwrap();
    assert_eq!(mode(&path), mode(&plain), "no stricter than the umask asks for");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write_whole(&path, b"second").unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn a_folder_is_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    replace_folder(&path, |fresh| fs::write(fresh.join("first"), b"1")).unwrap();
    let failing = |fresh: &Path| {
        fs::write(fresh.join("half"), b"0")?;
        Err(io::Error::from(io::ErrorKind::StorageFull))
    };
    replace_folder(&path, failing).unwrap_err();
    assert_eq!(entries(&path), ["first"]);
    replace_folder(&path, |fresh| fs::write(fresh.join("second"), b"2")).unwrap();
    assert_eq!(entries(&path), ["second"]);
    assert_eq!(entries(folder.path()), ["u.zarr"]);
}
