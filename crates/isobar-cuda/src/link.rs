//! Links between the GPUs of several ranks.

use std::sync::Arc;

use isobar_core::error::{Error, Result};

use crate::Cuda;
use crate::driver::{Context, Pointer};
use crate::module::Modules;
use crate::nccl::NcclLink;
use crate::peers::Peers;

/// The allowed links. Of those that all ranks allow, the best that works is used: stores, then NCCL, then the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Kernels write to the memory of other GPUs of the same host.
    pub stores: bool,
    /// NCCL, also between hosts.
    pub nccl: bool,
}

impl Ways {
    /// All links.
    pub const ANY: Self = Self { stores: true, nccl: true };
    /// Through the host only.
    pub const HOST: Self = Self { stores: false, nccl: false };

    const VARIABLE: &str = "ISOBAR_LINK";

    /// Reads `ISOBAR_LINK`: `stores`, `nccl` or `host`; all links if it is not set.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another word.
    pub fn from_environment() -> Result<Self> {
        match std::env::var(Self::VARIABLE) {
            Ok(word) => Self::parse(&word),
            Err(_) => Ok(Self::ANY),
        }
    }

    fn parse(word: &str) -> Result<Self> {
        match word {
            "" | "auto" => Ok(Self::ANY),
            "stores" => Ok(Self { stores: true, nccl: false }),
            "nccl" => Ok(Self { stores: false, nccl: true }),
            "host" => Ok(Self::HOST),
            _ => Err(Error::invalid(
                Self::VARIABLE,
                format!("{word:?}; use \"stores\", \"nccl\" or \"host\", or unset it"),
            )),
        }
    }

    /// Returns the links that all ranks allow.
    fn of_all(self, all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>) -> Result<Self> {
        let all = all_gather(&[u8::from(self.stores), u8::from(self.nccl)])?;
        let allowed = |which: usize| all.iter().skip(which).step_by(2).all(|&allowed| allowed == 1);
        Ok(Self { stores: allowed(0), nccl: allowed(1) })
    }
}

/// The link of a GPU to those of other ranks.
#[derive(Debug)]
pub enum CardLink {
    /// Stores to each other's memory.
    Stores(Peers),
    /// Messages of NCCL.
    Nccl(NcclLink),
}

impl CardLink {
    /// Implements [`Cuda::join`](crate::Cuda::join).
    pub(crate) fn join(
        context: &Arc<Context>,
        modules: &Modules,
        ways: Ways,
        ranks: [usize; 2],
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Option<Self>> {
        if ranks[1] < 2 {
            return Ok(None);
        }
        let ways = ways.of_all(all_gather)?;
        if ways.stores
            && let Some(peers) = Peers::join(context, modules, ranks, all_gather)?
        {
            return Ok(Some(Self::Stores(peers)));
        }
        Ok(if ways.nccl { NcclLink::join(context, modules, ranks, all_gather)?.map(Self::Nccl) } else { None })
    }

    /// Bytes of which units of [`CardLink::collect`] are multiples.
    pub(crate) const UNIT: usize = 64;

    /// Collects the blocks of all ranks on every GPU. They lie one after another from `all` on, this rank's in its place: rank r has units
    /// `starts[r]` to `starts[r + 1]` of so many bytes.
    ///
    /// # Errors
    /// The errors of the GPU.
    pub(crate) fn collect(&self, cuda: &Cuda, all: Pointer, unit: usize, starts: &[usize]) -> Result<()> {
        // As rows of vectors, two for each unit, since colours of a subdomain that begins with an odd row are exchanged.
        let rows: Vec<usize> = starts.iter().map(|start| 2 * start).collect();
        match self {
            Self::Stores(peers) => peers.gather_rows(cuda, all, unit / 2, &rows),
            Self::Nccl(nccl) => nccl.gather_rows(cuda, all, unit / 2, &rows),
        }
    }

    /// Fails if another rank has not answered.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Stores(peers) => peers.check(),
            Self::Nccl(nccl) => nccl.check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_environment() {
        assert_eq!(Ways::parse("nccl").unwrap(), Ways { stores: false, nccl: true });
        assert_eq!(Ways::parse("host").unwrap(), Ways::HOST);
        assert_eq!(Ways::parse("").unwrap(), Ways::ANY);
        let message = Ways::parse("tcp").unwrap_err().to_string();
        assert!(message.contains("tcp") && message.contains("\"stores\""), "{message}");
    }

    #[test]
    fn ranks_go_ways_that_all_allow() {
        let others = |mine: &[u8]| Ok([mine, &[0, 1]].concat());
        assert_eq!(Ways::ANY.of_all(&mut { others }).unwrap(), Ways { stores: false, nccl: true });
        assert_eq!(Ways { stores: true, nccl: false }.of_all(&mut { others }).unwrap(), Ways::HOST);
    }
}
