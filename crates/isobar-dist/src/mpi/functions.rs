//! This module loads a library's functions, and defines their constants and types.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;

use isobar_core::error::Result;
use libloading::os::unix::Library;

use super::failure::failure;

/// Characters that a version may take, in any family.
const VERSION_LENGTH: usize = 8192;
/// Characters that the message of an error may take, in any family.
const ERROR_LENGTH: usize = 512;

/// The family of a library, which determines its handles.
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
pub(super) trait Handle: Copy + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// A value that is no library's handle.
    const ZERO: Self;
}

impl Handle for c_int {
    const ZERO: Self = 0;
}

impl Handle for usize {
    const ZERO: Self = 0;
}

/// A request, with room for any family's.
pub(super) type Request = usize;

/// A status, with room for any family's 20 to 32 bytes.
#[repr(C, align(16))]
pub(super) struct Status([u8; 256]);

impl Status {
    pub(super) fn new() -> Self {
        Self([0; 256])
    }
}

/// The constants that the header of a family defines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants<H> {
    /// MPI_COMM_WORLD
    pub(super) world: H,
    /// MPI_COMM_SELF
    pub(super) only_self: H,
    /// MPI_COMM_NULL
    pub(super) null: H,
    /// MPI_BYTE
    pub(super) byte: H,
    /// MPI_ERRORS_RETURN
    pub(super) errors_return: H,
    /// MPI_THREAD_SERIALIZED
    pub(super) serialized: c_int,
    /// MPI_ANY_SOURCE
    pub(super) any_source: c_int,
    /// MPI_ANY_TAG
    pub(super) any_tag: c_int,
    /// MPI_Comm_f2c, which is a macro in some families.
    pub(super) from_fortran: unsafe extern "C" fn(c_int) -> H,
}

type StartSend<H> = unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut Request) -> c_int;
type StartReceive<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut Request) -> c_int;
type Receive<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut Status) -> c_int;
type Probe<H> = unsafe extern "C" fn(c_int, c_int, H, *mut c_int, *mut Status) -> c_int;
type AskHandle<H, R> = unsafe extern "C" fn(H, *mut R) -> c_int;
type Ask = unsafe extern "C" fn(*mut c_int) -> c_int;

/// A loaded library with handles of one kind.
#[derive(Debug)]
pub(super) struct Mpi<H> {
    pub(super) init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    pub(super) initialized: Ask,
    pub(super) finalized: Ask,
    pub(super) query_thread: Ask,
    pub(super) is_thread_main: Ask,
    pub(super) finalize: unsafe extern "C" fn() -> c_int,
    pub(super) comm_rank: AskHandle<H, c_int>,
    pub(super) comm_size: AskHandle<H, c_int>,
    pub(super) comm_test_inter: AskHandle<H, c_int>,
    pub(super) comm_dup: AskHandle<H, H>,
    pub(super) comm_free: unsafe extern "C" fn(*mut H) -> c_int,
    pub(super) get_errhandler: AskHandle<H, H>,
    pub(super) set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    pub(super) errhandler_free: unsafe extern "C" fn(*mut H) -> c_int,
    pub(super) isend: StartSend<H>,
    pub(super) irecv: StartReceive<H>,
    pub(super) test: unsafe extern "C" fn(*mut Request, *mut c_int, *mut Status) -> c_int,
    pub(super) cancel: unsafe extern "C" fn(*mut Request) -> c_int,
    pub(super) test_cancelled: unsafe extern "C" fn(*const Status, *mut c_int) -> c_int,
    pub(super) get_count: unsafe extern "C" fn(*const Status, H, *mut c_int) -> c_int,
    pub(super) probe: Probe<H>,
    pub(super) receive: Receive<H>,
    pub(super) abort: unsafe extern "C" fn(H, c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    get_library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    pub(super) constants: Constants<H>,
    pub(super) family: Family,
    /// The opened library.
    pub(super) name: String,
    /// The library stays loaded after this value is dropped, because MPI has threads and exit handlers of its own.
    _library: std::mem::ManuallyDrop<Library>,
}

impl<H: Handle> Mpi<H> {
    pub(super) fn new(library: Library, name: String, family: Family, constants: Constants<H>) -> Result<Self> {
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
            finalized: function!(b"MPI_Finalized"),
            query_thread: function!(b"MPI_Query_thread"),
            is_thread_main: function!(b"MPI_Is_thread_main"),
            finalize: function!(b"MPI_Finalize"),
            comm_rank: function!(b"MPI_Comm_rank"),
            comm_size: function!(b"MPI_Comm_size"),
            comm_test_inter: function!(b"MPI_Comm_test_inter"),
            comm_dup: function!(b"MPI_Comm_dup"),
            comm_free: function!(b"MPI_Comm_free"),
            get_errhandler: function!(b"MPI_Comm_get_errhandler"),
            set_errhandler: function!(b"MPI_Comm_set_errhandler"),
            errhandler_free: function!(b"MPI_Errhandler_free"),
            isend: function!(b"MPI_Isend"),
            irecv: function!(b"MPI_Irecv"),
            test: function!(b"MPI_Test"),
            cancel: function!(b"MPI_Cancel"),
            test_cancelled: function!(b"MPI_Test_cancelled"),
            get_count: function!(b"MPI_Get_count"),
            probe: function!(b"MPI_Iprobe"),
            receive: function!(b"MPI_Recv"),
            abort: function!(b"MPI_Abort"),
            error_string: function!(b"MPI_Error_string"),
            get_library_version: function!(b"MPI_Get_library_version"),
            constants,
            family,
            name,
            _library: std::mem::ManuallyDrop::new(library),
        })
    }

    /// Fails if a function has not returned MPI_SUCCESS; to be called while MPI runs.
    pub(super) fn check(&self, what: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0u8; ERROR_LENGTH + 1];
        let mut length = 0;
        // SAFETY: there is room for the longest message.
        let status = unsafe { (self.error_string)(code, text.as_mut_ptr().cast(), &raw mut length) };
        text.truncate(if status == 0 { usize::try_from(length).unwrap_or(0).min(ERROR_LENGTH) } else { 0 });
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next().unwrap_or_default().trim_end_matches('\0').trim();
        Err(failure(format!("{what} failed with error {code} ({line})")))
    }

    /// Calls an MPI function that returns a number.
    pub(super) fn ask(&self, what: &str, function: Ask) -> Result<c_int> {
        let mut answer = 0;
        // SAFETY: it writes one number.
        let code = unsafe { function(&raw mut answer) };
        // Before MPI is started it has no messages.
        if code == 0 { Ok(answer) } else { Err(failure(format!("{what} failed with error {code}"))) }
    }

    /// Calls an MPI function that returns a number of a communicator.
    pub(super) fn ask_of<R>(&self, what: &str, function: AskHandle<H, R>, communicator: H, mut answer: R) -> Result<R> {
        // SAFETY: it writes one answer.
        let code = unsafe { function(communicator, &raw mut answer) };
        self.check(what, code).map(|()| answer)
    }

    /// Returns the length of a received message, in bytes.
    pub(super) fn count(&self, status: &Status) -> Result<usize> {
        let mut count = 0;
        // SAFETY: a status that the library has filled.
        let code = unsafe { (self.get_count)(status, self.constants.byte, &raw mut count) };
        self.check("MPI_Get_count", code)?;
        usize::try_from(count).map_err(|_| failure(format!("a message of {count} bytes")))
    }

    /// Returns the first line of the library's description of itself.
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
