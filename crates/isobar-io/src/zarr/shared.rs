//! A store that several processes write together: chunk by chunk in a folder beside its place, which the first of them makes and
//! puts there when all chunks are in it. What they write is what one process would.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::store::Store;
use super::{check, check_name, field_array, fill, layers_of_a_chunk, put_into_place};
use crate::atomic;
use crate::error::{Error, Result};
use crate::field::Mesh;
use crate::temporary::TemporaryFolder;

/// A store that is being written by several processes, seen by one of them.
pub struct SharedStore {
    path: PathBuf,
    target: PathBuf,
    folder: PathBuf,
    /// Of the process that has begun it.
    own: Option<TemporaryFolder>,
    name: String,
    shape: [usize; 3],
}

impl SharedStore {
    /// Begins a store for a field of this name and shape, (nz, ny, nx); one process does. Where its folder is the others are to be
    /// told, see [`SharedStore::folder`].
    ///
    /// # Errors
    /// Those of [`check_writable`](crate::check_writable).
    pub fn begin(path: &Path, name: &str, shape: [usize; 3]) -> Result<Self> {
        check_name(name)?;
        check(path)?;
        let target = atomic::resolve(path)?;
        let own =
            TemporaryFolder::new_in(atomic::folder(&target)).map_err(|source| atomic::failed(path, &target, source))?;
        let folder = own.path().to_path_buf();
        Ok(Self { path: path.to_path_buf(), target, folder, own: Some(own), name: name.to_owned(), shape })
    }

    /// Takes part in what another process has begun in `folder`.
    ///
    /// # Errors
    /// [`Error::Write`] where this process does not see that folder.
    pub fn join(path: &Path, name: &str, shape: [usize; 3], folder: &Path) -> Result<Self> {
        let target = atomic::resolve(path)?;
        if !folder.is_dir() {
            let message =
                "this process does not see what another one of the job has put there; write to a disk that all share";
            return Err(atomic::failed(path, &target, io::Error::other(message)));
        }
        let (path, folder, name) = (path.to_path_buf(), folder.to_path_buf(), name.to_owned());
        Ok(Self { path, target, folder, own: None, name, shape })
    }

    /// Where it is while it is written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Which layers of the field every chunk has: all of them, in order.
    pub fn chunks(&self) -> Vec<Range<usize>> {
        let ([nz, ..], layers) = (self.shape, layers_of_a_chunk(self.shape));
        (0..nz).step_by(layers).map(|first| first..(first + layers).min(nz)).collect()
    }

    /// Writes a chunk of [`SharedStore::chunks`], its values in (z, y, x) C order.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] for another number of values; [`Error::Write`].
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
            // By the machine that has it in its memory. There is none where all is 0.
            let file = store.chunk(&self.name, &at);
            if file.exists() { File::open(file)?.sync_all() } else { Ok(()) }
        };
        write().map_err(|source| atomic::failed(&self.path, &self.target, source))
    }

    /// Puts the store into its place, with what else belongs into it; by the process that began it, when all chunks are written.
    /// Elsewhere it does nothing.
    ///
    /// # Errors
    /// [`Error::Write`]; something in its place that isobar did not write.
    pub fn finish(self, mesh: &Mesh, attributes: &BTreeMap<String, String>) -> Result<()> {
        let Some(folder) = self.own else { return Ok(()) };
        let written = fill(folder.path(), &self.name, &[], self.shape, mesh, attributes);
        let written = written.and_then(|()| atomic::sync_tree(folder.path()));
        written.map_err(|source| atomic::failed(&self.path, &self.target, source))?;
        put_into_place(folder, &self.path, &self.target)
    }
}
