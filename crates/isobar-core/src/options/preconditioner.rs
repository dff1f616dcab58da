//! `[solver.preconditioner]`: what CG and BiCGStab are preconditioned with.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::name::Name;

/// A preconditioner with its parameters. In case files a name, or a table with a `kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Preconditioner {
    /// The stencil's own choice.
    #[default]
    Auto,
    /// M = 1
    None,
    /// The diagonal.
    Jacobi,
    /// A tridiagonal solve in every vertical column (papers A and B).
    Line,
    /// One multigrid cycle.
    Multigrid,
    /// Incomplete Cholesky in blocks of consecutive unknowns (paper D).
    BlockIc {
        /// Unknowns in a block; by default eight rows of the grid.
        block: Option<usize>,
    },
    /// Incomplete Poisson (paper D).
    IncompletePoisson {
        /// Of the symmetrically scaled matrix.
        scaling: bool,
    },
    /// Truncated Neumann series (paper D).
    Neumann {
        /// Terms of the series.
        order: usize,
    },
}

impl Preconditioner {
    /// Their names in case files.
    pub const NAMES: &'static [&'static str] =
        &["auto", "none", "jacobi", "line", "multigrid", "block-ic", "incomplete-poisson", "neumann"];

    /// Its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Jacobi => "jacobi",
            Self::Line => "line",
            Self::Multigrid => "multigrid",
            Self::BlockIc { .. } => "block-ic",
            Self::IncompletePoisson { .. } => "incomplete-poisson",
            Self::Neumann { .. } => "neumann",
        }
    }
}

/// The keys of the table. Those that another kind has are ignored, so that a kind can be tried by changing one key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    kind: Option<KindName>,
    block: Option<usize>,
    scaling: Option<bool>,
    order: Option<usize>,
}

/// One of [`Preconditioner::NAMES`].
struct KindName(&'static str);

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Name(Preconditioner::NAMES)).map(Self)
    }
}

impl Section {
    fn named(kind: KindName) -> Self {
        Self { kind: Some(kind), block: None, scaling: None, order: None }
    }

    fn read(self) -> Result<Preconditioner, String> {
        let Some(KindName(name)) = self.kind else { return Ok(Preconditioner::Auto) };
        Ok(match name {
            "auto" => Preconditioner::Auto,
            "none" => Preconditioner::None,
            "jacobi" => Preconditioner::Jacobi,
            "line" => Preconditioner::Line,
            "multigrid" => Preconditioner::Multigrid,
            "block-ic" => Preconditioner::BlockIc { block: self.block },
            "incomplete-poisson" => Preconditioner::IncompletePoisson { scaling: self.scaling.unwrap_or(true) },
            "neumann" => Preconditioner::Neumann { order: self.order.unwrap_or(2) },
            other => return Err(format!("no preconditioner is called {other:?}")),
        })
    }
}

impl<'de> Deserialize<'de> for Preconditioner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Preconditioner;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a preconditioner, or a table such as { kind = \"line\" }")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Preconditioner, E> {
                let kind = KindName::deserialize(StrDeserializer::new(name))?;
                Section::named(kind).read().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Preconditioner, A::Error> {
                Section::deserialize(MapAccessDeserializer::new(map))?.read().map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
