//! A field at several times in one store, with a time axis.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::store::{Array, Dimension, Store};
use super::{check, check_name, coordinate, field_array, finish, positions, put_into_place, write_array};
use crate::temporary::folder;
use crate::{Field, Mesh, Result, TemporaryFolder, atomic};

/// A store that grows frame by frame in a temporary folder and is put in place when it is complete.
pub(crate) struct Frames {
    path: PathBuf,
    target: PathBuf,
    folder: TemporaryFolder,
    store: Store,
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
        let folder =
            TemporaryFolder::new_in(folder(&target)).map_err(|source| atomic::failed(path, &target, source))?;
        let store = Store::new(folder.path());
        let (path, name, mesh) = (path.to_path_buf(), name.to_owned(), mesh.clone());
        Ok(Self { path, target, folder, store, name, shape, mesh, most: most.max(1), times: Vec::new() })
    }

    pub(crate) fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        let at = self.times.len();
        let array = array_of(&self.name, self.shape, self.most.max(at + 1));
        let mut chunks = field.values.chunks(array.chunk_size()).enumerate();
        let write = chunks.try_for_each(|(index, values)| self.store.write_chunk(&array, &[at, index, 0, 0], values));
        write.map_err(|source| atomic::failed(&self.path, &self.target, source))?;
        self.times.push(time);
        Ok(())
    }

    pub(crate) fn finish(self, attributes: &BTreeMap<String, String>) -> Result<()> {
        let Self { path, target, folder, mut store, name, shape, mesh, times, .. } = self;
        let mut fill = || -> io::Result<()> {
            let mut names = Vec::new();
            let time = coordinate("time", &times, None, "time of the frames");
            let field = (array_of(&name, shape, times.len()), &[][..]);
            for (array, values) in std::iter::once(time).chain(positions(&mesh)).chain([field]) {
                names.push(array.name);
                write_array(&mut store, &array, values)?;
            }
            finish(&store, folder.path(), &names, attributes)?;
            atomic::sync_tree(folder.path())
        };
        fill().map_err(|source| atomic::failed(&path, &target, source))?;
        put_into_place(folder, &path, &target)
    }
}

/// The array for this number of frames.
fn array_of(name: &str, shape: [usize; 3], frames: usize) -> Array<'_> {
    let mut array = field_array(name, shape);
    array.dimensions.insert(0, Dimension { name: "time", length: frames, chunk: 1 });
    array
}
