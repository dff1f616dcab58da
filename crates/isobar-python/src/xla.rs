//! The C interface by which XLA calls functions of other libraries, as `xla/ffi/api/c_api.h` of jaxlib declares it (version 0.3; later versions
//! accept functions of earlier ones).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::slice;

use isobar::{Precision, RawArray, RawMemory};

use crate::array::Batch;

/// `XLA_FFI_API_MAJOR`
const MAJOR: c_int = 0;
/// The `XLA_FFI_API_MINOR` of the header that this file follows. The parts that it uses are the same in all earlier versions.
const MINOR: c_int = 3;
/// The version of the first jaxlib that JAX's public interface comes with.
const FIRST_MINOR: c_int = 1;
/// `XLA_FFI_Extension_Metadata`
const METADATA: c_int = 1;
/// `XLA_FFI_ExecutionStage_EXECUTE`
const EXECUTE: c_int = 3;
/// `XLA_FFI_ArgType_BUFFER` and `XLA_FFI_RetType_BUFFER`
const BUFFER: c_int = 1;
/// `XLA_FFI_AttrType_SCALAR`
const SCALAR: c_int = 3;
/// `XLA_FFI_DataType_S64`, `_F32` and `_F64`
const S64: c_int = 5;
const F32: c_int = 11;
const F64: c_int = 12;

/// `XLA_FFI_Error_Code_INVALID_ARGUMENT`, `_FAILED_PRECONDITION` and `_INTERNAL`
#[derive(Clone, Copy, Debug)]
pub(crate) enum Code {
    InvalidArgument = 3,
    FailedPrecondition = 9,
    Internal = 13,
}

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut Extension,
}

#[repr(C)]
struct ApiVersion {
    struct_size: usize,
    extensions: *mut Extension,
    major: c_int,
    minor: c_int,
}

/// A function of XLA that takes a struct of arguments and returns an error, or null.
type Function<A> = Option<unsafe extern "C" fn(*mut A) -> *mut XlaError>;

/// `XLA_FFI_Error`, which belongs to XLA once a handler returns it.
#[repr(C)]
pub(crate) struct XlaError {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Api {
    struct_size: usize,
    extensions: *mut Extension,
    version: ApiVersion,
    internal: *const c_void,
    error_create: Function<ErrorCreate>,
    error_get_message: Option<unsafe extern "C" fn(*mut ErrorGetMessage)>,
    error_destroy: Option<unsafe extern "C" fn(*mut ErrorDestroy)>,
    handler_register: *const c_void,
    stream_get: Function<StreamGet>,
    /// Types, states, device memory, threads, futures and runs.
    others: [*const c_void; 12],
    ordinal_get: Function<OrdinalGet>,
}

#[repr(C)]
struct ErrorCreate {
    struct_size: usize,
    extensions: *mut Extension,
    message: *const c_char,
    code: c_int,
}

#[repr(C)]
struct ErrorGetMessage {
    struct_size: usize,
    extensions: *mut Extension,
    error: *mut XlaError,
    message: *const c_char,
}

#[repr(C)]
struct ErrorDestroy {
    struct_size: usize,
    extensions: *mut Extension,
    error: *mut XlaError,
}

#[repr(C)]
struct StreamGet {
    struct_size: usize,
    extensions: *mut Extension,
    context: *mut c_void,
    stream: *mut c_void,
}

#[repr(C)]
struct OrdinalGet {
    struct_size: usize,
    extensions: *mut Extension,
    context: *mut c_void,
    ordinal: i32,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`
#[repr(C)]
struct Buffers {
    struct_size: usize,
    extensions: *mut Extension,
    count: i64,
    kinds: *const c_int,
    values: *const *const Buffer,
}

#[repr(C)]
struct Buffer {
    struct_size: usize,
    extensions: *mut Extension,
    kind: c_int,
    data: *mut c_void,
    rank: i64,
    lengths: *const i64,
}

#[repr(C)]
struct Attributes {
    struct_size: usize,
    extensions: *mut Extension,
    count: i64,
    kinds: *const c_int,
    names: *const *const Text,
    values: *const *const Scalar,
}

/// `XLA_FFI_ByteSpan`
#[repr(C)]
struct Text {
    start: *const u8,
    length: usize,
}

#[repr(C)]
struct Scalar {
    kind: c_int,
    value: *const c_void,
}

/// `XLA_FFI_CallFrame` up to its attributes, which all versions have.
#[repr(C)]
pub(crate) struct CallFrame {
    struct_size: usize,
    extensions: *mut Extension,
    api: *const Api,
    context: *mut c_void,
    stage: c_int,
    arguments: Buffers,
    results: Buffers,
    attributes: Attributes,
}

/// `XLA_FFI_Metadata` up to its traits.
#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: ApiVersion,
    traits: u32,
}

#[repr(C)]
struct MetadataExtension {
    extension: Extension,
    metadata: *mut Metadata,
}

/// The place of a call: the host, or a GPU, whose stream XLA has ordered its work by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host,
    Gpu,
}

/// A call by XLA.
pub(crate) struct Call<'a> {
    frame: &'a CallFrame,
    api: &'a Api,
}

/// Answers XLA: describes the handler if XLA requests that, or does its work.
///
/// # Safety
/// `frame` is what XLA gives to a handler, valid until this returns.
pub(crate) unsafe fn answer(
    frame: *mut CallFrame,
    work: impl FnOnce(&Call<'_>) -> Result<(), (Code, String)>,
) -> *mut XlaError {
    // SAFETY: XLA gives a valid frame, whose first members are the same in all versions, and a valid chain of extensions, of which one of this kind has
    // this type. Version 0.1 passes no functions when it asks for the metadata.
    let (frame, api) = unsafe {
        let api = (*frame).api.as_ref();
        let mut extension = (*frame).extensions;
        while !extension.is_null() {
            if (*extension).kind == METADATA {
                describe(&mut *(*extension.cast::<MetadataExtension>()).metadata, api);
                return std::ptr::null_mut();
            }
            extension = (*extension).next;
        }
        match api {
            Some(api) => (&*frame, api),
            None => return std::ptr::null_mut(),
        }
    };
    let call = Call { frame, api };
    if frame.struct_size < size_of::<CallFrame>() || frame.stage != EXECUTE {
        let (size, stage) = (frame.struct_size, frame.stage);
        let message = format!("XLA calls isobar in stage {stage} with {size} bytes, as no known version does");
        return call.fail(Code::Internal, message);
    }
    match work(&call) {
        Ok(()) => std::ptr::null_mut(),
        Err((code, message)) => call.fail(code, message),
    }
}

/// Reports to XLA which version the handler follows; XLA refuses those that it does not support, and handlers without one.
fn describe(metadata: &mut Metadata, api: Option<&Api>) {
    if metadata.struct_size < offset_of!(Metadata, traits) + size_of::<u32>() {
        return;
    }
    let minor = api.map_or(FIRST_MINOR, |api| api.version.minor.min(MINOR));
    (metadata.version.major, metadata.version.minor) = (MAJOR, minor);
    metadata.traits = 0;
}

impl Call<'_> {
    /// Returns an integer attribute.
    pub(crate) fn attribute(&self, name: &str) -> Result<i64, (Code, String)> {
        let Attributes { count, kinds, names, values, .. } = self.frame.attributes;
        for n in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: there are as many names, kinds and values as XLA says, and one of this kind is a scalar.
            unsafe {
                let Text { start, length } = **names.add(n);
                if slice::from_raw_parts(start, length) == name.as_bytes() && *kinds.add(n) == SCALAR {
                    let scalar = &**values.add(n);
                    if scalar.kind == S64 {
                        return Ok(scalar.value.cast::<i64>().read_unaligned());
                    }
                }
            }
        }
        Err((Code::Internal, format!("XLA passes no integer {name:?}")))
    }

    /// Returns the arguments and the results, each in C order with the grid's three axes last.
    pub(crate) fn arrays(&self, place: Place) -> Result<[Vec<Batch>; 2], (Code, String)> {
        let memory = match place {
            Place::Host => RawMemory::Host,
            Place::Gpu => self.gpu()?,
        };
        let all = [&self.frame.arguments, &self.frame.results];
        let [arguments, results] = all.map(|buffers| {
            let count = usize::try_from(buffers.count).unwrap_or(0);
            // SAFETY: there are as many kinds and values as XLA says, and one of this kind is a buffer.
            let each = (0..count).map(|n| unsafe {
                if *buffers.kinds.add(n) == BUFFER {
                    batch(&**buffers.values.add(n), memory)
                } else {
                    Err("something else than an array".into())
                }
            });
            each.collect::<Result<Vec<_>, String>>().map_err(|message| (Code::Internal, message))
        });
        Ok([arguments?, results?])
    }

    /// Returns the GPU of the call and its stream.
    fn gpu(&self) -> Result<RawMemory, (Code, String)> {
        let api = self.api;
        let context = self.frame.context;
        let mut stream = StreamGet {
            struct_size: size_of::<StreamGet>(),
            extensions: std::ptr::null_mut(),
            context,
            stream: std::ptr::null_mut(),
        };
        let mut device =
            OrdinalGet { struct_size: size_of::<OrdinalGet>(), extensions: std::ptr::null_mut(), context, ordinal: 0 };
        // Before jaxlib 0.6 there was no function for the device.
        let has_ordinal = api.struct_size >= offset_of!(Api, ordinal_get) + size_of::<usize>();
        let (Some(stream_get), Some(ordinal_get)) = (api.stream_get, if has_ordinal { api.ordinal_get } else { None })
        else {
            return Err((
                Code::FailedPrecondition,
                "this jaxlib is too old for arrays on a GPU; install a newer one".into(),
            ));
        };
        // SAFETY: XLA's functions, with arguments as declared.
        unsafe {
            self.check(stream_get(&raw mut stream))?;
            self.check(ordinal_get(&raw mut device))?;
        }
        let ordinal =
            usize::try_from(device.ordinal).map_err(|_| (Code::Internal, "a GPU without a number".to_owned()))?;
        Ok(RawMemory::Cuda { ordinal, stream: Some(stream.stream.addr() as u64) })
    }

    /// Converts an error of one of XLA's functions.
    unsafe fn check(&self, error: *mut XlaError) -> Result<(), (Code, String)> {
        if error.is_null() {
            return Ok(());
        }
        let mut text = ErrorGetMessage {
            struct_size: size_of::<ErrorGetMessage>(),
            extensions: std::ptr::null_mut(),
            error,
            message: std::ptr::null(),
        };
        let mut destroy =
            ErrorDestroy { struct_size: size_of::<ErrorDestroy>(), extensions: std::ptr::null_mut(), error };
        // SAFETY: the error is this function's; its message lives as long.
        let message = unsafe {
            if let Some(get) = self.api.error_get_message {
                get(&raw mut text);
            }
            let message = if text.message.is_null() {
                "an error of XLA".into()
            } else {
                CStr::from_ptr(text.message).to_string_lossy().into_owned()
            };
            if let Some(free) = self.api.error_destroy {
                free(&raw mut destroy);
            }
            message
        };
        Err((Code::Internal, message))
    }

    /// Makes an error, which XLA destroys.
    fn fail(&self, code: Code, message: String) -> *mut XlaError {
        let message = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
        let mut given = ErrorCreate {
            struct_size: size_of::<ErrorCreate>(),
            extensions: std::ptr::null_mut(),
            message: message.as_ptr(),
            code: code as c_int,
        };
        // SAFETY: XLA's function, which copies the message.
        self.api.error_create.map_or(std::ptr::null_mut(), |create| unsafe { create(&raw mut given) })
    }
}

/// Describes a buffer.
fn batch(buffer: &Buffer, memory: RawMemory) -> Result<Batch, String> {
    let precision = match buffer.kind {
        F64 => Precision::F64,
        F32 => Precision::F32,
        other => return Err(format!("elements of XLA's type {other}; use float64 or float32")),
    };
    let rank = usize::try_from(buffer.rank).unwrap_or(0);
    // SAFETY: there are as many lengths as XLA says.
    let lengths = if rank == 0 { &[] } else { unsafe { slice::from_raw_parts(buffer.lengths, rank) } };
    let lengths: Vec<usize> = lengths.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
    let (lead, shape) = lengths.split_at(rank.saturating_sub(3));
    let first = RawArray::new(buffer.data.addr(), shape, None, precision, memory).map_err(|error| error.to_string())?;
    Ok(Batch::new(first, lead.to_vec()))
}
