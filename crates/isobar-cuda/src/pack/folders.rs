//! This module lists the folders in which packs are searched.

use std::path::{Path, PathBuf};

/// Returns the folder `ISOBAR_KERNELS`, or those that belong to the library or program that contains this code.
pub(super) fn all() -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("ISOBAR_KERNELS") {
        return if folder.is_empty() { Vec::new() } else { vec![folder.into()] };
    }
    let this = library().or_else(|| std::env::current_exe().ok()).and_then(|path| path.canonicalize().ok());
    let folder = this.as_deref().and_then(Path::parent);
    folder.map_or_else(Vec::new, |folder| vec![folder.to_owned(), folder.join("../share/isobar")])
}

/// Returns the path of the shared library that contains this code; `None` if that is not known.
#[cfg(unix)]
fn library() -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
    use std::os::unix::ffi::OsStrExt as _;

    /// `Dl_info` of dlfcn.h.
    #[repr(C)]
    struct Information {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        address: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, information: *mut Information) -> c_int;
    }
    let null = std::ptr::null_mut();
    let mut found = Information { file: null, base: null.cast(), symbol: null, address: null.cast() };
    // SAFETY: declared as in dlfcn.h; the name, if there is one, lives as long as the library.
    let file = unsafe {
        let known = dladdr(library as fn() -> Option<PathBuf> as *const c_void, &raw mut found);
        if known == 0 || found.file.is_null() {
            return None;
        }
        CStr::from_ptr(found.file)
    };
    let path = PathBuf::from(OsStr::from_bytes(file.to_bytes()));
    // For a program, `dladdr` returns argv[0], which may be relative; only absolute paths are used.
    path.is_absolute().then_some(path)
}

#[cfg(not(unix))]
fn library() -> Option<PathBuf> {
    None
}
