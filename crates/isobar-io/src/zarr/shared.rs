//! A store written by several processes together. The first process makes a temporary folder; all write chunks into it; the first
//! puts it in place when all chunks are written. The result equals that of one process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::store::Store;
use super::{begin, check_name, check_replaceable, field_array, fill, layers_of_a_chunk};
use crate::atomic::NewFolder;
use crate::{Error, Mesh, Result, atomic};

/// One process's view of a store that several processes write.
pub struct SharedStore {
    path: PathBuf,
    target: PathBuf,
    folder: PathBuf,
    /// The temporary folder, on the process that made it.
    own: Option<NewFolder>,
    name: String,
    shape: [usize; 3],
}

impl SharedStore {
    /// Begins a store for a field of this name and shape, (nz, ny, nx), on one process. The other processes need its folder,
    /// [`SharedStore::folder`].
    pub fn begin(path: &Path, name: &str, shape: [usize; 3]) -> Result<Self> {
        check_name(name)?;
        let own = begin(path)?;
        let store = Self::join(path, name, shape, own.now_at())?;
        Ok(Self { own: Some(own), ..store })
    }

    /// Joins a store that another process has begun in `folder`.
    ///
    /// # Errors
    /// [`Error::Write`] if this process cannot see that folder.
    pub fn join(path: &Path, name: &str, shape: [usize; 3], folder: &Path) -> Result<Self> {
        let target = atomic::resolve(path)?;
        if !folder.is_dir() {
            let message =
                "this process cannot see the folder that another process of the job made; write to a shared disk";
            return Err(atomic::failed(path, &target, io::Error::other(message)));
        }
        let (path, folder, name) = (path.to_path_buf(), folder.to_path_buf(), name.to_owned());
        Ok(Self { path, target, folder, own: None, name, shape })
    }

    /// Returns the temporary folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the layers of the field in each chunk, in order.
    pub fn chunks(&self) -> Vec<Range<usize>> {
        let ([nz, ..], layers) = (self.shape, layers_of_a_chunk(self.shape));
        (0..nz).step_by(layers).map(|first| first..(first + layers).min(nz)).collect()
    }

    /// Writes chunk `index` of [`SharedStore::chunks`], with values in (z, y, x) C order.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] for a wrong number of values; [`Error::Write`].
    pub fn write_chunk(&self, index: usize, values: Vec<f64>) -> Result<()> {
        let [nz, ny, nx] = self.shape;
        let layers = layers_of_a_chunk(self.shape);
        let expected = nz.saturating_sub(layers * index).min(layers) * ny * nx;
        if values.len() != expected {
            let (name, found) = (self.name.clone(), values.len());
            return Err(Error::Inconsistent { name, what: "a chunk's values", found, expected });
        }
        let write = || -> io::Result<()> {
            let (store, at) = (Store::new(&self.folder), [index, 0, 0]);
            store.write_chunk(&field_array(&self.name, self.shape), &at, &values)?;
            // Flushed by the machine that has the file in its cache. A chunk of zeros has no file.
            let file = store.chunk(&self.name, &at);
            if file.exists() { File::open(file)?.sync_all() } else { Ok(()) }
        };
        write().map_err(|source| atomic::failed(&self.path, &self.target, source))
    }

    /// Puts the store in place, on the process that began it, after all chunks were written; on the others it does nothing.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::NotReplaceable`] if data that isobar did not write is in its place.
    pub fn finish(self, mesh: &Mesh, attributes: &BTreeMap<String, String>) -> Result<()> {
        let Some(folder) = self.own else { return Ok(()) };
        folder.fill(|folder| fill(folder, &self.name, &[], self.shape, mesh, attributes))?;
        folder.finish(check_replaceable)
    }
}
