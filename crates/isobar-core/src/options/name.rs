//! Choices by name.

use std::fmt;

use serde::de::{Error, Visitor};

/// A reader of one of a list of names.
pub(super) struct Name(pub(super) &'static [&'static str]);

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of \"{}\"", self.0.join("\", \""))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        self.0.iter().copied().find(|&known| known == name).ok_or_else(|| E::unknown_variant(name, self.0))
    }
}
