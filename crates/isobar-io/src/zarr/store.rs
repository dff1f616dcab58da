//! The files of a zarr version 3 group: a folder per array, metadata as JSON, chunks as bytes.
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::npy::write_f64;
use crate::temporary::{TemporaryFile, folder, step};

/// The file with the metadata of a group or an array.
const ROOT: &str = "zarr.json";

/// A group of arrays that is being written.
pub(super) struct Store {
    folder: PathBuf,
    /// Whether readers may have it open, so that files are replaced as a whole.
    is_in_place: bool,
    /// The metadata of the arrays written so far.
    metadata: BTreeMap<String, Value>,
    /// The root that was written last.
    root: Vec<u8>,
}

/// An array of 64-bit floating-point numbers.
pub(super) struct Array<'a> {
    pub(super) name: &'a str,
    pub(super) dimensions: Vec<Dimension>,
    pub(super) attributes: Map<String, Value>,
}

/// A dimension of an array.
#[derive(Clone, Copy)]
pub(super) struct Dimension {
    pub(super) name: &'static str,
    pub(super) length: usize,
    pub(super) chunk: usize,
}

impl Array<'_> {
    /// Returns the number of values in a chunk.
    pub(super) fn chunk_size(&self) -> usize {
        self.dimensions.iter().map(|dimension| dimension.chunk).product()
    }

    /// Returns the metadata of the array, in which a missing chunk reads as zeros.
    pub(super) fn metadata(&self) -> Value {
        let lengths = |of: fn(&Dimension) -> usize| -> Vec<usize> { self.dimensions.iter().map(of).collect() };
        let names: Vec<_> = self.dimensions.iter().map(|dimension| dimension.name).collect();
        let mut metadata = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": lengths(|dimension| dimension.length),
            "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": lengths(|dimension| dimension.chunk)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "dimension_names": names,
        });
        if !self.attributes.is_empty() {
            metadata["attributes"] = self.attributes.clone().into();
        }
        metadata
    }
}

impl Store {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), is_in_place: false, metadata: BTreeMap::new(), root: Vec::new() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes that the folder was renamed to its final place.
    pub(super) fn is_now_at(&mut self, place: &Path) {
        (self.folder, self.is_in_place) = (place.to_path_buf(), true);
    }

    /// Returns whether the root is the one that this store wrote last, and so no other program has replaced the store.
    pub(super) fn has_own_root(&self) -> bool {
        fs::read(self.folder.join(ROOT)).is_ok_and(|root| root == self.root)
    }

    /// Returns the path of a chunk; a chunk of zeros has no file.
    pub(super) fn chunk(&self, array: &str, at: &[usize]) -> PathBuf {
        let mut path = self.folder.join(array).join("c");
        path.extend(at.iter().map(usize::to_string));
        path
    }

    pub(super) fn write_metadata(&mut self, array: &Array<'_>) -> io::Result<()> {
        let metadata = array.metadata();
        self.put(&self.folder.join(array.name).join(ROOT), &serde_json::to_vec_pretty(&metadata)?)?;
        self.metadata.insert(array.name.to_owned(), metadata);
        Ok(())
    }

    /// Writes a chunk of a one-dimensional array whose chunks have `length` values, as a whole, over an earlier one.
    pub(super) fn replace_chunk(&self, array: &str, at: usize, values: &[f64], length: usize) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(length * size_of::<f64>());
        write_f64(&mut bytes, values)?;
        bytes.resize(length * size_of::<f64>(), 0);
        self.put(&self.chunk(array, &[at]), &bytes)
    }

    /// Writes a file.
    fn put(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        step(|| path.parent().map_or(Ok(()), fs::create_dir_all))?;
        if self.is_in_place {
            let mut file = TemporaryFile::new_in(folder(&self.folder))?;
            file.as_file_mut().write_all(content)?;
            return file.persist(path);
        }
        step(|| fs::write(path, content))
    }

    /// Writes a chunk; the part beyond `values` is filled with zeros.
    pub(super) fn write_chunk(&self, array: &Array<'_>, at: &[usize], values: &[f64]) -> io::Result<()> {
        let path = self.chunk(array.name, at);
        step(|| {
            // A folder that was removed because a process of the job ended must not be made again.
            if !self.folder.is_dir() {
                return Err(io::Error::other("the process that began the store has ended, or removed it"));
            }
            if values.iter().all(|value| value.to_bits() == 0) {
                return match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
            }
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = File::create(&path)?;
            write_f64(&mut file, values)?;
            file.set_len((array.chunk_size() * size_of::<f64>()) as u64)
        })
    }

    /// Writes the root, last, with copies of the arrays' metadata: a reader then opens one file instead of six.
    pub(super) fn finish(&mut self, attributes: Map<String, Value>) -> io::Result<()> {
        let root = json!({
            "zarr_format": 3,
            "node_type": "group",
            "attributes": attributes,
            "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": self.metadata},
        });
        self.root = serde_json::to_vec_pretty(&root)?;
        self.put(&self.folder.join(ROOT), &self.root)
    }
}
