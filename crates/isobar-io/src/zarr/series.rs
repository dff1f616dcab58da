//! A field at several times in one store, with a time axis.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zarrs::array::{Array, ArrayBuilder, data_type};
use zarrs::filesystem::FilesystemStore;
use zarrs::group::GroupBuilder;
use zarrs::metadata::NodeMetadata;
use zarrs::metadata_ext::group::consolidated_metadata::ConsolidatedMetadata;

use super::{Variable, check, check_name, io_error, layers_of_a_chunk, ours, positions, put_into_place};
use crate::atomic;
use crate::error::Result;
use crate::field::{Field, Mesh};
use crate::temporary::{TemporaryFolder, step};

/// A store that grows by a frame at a time beside its place, and is put there when it is complete.
pub(crate) struct Frames {
    path: PathBuf,
    target: PathBuf,
    folder: TemporaryFolder,
    store: Arc<FilesystemStore>,
    name: String,
    shape: [usize; 3],
    mesh: Mesh,
    most: usize,
    times: Vec<f64>,
}

impl Frames {
    pub(crate) fn begin(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, most: usize) -> Result<Self> {
        check_name(name)?;
        check(path)?;
        let target = atomic::resolve(path)?;
        let begin = || -> io::Result<_> {
            let folder = TemporaryFolder::new_in(atomic::folder(&target))?;
            let store = Arc::new(FilesystemStore::new(folder.path()).map_err(io::Error::other)?);
            Ok((folder, store))
        };
        let (folder, store) = begin().map_err(|source| atomic::failed(path, &target, source))?;
        let (path, name, mesh) = (path.to_path_buf(), name.to_owned(), mesh.clone());
        Ok(Self { path, target, folder, store, name, shape, mesh, most: most.max(1), times: Vec::new() })
    }

    /// The array of so many frames.
    fn array(&self, frames: usize) -> io::Result<Array<FilesystemStore>> {
        let [nz, ny, nx] = self.shape.map(|n| n as u64);
        let layers = layers_of_a_chunk(self.shape) as u64;
        ArrayBuilder::new(vec![frames as u64, nz, ny, nx], vec![1, layers, ny, nx], data_type::float64(), 0.0)
            .dimension_names(Some(["time", "z", "y", "x"]))
            .build(Arc::clone(&self.store), &format!("/{}", self.name))
            .map_err(io::Error::other)
    }

    pub(crate) fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        let at = self.times.len();
        let write = || -> io::Result<()> {
            let array = self.array(self.most.max(at + 1))?;
            let [_, ny, nx] = self.shape;
            let size = layers_of_a_chunk(self.shape) * ny * nx;
            for (index, values) in field.values.chunks(size).enumerate() {
                let place = [at as u64, index as u64, 0, 0];
                let mut whole = values.to_vec();
                // The last chunk is as large as the others; what juts out is never read.
                whole.resize(size, 0.0);
                step(|| array.store_chunk(&place, whole).map_err(io_error))?;
            }
            Ok(())
        };
        write().map_err(|source| atomic::failed(&self.path, &self.target, source))?;
        self.times.push(time);
        Ok(())
    }

    pub(crate) fn finish(self, attributes: &BTreeMap<String, String>) -> Result<()> {
        let (path, target) = (&self.path.clone(), &self.target.clone());
        let fill = || -> io::Result<()> {
            let mut consolidated = ConsolidatedMetadata::default();
            let mut names = Vec::new();
            let time = Variable::coordinate("time", &self.times, None, "time of the frames");
            for variable in std::iter::once(time).chain(positions(&self.mesh)) {
                names.push(variable.name);
                let (name, array) = (variable.name.to_owned(), variable.store(&self.store)?);
                consolidated.metadata.insert(name, NodeMetadata::Array(array.metadata().clone()));
            }
            let array = self.array(self.times.len())?;
            step(|| array.store_metadata().map_err(io_error))?;
            consolidated.metadata.insert(self.name.clone(), NodeMetadata::Array(array.metadata().clone()));
            names.push(&self.name);
            let mut group = GroupBuilder::new().build(Arc::clone(&self.store), "/").map_err(io::Error::other)?;
            let all = group.attributes_mut();
            all.extend(attributes.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
            all.extend(ours::mark(self.folder.path(), &names)?);
            group.set_consolidated_metadata(Some(consolidated));
            step(|| group.store_metadata().map_err(io_error))?;
            atomic::sync_tree(self.folder.path())
        };
        fill().map_err(|source| atomic::failed(path, target, source))?;
        put_into_place(self.folder, path, target)
    }
}
