//! Search for NVIDIA's libraries at run time.

use std::path::{Path, PathBuf};

use libloading::Library;

/// A library to be searched for.
pub(crate) struct Wanted<'a> {
    /// The environment variable with its path, which overrides the search.
    pub(crate) variable: &'a str,
    /// Its file names, in order of preference.
    pub(crate) names: &'a [&'a str],
    /// Folders of NVIDIA's Python packages that contain it.
    pub(crate) packages: &'a [&'a str],
    /// The beginning of the file name of a library that this one loads itself.
    pub(crate) neighbour: &'a str,
}

/// Formats the loader's error.
pub(crate) fn describe(error: libloading::Error) -> String {
    let cause = std::error::Error::source(&error);
    cause.map_or_else(|| error.to_string(), ToString::to_string)
}

impl Wanted<'_> {
    /// Returns the first candidate for which `load` succeeds; `load` also receives the neighbour library, which must stay loaded.
    /// Otherwise returns the first error.
    pub(crate) fn find<R>(&self, load: impl Fn(PathBuf, Vec<Library>) -> Result<R, String>) -> Result<R, String> {
        let mut reason = None;
        for path in self.candidates() {
            let neighbour = self.load_neighbour(&path).into_iter().collect();
            match load(path, neighbour) {
                Ok(found) => return Ok(found),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        Err(reason.unwrap_or_else(|| "no place to search".to_owned()))
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
