//! Temporary memory of setup.

use std::sync::{Arc, Mutex};

use isobar_core::error::Result;

use crate::driver::{Context, Pointer, lock};
use crate::memory::{Buffer, Chunk, Pool};

/// A pool of memory for setup. Pieces can be reused at once, because all their users run in order on the GPU's
/// single stream.
#[derive(Debug)]
pub(super) struct Workspace {
    context: Arc<Context>,
    buffer: Buffer,
    chunk: Mutex<Chunk>,
}

impl Workspace {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Arc<Self>> {
        let buffer = Buffer::new(context, bytes, "setup of multigrid")?;
        let chunk = Mutex::new(Chunk::new(buffer.start(), bytes));
        Ok(Arc::new(Self { context: Arc::clone(context), buffer, chunk }))
    }

    /// Takes a piece of this many bytes, from the driver if the pool is full.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Result<Piece> {
        let rounded = bytes.max(1).next_multiple_of(Pool::ALIGNMENT);
        let taken = lock(&self.chunk).take(rounded);
        Ok(match taken {
            Some(start) => Piece { start, bytes: rounded, owner: Owner::Workspace(Arc::clone(self)) },
            None => {
                let buffer = Buffer::new(&self.context, rounded, "setup of multigrid")?;
                Piece { start: buffer.start(), bytes: rounded, owner: Owner::Outside(buffer) }
            }
        })
    }

    fn position(&self, piece: &Piece) -> usize {
        (piece.start - self.buffer.start()) as usize
    }
}

#[derive(Debug)]
enum Owner {
    Workspace(Arc<Workspace>),
    Outside(#[expect(dead_code, reason = "owns the memory")] Buffer),
}

/// A piece of memory with undefined content.
#[derive(Debug)]
pub(super) struct Piece {
    start: Pointer,
    bytes: usize,
    owner: Owner,
}

impl Piece {
    pub(super) fn start(&self) -> Pointer {
        self.start
    }

    /// Returns the address of element n, with elements of this many bytes.
    pub(super) fn at(&self, n: usize, bytes: usize) -> Pointer {
        debug_assert!(n * bytes <= self.bytes);
        self.start + (n * bytes) as Pointer
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Owner::Workspace(workspace) = &self.owner {
            lock(&workspace.chunk).give_back(workspace.position(self), self.bytes);
        }
    }
}
