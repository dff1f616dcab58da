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
            Some(start) => Piece { bytes: rounded, place: Place::Within(Arc::clone(self), start) },
            None => {
                let buffer = Buffer::new(&self.context, rounded, "setup of multigrid")?;
                Piece { bytes: rounded, place: Place::Outside(buffer) }
            }
        })
    }
}

#[derive(Debug)]
enum Place {
    Within(Arc<Workspace>, Pointer),
    Outside(Buffer),
}

/// A piece of memory with undefined content.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: usize,
    place: Place,
}

impl Piece {
    pub(super) fn start(&self) -> Pointer {
        match &self.place {
            Place::Within(_, start) => *start,
            Place::Outside(buffer) => buffer.start(),
        }
    }

    /// Returns the address of element n, with elements of this many bytes.
    pub(super) fn at(&self, n: usize, bytes: usize) -> Pointer {
        debug_assert!(n * bytes <= self.bytes);
        self.start() + (n * bytes) as Pointer
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Place::Within(workspace, start) = &self.place {
            lock(&workspace.chunk).give_back((start - workspace.buffer.start()) as usize, self.bytes);
        }
    }
}
