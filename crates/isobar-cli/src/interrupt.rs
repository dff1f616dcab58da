//! Signals that ask the command to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! During a solve, the first of them stops it: the solve ends after the current iteration, and the report, the
//! solution and the summary are still written. A second signal, or one at any other time, ends the process at once.
//! The exit status is 130 in both cases, and no temporary file remains.
//!
//! Exceeding the file size of `ulimit -f` is an error of the write, not a signal that ends the process. A failed memory
//! allocation ends the process with exit status 1 and a message, without a core dump.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use isobar::Ranks;

/// Whether a solve is running, so that the first signal only stops it.
static SOLVING: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// Whether a signal is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A guard while which the first signal stops the solve instead of ending the process.
#[must_use]
pub struct Solving(());

/// Marks the beginning of a solve.
pub fn solving() -> Solving {
    SOLVING.store(true, Ordering::SeqCst);
    Solving(())
}

impl Drop for Solving {
    fn drop(&mut self) {
        SOLVING.store(false, Ordering::SeqCst);
    }
}

/// Returns whether the solve was asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Returns whether an iteration should continue or stop.
pub fn flow() -> ControlFlow<()> {
    if requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns whether an iteration should continue or stop, the same on all ranks, whichever received the signal.
pub fn flow_of_all(ranks: Option<&Ranks>) -> ControlFlow<()> {
    let Some(ranks) = ranks else { return flow() };
    let mut requests = [f64::from(u8::from(requested()))];
    match ranks.sum(&mut requests) {
        Ok(()) if requests == [0.0] => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

/// Returns unless a signal is ending the process; otherwise waits for that end, because errors of this thread no longer matter.
pub fn stay_if_ending() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Starts to handle signals, except those that the process was started to ignore (`nohup`, a shell's `&`). If
/// handlers cannot be installed, signals have their default effect.
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

    /// Message if Rust aborts the process after a message of its own, mostly because memory ran out.
    const ABORTED: &[u8] = b"error: isobar was aborted, most likely because memory ran out; use a smaller grid, \
        solver.precision = \"f32\", or a machine with more memory\n";

    pub(super) fn listen() -> io::Result<()> {
        // With any handler installed, the write fails with EFBIG instead.
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

    /// Handles a signal, on a separate thread that may do what a signal handler must not.
    fn act(signal: i32) {
        let name = low_level::signal_name(signal).unwrap_or("a signal");
        // The terminal shows ^C, possibly on the line of a progress bar.
        let start = if io::stderr().is_terminal() { "\n" } else { "" };
        let say = |what: &str| {
            if !crate::ranks::is_silent() {
                let _gone = writeln!(io::stderr(), "{start}{name}: {what}");
            }
        };
        if SOLVING.load(Ordering::SeqCst) && !REQUESTED.swap(true, Ordering::SeqCst) {
            say("stopping the solve; a second signal ends it at once, without results");
        } else {
            ENDING.store(true, Ordering::SeqCst);
            isobar_io::temporary::remove_all();
            say("interrupted");
            // Without destructors and exit handlers: other threads and a device may still be running.
            low_level::exit(i32::from(INTERRUPTED));
        }
    }

    /// Returns whether the process was started to ignore a signal.
    fn is_ignored(signal: i32) -> bool {
        let mut found = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: without a new action, sigaction only writes the current one to the given place, and returns 0 if it did.
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
