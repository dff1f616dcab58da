//! Effective conductivities of a sample of cells, such as the image of a porous rock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use isobar_core::array::Target;
use isobar_core::backend::AggregateMap;
use isobar_core::build::Balance;
use isobar_core::error::Result;
use isobar_core::execute::{Execute, Host, for_each_row, prefer_large_pages};
use isobar_core::layout::Shape;
use isobar_core::operator::Guess;
use isobar_core::options::SolverOptions;
use isobar_core::outcome::Outcome;
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, Spacing};
use isobar_core::solver::Observer;
use isobar_core::stencil::{Axis, Diffusion};

use crate::arrays::Output;
use crate::device::Device;
use crate::solver::Solver;

/// A sample whose effective conductivity is wanted along one or several axes, with the connected components of its cells.
///
/// ```
/// use isobar::options::SolverOptions;
/// use isobar::problem::{Coefficient, DiffusionProblem};
/// use isobar::stencil::Axis;
/// use isobar::internals::solver::ignore;
/// use isobar::{Device, Sample, Shape};
///
/// # fn main() -> isobar::Result<()> {
/// // Layers of 1 and 3, one above the other in y.
/// let shape = Shape::new(6, 8, 1);
/// let kappa = (0..48).map(|n| if n / 6 % 2 == 0 { 1.0 } else { 3.0 }).collect();
/// let mut sample = Sample::new(DiffusionProblem::new(shape, Coefficient::Isotropic(kappa)))?;
/// let (device, options) = (Device::cpu()?, SolverOptions { tolerance: 1e-10, ..SolverOptions::default() });
/// let [along, across] = [Axis::X, Axis::Y].map(|axis| sample.along(axis, &device, &options, None, &mut ignore));
/// assert!((along?.conductivity - 2.0).abs() < 1e-9);
/// assert!((across?.conductivity - 1.5).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sample {
    shape: Shape,
    /// Widths of cells in x, y and z.
    spacing: [Spacing; 3],
    /// The open cells, whose sides are closed; nothing where no cell is open.
    open: Option<Open>,
    /// The means of κ and of 1/κ along x, y and z.
    means: [[f64; 2]; 3],
    porosity: f64,
    /// The components that the last solve was for. Those of other axes are usually the same.
    conducting: Option<Conducting>,
}

/// The matrix of all open cells, and its connected components.
#[derive(Clone, Debug)]
struct Open {
    stencil: Diffusion,
    components: AggregateMap,
}

/// The components that connect two sides.
#[derive(Clone, Debug)]
struct Conducting {
    /// Whether each component does.
    which: Vec<bool>,
    /// Their part of the volume.
    volume: f64,
    /// Their matrix, whose sides are closed.
    stencil: Diffusion,
}

/// The effective properties of a sample along one axis.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The axis.
    pub axis: Axis,
    /// k of Q = k A Δu / L, with A the cross-section and L the length of the sample, computed from the energy of the solution,
    /// whose error is the square of the solution's. It is 0 where no path leads from one side to the other.
    pub conductivity: f64,
    /// The mean of κ over `conductivity`: for pores with one κ = D, porosity · D / D_eff. Infinite where nothing flows.
    pub tortuosity: f64,
    /// The part of the volume whose cells are open: κ > 0.
    pub porosity: f64,
    /// The part of the open volume that is connected to both sides.
    pub connected: f64,
    /// The bounds for any arrangement of the cells: all in series, the harmonic mean of κ, and all in parallel, the arithmetic
    /// mean.
    pub bounds: [f64; 2],
    /// |Q_in − Q_out| relative to the larger of them, the error of conservation. 0 where nothing flows.
    pub imbalance: f64,
    /// The outcome of the solve; nothing where none was needed.
    pub outcome: Option<Outcome>,
}

impl Sample {
    /// Takes the grid, κ and mask of a problem; its sides, sources, wells and reaction are ignored.
    ///
    /// # Errors
    /// See [`DiffusionProblem::validate`]; but all cells may be closed.
    pub fn new(problem: DiffusionProblem) -> Result<Self> {
        let problem = DiffusionProblem {
            boundary: [[Boundary::Neumann(0.0); 2]; 3],
            side_fields: Default::default(),
            reaction: None,
            sources: Vec::new(),
            wells: Vec::new(),
            ..problem
        };
        let stencil = match problem.stencil() {
            Ok(stencil) => Some(stencil),
            Err(_) if is_closed(&problem) => None,
            Err(error) => return Err(error),
        };
        let (means, porosity) = means_and_porosity(&problem);
        // The memory of κ is freed before the search takes its own.
        let DiffusionProblem { shape, spacing, coefficient, .. } = problem;
        drop(coefficient);
        let open = stencil.map(|stencil| {
            let found = stencil.components(&Host).map(|found| found.all);
            Open { components: found.unwrap_or_else(|| AggregateMap::whole(shape)), stencil }
        });
        Ok(Self { shape, spacing, open, means, porosity, conducting: None })
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the part of the volume whose cells are open.
    pub fn porosity(&self) -> f64 {
        self.porosity
    }

    /// Finds the effective conductivity along an axis by one solve, with u = 1 on its lower and u = 0 on its upper side and no
    /// flow through the others, on the cells that are connected to both. `solution`, where it is given, receives u in C order, 0 in all
    /// other cells; it is not written where nothing is connected.
    ///
    /// The flows and the energy follow from sums over the cells, r = b − A u being the residual and h the transmissibilities of the upper
    /// side: Q_out = Σ h u, Q_in = Q_out + Σ r, 2E = Q_in − ⟨r, u⟩.
    ///
    /// # Errors
    /// See [`SolverBuilder::build`](crate::SolverBuilder::build) and [`Solver::solve`].
    pub fn along(
        &mut self,
        axis: Axis,
        device: &Device,
        options: &SolverOptions,
        solution: Option<&mut [f64]>,
        observer: &mut Observer<'_>,
    ) -> Result<Effective> {
        let [arithmetic, inverse] = self.means[axis as usize];
        let mut found = Effective {
            axis,
            conductivity: 0.0,
            tortuosity: f64::INFINITY,
            porosity: self.porosity,
            connected: 0.0,
            bounds: [inverse.recip(), arithmetic],
            imbalance: 0.0,
            outcome: None,
        };
        let Some((stencil, volume, rhs)) = device.enter(|| self.system(axis)) else { return Ok(found) };
        found.connected = volume / self.porosity;
        let mut solver = Solver::builder(&stencil).device(device).options(options).build()?;
        let u = solution.map_or(Ok(Target::Nothing(self.shape)), |u| u.target(self.shape))?;
        found.outcome = Some(solver.solve_observed(&rhs, u, Guess::Zero, observer)?);
        let Balance { outflow, excess, work } = solver.balance()?;
        let inflow = outflow + excess;
        let Shape { nx, ny, nz } = self.shape;
        let extent = [0, 1, 2].map(|d: usize| self.spacing[d].extent([nx, ny, nz][d]));
        let length = extent[axis as usize];
        // Twice the energy is Q times the difference, which is 1; the cross-section is volume over length.
        found.conductivity = (inflow - work) * length * length / extent.iter().product::<f64>();
        found.tortuosity = arithmetic / found.conductivity;
        found.imbalance = excess.abs() / inflow.abs().max(outflow.abs());
        Ok(found)
    }

    /// Returns the matrix of the cells that are connected to both sides of an axis, with u = 1 on the lower one and u = 0 on the
    /// upper one, their part of the volume, and the right-hand side; nothing where there are none.
    fn system(&mut self, axis: Axis) -> Option<(Diffusion, f64, Vec<f64>)> {
        let Self { shape, spacing, open, porosity, conducting, .. } = self;
        let Open { stencil, components } = open.as_ref()?;
        let which = through(stencil, components, axis);
        if !which.contains(&true) {
            return None;
        }
        let Conducting { stencil, volume, .. } = match conducting {
            Some(known) if known.which == which => known,
            none => {
                // Two of them would take memory.
                *none = None;
                let stencil = stencil.restricted(components, &which, &Host);
                let is_part = |n: usize| components.aggregate(n).is_some_and(|component| which[component]);
                let [volume] = match which.contains(&false) {
                    true => means(*shape, spacing, |n| [f64::from(u8::from(is_part(n)))]),
                    false => [*porosity],
                };
                none.insert(Conducting { which, volume, stencil })
            }
        };
        let stencil = stencil.between_sides(axis, &Host);
        let rhs = driven(&stencil, *shape, axis);
        Some((stencil, *volume, rhs))
    }
}

/// Returns whether each component connects both sides of an axis.
fn through(stencil: &Diffusion, components: &AggregateMap, axis: Axis) -> Vec<bool> {
    if components.is_whole() {
        return vec![true];
    }
    let d = axis as usize;
    let last = components.shape().extents()[d] - 1;
    let Shape { nx, ny, nz } = components.shape().faces_on_side(axis);
    let [first, second] = [0, last].map(|place| {
        let reached: Vec<AtomicBool> = (0..components.count()).map(|_| AtomicBool::new(false)).collect();
        Host.for_each(&mut vec![(); ny * nz], |row, ()| {
            for i in 0..nx {
                let mut at = [i, row % ny, row / ny];
                at[d] = place;
                let component = components.aggregate(stencil.cell(at)).filter(|_| stencil.half(axis, at) > 0.0);
                if let Some(reached) = component.map(|component| &reached[component])
                    && !reached.load(Relaxed)
                {
                    reached.store(true, Relaxed);
                }
            }
        });
        reached
    });
    first.into_iter().zip(second).map(|(first, second)| first.into_inner() && second.into_inner()).collect()
}

/// Returns the right-hand side of u = 1 on the lower side of an axis: h in the cells there, 0 in all others.
fn driven(stencil: &Diffusion, shape: Shape, axis: Axis) -> Vec<f64> {
    let mut rhs = vec![0.0; shape.cells()];
    prefer_large_pages(&rhs);
    // Pages of zeros that are not touched take no time.
    for_each_row(&Host, &mut rhs, shape.nx, |row, values| {
        let (j, k) = (row % shape.ny, row / shape.ny);
        let count = [1, if j == 0 { shape.nx } else { 0 }, if k == 0 { shape.nx } else { 0 }][axis as usize];
        values[..count].iter_mut().enumerate().for_each(|(i, value)| *value = stencil.half(axis, [i, j, k]));
    });
    rhs
}

/// Returns whether the mask leaves a cell open.
fn is_active(problem: &DiffusionProblem, n: usize) -> bool {
    problem.active.as_ref().is_none_or(|active| active[n])
}

/// Returns whether all cells of a problem are closed; its arrays have the right lengths.
fn is_closed(problem: &DiffusionProblem) -> bool {
    let cells = problem.shape.cells();
    let has = |length: usize| length == cells;
    has(problem.active.as_ref().map_or(cells, Vec::len))
        && Axis::ALL.iter().all(|&axis| has(problem.coefficient.along(axis).len()))
        && cells > 0
        && (0..cells)
            .all(|n| !is_active(problem, n) || Axis::ALL.iter().all(|&axis| problem.coefficient.along(axis)[n] == 0.0))
}

/// Returns the volume means of κ and of 1/κ along each axis, and the part of the volume whose cells are open.
fn means_and_porosity(problem: &DiffusionProblem) -> ([[f64; 2]; 3], f64) {
    let along = Axis::ALL.map(|axis| problem.coefficient.along(axis));
    let number = |is_active: bool, kappa: f64| if is_active { kappa } else { 0.0 };
    if let Coefficient::Isotropic(kappa) = &problem.coefficient {
        let [arithmetic, inverse, open] = means(problem.shape, &problem.spacing, |n| {
            let kappa = number(is_active(problem, n), kappa[n]);
            [kappa, kappa.recip(), f64::from(u8::from(kappa > 0.0))]
        });
        return ([[arithmetic, inverse]; 3], open);
    }
    let [x, y, z, x_inverse, y_inverse, z_inverse, open] = means(problem.shape, &problem.spacing, |n| {
        let is_active = is_active(problem, n);
        let [x, y, z] = along.map(|kappa| number(is_active, kappa[n]));
        [x, y, z, x.recip(), y.recip(), z.recip(), f64::from(u8::from(x.max(y).max(z) > 0.0))]
    });
    ([[x, x_inverse], [y, y_inverse], [z, z_inverse]], open)
}

/// Returns the volume means of the numbers `value` gives for every cell.
fn means<const N: usize>(
    Shape { nx, ny, nz }: Shape,
    [in_x, in_y, in_z]: &[Spacing; 3],
    value: impl Fn(usize) -> [f64; N] + Sync,
) -> [f64; N] {
    let mut rows = vec![(0.0, [0.0; N]); ny * nz];
    Host.for_each(&mut rows, |row, (total, sums)| {
        let area = in_y.width(row % ny) * in_z.width(row / ny);
        for i in 0..nx {
            let volume = area * in_x.width(i);
            *total += volume;
            sums.iter_mut().zip(value(i + nx * row)).for_each(|(sum, value)| *sum += volume * value);
        }
    });
    // Both sums have one order, so that the mean of 1 is 1.
    let volume: f64 = rows.iter().map(|(total, _)| total).sum();
    std::array::from_fn(|n| rows.iter().map(|(_, sums)| sums[n]).sum::<f64>() / volume)
}

#[cfg(test)]
mod tests;
