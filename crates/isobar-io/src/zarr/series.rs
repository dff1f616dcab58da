//! A field at several times in one store, with a time axis.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::store::{Array, Dimension, Store};
use super::{begin, check_name, check_replaceable, coordinate, field_array, kept, ours, positions, write_array};
use crate::atomic::{self, NewFolder};
use crate::{Error, Field, Mesh, Result};

/// The number of times in a chunk: the last chunk is written again with every frame.
pub(super) const TIMES: usize = 1024;

/// A store that grows frame by frame. It replaces an earlier one with its first new frame, and is complete after each, but flushed to the
/// disk with the first and at the end only, as that takes longer than a step of a small grid.
pub(crate) struct Frames {
    path: PathBuf,
    target: PathBuf,
    /// The temporary folder, until the store is in place.
    fresh: Option<NewFolder>,
    store: Store,
    name: String,
    shape: [usize; 3],
    mesh: Mesh,
    times: Vec<f64>,
    /// Frames of an earlier store that are not kept.
    dropped: usize,
}

impl Frames {
    pub(crate) fn begin(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh) -> Result<Self> {
        check_name(name)?;
        let (target, fresh) = (atomic::resolve(path)?, begin(path)?);
        let store = Store::new(fresh.now_at());
        let (path, name, mesh) = (path.to_path_buf(), name.to_owned(), mesh.clone());
        Ok(Self { path, target, fresh: Some(fresh), store, name, shape, mesh, times: Vec::new(), dropped: 0 })
    }

    /// Begins with the frames up to the time `until` of the store that is there, if there is one.
    pub(crate) fn resume(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, until: f64) -> Result<Self> {
        let mut frames = Self::begin(path, name, shape, mesh)?;
        let found = kept::read(path, name, shape, mesh)?;
        let count = found.iter().take_while(|&&time| time <= until).count();
        frames.written(kept::link(path, frames.store.folder(), name, shape, count))?;
        frames.dropped = found.len() - count;
        frames.times.extend(&found[..count]);
        Ok(frames)
    }

    /// Returns how many earlier frames are kept, and how many are not.
    pub(crate) fn kept(&self) -> [usize; 2] {
        [self.times.len(), self.dropped]
    }

    /// Writes a frame and then the metadata that have it; the root is last.
    pub(crate) fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        if self.is_changed() {
            return Err(self.changed());
        }
        let at = self.times.len();
        let array = array_of(&self.name, self.shape, at + 1);
        let mut chunks = field.values.chunks(array.chunk_size()).enumerate();
        let frame = chunks.try_for_each(|(index, values)| self.store.write_chunk(&array, &[at, index, 0, 0], values));
        self.written(frame)?;
        self.times.push(time);
        self.complete(&field.attributes)
    }

    pub(crate) fn finish(mut self, attributes: &BTreeMap<String, String>) -> Result<()> {
        self.complete(attributes)?;
        self.written(atomic::sync_tree(self.store.folder()))
    }

    /// Writes the metadata of the frames so far, and puts the store in place if it is not.
    fn complete(&mut self, attributes: &BTreeMap<String, String>) -> Result<()> {
        let metadata = self.write_metadata(attributes);
        self.written(metadata)?;
        if let Some(fresh) = self.fresh.take() {
            fresh.finish(check_replaceable)?;
            self.store.is_now_at(&self.target);
        }
        Ok(())
    }

    fn write_metadata(&mut self, attributes: &BTreeMap<String, String>) -> io::Result<()> {
        let Self { fresh, store, name, shape, mesh, times, .. } = self;
        if fresh.is_some() {
            for (array, values) in positions(mesh) {
                write_array(store, &array, values)?;
            }
        }
        let first = if fresh.is_some() { 0 } else { times.len().saturating_sub(1) / TIMES };
        for (chunk, values) in times.chunks(TIMES).enumerate().skip(first) {
            store.replace_chunk(ours::TIME, chunk, values, TIMES)?;
        }
        store.write_metadata(&time_array(times.len()))?;
        store.write_metadata(&array_of(name, *shape, times.len()))?;
        super::finish(store, &[ours::TIME, "x", "y", "z", "z_faces", name], attributes)
    }

    fn written<T>(&self, done: io::Result<T>) -> Result<T> {
        done.map_err(|source| match self.is_changed() {
            true => self.changed(),
            false => atomic::failed(&self.path, &self.target, source),
        })
    }

    /// Returns whether another program has replaced, moved or removed the store since it was put in place.
    fn is_changed(&self) -> bool {
        self.fresh.is_none() && !self.store.has_own_root()
    }

    fn changed(&self) -> Error {
        let found = "was changed by another program during this run".to_owned();
        Error::NotReplaceable { path: self.path.clone(), found }
    }
}

/// Makes the array for this number of frames.
pub(super) fn array_of(name: &str, shape: [usize; 3], frames: usize) -> Array<'_> {
    let mut array = field_array(name, shape);
    array.dimensions.insert(0, Dimension { name: ours::TIME, length: frames, chunk: 1 });
    array
}

/// Makes the array of the times of this number of frames.
pub(super) fn time_array(frames: usize) -> Array<'static> {
    let (mut array, _) = coordinate(ours::TIME, &[], None, "time of the frames");
    array.dimensions = vec![Dimension { name: ours::TIME, length: frames, chunk: TIMES }];
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_continue_in_the_next_chunk() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mesh, shape) = (folder.path().join("run.zarr"), Mesh::unit([2, 1, 1]), [1, 1, 2]);
        let mut frames = Frames::begin(&path, "u", shape, &mesh).unwrap();
        // Frames without files are zero.
        frames.times = (0..TIMES - 1).map(|n| n as f64).collect();
        for n in TIMES - 1..TIMES + 2 {
            frames.push(n as f64, &Field::new("u", &[1.0; 2], shape, &mesh)).unwrap();
            let times = kept::read(&path, "u", shape, &mesh).unwrap();
            assert!(times.iter().copied().eq((0..=n).map(|n| n as f64)), "{times:?}");
        }
        let resumed = Frames::resume(&path, "u", shape, &mesh, TIMES as f64).unwrap();
        assert_eq!(resumed.kept(), [TIMES + 1, 1]);
    }
}
