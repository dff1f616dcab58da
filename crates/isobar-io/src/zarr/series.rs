//! A field at several times in one store, with a time axis.

use std::collections::BTreeMap;
use std::path::Path;

use super::store::{Array, Dimension, Store};
use super::{begin, check_name, check_replaceable, coordinate, field_array, finish, kept, positions, write_array};
use crate::atomic::NewFolder;
use crate::{Field, Mesh, Result};

/// A store that grows frame by frame in a temporary folder and is put in place when it is complete.
pub(crate) struct Frames {
    folder: NewFolder,
    store: Store,
    name: String,
    shape: [usize; 3],
    mesh: Mesh,
    most: usize,
    times: Vec<f64>,
    /// Frames of an earlier store that are not kept.
    dropped: usize,
}

impl Frames {
    pub(crate) fn begin(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, most: usize) -> Result<Self> {
        check_name(name)?;
        let folder = begin(path)?;
        let store = Store::new(folder.now_at());
        let (name, mesh) = (name.to_owned(), mesh.clone());
        Ok(Self { folder, store, name, shape, mesh, most: most.max(1), times: Vec::new(), dropped: 0 })
    }

    /// Begins with the frames up to the time `until` of the store that is there, if there is one.
    pub(crate) fn resume(
        path: &Path,
        name: &str,
        shape: [usize; 3],
        mesh: &Mesh,
        most: usize,
        until: f64,
    ) -> Result<Self> {
        let mut frames = Self::begin(path, name, shape, mesh, most)?;
        let found = kept::read(path, name, shape, mesh)?;
        let count = found.iter().take_while(|&&time| time <= until).count();
        frames.folder.fill(|folder| kept::link(path, folder, name, shape, count))?;
        frames.dropped = found.len() - count;
        frames.times.extend(&found[..count]);
        Ok(frames)
    }

    /// Returns how many earlier frames are kept, and how many are not.
    pub(crate) fn kept(&self) -> [usize; 2] {
        [self.times.len(), self.dropped]
    }

    pub(crate) fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        let at = self.times.len();
        let array = array_of(&self.name, self.shape, self.most.max(at + 1));
        let mut chunks = field.values.chunks(array.chunk_size()).enumerate();
        self.folder.fill(|_| {
            chunks.try_for_each(|(index, values)| self.store.write_chunk(&array, &[at, index, 0, 0], values))
        })?;
        self.times.push(time);
        Ok(())
    }

    pub(crate) fn finish(self, attributes: &BTreeMap<String, String>) -> Result<()> {
        let Self { folder, mut store, name, shape, mesh, times, .. } = self;
        folder.fill(|folder| {
            let mut names = Vec::new();
            let time = coordinate("time", &times, None, "time of the frames");
            let field = (array_of(&name, shape, times.len()), &[][..]);
            for (array, values) in std::iter::once(time).chain(positions(&mesh)).chain([field]) {
                names.push(array.name);
                write_array(&mut store, &array, values)?;
            }
            finish(&store, folder, &names, attributes)
        })?;
        folder.finish(check_replaceable)
    }
}

/// Makes the array for this number of frames.
pub(super) fn array_of(name: &str, shape: [usize; 3], frames: usize) -> Array<'_> {
    let mut array = field_array(name, shape);
    array.dimensions.insert(0, Dimension { name: "time", length: frames, chunk: 1 });
    array
}
