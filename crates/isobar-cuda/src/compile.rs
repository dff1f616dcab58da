//! From CUDA C++ to machine code, by way of a cache on disk.
//!
//! `ISOBAR_CACHE_DIR` says where the cache is (else `$XDG_CACHE_HOME/isobar`, else `~/.cache/isobar`). A
//! cache that cannot be read or written costs time, never a failure. `ISOBAR_DUMP_KERNELS=DIR` writes
//! what was compiled: the whole source, the log, the machine code.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use isobar_core::error::Result;

use crate::kernels::HEADERS;
use crate::nvrtc::Nvrtc;

/// A source with its specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The file's name without its ending.
    pub name: &'static str,
    text: &'static str,
    defines: Vec<(&'static str, String)>,
}

impl Source {
    /// A source of [`crate::kernels`], with nothing defined yet.
    pub fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, defines: Vec::new() }
    }

    /// With `#define name value`.
    #[must_use]
    pub fn define(mut self, name: &'static str, value: impl ToString) -> Self {
        self.defines.push((name, value.to_string()));
        self
    }

    /// What is compiled.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The compiler's options.
    pub fn options(&self, architecture: &str) -> Vec<String> {
        let mut options =
            vec![format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned(), "-default-device".to_owned()];
        options.extend(self.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        options
    }

    /// Everything the compiler sees, in one text.
    fn whole(&self) -> String {
        let defines: String = self.defines.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
        let headers: String = HEADERS.iter().map(|(name, text)| format!("// ---- {name}\n{text}\n")).collect();
        format!("{defines}{headers}// ---- {}.cu\n{}", self.name, self.text)
    }

    /// The machine code for an architecture such as `sm_90`, from the cache or from the compiler.
    ///
    /// # Errors
    /// Where there is no NVRTC, or it fails.
    pub fn cubin(&self, architecture: &str) -> Result<Vec<u8>> {
        self.cubin_with_cache(architecture, cache_folder().as_deref())
    }

    fn cubin_with_cache(&self, architecture: &str, cache: Option<&Path>) -> Result<Vec<u8>> {
        let nvrtc = Nvrtc::get()?;
        let options = self.options(architecture);
        let key = hash(format!("{:?} {options:?} {}", nvrtc.version(), self.whole()).as_bytes());
        let entry = cache.map(|folder| folder.join(format!("{}-{architecture}-{key:032x}.cubin", self.name)));
        let dump = std::env::var_os("ISOBAR_DUMP_KERNELS").map(PathBuf::from);
        if let (Some(entry), None) = (&entry, &dump)
            && let Some(cubin) = read_entry(entry)
        {
            return Ok(cubin);
        }
        let compiled = nvrtc.compile(&format!("{}.cu", self.name), self.text, &options)?;
        if let Some(folder) = dump {
            self.dump(&folder, architecture, key, &compiled)?;
        }
        if let Some(entry) = entry {
            // Without a cache the next run compiles again; that is all.
            let _ = write_entry(&entry, &compiled.cubin);
        }
        Ok(compiled.cubin)
    }

    fn dump(&self, folder: &Path, architecture: &str, key: u128, compiled: &crate::nvrtc::Compiled) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let name = format!("{}-{architecture}-{:08x}", self.name, key >> 96);
        let log = format!("{:?}\n{}", self.options(architecture), compiled.log);
        std::fs::write(folder.join(format!("{name}.cu")), self.whole())?;
        std::fs::write(folder.join(format!("{name}.log")), log)?;
        std::fs::write(folder.join(format!("{name}.cubin")), &compiled.cubin)?;
        Ok(())
    }
}

/// Where compiled kernels are kept; nowhere, if there is no home.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ISOBAR_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("isobar")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/isobar")))
}

/// FNV-1a (Fowler, Noll and Vo) of 128 bits.
fn hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// An entry is the hash of what follows, and what follows.
const CHECK_BYTES: usize = 16;

fn read_entry(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (check, cubin) = bytes.split_at_checked(CHECK_BYTES)?;
    (check == hash(cubin).to_le_bytes()).then(|| cubin.to_vec())
}

/// Writes beside the entry and renames, so that no one ever sees half of it.
fn write_entry(path: &Path, cubin: &[u8]) -> std::io::Result<()> {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let unique = format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let part = folder.join(unique);
    let written = (|| {
        let mut file = std::fs::File::create(&part)?;
        file.write_all(&hash(cubin).to_le_bytes())?;
        file.write_all(cubin)?;
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
    fn an_unusable_cache_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(write_entry(&file.join("a.cubin"), b"machine code").is_err());
        assert_eq!(read_entry(&file.join("a.cubin")), None);
    }

    #[test]
    fn the_hash_is_that_of_its_authors() {
        assert_eq!(hash(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(hash(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
