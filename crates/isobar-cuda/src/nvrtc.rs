//! NVIDIA's run-time compiler, loaded on demand.

use std::ffi::{CString, c_char, c_int, c_void};

use isobar_core::error::Result;
use libloading::Library;

use crate::driver::error;
use crate::kernels::HEADERS;
use crate::libraries::{self, Loaded, Once, Wanted, symbol};

/// The result of a compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code.
    pub cubin: Vec<u8>,
    /// The compiler's messages.
    pub log: String,
}

type Program = *mut c_void;
type Text = *const c_char;

/// The functions that are used.
#[derive(Debug)]
pub struct Functions {
    create: unsafe extern "C" fn(*mut Program, Text, Text, c_int, *const Text, *const Text) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const Text) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> Text,
}

/// The loaded library.
pub type Nvrtc = Loaded<Functions>;

impl libraries::Functions for Functions {
    const WANTED: Wanted<'static> = Wanted {
        what: "NVRTC, which compiles the kernels",
        remedy: "install it (pip install nvidia-cuda-nvrtc, or the CUDA toolkit) and set ISOBAR_NVRTC to the path of \
             libnvrtc.so, or use the device \"cpu\"",
        variable: "ISOBAR_NVRTC",
        names: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
        packages: &["cu13/lib", "cuda_nvrtc/lib"],
        neighbour: "libnvrtc-builtins.so",
    };

    fn loaded() -> &'static Once<Self> {
        static LOADED: Once<Functions> = Once::new();
        &LOADED
    }

    fn of(library: &Library) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the types are those of nvrtc.h, unchanged since CUDA 11.
        unsafe {
            Ok(Self {
                create: symbol!(library, b"nvrtcCreateProgram\0"),
                compile: symbol!(library, b"nvrtcCompileProgram\0"),
                cubin_size: symbol!(library, b"nvrtcGetCUBINSize\0"),
                cubin: symbol!(library, b"nvrtcGetCUBIN\0"),
                log_size: symbol!(library, b"nvrtcGetProgramLogSize\0"),
                log: symbol!(library, b"nvrtcGetProgramLog\0"),
                destroy: symbol!(library, b"nvrtcDestroyProgram\0"),
                error_string: symbol!(library, b"nvrtcGetErrorString\0"),
            })
        }
    }

    fn version(library: &Library) -> std::result::Result<(i32, i32), libloading::Error> {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the type is that of nvrtc.h; both numbers outlive the call.
        unsafe { (library.get::<Version>(b"nvrtcVersion\0")?)(&raw mut major, &raw mut minor) };
        Ok((major, minor))
    }
}

impl Nvrtc {
    /// Compiles a source, which may include [`HEADERS`], to machine code.
    ///
    /// # Errors
    /// [`Error::Device`](isobar_core::Error::Device) with the compiler's log.
    pub fn compile(&self, name: &str, source: &str, options: &[String]) -> Result<Compiled> {
        let text = |s: &str| CString::new(s).map_err(|_| error(format!("{name}: a NUL in what is to be compiled")));
        let (source, file) = (text(source)?, text(name)?);
        let names = HEADERS.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
        let texts = HEADERS.iter().map(|(_, header)| text(header)).collect::<Result<Vec<_>>>()?;
        // NVRTC 13.0 and later have a cache that many processes share; isobar's own cache is enough.
        let no_cache = (self.version() >= (13, 0)).then_some("--no-cache");
        let options = options.iter().map(String::as_str).chain(no_cache).map(text).collect::<Result<Vec<_>>>()?;
        let pointers = |strings: &[CString]| strings.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (names, texts, options) = (pointers(&names), pointers(&texts), pointers(&options));
        let f = &self.functions;
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: all strings end with NUL and outlive the call.
        let code = unsafe {
            let count = names.len() as c_int;
            (f.create)(&raw mut program, source.as_ptr(), file.as_ptr(), count, texts.as_ptr(), names.as_ptr())
        };
        self.check(code, name, "")?;
        // SAFETY: the program is alive until `destroy`; buffers have the lengths that NVRTC returned.
        let (code, log, cubin) = unsafe {
            let code = (f.compile)(program, options.len() as c_int, options.as_ptr());
            let log = fetch(program, f.log_size, f.log).unwrap_or_default();
            let cubin = if code == 0 { fetch(program, f.cubin_size, f.cubin) } else { Ok(Vec::new()) };
            (f.destroy)(&raw mut program);
            (code, log, cubin)
        };
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
        self.check(code, name, &log)?;
        match cubin {
            Ok(cubin) => Ok(Compiled { cubin, log }),
            Err(code) => {
                self.check(code, name, &log)?;
                Err(error(format!("NVRTC made nothing of {name}")))
            }
        }
    }

    fn check(&self, code: c_int, name: &str, log: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let (version, what) = self.describe(self.functions.error_string, code);
        Err(error(format!(
            "NVRTC {version} could not compile {name}: {what}; try another version (set ISOBAR_NVRTC to its \
             libnvrtc.so)\n{log}"
        )))
    }
}

/// # Safety
/// The program must be alive, and the two functions a pair of NVRTC's.
unsafe fn fetch(
    program: Program,
    size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
) -> std::result::Result<Vec<u8>, c_int> {
    let mut bytes = 0;
    // SAFETY: promised by the caller; the buffer has the length that NVRTC returned.
    unsafe {
        match size(program, &raw mut bytes) {
            0 => {}
            code => return Err(code),
        }
        let mut out = vec![0u8; bytes];
        match get(program, out.as_mut_ptr().cast()) {
            0 => Ok(out),
            code => Err(code),
        }
    }
}
