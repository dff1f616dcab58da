//! GPUs that write to each other's memory: halo rows and sums without the host.
//!
//! A GPU has an inbox to which all others of a job write, by stores in kernels over NVLink or PCIe, and signals for
//! synchronisation (`kernels/exchange.cu`). Within a process this uses peer access, between processes of a host CUDA's memory
//! handles. Exchanges are recorded and replayed like any other kernel.
//!
//! * this file: channels, `exchange`: exchanges,
//! * `inbox`: access to other ranks' memory.

mod exchange;
mod inbox;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use isobar_core::error::{Error, Result};

pub use self::inbox::host;
use self::inbox::{Address, Opened, announce, reach};
use crate::driver::lock;
use crate::memory::Mailbox;
use crate::module::Modules;
use crate::{Buffer, Context, Module, Pointer, Source, kernels};

/// Slots of a channel: the largest number of blocks that a message is divided among.
const PIECES: usize = 128;
/// Bytes per slot and message.
const PIECE_BYTES: usize = 64 << 10;
/// Largest number of ranks: the GPUs of a host.
const MOST_RANKS: usize = 16;
/// Largest number of scalars summed at once.
const SUMS: usize = 8;
/// Bytes of a channel: signals, two halves of numbers, two halves of pieces; as in exchange.cu.
const CHANNEL: usize = 32 * (PIECES + 1) + 16 * SUMS + 2 * PIECES * PIECE_BYTES;
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

/// The resources of a rank that are made before the other ranks are known.
struct Prepared {
    address: Address,
    inbox: Arc<Buffer>,
    counts: Buffer,
    table: Buffer,
    module: Arc<Module>,
    fault: Mailbox,
}

impl Prepared {
    fn new(context: &Arc<Context>, modules: &Modules, size: usize) -> Result<Self> {
        let inbox = Arc::new(Buffer::zeros(context, size * CHANNEL, "the inbox for other ranks")?);
        announce(&inbox);
        let counts = Buffer::zeros(context, 4 * size * (PIECES + 1), "counts of messages")?;
        let table = Buffer::new(context, size * size_of::<Peer>(), "the table of other ranks")?;
        let module = modules.get(context, source());
        module
            .prepare(&["exchange_rows", "gather_rows", "divide_again", "sum_ranks", "sum_numbers", "copy_rows"], 0)?;
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

impl Peers {
    /// Implements [`Cuda::join`](crate::Cuda::join).
    pub(crate) fn join(
        context: &Arc<Context>,
        modules: &Modules,
        [rank, size]: [usize; 2],
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Option<Self>> {
        if !(2..=MOST_RANKS).contains(&size) {
            return Ok(None);
        }
        // A rank that fails here still takes part in the following calls, because the others wait for it.
        let prepared = Prepared::new(context, modules, size);
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
}
