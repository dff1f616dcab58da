//! Statistics of the kernels that this process has compiled, for progress messages: the first solve of a kind compiles for seconds, later
//! ones use the cache.

use isobar_core::prelude::lock;

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Statistics of compilations by NVRTC; kernels found in the cache do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compilations {
    /// Number of kernels, including failed and running compilations.
    pub kernels: usize,
    /// Seconds during which at least one was being compiled.
    pub seconds: f64,
    /// Whether one is being compiled now.
    pub is_going_on: bool,
}

#[derive(Debug)]
struct Clock {
    kernels: usize,
    under_way: usize,
    since: Option<Instant>,
    before: Duration,
}

static CLOCK: Mutex<Clock> = Mutex::new(Clock { kernels: 0, under_way: 0, since: None, before: Duration::ZERO });

/// Returns the statistics of this process.
pub fn so_far() -> Compilations {
    let clock = lock(&CLOCK);
    let now = clock.since.map_or(Duration::ZERO, |since| since.elapsed());
    Compilations {
        kernels: clock.kernels,
        seconds: (clock.before + now).as_secs_f64(),
        is_going_on: clock.under_way > 0,
    }
}

/// Counts one compilation while it exists.
#[must_use]
pub(crate) struct Compiling(());

pub(crate) fn begin() -> Compiling {
    let mut clock = lock(&CLOCK);
    clock.kernels += 1;
    clock.under_way += 1;
    clock.since.get_or_insert_with(Instant::now);
    Compiling(())
}

impl Drop for Compiling {
    fn drop(&mut self) {
        let mut clock = lock(&CLOCK);
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
        assert!(after.kernels >= before.kernels + 2);
        let passed = after.seconds - before.seconds;
        assert!((0.02..=started.elapsed().as_secs_f64()).contains(&passed), "{passed} s");
    }
}
