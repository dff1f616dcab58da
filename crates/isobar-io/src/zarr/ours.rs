//! Recognises stores that isobar wrote itself and may therefore replace.
//!
//! The root, written last, carries two attributes: the names of the arrays, and a checksum of their metadata.
//! A store that another program copied from one of isobar's has both attributes but other metadata; a store changed in place
//! has files younger than its root. A run that was killed may leave a frame, or the length of an array in time, that its root does
//! not have yet.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::hash;

/// The dimension along which frames are added.
pub(super) const TIME: &str = "time";

/// Coordinates written with every field.
pub(super) const COORDINATES: [&str; 7] = [TIME, "x", "y", "z", "x_faces", "y_faces", "z_faces"];

/// The attribute with the names of the arrays, which may be replaced.
pub(super) const NAMES: &str = "isobar_variables";
/// The attribute with the checksum.
const CHECKSUM: &str = "isobar_checksum";
/// Longest root of a store written by isobar. B
const LONGEST_ROOT: u64 = 1 << 20;
const OTHERS: &str = "is a zarr store that isobar did not write";

/// Returns the attributes that mark a folder with these arrays as a store written by isobar.
pub(super) fn mark(store: &Path, names: &[&str]) -> io::Result<Map<String, Value>> {
    let names_value = names.iter().copied().map(Value::from).collect();
    let checksum = Value::from(format!("{:016x}", checksum(store, names)?));
    Ok(Map::from_iter([(NAMES.to_owned(), names_value), (CHECKSUM.to_owned(), checksum)]))
}

/// Returns why `path` must not be replaced, or `None` if it may.
pub(super) fn obstacle(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_symlink() && !path.exists() {
        return None;
    }
    if !path.is_dir() {
        return Some("exists and is not a zarr store".to_owned());
    }
    match fs::read_dir(path).map(|mut entries| entries.next()) {
        Ok(None) => return None,
        Ok(Some(_)) => {}
        Err(error) => return Some(format!("is a folder that cannot be read ({error})")),
    }
    let Some((root, written)) = read_root(path) else {
        let store = ["zarr.json", ".zgroup", ".zarray"].iter().any(|mark| path.join(mark).exists());
        return Some(if store { OTHERS } else { "is a folder and not a zarr store" }.to_owned());
    };
    let attributes = &root["attributes"];
    let Some(names) = attributes[NAMES].as_array() else {
        return Some(OTHERS.to_owned());
    };
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let frames = root["consolidated_metadata"]["metadata"][TIME]["shape"][0].as_u64();
    match first_odd(path, &names, written, frames) {
        None => {}
        Some((entry, Odd::Foreign)) => {
            let entry = entry.display();
            return Some(format!(
                "is a zarr store written by isobar that also holds {entry}, which isobar did not write"
            ));
        }
        Some((entry, Odd::Younger)) => {
            let entry = entry.display();
            return Some(format!("is a zarr store written by isobar, but {entry} was changed afterwards"));
        }
    }
    let found = checksum(path, &names).map(|found| format!("{found:016x}")).unwrap_or_default();
    (attributes[CHECKSUM].as_str() != Some(found.as_str())).then(|| OTHERS.to_owned())
}

/// Returns the root's metadata and the time when it was written.
fn read_root(store: &Path) -> Option<(Value, SystemTime)> {
    let path = store.join("zarr.json");
    let found = fs::symlink_metadata(&path).ok().filter(|found| found.is_file() && found.len() < LONGEST_ROOT)?;
    Some((serde_json::from_slice(&fs::read(path).ok()?).ok()?, found.modified().ok()?))
}

/// The reason why an entry of a store cannot be isobar's.
enum Odd {
    /// The entry is not part of the named arrays.
    Foreign,
    /// The entry was written after the root.
    Younger,
}

/// Returns the first unexpected entry of a store with this number of frames, if it has any, relative to the store.
fn first_odd(store: &Path, names: &[&str], written: SystemTime, frames: Option<u64>) -> Option<(PathBuf, Odd)> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        // An unreadable folder is treated as foreign.
        let Ok(entries) = fs::read_dir(store.join(&folder)) else { return Some((folder, Odd::Foreign)) };
        for entry in entries {
            let Ok(entry) = entry else { return Some((folder, Odd::Foreign)) };
            let path = folder.join(entry.file_name());
            // The link itself, not its target.
            let Some(found) = entry.metadata().ok().filter(|found| is_part(&path, found, names)) else {
                return Some((path, Odd::Foreign));
            };
            if found.is_dir() {
                folders.push(path);
            } else if found.modified().is_ok_and(|time| time > written)
                && !frames.is_some_and(|frames| is_of_next_frame(&path, frames))
            {
                return Some((path, Odd::Younger));
            }
        }
    }
    None
}

/// Returns whether an entry is `zarr.json`, `NAME/zarr.json`, a chunk such as `NAME/c/0/0/0`, or a folder of these.
fn is_part(path: &Path, found: &Metadata, names: &[&str]) -> bool {
    let parts: Option<Vec<&str>> = path.iter().map(OsStr::to_str).collect();
    let number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_deref() {
        Some(["zarr.json"] | [_, "zarr.json"]) => found.is_file(),
        Some([name]) => found.is_dir() && names.contains(name),
        Some([_, "c"]) => found.is_dir(),
        Some([name, "c", chunk @ ..]) => {
            // Time, z, y, x; a coordinate has one dimension.
            let most = if COORDINATES.contains(name) { 1 } else { 4 };
            chunk.len() <= most && chunk.iter().all(number) && (found.is_file() || found.is_dir())
        }
        _ => false,
    }
}

/// Returns whether a file of a store with this number of frames is one that the next frame writes before the root. Metadata have a
/// checksum.
fn is_of_next_frame(path: &Path, frames: u64) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
    match parts[..] {
        [TIME, ..] | [_, "zarr.json"] => true,
        [_, "c", frame, ..] => frame.parse().is_ok_and(|frame: u64| frame >= frames),
        _ => false,
    }
}

/// Returns the hash of the arrays' names and metadata, but of the number of frames. It does not protect against forgery.
fn checksum(store: &Path, names: &[&str]) -> io::Result<u64> {
    let mut all = Vec::new();
    for name in names {
        let mut metadata = fs::read(store.join(name).join("zarr.json"))?;
        let mut array: Value = serde_json::from_slice(&metadata)?;
        if array["dimension_names"][0] == TIME {
            array["shape"][0] = Value::Null;
            metadata = serde_json::to_vec_pretty(&array)?;
        }
        all.extend(name.bytes().chain([0]).chain(metadata));
    }
    Ok(hash::of_bytes(&all))
}
