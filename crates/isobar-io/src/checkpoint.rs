//! Checkpoints: arrays and facts from which a run continues bit for bit.
//!
//! File layout: a magic word, a version, the length of the JSON header, the header (shape, facts, names of the
//! arrays), the arrays as little-endian doubles in C order, and a checksum of all of these. A file is written whole or
//! not at all, so the last good checkpoint stays until the next is complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::npy::write_f64;
use crate::{Error, Result, atomic, hash};

const MAGIC: &[u8; 8] = b"ISOBARCK";
const VERSION: u32 = 2;
/// Longest header of a valid checkpoint. B
const LONGEST_HEADER: u64 = 1 << 20;

/// The state of a run, from which it can continue.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint<A> {
    /// (nz, ny, nx).
    pub shape: [usize; 3],
    /// Facts about the run: steps taken, step length, scheme, a fingerprint of the problem.
    pub facts: BTreeMap<String, String>,
    /// Names and values of the arrays, each in C order.
    pub arrays: Vec<(String, A)>,
}

impl<A> Checkpoint<A> {
    /// Returns the array called `name`.
    pub fn array(&self, name: &str) -> Option<&A> {
        self.arrays.iter().find(|(known, _)| known == name).map(|(_, values)| values)
    }
}

/// Writes a checkpoint, replacing an earlier one.
///
/// # Errors
/// [`Error::Write`]; the earlier checkpoint is then unchanged.
pub fn write(path: &Path, checkpoint: &Checkpoint<&[f64]>) -> Result<()> {
    let names: Vec<&str> = checkpoint.arrays.iter().map(|(name, _)| name.as_str()).collect();
    let header = json!({ "shape": checkpoint.shape, "facts": checkpoint.facts, "arrays": names }).to_string();
    atomic::write_with(path, |out| {
        let mut out = Summed { inner: out, sum: Sum::new() };
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header.as_bytes())?;
        for (_, values) in &checkpoint.arrays {
            write_f64(&mut out, values)?;
        }
        let sum = out.sum.value();
        out.inner.write_all(&sum.to_le_bytes())
    })
}

/// Returns whether a file is a checkpoint, judged by its first bytes.
pub fn is_one(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && &start == MAGIC
}

/// Opens a file; a pipe, whose opening would wait for its writer, is none.
fn open(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("it is not a regular file; name a checkpoint"));
    }
    File::open(path)
}

/// Reads the state u from a checkpoint of a grid of shape (nz, ny, nx).
///
/// # Errors
/// The errors of [`read`]; [`Error::Unusable`] if it holds no state.
pub fn read_state(path: &Path, shape: [usize; 3]) -> Result<Vec<f64>> {
    let state = read(path, shape)?.arrays.into_iter().find(|(name, _)| name == "u");
    state
        .map(|(_, values)| values)
        .ok_or_else(|| wrong(path, "it contains no state u; use a checkpoint of a heat equation (heat.checkpoint)"))
}

/// Reads a checkpoint of a grid of shape (nz, ny, nx).
///
/// # Errors
/// [`Error::Read`]; [`Error::Unusable`] for another kind of file, another version or grid, or a damaged or truncated file.
pub fn read(path: &Path, shape: [usize; 3]) -> Result<Checkpoint<Vec<f64>>> {
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            wrong(path, "it is truncated; use an earlier one")
        } else {
            Error::Read { path: path.to_path_buf(), source }
        }
    };
    let file = open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut sum = Sum::new();
    let mut take = |bytes: &mut [u8], sum: &mut Sum| -> Result<()> {
        input.read_exact(bytes).map_err(failed)?;
        sum.add(bytes);
        Ok(())
    };
    let (mut magic, mut version, mut header_len) = ([0; 8], [0; 4], [0; 8]);
    take(&mut magic, &mut sum)?;
    if &magic != MAGIC {
        return Err(wrong(path, "it is not an isobar checkpoint"));
    }
    take(&mut version, &mut sum)?;
    let version = u32::from_le_bytes(version);
    if version != VERSION {
        let message = format!(
            "it has version {version}, and this isobar reads version {VERSION}; continue with the isobar that wrote it"
        );
        return Err(wrong(path, message));
    }
    take(&mut header_len, &mut sum)?;
    let header_len = u64::from_le_bytes(header_len);
    if header_len > LONGEST_HEADER {
        return Err(wrong(path, "its header is damaged; use an earlier one"));
    }
    let mut header = vec![0; header_len as usize];
    take(&mut header, &mut sum)?;
    let damaged = || wrong(path, "its header is damaged; use an earlier one");
    let header: Value = serde_json::from_slice(&header).map_err(|_| damaged())?;
    let found: Vec<u64> = header["shape"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let [nz, ny, nx] = <[u64; 3]>::try_from(found).map_err(|_| damaged())?;
    if [nz, ny, nx] != shape.map(|n| n as u64) {
        let [sz, sy, sx] = shape;
        let message = format!(
            "it was written for a grid of {nx}×{ny}×{nz} cells, and the case has {sx}×{sy}×{sz}; use the case that wrote it"
        );
        return Err(wrong(path, message));
    }
    let names: Vec<&str> = header["arrays"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let facts = header["facts"].as_object().into_iter().flatten();
    let facts = facts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    let cells: usize = shape.iter().product();
    let bytes = 8 * cells as u64;
    let numbers = bytes.checked_mul(names.len() as u64).and_then(|numbers| numbers.checked_add(28 + header_len));
    let expected = numbers.ok_or_else(damaged)?;
    if length != expected {
        let what = if length < expected { "truncated" } else { "longer than it should be" };
        return Err(wrong(
            path,
            format!("it is {what}: it has {length} bytes and should have {expected}; use an earlier one"),
        ));
    }
    let mut arrays = Vec::new();
    for name in names {
        let mut values: Vec<f64> = Vec::new();
        let what = "an array of the checkpoint".to_owned();
        values.try_reserve_exact(cells).map_err(|_| Error::OutOfMemory { what, bytes })?;
        let mut buffer = [0; 8 << 10];
        let mut left = cells;
        while left > 0 {
            let part = &mut buffer[..8 * left.min(1 << 10)];
            take(part, &mut sum)?;
            values.extend(part.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)));
            left -= part.len() / 8;
        }
        arrays.push((name.to_owned(), values));
    }
    let (mut stored, computed) = ([0; 8], sum.value());
    take(&mut stored, &mut sum)?;
    if u64::from_le_bytes(stored) != computed {
        return Err(wrong(path, "its checksum does not match, so it is damaged; use an earlier one"));
    }
    Ok(Checkpoint { shape, facts, arrays })
}

fn wrong(path: &Path, problem: impl Into<String>) -> Error {
    Error::Unusable { path: path.to_path_buf(), problem: problem.into() }
}

/// The hash of words of eight bytes.
struct Sum {
    hash: u64,
    /// Bytes that do not fill a word yet.
    rest: Vec<u8>,
}

impl Sum {
    fn new() -> Self {
        Self { hash: hash::BASIS, rest: Vec::new() }
    }

    fn word(&mut self, word: [u8; 8]) {
        self.hash = hash::with_word(self.hash, u64::from_le_bytes(word));
    }

    fn add(&mut self, bytes: &[u8]) {
        let (start, bytes) = bytes.split_at(bytes.len().min((8 - self.rest.len()) % 8));
        self.rest.extend(start);
        if let Ok(word) = self.rest[..].try_into() {
            self.word(word);
            self.rest.clear();
        }
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|&word| self.word(word));
        self.rest.extend(rest);
    }

    fn value(&self) -> u64 {
        let mut end = Self { rest: Vec::new(), ..*self };
        end.add(&self.rest);
        end.add(&[0; 8][..(8 - self.rest.len()) % 8]);
        end.hash
    }
}

/// A writer that also computes the checksum.
struct Summed<'a> {
    inner: &'a mut dyn Write,
    sum: Sum,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.sum.add(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Checkpoint<&[f64]> {
        let facts = BTreeMap::from([("steps".to_owned(), "7".to_owned())]);
        Checkpoint { shape: [1, 2, 3], facts, arrays: vec![("u".to_owned(), values), ("before".to_owned(), values)] }
    }

    #[test]
    fn what_is_written_is_read_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ckpt");
        let values = [0.1, -0.0, f64::MIN_POSITIVE / 3.0, 1e300, 5.0, 6.0];
        write(&path, &sample(&values)).unwrap();
        let found = read(&path, [1, 2, 3]).unwrap();
        assert_eq!(found.facts["steps"], "7");
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found.array("u").unwrap()), bits(&values));
        assert_eq!(found.arrays.len(), 2);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.ckpt");
        write(&path, &sample(&[1.0; 6])).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let message = |bytes: &[u8], shape| {
            std::fs::write(&path, bytes).unwrap();
            read(&path, shape).unwrap_err().to_string()
        };
        let other_grid = message(&whole, [1, 3, 2]);
        assert!(other_grid.contains("a grid of 3×2×1 cells, and the case has 2×3×1"), "{other_grid}");
        assert!(message(&whole[..whole.len() - 1], [1, 2, 3]).contains("truncated"));
        assert!(message(&whole[..20], [1, 2, 3]).contains("truncated"));
        assert!(message(b"no checkpoint at all", [1, 2, 3]).contains("not an isobar checkpoint"));
        let mut other = whole.clone();
        other[8] = 9;
        assert!(message(&other, [1, 2, 3]).contains("version 9"));
        for at in [whole.len() - 20, whole.len() - 1] {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(message(&other, [1, 2, 3]).contains("checksum"));
        }
        assert!(read(&folder.path().join("none.ckpt"), [1, 2, 3]).unwrap_err().to_string().contains("no such file"));
    }
}
