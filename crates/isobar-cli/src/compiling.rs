//! Messages while kernels are compiled for a GPU; later solves find them in the cache.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use isobar::internals::cuda::compilations::{Compilations, so_far};
use isobar::internals::cuda::compile::cache_folder;

use crate::console::Console;

/// Compile times below this are not reported. s
const WORTH_A_WORD: f64 = 0.5;

/// Interval between updates of the message.
const EVERY: Duration = Duration::from_millis(120);

/// Runs `work`, reporting on the console when it waits for the compiler, and the total compile time afterwards.
pub fn watch<R>(console: &mut Console, work: impl FnOnce() -> R) -> R {
    let before = so_far();
    let (ended, end) = channel::<()>();
    let result = thread::scope(|scope| {
        let watched = &mut *console;
        // If the thread cannot be started, only the messages while compiling are lost.
        let _ = thread::Builder::new().spawn_scoped(scope, move || tell(watched, before, &end));
        let result = work();
        drop(ended);
        result
    });
    let Compilations { kernels, seconds, .. } = since(before);
    if seconds >= WORTH_A_WORD {
        console.line(format_args!("{:<10} {kernels} kernels in {seconds:.1} s; {}", "compiled", kept()));
    }
    result
}

/// Reports until the end of the work.
fn tell(console: &mut Console, before: Compilations, end: &Receiver<()>) {
    let mut bar: Option<ProgressBar> = None;
    let mut is_told = false;
    while end.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        let Compilations { kernels, seconds, is_going_on } = since(before);
        if seconds < WORTH_A_WORD || !is_going_on {
            continue;
        }
        if console.is_interactive() {
            let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
            bar.set_message(format!("compiling kernels for this GPU: {kernels} so far, {seconds:.1} s"));
            bar.tick();
        } else if !is_told {
            console.line(format_args!("{:<10} kernels for this GPU; {}", "compiling", kept()));
            is_told = true;
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn since(before: Compilations) -> Compilations {
    let now = so_far();
    Compilations { kernels: now.kernels - before.kernels, seconds: now.seconds - before.seconds, ..now }
}

fn kept() -> String {
    match cache_folder() {
        Some(folder) => format!("later solves find them in {}", folder.display()),
        None => "they are not cached; to cache them, set ISOBAR_CACHE_DIR to a folder".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Stream;

    #[test]
    fn work_is_done_whether_watched_or_not() {
        for quiet in [false, true] {
            let mut console = Console::new(Stream::Error, quiet);
            let mut count = 0;
            let result = watch(&mut console, || {
                thread::sleep(2 * EVERY);
                count += 1;
                Err::<(), &str>("failed")
            });
            assert_eq!((result, count), (Err("failed"), 1));
        }
    }
}
