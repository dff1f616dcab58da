//! The link of a rank to others by messages of NCCL.

use std::collections::HashSet;
use std::sync::Arc;

use isobar_core::prelude::{Result, Scalar};

use super::Nccl;
use super::messages::{Job, Message};
use crate::driver::error;
use crate::launch;
use crate::module::Modules;
use crate::{Buffer, Context, Module, Pointer, Source, kernels};

/// Bytes of each of the buffers for packed layers sent and received.
pub(super) const ROOM: usize = 16 << 20;

/// Returns the source of the kernels.
pub fn source() -> Source {
    Source::new("packing", kernels::PACKING)
}

/// The ranks of a job, each with its own GPU on any host.
#[derive(Debug)]
pub struct NcclLink {
    pub(super) job: Job,
    pub(super) module: Arc<Module>,
    /// The send buffer and the receive buffer.
    pub(super) rooms: [Buffer; 2],
    /// The scalars of all ranks.
    pub(super) numbers: Buffer,
}

impl NcclLink {
    /// Implements [`Cuda::join`](crate::Cuda::join). Returns `None` if a rank has no NCCL or shares its GPU.
    pub(crate) fn join(
        context: &Arc<Context>,
        modules: &Modules,
        [rank, size]: [usize; 2],
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Option<Self>> {
        // A rank that fails here still takes part in the following calls, because the others wait for it.
        let uuid = context.uuid();
        let is_found = Nccl::get().is_ok_and(|nccl| nccl.version() >= (2, 7));
        let mut mine = [0; 17];
        mine[..16].copy_from_slice(uuid.as_ref().map_or(&[0; 16], |uuid| uuid));
        mine[16] = u8::from(is_found && uuid.is_ok());
        let all = all_gather(&mine)?;
        let cards: HashSet<_> = all.chunks(17).map(|card| &card[..16]).collect();
        if cards.len() < size || all.chunks(17).any(|card| card[16] == 0) {
            return Ok(None);
        }
        let prepared = Self::prepare(context, modules, size);
        let name = if rank == 0 { Job::name() } else { Ok(Vec::new()) };
        let mut mine = vec![0; Job::NAME + 1];
        if let (Ok(_), Ok(name)) = (&prepared, &name) {
            mine[..name.len()].copy_from_slice(name);
            mine[Job::NAME] = 1;
        }
        let all = all_gather(&mine)?;
        let ((module, rooms, numbers), _) = (prepared?, name?);
        if let Some(other) = all.chunks(Job::NAME + 1).position(|of_rank| of_rank[Job::NAME] == 0) {
            return Err(error(format!("rank {other} failed")));
        }
        let job = Job::meet(context, [rank, size], &all[..Job::NAME])?;
        let link = Self { job, module, rooms, numbers };
        link.greet(context)?;
        Ok(Some(link))
    }

    fn prepare(context: &Arc<Context>, modules: &Modules, size: usize) -> Result<(Arc<Module>, [Buffer; 2], Buffer)> {
        let module = modules.get(context, source());
        module.prepare(&["pack", "sum_received", "sum_all_received"], 0)?;
        let room = || Buffer::zeros(context, ROOM, "the buffer for messages to other ranks");
        let numbers = Buffer::zeros(context, 8 * Scalar::COUNT * size, "other ranks' sums")?;
        Ok((module, [room()?, room()?], numbers))
    }

    /// Sends every rank's number to every other, once, so that connections are made and tested before an iteration needs them.
    fn greet(&self, context: &Context) -> Result<()> {
        let [sent, received] = &self.rooms;
        sent.write(&vec![self.job.rank as u64; self.job.size])?;
        let message = |rank: usize, is_sent: bool| {
            let room = if is_sent { sent } else { received };
            Message { rank, is_sent, place: room.start() + 8 * rank as Pointer, bytes: 8 }
        };
        self.exchange(context, self.others().flat_map(|rank| [message(rank, true), message(rank, false)]).collect())?;
        context.synchronize()?;
        let mut numbers = vec![0_u64; self.job.size];
        received.read(&mut numbers)?;
        match self.others().find(|&rank| numbers[rank] != rank as u64) {
            None => self.check(),
            Some(rank) => Err(error(format!(
                "NCCL delivered {} instead of {rank} from rank {rank}; set ISOBAR_LINK=host to do without NCCL",
                numbers[rank]
            ))),
        }
    }

    /// Fails if another rank has not answered.
    pub(crate) fn check(&self) -> Result<()> {
        self.job.check()
    }

    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.job.rank;
        (0..self.job.size).filter(move |&other| other != rank)
    }

    pub(super) fn exchange(&self, context: &Context, messages: Vec<Message>) -> Result<()> {
        let messages: Vec<_> = messages.into_iter().filter(|message| message.bytes > 0).collect();
        if messages.is_empty() {
            return Ok(());
        }
        launch::call(self.job.group(messages), context)
    }
}
