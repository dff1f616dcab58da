//! Signals that ask the command to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! During a solve, the first of them asks for its end: the solve stops after the iteration it is in, and the report, the
//! solution and the summary are still written. A second one, or one at any other time, ends the process at once.
//! The exit status is 130 either way, and no temporary file stays behind.
//!
//! A file larger than `ulimit -f` allows is an error of the write that hits the limit, not a signal that ends the
//! process. Memory that cannot be had, where nothing asked for it first, ends the process with exit status 1 and a
//! message, not with a dump of its core.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// A solve is running, so the first signal only asks for its end.
static SOLVING: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// A signal is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// While it lives, the first signal asks the solve to stop and does not end the process.
#[must_use]
pub struct Solving(());

/// A solve begins.
pub fn solving() -> Solving {
    SOLVING.store(true, Ordering::SeqCst);
    Solving(())
}

impl Drop for Solving {
    fn drop(&mut self) {
        SOLVING.store(false, Ordering::SeqCst);
    }
}

/// Whether a solve has been asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// What an iteration is told: to go on, or to stop.
pub fn flow() -> ControlFlow<()> {
    if requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns unless a signal is ending the process, which then is this thread's end too: what it failed to do since, and
/// how it would have ended, says nothing.
pub fn stay_if_ending() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Listens to signals from now on, but for those that the process was started to ignore (`nohup`, a shell's `&`). Where
/// that cannot be had, signals do what they do to any program.
pub fn listen() {
    #[cfg(unix)]
    let _signals_then_act_as_ever = unix::listen();
}

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level;

    use super::{ENDING, REQUESTED, SOLVING};
    use crate::{FAILURE, INTERRUPTED};

    /// What is said when Rust aborts the process, after a line of its own: memory that cannot be had, mostly.
    const ABORTED: &[u8] = b"error: isobar was aborted, most likely because memory ran out; use a smaller grid, \
        solver.precision = \"f32\", or a machine with more memory\n";

    pub(super) fn listen() -> io::Result<()> {
        // With any handler at all, the write fails with EFBIG instead.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        // SAFETY: write and _exit may be called in a signal handler, and the message is static.
        unsafe {
            low_level::register(SIGABRT, || {
                libc::write(libc::STDERR_FILENO, ABORTED.as_ptr().cast(), ABORTED.len());
                libc::_exit(i32::from(FAILURE));
            })?;
        }
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let mut signals = Signals::new(wanted)?;
        thread::Builder::new().name("signals".into()).spawn(move || signals.forever().for_each(act))?;
        Ok(())
    }

    /// Runs on a thread of its own, where everything is allowed that a signal handler must not do.
    fn act(signal: i32) {
        let name = low_level::signal_name(signal).unwrap_or("a signal");
        // The terminal shows ^C, and a bar may be on that line.
        let start = if io::stderr().is_terminal() { "\n" } else { "" };
        let say = |what: &str| {
            if !crate::ranks::is_silent() {
                let _gone = writeln!(io::stderr(), "{start}{name}: {what}");
            }
        };
        if SOLVING.load(Ordering::SeqCst) && !REQUESTED.swap(true, Ordering::SeqCst) {
            say("stopping the solve; once more to end at once, without its results");
        } else {
            ENDING.store(true, Ordering::SeqCst);
            isobar_io::temporary::remove_all();
            say("interrupted");
            // Neither destructors nor exit handlers: other threads, and a device, are still at work.
            low_level::exit(i32::from(INTERRUPTED));
        }
    }

    /// Whether the process was started to ignore a signal.
    fn is_ignored(signal: i32) -> bool {
        let mut found = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: without a new action, sigaction only writes the present one to the place it is given, and says by 0
        // that it did.
        unsafe {
            libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) == 0
                && found.assume_init().sa_sigaction == libc::SIG_IGN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_breaks_the_flow() {
        assert_eq!(flow(), ControlFlow::Continue(()));
        REQUESTED.store(true, Ordering::SeqCst);
        assert!(requested() && flow().is_break());
        REQUESTED.store(false, Ordering::SeqCst);
        let guard = solving();
        assert!(SOLVING.load(Ordering::SeqCst));
        drop(guard);
        assert!(!SOLVING.load(Ordering::SeqCst));
    }
}
