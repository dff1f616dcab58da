//! Several GPUs of one machine, each with a thread of this process.
//!
//! * this file: solvers,
//! * `in_time`: steps of the heat equation.

mod in_time;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use isobar_core::backend::copy_bandwidth;
use isobar_core::build::{Balance, Description};
use isobar_core::options::Compatibility;
use isobar_core::prelude::{Backend, Error, Guess, Observer, Outcome, Result, Shape, Slab, Solve, Source, Target};
use isobar_core::solver::Progress;
use isobar_core::team::lock;
use isobar_cuda::Cuda;
use isobar_dist::threads::{Threads, run_each};
use isobar_dist::{Communicator, PartBackend};

use crate::divided::{OnRanks, join_cuda};
use crate::on_rows::{about_whole, described_whole};

/// Several NVIDIA GPUs that share a grid.
#[derive(Clone, Debug)]
pub struct Cards {
    ranks: Vec<Rank>,
}

#[derive(Clone, Debug)]
struct Rank {
    backend: Cuda,
    world: Threads,
}

impl Cards {
    pub(crate) fn open(ordinals: &[usize]) -> Result<Self> {
        let mut seen = HashSet::new();
        if let Some(twice) = ordinals.iter().find(|&&ordinal| !seen.insert(ordinal)) {
            return Err(Error::invalid("device", format!("cuda:{twice} is given twice; give each GPU once")));
        }
        Error::unless(!ordinals.is_empty(), "device", || "no GPU; use cuda, or cuda:N with the number of a device")?;
        Self::on(ordinals)
    }

    /// Makes a rank on each of these GPUs; ranks that share a GPU exchange data through the host.
    fn on(ordinals: &[usize]) -> Result<Self> {
        let open = |world: &Threads| {
            let as_communicator: Arc<dyn Communicator> = Arc::new(world.clone());
            let card = Cuda::new(ordinals[world.rank()])?;
            Ok(Rank { backend: join_cuda(&card, &as_communicator)?, world: world.clone() })
        };
        let worlds = Threads::ranks(ordinals.len());
        Ok(Self { ranks: run_each(worlds.iter().map(|world| (world, world)), open)? })
    }

    /// Measures the bytes a second that all of them copy, each its part of a vector.
    pub(crate) fn copy_bandwidth(&self, shape: Shape) -> Result<f64> {
        let measure = |rank: &Rank| copy_bandwidth(&rank.backend.alone(), rank.backend.own_rows(shape)?.shape(shape));
        Ok(self.at_once(measure)?.iter().sum())
    }

    fn at_once<R: Send>(&self, work: impl Fn(&Rank) -> Result<R> + Sync) -> Result<Vec<R>> {
        run_each(self.ranks.iter().map(|rank| (&rank.world, rank)), work)
    }

    /// Makes a solver on all GPUs, each with its rows.
    pub(crate) fn solver<S: OnRanks + Sync>(
        &self,
        matrix: &S,
        make: impl Fn(&Cuda) -> Result<Box<dyn Solve<S>>> + Sync,
    ) -> Result<Box<dyn Solve<S>>> {
        if !S::IS_DIVIDED {
            return Err(Error::Unsupported(
                "matrices of this kind on several GPUs; use one, as by the device \"cuda:0\", or the processor's cores"
                    .into(),
            ));
        }
        let parts = Parts::new(self, matrix.shape(), |rank| make(&rank.backend))?;
        let levels = matrix.levels();
        let description = parts.describe(&levels, |system| system.description());
        Ok(Box::new(Together { parts, levels, description }))
    }
}

/// One GPU's share of a solver, or of a stepper.
struct Part<W> {
    work: W,
    rows: Slab,
}

/// The shares of all GPUs.
struct Parts<W> {
    cards: Cards,
    all: Vec<Mutex<Part<W>>>,
    shape: Shape,
}

impl<W: Send> Parts<W> {
    /// Makes each share on its GPU.
    fn new(cards: &Cards, shape: Shape, make: impl Fn(&Rank) -> Result<W> + Sync) -> Result<Self> {
        let all = cards.at_once(|rank| {
            let rows = rank.backend.own_rows(shape)?;
            Ok(Mutex::new(Part { work: make(rank)?, rows }))
        })?;
        Ok(Self { cards: cards.clone(), all, shape })
    }

    fn each<R: Send>(&self, work: impl Fn(&mut Part<W>, &Rank) -> Result<R> + Sync) -> Result<Vec<R>> {
        let ranks = self.cards.ranks.iter().zip(&self.all);
        run_each(ranks.map(|pair| (&pair.0.world, pair)), |(rank, part)| work(&mut lock(part), rank))
    }

    /// Returns the share of the first GPU; [`Cards::open`] takes one at least.
    fn first(&self) -> MutexGuard<'_, Part<W>> {
        lock(&self.all[0])
    }

    /// Fails for arrays of another shape.
    fn check(&self, shapes: &[Shape]) -> Result<()> {
        shapes.iter().try_for_each(|&shape| Error::unless_equal("array", shape, self.shape))
    }

    /// Runs `work` on all GPUs, each with its rows of the caller's array.
    fn each_with<R: Send>(
        &self,
        target: Target<'_>,
        work: impl Fn(&mut Part<W>, Target<'_>, &Rank) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if matches!(target, Target::Device(_)) {
            return Err(on_a_device());
        }
        let slabs: Vec<Slab> = self.all.iter().map(|part| lock(part).rows).collect();
        let ranks = self.cards.ranks.iter().zip(&self.all).zip(target.into_parts(&slabs)?);
        run_each(ranks.map(|((rank, part), rows)| (&rank.world, (rank, part, rows))), |(rank, part, rows)| {
            work(&mut lock(part), rows, rank)
        })
    }

    /// Describes all shares as one, with the sum of their memory and traffic.
    fn describe(&self, levels: &[Shape], says: impl Fn(&W) -> &Description) -> Description {
        let description = described_whole(says(&self.first().work), levels);
        let sum = |bytes: fn(&Description) -> usize| self.all.iter().map(|part| bytes(says(&lock(part).work))).sum();
        Description {
            traffic: self.all.iter().flat_map(|part| says(&lock(part).work).traffic.clone()).collect(),
            bytes: sum(|description| description.bytes),
            coefficient_bytes: sum(|description| description.coefficient_bytes),
            ..description
        }
    }
}

/// The solvers of all GPUs as one.
struct Together<S> {
    parts: Parts<Box<dyn Solve<S>>>,
    /// The grids of multigrid on one GPU.
    levels: Vec<Shape>,
    description: Description,
}

fn on_a_device() -> Error {
    Error::Unsupported("an array in the memory of a GPU for a solver on several; copy it to host memory".into())
}

/// The observer's verdict after each iteration, given on rank 0: all ranks must end at the same iteration.
#[derive(Debug, Default)]
struct Verdicts {
    /// Iterations that have been judged.
    judged: AtomicUsize,
    /// 1 + the number of the last iteration.
    end: AtomicUsize,
}

/// Ends all waiting when rank 0 has ended.
struct Told<'v>(&'v Verdicts);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.judged.store(usize::MAX, Ordering::Release);
    }
}

impl Verdicts {
    fn tell(&self, n: usize, flow: ControlFlow<()>) -> ControlFlow<()> {
        if flow.is_break() {
            self.end.store(n + 1, Ordering::Relaxed);
        }
        self.judged.store(n + 1, Ordering::Release);
        flow
    }

    fn wait(&self, n: usize) -> ControlFlow<()> {
        let mut looks = 0_u32;
        while self.judged.load(Ordering::Acquire) <= n {
            looks += 1;
            if looks < 1 << 12 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        if self.end.load(Ordering::Relaxed) == n + 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the observer of a rank, for one solve or several: rank 0 asks the user's observer, the others wait for its answer.
    fn observer<'v>(
        &'v self,
        rank: usize,
        observer: &'v Mutex<&mut Observer<'_>>,
    ) -> impl FnMut(&Progress) -> ControlFlow<()> + 'v {
        let mut n = 0;
        move |progress| {
            n += 1;
            if rank > 0 { self.wait(n - 1) } else { self.tell(n - 1, lock(observer)(progress)) }
        }
    }
}

impl<S: OnRanks + Sync> Together<S> {
    /// Applies a map on every GPU, from its rows of one array to its rows of another.
    fn map(
        &mut self,
        from: Source<'_>,
        to: Target<'_>,
        work: impl Fn(&mut dyn Solve<S>, Source<'_>, Target<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.parts.check(&[from.shape(), to.shape()])?;
        self.parts.each_with(to, |part, rows, _| work(&mut *part.work, from.part(part.rows)?, rows)).map(drop)
    }
}

impl<S: OnRanks + Sync> Solve<S> for Together<S> {
    fn solve(&mut self, rhs: Source<'_>, u: Target<'_>, guess: Guess, observer: &mut Observer<'_>) -> Result<Outcome> {
        self.parts.check(&[rhs.shape(), u.shape()])?;
        let clock = Instant::now();
        let (verdicts, observer, not_finite) = (&Verdicts::default(), &Mutex::new(observer), &Mutex::new(None));
        let outcomes = self.parts.each_with(u, |part, rows, rank| {
            // The others must not wait for rank 0, however it ends.
            let _told = (rank.world.rank() == 0).then_some(Told(verdicts));
            let observe = &mut verdicts.observer(rank.world.rank(), observer);
            let own = part.rows;
            let outcome = part.work.solve(rhs.part(own)?, rows, guess, observe);
            outcome.map_err(|error| match about_whole(error, own) {
                cell @ Error::NotFinite { .. } => {
                    let told = Error::invalid("array", cell.to_string());
                    *lock(not_finite) = Some(cell);
                    told
                }
                other => other,
            })
        });
        // The rank with the cell has the best message; others may have failed before it.
        let mut outcomes = outcomes.map_err(|error| lock(not_finite).take().unwrap_or(error))?;
        // A solve may have replaced a slow preconditioner.
        self.description = self.parts.describe(&self.levels, |system| system.description());
        let mut outcome = outcomes.swap_remove(0);
        // The rest is transfers of arrays to the GPUs and back.
        let transfers = clock.elapsed().as_secs_f64() - outcome.timing.solve - outcome.timing.upload;
        outcome.timing.download = transfers.max(outcome.timing.download);
        Ok(outcome)
    }

    fn apply(&mut self, u: Source<'_>, v: Target<'_>) -> Result<()> {
        self.map(u, v, |system, u, v| system.apply(u, v))
    }

    fn precondition(&mut self, r: Source<'_>, z: Target<'_>, iterations: usize) -> Result<()> {
        self.map(r, z, |system, r, z| system.precondition(r, z, iterations))
    }

    fn set_tolerance(&mut self, tolerance: f64) -> Result<()> {
        self.parts.each(|part, _| part.work.set_tolerance(tolerance)).map(drop)
    }

    fn update(&mut self, stencil: &S) -> Result<()> {
        self.parts.each(|part, _| part.work.update(stencil)).map(drop)
    }

    fn balance(&mut self) -> Result<Balance> {
        // All ranks have the same sums, so that one is enough.
        Ok(self.parts.each(|part, _| part.work.balance())?.swap_remove(0))
    }

    fn set_compatibility(&mut self, compatibility: Compatibility) -> Compatibility {
        let each = self.parts.all.iter().map(|part| lock(part).work.set_compatibility(compatibility));
        each.last().unwrap_or_default()
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn copy_bandwidth(&self) -> Result<f64> {
        self.parts.cards.copy_bandwidth(self.parts.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_end_at_the_iteration_that_rank_0_ends_at() {
        for end in [1, 2, 7] {
            let (verdicts, worlds) = (Verdicts::default(), Threads::ranks(3));
            let counts = run_each(worlds.iter().map(|world| (world, world.rank())), |rank| {
                let flow = |n: usize| match rank {
                    0 if n + 1 == end => verdicts.tell(n, ControlFlow::Break(())),
                    0 => verdicts.tell(n, ControlFlow::Continue(())),
                    _ => verdicts.wait(n),
                };
                Ok((0..).take_while(|&n| flow(n).is_continue()).count() + 1)
            });
            assert_eq!(counts.unwrap(), [end; 3]);
        }
        // No rank waits for a rank 0 that has ended.
        let verdicts = Verdicts::default();
        drop(Told(&verdicts));
        assert!(verdicts.wait(1000).is_continue());
    }

    #[test]
    fn an_error_of_one_is_that_of_all() {
        let worlds = Threads::ranks(3);
        let failed = run_each(worlds.iter().map(|world| (world, world)), |world| match world.rank() {
            1 => Err(Error::Unsupported("this".into())),
            // This would wait for ever.
            _ => world.barrier().map_err(|error| Error::Unsupported(format!("told: {error}"))),
        });
        assert!(failed.unwrap_err().to_string().contains("this"));
        // The communicators can be used again.
        let sums = run_each(worlds.iter().map(|world| (world, world)), |world| {
            let mut rank = [world.rank() as f64];
            world.sum(&mut rank)?;
            Ok(rank[0])
        });
        assert_eq!(sums.unwrap(), [3.0; 3]);
        assert!(matches!(Cards::open(&[1, 0, 1]), Err(Error::Invalid { .. })));
        assert!(matches!(Cards::open(&[]), Err(Error::Invalid { .. })));
    }
}
