//! `[solver.preconditioner]`: the preconditioner of CG and BiCGStab.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::name::Name;

/// A preconditioner with its parameters: in case files a name, or a table with a `kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Preconditioner {
    /// The choice depends on the stencil.
    #[default]
    Auto,
    /// M = 1
    None,
    /// The diagonal.
    Jacobi,
    /// A tridiagonal solve in every vertical column (papers A and B).
    Line,
    /// A direct solve of the nearest box: mean coefficients, no inactive cells.
    Direct,
    /// One multigrid cycle.
    Multigrid,
    /// A correction in a few vertical modes, between sweeps of lines.
    Modes,
    /// Incomplete Cholesky in blocks of consecutive unknowns (paper D).
    BlockIc {
        /// Unknowns in a block; by default eight rows of the grid.
        block: Option<usize>,
    },
    /// Incomplete Cholesky without fill-in over the whole grid, IC(0) (paper E).
    Ic {
        /// Unknowns in a block, if couplings between blocks are dropped.
        block: Option<usize>,
    },
    /// Modified incomplete Cholesky, MIC(0) (paper E): the dropped fill-in is subtracted from the diagonal.
    Mic {
        /// The fraction of the fill-in, from 0 (which is IC) to 1.
        relaxation: f64,
        /// Unknowns in a block, if couplings between blocks are dropped.
        block: Option<usize>,
    },
    /// The approximate inverse of SSOR (Helfenstein and Koko, 2012; paper E).
    SsorAi,
    /// Incomplete Poisson (paper D).
    IncompletePoisson {
        /// Whether to use the symmetrically scaled matrix.
        scaling: bool,
    },
    /// Truncated Neumann series (paper D).
    Neumann {
        /// Terms of the series.
        order: usize,
    },
}

impl Preconditioner {
    /// The names of preconditioners in case files.
    pub const NAMES: &'static [&'static str] = &[
        "auto",
        "none",
        "jacobi",
        "line",
        "direct",
        "multigrid",
        "modes",
        "block-ic",
        "ic",
        "mic",
        "ssor-ai",
        "incomplete-poisson",
        "neumann",
    ];

    /// Returns its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Jacobi => "jacobi",
            Self::Line => "line",
            Self::Direct => "direct",
            Self::Multigrid => "multigrid",
            Self::Modes => "modes",
            Self::BlockIc { .. } => "block-ic",
            Self::Ic { .. } => "ic",
            Self::Mic { .. } => "mic",
            Self::SsorAi => "ssor-ai",
            Self::IncompletePoisson { .. } => "incomplete-poisson",
            Self::Neumann { .. } => "neumann",
        }
    }

    /// Returns whether it is made of the matrix's triangular parts.
    pub(crate) fn is_triangular(self) -> bool {
        match self {
            Self::Auto | Self::None | Self::Jacobi | Self::Line => false,
            Self::Direct | Self::Multigrid | Self::Modes => false,
            Self::BlockIc { .. } | Self::Ic { .. } | Self::Mic { .. } => true,
            Self::SsorAi | Self::IncompletePoisson { .. } | Self::Neumann { .. } => true,
        }
    }
}

/// The keys of the table. Keys of other kinds are ignored, so that a kind can be tried by changing one key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    kind: Option<KindName>,
    block: Option<usize>,
    scaling: Option<bool>,
    order: Option<usize>,
    relaxation: Option<f64>,
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
        Self { kind: Some(kind), block: None, scaling: None, order: None, relaxation: None }
    }

    fn read(self) -> Result<Preconditioner, String> {
        let Some(KindName(name)) = self.kind else { return Ok(Preconditioner::Auto) };
        Ok(match name {
            "auto" => Preconditioner::Auto,
            "none" => Preconditioner::None,
            "jacobi" => Preconditioner::Jacobi,
            "line" => Preconditioner::Line,
            "direct" => Preconditioner::Direct,
            "multigrid" => Preconditioner::Multigrid,
            "modes" => Preconditioner::Modes,
            "block-ic" => Preconditioner::BlockIc { block: self.block },
            "ic" => Preconditioner::Ic { block: self.block },
            "mic" => Preconditioner::Mic { relaxation: self.relaxation.unwrap_or(1.0), block: self.block },
            "ssor-ai" => Preconditioner::SsorAi,
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
