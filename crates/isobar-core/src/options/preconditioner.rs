//! `[solver.preconditioner]`: the preconditioner of CG and BiCGStab.

use serde::{Deserialize, Deserializer, Serialize};

use crate::forms::Forms;

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
    /// One cycle of algebraic multigrid by aggregation, on the host (Napov and Notay, 2012).
    Amg,
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
        "amg",
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
            Self::Amg => "amg",
            Self::BlockIc { .. } => "block-ic",
            Self::Ic { .. } => "ic",
            Self::Mic { .. } => "mic",
            Self::SsorAi => "ssor-ai",
            Self::IncompletePoisson { .. } => "incomplete-poisson",
            Self::Neumann { .. } => "neumann",
        }
    }

    /// Returns the preconditioner of this name with default parameters.
    fn named(name: &str) -> Option<Self> {
        [
            Self::Auto,
            Self::None,
            Self::Jacobi,
            Self::Line,
            Self::Direct,
            Self::Multigrid,
            Self::Modes,
            Self::Amg,
            Self::BlockIc { block: None },
            Self::Ic { block: None },
            Self::Mic { relaxation: 1.0, block: None },
            Self::SsorAi,
            Self::IncompletePoisson { scaling: true },
            Self::Neumann { order: 2 },
        ]
        .into_iter()
        .find(|known| known.name() == name)
    }

    /// Returns whether it uses the matrix's triangular parts.
    pub(crate) fn is_triangular(self) -> bool {
        match self {
            Self::Auto | Self::None | Self::Jacobi | Self::Line => false,
            Self::Direct | Self::Multigrid | Self::Modes | Self::Amg => false,
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
    kind: Kind,
    block: Option<usize>,
    scaling: Option<bool>,
    order: Option<usize>,
    relaxation: Option<f64>,
}

/// A preconditioner with default parameters, by its name.
#[derive(Default)]
struct Kind(Preconditioner);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Forms::<_>::one_of(Preconditioner::NAMES, Preconditioner::named).read(deserializer).map(Self)
    }
}

impl Section {
    fn read(self) -> Preconditioner {
        let Self { kind: Kind(mut kind), .. } = self;
        match &mut kind {
            Preconditioner::BlockIc { block } | Preconditioner::Ic { block } => *block = self.block,
            Preconditioner::Mic { relaxation, block } => {
                *block = self.block;
                *relaxation = self.relaxation.unwrap_or(*relaxation);
            }
            Preconditioner::IncompletePoisson { scaling } => *scaling = self.scaling.unwrap_or(*scaling),
            Preconditioner::Neumann { order } => *order = self.order.unwrap_or(*order),
            _ => {}
        }
        kind
    }
}

impl<'de> Deserialize<'de> for Preconditioner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = Forms::<Self, (), Section> {
            word: Self::named,
            names: Self::NAMES,
            table: Some(|section: Section| Ok(section.read())),
            ..Forms::new("the name of a preconditioner, or a table such as { kind = \"line\" }")
        };
        forms.read(deserializer)
    }
}
