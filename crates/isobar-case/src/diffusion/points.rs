//! Entries of `diffusion.sources` and `diffusion.wells`.

use isobar::internals::forms::Forms;
use isobar::problem::{Source, Well};
use serde::{Deserialize, Deserializer};

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
        const EXPECTED: &str = "a layer such as 3, or the first and the last of a range such as [0, 21]";
        let forms = Forms::<Self, Vec<usize>> {
            whole: |layer| Some(Self([layer; 2])),
            list: Some(|layers| match layers[..] {
                [first, last] if first > last => {
                    Err(format!("the range [{first}, {last}] is reversed; write [{last}, {first}]"))
                }
                [first, last] => Ok(Self([first, last])),
                _ => Err(format!("a list of length {}; give {EXPECTED}", layers.len())),
            }),
            ..Forms::new(EXPECTED)
        };
        forms.read(deserializer)
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
