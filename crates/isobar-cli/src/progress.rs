//! Progress of a running solve.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use isobar_case::text::plural;

use crate::console::Console;
use crate::summary::ten_digits;

/// Number of iterations over which convergence factor and speed are averaged.
const WINDOW: usize = 10;

/// Longest interval between two lines in a pipe.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A changing line: a bar on a terminal, ever fewer lines in a pipe, nothing if quiet.
struct Display<'c> {
    console: &'c mut Console,
    bar: Option<ProgressBar>,
    next_line: usize,
    last_line: Instant,
}

impl<'c> Display<'c> {
    fn new(console: &'c mut Console, now: Instant) -> Self {
        let bar = console.is_interactive().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { console, bar, next_line: 1, last_line: now }
    }

    /// Shows the line after `done` iterations or steps, if it is to be printed.
    fn show(&mut self, now: Instant, done: usize, line: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(line());
        } else if !self.console.is_silent()
            && (done >= self.next_line || now.duration_since(self.last_line) >= LINE_EVERY)
        {
            self.console.line(line());
            (self.next_line, self.last_line) = (following(done), now);
        }
    }

    /// Removes the bar.
    fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Shows the progress of an iteration.
pub struct Progress<'c> {
    display: Display<'c>,
    estimate: Estimate,
}

impl<'c> Progress<'c> {
    /// Begins before the first iteration. `tolerance` is that of the relative residual.
    pub fn new(console: &'c mut Console, tolerance: f64, max_iterations: usize) -> Self {
        let now = Instant::now();
        let mut estimate = Estimate::new(now, tolerance, max_iterations);
        estimate.observe(now, 0, 1.0);
        Self { display: Display::new(console, now), estimate }
    }

    /// Reports iteration 1, 2, …; the first guess has the relative residual 1.
    pub fn observe(&mut self, iteration: usize, relative_residual: f64) {
        let now = Instant::now();
        self.estimate.observe(now, iteration, relative_residual);
        self.display.show(now, iteration, || self.estimate.line());
    }

    /// Ends after the last iteration.
    pub fn finish(self) {
        self.display.finish();
    }
}

/// Shows the progress of time steps.
pub struct StepProgress<'c> {
    display: Display<'c>,
    started: Instant,
    first: usize,
    total: Option<usize>,
    /// Start time and end time.
    times: [f64; 2],
}

impl<'c> StepProgress<'c> {
    /// Begins before the step after `first`; `total` is the number of steps, if known.
    pub fn new(console: &'c mut Console, first: usize, total: Option<usize>, times: [f64; 2]) -> Self {
        let now = Instant::now();
        Self { display: Display::new(console, now), started: now, first, total, times }
    }

    /// Reports a step.
    pub fn observe(&mut self, number: usize, time: f64, iterations: usize) {
        let now = Instant::now();
        let done = number - self.first;
        let past = now.duration_since(self.started);
        let ([begin, end], total) = (self.times, self.total);
        self.display.show(now, done, || {
            let (left, of) = match total {
                Some(total) => (total.saturating_sub(number) as f64 / done.max(1) as f64, format!("of {total} ")),
                None => (((end - time) / (time - begin)).max(0.0), String::new()),
            };
            let left = past.mul_f64(if left.is_finite() { left.min(1e6) } else { 0.0 });
            let counts = plural(iterations, "iteration");
            format!(
                "step {number:>5} {of}  t = {}   {counts}   {}   {} left",
                ten_digits(time),
                clock(past),
                clock(left)
            )
        });
    }

    /// Ends after the last step.
    pub fn finish(self) {
        self.display.finish();
    }
}

/// Returns the next of 1, 2, 5, 10, 20, 50, … after `iteration`.
fn following(iteration: usize) -> usize {
    let mut decade = 1_usize;
    loop {
        for step in [1, 2, 5] {
            let candidate = decade.saturating_mul(step);
            if candidate > iteration || candidate == usize::MAX {
                return candidate;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

/// Estimates the convergence factor and the remaining time from the last few iterations.
struct Estimate {
    tolerance: f64,
    max_iterations: usize,
    started: Instant,
    /// (when, iteration, relative residual), oldest first.
    recent: Vec<(Instant, usize, f64)>,
}

impl Estimate {
    fn new(started: Instant, tolerance: f64, max_iterations: usize) -> Self {
        Self { tolerance, max_iterations, started, recent: Vec::with_capacity(WINDOW + 1) }
    }

    fn observe(&mut self, now: Instant, iteration: usize, residual: f64) {
        if self.recent.len() > WINDOW {
            self.recent.remove(0);
        }
        self.recent.push((now, iteration, residual));
    }

    /// Returns the mean convergence factor, if known.
    fn rate(&self) -> Option<f64> {
        let (&(_, from, first), &(_, to, last)) = (self.recent.first()?, self.recent.last()?);
        let rate = (last / first).powf(1.0 / to.checked_sub(from).filter(|&n| n > 0)? as f64);
        rate.is_finite().then_some(rate)
    }

    fn time_left(&self) -> Option<Duration> {
        let (&(begin, from, _), &(now, to, residual)) = (self.recent.first()?, self.recent.last()?);
        let each = now.duration_since(begin).as_secs_f64() / to.checked_sub(from).filter(|&n| n > 0)? as f64;
        let limit = self.max_iterations.saturating_sub(to) as f64;
        let rate = self.rate()?;
        let needed =
            if rate < 1.0 && residual > 0.0 { ((self.tolerance / residual).ln() / rate.ln()).ceil() } else { limit };
        Duration::try_from_secs_f64(each * needed.clamp(0.0, limit)).ok()
    }

    fn line(&self) -> String {
        let Some(&(now, iteration, residual)) = self.recent.last() else {
            return String::new();
        };
        let mut line = format!("iteration {iteration:>4}   residual {residual:.3e}");
        if let Some(rate) = self.rate() {
            line.push_str(&format!("   rate {rate:.3}"));
        }
        line.push_str(&format!("   {}", clock(now.duration_since(self.started))));
        if let Some(left) = self.time_left() {
            line.push_str(&format!("   {} left", clock(left)));
        }
        line
    }
}

/// Formats a duration for people.
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..100 => format!("{seconds} s"),
        100..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_thin_out() {
        let mut at = 0;
        let lines: Vec<usize> = std::iter::repeat_with(|| {
            at = following(at);
            at
        })
        .take(8)
        .collect();
        assert_eq!(lines, [1, 2, 5, 10, 20, 50, 100, 200]);
        assert_eq!(following(usize::MAX), usize::MAX);
    }

    #[test]
    fn time_left_follows_from_the_rate() {
        let start = Instant::now();
        let mut estimate = Estimate::new(start, 1e-6, 100);
        assert!(estimate.time_left().is_none());
        for n in 0..3_u32 {
            estimate.observe(start + Duration::from_secs(u64::from(n)), n as usize, 0.1_f64.powi(n as i32));
        }
        assert!((estimate.rate().unwrap() - 0.1).abs() < 1e-12);
        let left = estimate.time_left().unwrap().as_secs_f64();
        assert!((3.9..=5.1).contains(&left), "{left}");
        assert!(estimate.line().contains("rate 0.100"));
    }

    #[test]
    fn strange_residuals_do_no_harm() {
        let start = Instant::now();
        let mut estimate = Estimate::new(start, 1e-6, 100);
        for (n, residual) in [1.0, 0.0, f64::NAN, f64::INFINITY, -1.0, 5.0].into_iter().enumerate() {
            estimate.observe(start, n, residual);
            let _ = estimate.line();
        }
        estimate.observe(start, 2, 1.0);
        let _ = estimate.line();
    }

    #[test]
    fn durations_read_well() {
        let words = |seconds: f64| clock(Duration::from_secs_f64(seconds));
        assert_eq!(words(0.25), "0.2 s");
        assert_eq!(words(42.7), "42 s");
        assert_eq!(words(125.0), "2 min 05 s");
        assert_eq!(words(7320.0), "2 h 02 min");
    }
}
