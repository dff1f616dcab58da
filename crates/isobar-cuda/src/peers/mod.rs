//! GPUs that write to each other's memory: halo rows and sums without the host.
//!
//! A GPU has an inbox to which all others of a job write, by stores in kernels over NVLink or PCIe, and signals for
//! synchronisation (`kernels/exchange.cu`). Within a process this uses peer access, between processes of a host CUDA's memory
//! handles. Exchanges are recorded and replayed like any other kernel.
//!
//! * this file: channels and exchanges,
//! * `inbox`: access to other ranks' memory.

mod inbox;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use isobar_core::backend::Scalar;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout};
use isobar_core::real::Real;
use isobar_dist::part::{Division, Link, Redivision};

pub use self::inbox::host;
use self::inbox::{Address, Opened, announce, reach};
use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::{Pointer, lock};
use crate::kernels;
use crate::launch::{Argument, Arguments};
use crate::link::Neighbour;
use crate::memory::{Buffer, Mailbox};
use crate::module::Module;
use crate::scalars::Scalars;
use crate::vector::Vector;

/// Slots of a channel: the largest number of blocks that a message is divided among.
const PIECES: usize = 128;
/// Largest number of slots for halo rows.
const PIECES_OF_ROWS: usize = 32;
/// Slots of one side before those of the other, for two subdomains that are neighbours on both sides of a periodic direction.
const PLACES_AROUND: usize = PIECES_OF_ROWS;
/// Bytes per slot and message.
const PIECE_BYTES: usize = 64 << 10;
/// Largest number of ranks: the GPUs of a host.
const MOST_RANKS: usize = 16;
/// Largest number of scalars summed at once.
const SUMS: usize = 8;
/// Bytes of a channel: signals, two halves of numbers, two halves of pieces; as in exchange.cu.
const CHANNEL: usize = 32 * (PIECES + 1) + 16 * SUMS + 2 * PIECES * PIECE_BYTES;
/// Threads per block.
const THREADS: usize = 512;
/// Words of 16 bytes that justify a block.
const WORDS_A_BLOCK: usize = 256;
/// Timeout for other ranks. s
pub(crate) const PATIENCE_SECONDS: u64 = 20;

/// Returns the source of the kernels.
pub fn source() -> Source {
    Source::new("exchange", kernels::EXCHANGE)
        .define("PIECES", PIECES)
        .define("PIECE_BYTES", PIECE_BYTES)
        .define("MOST_RANKS", MOST_RANKS)
}

/// The ranks whose GPUs write to each other's memory.
#[derive(Debug)]
pub struct Peers {
    rank: usize,
    size: usize,
    module: Arc<Module>,
    /// `Peer` of exchange.cu for every rank.
    table: Buffer,
    /// 1 + the rank that did not answer.
    fault: Mutex<Mailbox>,
    _opened: Opened,
    /// The inboxes that kernels write to, here and on other ranks of this process, kept alive even if those ranks have failed.
    _inboxes: Vec<Arc<Buffer>>,
    _counts: Buffer,
}

/// A rank's own resources, made before it knows the others.
struct Prepared {
    address: Address,
    inbox: Arc<Buffer>,
    counts: Buffer,
    table: Buffer,
    module: Arc<Module>,
    fault: Mailbox,
}

impl Prepared {
    fn new(cuda: &Cuda, size: usize) -> Result<Self> {
        let context = cuda.context();
        let inbox = Arc::new(Buffer::zeros(context, size * CHANNEL, "the inbox for other ranks")?);
        announce(&inbox);
        let counts = Buffer::zeros(context, 4 * size * (PIECES + 1), "counts of messages")?;
        let table = Buffer::new(context, size * size_of::<Peer>(), "the table of other ranks")?;
        let module = cuda.module(source());
        module.prepare(&["exchange_rows", "gather_rows", "divide_again", "sum_ranks", "copy_rows"], 0)?;
        // All memory is zero before other ranks know its address.
        context.synchronize()?;
        Ok(Self { address: Address::of(context, &inbox)?, inbox, counts, table, module, fault: Mailbox::new(context)? })
    }
}

/// `Peer` of exchange.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Peer {
    there: Pointer,
    here: Pointer,
    counts: Pointer,
}

/// `Edge` of exchange.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Edge {
    own: [Pointer; 2],
    halo: [Pointer; 2],
    rank: i32,
    place: i32,
}

// SAFETY: as in exchange.cu; four times eight bytes, twice four.
unsafe impl Argument for Edge {}

impl Edge {
    /// Makes the first or the last row of this rank's subdomain, of a vector whose first cell is at `start`, with rows of these colours.
    fn of<T: Real>(layout: &Layout, start: Pointer, colours: &[Colour], is_last: bool, ranks: [usize; 2]) -> Self {
        let rows = layout.shape().ny as i64;
        let (row, beyond) = if is_last { (rows - 1, rows) } else { (0, -1) };
        let half_plane = (layout.half_plane() * size_of::<T>()) as i64;
        let at = |half_planes: i64| start.wrapping_add_signed(half_planes * half_plane);
        let mut edge = Self { own: [0; 2], halo: [0; 2], rank: -1, place: 0 };
        let Some(neighbour) = Neighbour::of(layout, is_last, ranks) else { return edge };
        edge.rank = neighbour.rank as i32;
        // Both ranks at an end of a periodic direction use the same slots for it.
        edge.place = if neighbour.is_around { PLACES_AROUND as i32 } else { 0 };
        for (place, &colour) in Colour::BOTH.iter().filter(|colour| colours.contains(colour)).enumerate() {
            let local = layout.local(colour) as i64;
            (edge.own[place], edge.halo[place]) = (at(2 * row + local), at(2 * beyond + local));
        }
        edge
    }
}

/// `Patience` of exchange.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Patience {
    fault: Pointer,
    nanoseconds: i64,
}

// SAFETY: as in exchange.cu; twice eight bytes.
unsafe impl Argument for Patience {}

/// `Starts` of exchange.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Starts([i32; MOST_RANKS + 4]);

// SAFETY: as in exchange.cu; 32-bit integers.
unsafe impl Argument for Starts {}

/// `Numbers` of exchange.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Numbers([Pointer; SUMS]);

// SAFETY: as in exchange.cu; pointers.
unsafe impl Argument for Numbers {}

impl Peers {
    /// Implements [`Cuda::join`].
    pub(crate) fn join(
        cuda: &Cuda,
        rank: usize,
        size: usize,
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Option<Self>> {
        if !(2..=MOST_RANKS).contains(&size) {
            return Ok(None);
        }
        let context = cuda.context();
        // A rank that fails here still takes part in the following calls, because the others wait for it.
        let prepared = Prepared::new(cuda, size);
        let mine = prepared.as_ref().map_or(Address::NONE, |prepared| prepared.address);
        let all = all_gather(&mine.to_bytes())?;
        let addresses: Vec<Address> = all.chunks(Address::BYTES).filter_map(Address::from_bytes).collect();
        let mut opened = Opened::new(context);
        let mut inboxes = Vec::new();
        let reached: Option<Vec<Pointer>> =
            addresses.iter().map(|address| reach(context, &mine, address, &mut opened, &mut inboxes)).collect();
        // If any rank cannot be reached, all exchange through the host. This is also necessary if two ranks share a GPU, since kernels
        // of one would wait on it for kernels of the other.
        let cards: HashSet<_> = addresses.iter().map(|address| address.card).collect();
        let is_reached = cards.len() == size && reached.as_ref().is_some_and(|reached| reached.len() == size);
        let verdicts = all_gather(&[u8::from(is_reached && prepared.is_ok())])?;
        let prepared = prepared?;
        let Some(reached) = reached.filter(|_| verdicts.iter().all(|&verdict| verdict == 1)) else { return Ok(None) };
        Self::meet(prepared, [rank, size], &reached, opened, inboxes).map(Some)
    }

    /// Opens the inboxes of all ranks on this GPU.
    fn meet(
        prepared: Prepared,
        [rank, size]: [usize; 2],
        reached: &[Pointer],
        opened: Opened,
        inboxes: Vec<Arc<Buffer>>,
    ) -> Result<Self> {
        let Prepared { inbox, counts, table, module, fault, .. } = prepared;
        let peers: Vec<Peer> = reached
            .iter()
            .enumerate()
            .map(|(other, &inbox_there)| Peer {
                there: inbox_there + (rank * CHANNEL) as Pointer,
                here: inbox.start() + (other * CHANNEL) as Pointer,
                counts: counts.start() + (4 * other * (PIECES + 1)) as Pointer,
            })
            .collect();
        table.write(&peers)?;
        Ok(Self {
            rank,
            size,
            module,
            table,
            fault: Mutex::new(fault),
            _opened: opened,
            _inboxes: inboxes,
            _counts: counts,
        })
    }

    /// Fails if another rank has not answered.
    pub(crate) fn check(&self) -> Result<()> {
        match lock(&self.fault).first() {
            0 => Ok(()),
            rank => Err(Error::Device {
                device: format!("rank {} of {}", self.rank, self.size),
                message: format!("rank {} has not answered for {PATIENCE_SECONDS} s; it has failed or hangs", rank - 1),
            }),
        }
    }

    fn patience(&self) -> Patience {
        Patience { fault: lock(&self.fault).numbers(), nanoseconds: (PATIENCE_SECONDS * 1_000_000_000) as i64 }
    }

    fn launch(&self, cuda: &Cuda, name: &'static str, grid: [usize; 3], arguments: Arguments) -> Result<()> {
        cuda.launch(self.module.kernel(name)?, grid, [THREADS, 1], arguments)
    }
}

/// Returns the 16-byte words of a half plane.
fn words<T: Real>(x: &Vector<T>) -> usize {
    x.layout().half_plane() * size_of::<T>() / 16
}

/// Returns the number of blocks for a message.
fn places(words: usize, most: usize) -> usize {
    words.div_ceil(WORDS_A_BLOCK).clamp(1, most)
}

fn starts(starts: &[usize]) -> Starts {
    let mut all = Starts([0; MOST_RANKS + 4]);
    for (to, &from) in all.0.iter_mut().zip(starts) {
        *to = from as i32;
    }
    all
}

/// Returns the largest subdomain of a rank.
fn largest(starts: &[usize]) -> usize {
    starts.windows(2).map(|part| part[1] - part[0]).max().unwrap_or(0)
}

impl Link<Cuda> for Peers {
    fn fill<T: Real>(&self, cuda: &Cuda, x: &mut Vector<T>, colours: &[Colour]) -> Result<()> {
        let ranks = [self.rank, self.size];
        let edge = |is_last: bool| Edge::of::<T>(x.layout(), x.pointer(), colours, is_last, ranks);
        let (words, colours) = (words(x), colours.len().min(2));
        let arguments = Arguments::new().with(self.table.start()).with(edge(false)).with(edge(true));
        let arguments = arguments.with(words as i64).with(colours as i32).with(self.patience());
        self.launch(cuda, "exchange_rows", [places(colours * words, PIECES_OF_ROWS), 2, 1], arguments)
    }

    fn sum(&self, cuda: &Cuda, sums: &[Scalar], scalars: &mut Scalars) -> Result<()> {
        for sums in sums.chunks(SUMS) {
            let mut numbers = Numbers([0; SUMS]);
            for (place, &scalar) in numbers.0.iter_mut().zip(sums) {
                *place = scalars.pointer(scalar);
            }
            let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32).with(self.size as i32);
            let arguments = arguments.with(numbers).with(sums.len() as i32).with(self.patience());
            cuda.launch(self.module.kernel("sum_ranks")?, [1, 1, 1], [32, 1], arguments)?;
        }
        Ok(())
    }

    fn gather<T: Real>(&self, cuda: &Cuda, part: &Vector<T>, rows: &[usize], whole: &mut Vector<T>) -> Result<()> {
        let words = words(part);
        let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32);
        let arguments = arguments.with(part.pointer()).with(whole.pointer()).with(words as i64);
        let grid = [places(2 * words * largest(rows), PIECES), self.size, 1];
        self.launch(cuda, "gather_rows", grid, arguments.with(starts(rows)).with(self.patience()))
    }

    fn redivide<T: Real>(&self, cuda: &Cuda, division: &Division, change: Redivision<'_, Vector<T>>) -> Result<()> {
        let ([rows, layers], to_layers) = change.vectors();
        let words = rows.layout().pitch() * size_of::<T>() / 16;
        let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32);
        let arguments = arguments.with(rows.pointer()).with(layers.pointer()).with(words as i32);
        let arguments = arguments.with(rows.layout().shape().nz as i32).with(i32::from(to_layers));
        let arguments = arguments.with(starts(&division.rows)).with(starts(&division.layers));
        let most = 2 * words * largest(&division.rows) * largest(&division.layers);
        self.launch(cuda, "divide_again", [places(most, PIECES), self.size, 1], arguments.with(self.patience()))
    }
}

#[cfg(test)]
mod tests;
