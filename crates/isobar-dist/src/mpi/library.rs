//! The library: where it is, and what its functions are called with.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::path::PathBuf;

use isobar_core::error::Result;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::failure;

/// Where the library is, if the user says.
pub(super) const VARIABLE: &str = "ISOBAR_MPI";
/// Characters that a version may take, in any family.
const VERSION_LENGTH: usize = 8192;

/// Whose handles a library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Pointers with the fixed values of the MPI 5 standard's binary interface.
    Standard,
    /// Integers, as MPICH and all that descend from it have them.
    Mpich,
    /// Addresses of objects in Open MPI's library.
    OpenMpi,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard ABI",
            Self::Mpich => "MPICH's ABI",
            Self::OpenMpi => "Open MPI's ABI",
        })
    }
}

/// A handle as it is passed to functions: an integer, or as many bits as a pointer.
pub(super) trait Handle: Copy + fmt::Debug + Send + Sync + 'static {}

impl Handle for c_int {}
impl Handle for usize {}

/// Room for a request of any family.
pub(super) type Request = usize;

/// Room for the status of any family, which has 20 to 32 bytes.
#[repr(C, align(16))]
pub(super) struct Status([u8; 256]);

impl Status {
    pub(super) fn new() -> Self {
        Self([0; 256])
    }
}

type StartSend<H> = unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut Request) -> c_int;
type StartReceive<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut Request) -> c_int;
type Receive<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut Status) -> c_int;
type Probe<H> = unsafe extern "C" fn(c_int, c_int, H, *mut c_int, *mut Status) -> c_int;

/// A loaded library with handles of one kind.
#[derive(Debug)]
pub(super) struct Mpi<H> {
    pub(super) init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    pub(super) initialized: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(super) finalize: unsafe extern "C" fn() -> c_int,
    pub(super) comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    pub(super) comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    pub(super) comm_dup: unsafe extern "C" fn(H, *mut H) -> c_int,
    pub(super) isend: StartSend<H>,
    pub(super) irecv: StartReceive<H>,
    pub(super) test: unsafe extern "C" fn(*mut Request, *mut c_int, *mut Status) -> c_int,
    pub(super) probe: Probe<H>,
    pub(super) receive: Receive<H>,
    pub(super) abort: unsafe extern "C" fn(H, c_int) -> c_int,
    get_library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    /// MPI_COMM_WORLD
    pub(super) world: H,
    /// MPI_BYTE
    pub(super) byte: H,
    /// MPI_THREAD_SERIALIZED
    pub(super) serialized: c_int,
    /// MPI_ANY_SOURCE
    pub(super) any_source: c_int,
    pub(super) family: Family,
    /// What was opened.
    pub(super) name: String,
    /// Must stay loaded, also after this is gone: MPI has threads and exit handlers of its own.
    _library: std::mem::ManuallyDrop<Library>,
}

/// A library of either kind.
pub(super) enum Opened {
    Integers(Mpi<c_int>),
    Pointers(Mpi<usize>),
}

impl<H: Handle> Mpi<H> {
    fn new(library: Library, name: String, family: Family, world: H, byte: H, serialized: c_int) -> Result<Self> {
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: the MPI standard gives the function this type, handles being of the kind that H is.
                *unsafe { library.get($symbol) }
                    .map_err(|_| failure(format!("{name} has no {}", String::from_utf8_lossy($symbol))))?
            };
        }
        Ok(Self {
            init_thread: function!(b"MPI_Init_thread"),
            initialized: function!(b"MPI_Initialized"),
            finalize: function!(b"MPI_Finalize"),
            comm_rank: function!(b"MPI_Comm_rank"),
            comm_size: function!(b"MPI_Comm_size"),
            comm_dup: function!(b"MPI_Comm_dup"),
            isend: function!(b"MPI_Isend"),
            irecv: function!(b"MPI_Irecv"),
            test: function!(b"MPI_Test"),
            probe: function!(b"MPI_Iprobe"),
            receive: function!(b"MPI_Recv"),
            abort: function!(b"MPI_Abort"),
            get_library_version: function!(b"MPI_Get_library_version"),
            world,
            byte,
            serialized,
            any_source: if family == Family::Mpich { -2 } else { -1 },
            family,
            name,
            _library: std::mem::ManuallyDrop::new(library),
        })
    }

    /// What the library calls itself, the first line of it.
    pub(super) fn version(&self) -> String {
        let mut text = vec![0u8; VERSION_LENGTH + 1];
        let mut length = 0;
        // SAFETY: the function may be called at any time; there is room for the longest version.
        let status = unsafe { (self.get_library_version)(text.as_mut_ptr().cast(), &raw mut length) };
        if status != 0 {
            return "an unknown MPI".into();
        }
        text.truncate(usize::try_from(length).unwrap_or(0).min(VERSION_LENGTH));
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next().unwrap_or_default().split(',').next().unwrap_or_default();
        line.trim_end_matches('\0').split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// What is looked for, best first: what the process has already, what the user says, the launcher's own, what the loader
/// finds.
fn candidates() -> Vec<Option<PathBuf>> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return vec![Some(path.into())];
    }
    let is_open_mpi = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK"].iter().any(|name| std::env::var_os(name).is_some());
    let names: [&str; 3] = if is_open_mpi {
        ["libmpi.so.40", "libmpi_abi.so.1", "libmpi.so.12"]
    } else {
        ["libmpi_abi.so.1", "libmpi.so.12", "libmpi.so.40"]
    };
    let folders = std::env::var_os("PATH")
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|folder| folder.join("mpirun").exists() || folder.join("mpiexec").exists())
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
         libmpi_abi.so.1, libmpi.so.12 or libmpi.so.40",
        reason.unwrap_or_else(|| "nowhere to look".into())
    )))
}

/// Finds out whose handles a library has.
fn opened(library: Library, name: String) -> Result<Opened> {
    /// MPI_THREAD_SERIALIZED of the standard's binary interface, and of the others.
    const SERIALIZED: [c_int; 2] = [2048, 2];
    let address = |symbol: &[u8]| -> Option<usize> {
        // SAFETY: only the address is used.
        unsafe { library.get::<*const c_void>(symbol) }.ok().map(|symbol| symbol.into_raw() as usize)
    };
    if let (Some(world), Some(byte)) = (address(b"ompi_mpi_comm_world"), address(b"ompi_mpi_byte")) {
        return Mpi::new(library, name, Family::OpenMpi, world, byte, SERIALIZED[1]).map(Opened::Pointers);
    }
    let is_standard = {
        type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
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
        let (world, byte) = (0x101, 0x247);
        return Mpi::new(library, name, Family::Standard, world, byte, SERIALIZED[0]).map(Opened::Pointers);
    }
    let (world, byte) = (0x4400_0000, 0x4c00_010d);
    Mpi::new(library, name, Family::Mpich, world, byte, SERIALIZED[1]).map(Opened::Integers)
}
