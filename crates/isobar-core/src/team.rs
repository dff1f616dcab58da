//! A team of threads for passes over memory that take microseconds.
//!
//! A pass over a small grid takes no longer than waking a thread that sleeps. The members of a team therefore stay awake for a short time
//! after each pass, and the thread that calls [`Team::for_each`] is one of them. It takes over the items of late members, so that it never
//! waits for a thread that has not begun, for instance on a machine with other work.

use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, JoinHandle, Thread};

/// Rounds in which a thread waits awake: the passes of a solve follow each other within a few microseconds.
const SPINS: usize = 1 << 9;
/// The rounds until it sleeps, in which it yields to other threads: some tenths of a millisecond.
const ROUNDS: usize = SPINS + (1 << 9);
/// Blocks of items that each member has at first.
const BLOCKS: usize = 1 << 8;

thread_local! {
    /// Whether this thread is running an item.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
    /// The team that this thread's passes run on.
    static CURRENT: RefCell<Option<Team>> = const { RefCell::new(None) };
}

/// A team of threads. Clones share them; they end with the last clone.
#[derive(Clone, Debug)]
pub struct Team(Arc<Owner>);

/// The threads of a team.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    threads: ManuallyDrop<Vec<JoinHandle<()>>>,
    /// The process that has these threads. A process that is forked from it has none of them.
    process: u32,
}

/// The state that members share.
struct Shared {
    /// The state of the current pass, see [`State`].
    state: Line<AtomicU64>,
    /// The pass, while it is open or has active members.
    pass: UnsafeCell<Pass>,
    /// The next block of each member's share, with the number of the pass above [`INDEX_BITS`].
    next: Box<[Line<AtomicU64>]>,
    /// The members, but for the caller of a pass; these are numbered from 1.
    sleepers: Box<[Line<Sleeper>]>,
    /// The caller of the pass.
    caller: Line<Sleeper>,
    is_ending: AtomicBool,
    /// The first panic of the pass.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The right to begin a pass, with the number of the last one.
    turn: Mutex<u64>,
}

// SAFETY: `pass` is written by the thread that has the turn while no member is active, and read by active members, who have seen in `state`
// that it is there.
unsafe impl Sync for Shared {}
// SAFETY: as above; the function that a pass points to is `Sync`.
unsafe impl Send for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("members", &self.next.len()).finish_non_exhaustive()
    }
}

/// A value in separate cache lines; processors fetch pairs of lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// A thread that may sleep.
#[derive(Debug, Default)]
struct Sleeper {
    is_asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// Bits of [`Shared::next`] for the number of a block.
const INDEX_BITS: u32 = 16;

/// f(0), …, f(count − 1), in blocks that are distributed among `members`.
#[derive(Clone, Copy)]
struct Pass {
    f: *const (dyn Fn(usize) + Sync),
    count: usize,
    block: usize,
    members: usize,
    number: u64,
}

/// The number of active members, the number of members that may take part, whether these may still begin, and the number of the pass, in one
/// word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State(u64);

impl State {
    /// The most members.
    const MOST: usize = (1 << 12) - 1;
    const OPEN: u64 = 1 << 24;

    fn open(members: usize, number: u64) -> Self {
        Self(number << 25 | Self::OPEN | (members as u64) << 12)
    }

    fn active(self) -> usize {
        self.0 as usize & Self::MOST
    }

    fn number(self) -> u64 {
        self.0 >> 25
    }

    /// Returns whether a member may begin, which has not taken part in the pass before.
    fn is_for(self, member: usize, before: u64) -> bool {
        self.0 & Self::OPEN != 0 && member < (self.0 >> 12) as usize & Self::MOST && self.number() != before
    }
}

impl Team {
    /// Starts a team of `size` threads, the caller of each pass being one of them: `size` − 1 threads called `name-1`, `name-2`, ….
    ///
    /// # Errors
    /// Threads that cannot be started.
    pub fn new(size: usize, name: &str) -> io::Result<Self> {
        let size = size.clamp(1, State::MOST);
        let shared = Arc::new(Shared {
            state: Line(AtomicU64::new(0)),
            pass: UnsafeCell::new(Pass { f: &|_| {}, count: 0, block: 1, members: 0, number: 0 }),
            next: (0..size).map(|_| Line::default()).collect(),
            sleepers: (1..size).map(|_| Line::default()).collect(),
            caller: Line::default(),
            is_ending: AtomicBool::new(false),
            panic: Mutex::new(None),
            turn: Mutex::new(0),
        });
        let mut owner =
            Owner { shared, threads: ManuallyDrop::new(Vec::with_capacity(size)), process: std::process::id() };
        for member in 1..size {
            let shared = Arc::clone(&owner.shared);
            let thread = thread::Builder::new().name(format!("{name}-{member}")).spawn(move || shared.serve(member))?;
            owner.threads.push(thread);
        }
        Ok(Self(Arc::new(owner)))
    }

    /// Returns the number of threads.
    pub fn size(&self) -> usize {
        self.0.shared.next.len()
    }

    /// Returns the process that has these threads. Others, forked from it, must not use the team.
    pub fn process(&self) -> u32 {
        self.0.process
    }

    /// Calls f(0), …, f(count − 1), in any order and concurrently; member n begins with the n-th part of them. Called within an item, it runs
    /// f on that item's thread. It allocates nothing.
    ///
    /// # Panics
    /// If f panics, after all other items have ended.
    pub fn for_each(&self, count: usize, f: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.0.shared;
        let members = count.min(self.size());
        if members < 2 || IS_AT_WORK.get() {
            return (0..count).for_each(f);
        }
        let mut turn = lock(&shared.turn);
        *turn += 1;
        // SAFETY: only the lifetime changes. Members read the pass while they are active, and this function waits for them.
        let f = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync + 'static)>(f) };
        let pass = Pass { f, count, block: count.div_ceil(members * BLOCKS), members, number: *turn };
        // SAFETY: nobody else has the turn, and no member is active.
        unsafe { *shared.pass.get() = pass };
        shared.state.0.store(State::open(members, pass.number).0, SeqCst);
        shared.sleepers[..members - 1].iter().for_each(|sleeper| sleeper.0.wake());
        shared.work(pass, 0);
        shared.state.0.fetch_and(!State::OPEN, SeqCst);
        shared.caller.0.wait(|| State(shared.state.0.load(SeqCst)).active() == 0);
        let panic = lock(&shared.panic).take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Calls `f(n, items[n])` for all n, as [`Team::for_each`].
    pub fn for_each_of<X: Send>(&self, items: &mut [X], f: &(dyn Fn(usize, &mut X) + Sync)) {
        struct Items<X>(*mut X);
        // SAFETY: each item is used by one thread at a time.
        unsafe impl<X: Send> Sync for Items<X> {}
        impl<X> Items<X> {
            fn get(&self, n: usize) -> *mut X {
                self.0.wrapping_add(n)
            }
        }
        let shared = Items(items.as_mut_ptr());
        // SAFETY: every n is an item's, and comes once.
        self.for_each(items.len(), &|n| f(n, unsafe { &mut *shared.get(n) }));
    }

    /// Runs work with this team as that of this thread's passes, see [`current`].
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Return(Option<Team>);
        impl Drop for Return {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _return = Return(CURRENT.replace(Some(self.clone())));
        work()
    }
}

/// Returns the team of this thread's passes, if it has entered one.
pub fn current() -> Option<Team> {
    CURRENT.with_borrow(Clone::clone)
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.shared.is_ending.store(true, SeqCst);
        self.shared.sleepers.iter().for_each(|sleeper| sleeper.0.wake());
        // SAFETY: once, and not used after.
        for thread in unsafe { ManuallyDrop::take(&mut self.threads) } {
            // Panics of items have been passed on.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Takes part in passes until the team ends.
    fn serve(&self, member: usize) {
        let (mut before, sleeper) = (0, &self.sleepers[member - 1].0);
        loop {
            let mut seen = State(0);
            sleeper.wait(|| {
                seen = State(self.state.0.load(SeqCst));
                seen.is_for(member, before) || self.is_ending.load(SeqCst)
            });
            if self.is_ending.load(Relaxed) {
                return;
            }
            if self.state.0.compare_exchange(seen.0, seen.0 + 1, Acquire, Relaxed).is_err() {
                continue;
            }
            before = seen.number();
            // SAFETY: this member is active in a pass.
            let pass = unsafe { *self.pass.get() };
            self.work(pass, member);
            let left = State(self.state.0.fetch_sub(1, SeqCst));
            if left.0 & State::OPEN == 0 && left.active() == 1 {
                self.caller.0.wake();
            }
        }
    }

    /// Runs blocks until there are none left, this member's first.
    fn work(&self, pass: Pass, member: usize) {
        let Pass { f, count, block, members, .. } = pass;
        let was_at_work = IS_AT_WORK.replace(true);
        let blocks = count.div_ceil(block);
        let found = catch_unwind(AssertUnwindSafe(|| {
            for owner in (member..members).chain(0..member) {
                let share = blocks * owner / members..blocks * (owner + 1) / members;
                while let Some(n) = self.claim(owner, pass.number, share.len()) {
                    let first = (share.start + n) * block;
                    // SAFETY: the caller of the pass waits for its active members.
                    (first..count.min(first + block)).for_each(unsafe { &*f });
                }
            }
        }));
        IS_AT_WORK.set(was_at_work);
        if let Err(panic) = found {
            lock(&self.panic).get_or_insert(panic);
        }
    }

    /// Takes the next block of a member's share.
    fn claim(&self, owner: usize, pass: u64, of: usize) -> Option<usize> {
        let next = &self.next[owner].0;
        let mut seen = next.load(Relaxed);
        loop {
            let n = if seen >> INDEX_BITS == pass { seen & ((1 << INDEX_BITS) - 1) } else { 0 };
            if n as usize >= of {
                return None;
            }
            match next.compare_exchange_weak(seen, pass << INDEX_BITS | (n + 1), Relaxed, Relaxed) {
                Ok(_) => return Some(n as usize),
                Err(now) => seen = now,
            }
        }
    }
}

impl Sleeper {
    /// Waits until a condition holds, at first awake. The thread that makes it hold calls [`Sleeper::wake`] afterwards.
    fn wait(&self, mut holds: impl FnMut() -> bool) {
        for round in 0.. {
            if holds() {
                return;
            }
            if round < SPINS {
                std::hint::spin_loop();
            } else if round < ROUNDS {
                thread::yield_now();
            } else {
                *lock(&self.thread) = Some(thread::current());
                self.is_asleep.store(true, SeqCst);
                // Another thread may have set the condition after the last test, without waking this thread; test once more before parking.
                if !holds() {
                    thread::park();
                }
                self.is_asleep.store(false, SeqCst);
            }
        }
    }

    fn wake(&self) {
        if self.is_asleep.load(SeqCst)
            && self.is_asleep.swap(false, SeqCst)
            && let Some(thread) = &*lock(&self.thread)
        {
            thread.unpark();
        }
    }
}

/// Locks a mutex even if another thread has panicked: for data that no panic leaves half-changed.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, in the same way.
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, in the same way.
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the value of a cell, made now if it has none.
///
/// # Errors
/// Those of `make`; the cell then has no value.
pub fn get_or_make<V, E>(cell: &OnceLock<V>, make: impl FnOnce() -> Result<V, E>) -> Result<&V, E> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Checks passes of all sizes: every item runs once, on any thread.
    #[test]
    fn every_item_runs_once() {
        for size in [1, 2, 3, 8] {
            let team = Team::new(size, "test").unwrap();
            for count in (0..40).chain([255, 256, 1000, 100_003]) {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                team.for_each(count, &|n| {
                    seen[n].fetch_add(1, Relaxed);
                });
                assert!(seen.iter().all(|seen| seen.load(Relaxed) == 1), "{count} items on {size} threads");
            }
        }
    }

    /// Checks passes in quick succession, with pauses in which members fall asleep, each reading what the previous one has written.
    #[test]
    fn passes_follow_each_other() {
        let team = Team::new(4, "test").unwrap();
        let mut values = vec![0_u64; 4];
        for pass in 0..20_000 {
            team.for_each_of(&mut values, &|n, value| *value += n as u64 + pass);
            if pass % 2_000 == 0 {
                thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        let sum: u64 = (0..20_000).sum();
        assert_eq!(values, [0, 1, 2, 3].map(|n| sum + 20_000 * n));
    }

    #[test]
    fn several_threads_share_a_team_and_items_have_passes_of_their_own() {
        let (team, total) = (Team::new(3, "test").unwrap(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        team.for_each(3, &|_| {
                            team.for_each(5, &|n| {
                                total.fetch_add(n, Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Relaxed), 4 * 500 * 3 * 10);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let team = Team::new(3, "test").unwrap();
        for bad in 0..30 {
            let ended = AtomicUsize::new(0);
            let found = catch_unwind(AssertUnwindSafe(|| {
                team.for_each(30, &|n| {
                    assert!(n != bad, "item {n}");
                    ended.fetch_add(1, Relaxed);
                });
            }));
            let message = found.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(*message, format!("item {bad}"));
            assert!(ended.load(Relaxed) < 30);
        }
        let ended = AtomicUsize::new(0);
        team.for_each(30, &|_| {
            ended.fetch_add(1, Relaxed);
        });
        assert_eq!(ended.load(Relaxed), 30);
    }

    #[test]
    fn a_thread_returns_to_the_team_that_it_had_entered() {
        let [outer, inner] = [2, 3].map(|size| Team::new(size, "test").unwrap());
        let size = || current().map(|team| team.size());
        assert_eq!(size(), None);
        outer.enter(|| {
            inner.enter(|| assert_eq!(size(), Some(3)));
            let found = catch_unwind(AssertUnwindSafe(|| inner.enter(|| panic!("work"))));
            assert!(found.is_err());
            assert_eq!(size(), Some(2));
        });
        assert_eq!(size(), None);
    }
}
