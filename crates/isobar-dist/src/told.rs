//! Failures as other ranks get to know them.

use isobar_core::error::Error;

/// The kind of a failure that a rank reports to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Misuse.
    Invalid,
    /// One cell of a rank's array, of which the others know no more than that there is one: it goes before what they say.
    NotFinite,
    /// A feature that is not supported.
    Unsupported,
    /// Memory that could not be had.
    OutOfMemory,
    /// A device, or a transport.
    Device,
}

impl Kind {
    /// All of them.
    const ALL: [Self; 5] = [Self::Invalid, Self::NotFinite, Self::Unsupported, Self::OutOfMemory, Self::Device];
}

/// A failure as other ranks get to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its kind.
    pub kind: Kind,
    /// Its message.
    pub message: String,
}

impl Told {
    /// A byte for the kind, and the words.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        std::iter::once(kind as u8).chain(self.message.bytes()).collect()
    }

    /// Parses the bytes of [`Told::to_bytes`]; nothing where they are empty or of another kind.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&kind, words) = bytes.split_first()?;
        let message = String::from_utf8_lossy(words).trim().to_owned();
        Some(Self { kind: *Kind::ALL.get(usize::from(kind))?, message })
    }
}

/// A failure that can be told.
pub trait Tell {
    /// As others get to know it.
    fn tell(&self) -> Told;

    /// One that `rank` of `size` has told of.
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
