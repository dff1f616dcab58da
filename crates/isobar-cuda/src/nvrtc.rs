//! NVIDIA's run-time compiler, found when it is needed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use isobar_core::error::Result;
use libloading::Library;

use crate::driver::error;
use crate::kernels::HEADERS;

/// What NVRTC made of a source.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code.
    pub cubin: Vec<u8>,
    /// What the compiler said.
    pub log: String,
}

/// NVRTC, loaded.
#[derive(Debug)]
pub struct Nvrtc {
    /// Major and minor.
    version: (i32, i32),
    /// Where it was found.
    path: PathBuf,
    functions: Functions,
    _libraries: Vec<Library>,
}

type Program = *mut c_void;
type Text = *const c_char;

#[derive(Debug)]
struct Functions {
    create: unsafe extern "C" fn(*mut Program, Text, Text, c_int, *const Text, *const Text) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const Text) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> Text,
}

impl Functions {
    fn of(library: &Library) -> std::result::Result<Self, libloading::Error> {
        macro_rules! get {
            ($name:literal) => {
                *library.get($name)?
            };
        }
        // SAFETY: the types are those of nvrtc.h, unchanged since CUDA 11.
        unsafe {
            Ok(Self {
                create: get!(b"nvrtcCreateProgram\0"),
                compile: get!(b"nvrtcCompileProgram\0"),
                cubin_size: get!(b"nvrtcGetCUBINSize\0"),
                cubin: get!(b"nvrtcGetCUBIN\0"),
                log_size: get!(b"nvrtcGetProgramLogSize\0"),
                log: get!(b"nvrtcGetProgramLog\0"),
                destroy: get!(b"nvrtcDestroyProgram\0"),
                error_string: get!(b"nvrtcGetErrorString\0"),
            })
        }
    }
}

/// Where NVRTC may be, best first: what the user says, what the loader finds, the usual folders.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("ISOBAR_NVRTC") {
        return vec![path.into()];
    }
    let names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
    let mut all: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let mut folders: Vec<PathBuf> = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(std::env::var_os(variable).map(|root| PathBuf::from(root).join("lib64")));
    }
    folders.push("/usr/local/cuda/lib64".into());
    // NVIDIA's packages for Python.
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(root) = std::env::var_os(variable) else { continue };
        let Ok(pythons) = std::fs::read_dir(PathBuf::from(root).join("lib")) else { continue };
        for python in pythons.flatten() {
            let packages = python.path().join("site-packages/nvidia");
            folders.extend([packages.join("cu13/lib"), packages.join("cuda_nvrtc/lib")]);
        }
    }
    for folder in folders {
        all.extend(names.iter().map(|name| folder.join(name)).filter(|path| path.exists()));
    }
    all
}

/// The library that NVRTC itself loads, from the same folder; loaded first, it is found wherever it is.
fn builtins(path: &std::path::Path) -> Option<Library> {
    let entries = std::fs::read_dir(path.parent().filter(|folder| !folder.as_os_str().is_empty())?).ok()?;
    let file = entries.flatten().map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libnvrtc-builtins.so")
    })?;
    // SAFETY: loading NVIDIA's library runs nothing but its own initialisation.
    unsafe { Library::new(file) }.ok()
}

impl Nvrtc {
    /// NVRTC, loaded once a process.
    ///
    /// # Errors
    /// [`Error::Device`](isobar_core::Error::Device) where it is not found, saying how to get it.
    pub fn get() -> Result<&'static Self> {
        static FOUND: OnceLock<std::result::Result<Nvrtc, String>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref().map_err(|message| error(message.clone()))
    }

    fn find() -> std::result::Result<Self, String> {
        let mut reasons = Vec::new();
        for path in candidates() {
            match Self::load(path) {
                Ok(found) => return Ok(found),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!(
            "NVRTC, which compiles the kernels, is not found ({}); install it (pip install nvidia-cuda-nvrtc, or the \
             CUDA toolkit) and set ISOBAR_NVRTC to the path of libnvrtc.so, or use --device cpu",
            reasons.first().map_or("nowhere to look", String::as_str)
        ))
    }

    fn load(path: PathBuf) -> std::result::Result<Self, String> {
        let mut libraries: Vec<Library> = builtins(&path).into_iter().collect();
        // SAFETY: loading NVIDIA's library runs nothing but its own initialisation.
        let library = unsafe { Library::new(&path) }.map_err(|e| e.to_string())?;
        let functions = Functions::of(&library).map_err(|e| e.to_string())?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the type is that of nvrtc.h; both numbers outlive the call.
        unsafe {
            type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
            let version: Version = *library.get(b"nvrtcVersion\0").map_err(|e| e.to_string())?;
            version(&raw mut major, &raw mut minor);
        }
        libraries.push(library);
        Ok(Self { version: (major, minor), path, functions, _libraries: libraries })
    }

    /// Major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Where it was found: a path, or the name that the loader knows.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Compiles a source, which may include [`HEADERS`], into machine code.
    ///
    /// # Errors
    /// [`Error::Device`](isobar_core::Error::Device) with the compiler's log.
    pub fn compile(&self, name: &str, source: &str, options: &[String]) -> Result<Compiled> {
        let text = |s: &str| CString::new(s).map_err(|_| error(format!("{name}: a NUL in what is to be compiled")));
        let (source, file) = (text(source)?, text(name)?);
        let names = HEADERS.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
        let texts = HEADERS.iter().map(|(_, header)| text(header)).collect::<Result<Vec<_>>>()?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
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
        // SAFETY: the program is alive until `destroy`; buffers are as long as NVRTC says they must be.
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
        // SAFETY: NVRTC returns a string of its own for every code.
        let what = unsafe { CStr::from_ptr((self.functions.error_string)(code)) }.to_string_lossy();
        let (major, minor) = self.version;
        Err(error(format!(
            "NVRTC {major}.{minor} could not compile {name}: {what}; another version may (set ISOBAR_NVRTC to its \
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
    // SAFETY: as required of the caller; the buffer is as long as NVRTC says it must be.
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
