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
    k: Option<Layers>,
    rate: f64,
}

/// An entry of `diffusion.wells`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WellSection {
    i: usize,
    j: usize,
    k: Option<Layers>,
    value: f64,
    radius: f64,
}

/// The first and the last layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layers([usize; 2]);

impl<'de> Deserialize<'de> for Layers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Layers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layer such as 3, or the first and the last of a range such as [0, 21]")
            }

            fn visit_i64<E: de::Error>(self, layer: i64) -> Result<Layers, E> {
                let layer = usize::try_from(layer).map_err(|_| E::invalid_value(Unexpected::Signed(layer), &self))?;
                Ok(Layers([layer; 2]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, layers: A) -> Result<Layers, A::Error> {
                let layers: Vec<usize> = Deserialize::deserialize(SeqAccessDeserializer::new(layers))?;
                let range = layers.as_slice().try_into().map_err(|_| de::Error::invalid_length(layers.len(), &self))?;
                Ok(Layers(range))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Returns the range of layers; all if not given.
fn layers(k: Option<Layers>, nz: usize) -> [usize; 2] {
    k.map_or([0, nz - 1], |Layers(range)| range)
}

impl SourceSection {
    /// Returns the source on a grid of `nz` layers.
    pub(super) fn on(&self, nz: usize) -> Source {
        let &Self { i, j, k, rate } = self;
        Source { i, j, k: layers(k, nz), rate }
    }
}

impl WellSection {
    /// Returns the well on a grid of `nz` layers.
    pub(super) fn on(&self, nz: usize) -> Well {
        let &Self { i, j, k, value, radius } = self;
        Well { i, j, k: layers(k, nz), value, radius }
    }
}
