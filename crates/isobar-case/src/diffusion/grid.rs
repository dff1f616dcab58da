//! `[grid]` of a box: the numbers and widths of its cells.

use std::ops::RangeInclusive;

use isobar::internals::forms::Forms;
use isobar::problem::Spacing;
use serde::{Deserialize, Deserializer};

use crate::text::plural;
use crate::{Document, Number, Result};

/// `[grid]` of a box.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GridSection {
    pub(super) nx: usize,
    pub(super) ny: usize,
    pub(super) nz: usize,
    spacing: Option<Vec<Widths>>,
    size: Option<Vec<f64>>,
}

impl Default for GridSection {
    fn default() -> Self {
        Self { nx: 128, ny: 128, nz: 1, spacing: None, size: None }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Widths {
    All(f64),
    Each(Vec<f64>),
}

impl<'de> Deserialize<'de> for Widths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = Forms::<Self, Vec<f64>> {
            number: |width| Some(Self::All(width)),
            list: Some(|widths| Ok(Self::Each(widths))),
            ..Forms::new("a width, or a list of the widths of all cells")
        };
        forms.read(deserializer)
    }
}

impl GridSection {
    /// Returns the widths of cells, as given or computed from the size of the box.
    pub(super) fn spacing(self, document: &Document<'_>) -> Result<[Spacing; 3]> {
        const AXES: [&str; 3] = ["x", "y", "z"];
        let cells = [self.nx, self.ny, self.nz];
        let fail = |key: &str, message: String| document.failure_at_key(key, &message);
        let complete = |key: &str, given: usize| {
            // Trailing directions of one cell may be omitted.
            if given > 3 || (given..3).any(|d| cells[d] > 1) {
                let ending = if given == 1 { "y" } else { "ies" };
                return Err(fail(key, format!("{given} entr{ending}; give one for each of x, y and z")));
            }
            Ok(())
        };
        let mut spacing = cells.map(|n| Spacing::Uniform(1.0 / n as f64));
        if let (Some(_), Some(_)) = (&self.spacing, &self.size) {
            return Err(fail("grid.size", "grid.spacing is given too; remove one of them".into()));
        }
        if let Some(size) = self.size {
            complete("grid.size", size.len())?;
            for (d, length) in size.into_iter().enumerate() {
                let width = length / cells[d] as f64;
                if !WIDTHS.contains(&width) {
                    let (axis, n) = (AXES[d], cells[d]);
                    return Err(fail(
                        "grid.size",
                        format!(
                            "{} in {axis} makes {} {width:.3e} wide; {}",
                            Number(length),
                            plural(n, "cell"),
                            use_a_width()
                        ),
                    ));
                }
                spacing[d] = Spacing::Uniform(width);
            }
        }
        if let Some(widths) = self.spacing {
            complete("grid.spacing", widths.len())?;
            for (d, widths) in widths.into_iter().enumerate() {
                let all = match &widths {
                    Widths::All(width) => std::slice::from_ref(width),
                    Widths::Each(widths) if widths.len() == cells[d] => widths,
                    Widths::Each(widths) => {
                        let (found, axis, wanted) = (widths.len(), AXES[d], cells[d]);
                        return Err(fail(
                            "grid.spacing",
                            format!("{found} widths in {axis}, but the grid has {wanted} cells there"),
                        ));
                    }
                };
                if let Some(n) = all.iter().position(|width| !WIDTHS.contains(width)) {
                    let (width, axis) = (Number(all[n]), AXES[d]);
                    return Err(fail(
                        "grid.spacing",
                        format!("cell {n} in {axis} has the width {width}; {}", use_a_width()),
                    ));
                }
                spacing[d] = match widths {
                    Widths::All(width) => Spacing::Uniform(width),
                    Widths::Each(widths) => Spacing::Given(widths),
                };
            }
        }
        Ok(spacing)
    }
}

/// The range of widths in which products of areas, coefficients within [`crate::values::SIZES`] and inverse widths neither
/// overflow nor underflow.
const WIDTHS: RangeInclusive<f64> = 1e-30..=1e30;

fn use_a_width() -> String {
    format!(
        "use a positive number, {} to {}, in other units if necessary",
        Number(*WIDTHS.start()),
        Number(*WIDTHS.end())
    )
}
