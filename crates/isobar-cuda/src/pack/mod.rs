//! Packs: files of compiled kernels that come with a wheel or a binary, so that a first solve compiles nothing.
//!
//! A pack `kernels-sm_90.pack` has kernels for one architecture, which also run on later ones of its generation (sm_80 on sm_86 and sm_89).
//! Packs are searched in the folder `ISOBAR_KERNELS`, which may be empty to use none; without that variable, next to the library or the
//! program that contains this code, and in `../share/isobar` from there. A pack that is damaged, that was made from other sources, or that is
//! too new for the driver is not used; [`find`] returns the reason. Packs are made by [`build`] from a [`list`], which needs no GPU.
//!
//! A file consists of a header, an index and machine code: see [`Pack::write`]. Packs are not compressed: wheels and archives are.

pub mod build;
mod folders;
pub mod list;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::driver::{self, lock};
use crate::files::{checksum, headers_sum, write_whole};

/// The first bytes of a pack.
const MAGIC: &[u8; 16] = b"isobar kernels 1";
/// Bytes of magic, sum of the headers, architecture, compiler's version, number of kernels.
const HEADER_BYTES: usize = 16 + 16 + 16 + 8 + 8;
/// Bytes of a key, a checksum, a position and a length.
const ENTRY_BYTES: usize = 16 + 16 + 8 + 8;
/// Bytes of a checksum.
const SUM_BYTES: usize = 16;

/// The machine code of a kernel in a file.
#[derive(Clone, Copy, Debug)]
struct Place {
    sum: u128,
    start: u64,
    bytes: u64,
}

/// A pack of kernels, opened for reading.
#[derive(Debug)]
pub struct Pack {
    path: PathBuf,
    architecture: String,
    nvrtc: (u32, u32),
    places: HashMap<u128, Place>,
    file: Mutex<File>,
}

/// Reads numbers from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}

impl Pack {
    /// Opens a pack and reads its index.
    ///
    /// # Errors
    /// The reason why it cannot be used: it cannot be read, is damaged, or was made from other sources.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let damaged = || format!("{} is damaged", path.display());
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut read = |bytes: u64| {
            let mut buffer = Vec::new();
            file.by_ref().take(bytes).read_to_end(&mut buffer).map(|_| buffer).map_err(failed)
        };
        let mut bytes = read(HEADER_BYTES as u64)?;
        let mut header = Reader(&bytes);
        if header.take().as_ref() != Some(MAGIC) {
            return Err(format!("{} is not a pack of kernels", path.display()));
        }
        let mut header = || Some((header.u128()?, header.take::<16>()?, header.u32()?, header.u32()?, header.u64()?));
        let (sources, architecture, major, minor, count) = header().ok_or_else(damaged)?;
        let entries = count.checked_mul(ENTRY_BYTES as u64).filter(|bytes| *bytes < length).ok_or_else(damaged)?;
        bytes.extend(read(entries)?);
        if Reader(&read(SUM_BYTES as u64)?).u128() != Some(checksum(&bytes)) {
            return Err(damaged());
        }
        if sources != headers_sum() {
            return Err(format!("{} belongs to another version of isobar", path.display()));
        }
        let mut entries = Reader(&bytes[HEADER_BYTES..]);
        let mut entry =
            || Some((entries.u128()?, Place { sum: entries.u128()?, start: entries.u64()?, bytes: entries.u64()? }));
        let places: HashMap<_, _> = std::iter::from_fn(&mut entry).collect();
        let ends = places.values().map(|place| place.start.checked_add(place.bytes));
        if !ends.into_iter().all(|end| end.is_some_and(|end| end <= length)) {
            return Err(format!("{} is cut off", path.display()));
        }
        let architecture = String::from_utf8_lossy(&architecture).trim_end_matches('\0').to_owned();
        Ok(Self { path: path.to_owned(), architecture, nvrtc: (major, minor), places, file: Mutex::new(file) })
    }

    /// Writes a pack from keys and machine code. Equal machine code is stored once.
    ///
    /// All numbers are little-endian. The header is `isobar kernels 1`, the sum of the sources' headers (16 bytes), the architecture
    /// (16 bytes, padded with zeros), major and minor version of the compiler (4 bytes each), the number of kernels (8 bytes). For each
    /// kernel there are its key, the checksum of its code (16 bytes each), its position and length in the file (8 bytes each). A checksum of
    /// all of this (16 bytes) and the code follow.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(path: &Path, architecture: &str, nvrtc: (i32, i32), kernels: &[(u128, Vec<u8>)]) -> io::Result<()> {
        let mut name = [0; 16];
        let length = architecture.len().min(name.len());
        name[..length].copy_from_slice(&architecture.as_bytes()[..length]);
        let mut head = [&MAGIC[..], &headers_sum().to_le_bytes(), &name].concat();
        head.extend([nvrtc.0, nvrtc.1].map(i32::to_le_bytes).as_flattened());
        head.extend((kernels.len() as u64).to_le_bytes());
        let mut end = (HEADER_BYTES + kernels.len() * ENTRY_BYTES + SUM_BYTES) as u64;
        let mut starts = HashMap::new();
        let mut codes: Vec<&[u8]> = Vec::new();
        for (key, code) in kernels {
            let sum = checksum(code);
            let start = *starts.entry(sum).or_insert_with(|| {
                codes.push(code);
                end += code.len() as u64;
                end - code.len() as u64
            });
            head.extend([*key, sum].map(u128::to_le_bytes).as_flattened());
            head.extend([start, code.len() as u64].map(u64::to_le_bytes).as_flattened());
        }
        let sum = checksum(&head).to_le_bytes();
        write_whole(path, &[&[&head[..], &sum], &codes[..]].concat())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the architecture that its kernels were compiled for, such as `"sm_90"`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the number of kernels.
    pub fn kernels(&self) -> usize {
        self.places.len()
    }

    /// Returns the version of the compiler that made it, major and minor.
    pub fn nvrtc(&self) -> (u32, u32) {
        self.nvrtc
    }

    /// Returns whether there is a kernel with a key.
    pub(crate) fn has(&self, key: u128) -> bool {
        self.places.contains_key(&key)
    }

    /// Reads the machine code of a kernel; `None` if there is none, or if it is damaged.
    pub(crate) fn read(&self, key: u128) -> Option<Vec<u8>> {
        let place = self.places.get(&key)?;
        let mut code = vec![0; usize::try_from(place.bytes).ok()?];
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(place.start)).and_then(|_| file.read_exact(&mut code)).ok()?;
        (checksum(&code) == place.sum).then_some(code)
    }
}

type Found = Result<Option<Arc<Pack>>, String>;

/// Finds the pack for GPUs of an architecture such as `sm_90`, once per process.
///
/// # Errors
/// The reason why a pack that is there is not used.
pub fn find(architecture: &str) -> Found {
    static FOUND: Mutex<Option<HashMap<String, Found>>> = Mutex::new(None);
    let mut found = lock(&FOUND);
    let found = found.get_or_insert_default();
    match found.get(architecture) {
        Some(known) => known.clone(),
        None => found.entry(architecture.to_owned()).or_insert(search(&folders::all(), architecture)).clone(),
    }
}

/// Returns the pack for GPUs of an architecture, if there is one that can be used.
pub(crate) fn get(architecture: &str) -> Option<Arc<Pack>> {
    find(architecture).ok().flatten()
}

/// Returns the file name of a pack.
pub(crate) fn file_name(architecture: &str) -> String {
    format!("kernels-{architecture}.pack")
}

/// Opens the first pack in these folders whose kernels run on an architecture.
fn search(folders: &[PathBuf], architecture: &str) -> Found {
    let split = architecture.len().saturating_sub(1);
    let (generation, minor) = architecture.split_at_checked(split).unwrap_or((architecture, ""));
    let names: Vec<_> =
        (0..=minor.parse().unwrap_or(0_u32)).rev().map(|n| file_name(&format!("{generation}{n}"))).collect();
    let mut paths = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let Some(path) = paths.find(|path| path.exists()) else { return Ok(None) };
    let pack = Pack::open(&path)?;
    let (major, minor) = pack.nvrtc;
    if driver::newest_code().is_some_and(|newest| newest < major) {
        return Err(format!("{} is of CUDA {major}.{minor}, which the driver is too old for", path.display()));
    }
    Ok(Some(Arc::new(pack)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, architecture: &str) -> PathBuf {
        let path = folder.join(file_name(architecture));
        let kernels = [(3, b"three".to_vec()), (1, b"one".to_vec()), (7, b"three".to_vec()), (9, Vec::new())];
        Pack::write(&path, architecture, (12, 9), &kernels).unwrap();
        path
    }

    #[test]
    fn kernels_are_found_by_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "sm_90");
        let pack = Pack::open(&path).unwrap();
        assert_eq!((pack.architecture(), pack.nvrtc(), pack.kernels()), ("sm_90", (12, 9), 4));
        for (key, code) in [(1, &b"one"[..]), (3, b"three"), (7, b"three"), (9, b"")] {
            assert!(pack.has(key));
            assert_eq!(pack.read(key).as_deref(), Some(code));
        }
        assert!(!pack.has(2) && pack.read(2).is_none());
        let bytes = std::fs::metadata(&path).unwrap().len() as usize;
        assert_eq!(bytes, HEADER_BYTES + 4 * ENTRY_BYTES + SUM_BYTES + 8, "equal code is stored once");
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "sm_90");
        let whole = std::fs::read(&path).unwrap();
        let all = |pack: &Pack| [1, 3, 7, 9].map(|key| pack.read(key)).into_iter().all(|code| code.is_some());
        assert!(Pack::open(&path).is_ok_and(|pack| all(&pack)));
        for n in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[n] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(!Pack::open(&path).is_ok_and(|pack| all(&pack)), "byte {n}");
            std::fs::write(&path, &whole[..n]).unwrap();
            assert!(Pack::open(&path).is_err(), "{n} bytes");
        }
        // A count for which no memory would suffice.
        let mut damaged = whole;
        damaged[HEADER_BYTES - 8..HEADER_BYTES].fill(0xff);
        std::fs::write(&path, damaged).unwrap();
        assert!(Pack::open(&path).unwrap_err().contains("damaged"));
    }

    #[test]
    fn a_pack_serves_later_architectures_of_its_generation() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let found = |architecture| search(&paths, architecture).map(|pack| pack.map(|pack| pack.path().to_owned()));
        assert_eq!(found("sm_80"), Ok(None));
        let [sm_80, sm_86] = [write(&paths[0], "sm_80"), write(&paths[0], "sm_86")];
        write(&paths[1], "sm_80");
        let sm_120 = write(&paths[1], "sm_120");
        for (architecture, path) in [
            ("sm_75", None),
            ("sm_80", Some(&sm_80)),
            ("sm_86", Some(&sm_86)),
            ("sm_89", Some(&sm_86)),
            ("sm_121", Some(&sm_120)),
        ] {
            assert_eq!(found(architecture).unwrap().as_ref(), path, "{architecture}");
        }
        std::fs::write(&sm_86, "something else").unwrap();
        assert!(found("sm_89").unwrap_err().contains("sm_86.pack is not a pack of kernels"));
    }
}
