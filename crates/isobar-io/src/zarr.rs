//! A zarr version 3 group (`.zarr`), which xarray opens as a dataset.
//!
//! The field is an array over the dimensions (z, y, x); `x`, `y` and `z` are coordinates, and
//! `z_faces` holds the heights between and around the layers.

pub(crate) mod faces;
mod kept;
mod ours;
pub(crate) mod series;
pub(crate) mod shared;
mod store;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use self::ours::COORDINATES;
use self::store::{Array, Dimension, Store};
use crate::atomic::NewFolder;
use crate::{Error, Field, Mesh, Result, Units};

/// Largest size of a chunk, so that a reader can load a few layers alone. B
const CHUNK_BYTES: usize = 16 << 20;

/// Checks that `path` does not exist, or is an empty folder or a store that isobar wrote and nobody changed, and that its
/// folder is writable.
pub(crate) fn check(path: &Path) -> Result<()> {
    begin(path).map(drop)
}

/// Begins a store next to its final place.
fn begin(path: &Path) -> Result<NewFolder> {
    check_replaceable(path)?;
    NewFolder::begin(path)
}

/// Writes a field as a zarr group, replacing an earlier one written by isobar.
pub(crate) fn write(path: &Path, field: &Field<'_>) -> Result<()> {
    check_name(field.name)?;
    let store = begin(path)?;
    store.fill(|folder| fill(folder, field.name, field.values, field.shape, field.mesh, &field.attributes))?;
    store.finish(check_replaceable)
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

/// Checks that isobar wrote the store at `path`. Called again before the replacement, because another program may have written
/// there.
fn check_replaceable(path: &Path) -> Result<()> {
    match ours::obstacle(path) {
        None => Ok(()),
        Some(found) => Err(Error::NotReplaceable { path: path.to_path_buf(), found }),
    }
}

/// Writes a group with a field; without the values if their chunks exist already.
fn fill(
    folder: &Path,
    name: &str,
    values: &[f64],
    shape: [usize; 3],
    mesh: &Mesh,
    facts: &BTreeMap<String, String>,
) -> io::Result<()> {
    let mut store = Store::new(folder);
    let [x, y, z, z_faces] = positions(mesh);
    for (array, values) in [x, y, z, z_faces, (field_array(name, shape), values)] {
        write_array(&mut store, &array, values)?;
    }
    finish(&mut store, &["x", "y", "z", "z_faces", name], facts)
}

/// Writes the root with these attributes and the mark of isobar's stores.
fn finish(store: &mut Store, names: &[&str], facts: &BTreeMap<String, String>) -> io::Result<()> {
    let facts = facts.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let mark = ours::mark(store.folder(), names)?;
    store.finish(facts.chain(mark).collect())
}

/// Returns the number of layers that fit into [`CHUNK_BYTES`].
fn layers_of_a_chunk([nz, ny, nx]: [usize; 3]) -> usize {
    (CHUNK_BYTES / (size_of::<f64>() * ny * nx)).clamp(1, nz)
}

/// Returns the coordinate arrays.
fn positions(mesh: &Mesh) -> [(Array<'_>, &[f64]); 4] {
    let [x, y, z] = &mesh.centres;
    let (across, up) = match mesh.units {
        Units::Atmosphere => (Some("1"), Some("m")),
        Units::Unspecified => (None, None),
    };
    [
        coordinate("x", x, across, "x of the cell centres"),
        coordinate("y", y, across, "y of the cell centres"),
        coordinate("z", z, up, "height of the cell centres"),
        coordinate("z_faces", &mesh.faces[2], up, "height of the boundaries of layers"),
    ]
}

fn coordinate<'a>(
    name: &'static str,
    values: &'a [f64],
    units: Option<&str>,
    meaning: &str,
) -> (Array<'static>, &'a [f64]) {
    let attributes = [("units", units), ("long_name", Some(meaning))]
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), Value::from(text?))));
    let dimensions = vec![Dimension { name, length: values.len(), chunk: values.len() }];
    (Array { name, dimensions, attributes: attributes.collect() }, values)
}

/// Makes the array of a field of shape (nz, ny, nx). Only the first dimension is split into chunks, so that a chunk is
/// contiguous.
fn field_array(name: &str, shape: [usize; 3]) -> Array<'_> {
    let ([nz, ny, nx], layers) = (shape, layers_of_a_chunk(shape));
    let dimensions = [("z", nz, layers), ("y", ny, ny), ("x", nx, nx)];
    let dimensions = dimensions.map(|(name, length, chunk)| Dimension { name, length, chunk }).into();
    Array { name, dimensions, attributes: Map::new() }
}

fn write_array(store: &mut Store, array: &Array<'_>, values: &[f64]) -> io::Result<()> {
    store.write_metadata(array)?;
    let mut at = vec![0; array.dimensions.len()];
    for (index, values) in values.chunks(array.chunk_size()).enumerate() {
        at[0] = index;
        store.write_chunk(array, &at, values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
