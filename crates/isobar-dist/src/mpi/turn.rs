//! This module lets one thread at a time call MPI, for programs that have not asked for more.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of looks at a queue before this thread yields its core.
const LOOKS: u32 = 100;

/// A queue of threads, which are served in the order in which they came: a thread that waits for a message lets others pass again and again, and none
/// of them must wait for long, since the message may depend on it.
pub(super) struct Queue {
    /// The number of the next thread to come.
    next: AtomicUsize,
    /// The number of the thread whose turn it is.
    served: AtomicUsize,
}

/// The queue of this process's calls of MPI. Every communicator has its own messages, but there is one library.
pub(super) static CALLS: Queue = Queue { next: AtomicUsize::new(0), served: AtomicUsize::new(0) };

impl Queue {
    /// Returns when it is this thread's turn.
    pub(super) fn turn(&self) -> Turn<'_> {
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        let mut looks = 0;
        while self.served.load(Ordering::Acquire) != mine {
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        Turn(self)
    }
}

/// A thread's turn, until this is dropped.
pub(super) struct Turn<'q>(&'q Queue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.served.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_its_turn() {
        let queue = Queue { next: AtomicUsize::new(0), served: AtomicUsize::new(0) };
        let (inside, turns) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _turn = queue.turn();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::Relaxed);
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 2000);
    }
}
