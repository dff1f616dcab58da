//! Ctrl-C during a solve.
//!
//! Python's handler only notes a signal; it is acted on when the main thread is in the interpreter again, which is not the case during a solve.
//! While the main thread solves, another handler is installed before Python's: it notes the signal, which stops the solve, and calls
//! Python's handler, so that Python raises KeyboardInterrupt afterwards. XLA calls without the interpreter, often on the main thread.

use std::sync::atomic::{AtomicBool, Ordering};

static SEEN: AtomicBool = AtomicBool::new(false);

/// Returns whether a signal came since [`Listening::begin`].
pub(crate) fn seen() -> bool {
    SEEN.load(Ordering::Relaxed)
}

/// Returns whether this is the process's first thread, which is Python's main thread unless a program embeds Python.
pub(crate) fn is_first_thread() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: both only return numbers.
    return unsafe { libc::gettid() == libc::getpid() };
    #[cfg(target_os = "macos")]
    // SAFETY: it only returns a number.
    return unsafe { libc::pthread_main_np() == 1 };
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    false
}

/// A guard while which SIGINT is noted.
pub(crate) struct Listening(#[cfg(unix)] unix::Before);

impl Listening {
    /// Begins to listen. Called on Python's main thread, by one at a time; returns `None` if SIGINT does not raise an exception.
    pub(crate) fn begin() -> Option<Self> {
        SEEN.store(false, Ordering::Relaxed);
        #[cfg(unix)]
        return unix::install().map(Self);
        #[cfg(not(unix))]
        None
    }
}

#[cfg(unix)]
impl Drop for Listening {
    fn drop(&mut self) {
        unix::restore(&self.0);
    }
}

#[cfg(unix)]
mod unix {
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(super) type Before = libc::sigaction;

    /// The address of Python's handler.
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn note(signal: libc::c_int) {
        super::SEEN.store(true, Ordering::Relaxed);
        let next = NEXT.load(Ordering::Relaxed);
        if next != 0 {
            // SAFETY: the handler installed before, which takes the signal's number only.
            let next: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(next) };
            next(signal);
        }
    }

    /// Installs `note` before the current handler, if that is a plain function, as Python's is.
    pub(super) fn install() -> Option<Before> {
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: without a new action, sigaction only writes the current one, and returns 0 if it did.
        let before = unsafe {
            if libc::sigaction(libc::SIGINT, ptr::null(), before.as_mut_ptr()) != 0 {
                return None;
            }
            before.assume_init()
        };
        let handler = before.sa_sigaction;
        let is_plain = before.sa_flags & libc::SA_SIGINFO == 0;
        let is_ours = handler == note as *const () as usize;
        if !is_plain || is_ours || handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            return None;
        }
        NEXT.store(handler, Ordering::Relaxed);
        let ours = libc::sigaction { sa_sigaction: note as *const () as usize, ..before };
        // SAFETY: `note` only stores a flag and calls the earlier handler.
        let is_installed = unsafe { libc::sigaction(libc::SIGINT, &ours, ptr::null_mut()) } == 0;
        is_installed.then_some(before)
    }

    pub(super) fn restore(before: &Before) {
        // SAFETY: the earlier action. If this fails, `note` stays and calls it.
        let _left_as_it_is = unsafe { libc::sigaction(libc::SIGINT, before, ptr::null_mut()) };
    }
}
