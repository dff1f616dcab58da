//! The memory that a case takes, predicted from its sizes before any is allocated.

use isobar::internals::build::memory::{MatrixKind, MatrixSize, Processor, predict};
use isobar::problem::Spacing;
use isobar::{Device, Memory};

use crate::case::Case;
use crate::diffusion::{self, DiffusionCase};
use crate::error::{Error, Result};
use crate::heat::HeatCase;
use crate::helmholtz::{self, HelmholtzCase};
use crate::memory;
use crate::problem::Problem;
use crate::values::Values;

/// Memory of a case by what it is for, for as long as it is there. B
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Matrix, right-hand side, exact solution and mask, on the host from assembling to the end.
    pub system: f64,
    /// What the matrix is made of, on the host while it is made.
    pub assembly: f64,
    /// First guess and solution, on the host.
    pub solution: f64,
    /// The solver, on the host.
    pub solver: f64,
    /// The solution with inactive cells marked, and fluxes that are written, on the host when the solver is gone.
    pub marked: f64,
    /// The two vectors of a copy whose bandwidth is measured, on the host when the solver is gone. Where there is no
    /// memory for them, nothing else is lost.
    pub copy: f64,
    /// The solver on a device that is not the host.
    pub device: f64,
}

impl Footprint {
    /// What the host must have for the case to be solved.
    pub fn needed(&self) -> f64 {
        let Self { system, assembly, solution, solver, marked, .. } = self;
        PROGRAM + system + assembly.max(solution + solver.max(*marked))
    }

    /// The most that the host holds at one time, the measurement of a copy included.
    pub fn peak(&self) -> f64 {
        self.needed().max(PROGRAM + self.system + self.solution + self.copy)
    }
}

/// Of a value a cell.
const VALUE: f64 = 8.0;
/// What a program takes that does nothing yet. B
const PROGRAM: f64 = (20 << 20) as f64;
/// Cells of the vectors that a processor's copy is measured with: beyond its caches, and no more than need be.
const COPIED: [f64; 2] = [(256 * 256 * 128) as f64, (512 * 512 * 128) as f64];

impl Case {
    /// Fails where it needs more memory than there is, before any is taken.
    ///
    /// # Errors
    /// What it needs, what there is, and what to do.
    pub fn require_memory(&self, device: &Device) -> Result<()> {
        let what = format!("a grid of {} cells", self.problem.shape());
        let footprint = self.footprint_on(device)?;
        memory::require(&what, footprint.needed())?;
        if let Device::Cuda(cuda) = device {
            let (needed, there) = (footprint.device, cuda.memory() as f64);
            if needed > there {
                return Err(Error::new(format!(
                    "{what} needs {} on cuda:{}, which has {}; use a smaller grid, solver.precision = \"f32\", or the device \"cpu\"",
                    memory::readable(needed),
                    cuda.ordinal(),
                    memory::readable(there)
                )));
            }
        }
        Ok(())
    }

    /// What it will hold on a device; of several ranks, what one of them will, the one with the largest part.
    ///
    /// # Errors
    /// Options that do not go together; more ranks than rows, or than pairs of columns.
    pub fn footprint_on(&self, device: &Device) -> Result<Footprint> {
        let (alone, size) = (self.footprint(device.processor())?, self.problem.matrix_size());
        let at = |error: isobar::Error| Error::at(&self.path, error);
        let Some(patches) = device.patches(size.shape).map_err(at)? else { return Ok(alone) };
        let Memory { host, device } = device.predict_memory(&size, &size.choice(), &self.solver).map_err(at)?;
        // Steps take arrays of the whole grid; a solve makes and reads those of its own rows alone.
        let by_rows = match &self.problem {
            Problem::Helmholtz(case) => {
                1.0 + f64::from(u8::from(case.section.rhs.kind == helmholtz::RhsKind::Manufactured))
            }
            Problem::Diffusion(case) => 1.0 + f64::from(u8::from(case.rhs_kind() == diffusion::RhsKind::Manufactured)),
            Problem::Heat(_) => return Ok(Footprint { solver: host, device, ..alone }),
        };
        let share = patches.largest(size.shape).cells() as f64 / size.shape.cells() as f64;
        let others = by_rows * VALUE * size.shape.cells() as f64 * (1.0 - share);
        Ok(Footprint {
            system: alone.system - others,
            assembly: alone.assembly,
            solution: alone.solution * share,
            solver: host,
            copy: alone.copy,
            marked: 0.0,
            device,
        })
    }

    /// What it will hold, with a solver on this processor.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn footprint(&self, processor: Processor) -> Result<Footprint> {
        let cells = self.problem.shape().cells() as f64;
        let size = self.problem.matrix_size();
        let Memory { host, device } =
            predict(&size, &size.choice(), &self.solver, processor).map_err(|error| Error::at(&self.path, error))?;
        let held = match &self.problem {
            Problem::Helmholtz(case) => case.values_held(),
            Problem::Diffusion(case) => case.values_held(),
            Problem::Heat(case) => case.values_held(),
        };
        let [marked, fluxes] = [(held.may_be_marked, 1.0), (self.output.flux.is_some(), 3.0)]
            .map(|(is_held, n)| if is_held { n } else { 0.0 });
        Ok(Footprint {
            system: held.system * VALUE * cells,
            assembly: held.assembly * VALUE * cells,
            solution: VALUE * cells,
            solver: host,
            copy: match processor {
                Processor::Cpu { .. } => 2.0 * VALUE * cells.clamp(COPIED[0], COPIED[1]),
                Processor::Cuda => 0.0,
            },
            marked: VALUE * cells * (marked + fluxes),
            device,
        })
    }
}

impl Problem {
    /// What the memory of its solvers depends on.
    pub fn matrix_size(&self) -> MatrixSize {
        let kind = match self {
            Self::Helmholtz(_) => MatrixKind::TensorProduct,
            Self::Diffusion(case) => case.matrix_kind(),
            Self::Heat(case) => case.matrix_kind(),
        };
        MatrixSize { shape: self.shape(), kind }
    }
}

/// Values a cell.
struct Held {
    /// Of the system.
    system: f64,
    /// Of what it is made of.
    assembly: f64,
    /// Whether there may be inactive cells.
    may_be_marked: bool,
}

impl HelmholtzCase {
    fn values_held(&self) -> Held {
        let manufactured = self.section.rhs.kind == helmholtz::RhsKind::Manufactured;
        // Six numbers a column are the matrix, made of as many.
        let columns = 6.5 / self.grid.nz as f64;
        Held { system: if manufactured { 2.0 } else { 1.0 } + columns, assembly: columns, may_be_marked: false }
    }
}

impl HeatCase {
    /// Of every step: a shift is always there.
    fn matrix_kind(&self) -> MatrixKind {
        match self.diffusion.matrix_kind() {
            MatrixKind::Diffusion { fields, strengths, is_periodic, .. } => {
                MatrixKind::Diffusion { fields, has_shift: true, strengths, is_periodic }
            }
            other => other,
        }
    }

    /// The matrix with and without the shift of a step, source and masses beside what a diffusion problem has, what
    /// the stepper holds (the state, the one before, the source, masses; two more where it chooses the length of steps), and
    /// states that are written while steps go on.
    fn values_held(&self) -> Held {
        let Held { system, assembly, may_be_marked } = self.diffusion.values_held();
        let masses = if self.has_various_cells() { 3.0 } else { 0.0 };
        let estimates = if self.step_tolerance().is_some() { 2.0 } else { 0.0 };
        let is_written = self.section.output_every > 0 || self.section.checkpoint.is_some();
        let written = if is_written { 3.0 } else { 0.0 };
        Held { system: system + 5.0 + masses + estimates + written, assembly: assembly + 2.0, may_be_marked }
    }
}

impl DiffusionCase {
    /// Whether the coefficient of z is another than that of x, in memory.
    fn is_layered(&self) -> bool {
        let section = &self.section;
        section.coefficient_z.is_some() || section.coefficient_y.is_some() || section.multiplier.is_some()
    }

    fn matrix_kind(&self) -> MatrixKind {
        let section = &self.section;
        if let Some(faces) = &self.faces {
            let has_shift = faces.shift.is_some();
            return MatrixKind::Diffusion { fields: 3, has_shift, strengths: [1.0; 3], is_periodic: [false; 3] };
        }
        let is_uniform = [0, 1, 2].map(|d| matches!(self.spacing[d], Spacing::Uniform(_)));
        let fields = match (is_uniform, section.coefficient_y.is_some()) {
            ([true, true, true], false) => 1 + usize::from(self.is_layered()),
            ([true, true, false], false) => 2,
            _ => 3,
        };
        // A power of the widths, and of coefficients that are plain numbers.
        let cells = [self.shape.nx, self.shape.ny, self.shape.nz];
        let widths = [0, 1, 2].map(|d| self.spacing[d].extent(cells[d]) / cells[d] as f64);
        let over_x = |values: &Option<Values>| match (&section.coefficient, values) {
            (_, Some(Values::Ratio(ratio))) => *ratio,
            (Values::Number(x), Some(Values::Number(other))) if *x > 0.0 && *other > 0.0 => other / x,
            _ => 1.0,
        };
        let coefficients = [1.0, over_x(&section.coefficient_y), over_x(&section.coefficient_z)];
        let strengths = [0, 1, 2].map(|d| coefficients[d] * (widths[0] / widths[d]).powi(2));
        let is_periodic = [0, 1, 2].map(|d| section.boundary.is_periodic(d));
        let at_points = section.unknowns == diffusion::Unknowns::Points;
        let has_ties = !section.wells.is_empty() || section.boundary.has_robin();
        let has_shift = section.reaction.is_some() || has_ties || at_points;
        MatrixKind::Diffusion { fields, has_shift, strengths, is_periodic }
    }

    fn values_held(&self) -> Held {
        let section = &self.section;
        let count = |given: bool| if given { 1.0 } else { 0.0 };
        let MatrixKind::Diffusion { fields, has_shift, .. } = self.matrix_kind() else {
            return Held { system: 0.0, assembly: 0.0, may_be_marked: false };
        };
        let matrix = fields as f64 + count(has_shift);
        let manufactured = count(self.rhs_kind() == diffusion::RhsKind::Manufactured);
        // A mask is a byte a cell.
        let mask = 1.0 / VALUE;
        let coefficients = 1.0 + count(section.coefficient_y.is_some()) + count(self.is_layered());
        let problem = coefficients + count(section.reaction.is_some()) + mask * count(section.active.is_some());
        // Conductances as they are read, and the cells that have any.
        let problem = if self.faces.is_some() { matrix + 1.0 + mask } else { problem };
        // A manufactured right-hand side is the product of a matrix of its own with the solution.
        let on_the_way = manufactured * matrix;
        Held {
            system: matrix + 1.0 + manufactured + mask,
            assembly: problem + on_the_way,
            may_be_marked: self.faces.is_some()
                || section.active.is_some()
                || section.coefficient != Values::Number(1.0),
        }
    }
}
