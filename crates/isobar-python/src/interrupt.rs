//! Ctrl-C during a solve.
//!
//! Python notes a signal and acts on it when its main thread is next in the interpreter, which a solve is not. While the main
//! thread solves, a handler of our own stands before Python's: it notes the signal, which ends the solve, and hands it on, so
//! that Python raises its KeyboardInterrupt after.

use std::sync::atomic::{AtomicBool, Ordering};

static SEEN: AtomicBool = AtomicBool::new(false);

/// Whether a signal came since [`Listening::begin`].
pub(crate) fn seen() -> bool {
    SEEN.load(Ordering::Relaxed)
}

/// While it lives, SIGINT is noted.
pub(crate) struct Listening(#[cfg(unix)] unix::Before);

impl Listening {
    /// To be called on Python's main thread, by one at a time; nothing where SIGINT does not raise anything.
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

    /// Python's handler.
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn note(signal: libc::c_int) {
        super::SEEN.store(true, Ordering::Relaxed);
        let next = NEXT.load(Ordering::Relaxed);
        if next != 0 {
            // SAFETY: the handler that stood here before, which takes the signal's number alone.
            let next: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(next) };
            next(signal);
        }
    }

    /// Puts `note` before the present handler, if that is a function of the plain kind, as Python's is.
    pub(super) fn install() -> Option<Before> {
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: without a new action, sigaction writes the present one, and says by 0 that it did.
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
        // SAFETY: `note` only stores, and calls what would have been called.
        let is_installed = unsafe { libc::sigaction(libc::SIGINT, &ours, ptr::null_mut()) } == 0;
        is_installed.then_some(before)
    }

    pub(super) fn restore(before: &Before) {
        // SAFETY: what was there before. A failure leaves `note`, which hands signals on.
        let _left_as_it_is = unsafe { libc::sigaction(libc::SIGINT, before, ptr::null_mut()) };
    }
}
