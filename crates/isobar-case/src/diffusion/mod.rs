//! Problems of kind "diffusion" and "poisson": `[problem]`, `[grid]` and `[diffusion]` or `[faces]`.
//!
//! * `faces`: conductances instead of coefficients,
//! * `grid`: cells and their widths,
//! * `sides`: boundary conditions,
//! * `points`: sources and wells.

mod faces;
mod grid;
mod points;
mod sides;

use std::path::Path;

use isobar::Shape;
use isobar::internals::layout::Layout;
use isobar::problem::{Source, Spacing, Well};
use serde::Deserialize;

use crate::rhs::RhsSection;
use crate::{Document, Result, RhsKind, Values};
pub use faces::{FacesSection, face_problem};
pub(crate) use grid::GridSection;
pub use points::{SourceSection, WellSection};
use sides::GivenSides;
pub use sides::Sides;

/// A diffusion problem as the case file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffusionCase {
    /// "diffusion", "poisson" or "heat"
    pub kind: &'static str,
    /// The body source f, `[problem.rhs]`.
    pub rhs: RhsSection,
    /// Cells in x, y and z.
    pub shape: Shape,
    /// Widths of cells in x, y and z, in the user's unit of length.
    pub spacing: [Spacing; 3],
    /// Coefficients, sides, sources and wells, `[diffusion]`.
    pub section: DiffusionSection,
    /// Conductances instead of coefficients and sides, `[faces]`.
    pub faces: Option<FacesSection>,
}

/// `[problem]` without its kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProblemSection {
    rhs: RhsSection,
}

/// `diffusion.unknowns` and `heat.unknowns`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknowns {
    /// n points inside the box, a distance L/(n + 1) apart, with u given on the sides (papers C and E).
    Points,
    /// In the centres of cells (finite volumes).
    #[default]
    Cells,
}

/// `[diffusion]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiffusionSection {
    /// κ; if the next two are given, of x only.
    pub coefficient: Values,
    /// κ in y, if different from κ in x.
    pub coefficient_y: Option<Values>,
    /// κ in z, if different from κ in x.
    pub coefficient_z: Option<Values>,
    /// A factor of the coefficients of x and y: net-to-gross.
    pub multiplier: Option<Values>,
    /// The coefficient c of the reaction term c u, if not 0.
    pub reaction: Option<Values>,
    /// The active cells: those where the value is not 0.
    pub active: Option<Values>,
    /// The positions of the unknowns.
    pub unknowns: Unknowns,
    /// The sides as in the file, until the grid is known.
    #[serde(rename = "boundary")]
    given: GivenSides,
    /// The boundary conditions on the sides.
    #[serde(skip)]
    pub(crate) boundary: Sides,
    /// Columns with a source of given rate.
    pub sources: Vec<SourceSection>,
    /// Columns with a well, which prescribes u.
    pub wells: Vec<WellSection>,
}

impl DiffusionCase {
    pub(crate) fn read(kind: &'static str, document: &Document<'_>, folder: &Path) -> Result<Self> {
        let ProblemSection { mut rhs } = document.read_without("problem", &["kind"])?;
        rhs.complete(document, folder)?;
        for key in ["grid.geometry", "grid.depth", "grid.grading"] {
            if document.get(key).is_some() {
                let message = format!(
                    "is a key of problem.kind = \"helmholtz\"; the grid of kind \"{kind}\" is a box, with grid.size = [Lx, Ly, \
                     Lz] or grid.spacing = [dx, dy, dz]"
                );
                return Err(document.failure_at_key(key, &message));
            }
        }
        let grid: GridSection = document.read("grid")?;
        let shape = Shape::new(grid.nx, grid.ny, grid.nz);
        Layout::new(shape).map_err(|error| document.failure_of(error))?;
        let spacing = grid.spacing(document)?;
        let faces = FacesSection::read(kind, shape, document, folder)?;
        let mut section: DiffusionSection = document.read("diffusion")?;
        section.check(document)?;
        section.boundary = std::mem::take(&mut section.given).on(shape, document)?;
        if kind == "heat" && document.get("diffusion.unknowns").is_some() {
            let message = "is a key of the kinds \"poisson\" and \"diffusion\"; for kind \"heat\" use heat.unknowns";
            return Err(document.failure_at_key("diffusion.unknowns", message));
        }
        if section.unknowns == Unknowns::Points {
            section.place_at_points("diffusion.unknowns", document)?;
        }
        section.values_mut().for_each(|values| values.rebase(folder));
        section.boundary.rebase(folder);
        Ok(Self { kind, rhs, shape, spacing, section, faces })
    }

    /// Returns the kind of the body source, with the default resolved.
    pub fn rhs_kind(&self) -> RhsKind {
        self.rhs.kind.unwrap_or_else(|| {
            let section = &self.section;
            let driven = section.boundary.drive() || !section.sources.is_empty() || !section.wells.is_empty();
            if driven || self.kind == "heat" { RhsKind::None } else { RhsKind::Constant }
        })
    }

    /// Returns the files that the problem reads.
    pub fn inputs(&self) -> impl Iterator<Item = &Path> {
        let values = self.section.values().filter_map(Values::path).chain(self.section.boundary.paths());
        self.rhs.path.as_deref().into_iter().chain(values).chain(self.faces.iter().flat_map(FacesSection::paths))
    }

    /// Describes the problem in one line, for the summary of a run.
    pub fn describe(&self) -> String {
        let Shape { nx, ny, nz } = self.shape;
        let section = &self.section;
        let noun = if section.unknowns == Unknowns::Points { "points" } else { "cells" };
        let mut text = format!("{} on {nx}×{ny}×{nz} = {} {noun}", self.kind, self.shape.cells());
        match &self.faces {
            Some(faces) => text += &format!(", {}", faces.describe()),
            None => text += &format!(", coefficient {}", section.coefficient.describe()),
        }
        if let Some(vertical) = &section.coefficient_z {
            text += &format!(", in z {}", vertical.describe());
        }
        for (count, noun) in [(section.sources.len(), "source"), (section.wells.len(), "well")] {
            if count > 0 {
                text += &format!(", {}", crate::text::plural(count, noun));
            }
        }
        match self.rhs_kind() {
            RhsKind::None => {}
            RhsKind::Manufactured => text += ", manufactured solution cos n",
            kind => text += &format!(", {}", self.rhs.describe(kind)),
        }
        text
    }
}

impl DiffusionSection {
    /// Places unknowns at points, as `key` says: all sides without a condition are fixed.
    ///
    /// # Errors
    /// Widths of cells.
    pub(crate) fn place_at_points(&mut self, key: &str, document: &Document<'_>) -> Result<()> {
        if document.get("grid.spacing").is_some() {
            let message = format!(
                "is for unknowns in cells; give grid.size (points are grid.size/(n + 1) apart), or set {key} = \"cells\""
            );
            return Err(document.failure_at_key("grid.spacing", &message));
        }
        if document.get("diffusion.boundary").is_none() {
            self.boundary.fix_all();
        }
        Ok(())
    }

    fn values(&self) -> impl Iterator<Item = &Values> {
        let Self { coefficient, coefficient_y, coefficient_z, multiplier, reaction, active, .. } = self;
        let others = [coefficient_y, coefficient_z, multiplier, reaction, active];
        std::iter::once(coefficient).chain(others.into_iter().flatten())
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut Values> {
        let Self { coefficient, coefficient_y, coefficient_z, multiplier, reaction, active, .. } = self;
        let others = [coefficient_y, coefficient_z, multiplier, reaction, active];
        std::iter::once(coefficient).chain(others.into_iter().flatten())
    }

    fn check(&self, document: &Document<'_>) -> Result<()> {
        let values = [
            ("diffusion.coefficient", Some(&self.coefficient), true, false, false),
            ("diffusion.coefficient_y", self.coefficient_y.as_ref(), true, false, false),
            ("diffusion.coefficient_z", self.coefficient_z.as_ref(), true, true, false),
            ("diffusion.multiplier", self.multiplier.as_ref(), false, false, false),
            ("diffusion.reaction", self.reaction.as_ref(), false, false, true),
            ("diffusion.active", self.active.as_ref(), false, false, false),
        ];
        for (key, values, recipes, ratios, negative) in values {
            if let Some(message) = values.and_then(|values| values.misfit(recipes, ratios, negative)) {
                return Err(document.failure_at_key(key, &message));
            }
        }
        Ok(())
    }

    pub(crate) fn sources(&self, nz: usize) -> Vec<Source> {
        self.sources.iter().map(|source| source.on(nz)).collect()
    }

    pub(crate) fn wells(&self, nz: usize) -> Vec<Well> {
        self.wells.iter().map(|well| well.on(nz)).collect()
    }
}
