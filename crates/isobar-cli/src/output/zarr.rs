//! A zarr version 3 group (`.zarr`), which xarray opens as a dataset.
//!
//! The field is an array over the dimensions (z, y, x); `x`, `y` and `z` are coordinates, and
//! `z_faces` holds the heights between and around the levels.

use std::fs;
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

use super::{Field, OutputError, atomic};
use crate::case::problem::Units;

/// A chunk of the field stays below this, so that a reader can take a level without the rest. B
const CHUNK_BYTES: usize = 16 << 20;

/// Checks that `path` is free or a zarr store, and that its folder can be written to.
pub(super) fn check(path: &Path) -> Result<(), OutputError> {
    if path.exists() && !is_replaceable(path) {
        return Err(OutputError::NotZarr { path: path.to_path_buf() });
    }
    atomic::check_folder(path)
}

/// Writes a field as a zarr group; an earlier one is replaced.
pub(super) fn write(path: &Path, field: &Field<'_>) -> Result<(), OutputError> {
    check(path)?;
    atomic::replace_folder(path, |folder| fill(folder, field))
}

/// A folder with the marks of a zarr store of either version, or with nothing in it.
fn is_replaceable(path: &Path) -> bool {
    ["zarr.json", ".zgroup", ".zarray"].iter().any(|mark| path.join(mark).is_file())
        || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn fill(folder: &Path, field: &Field<'_>) -> io::Result<()> {
    let store = Arc::new(FilesystemStore::new(folder).map_err(io::Error::other)?);
    let [nz, ny, nx] = field.shape;
    let levels = (CHUNK_BYTES / (size_of::<f64>() * ny * nx)).clamp(1, nz);
    let [x, y, z] = &field.mesh.centres;
    let (across, up) = match field.mesh.units {
        Units::Atmosphere => (Some("1"), Some("m")),
        Units::Users => (None, None),
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
    group
        .attributes_mut()
        .extend(field.attributes.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    // Copies of the arrays' metadata in one file: a reader then opens one file, not six.
    group.set_consolidated_metadata(Some(consolidated));
    group.store_metadata().map_err(io_error)
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
        array.store_metadata().map_err(io_error)?;
        let size = self.dimensions.iter().map(|d| d.2).product();
        let mut at = vec![0; self.dimensions.len()];
        for (index, values) in self.values.chunks(size).enumerate() {
            at[0] = index as u64;
            if values.len() == size {
                array.store_chunk(&at, values).map_err(io_error)?;
            } else {
                // The last chunk is as large as the others; what juts out is never read.
                let mut padded = values.to_vec();
                padded.resize(size, 0.0);
                array.store_chunk(&at, padded).map_err(io_error)?;
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
mod tests {
    use std::collections::BTreeMap;

    use zarrs::group::Group;

    use super::*;
    use crate::case::problem::Mesh;

    fn mesh() -> Mesh {
        Mesh {
            centres: [vec![0.25, 0.75], vec![0.5], vec![1.0, 3.0, 5.0]],
            faces: [vec![], vec![], vec![0.0, 2.0, 4.0, 6.0]],
            spacing: None,
            units: Units::Atmosphere,
        }
    }

    fn field<'a>(values: &'a [f64], mesh: &'a Mesh) -> Field<'a> {
        Field {
            name: "u",
            values,
            shape: [3, 1, 2],
            mesh,
            active: None,
            attributes: BTreeMap::from([("case".into(), "a".into())]),
        }
    }

    #[test]
    fn zarr_reads_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("u.zarr");
        let values = [0.0, -1.0, 2.0, 3.0, 4.0, f64::NAN];
        write(&path, &field(&values, &mesh())).unwrap();
        let store = Arc::new(FilesystemStore::new(&path).unwrap());
        let group = Group::open(Arc::clone(&store), "/").unwrap();
        assert_eq!(group.attributes()["case"], "a");
        assert_eq!(group.consolidated_metadata().unwrap().metadata.len(), 5);
        let array = Array::open(store, "/u").unwrap();
        let names: Vec<_> = array.dimension_names().clone().unwrap().into_iter().flatten().collect();
        assert_eq!(names, ["z", "y", "x"]);
        let read: Vec<f64> = array.retrieve_array_subset(&array.subset_all()).unwrap();
        assert_eq!(read[..5], values[..5]);
        assert!(read[5].is_nan());
    }

    #[test]
    fn replaces_a_store_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("u.zarr");
        fs::create_dir(&path).unwrap();
        check(&path).unwrap();
        write(&path, &field(&[0.0; 6], &mesh())).unwrap();
        write(&path, &field(&[1.0; 6], &mesh())).unwrap();
        assert!(path.join("u/c/0/0/0").is_file());

        let thesis = folder.path().join("thesis.zarr");
        fs::create_dir(&thesis).unwrap();
        fs::write(thesis.join("chapter1.tex"), b"").unwrap();
        for error in [check(&thesis).unwrap_err(), write(&thesis, &field(&[0.0; 6], &mesh())).unwrap_err()] {
            assert!(error.to_string().contains("is not a zarr store"), "{error}");
        }
        assert!(thesis.join("chapter1.tex").is_file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write(Path::new("/nowhere/at/all/u.zarr"), &field(&[0.0; 6], &mesh())).unwrap_err();
        assert!(error.to_string().contains("mkdir -p /nowhere/at/all"), "{error}");
    }
}
