//! What this process has compiled so far, for whoever waits for it: the first solve of a kind compiles for seconds, later ones find
//! their kernels in the cache.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sources that NVRTC compiled, those that the cache had left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compilations {
    /// How many, failures and those under way included.
    pub sources: usize,
    /// Seconds in which at least one was being compiled.
    pub seconds: f64,
    /// Whether one is now.
    pub is_going_on: bool,
}

#[derive(Debug)]
struct Clock {
    sources: usize,
    under_way: usize,
    since: Option<Instant>,
    before: Duration,
}

static CLOCK: Mutex<Clock> = Mutex::new(Clock { sources: 0, under_way: 0, since: None, before: Duration::ZERO });

/// All of this process.
pub fn so_far() -> Compilations {
    let clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let now = clock.since.map_or(Duration::ZERO, |since| since.elapsed());
    Compilations {
        sources: clock.sources,
        seconds: (clock.before + now).as_secs_f64(),
        is_going_on: clock.under_way > 0,
    }
}

/// One compilation, while it lives.
#[must_use]
pub(crate) struct Compiling(());

pub(crate) fn begin() -> Compiling {
    let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    clock.sources += 1;
    clock.under_way += 1;
    clock.since.get_or_insert_with(Instant::now);
    Compiling(())
}

impl Drop for Compiling {
    fn drop(&mut self) {
        let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
        clock.under_way -= 1;
        if clock.under_way == 0 {
            let passed = clock.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            clock.before += passed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_compilations_count_once_in_time() {
        let before = so_far();
        let started = Instant::now();
        let first = begin();
        let second = begin();
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        assert!(so_far().is_going_on);
        drop(second);
        let after = so_far();
        // Other tests may compile at the same time.
        assert!(after.sources >= before.sources + 2);
        let passed = after.seconds - before.seconds;
        assert!((0.02..=started.elapsed().as_secs_f64()).contains(&passed), "{passed} s");
    }
}
