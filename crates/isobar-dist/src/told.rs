//! This module serialises failures for other ranks.

use isobar_core::error::Error;

/// The kind of a failure that a rank reports to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Misuse by the caller.
    Invalid,
    /// A value that is not finite in one rank's array; the other ranks do not know which, so it precedes their failures.
    NotFinite,
    /// A feature that is not supported.
    Unsupported,
    /// Memory could not be allocated.
    OutOfMemory,
    /// A failure of a device or a transport.
    Device,
}

impl Kind {
    /// All kinds, in the order of their serialised numbers.
    const ALL: [Self; 5] = [Self::Invalid, Self::NotFinite, Self::Unsupported, Self::OutOfMemory, Self::Device];
}

/// A failure in its serialised form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kind of the failure.
    pub kind: Kind,
    /// The text of the failure.
    pub message: String,
}

impl Told {
    /// Returns a byte for the kind, followed by the message.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        std::iter::once(kind as u8).chain(self.message.bytes()).collect()
    }

    /// Parses the bytes of [`Told::to_bytes`]; returns nothing if they are empty or of an unknown kind.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&kind, words) = bytes.split_first()?;
        let message = String::from_utf8_lossy(words).trim().to_owned();
        Some(Self { kind: *Kind::ALL.get(usize::from(kind))?, message })
    }
}

/// An error that can be reported to other ranks.
pub trait Tell {
    /// Returns the failure in its serialised form.
    fn tell(&self) -> Told;

    /// Makes this rank's error from a failure that `rank` of `size` reported.
    fn told(by: [usize; 2], what: Told) -> Self;
}

impl Tell for Error {
    fn tell(&self) -> Told {
        let kind = match self {
            Self::NotFinite { .. } => Kind::NotFinite,
            Self::Unsupported(_) => Kind::Unsupported,
            Self::OutOfMemory { .. } => Kind::OutOfMemory,
            Self::Device { .. } | Self::Io(_) => Kind::Device,
            _ => Kind::Invalid,
        };
        Told { kind, message: self.to_string() }
    }

    fn told([rank, size]: [usize; 2], Told { kind, message }: Told) -> Self {
        let device = format!("rank {rank} of {size}");
        match kind {
            Kind::Invalid | Kind::NotFinite => Self::invalid(device, message),
            Kind::Unsupported => Self::Unsupported(format!("{device}: {message}")),
            Kind::OutOfMemory | Kind::Device => Self::Device { device, message },
        }
    }
}
