//! Inboxes: memory to which other ranks' GPUs write, opened by handles in other processes.

use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys;
use isobar_core::error::Result;
use isobar_dist::communicator::digest;

use crate::driver::{Context, Pointer, check, enable_peer_access, lock};
use crate::memory::Buffer;

/// The inboxes of this process.
static INBOXES: Mutex<Vec<Weak<Buffer>>> = Mutex::new(Vec::new());

/// Registers an inbox for the other ranks of this process.
pub(super) fn announce(inbox: &Arc<Buffer>) {
    let mut all = lock(&INBOXES);
    all.retain(|inbox| inbox.strong_count() > 0);
    all.push(Arc::downgrade(inbox));
}

/// Returns the inbox of another rank of this process.
fn inbox_at(place: Pointer) -> Option<Arc<Buffer>> {
    lock(&INBOXES).iter().filter_map(Weak::upgrade).find(|inbox| inbox.start() == place)
}

/// An open inbox of another process.
#[derive(Debug)]
pub(super) struct Opened {
    context: Arc<Context>,
    places: Vec<Pointer>,
}

impl Opened {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), places: Vec::new() }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Errors in a destructor cannot be reported.
        let _ = self.context.synchronize();
        for &place in &self.places {
            // SAFETY: opened in `reach`, closed once; no kernel uses it any more.
            let _ = unsafe { sys::cuIpcCloseMemHandle(place) };
        }
    }
}

/// The data by which other ranks find an inbox: numbers, then a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: u64,
    process: u64,
    ordinal: u64,
    inbox: u64,
    pub(super) card: [u8; Self::CARD],
    handle: [u8; Self::HANDLE],
}

impl Address {
    const CARD: usize = 16;
    const HANDLE: usize = 64;
    pub(super) const BYTES: usize = 4 * 8 + Self::CARD + Self::HANDLE;
    /// The address of a rank that cannot be reached.
    pub(super) const NONE: Self =
        Self { host: 0, process: 0, ordinal: 0, inbox: 0, card: [0; Self::CARD], handle: [0; Self::HANDLE] };

    /// Returns the address of this rank's inbox.
    pub(super) fn of(context: &Context, inbox: &Buffer) -> Result<Self> {
        Ok(Self {
            host: host(),
            process: u64::from(std::process::id()),
            ordinal: context.ordinal as u64,
            inbox: inbox.start(),
            card: context.uuid()?,
            handle: handle(inbox),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, number) in [self.host, self.process, self.ordinal, self.inbox].into_iter().enumerate() {
            bytes[8 * place..8 * place + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[4 * 8..4 * 8 + Self::CARD].copy_from_slice(&self.card);
        bytes[4 * 8 + Self::CARD..].copy_from_slice(&self.handle);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
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

/// Returns a number that identifies the host, equal in all its containers: a hash of Linux's boot identifier.
pub fn host() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    digest(id.as_bytes())
}

/// Returns the handle for other processes; zeros if there is none.
fn handle(inbox: &Buffer) -> [u8; Address::HANDLE] {
    let mut handle = sys::CUipcMemHandle { reserved: [0; Address::HANDLE] };
    // SAFETY: the memory is an allocation of its own; on failure the handle stays zero, and nobody can open it.
    let _ = unsafe { sys::cuIpcGetMemHandle(&raw mut handle, inbox.start()) };
    handle.reserved.map(i8::cast_unsigned)
}

/// Returns the address of an inbox on this GPU; `None` if it cannot be reached.
pub(super) fn reach(
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
    // SAFETY: a handle that the driver gave to another process; an invalid one is an error.
    check(unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut place, handle, flags) }, "opening another rank's memory")
        .ok()?;
    opened.places.push(place);
    Some(place)
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
}
