//! Effective conductivities of a sample of cells, such as the image of a porous rock.

mod means;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use isobar_core::build::Balance;
use isobar_core::execute::for_each_row;
use isobar_core::large_pages::prefer_large_pages;
use isobar_core::prelude::{
    AggregateMap, Axis, Boundary, Coefficient, Diffusion, DiffusionProblem, Execute, Guess, Host, Method, Norm,
    Observer, Outcome, Preconditioner, Result, Shape, SolverOptions, Spacing, Stencil, Stop, Target,
};
use isobar_core::problem::Phases;
use isobar_cuda::Cuda;
use isobar_cuda::problem::{DeviceField, DeviceProblem};

use crate::arrays::Output;
use crate::device::Device;
use crate::solver::Solver;
use means::{is_closed, means, means_and_porosity};

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
    /// The open cells; nothing if no cell is open.
    open: Option<Open>,
    /// The means of κ and of 1/κ along x, y and z.
    means: [[f64; 2]; 3],
    porosity: f64,
    /// The components of the last solve. Those of other axes are usually the same.
    conducting: Option<Conducting>,
}

/// The open cells, and their connected components.
#[derive(Clone, Debug)]
struct Open {
    cells: Cells,
    components: AggregateMap,
}

/// κ of all cells, with closed sides.
#[derive(Clone, Debug)]
enum Cells {
    Matrix(Box<Diffusion>),
    Phases(Arc<Phases>),
}

/// The components that connect two sides.
#[derive(Clone, Debug)]
struct Conducting {
    /// Whether each component connects the sides.
    which: Vec<bool>,
    /// The components' fraction of the volume.
    volume: f64,
    /// The components' matrix, whose sides are closed.
    stencil: Diffusion,
    /// The components' problem, if κ is in the memory of a GPU.
    on_gpu: Option<DeviceProblem>,
}

/// The factor by which estimates of the error of an energy are raised: modes that converge last are not seen from the beginning.
const CAUTION: f64 = 20.0;
/// The name of direct solves.
const DIRECT: &str = "direct";
/// The imbalance of in- and outflow above which the energy is wrong too.
const MOST_IMBALANCE: f64 = 0.5;
/// The largest and the smallest tolerance of a solve: estimates of the error after a few iterations are too small.
const TOLERANCES: [f64; 2] = [1e-3, 1e-15];

/// The fraction of the largest coefficient below which others are lost to rounding in the rows of the matrix.
const LOST: f64 = 1e-13;
const LOST_CONDUCTORS: &str = "the conductivity may be wrong: coefficients differ by more than 10\u{b9}\u{b3}, and rounding loses the \
    potential of conductors that touch neither side; lower the largest coefficient to 1e12 times the smallest, which changes the result by less than 1e-11, \
    or let the smallest be 0";

/// A right-hand side in host memory, or in that of a GPU.
enum Driven {
    Host(Vec<f64>),
    Device(DeviceField),
}

/// The effective properties of a sample along one axis.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The axis.
    pub axis: Axis,
    /// k of Q = k A Δu / L, with A the cross-section and L the length of the sample, computed from the energy of the solution,
    /// whose error is the square of the solution's. It is 0 if no path leads from one side to the other.
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
    /// The outcome of the solve; nothing if none was needed.
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
            Open {
                components: found.unwrap_or_else(|| AggregateMap::whole(shape)),
                cells: Cells::Matrix(Box::new(stencil)),
            }
        });
        Ok(Self { shape, spacing, open, means, porosity, conducting: None })
    }

    /// Takes the phases of an image and the widths of cells. On one GPU, κ is then copied as one byte a cell, once for all axes.
    ///
    /// # Errors
    /// See [`DiffusionProblem::validate`]; but all cells may be closed.
    pub fn of_phases(phases: Phases, spacing: [Spacing; 3]) -> Result<Self> {
        let shape = phases.shape();
        let is_uniform = spacing.iter().all(|spacing| matches!(spacing, Spacing::Uniform(_)));
        let form = form(shape, spacing);
        if !is_uniform || shape.cells() == 0 {
            return Self::new(DiffusionProblem { coefficient: Coefficient::Isotropic(phases.coefficients()), ..form });
        }
        form.check_form()?;
        let mean = |of: fn(f64) -> f64| phases.sum(of) / shape.cells() as f64;
        let porosity = mean(|kappa| f64::from(u8::from(kappa > 0.0)));
        let means = [[mean(|kappa| kappa), mean(f64::recip)]; 3];
        let open = (phases.spread().most > 0.0).then(|| {
            let components = phases.components(&Host);
            Open { cells: Cells::Phases(Arc::new(phases)), components }
        });
        Ok(Self { shape, spacing: form.spacing, open, means, porosity, conducting: None })
    }

    /// Returns the options of [`Sample::along`] for a tolerance: mazes of narrow pores take thousands of iterations.
    pub fn options(tolerance: f64) -> SolverOptions {
        SolverOptions { tolerance, norm: Norm::Rhs, max_iterations: 20_000, ..SolverOptions::default() }
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
    /// flow through the others, on the cells that are connected to both. `solution`, if it is given, receives u in C order, 0 in all other
    /// cells; it is not written if nothing is connected.
    ///
    /// The flows and the energy follow from sums over the cells, with r = b − A u the residual and h the transmissibilities of the upper
    /// side: Q_out = Σ h u, Q_in = Q_out + Σ r, 2E = Q_in − ⟨r, u⟩.
    ///
    /// # Errors
    /// See [`SolverBuilder::build`](crate::SolverBuilder::build) and [`Solver::solve`].
    pub fn along(
        &mut self,
        axis: Axis,
        device: &Device,
        options: &SolverOptions,
        mut solution: Option<&mut [f64]>,
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
        let Some((stencil, volume)) = device.enter(|| self.matrix(axis, device))? else { return Ok(found) };
        found.connected = volume / self.porosity;
        let [largest, least] = TOLERANCES;
        let wanted = options.tolerance;
        let mut options = SolverOptions { tolerance: wanted.min(largest), ..options.clone() };
        if volume < 1.0 && options.method == Method::Auto && options.preconditioner == Preconditioner::Auto {
            // Beside closed cells the nearest box leaves no estimate of the error, and is not tried where the method is given.
            options.method = Method::Cg;
        }
        let mut solver = Solver::builder(&stencil).device(device).options(&options).build()?;
        // After the setup, which takes more memory for a while.
        let rhs = device.enter(|| self.rhs(axis, &stencil))?;
        let mut solve = |solver: &mut Solver, u: Target<'_>| match &rhs {
            Driven::Host(rhs) => solver.solve_observed(rhs, u, Guess::Zero, observer),
            Driven::Device(rhs) => solver.solve_observed(rhs.array(), u, Guess::Zero, observer),
        };
        let (mut tolerance, mut iterations) = (options.tolerance, 0);
        let (Balance { outflow, excess, work }, inflow) = loop {
            // Direct solves between arrays leave nothing to sum.
            let wanted_now = solution.as_deref_mut().filter(|_| solver.description().method != DIRECT);
            let u = wanted_now.map_or(Ok(Target::Nothing(self.shape)), |u| u.target(self.shape))?;
            let mut outcome = solve(&mut solver, u)?;
            let balance = solver.balance()?;
            let inflow = balance.outflow + balance.excess;
            // If little flows, b is large compared with all flows, and so is a residual that is small compared with b.
            // Multigrid is strong: without an estimate, nothing was left to estimate it from.
            let description = solver.description();
            let is_strong = matches!(description.preconditioner.as_str(), "multigrid" | "amg");
            let is_weak = description.method.contains("cg") && !is_strong;
            let unknown = if is_weak { f64::INFINITY } else { 0.0 };
            let error = outcome.energy_error.map_or(unknown, |e| CAUTION * e / (inflow - balance.work).abs());
            // The error of the flow is far larger than that of the energy; as large as this it is that of both.
            let imbalance = balance.excess.abs() / inflow.abs().max(balance.outflow.abs());
            let error = if imbalance > MOST_IMBALANCE { error.max(imbalance) } else { error };
            iterations += outcome.iterations;
            if error.is_infinite() && outcome.converged() && is_weak {
                // Conjugate gradients may end before they find the error of a region that hardly couples to others, unless M is strong.
                (options.method, options.preconditioner) = (Method::Cg, Preconditioner::Multigrid);
                solver = Solver::builder(&stencil).device(device).options(&options).build()?;
                continue;
            }
            if error <= wanted || !outcome.converged() || tolerance <= least {
                let doubts = || device.enter(|| doubt(&stencil, axis, error, wanted));
                if let Some(doubt) = if outcome.converged() { doubts() } else { None } {
                    (outcome.stop, outcome.advice) = (Stop::Stagnated, Some(doubt));
                } else {
                    outcome.advice = outcome.advice.map(|advice| advice.replace("solver.tolerance", "the tolerance"));
                }
                outcome.iterations = iterations;
                found.outcome = Some(outcome);
                break (balance, inflow);
            }
            tolerance = (tolerance * (0.1 * wanted / error).sqrt().clamp(1e-6, 0.1)).max(least);
            solver.set_tolerance(tolerance)?;
        };
        if let Some(u) = solution.filter(|_| solver.description().method == DIRECT) {
            let _ = solve(&mut solver, u.target(self.shape)?)?;
        }
        let Shape { nx, ny, nz } = self.shape;
        let extent = [0, 1, 2].map(|d: usize| self.spacing[d].extent([nx, ny, nz][d]));
        let length = extent[axis as usize];
        // Twice the energy is Q times the difference, which is 1; the cross-section is volume over length.
        let conductivity = (inflow - work) * length * length / extent.iter().product::<f64>();
        // The energy of any u is too large.
        found.conductivity = conductivity.min(arithmetic);
        found.tortuosity = arithmetic / found.conductivity;
        found.imbalance = excess.abs() / inflow.abs().max(outflow.abs());
        Ok(found)
    }

    /// Returns the matrix of the cells that are connected to both sides of an axis, with fixed values on them, and their fraction of the
    /// volume; nothing if there are none.
    fn matrix(&mut self, axis: Axis, device: &Device) -> Result<Option<(Diffusion, f64)>> {
        let Self { shape, spacing, open, porosity, conducting, .. } = self;
        let Some(open) = open else { return Ok(None) };
        let which = open.through(axis);
        if !which.contains(&true) {
            return Ok(None);
        }
        let gpu = device.gpu().filter(|_| matches!(open.cells, Cells::Phases(_))).map(Cuda::ordinal);
        let is_current =
            |known: &Conducting| known.which == which && known.on_gpu.as_ref().map(DeviceProblem::ordinal) == gpu;
        let Conducting { stencil, volume, .. } = match conducting {
            Some(known) if is_current(known) => known,
            none => {
                // Two problems would need twice the memory.
                *none = None;
                let volume = match which.contains(&false) {
                    true => open.volume(&which, spacing),
                    false => *porosity,
                };
                let (stencil, on_gpu) = open.restricted(&which, form(*shape, spacing.clone()), device)?;
                none.insert(Conducting { which, volume, stencil, on_gpu })
            }
        };
        Ok(Some((stencil.between_sides(axis, &Host), *volume)))
    }

    /// Makes the right-hand side of u = 1 on the lower side of an axis and u = 0 on the upper one, where the coefficients of its matrix are.
    fn rhs(&self, axis: Axis, stencil: &Diffusion) -> Result<Driven> {
        match self.conducting.as_ref().and_then(|conducting| conducting.on_gpu.as_ref()) {
            Some(problem) => driven_on_gpu(problem, stencil, axis).map(Driven::Device),
            None => Ok(Driven::Host(driven(stencil, self.shape, axis))),
        }
    }
}

impl Open {
    /// Returns whether each component connects both sides of an axis.
    fn through(&self, axis: Axis) -> Vec<bool> {
        let [first, second] = self.reaching(axis);
        first.into_iter().zip(second).map(|(first, second)| first && second).collect()
    }

    /// Returns whether each component reaches the lower side of an axis, and whether it reaches the upper one.
    fn reaching(&self, axis: Axis) -> [Vec<bool>; 2] {
        let Self { cells, components } = self;
        if components.is_whole() {
            return [vec![true], vec![true]];
        }
        let (d, shape) = (axis as usize, components.shape());
        let last = shape.extents()[d] - 1;
        let is_open = |at| match cells {
            Cells::Matrix(stencil) => stencil.half(axis, at) > 0.0,
            // All cells that belong to components of phases are open.
            Cells::Phases(_) => true,
        };
        let Shape { nx, ny, nz } = shape.faces_on_side(axis);
        [0, last].map(|place| {
            let reached: Vec<AtomicBool> = (0..components.count()).map(|_| AtomicBool::new(false)).collect();
            Host.for_each(&mut vec![(); ny * nz], |row, ()| {
                for i in 0..nx {
                    let mut at = [i, row % ny, row / ny];
                    at[d] = place;
                    let cell = at[0] + shape.nx * (at[1] + shape.ny * at[2]);
                    let component = components.aggregate(cell).filter(|_| is_open(at));
                    if let Some(reached) = component.map(|component| &reached[component])
                        && !reached.load(Relaxed)
                    {
                        reached.store(true, Relaxed);
                    }
                }
            });
            reached.into_iter().map(AtomicBool::into_inner).collect()
        })
    }

    /// Returns the part of the volume that some components have.
    fn volume(&self, which: &[bool], spacing: &[Spacing; 3]) -> f64 {
        let Self { cells, components } = self;
        if let Cells::Phases(phases) = cells {
            let sizes = components.sizes().into_iter().zip(which).filter(|(_, is_part)| **is_part);
            return sizes.map(|(size, _)| size).sum::<usize>() as f64 / phases.shape().cells() as f64;
        }
        let is_part = |n: usize| components.aggregate(n).is_some_and(|component| which[component]);
        let [volume] = means(components.shape(), spacing, |n| [f64::from(u8::from(is_part(n)))]);
        volume
    }

    /// Makes the matrix of some components, with closed sides; and their problem, where its κ is in the memory of a GPU.
    fn restricted(
        &self,
        which: &[bool],
        form: DiffusionProblem,
        device: &Device,
    ) -> Result<(Diffusion, Option<DeviceProblem>)> {
        let Self { cells, components } = self;
        let phases = match cells {
            Cells::Matrix(stencil) => return Ok((stencil.restricted(components, which, &Host), None)),
            Cells::Phases(phases) if !which.contains(&false) => Arc::clone(phases),
            Cells::Phases(phases) => Arc::new(phases.restricted(components, which, &Host)),
        };
        let components = components.of_kept(which, &Host);
        let Some(gpu) = device.gpu() else {
            let factors = form.matrix_fields([0; 3]).1.map(|(_, factor)| factor);
            return Ok((phases.matrix(factors, &Host)?.with_components(&components), None));
        };
        let problem = DeviceProblem::of_phases(gpu, form, &phases)?;
        let stencil = problem.stencil()?.with_known(Arc::new(move |n| phases.of_cell(n)));
        Ok((stencil.with_components(&components), Some(problem)))
    }
}

/// Returns why the conductivity of a converged solve is in doubt, whose estimated relative error this is; nothing if it is not.
fn doubt(stencil: &Diffusion, axis: Axis, error: f64, tolerance: f64) -> Option<String> {
    if stencil.error_floor(None).is_none() && has_lost_conductors(stencil, axis) {
        return Some(LOST_CONDUCTORS.to_owned());
    }
    (error > tolerance).then(|| {
        format!("the conductivity may be wrong by {error:.0e} of itself: coefficients beside the sides are too large beside it")
    })
}

/// Returns whether some conductors reach neither side of an axis and none connects both: rounding may then lose a potential on which the
/// result depends. Conductors are the cells whose coefficients are not below [`LOST`] times the largest.
fn has_lost_conductors(stencil: &Diffusion, axis: Axis) -> bool {
    let shape = stencil.shape();
    let largest_of = |at| Axis::ALL.iter().map(|&axis| stencil.half(axis, at)).fold(0.0, f64::max);
    let mut kappa: Vec<f64> = shape.places().map(largest_of).collect();
    let largest = kappa.iter().copied().fold(0.0, f64::max);
    kappa.iter_mut().for_each(|kappa| *kappa = f64::from(u8::from(*kappa > LOST * largest)));
    let Ok(conductors) = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa)).stencil() else { return false };
    let components = conductors.components(&Host).map_or_else(|| AggregateMap::whole(shape), |found| found.all);
    let [first, second] = Open { cells: Cells::Matrix(Box::new(conductors)), components }.reaching(axis);
    let reach = || first.iter().zip(&second);
    reach().any(|(first, second)| !first && !second) && !reach().any(|(first, second)| *first && *second)
}

/// Returns a problem without coefficients, with closed sides.
fn form(shape: Shape, spacing: [Spacing; 3]) -> DiffusionProblem {
    DiffusionProblem { spacing, ..DiffusionProblem::new(shape, Coefficient::Isotropic(Vec::new())) }
}

/// Computes [`driven`] on a GPU, in single precision where that represents each h.
fn driven_on_gpu(problem: &DeviceProblem, stencil: &Diffusion, axis: Axis) -> Result<DeviceField> {
    let mut boundary = [[Boundary::Neumann(0.0); 2]; 3];
    boundary[axis as usize] = [1.0, 0.0].map(Boundary::Dirichlet);
    let Shape { nx, ny, nz } = stencil.shape().faces_on_side(axis);
    let is_single = |row: usize| {
        (0..nx).all(|i| {
            let h = stencil.half(axis, [i, row % ny, row / ny]);
            f64::from(h as f32) == h
        })
    };
    problem.with_sides(boundary)?.new_rhs((0..ny * nz).all(is_single))
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

#[cfg(test)]
mod tests;
