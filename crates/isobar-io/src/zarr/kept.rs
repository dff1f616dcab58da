//! Frames of an earlier store that a continued run keeps.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde_json::Value;

use super::ours::TIME;
use super::series::{TIMES, array_of, time_array};
use super::store::Store;
use super::{field_array, positions};
use crate::temporary::step;
use crate::{Error, Mesh, Result};

/// Returns the times of the frames at `path`, a store that isobar wrote; none if nothing is there.
///
/// # Errors
/// [`Error::NotContinuable`] for a store without frames, or with frames of another grid.
pub(super) fn read(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh) -> Result<Vec<f64>> {
    if !path.join("zarr.json").exists() {
        return Ok(Vec::new());
    }
    let fail = |found: String| Err(Error::NotContinuable { path: path.to_path_buf(), found });
    let (Some(time), Some(field)) = (metadata(path, "time"), metadata(path, name)) else {
        return fail(format!("it is a store without frames of {name} in time"));
    };
    let numbers = |array: &Value| -> Vec<u64> {
        array["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let ([nz, ny, nx], lengths) = (shape, numbers(&field));
    let same = lengths.len() == 4 && lengths[1..].iter().zip(shape).all(|(&found, wanted)| found == wanted as u64);
    if !same {
        let found: Vec<String> = lengths.iter().skip(1).rev().map(u64::to_string).collect();
        let found = found.join("×");
        return fail(format!("its frames have {found} cells, and this run's {nx}×{ny}×{nz}"));
    }
    let count = lengths[0] as usize;
    // A run that was killed may have written one time more.
    let times = numbers(&time).first().map_or(0, |&times| times as usize);
    let is_ours =
        times >= count && time == time_array(times).metadata() && field == array_of(name, shape, count).metadata();
    if !is_ours {
        return fail("its arrays are stored in another way, by another version of isobar".to_owned());
    }
    let store = Store::new(path);
    for (array, values) in positions(mesh) {
        let is_same = metadata(path, array.name).is_some_and(|found| found == array.metadata());
        if !is_same || numbers_of(&store, array.name, 0, values.len())? != values {
            return fail(format!("its cells are at other places: {} differs", array.name));
        }
    }
    let mut times = Vec::new();
    for chunk in 0..count.div_ceil(TIMES) {
        times.extend(numbers_of(&store, TIME, chunk, TIMES)?);
    }
    times.truncate(count);
    Ok(times)
}

/// Returns the metadata of an array.
fn metadata(store: &Path, name: &str) -> Option<Value> {
    serde_json::from_slice(&fs::read(store.join(name).join("zarr.json")).ok()?).ok()
}

/// Returns the values of a chunk of a one-dimensional array. A chunk of zeros has no file, which only one number may be here.
fn numbers_of(store: &Store, name: &str, chunk: usize, count: usize) -> Result<Vec<f64>> {
    let path = store.chunk(name, &[chunk]);
    let bytes = match fs::read(&path) {
        Err(source) if source.kind() == ErrorKind::NotFound && count <= 1 => return Ok(vec![0.0; count]),
        read => read.map_err(|source| Error::Read { path: path.clone(), source })?,
    };
    let values = bytes.as_chunks().0;
    if values.len() != count {
        let found = format!("{name} holds {} numbers, and its metadata say {count}", values.len());
        return Err(Error::NotContinuable { path, found });
    }
    Ok(values.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect())
}

/// Puts the chunks of this many first frames into a new store: as links to the same files, if the disk supports these. They are not written to
/// again.
pub(super) fn link(from: &Path, to: &Path, name: &str, shape: [usize; 3], frames: usize) -> io::Result<()> {
    let ([nz, ..], layers) = (shape, field_array(name, shape).dimensions[0].chunk);
    let (from, to) = (Store::new(from), Store::new(to));
    for frame in 0..frames {
        for layer in 0..nz.div_ceil(layers) {
            let [old, new] = [&from, &to].map(|store| store.chunk(name, &[frame, layer, 0, 0]));
            if !old.exists() {
                continue;
            }
            step(|| {
                new.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::hard_link(&old, &new).or_else(|_| fs::copy(&old, &new).map(drop))
            })?;
        }
    }
    Ok(())
}
