//! This module defines how long a rank may be silent.

use std::time::{Duration, Instant};

use isobar_core::error::{Error, Result};

/// The environment variable with the time that a rank may be silent. s
const VARIABLE: &str = "ISOBAR_RANK_TIMEOUT";
/// The default time that a rank may be silent. s
const DEFAULT: f64 = 20.0;
/// The largest step that is counted between two readings of the clock: a suspended machine has not waited.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// The share of elapsed time that a working process spends on a processor at least.
const AT_WORK: f64 = 0.01;

/// Returns the time that a rank may be silent, or nothing if the user wants no limit.
///
/// # Errors
/// [`Error::Invalid`] if the variable is not a number of seconds.
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

/// Returns the remedy for a rank that hangs, for a message.
pub(crate) fn remedy(limit: Duration) -> String {
    format!("{VARIABLE}={} would allow it more than {} s, 0 any time", 3.0 * limit.as_secs_f64(), limit.as_secs_f64())
}

/// The clock of the time during which this process was not suspended.
#[derive(Debug)]
pub(crate) struct Lived {
    seen: Instant,
}

impl Lived {
    pub(crate) fn new() -> Self {
        Self { seen: Instant::now() }
    }

    /// Returns the time since the last call, at most `LONGEST_STEP`.
    pub(crate) fn step(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.seen, now)).min(LONGEST_STEP)
    }
}

/// The timer of how long this process has been idle.
#[derive(Debug)]
pub(crate) struct Idle {
    lived: Lived,
    /// The processor time at the last observation. s
    used: f64,
    idle: Duration,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self { lived: Lived::new(), used: processor_seconds(), idle: Duration::ZERO }
    }

    /// Returns how long the process has computed nothing; to be called at intervals. `is_expected` states whether it
    /// should have computed.
    pub(crate) fn observe(&mut self, is_expected: bool) -> Duration {
        let (step, before) = (self.lived.step(), self.used);
        self.used = processor_seconds();
        let is_at_work = self.used - before > AT_WORK * step.as_secs_f64();
        self.idle = if is_at_work || !is_expected { Duration::ZERO } else { self.idle + step };
        self.idle
    }
}

/// Returns the processor time that all threads of this process have used, or infinity if it is unknown. s
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
