//! How long a rank may be silent.

use std::time::{Duration, Instant};

use isobar_core::error::{Error, Result};

/// Seconds that a rank may give no sign of life, if the user says.
const VARIABLE: &str = "ISOBAR_RANK_TIMEOUT";
/// s
const DEFAULT: f64 = 20.0;
/// The time between two looks at the clock counts as this at most: a machine that was suspended has not waited.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// A process that has used this share of the time that has passed is at work.
const AT_WORK: f64 = 0.01;

/// How long a rank may give no sign of life; nothing where the user wants none to be watched.
///
/// # Errors
/// [`Error::Invalid`] for what is no number of seconds.
pub(crate) fn limit() -> Result<Option<Duration>> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Some(Duration::from_secs_f64(DEFAULT))) };
    let seconds: Option<f64> = text.to_str().and_then(|text| text.trim().parse().ok());
    match seconds.map(Duration::try_from_secs_f64) {
        Some(Ok(limit)) => Ok(Some(limit).filter(|limit| !limit.is_zero())),
        _ => Err(Error::invalid(
            VARIABLE,
            format!(
                "{text:?}; use a number of seconds, such as {DEFAULT}, which it is without it, or 0 to wait for ever"
            ),
        )),
    }
}

/// The remedy for a rank that hangs, for a message.
pub(crate) fn remedy(limit: Duration) -> String {
    format!("{VARIABLE}={} would allow it more than {} s, 0 any time", 3.0 * limit.as_secs_f64(), limit.as_secs_f64())
}

/// Time that this process has lived through.
#[derive(Debug)]
pub(crate) struct Lived {
    seen: Instant,
}

impl Lived {
    pub(crate) fn new() -> Self {
        Self { seen: Instant::now() }
    }

    /// Since it was asked last.
    pub(crate) fn step(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.seen, now)).min(LONGEST_STEP)
    }
}

/// How long this process has been idle.
#[derive(Debug)]
pub(crate) struct Idle {
    lived: Lived,
    /// Processor time. s
    used: f64,
    idle: Duration,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self { lived: Lived::new(), used: processor_seconds(), idle: Duration::ZERO }
    }

    /// How long it has computed nothing, asked every now and then; `is_expected` says whether it should have.
    pub(crate) fn observe(&mut self, is_expected: bool) -> Duration {
        let (step, before) = (self.lived.step(), self.used);
        self.used = processor_seconds();
        let is_at_work = self.used - before > AT_WORK * step.as_secs_f64();
        self.idle = if is_at_work || !is_expected { Duration::ZERO } else { self.idle + step };
        self.idle
    }
}

/// Processor time that all threads of this process have used; where that is unknown it grows for ever. s
#[cfg(unix)]
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the place that it is given, and nowhere else.
    match unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } {
        0 => time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64,
        _ => f64::INFINITY,
    }
}

#[cfg(not(unix))]
fn processor_seconds() -> f64 {
    f64::INFINITY
}
