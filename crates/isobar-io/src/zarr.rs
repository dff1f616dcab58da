//! A zarr version 3 group (`.zarr`), which xarray opens as a dataset.
//!
//! The field is an array over the dimensions (z, y, x); `x`, `y` and `z` are coordinates, and
//! `z_faces` holds the heights between and around the levels.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use zarrs::array::{Array, ArrayBuilder, ArrayError, data_type};
use zarrs::filesystem::FilesystemStore;
use zarrs::group::GroupBuilder;
use zarrs::metadata::NodeMetadata;
use zarrs::metadata_ext::group::consolidated_metadata::ConsolidatedMetadata;
use zarrs::storage::StorageError;

use crate::atomic;
use crate::error::{Error, Result};
use crate::field::{Field, Units};
use crate::temporary::step;

/// A chunk of the field stays below this, so that a reader can take a level without the rest. B
const CHUNK_BYTES: usize = 16 << 20;

/// The attribute of the root that says which arrays isobar put into a store, and so what may go with it.
const MARK: &str = "isobar_variables";
/// Coordinates that go with every field.
const COORDINATES: [&str; 4] = ["x", "y", "z", "z_faces"];

/// Checks that `path` is free, an empty folder, or a store that isobar wrote and that holds nothing else, and that its
/// folder can be written to.
pub(crate) fn check(path: &Path) -> Result<()> {
    check_replaceable(path)?;
    atomic::check_folder(path)
}

/// Writes a field as a zarr group; an earlier one of isobar's is replaced.
pub(crate) fn write(path: &Path, field: &Field<'_>) -> Result<()> {
    let simple = |c: char| c.is_alphanumeric() || "_-+. ".contains(c);
    let name = field.name;
    if name.trim_matches('.').is_empty()
        || name.starts_with("__")
        || !name.chars().all(simple)
        || COORDINATES.contains(&name)
    {
        return Err(Error::FieldName { name: name.to_owned() });
    }
    check(path)?;
    let mut refusal = None;
    let written = atomic::replace_folder(
        path,
        // Something may have been put there while the new one was written.
        || {
            check_replaceable(path).map_err(|error| {
                refusal = Some(error);
                io::Error::other("not replaceable")
            })
        },
        |folder| fill(folder, field),
    );
    refusal.map_or(written, Err)
}

fn check_replaceable(path: &Path) -> Result<()> {
    match obstacle(path) {
        None => Ok(()),
        Some(found) => Err(Error::NotReplaceable { path: path.to_path_buf(), found }),
    }
}

/// Why what is at `path` must stay.
fn obstacle(path: &Path) -> Option<String> {
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
    let root = path.join("zarr.json");
    let marked = fs::symlink_metadata(&root).is_ok_and(|found| found.is_file() && found.len() < LONGEST_ROOT);
    let root =
        marked.then(|| fs::read(root).ok()).flatten().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let Some(root) = root else {
        return Some(if is_store(path) { OTHERS.to_owned() } else { "is a folder and not a zarr store".to_owned() });
    };
    let Some(names) = root["attributes"][MARK].as_array() else {
        return Some(OTHERS.to_owned());
    };
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let foreign = first_foreign(path, &names)?;
    Some(format!("is a zarr store of isobar's that also holds {}, which isobar did not write", foreign.display()))
}

/// A root longer than this is none of ours. B
const LONGEST_ROOT: u64 = 1 << 20;
const OTHERS: &str = "is a zarr store that isobar did not write";

/// Whether a folder has the marks of a zarr store of either version.
fn is_store(path: &Path) -> bool {
    ["zarr.json", ".zgroup", ".zarray"].iter().any(|mark| path.join(mark).exists())
}

/// The first entry of a store, relative to it, that is not part of one of the named arrays.
fn first_foreign(store: &Path, names: &[&str]) -> Option<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        // What cannot be looked at is not known to be ours.
        let Ok(entries) = fs::read_dir(store.join(&folder)) else { return Some(folder) };
        for entry in entries {
            let Ok(entry) = entry else { return Some(folder) };
            let path = folder.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { return Some(path) };
            if !is_part(&path, kind.is_dir(), kind.is_file(), names) {
                return Some(path);
            }
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    None
}

/// Whether an entry is `zarr.json`, `NAME/zarr.json`, or a chunk such as `NAME/c/0/0/0`, or a folder of these.
fn is_part(path: &Path, is_folder: bool, is_file: bool, names: &[&str]) -> bool {
    let parts: Option<Vec<&str>> = path.iter().map(std::ffi::OsStr::to_str).collect();
    let number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_deref() {
        Some(["zarr.json"]) => is_file,
        Some([name]) => is_folder && names.contains(name),
        Some([_, "zarr.json"]) => is_file,
        Some([_, "c"]) => is_folder,
        Some([_, "c", chunk @ ..]) => chunk.len() <= 3 && chunk.iter().all(number) && (is_file || is_folder),
        _ => false,
    }
}

fn fill(folder: &Path, field: &Field<'_>) -> io::Result<()> {
    let store = Arc::new(FilesystemStore::new(folder).map_err(io::Error::other)?);
    let [nz, ny, nx] = field.shape;
    let levels = (CHUNK_BYTES / (size_of::<f64>() * ny * nx)).clamp(1, nz);
    let [x, y, z] = &field.mesh.centres;
    let (across, up) = match field.mesh.units {
        Units::Atmosphere => (Some("1"), Some("m")),
        Units::Unspecified => (None, None),
    };
    let variables = [
        Variable::coordinate("x", x, across, "x of the cell centres"),
        Variable::coordinate("y", y, across, "y of the cell centres"),
        Variable::coordinate("z", z, up, "height of the cell centres"),
        Variable::coordinate("z_faces", &field.mesh.faces[2], up, "height of the level boundaries"),
        Variable {
            name: field.name,
            dimensions: vec![("z", nz, levels), ("y", ny, ny), ("x", nx, nx)],
            values: field.values,
            attributes: Map::new(),
        },
    ];
    let mut consolidated = ConsolidatedMetadata::default();
    for variable in variables {
        let name = variable.name.to_owned();
        let array = variable.store(&store)?;
        consolidated.metadata.insert(name, NodeMetadata::Array(array.metadata().clone()));
    }
    let mut group = GroupBuilder::new().build(store, "/").map_err(io::Error::other)?;
    let attributes = group.attributes_mut();
    attributes.extend(field.attributes.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    attributes.insert(MARK.to_owned(), COORDINATES.into_iter().chain([field.name]).map(Value::from).collect());
    // Copies of the arrays' metadata in one file: a reader then opens one file, not six.
    group.set_consolidated_metadata(Some(consolidated));
    step(|| group.store_metadata().map_err(io_error))
}

/// An array of the group.
struct Variable<'a> {
    name: &'a str,
    /// Name, length and chunk length. Chunks are whole but in the first direction, so that the
    /// values of one are neighbours.
    dimensions: Vec<(&'static str, usize, usize)>,
    values: &'a [f64],
    attributes: Map<String, Value>,
}

impl<'a> Variable<'a> {
    fn coordinate(name: &'static str, values: &'a [f64], units: Option<&str>, meaning: &str) -> Self {
        let attributes = [("units", units), ("long_name", Some(meaning))]
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), Value::from(text?))));
        let dimensions = vec![(name, values.len(), values.len())];
        Variable { name, dimensions, values, attributes: Map::from_iter(attributes) }
    }

    fn store(self, store: &Arc<FilesystemStore>) -> io::Result<Array<FilesystemStore>> {
        let lengths = |of: fn(&(&str, usize, usize)) -> usize| -> Vec<u64> {
            self.dimensions.iter().map(|dimension| of(dimension) as u64).collect()
        };
        let (shape, chunk) = (lengths(|d| d.1), lengths(|d| d.2));
        let array = ArrayBuilder::new(shape, chunk, data_type::float64(), 0.0)
            .dimension_names(Some(self.dimensions.iter().map(|d| d.0)))
            .attributes(self.attributes)
            .build(Arc::clone(store), &format!("/{}", self.name))
            .map_err(io::Error::other)?;
        step(|| array.store_metadata().map_err(io_error))?;
        let size = self.dimensions.iter().map(|d| d.2).product();
        let mut at = vec![0; self.dimensions.len()];
        for (index, values) in self.values.chunks(size).enumerate() {
            at[0] = index as u64;
            if values.len() == size {
                step(|| array.store_chunk(&at, values).map_err(io_error))?;
            } else {
                // The last chunk is as large as the others; what juts out is never read.
                let mut padded = values.to_vec();
                padded.resize(size, 0.0);
                step(|| array.store_chunk(&at, padded).map_err(io_error))?;
            }
        }
        Ok(array)
    }
}

/// The operating system's error inside zarr's, which says whether the disk is full.
fn io_error(error: impl Into<ArrayError>) -> io::Error {
    match error.into() {
        ArrayError::StorageError(StorageError::IOError(source)) => io::Error::new(source.kind(), source),
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests;
