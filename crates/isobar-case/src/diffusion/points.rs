//! Entries of `diffusion.sources` and `diffusion.wells`.

use std::fmt;

use isobar::problem::{Source, Well};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Unexpected, Visitor};

/// An entry of `diffusion.sources`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSection {
    i: usize,
    j: usize,
    k: Option<Levels>,
    rate: f64,
}

/// An entry of `diffusion.wells`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WellSection {
    i: usize,
    j: usize,
    k: Option<Levels>,
    value: f64,
    radius: f64,
}

/// First and last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Levels([usize; 2]);

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Levels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a level such as 3, or the first and the last of a range such as [0, 21]")
            }

            fn visit_i64<E: de::Error>(self, level: i64) -> Result<Levels, E> {
                let level = usize::try_from(level).map_err(|_| E::invalid_value(Unexpected::Signed(level), &self))?;
                Ok(Levels([level; 2]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, levels: A) -> Result<Levels, A::Error> {
                let levels: Vec<usize> = Deserialize::deserialize(SeqAccessDeserializer::new(levels))?;
                let range = levels.as_slice().try_into().map_err(|_| de::Error::invalid_length(levels.len(), &self))?;
                Ok(Levels(range))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// All levels, unless said otherwise.
fn levels(k: Option<Levels>, nz: usize) -> [usize; 2] {
    k.map_or([0, nz - 1], |Levels(range)| range)
}

impl SourceSection {
    /// On a grid of so many levels.
    pub(super) fn on(&self, nz: usize) -> Source {
        let &Self { i, j, k, rate } = self;
        Source { i, j, k: levels(k, nz), rate }
    }
}

impl WellSection {
    /// On a grid of so many levels.
    pub(super) fn on(&self, nz: usize) -> Well {
        let &Self { i, j, k, value, radius } = self;
        Well { i, j, k: levels(k, nz), value, radius }
    }
}
