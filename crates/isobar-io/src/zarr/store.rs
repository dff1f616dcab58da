//! The files of a zarr version 3 group: a folder per array, metadata as JSON, chunks as bytes.
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::npy::write_f64;
use crate::temporary::step;

/// A group of arrays that is being written.
pub(super) struct Store {
    folder: PathBuf,
    /// The metadata of the arrays written so far.
    metadata: BTreeMap<String, Value>,
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
        Self { folder: folder.to_path_buf(), metadata: BTreeMap::new() }
    }

    /// Returns the path of a chunk; a chunk of zeros has no file.
    pub(super) fn chunk(&self, array: &str, at: &[usize]) -> PathBuf {
        let mut path = self.folder.join(array).join("c");
        path.extend(at.iter().map(usize::to_string));
        path
    }

    pub(super) fn write_metadata(&mut self, array: &Array<'_>) -> io::Result<()> {
        let metadata = array.metadata();
        write_json(&self.folder.join(array.name), &metadata)?;
        self.metadata.insert(array.name.to_owned(), metadata);
        Ok(())
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
    pub(super) fn finish(&self, attributes: Map<String, Value>) -> io::Result<()> {
        let root = json!({
            "zarr_format": 3,
            "node_type": "group",
            "attributes": attributes,
            "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": self.metadata},
        });
        write_json(&self.folder, &root)
    }
}

fn write_json(folder: &Path, metadata: &Value) -> io::Result<()> {
    step(|| {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("zarr.json"), serde_json::to_vec_pretty(metadata)?)
    })
}
