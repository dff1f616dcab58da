//! Links between the GPUs of several ranks.

use isobar_core::backend::Scalar;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout};
use isobar_core::real::Real;
use isobar_dist::part::{Division, Link, Redivision};

use crate::cuda::Cuda;
use crate::nccl::NcclLink;
use crate::peers::Peers;
use crate::scalars::Scalars;
use crate::vector::Vector;

/// The rank that has the rows beyond an end of a subdomain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) rank: usize,
    /// Whether it is beyond the end of a periodic direction.
    pub(crate) is_around: bool,
}

impl Neighbour {
    /// Returns the rank before the first row of this rank's subdomain, or after the last, if there is one.
    pub(crate) fn of(layout: &Layout, is_last: bool, [rank, size]: [usize; 2]) -> Option<Self> {
        let (end, step) = if is_last { (1, 1) } else { (0, size - 1) };
        let rank = (rank + step) % size;
        (layout.halo()[end] > 0).then(|| Self { rank, is_around: layout.goes_around_in_y()[end] })
    }
}

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
    /// Implements [`Cuda::join`].
    pub(crate) fn join(
        cuda: &Cuda,
        ways: Ways,
        ranks: [usize; 2],
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Option<Self>> {
        let [rank, size] = ranks;
        if size < 2 {
            return Ok(None);
        }
        let ways = ways.of_all(all_gather)?;
        if ways.stores
            && let Some(peers) = Peers::join(cuda, rank, size, all_gather)?
        {
            return Ok(Some(Self::Stores(peers)));
        }
        Ok(if ways.nccl { NcclLink::join(cuda, ranks, all_gather)?.map(Self::Nccl) } else { None })
    }

    /// Fails if another rank has not answered.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Stores(peers) => peers.check(),
            Self::Nccl(nccl) => nccl.check(),
        }
    }
}

/// Calls a method of either link.
macro_rules! of_either {
    ($self:ident, $link:ident => $call:expr) => {
        match $self {
            Self::Stores($link) => $call,
            Self::Nccl($link) => $call,
        }
    };
}

impl Link<Cuda> for CardLink {
    fn fill<T: Real>(&self, cuda: &Cuda, x: &mut Vector<T>, colours: &[Colour]) -> Result<()> {
        of_either!(self, link => link.fill(cuda, x, colours))
    }

    fn sum(&self, cuda: &Cuda, sums: &[Scalar], scalars: &mut Scalars) -> Result<()> {
        of_either!(self, link => link.sum(cuda, sums, scalars))
    }

    fn gather<T: Real>(&self, cuda: &Cuda, part: &Vector<T>, rows: &[usize], whole: &mut Vector<T>) -> Result<()> {
        of_either!(self, link => link.gather(cuda, part, rows, whole))
    }

    fn redivide<T: Real>(&self, cuda: &Cuda, division: &Division, change: Redivision<'_, Vector<T>>) -> Result<()> {
        of_either!(self, link => link.redivide(cuda, division, change))
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
