//! The memory that a case needs, predicted from its sizes before any is allocated.

use isobar::internals::build::memory::{MatrixKind, MatrixSize, Overhead, predict};
use isobar::problem::Spacing;
use isobar::{Device, Memory};

use crate::case::Case;
use crate::heat::HeatCase;
use crate::helmholtz::HelmholtzCase;
use crate::{DiffusionCase, Error, Problem, Result, RhsKind, Unknowns, Values, memory};

/// Memory of a case by purpose, with its lifetime. B
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Matrix, right-hand side, exact solution and mask, on the host from assembly to the end.
    pub system: f64,
    /// Inputs of the matrix, on the host during assembly.
    pub assembly: f64,
    /// First guess and solution, on the host.
    pub solution: f64,
    /// The solver, on the host.
    pub solver: f64,
    /// The solution with inactive cells marked, and fluxes to be written, on the host after the solver is dropped.
    pub marked: f64,
    /// The two vectors of the bandwidth measurement, on the host after the solver is dropped. If there is not enough
    /// memory for them, only the measurement is skipped.
    pub copy: f64,
    /// The solver on a GPU.
    pub device: f64,
}

impl Footprint {
    /// Returns the memory that the host must have to solve the case.
    pub fn needed(&self) -> f64 {
        let Self { system, assembly, solution, solver, marked, .. } = self;
        PROGRAM + system + assembly.max(solution + solver.max(*marked))
    }

    /// Returns the largest amount that the host holds at one time, including the bandwidth measurement.
    pub fn peak(&self) -> f64 {
        self.needed().max(PROGRAM + self.system + self.solution + self.copy)
    }
}

/// Bytes of a value. B
const VALUE: f64 = 8.0;
/// Memory of an idle program. B
const PROGRAM: f64 = (20 << 20) as f64;
/// The fewest and the most cells of the vectors in a processor's bandwidth measurement: larger than its caches, but no larger than
/// necessary.
const COPIED: [f64; 2] = [(256 * 256 * 128) as f64, (512 * 512 * 128) as f64];

impl Case {
    /// Fails if the case needs more memory than is available, before any is allocated.
    ///
    /// # Errors
    /// The message says what is needed, what is available and what to do.
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

    /// Predicts the memory on a device. On several ranks it is that of one rank, the one with the largest subdomain.
    ///
    /// # Errors
    /// Incompatible options; more ranks than rows.
    pub fn footprint_on(&self, device: &Device) -> Result<Footprint> {
        let (alone, size) = (self.footprint(&device.overhead())?, self.problem.matrix_size());
        let at = |error: isobar::Error| Error::at(&self.path, error);
        let Some(slabs) = device.slabs(size.shape).map_err(at)? else { return Ok(alone) };
        let predicted = device.predict_memory(&size, &size.choice(), &self.solver).map_err(at)?;
        let share = slabs.largest() as f64 / size.shape.ny as f64;
        let Memory { host, device } = self.with_first(predicted, share, &device.overhead());
        // Time steps need arrays of the whole grid; a solve assembles and reads its own rows only.
        let kind = match &self.problem {
            Problem::Helmholtz(case) => case.rhs_kind(),
            Problem::Diffusion(case) => case.rhs_kind(),
            Problem::Heat(_) => return Ok(Footprint { solver: host, device, ..alone }),
        };
        let by_rows = if kind == RhsKind::Manufactured { 2.0 } else { 1.0 };
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

    /// Adds the vectors of conjugate gradients that come before the predicted multigrid, and stay while its levels are made, on a share of the grid.
    fn with_first(&self, of_multigrid: Memory, share: f64, overhead: &Overhead) -> Memory {
        let Memory { host, device } = of_multigrid;
        // r, p and q; z with the diagonal; where p cannot be advanced in place, another p.
        let vectors = match &self.problem {
            Problem::Heat(_) if self.solver.leaves_step_preconditioner() => 3.0,
            Problem::Diffusion(case) if case.has_shift() && self.solver.leaves_all_open() => 4.0,
            _ => return of_multigrid,
        };
        let first = (vectors + overhead.vectors) * VALUE * self.problem.shape().cells() as f64 * share;
        if overhead.is_apart { Memory { host, device: device + first } } else { Memory { host: host + first, device } }
    }

    /// Predicts the memory with a solver of a back end with this overhead.
    ///
    /// # Errors
    /// Incompatible options.
    pub fn footprint(&self, overhead: &Overhead) -> Result<Footprint> {
        let cells = self.problem.shape().cells() as f64;
        let size = self.problem.matrix_size();
        let predicted =
            predict(&size, &size.choice(), &self.solver, overhead).map_err(|error| Error::at(&self.path, error))?;
        let Memory { host, device } = self.with_first(predicted, 1.0, overhead);
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
            copy: if overhead.is_apart { 0.0 } else { 2.0 * VALUE * cells.clamp(COPIED[0], COPIED[1]) },
            marked: VALUE * cells * (marked + fluxes),
            device,
        })
    }
}

impl Problem {
    /// Returns the sizes that the memory of the solver depends on.
    pub fn matrix_size(&self) -> MatrixSize {
        match self {
            Self::Helmholtz(_) => MatrixSize::tensor_product(self.shape()),
            Self::Diffusion(case) => case.matrix_size(case.has_shift()),
            // The matrix of a step.
            Self::Heat(case) => case.diffusion.matrix_size(true),
        }
    }
}

/// Values per cell.
struct Held {
    /// The values held by the system.
    system: f64,
    /// The values held by the inputs of the matrix.
    assembly: f64,
    /// Whether there may be inactive cells.
    may_be_marked: bool,
}

impl HelmholtzCase {
    fn values_held(&self) -> Held {
        let manufactured = self.rhs_kind() == RhsKind::Manufactured;
        // The matrix has six numbers per column, computed from as many.
        let columns = 6.5 / self.grid.nz as f64;
        Held { system: if manufactured { 2.0 } else { 1.0 } + columns, assembly: columns, may_be_marked: false }
    }
}

impl HeatCase {
    /// Counts the matrix with and without the shift of a step; source and masses in addition to a diffusion problem's values;
    /// the stepper's vectors (current and previous state, source, masses; two more with automatic step lengths); and
    /// states being written during the following steps.
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
    /// Returns whether the coefficient of z is stored separately from that of x.
    fn is_layered(&self) -> bool {
        let section = &self.section;
        section.coefficient_z.is_some() || section.coefficient_y.is_some() || section.multiplier.is_some()
    }

    fn has_shift(&self) -> bool {
        let section = &self.section;
        if let Some(faces) = &self.faces {
            return faces.shift.is_some();
        }
        let at_points = section.unknowns == Unknowns::Points;
        let has_ties = !section.wells.is_empty() || section.boundary.has_robin();
        section.reaction.is_some() || has_ties || at_points
    }

    fn matrix_size(&self, has_shift: bool) -> MatrixSize {
        let section = &self.section;
        let of = |fields: usize, strengths, is_periodic| {
            let values = fields as f64 + f64::from(has_shift);
            let crossing = Spacing::crossing(&self.spacing, self.shape);
            MatrixSize { shape: self.shape, kind: MatrixKind::Diffusion, values, strengths, is_periodic, crossing }
        };
        if self.faces.is_some() {
            return of(3, [1.0; 3], [false; 3]);
        }
        let is_uniform = [0, 1, 2].map(|d| matches!(self.spacing[d], Spacing::Uniform(_)));
        let fields = match (is_uniform, section.coefficient_y.is_some()) {
            ([true, true, true], false) => 1 + usize::from(self.is_layered()),
            ([true, true, false], false) => 2,
            _ => 3,
        };
        // By the widths, and coefficients that are plain numbers.
        let over_x = |values: &Option<Values>| match (&section.coefficient, values) {
            (_, Some(Values::Ratio(ratio))) => *ratio,
            (Values::Number(x), Some(Values::Number(other))) if *x > 0.0 && *other > 0.0 => other / x,
            _ => 1.0,
        };
        let coefficients = [1.0, over_x(&section.coefficient_y), over_x(&section.coefficient_z)];
        let by_widths = Spacing::strengths(&self.spacing, self.shape);
        let strengths = [0, 1, 2].map(|d| coefficients[d] * by_widths[d] / by_widths[0]);
        of(fields, strengths, [0, 1, 2].map(|d| section.boundary.is_periodic(d)))
    }

    fn values_held(&self) -> Held {
        let section = &self.section;
        let count = |given: bool| if given { 1.0 } else { 0.0 };
        let matrix = self.matrix_size(self.has_shift()).values;
        let manufactured = count(self.rhs_kind() == RhsKind::Manufactured);
        // A mask has one byte per cell.
        let mask = 1.0 / VALUE;
        let coefficients = 1.0 + count(section.coefficient_y.is_some()) + count(self.is_layered());
        let problem = coefficients + count(section.reaction.is_some()) + mask * count(section.active.is_some());
        // Conductances as read, and the mask.
        let problem = if self.faces.is_some() { matrix + 1.0 + mask } else { problem };
        // A manufactured right-hand side is computed with a second copy of the matrix.
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
