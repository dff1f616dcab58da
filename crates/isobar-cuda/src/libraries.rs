//! Search for NVIDIA's libraries at run time.

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::driver;

/// A library to be searched for.
pub struct Wanted<'a> {
    /// The library's name, and what needs it.
    pub(crate) what: &'a str,
    /// The remedy if it is not found.
    pub(crate) remedy: &'a str,
    /// The environment variable with its path, which overrides the search.
    pub(crate) variable: &'a str,
    /// The library's file names, in order of preference.
    pub(crate) names: &'a [&'a str],
    /// Folders of NVIDIA's Python packages that contain it.
    pub(crate) packages: &'a [&'a str],
    /// The beginning of the file name of a library that this one loads itself.
    pub(crate) neighbour: &'a str,
}

/// The functions of a library that are used.
pub trait Functions: Sized + 'static {
    /// The description of the library that the search needs.
    const WANTED: Wanted<'static>;

    /// Returns the library that the process has loaded, or the reason why there is none.
    fn loaded() -> &'static Once<Self>;

    /// Finds them by their symbols.
    fn of(library: &Library) -> Result<Self, libloading::Error>;

    /// Returns the library's major and minor version.
    fn version(library: &Library) -> Result<(i32, i32), libloading::Error>;
}

/// A library that is loaded once, or why it was not found.
pub(crate) type Once<F> = OnceLock<Result<Loaded<F>, String>>;

/// Finds a function by its symbol; its type is that of the place it is for.
macro_rules! symbol {
    ($library:ident, $name:literal) => {
        *$library.get($name)?
    };
}

pub(crate) use symbol;

/// A loaded library.
#[derive(Debug)]
pub struct Loaded<F> {
    version: (i32, i32),
    path: PathBuf,
    pub(crate) functions: F,
    _libraries: Vec<Library>,
}

impl<F: Functions> Loaded<F> {
    /// Loads the library, once per process.
    ///
    /// # Errors
    /// [`Error::Device`](isobar_core::Error::Device) if it is not found, with instructions to install it.
    pub fn get() -> isobar_core::Result<&'static Self> {
        let found = F::loaded().get_or_init(|| F::WANTED.find());
        found.as_ref().map_err(|message| driver::error(message.clone()))
    }

    /// Returns the library's version, and the description of a code by this function of the library.
    pub(crate) fn describe(&self, text: unsafe extern "C" fn(c_int) -> *const c_char, code: c_int) -> (String, String) {
        // SAFETY: the library returns a static string for every code.
        let what = unsafe { CStr::from_ptr(text(code)) }.to_string_lossy().into_owned();
        (format!("{}.{}", self.version.0, self.version.1), what)
    }

    /// Returns its major and minor version, which is not CUDA's.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Returns its path, or the name by which the loader finds it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Formats the loader's error.
fn describe(error: libloading::Error) -> String {
    let cause = std::error::Error::source(&error);
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}

impl Wanted<'_> {
    /// Loads the first candidate that has the functions; if there is none, returns the first error and the remedy.
    pub(crate) fn find<F: Functions>(&self) -> Result<Loaded<F>, String> {
        let mut reason: Option<String> = None;
        for path in self.candidates() {
            match self.load(path) {
                Ok(found) => return Ok(found),
                Err(why) => reason = reason.or(Some(describe(why))),
            }
        }
        let reason = reason.as_deref().unwrap_or("no place to search");
        Err(format!("{}, was not found ({reason}); {}", self.what, self.remedy))
    }

    fn load<F: Functions>(&self, path: PathBuf) -> Result<Loaded<F>, libloading::Error> {
        let mut libraries: Vec<Library> = self.load_neighbour(&path).into_iter().collect();
        // SAFETY: loading NVIDIA's library runs nothing but its own initialisation.
        let library = unsafe { Library::new(&path) }?;
        let (functions, version) = (F::of(&library)?, F::version(&library)?);
        libraries.push(library);
        Ok(Loaded { version, path, functions, _libraries: libraries })
    }

    /// Returns the candidate paths in order of preference: the user's, those the loader finds, the usual folders.
    fn candidates(&self) -> Vec<PathBuf> {
        if let Some(path) = std::env::var_os(self.variable) {
            return vec![path.into()];
        }
        let mut all: Vec<PathBuf> = self.names.iter().map(PathBuf::from).collect();
        let mut folders: Vec<PathBuf> = Vec::new();
        for variable in ["CUDA_HOME", "CUDA_PATH"] {
            folders.extend(std::env::var_os(variable).map(|root| PathBuf::from(root).join("lib64")));
        }
        folders.push("/usr/local/cuda/lib64".into());
        for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
            let Some(root) = std::env::var_os(variable) else { continue };
            let Ok(pythons) = std::fs::read_dir(PathBuf::from(root).join("lib")) else { continue };
            for python in pythons.flatten() {
                let packages = python.path().join("site-packages/nvidia");
                folders.extend(self.packages.iter().map(|package| packages.join(package)));
            }
        }
        for folder in folders {
            all.extend(self.names.iter().map(|name| folder.join(name)).filter(|path| path.exists()));
        }
        all
    }

    /// Loads the neighbour library from the same folder first, so that the library finds it wherever it is.
    fn load_neighbour(&self, path: &Path) -> Option<Library> {
        let entries = std::fs::read_dir(path.parent().filter(|folder| !folder.as_os_str().is_empty())?).ok()?;
        let file = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.file_name().unwrap_or_default().to_string_lossy().starts_with(self.neighbour))?;
        // SAFETY: loading NVIDIA's library runs nothing but its own initialisation.
        unsafe { Library::new(file) }.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Functions, Wanted};
    use crate::{nccl, nvrtc};

    fn check<F: Functions>(package: &str) {
        let missing =
            Wanted { variable: "ISOBAR_NOT_SET", names: &["libisobar_has_no_such.so"], packages: &[], ..F::WANTED };
        let Err(message) = missing.find::<F>() else { panic!("{package} was found") };
        assert!(message.contains(F::WANTED.variable) && message.contains(package), "{message}");
        assert!(message.contains("libisobar_has_no_such.so"), "{message}");
    }

    #[test]
    fn a_missing_library_is_an_error_with_a_remedy() {
        check::<nccl::Functions>("nvidia-nccl");
        check::<nvrtc::Functions>("nvidia-cuda-nvrtc");
    }
}
