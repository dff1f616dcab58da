//! Cards that write to each other's memory: halo rows and sums without the host.
//!
//! A card has an inbox that all others of a job write to, by stores of their kernels over NVLink or PCIe, and signals that say
//! when (`kernels/exchange.cu`). Within a process that takes peer access, between processes of a host CUDA's handles for
//! memory. What is exchanged is recorded and replayed as any other kernel.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys;
use isobar_core::backend::Scalar;
use isobar_core::backend::part::{Division, Link, Redivision};
use isobar_core::error::{Error, Result};
use isobar_core::layout::Colour;
use isobar_core::real::Real;

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::{Context, Pointer, check, enable_peer_access, lock};
use crate::kernels;
use crate::launch::{Argument, Arguments};
use crate::memory::{Buffer, Mailbox};
use crate::module::Module;
use crate::scalars::Scalars;
use crate::vector::Vector;

/// Places of a channel: blocks that a message is divided among, at most.
const PIECES: usize = 128;
/// Those that halo rows go through, at most.
const PIECES_OF_ROWS: usize = 32;
/// What goes through a place at once.
const PIECE_BYTES: usize = 64 << 10;
/// Ranks, at most: the cards of a host.
const MOST_RANKS: usize = 16;
/// Numbers that are summed up at once, at most.
const SUMS: usize = 8;
/// Bytes of a channel: signals, two halves of numbers, two halves of pieces; as in exchange.cu.
const CHANNEL: usize = 32 * (PIECES + 1) + 16 * SUMS + 2 * PIECES * PIECE_BYTES;
/// Threads of a block.
const THREADS: usize = 512;
/// Words of 16 bytes that are worth a block.
const WORDS_A_BLOCK: usize = 256;
/// How long a rank is waited for.
pub(crate) const PATIENCE_SECONDS: u64 = 20;

/// The source of the kernels.
pub fn source() -> Source {
    Source::new("exchange", kernels::EXCHANGE)
        .define("PIECES", PIECES)
        .define("PIECE_BYTES", PIECE_BYTES)
        .define("MOST_RANKS", MOST_RANKS)
}

/// The ranks whose cards this card writes to, and which write to it.
#[derive(Debug)]
pub struct Peers {
    rank: usize,
    size: usize,
    module: Arc<Module>,
    /// `Peer` of exchange.cu for every rank.
    table: Buffer,
    /// 1 + the rank that did not answer.
    fault: Mutex<Mailbox>,
    opened: Opened,
    /// Kept for the kernels: what they write to, here and on other ranks of this process, which may have failed.
    _inboxes: Vec<Arc<Buffer>>,
    _counts: Buffer,
}

/// What a rank needs before it knows of the others.
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
        let inbox = Arc::new(Buffer::zeros(context, size * CHANNEL, "what other ranks write to")?);
        announce(&inbox);
        let counts = Buffer::zeros(context, 4 * size * (PIECES + 1), "counts of messages")?;
        let table = Buffer::new(context, size * size_of::<Peer>(), "where other ranks are")?;
        let [module] = cuda.prepare([source()])?;
        module.prepare(&["exchange_rows", "gather_rows", "divide_again", "sum_ranks", "copy_rows"], 0)?;
        // All zero before anyone knows where it is.
        context.synchronize()?;
        let address = Address {
            host: host(),
            process: u64::from(std::process::id()),
            ordinal: context.ordinal as u64,
            inbox: inbox.start(),
            card: context.uuid()?,
            handle: handle(&inbox),
        };
        Ok(Self { address, inbox, counts, table, module, fault: Mailbox::new(context)? })
    }
}

/// The inboxes of this process.
static INBOXES: Mutex<Vec<Weak<Buffer>>> = Mutex::new(Vec::new());

/// Makes an inbox known to the other ranks of this process.
fn announce(inbox: &Arc<Buffer>) {
    let mut all = lock(&INBOXES);
    all.retain(|inbox| inbox.strong_count() > 0);
    all.push(Arc::downgrade(inbox));
}

/// That of another rank of this process.
fn inbox_at(place: Pointer) -> Option<Arc<Buffer>> {
    lock(&INBOXES).iter().filter_map(Weak::upgrade).find(|inbox| inbox.start() == place)
}

/// Memory of other processes.
#[derive(Debug)]
struct Opened {
    context: Arc<Context>,
    places: Vec<Pointer>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A failure while shutting down has no one to be told to.
        let _ = self.context.synchronize();
        for &place in &self.places {
            // SAFETY: opened in `join`, closed once; no kernel is left that uses it.
            let _ = unsafe { sys::cuIpcCloseMemHandle(place) };
        }
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
    rank: i64,
}

// SAFETY: as in exchange.cu; five times eight bytes.
unsafe impl Argument for Edge {}

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

/// What ranks tell each other to get at their inboxes: numbers, then a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    host: u64,
    process: u64,
    ordinal: u64,
    inbox: u64,
    card: [u8; Self::CARD],
    handle: [u8; Self::HANDLE],
}

impl Address {
    const CARD: usize = 16;
    const HANDLE: usize = 64;
    const BYTES: usize = 4 * 8 + Self::CARD + Self::HANDLE;
    /// That of a rank that cannot be reached.
    const NONE: Self =
        Self { host: 0, process: 0, ordinal: 0, inbox: 0, card: [0; Self::CARD], handle: [0; Self::HANDLE] };

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, number) in [self.host, self.process, self.ordinal, self.inbox].into_iter().enumerate() {
            bytes[8 * place..8 * place + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[4 * 8..4 * 8 + Self::CARD].copy_from_slice(&self.card);
        bytes[4 * 8 + Self::CARD..].copy_from_slice(&self.handle);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |place: usize| Some(u64::from_le_bytes(bytes.get(8 * place..8 * place + 8)?.try_into().ok()?));
        Some(Self {
            host: number(0)?,
            process: number(1)?,
            ordinal: number(2)?,
            inbox: number(3)?,
            card: bytes.get(4 * 8..4 * 8 + Self::CARD)?.try_into().ok()?,
            handle: bytes.get(4 * 8 + Self::CARD..)?.try_into().ok()?,
        })
    }
}

/// A number that hosts hardly share, and containers of one do: what Linux calls this time that it runs, hashed.
pub fn host() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl Peers {
    /// See [`Cuda::join`].
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
        // A rank that fails here takes part in what follows all the same: the others wait for it.
        let prepared = Prepared::new(cuda, size);
        let mine = prepared.as_ref().map_or(Address::NONE, |prepared| prepared.address);
        let all = all_gather(&mine.to_bytes())?;
        let addresses: Vec<Address> = all.chunks(Address::BYTES).filter_map(Address::from_bytes).collect();
        let mut opened = Opened { context: Arc::clone(context), places: Vec::new() };
        let mut inboxes = Vec::new();
        let reached: Option<Vec<Pointer>> =
            addresses.iter().map(|address| reach(context, &mine, address, &mut opened, &mut inboxes)).collect();
        // One that cannot be reached is enough for all to go by way of the host. So are two ranks with one card: one's kernels
        // would wait on it for those of the other.
        let cards: HashSet<_> = addresses.iter().map(|address| address.card).collect();
        let is_reached = cards.len() == size && reached.as_ref().is_some_and(|reached| reached.len() == size);
        let verdicts = all_gather(&[u8::from(is_reached && prepared.is_ok())])?;
        let Prepared { inbox, counts, table, module, fault, .. } = prepared?;
        let Some(reached) = reached.filter(|_| verdicts.iter().all(|&verdict| verdict == 1)) else { return Ok(None) };
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
        Ok(Some(Self {
            rank,
            size,
            module,
            table,
            fault: Mutex::new(fault),
            opened,
            _inboxes: inboxes,
            _counts: counts,
        }))
    }

    /// Fails where another rank has not answered.
    pub(crate) fn check(&self) -> Result<()> {
        match lock(&self.fault).first() {
            0 => Ok(()),
            rank => Err(Error::Device {
                device: format!("rank {} of {}", self.rank, self.size),
                message: format!(
                    "rank {} has not answered for {PATIENCE_SECONDS} s; it has failed, or is stuck",
                    rank - 1
                ),
            }),
        }
    }

    /// Whether any of them belongs to another process.
    pub fn spans_processes(&self) -> bool {
        !self.opened.places.is_empty()
    }

    fn patience(&self) -> Patience {
        Patience { fault: lock(&self.fault).numbers(), nanoseconds: (PATIENCE_SECONDS * 1_000_000_000) as i64 }
    }

    fn launch(&self, cuda: &Cuda, name: &'static str, grid: [usize; 3], arguments: Arguments) -> Result<()> {
        cuda.launch(self.module.kernel(name)?, grid, [THREADS, 1], arguments)
    }
}

/// How other processes get at memory; nothing where they cannot.
fn handle(inbox: &Buffer) -> [u8; Address::HANDLE] {
    let mut handle = sys::CUipcMemHandle { reserved: [0; Address::HANDLE] };
    // SAFETY: the memory is an allocation of its own; on failure the handle stays as it is, and nobody can open it.
    let _ = unsafe { sys::cuIpcGetMemHandle(&raw mut handle, inbox.start()) };
    handle.reserved.map(i8::cast_unsigned)
}

/// Where an inbox is for this card; nothing where it cannot be reached.
fn reach(
    context: &Context,
    own: &Address,
    other: &Address,
    opened: &mut Opened,
    inboxes: &mut Vec<Arc<Buffer>>,
) -> Option<Pointer> {
    if own.host != other.host {
        return None;
    }
    if own.process == other.process {
        if own.ordinal != other.ordinal {
            enable_peer_access(context, other.ordinal as usize).ok()?;
        }
        inboxes.push(inbox_at(other.inbox)?);
        return Some(other.inbox);
    }
    let handle = sys::CUipcMemHandle { reserved: other.handle.map(u8::cast_signed) };
    let mut place = 0;
    context.bind().ok()?;
    let flags = sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
    // SAFETY: a handle that the driver gave another process; a wrong one is an error.
    check(unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut place, handle, flags) }, "opening another rank's memory")
        .ok()?;
    opened.places.push(place);
    Some(place)
}

/// Words of 16 bytes of a half plane.
fn words<T: Real>(x: &Vector<T>) -> usize {
    x.layout().half_plane() * size_of::<T>() / 16
}

/// Blocks for a message.
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

/// The largest of what ranks have.
fn largest(starts: &[usize]) -> usize {
    starts.windows(2).map(|part| part[1] - part[0]).max().unwrap_or(0)
}

impl Link<Cuda> for Peers {
    fn fill<T: Real>(&self, cuda: &Cuda, x: &mut Vector<T>, colours: &[Colour]) -> Result<()> {
        let layout = *x.layout();
        let (half, rows, halo) = (layout.half_plane() as i64, layout.shape().ny as i64, layout.halo());
        let at = |half_planes: i64| x.pointer().wrapping_add_signed(half_planes * half * size_of::<T>() as i64);
        let edge = |is_last: bool| {
            let (row, beyond) = if is_last { (rows - 1, rows) } else { (0, -1) };
            let is_there = halo[usize::from(is_last)] > 0;
            let mut edge = Edge { own: [0; 2], halo: [0; 2], rank: -1 };
            if is_there {
                edge.rank = if is_last { self.rank as i64 + 1 } else { self.rank as i64 - 1 };
                for (place, &colour) in Colour::BOTH.iter().filter(|colour| colours.contains(colour)).enumerate() {
                    let local = layout.local(colour) as i64;
                    (edge.own[place], edge.halo[place]) = (at(2 * row + local), at(2 * beyond + local));
                }
            }
            edge
        };
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
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sent_as_they_are() {
        let address =
            Address { host: 1 << 63, process: 2, ordinal: 3, inbox: u64::MAX, card: [5; 16], handle: [7; 64] };
        assert_eq!(Address::from_bytes(&address.to_bytes()), Some(address));
        assert_eq!(Address::from_bytes(&[0; 12]), None);
        assert_eq!(host(), host());
    }

    #[test]
    fn channels_are_as_the_kernels_have_them() {
        // Pieces are words of 16 bytes, and numbers of 8 come before them.
        assert_eq!((CHANNEL % 16, (32 * (PIECES + 1)) % 16, PIECE_BYTES % 16), (0, 0, 0));
        let all = [1, WORDS_A_BLOCK + 1, 1 << 30].map(|words| places(words, PIECES));
        assert_eq!(all, [1, 2, PIECES]);
    }
}
