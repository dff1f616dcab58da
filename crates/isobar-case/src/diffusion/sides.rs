//! `[diffusion.boundary]`: what holds on the sides of the box.

use std::fmt;

use isobar::problem::Boundary;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};

/// `[diffusion.boundary]`; sides are closed unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sides {
    west: Side,
    east: Side,
    south: Side,
    north: Side,
    bottom: Side,
    top: Side,
}

/// What holds on a side: a word, or a table of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Side(Boundary);

impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Given {
            neumann: Option<f64>,
            dirichlet: Option<f64>,
        }

        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Boundary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"neumann\" (no flow), \"dirichlet\" (the value 0), \"periodic\", { dirichlet = VALUE } or \
                     { neumann = FLUX }",
                )
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Boundary, E> {
                match word {
                    "neumann" => Ok(Boundary::Neumann(0.0)),
                    "dirichlet" => Ok(Boundary::Dirichlet(0.0)),
                    "periodic" => Ok(Boundary::Periodic),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Boundary, A::Error> {
                match Given::deserialize(MapAccessDeserializer::new(map))? {
                    Given { neumann: Some(flux), dirichlet: None } => Ok(Boundary::Neumann(flux)),
                    Given { neumann: None, dirichlet: Some(value) } => Ok(Boundary::Dirichlet(value)),
                    Given { neumann: None, .. } => Err(de::Error::invalid_type(Unexpected::Map, &self)),
                    Given { .. } => Err(de::Error::custom(
                        "both a value and a flux; give one, { dirichlet = … } or { neumann = … }",
                    )),
                }
            }
        }
        deserializer.deserialize_any(Either).map(Self)
    }
}

impl Sides {
    /// u = 0 on all of them.
    pub(crate) fn fix_all(&mut self) {
        let fixed = Side(Boundary::Dirichlet(0.0));
        *self = Self { west: fixed, east: fixed, south: fixed, north: fixed, bottom: fixed, top: fixed };
    }

    /// Lower and upper side of x, y and z.
    pub(super) fn all(&self) -> [[Boundary; 2]; 3] {
        let &Self { west, east, south, north, bottom, top } = self;
        [[west, east], [south, north], [bottom, top]].map(|sides| sides.map(|Side(boundary)| boundary))
    }
}
