//! Queues: streams of one GPU whose work runs at the same time, each for one system.

use std::cell::Cell;

/// Queues of a GPU beside the first. Eight solves of small systems keep a GPU busy; more gained nothing.
pub(crate) const BESIDE: usize = 8;
/// All queues of a GPU.
pub(crate) const QUEUES: usize = 1 + BESIDE;

thread_local! {
    /// The queue of this thread's work.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Returns the queue of this thread's work.
pub(crate) fn current() -> usize {
    CURRENT.get()
}

/// Runs work on a queue; afterwards, also after a panic, this thread's work goes where it went before.
pub(crate) fn on<R>(queue: usize, work: impl FnOnce() -> R) -> R {
    struct Return(usize);
    impl Drop for Return {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _return = Return(CURRENT.replace(queue));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_returns_to_its_queue() {
        assert_eq!(current(), 0);
        let inner = on(3, || {
            let other = std::thread::spawn(current).join();
            assert_eq!(other.ok(), Some(0), "other threads keep theirs");
            let panicked = std::panic::catch_unwind(|| on(5, || panic!("work")));
            assert!(panicked.is_err());
            current()
        });
        assert_eq!((inner, current()), (3, 0));
    }
}
