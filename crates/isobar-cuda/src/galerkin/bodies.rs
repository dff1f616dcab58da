//! Corrections of strongly coupled aggregates on a GPU (`bodies` in code).

use std::sync::{Arc, RwLock, RwLockReadGuard};

use isobar_core::operator::Correction;
use isobar_core::prelude::{Backend, Guess, Real, Result, read, write};

use super::setup::Lists;
use super::sources::sources;
use crate::launch::refuse_while_recording;
use crate::{Arguments, Buffer, Cuda, Module, Pointer, Vector};

/// Threads of a block.
const THREADS: usize = 128;
/// The most aggregates that have a block each.
const FEW: usize = 4096;

/// The correction u += ω Σ_θ Z D⁻¹ Zᵀ r.
#[derive(Debug)]
pub struct BodyCorrection<T> {
    cuda: Cuda,
    held: RwLock<Held>,
    module: Arc<Module>,
    precision: std::marker::PhantomData<T>,
}

#[derive(Debug, Default)]
struct Held {
    lists: Vec<Lists>,
    /// Sums over aggregates shared with other GPUs, if there are any.
    sums: Option<Buffer>,
}

impl Held {
    fn shared(&self) -> usize {
        self.lists.iter().map(|lists| lists.shared).sum()
    }
}

impl<T: Real> BodyCorrection<T> {
    pub(super) fn new(cuda: &Cuda, bodies: Vec<Lists>) -> Result<Self> {
        refuse_while_recording("making a correction")?;
        let [.., source] = sources::<T>();
        let module = cuda.module(source);
        let this = Self { cuda: cuda.clone(), held: RwLock::default(), module, precision: std::marker::PhantomData };
        this.update(bodies)?;
        Ok(this)
    }

    /// Replaces the aggregates.
    pub(super) fn update(&self, bodies: Vec<Lists>) -> Result<()> {
        refuse_while_recording("updating a correction")?;
        if !bodies.is_empty() {
            self.module.prepare(&["correct_bodies", "sum_bodies", "correct_by_sums"], 0)?;
        }
        let mut held = Held { lists: bodies, sums: None };
        if held.shared() > 0 {
            let what = "sums over strongly coupled aggregates";
            held.sums = Some(Buffer::new(self.cuda.context(), 8 * held.shared(), what)?);
        }
        // Work submitted with the old lists must finish before they are freed.
        self.cuda.context().synchronize()?;
        *write(&self.held) = held;
        Ok(())
    }

    /// Returns the lists, which are replaced as a whole, so that a panic elsewhere cannot leave them inconsistent.
    fn held(&self) -> RwLockReadGuard<'_, Held> {
        read(&self.held)
    }

    /// Launches a kernel with a warp for each aggregate, or a block, if there are few.
    fn launch(&self, name: &'static str, count: usize, pointers: &[Pointer]) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let width = if count <= FEW { THREADS } else { 32 };
        let arguments = Arguments::new().with(count as i32).with(width as i32);
        let arguments = pointers.iter().fold(arguments, |all, &pointer| all.with(pointer));
        self.cuda.launch(self.module.kernel(name)?, [(count * width).div_ceil(THREADS), 1, 1], [THREADS, 1], arguments)
    }
}

impl<T: Real> Correction<Cuda, T> for BodyCorrection<T> {
    fn is_active(&self) -> bool {
        !self.held().lists.is_empty()
    }

    fn correct(&self, r: &Vector<T>, u: &mut Vector<T>, guess: Guess) -> Result<()> {
        let held = self.held();
        if guess == Guess::Zero {
            self.cuda.clear(u)?;
        }
        let first_sum = held.sums.as_ref().map_or(0, Buffer::start);
        let mut sum = first_sum;
        for Lists { shared, starts, cells, .. } in &held.lists {
            self.launch("sum_bodies", *shared, &[starts.start(), cells.start(), r.pointer(), sum])?;
            sum += 8 * *shared as Pointer;
        }
        if held.sums.is_some() {
            self.cuda.sum_over_ranks(first_sum, held.shared())?;
        }
        let mut sum = first_sum;
        for Lists { count, shared, starts, cells, factors } in &held.lists {
            let [starts, cells, factors] = [starts, cells, factors].map(Buffer::start);
            self.launch("correct_by_sums", *shared, &[starts, cells, factors, sum, u.pointer()])?;
            sum += 8 * *shared as Pointer;
            let (starts, factors) = (starts + 4 * *shared as Pointer, factors + 8 * *shared as Pointer);
            self.launch("correct_bodies", count - shared, &[starts, cells, factors, r.pointer(), u.pointer()])?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.held().lists.iter().map(Lists::bytes).sum()
    }

    /// Returns whether there are aggregates shared by several subdomains whose sums pass through the host.
    fn needs_host(&self) -> bool {
        self.cuda.sums_by_host() && self.held().sums.is_some()
    }
}
