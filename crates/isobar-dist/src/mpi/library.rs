//! This module finds the MPI library and the family that it belongs to.

use std::ffi::{c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};

use isobar_core::error::Result;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::failure::failure;
use super::functions::{Constants, Family, Mpi};

/// The environment variable that names the library.
pub(super) const VARIABLE: &str = "ISOBAR_MPI";
/// The names of the families' libraries; `libmpich.so.12` is Debian's name of MPICH.
const NAMES: [&str; 4] = ["libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so.40"];
/// The names of the programs that start processes: MPICH's, its helper on each machine, and Open MPI's of versions 4 and 5.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "hydra_pmi_proxy", "orte", "prte"];
/// A limit of ancestors that no process reaches.
const MOST_ANCESTORS: usize = 64;

/// A library of either kind.
pub(super) enum Opened {
    Integers(Mpi<c_int>),
    Pointers(Mpi<usize>),
}

/// Returns the places to search, best first: the process itself, the user's setting, next to the launcher that started it, the loader's
/// own search.
fn candidates() -> Vec<Option<PathBuf>> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return vec![Some(path.into())];
    }
    let is_open_mpi = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK"].iter().any(|name| std::env::var_os(name).is_some());
    let mut names = NAMES;
    if is_open_mpi {
        names.rotate_right(1);
    }
    let path = std::env::var_os("PATH");
    let on_path = path
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|folder| folder.join("mpirun").exists() || folder.join("mpiexec").exists());
    let folders = launchers(Path::new("/proc"))
        .into_iter()
        .chain(on_path)
        .filter_map(|folder| Some(folder.parent()?.join("lib")))
        .chain(
            ["VIRTUAL_ENV", "CONDA_PREFIX"]
                .into_iter()
                .filter_map(|root| Some(PathBuf::from(std::env::var_os(root)?).join("lib"))),
        )
        .collect::<Vec<_>>();
    let beside = folders.iter().take(1).flat_map(|folder| names.map(|name| folder.join(name)));
    let elsewhere = folders.iter().skip(1).flat_map(|folder| names.map(|name| folder.join(name)));
    let exists = |path: &PathBuf| path.exists();
    let loader = names.into_iter().map(PathBuf::from);
    std::iter::once(None).chain(beside.filter(exists).chain(loader).chain(elsewhere.filter(exists)).map(Some)).collect()
}

/// Returns the folders of the launchers that this process descends from, nearest first, if the system lists processes as Linux does in
/// `/proc`.
fn launchers(processes: &Path) -> Vec<PathBuf> {
    let parent = |process: &str| -> Option<String> {
        let stat = fs::read_to_string(processes.join(process).join("stat")).ok()?;
        // "PID (NAME) STATE PARENT …"; the name may have spaces and brackets.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
    };
    let is_launcher = |program: &PathBuf| {
        let name = program.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| LAUNCHERS.iter().any(|launcher| name.starts_with(launcher)))
    };
    std::iter::successors(parent("self"), |process| parent(process))
        .take(MOST_ANCESTORS)
        .filter_map(|process| fs::read_link(processes.join(process).join("exe")).ok())
        .filter(is_launcher)
        .filter_map(|program| Some(program.parent()?.to_path_buf()))
        .collect()
}

/// Opens the first library that can be used.
pub(super) fn open() -> Result<Opened> {
    let mut reason = None;
    for candidate in candidates() {
        match &candidate {
            None => {
                let this = Library::this();
                // SAFETY: only whether the symbol is there matters.
                if unsafe { this.get::<*const c_void>(b"MPI_Init_thread") }.is_ok() {
                    return opened(this, "this process".into());
                }
            }
            Some(path) => {
                // Open MPI's plug-ins look for its symbols among the global ones.
                // SAFETY: loading an MPI library runs nothing but its own initialisation.
                match unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
                    Ok(library) => return opened(library, path.display().to_string()),
                    Err(error) => {
                        let cause =
                            std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                        reason = reason.or(Some(cause));
                    }
                }
            }
        }
    }
    Err(failure(format!(
        "no MPI library was found ({}); install one, as by `pip install mpich`, or set {VARIABLE} to the path of its \
         libmpi_abi.so.1, libmpi.so.12, libmpich.so.12 or libmpi.so.40",
        reason.unwrap_or_else(|| "nowhere to look".into())
    )))
}

/// Returns the libraries that this process has loaded already, of which one may be in use: those that it is linked with, and those that
/// were loaded for private use, as interpreters do.
pub(super) fn loaded() -> Vec<Opened> {
    let this = Library::this();
    // SAFETY: only whether the symbol is there matters.
    let is_linked = unsafe { this.get::<*const c_void>(b"MPI_Init_thread") }.is_ok();
    let linked = is_linked.then(|| opened(this, "this process".into()));
    let others = NAMES.into_iter().filter_map(|name| {
        // SAFETY: nothing is loaded that is not there.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()?;
        Some(opened(library, name.into()))
    });
    linked.into_iter().chain(others).filter_map(Result::ok).collect()
}

/// Implements MPI_Comm_f2c for integer handles.
unsafe extern "C" fn same(handle: c_int) -> c_int {
    handle
}

/// Finds out whose handles a library has.
fn opened(library: Library, name: String) -> Result<Opened> {
    type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    type FromFortran = unsafe extern "C" fn(c_int) -> usize;
    let address = |symbol: &str| -> Result<usize> {
        // SAFETY: only the address is used.
        let found = unsafe { library.get::<*const c_void>(symbol.as_bytes()) };
        found.map(|symbol| symbol.into_raw() as usize).map_err(|_| failure(format!("{name} has no {symbol}")))
    };
    let function = |symbol: &str| -> Result<FromFortran> {
        // SAFETY: functions from an integer to a handle, by the standard.
        unsafe { library.get::<FromFortran>(symbol.as_bytes()) }
            .map(|f| *f)
            .map_err(|_| failure(format!("{name} has no {symbol}")))
    };
    if let Ok(world) = address("ompi_mpi_comm_world") {
        let constants = Constants {
            world,
            only_self: address("ompi_mpi_comm_self")?,
            null: address("ompi_mpi_comm_null")?,
            byte: address("ompi_mpi_byte")?,
            errors_return: address("ompi_mpi_errors_return")?,
            serialized: 2,
            any_source: -1,
            any_tag: -1,
            from_fortran: function("MPI_Comm_f2c")?,
        };
        return Mpi::new(library, name, Family::OpenMpi, constants).map(Opened::Pointers);
    }
    let is_standard = {
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: the MPI 5 standard gives the function this type, and it may be called at any time; a library with other
        // handles says -1.
        let is_known = unsafe {
            let get = library.get::<GetVersion>(b"MPI_Abi_get_version");
            get.is_ok_and(|get| get(&raw mut major, &raw mut minor) == 0)
        };
        is_known && major >= 1
    };
    if is_standard {
        let constants = Constants {
            world: 0x101,
            only_self: 0x102,
            null: 0x100,
            byte: 0x247,
            errors_return: 0x143,
            serialized: 2048,
            any_source: -1,
            any_tag: -2,
            from_fortran: function("MPI_Comm_fromint")?,
        };
        return Mpi::new(library, name, Family::Standard, constants).map(Opened::Pointers);
    }
    let constants = Constants {
        world: 0x4400_0000,
        only_self: 0x4400_0001,
        null: 0x0400_0000,
        byte: 0x4c00_010d,
        errors_return: 0x5400_0001,
        serialized: 2,
        any_source: -2,
        any_tag: -1,
        from_fortran: same,
    };
    Mpi::new(library, name, Family::Mpich, constants).map(Opened::Integers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_found_among_ancestors() {
        let processes = std::env::temp_dir().join(format!("isobar-launchers-{}", std::process::id()));
        let list = |process: &str, parent: u32, name: &str, program: &str| {
            let folder = processes.join(process);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("stat"), format!("7 ({name}) S {parent} 7 7 0 -1")).unwrap();
            std::os::unix::fs::symlink(program, folder.join("exe")).unwrap();
        };
        list("self", 40, "isobar", "/home/isobar");
        list("40", 30, "a ) b (c", "/usr/bin/bash");
        list("30", 20, "hydra_pmi_proxy", "/far/mpich/bin/hydra_pmi_proxy");
        list("20", 10, "mpiexec.hydra", "/near/mpich/bin/mpiexec.hydra");
        list("10", 1, "prterun", "/opt/ompi/bin/prterun");
        let found = launchers(&processes);
        fs::remove_dir_all(&processes).unwrap();
        assert_eq!(found, ["/far/mpich/bin", "/near/mpich/bin", "/opt/ompi/bin"].map(PathBuf::from));
        assert!(launchers(&processes).is_empty());
    }
}
