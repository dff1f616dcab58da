//! Files of compiled kernels: checksums, entries of the cache, and writing.

use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use crate::kernels::HEADERS;

/// Returns all headers as one text.
pub(crate) fn headers() -> String {
    HEADERS.iter().map(|(name, text)| format!("// ---- {name}\n{text}\n")).collect()
}

/// Returns a checksum of the headers, which are common to all sources, and longer than any source.
pub(crate) fn headers_sum() -> u128 {
    static SUM: OnceLock<u128> = OnceLock::new();
    *SUM.get_or_init(|| checksum(headers().as_bytes()))
}

/// Returns the FNV-1a hash over words of eight bytes, for long texts and machine code.
pub(crate) fn checksum(bytes: &[u8]) -> u128 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(bytes.len() as u128, |sum: u128, word| {
        (sum ^ u128::from(word)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b).rotate_left(64)
    })
}

/// An entry is a checksum of this length followed by the machine code.
const CHECK_BYTES: usize = 16;

pub(crate) fn read_entry(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (check, cubin) = bytes.split_at_checked(CHECK_BYTES)?;
    (check == checksum(cubin).to_le_bytes()).then(|| cubin.to_vec())
}

/// Writes pieces to a temporary file next to the path and renames it, so that no process sees an incomplete file.
pub(crate) fn write_whole(path: &Path, pieces: &[&[u8]]) -> std::io::Result<()> {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let unique = format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let part = folder.join(unique);
    let written = (|| {
        let mut file = std::fs::File::create(&part)?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        std::fs::rename(&part, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_entry(path: &Path, cubin: &[u8]) -> std::io::Result<()> {
        write_whole(path, &[&checksum(cubin).to_le_bytes(), cubin])
    }

    #[test]
    fn entries_survive_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper/a.cubin");
        assert_eq!(read_entry(&path), None);
        write_entry(&path, b"machine code").unwrap();
        assert_eq!(read_entry(&path).as_deref(), Some(&b"machine code"[..]));
        for damaged in [&b""[..], b"short", b"0123456789abcdef machine code"] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read_entry(&path), None);
        }
        write_entry(&path, b"again").unwrap();
        assert_eq!(read_entry(&path).as_deref(), Some(&b"again"[..]));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no part is left behind");
    }

    #[test]
    fn a_changed_byte_changes_the_checksum() {
        let mut bytes: Vec<u8> = (0..100).collect();
        let sum = checksum(&bytes);
        for n in 0..bytes.len() {
            bytes[n] ^= 0x80;
            assert_ne!(checksum(&bytes), sum, "byte {n}");
            bytes[n] ^= 0x80;
        }
        bytes.swap(3, 70);
        assert_ne!(checksum(&bytes), sum);
        bytes.swap(3, 70);
        bytes.push(0);
        assert_ne!(checksum(&bytes), sum);
    }

    #[test]
    fn an_unusable_cache_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(write_entry(&file.join("a.cubin"), b"machine code").is_err());
        assert_eq!(read_entry(&file.join("a.cubin")), None);
    }
}
