//! Memory of finished levels, for reuse by the next ones.

use std::sync::{Mutex, PoisonError};

use crate::large_pages::zeros;
use crate::lock;
use crate::real::Real;

/// Arrays that are no longer needed. Each level's matrix is smaller than the one before, and the system takes longer to
/// clear new pages than most of the computation in them.
#[derive(Debug, Default)]
pub(super) struct Spare<N>(Mutex<Vec<Vec<N>>>);

impl<N> Clone for Spare<N> {
    /// Makes a copy without spare memory.
    fn clone(&self) -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<N: Real> Spare<N> {
    /// Returns `count` arbitrary numbers: the smallest piece that is large enough, or zeros.
    pub(super) fn take(&self, count: usize) -> Vec<N> {
        let mut all = lock(&self.0);
        let large = all.iter().enumerate().filter(|(_, piece)| piece.capacity() >= count);
        let Some((at, _)) = large.min_by_key(|(_, piece)| piece.capacity()) else {
            return zeros(count);
        };
        let mut piece = all.swap_remove(at);
        piece.resize(count, N::ZERO);
        piece
    }

    /// Keeps a piece.
    pub(super) fn give(&self, piece: Vec<N>) {
        lock(&self.0).push(piece);
    }

    /// Keeps all pieces of another one.
    pub(super) fn inherit(&self, other: Self) {
        let others = other.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        lock(&self.0).extend(others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_piece_that_is_large_enough_is_used_again() {
        let (spare, other) = (Spare::<f32>::default(), Spare::default());
        spare.give(vec![1.0; 100]);
        other.give(vec![2.0; 40]);
        other.give(vec![3.0; 10]);
        spare.inherit(other);
        assert_eq!(spare.take(30), [2.0; 30]);
        assert_eq!(spare.take(30), [1.0; 30]);
        assert_eq!(spare.take(30), [0.0; 30]);
    }
}
