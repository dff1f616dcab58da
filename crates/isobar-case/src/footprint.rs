//! The memory that a case takes on the host, predicted from its sizes before any is allocated.

use crate::case::Case;
use crate::diffusion::{self, DiffusionCase};
use crate::helmholtz::{self, HelmholtzCase};
use crate::problem::Problem;

/// Host memory of a case by what it is for, for as long as it is there. B
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Matrix, right-hand side, exact solution and mask: from assembling to the end.
    pub system: f64,
    /// What the matrix is made of, while it is made.
    pub assembly: f64,
    /// First guess and solution, and the solution with inactive cells marked, where outputs need it.
    pub solution: f64,
}

impl Footprint {
    /// The most that is there at one time, with a solver that takes so many bytes on the host.
    pub fn peak(&self, solver: f64) -> f64 {
        self.system + self.assembly.max(self.solution + solver)
    }
}

/// Of a value a cell.
const VALUE: f64 = 8.0;

impl Case {
    /// What it will hold.
    pub fn footprint(&self) -> Footprint {
        let cells = self.problem.shape().cells() as f64;
        let (system, assembly, masked) = match &self.problem {
            Problem::Helmholtz(case) => case.values_held(),
            Problem::Diffusion(case) => case.values_held(),
        };
        Footprint {
            system: system * VALUE * cells,
            assembly: assembly * VALUE * cells,
            solution: if masked { 2.0 } else { 1.0 } * VALUE * cells,
        }
    }
}

impl HelmholtzCase {
    /// Values a cell of the system and of what it is made of, and whether there may be inactive cells. The tables of
    /// the matrix are vanishingly small.
    fn values_held(&self) -> (f64, f64, bool) {
        let manufactured = self.section.rhs.kind == helmholtz::RhsKind::Manufactured;
        (if manufactured { 2.0 } else { 1.0 }, 0.0, false)
    }
}

impl DiffusionCase {
    fn values_held(&self) -> (f64, f64, bool) {
        let section = &self.section;
        let count = |given: bool| if given { 1.0 } else { 0.0 };
        let vertical =
            section.coefficient_z.is_some() || section.coefficient_y.is_some() || section.multiplier.is_some();
        let coefficients = 1.0 + count(section.coefficient_y.is_some()) + count(vertical);
        // The matrix has at least as many fields, and a shift where something ties cells to the outside.
        let shift = section.reaction.is_some() || !section.wells.is_empty();
        let manufactured = self.rhs_kind() == diffusion::RhsKind::Manufactured;
        // A mask is a byte a cell.
        let mask = 1.0 / VALUE;
        let system = coefficients + count(shift) + 1.0 + count(manufactured) + mask;
        let assembly = coefficients
            + count(section.reaction.is_some())
            + mask * count(section.active.is_some())
            // The solution that a manufactured right-hand side is made from.
            + count(manufactured);
        let masked = section.active.is_some() || section.coefficient != crate::values::Values::Number(1.0);
        (system, assembly, masked)
    }
}
