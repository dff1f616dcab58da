//! `[solver.modes]`

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::forms::Forms;

/// A number, or `"auto"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// Chosen automatically.
    #[default]
    Auto,
    /// This many.
    Given(usize),
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match *self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Given(count) => serializer.serialize_u64(count as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let forms = Forms::<Self> {
            word: |word| (word == "auto").then_some(Self::Auto),
            whole: |count| Some(Self::Given(count)),
            ..Forms::new("a whole number, 1 or more, or \"auto\"")
        };
        forms.read(deserializer)
    }
}

impl Count {
    /// Returns the number given, if there is one.
    pub fn given(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Given(count) => Some(count),
        }
    }
}

/// `[solver.modes]`: numbers of modes, cycles and sweeps of an iteration by vertical modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModesOptions {
    /// Modes with a two-dimensional problem of their own.
    pub count: Count,
    /// Cycles of multigrid on these problems.
    pub cycles: Count,
    /// Sweeps of lines on the whole grid.
    pub sweeps: Count,
}

/// The most sweeps or cycles per iteration.
const MOST: usize = 1000;

impl ModesOptions {
    /// Checks each value separately.
    pub(super) fn validate(&self) -> Result<()> {
        let Self { count, cycles, sweeps } = self;
        for (key, what, value, most) in [
            ("solver.modes.count", "modes", count, usize::MAX),
            ("solver.modes.cycles", "cycles", cycles, MOST),
            ("solver.modes.sweeps", "sweeps", sweeps, MOST),
        ] {
            match value.given() {
                Some(0) => return Err(Error::invalid(key, format!("0 {what}; use 1 or more, or \"auto\""))),
                Some(n) if n > most => {
                    return Err(Error::invalid(key, format!("{n} {what}; use {most} or fewer, or \"auto\"")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
