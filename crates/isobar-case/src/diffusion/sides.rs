//! `diffusion.boundary`: boundary conditions on the sides of the box.

use std::path::Path;

use isobar::Shape;
use isobar::internals::forms::Forms;
use isobar::problem::{Boundary, DiffusionProblem, SIDES, SideFields};
use isobar_io::npy;
use serde::{Deserialize, Deserializer};

use crate::{Document, Error, Number, Result, Values};

const AXES: [&str; 3] = ["x", "y", "z"];

/// `diffusion.boundary`; sides that are not given are closed (no flow).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sides([[Side; 2]; 3]);

/// The boundary condition of a side.
#[derive(Clone, Debug, PartialEq)]
enum Side {
    Neumann(Values),
    Dirichlet(Values),
    Robin { coefficient: Values, value: Values },
    Periodic,
}

impl Default for Side {
    fn default() -> Self {
        Self::Neumann(Values::Number(0.0))
    }
}

/// `diffusion.boundary` as written; a more specific key overrides a more general one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    west: Option<Side>,
    east: Option<Side>,
    south: Option<Side>,
    north: Option<Side>,
    bottom: Option<Side>,
    top: Option<Side>,
    x: Option<Side>,
    y: Option<Side>,
    z: Option<Side>,
    all: Option<Side>,
}

/// The boundary condition of a side, or of all sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GivenSides(Table);

impl<'de> Deserialize<'de> for GivenSides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn all(side: Side) -> GivenSides {
            GivenSides(Table { all: Some(side), ..Table::default() })
        }

        let forms = Forms::<Self, (), Table> {
            word: |word| Side::named(word).map(all),
            number: |value| Some(all(Side::Dirichlet(Values::Number(value)))),
            table: Some(|table| Ok(Self(table))),
            ..Forms::new("a section of sides, or one condition for all sides, such as 0.0 or \"periodic\"")
        };
        forms.read(deserializer)
    }
}

/// The condition of a side as a table, with one key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    neumann: Option<Values>,
    dirichlet: Option<Values>,
    robin: Option<Film>,
    file: Option<std::path::PathBuf>,
}

/// The numbers of a Robin condition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Film {
    coefficient: Values,
    value: Values,
}

impl Given {
    fn side(self) -> Result<Side, String> {
        let given = [
            self.neumann.map(Side::Neumann),
            self.dirichlet.map(Side::Dirichlet),
            self.robin.map(|Film { coefficient, value }| Side::Robin { coefficient, value }),
            self.file.map(|path| Side::Dirichlet(Values::File(path))),
        ];
        let count = given.iter().flatten().count();
        match given.into_iter().flatten().next() {
            Some(side) if count == 1 => Ok(side),
            _ => Err(format!("{count} conditions; give exactly one, such as {{ dirichlet = … }} or {{ neumann = … }}")),
        }
    }
}

impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = Forms::<Self, (), Given> {
            word: Self::named,
            number: |value| Some(Self::Dirichlet(Values::Number(value))),
            table: Some(Given::side),
            ..Forms::new(
                "\"neumann\" (no flow), \"dirichlet\" (the value 0), \"periodic\", the value of u, { dirichlet = VALUE }, { neumann = \
                 FLUX } or { robin = { coefficient = H, value = V } }",
            )
        };
        forms.read(deserializer)
    }
}

impl Side {
    /// Returns the condition that is given by a word.
    fn named(word: &str) -> Option<Self> {
        match word {
            "neumann" => Some(Self::default()),
            "dirichlet" => Some(Self::Dirichlet(Values::Number(0.0))),
            "periodic" => Some(Self::Periodic),
            _ => None,
        }
    }

    /// Returns its numbers with their keys.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, &Values)> {
        let (first, second) = match self {
            Self::Neumann(flux) => (Some(("neumann", flux)), None),
            Self::Dirichlet(value) => (Some(("dirichlet", value)), None),
            Self::Robin { coefficient, value } => {
                (Some(("robin.coefficient", coefficient)), Some(("robin.value", value)))
            }
            Self::Periodic => (None, None),
        };
        first.into_iter().chain(second)
    }

    fn numbers_mut(&mut self) -> impl Iterator<Item = &mut Values> {
        let (first, second) = match self {
            Self::Neumann(value) | Self::Dirichlet(value) => (Some(value), None),
            Self::Robin { coefficient, value } => (Some(coefficient), Some(value)),
            Self::Periodic => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl GivenSides {
    /// Returns the boundary conditions for a grid. `all` applies to the sides of directions with more than one cell.
    ///
    /// # Errors
    /// Only one of two opposite sides is periodic; an invalid number. The message names the key.
    pub(super) fn on(self, shape: Shape, document: &Document<'_>) -> Result<Sides> {
        let Table { west, east, south, north, bottom, top, x, y, z, all } = self.0;
        let extents = shape.extents();
        let both = [x, y, z];
        let mut one = [[west, east], [south, north], [bottom, top]];
        let sides = Sides(std::array::from_fn(|d| {
            std::array::from_fn(|side| {
                let common = all.clone().filter(|_| extents[d] > 1);
                one[d][side].take().or_else(|| both[d].clone()).or(common).unwrap_or_default()
            })
        }));
        for (d, of_axis) in sides.0.iter().enumerate() {
            let key = |side: usize| {
                let keys = [SIDES[d][side], AXES[d], "all"].map(|name| format!("diffusion.boundary.{name}"));
                let found = keys.into_iter().find(|key| document.get(key).is_some());
                found.unwrap_or_else(|| "diffusion.boundary".to_owned())
            };
            let periodic = [0, 1].map(|side| of_axis[side] == Side::Periodic);
            if periodic[0] != periodic[1] {
                let (this, other) = if periodic[0] { (0, 1) } else { (1, 0) };
                let message = format!(
                    "\"periodic\", but diffusion.boundary.{} is not; opposite sides must both be periodic",
                    SIDES[d][other]
                );
                return Err(document.failure_at_key(&key(this), &message));
            }
            for (side, condition) in of_axis.iter().enumerate() {
                for (name, values) in condition.numbers() {
                    let message = match values {
                        Values::Number(h) if name == "robin.coefficient" && *h < 0.0 => {
                            format!("the coefficient {} is negative; use 0 or more", Number(*h))
                        }
                        Values::File(path) if path.as_os_str().is_empty() => "an empty path; name an .npy file".into(),
                        Values::Number(_) | Values::File(_) => continue,
                        _ => format!("{name}: give a number or {{ file = \"side.npy\" }}"),
                    };
                    return Err(document.failure_at_key(&key(side), &message));
                }
            }
        }
        Ok(sides)
    }
}

impl Sides {
    /// Sets u = 0 on all sides.
    pub(crate) fn fix_all(&mut self) {
        self.all_mut().for_each(|side| *side = Side::Dirichlet(Values::Number(0.0)));
    }

    fn all(&self) -> impl Iterator<Item = &Side> {
        self.0.iter().flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        self.0.iter_mut().flatten()
    }

    /// Returns whether direction d is periodic.
    pub(crate) fn is_periodic(&self, d: usize) -> bool {
        self.0[d][0] == Side::Periodic
    }

    /// Returns whether any side has a Robin condition, which adds to the diagonal.
    pub(crate) fn has_robin(&self) -> bool {
        self.all().any(|side| matches!(side, Side::Robin { .. }))
    }

    /// Returns whether u = 0 on all sides.
    pub(crate) fn are_zero(&self) -> bool {
        self.all().all(|side| *side == Side::Dirichlet(Values::Number(0.0)))
    }

    /// Returns whether any side has a value or flux that is not 0, or one from a file.
    pub(super) fn drive(&self) -> bool {
        let is_zero = |(name, values): (&str, &Values)| name == "robin.coefficient" || *values == Values::Number(0.0);
        !self.all().flat_map(Side::numbers).all(is_zero)
    }

    /// Makes paths relative to a folder.
    pub(super) fn rebase(&mut self, folder: &Path) {
        self.all_mut().flat_map(Side::numbers_mut).for_each(|values| values.rebase(folder));
    }

    /// Returns the files that are read.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.all().flat_map(Side::numbers).filter_map(|(_, values)| values.path())
    }

    /// Sets the boundary conditions of a problem, reading their files.
    ///
    /// # Errors
    /// A file that cannot be read or has another shape than the side.
    pub(crate) fn put_on(&self, problem: &mut DiffusionProblem) -> Result<()> {
        for (d, side) in (0..3).flat_map(|d| [(d, 0), (d, 1)]) {
            let Shape { nx, ny, nz } = problem.shape;
            let (shape, letters) = [([nz, ny], "(nz, ny)"), ([nz, nx], "(nz, nx)"), ([ny, nx], "(ny, nx)")][d];
            let read = |name: &str, values: &Values| match values {
                Values::Number(number) => Ok((*number, None)),
                Values::File(path) => {
                    let key = format!("diffusion.boundary.{}.{name}", SIDES[d][side]);
                    let field = npy::read_array(path, &shape, letters);
                    field.map(|field| (0.0, Some(field))).map_err(|error| Error::new(format!("{key}: {error}")))
                }
                // Rejected when the case was read.
                _ => Ok((0.0, None)),
            };
            let mut fields = SideFields::default();
            problem.boundary[d][side] = match &self.0[d][side] {
                Side::Neumann(flux) => {
                    let number;
                    (number, fields.value) = read("neumann", flux)?;
                    Boundary::Neumann(number)
                }
                Side::Dirichlet(value) => {
                    let number;
                    (number, fields.value) = read("dirichlet", value)?;
                    Boundary::Dirichlet(number)
                }
                Side::Robin { coefficient: film, value: outside } => {
                    let (coefficient, value);
                    (coefficient, fields.coefficient) = read("robin.coefficient", film)?;
                    (value, fields.value) = read("robin.value", outside)?;
                    Boundary::Robin { coefficient, value }
                }
                Side::Periodic => Boundary::Periodic,
            };
            problem.side_fields[d][side] = fields;
        }
        Ok(())
    }
}
