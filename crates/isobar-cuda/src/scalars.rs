//! Scalars on the GPU, and their publication to the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use isobar_core::backend::{self, Scalar, Sums};
use isobar_core::error::Result;

use crate::memory::Mailbox;
use crate::{Arguments, Buffer, Context, Kernel, Launch, Pointer, argument};

/// The bank of scalars of a solve.
#[derive(Debug)]
pub struct Scalars {
    /// The scalars, then the number of publications.
    bank: Buffer,
    mailbox: Mailbox,
    /// Number of publications, including those submitted but not yet done.
    published: AtomicU64,
}

impl Scalars {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let mut bank = [0.0; Scalar::COUNT + 1];
        bank[Scalar::ONE.index()] = 1.0;
        Ok(Self {
            bank: Buffer::from_slice(context, &bank, "scalars")?,
            mailbox: Mailbox::new(context)?,
            published: AtomicU64::new(0),
        })
    }

    /// Returns the address of all scalars, in order.
    pub(crate) fn all(&self) -> Pointer {
        self.bank.start()
    }

    /// Returns the address of a scalar.
    pub(crate) fn pointer(&self, scalar: Scalar) -> Pointer {
        self.bank.start() + 8 * scalar.index() as Pointer
    }

    /// Returns the address of the first of adjacent scalars.
    pub(crate) fn sums<const N: usize>(&self, sums: Sums<N>) -> Pointer {
        self.pointer(sums.get(0))
    }

    /// Returns a coefficient as an argument for kernels.
    pub(crate) fn ratio(&self, ratio: backend::Ratio) -> Ratio {
        Ratio {
            over: ratio.numerators.map(|scalar| self.pointer(scalar)),
            under: ratio.denominators.map(|scalar| self.pointer(scalar)),
            sign: if ratio.negative { -1.0 } else { 1.0 },
        }
    }

    /// Returns the launch that publishes the bank to the host. Whoever submits it must call [`Scalars::note_submitted`].
    pub(crate) fn publish(&self, kernel: &Kernel) -> Launch {
        let arguments = Arguments::new()
            .with(Scalar::COUNT as i32)
            .with(self.bank.start())
            .with(self.bank.start() + 8 * Scalar::COUNT as Pointer)
            .with(self.mailbox.numbers())
            .with(self.mailbox.count());
        Launch { kernel: kernel.clone(), grid: [1, 1, 1], block: [32, 1], shared_bytes: 0, arguments }
    }

    /// Counts a submitted [`Scalars::publish`], even if nobody waits for it after a failure.
    pub(crate) fn note_submitted(&self) {
        self.published.fetch_add(1, Relaxed);
    }

    /// Waits for all work submitted up to the last [`Scalars::publish`].
    pub(crate) fn wait(&self) -> Result<[f64; Scalar::COUNT]> {
        self.mailbox.wait(self.published.load(Relaxed))
    }
}

argument! {
    /// A [`backend::Ratio`] with addresses instead of names: `Ratio` of layout.cuh.
    pub(crate) struct Ratio {
        over: [Pointer; 2],
        under: [Pointer; 2],
        sign: f64,
    }
}
