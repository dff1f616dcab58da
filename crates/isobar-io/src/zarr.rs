//! A zarr version 3 group (`.zarr`), which xarray opens as a dataset.
//!
//! The field is an array over the dimensions (z, y, x); `x`, `y` and `z` are coordinates, and
//! `z_faces` holds the heights between and around the layers.

mod ours;
pub(crate) mod series;
pub(crate) mod shared;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
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
use crate::field::{Field, Mesh, Units};
use crate::temporary::{TemporaryFolder, step};

/// A chunk of the field stays below this, so that a reader can take a layer without the rest. B
const CHUNK_BYTES: usize = 16 << 20;

/// Coordinates that go with every field.
const COORDINATES: [&str; 5] = ["time", "x", "y", "z", "z_faces"];

/// Checks that `path` is free, an empty folder, or a store that isobar wrote and that holds nothing else, and that its
/// folder can be written to.
pub(crate) fn check(path: &Path) -> Result<()> {
    check_replaceable(path)?;
    atomic::check_folder(path)
}

/// Writes a field as a zarr group; an earlier one of isobar's is replaced.
pub(crate) fn write(path: &Path, field: &Field<'_>) -> Result<()> {
    check_name(field.name)?;
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
        |folder| fill(folder, field.name, field.values, field.shape, field.mesh, &field.attributes),
    );
    refusal.map_or(written, Err)
}

fn check_name(name: &str) -> Result<()> {
    let simple = |c: char| c.is_alphanumeric() || "_-+. ".contains(c);
    if name.trim_matches('.').is_empty()
        || name.starts_with("__")
        || !name.chars().all(simple)
        || COORDINATES.contains(&name)
    {
        return Err(Error::FieldName { name: name.to_owned() });
    }
    Ok(())
}

fn check_replaceable(path: &Path) -> Result<()> {
    match ours::obstacle(path) {
        None => Ok(()),
        Some(found) => Err(Error::NotReplaceable { path: path.to_path_buf(), found }),
    }
}

/// Puts a fresh store into its place, where nothing is that isobar did not write.
fn put_into_place(folder: TemporaryFolder, path: &Path, target: &Path) -> Result<()> {
    let mut refusal = None;
    let persisted = folder.persist(target, || {
        check_replaceable(path).map_err(|error| {
            refusal = Some(error);
            io::Error::other("not replaceable")
        })
    });
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    persisted.map_err(|source| atomic::failed(path, target, source))?;
    atomic::sync_folder(atomic::folder(target));
    Ok(())
}

/// Writes a group with a field in it; without values where these are in their chunks already.
fn fill(
    folder: &Path,
    name: &str,
    values: &[f64],
    shape: [usize; 3],
    mesh: &Mesh,
    facts: &BTreeMap<String, String>,
) -> io::Result<()> {
    let store = Arc::new(FilesystemStore::new(folder).map_err(io::Error::other)?);
    let [x, y, z, z_faces] = positions(mesh);
    let variables = [x, y, z, z_faces, Variable::field(name, values, shape)];
    let names = variables.each_ref().map(|variable| variable.name);
    let mut consolidated = ConsolidatedMetadata::default();
    for variable in variables {
        let name = variable.name.to_owned();
        let array = variable.store(&store)?;
        consolidated.metadata.insert(name, NodeMetadata::Array(array.metadata().clone()));
    }
    let mut group = GroupBuilder::new().build(store, "/").map_err(io::Error::other)?;
    let attributes = group.attributes_mut();
    attributes.extend(facts.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    attributes.extend(ours::mark(folder, &names)?);
    // Copies of the arrays' metadata in one file: a reader then opens one file, not six.
    group.set_consolidated_metadata(Some(consolidated));
    step(|| group.store_metadata().map_err(io_error))
}

/// As many layers as stay below [`CHUNK_BYTES`].
fn layers_of_a_chunk([nz, ny, nx]: [usize; 3]) -> usize {
    (CHUNK_BYTES / (size_of::<f64>() * ny * nx)).clamp(1, nz)
}

/// The coordinates of cells.
fn positions(mesh: &Mesh) -> [Variable<'_>; 4] {
    let [x, y, z] = &mesh.centres;
    let (across, up) = match mesh.units {
        Units::Atmosphere => (Some("1"), Some("m")),
        Units::Unspecified => (None, None),
    };
    [
        Variable::coordinate("x", x, across, "x of the cell centres"),
        Variable::coordinate("y", y, across, "y of the cell centres"),
        Variable::coordinate("z", z, up, "height of the cell centres"),
        Variable::coordinate("z_faces", &mesh.faces[2], up, "height of the boundaries of layers"),
    ]
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

    /// A field of shape (nz, ny, nx).
    fn field(name: &'a str, values: &'a [f64], shape: [usize; 3]) -> Self {
        let ([nz, ny, nx], layers) = (shape, layers_of_a_chunk(shape));
        let dimensions = vec![("z", nz, layers), ("y", ny, ny), ("x", nx, nx)];
        Variable { name, dimensions, values, attributes: Map::new() }
    }

    /// The array, of which nothing is written yet.
    fn array(&self, store: &Arc<FilesystemStore>) -> io::Result<Array<FilesystemStore>> {
        let lengths = |of: fn(&(&str, usize, usize)) -> usize| -> Vec<u64> {
            self.dimensions.iter().map(|dimension| of(dimension) as u64).collect()
        };
        let (shape, chunk) = (lengths(|d| d.1), lengths(|d| d.2));
        ArrayBuilder::new(shape, chunk, data_type::float64(), 0.0)
            .dimension_names(Some(self.dimensions.iter().map(|d| d.0)))
            .attributes(self.attributes.clone())
            .build(Arc::clone(store), &format!("/{}", self.name))
            .map_err(io::Error::other)
    }

    fn store(self, store: &Arc<FilesystemStore>) -> io::Result<Array<FilesystemStore>> {
        let array = self.array(store)?;
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
