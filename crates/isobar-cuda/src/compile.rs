//! Compilation from CUDA C++ to machine code, with a cache on disk.
//!
//! Kernels are compiled one by one: a solver needs few of an operator's. Those of a [`pack`] are not compiled again.
//! The cache is in `ISOBAR_CACHE_DIR` (else `$XDG_CACHE_HOME/isobar`, else `~/.cache/isobar`). A
//! cache that cannot be read or written costs time but is not an error. `ISOBAR_DUMP_KERNELS=DIR` writes
//! everything that is compiled: the whole source, the log, the machine code.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use isobar_core::error::Result;

use crate::compilations;
use crate::driver::error;
use crate::files::{checksum, headers, headers_sum, read_entry, write_whole};
use crate::nvrtc::Nvrtc;
use crate::pack::{self, Pack};

/// A source with its specialisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's name without its ending.
    pub name: &'static str,
    text: &'static str,
    pub(crate) defines: Vec<(Cow<'static, str>, String)>,
}

impl Hash for Source {
    /// Hashes the name and the definitions: the text follows from the name.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, &self.defines).hash(state);
    }
}

impl Source {
    /// Makes a source of [`crate::kernels`] without definitions.
    pub fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, defines: Vec::new() }
    }

    /// Adds `#define name value`.
    #[must_use]
    pub fn define(mut self, name: impl Into<Cow<'static, str>>, value: impl ToString) -> Self {
        self.defines.push((name.into(), value.to_string()));
        self
    }

    /// Returns the text without definitions.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Returns the names of the kernels, except for those that macros make.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> {
        let declared = self.text.split("\nKERNEL(").skip(1);
        declared.map(|after| after.split([',', ')']).next().unwrap_or(after))
    }

    /// Returns the compiler's options for one of its kernels, or for all of them.
    pub fn options(&self, architecture: &str, kernel: Option<&str>) -> Vec<String> {
        let mut options =
            vec![format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned(), "-default-device".to_owned()];
        options.extend(self.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        match kernel {
            // `KERNEL` in intrinsics.cuh explains this option; the other one silences the warning that a constant of
            // another kernel is unused.
            Some(kernel) => options.extend([format!("-DONLY_{kernel}=~,"), "-diag-suppress=177".to_owned()]),
            None => options.push("-DALL_KERNELS".to_owned()),
        }
        options
    }

    /// Returns definitions, headers and source as one text.
    fn whole(&self) -> String {
        let defines: String = self.defines.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
        format!("{defines}{}// ---- {}.cu\n{}", headers(), self.name, self.text)
    }

    /// Returns the key of the compiled code: a hash of everything that it depends on but the compiler.
    pub(crate) fn key(&self, options: &[String]) -> u128 {
        let text = checksum(self.text.as_bytes());
        hash(format!("{options:?} {:x} {text:x}", headers_sum()).as_bytes())
    }

    /// Returns the path of a kernel in the cache, where each version of the compiler has its own.
    fn entry(&self, nvrtc: &Nvrtc, kernel: &str, architecture: &str, key: u128) -> Option<PathBuf> {
        let (major, minor) = nvrtc.version();
        let name = format!("{}-{kernel}-{architecture}-{major}.{minor}-{key:032x}.cubin", self.name);
        cache_folder().map(|folder| folder.join(name))
    }

    /// Returns a kernel's key in a pack.
    fn key_in(&self, pack: &Pack, kernel: &str) -> u128 {
        self.key(&self.options(pack.architecture(), Some(kernel)))
    }

    /// Returns whether [`Source::cubin`] will find a kernel in the pack or in the cache.
    pub(crate) fn is_compiled(&self, kernel: &str, architecture: &str) -> bool {
        if dump_folder().is_some() {
            return false;
        }
        if pack::get(architecture).is_some_and(|pack| pack.has(self.key_in(&pack, kernel))) {
            return true;
        }
        // Without the compiler, the solver that needs the kernel reports the error.
        let Ok(nvrtc) = Nvrtc::get() else { return false };
        let key = self.key(&self.options(architecture, Some(kernel)));
        self.entry(nvrtc, kernel, architecture, key).is_some_and(|entry| entry.exists())
    }

    /// Returns the machine code of a kernel for an architecture such as `sm_90`: from the pack, the cache, or the compiler.
    ///
    /// # Errors
    /// The kernel is neither in the pack nor in the cache, and NVRTC is missing or fails.
    pub fn cubin(&self, kernel: &str, architecture: &str) -> Result<Vec<u8>> {
        let dump = dump_folder();
        let pack = pack::get(architecture);
        if let (Some(pack), None) = (&pack, &dump)
            && let Some(cubin) = pack.read(self.key_in(pack, kernel))
        {
            return Ok(cubin);
        }
        let nvrtc = Nvrtc::get().map_err(|missing| match (&pack, missing) {
            (Some(pack), isobar_core::Error::Device { message, .. }) => error(format!(
                "the kernel {kernel} is not one of those compiled in {}; {message}",
                pack.path().display()
            )),
            (_, missing) => missing,
        })?;
        let options = self.options(architecture, Some(kernel));
        let key = self.key(&options);
        let entry = self.entry(nvrtc, kernel, architecture, key);
        if let (Some(entry), None) = (&entry, &dump)
            && let Some(cubin) = read_entry(entry)
        {
            return Ok(cubin);
        }
        let compiling = compilations::begin();
        let compiled = nvrtc.compile(&format!("{}.cu", self.name), self.text, &options)?;
        drop(compiling);
        if let Some(folder) = dump {
            self.dump(&folder, kernel, (architecture, key), &options, &compiled)?;
        }
        if let Some(entry) = entry {
            // Without a cache the next run compiles again.
            let _ = write_whole(&entry, &[&checksum(&compiled.cubin).to_le_bytes(), &compiled.cubin]);
        }
        Ok(compiled.cubin)
    }

    fn dump(
        &self,
        folder: &Path,
        kernel: &str,
        (architecture, key): (&str, u128),
        options: &[String],
        compiled: &crate::nvrtc::Compiled,
    ) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let name = format!("{}-{kernel}-{architecture}-{:08x}", self.name, key >> 96);
        let log = format!("{options:?}\n{}", compiled.log);
        std::fs::write(folder.join(format!("{name}.cu")), self.whole())?;
        std::fs::write(folder.join(format!("{name}.log")), log)?;
        std::fs::write(folder.join(format!("{name}.cubin")), &compiled.cubin)?;
        Ok(())
    }
}

/// Returns the folder of `ISOBAR_DUMP_KERNELS`, if set.
fn dump_folder() -> Option<PathBuf> {
    std::env::var_os("ISOBAR_DUMP_KERNELS").map(PathBuf::from)
}

/// Returns the folder of the cache; `None` without a home folder.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ISOBAR_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("isobar")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/isobar")))
}

/// Returns the FNV-1a hash (Fowler, Noll and Vo) of 128 bits.
fn hash(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn the_hash_is_that_of_its_authors() {
        assert_eq!(hash(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(hash(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
