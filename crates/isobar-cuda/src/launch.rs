//! Kernel launches, and calls of libraries that launch kernels, as values: they can be run, stored and compared.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;
use isobar_core::error::{Error, Result};
use isobar_core::real::Real;

use crate::code::Code;
use crate::driver::{Context, check};

/// A kernel, which may still be compiled when it is requested; its first launch waits for that.
///
/// Every kernel waits for earlier ones itself (`await_previous` of intrinsics.cuh), so that it may start before these have ended, if
/// the GPU supports it.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) code: Arc<Code>,
}

/// A value with the same representation on the GPU.
///
/// # Safety
/// Plain data, laid out as declared in the kernel's C++, without uninitialised padding.
pub(crate) unsafe trait Argument: Copy {}

// SAFETY: plain numbers.
unsafe impl Argument for i32 {}
// SAFETY: as above.
unsafe impl Argument for i64 {}
// SAFETY: as above.
unsafe impl Argument for u32 {}
// SAFETY: as above.
unsafe impl Argument for u64 {}
// SAFETY: as above.
unsafe impl Argument for f32 {}
// SAFETY: as above.
unsafe impl Argument for f64 {}
// SAFETY: one after another, as the members of a struct of one type or an array in one.
unsafe impl<A: Argument, const N: usize> Argument for [A; N] {}

/// Declares a struct that kernels take, after the C++ struct which its description names; it may not have padding.
macro_rules! argument {
    ($(#[$of:meta])* $visible:vis struct $name:ident { $($(#[$about:meta])* $seen:vis $field:ident: $part:ty,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        $visible struct $name {
            $($(#[$about])* $seen $field: $part,)*
        }

        const _: () = {
            const fn size<A: $crate::launch::Argument>() -> usize {
                size_of::<A>()
            }
            assert!(size_of::<$name>() == 0 $(+ size::<$part>())*, "padding in an argument of kernels");
        };

        // SAFETY: plain data without padding, as was just checked, laid out as the struct in C++.
        unsafe impl $crate::launch::Argument for $name {}
    };
}
pub(crate) use argument;

/// Largest size of a kernel's arguments. B
const BYTES: usize = 512;
const COUNT: usize = 16;

/// Kernel arguments, stored one after another, each aligned to eight bytes.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub(crate) struct Arguments {
    bytes: [u8; BYTES],
    offsets: [u16; COUNT],
    count: usize,
    used: usize,
}

impl Arguments {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; BYTES], offsets: [0; COUNT], count: 0, used: 0 }
    }

    /// Appends an argument.
    pub(crate) fn with<A: Argument>(mut self, argument: A) -> Self {
        let end = self.used + size_of::<A>();
        assert!(end <= BYTES && self.count < COUNT, "too many arguments for a kernel");
        // SAFETY: the space was just checked; `A` is plain data.
        unsafe {
            self.bytes.as_mut_ptr().add(self.used).cast::<A>().write_unaligned(argument);
        }
        self.offsets[self.count] = self.used as u16;
        self.count += 1;
        self.used = end.next_multiple_of(8);
        self
    }

    /// Appends a number in the kernel's precision.
    pub(crate) fn with_real<T: Real>(self, value: f64) -> Self {
        if size_of::<T>() == 4 { self.with(value as f32) } else { self.with(value) }
    }
}

/// A kernel with its launch parameters and arguments.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 2],
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: Arguments,
}

/// A library function that launches kernels itself.
pub(crate) trait Library: std::fmt::Debug + Send + Sync {
    /// Submits the work to a stream of the current context.
    fn run(&self, stream: sys::CUstream) -> Result<()>;
}

/// Submits a call of a library, as [`Launch::submit`] does.
pub(crate) fn call(library: Arc<dyn Library>, context: &Context) -> Result<()> {
    Submission::Call(library).submit(context)
}

/// Work that can be recorded.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are launches")]
pub(crate) enum Submission {
    Launch(Launch),
    Call(Arc<dyn Library>),
}

impl Submission {
    /// Runs it, or adds it to this thread's recording.
    fn submit(self, context: &Context) -> Result<()> {
        let rest = RECORDER.with_borrow_mut(|recorder| match recorder {
            Some(submissions) => {
                submissions.push(self);
                None
            }
            None => Some(self),
        });
        match rest {
            Some(submission) => {
                context.bind()?;
                submission.run(context.stream())
            }
            None => Ok(()),
        }
    }

    /// Runs it on a stream of the current context.
    pub(crate) fn run(&self, stream: sys::CUstream) -> Result<()> {
        match self {
            Self::Launch(launch) => launch.run(stream),
            Self::Call(library) => library.run(stream),
        }
    }
}

thread_local! {
    /// The recording of this thread, which receives submissions instead of the GPU while an iteration is recorded.
    static RECORDER: RefCell<Option<Vec<Submission>>> = const { RefCell::new(None) };
}

impl Launch {
    /// Runs it, or adds it to this thread's recording.
    pub(crate) fn submit(self, context: &Context) -> Result<()> {
        if self.grid.contains(&0) {
            return Ok(());
        }
        Submission::Launch(self).submit(context)
    }

    /// Runs it on a stream of the current context: if the GPU supports it, as a programmatic dependent of the kernel before.
    fn run(&self, stream: sys::CUstream) -> Result<()> {
        let mut pointers = [std::ptr::null_mut::<c_void>(); COUNT];
        for (pointer, &offset) in pointers.iter_mut().zip(&self.arguments.offsets[..self.arguments.count]) {
            *pointer = self.arguments.bytes[usize::from(offset)..].as_ptr().cast_mut().cast();
        }
        let function = self.kernel.code.function()?;
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { pad: [0; 64] },
        };
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let ([gx, gy, gz], [bx, by]) = (self.grid, self.block);
        let config = sys::CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: 1,
            sharedMemBytes: self.shared_bytes,
            hStream: stream,
            attrs: &raw mut attribute,
            numAttrs: u32::from(self.kernel.code.gpu.overlaps),
        };
        // SAFETY: the arguments are those that the kernel declares, as tested by the conformance suite and
        // compute-sanitizer; the caller borrows the memory that they point to; the attribute outlives the call.
        let code =
            unsafe { sys::cuLaunchKernelEx(&raw const config, function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        check(code, self.kernel.code.name)
    }
}

/// Returns whether this thread is recording.
pub(crate) fn is_recording() -> bool {
    RECORDER.with_borrow(Option::is_some)
}

/// Fails if this thread is recording: operations that wait for the GPU cannot be recorded.
pub(crate) fn refuse_while_recording(what: &str) -> Result<()> {
    if is_recording() {
        return Err(Error::Unsupported(format!(
            "{what} within an iteration is not supported on CUDA, where iterations are recorded and replayed"
        )));
    }
    Ok(())
}

/// A guard of this thread's recording, which ends when it is dropped, also after a panic: the next solve on this thread must not
/// find an unfinished recording.
struct Recording;

impl Recording {
    fn begin() -> Self {
        RECORDER.set(Some(Vec::with_capacity(64)));
        Self
    }

    fn end(self) -> Vec<Submission> {
        RECORDER.take().unwrap_or_default()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDER.take();
    }
}

/// Returns the submissions of `work` without running them.
pub(crate) fn record(work: impl FnOnce() -> Result<()>) -> Result<Vec<Submission>> {
    refuse_while_recording("an iteration")?;
    let recording = Recording::begin();
    work()?;
    Ok(recording.end())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// A call that does nothing and differs from others by its number.
    #[derive(Debug)]
    struct Numbered(#[expect(dead_code, reason = "read by `Debug`")] u32);

    impl Library for Numbered {
        fn run(&self, _: sys::CUstream) -> Result<()> {
            Ok(())
        }
    }

    impl PartialEq for Submission {
        fn eq(&self, other: &Self) -> bool {
            format!("{self:?}") == format!("{other:?}")
        }
    }

    fn call(number: u32) -> Submission {
        Submission::Call(Arc::new(Numbered(number)))
    }

    /// Imitates [`Submission::submit`] during a recording.
    fn note(number: u32) {
        RECORDER.with_borrow_mut(|recorder| recorder.as_mut().unwrap().push(call(number)));
    }

    fn recorded() -> Vec<Submission> {
        record(|| {
            note(1);
            note(2);
            Ok(())
        })
        .unwrap()
    }

    #[test]
    fn a_recording_has_what_was_submitted() {
        assert_eq!(recorded(), [call(1), call(2)]);
        assert!(!is_recording());
    }

    #[test]
    fn a_recording_ends_where_its_work_fails() {
        let failed = record(|| {
            note(3);
            refuse_while_recording("waiting")
        });
        assert!(failed.is_err_and(|error| error.to_string().contains("waiting")));
        assert_eq!(recorded(), [call(1), call(2)]);
    }

    #[test]
    fn a_recording_ends_where_its_work_panics() {
        let result = catch_unwind(AssertUnwindSafe(|| {
            record(|| {
                note(3);
                panic!("an operator's own")
            })
        }));
        assert!(result.is_err());
        assert!(!is_recording());
        assert_eq!(recorded(), [call(1), call(2)]);
    }

    #[test]
    fn a_recording_within_another_is_refused_and_leaves_that_alone() {
        let outer = record(|| {
            note(1);
            assert!(record(|| Ok(())).is_err());
            note(2);
            Ok(())
        });
        assert_eq!(outer.unwrap(), [call(1), call(2)]);
    }
}
