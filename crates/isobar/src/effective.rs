//! Effective conductivities of a sample of cells, such as the image of a porous rock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use isobar_core::backend::AggregateMap;
use isobar_core::error::{Error, Result};
use isobar_core::execute::{Execute, Host, for_each_row, prefer_large_pages};
use isobar_core::layout::Shape;
use isobar_core::operator::Guess;
use isobar_core::options::SolverOptions;
use isobar_core::outcome::Outcome;
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, Flow, Spacing};
use isobar_core::solver::Observer;
use isobar_core::stencil::{Axis, Diffusion};

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
/// let [along, across] = [Axis::X, Axis::Y].map(|axis| sample.along(axis, &device, &options, &mut ignore));
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
    /// The solution, 1 on the lower and 0 on the upper side, in C order; empty where there was no solve. 0 in cells that are not
    /// connected to both sides.
    pub solution: Vec<f64>,
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
    /// flow through the others, on the cells that are connected to both.
    ///
    /// # Errors
    /// See [`SolverBuilder::build`](crate::SolverBuilder::build) and [`Solver::solve`].
    pub fn along(
        &mut self,
        axis: Axis,
        device: &Device,
        options: &SolverOptions,
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
            solution: Vec::new(),
        };
        let Some((stencil, volume, rhs)) = device.enter(|| self.system(axis)) else { return Ok(found) };
        found.connected = volume / self.porosity;
        let mut solver = Solver::builder(&stencil).device(device).options(options).build()?;
        found.solution = vec![0.0; rhs.len()];
        prefer_large_pages(&found.solution);
        found.outcome = Some(solver.solve_observed(&rhs, &mut found.solution, Guess::Zero, observer)?);
        drop((solver, rhs));
        let (u, side_fields) = (&found.solution, Default::default());
        let mut boundary = [[Boundary::Neumann(0.0); 2]; 3];
        boundary[axis as usize] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
        let flow = Flow { stencil: &stencil, spacing: &self.spacing, boundary: &boundary, side_fields: &side_fields };
        let (inflow, outflow, energy) = device.enter(|| {
            Ok::<_, Error>((-flow.through(u, axis, false)?, flow.through(u, axis, true)?, flow.energy(u)?))
        })?;
        let Shape { nx, ny, nz } = self.shape;
        let extent = [0, 1, 2].map(|d: usize| self.spacing[d].extent([nx, ny, nz][d]));
        let length = extent[axis as usize];
        // Twice the energy is Q times the difference, which is 1; the cross-section is volume over length.
        found.conductivity = 2.0 * energy * length * length / extent.iter().product::<f64>();
        found.tortuosity = arithmetic / found.conductivity;
        found.imbalance = (inflow - outflow).abs() / inflow.abs().max(outflow.abs());
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
mod tests {
    use isobar_core::problem::random;
    use isobar_core::solver::ignore;

    use super::*;

    fn options(tolerance: f64) -> SolverOptions {
        SolverOptions { tolerance, ..SolverOptions::default() }
    }

    fn sample(shape: Shape, kappa: Vec<f64>) -> Sample {
        Sample::new(DiffusionProblem::new(shape, Coefficient::Isotropic(kappa))).unwrap()
    }

    #[track_caller]
    fn along(sample: &mut Sample, axis: Axis) -> Effective {
        let device = Device::cpu_with_threads(2).unwrap();
        sample.along(axis, &device, &options(1e-12), &mut ignore).unwrap()
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance * expected.abs(), "{found}, not {expected}");
    }

    #[test]
    fn laminates_are_in_series_and_in_parallel() {
        let shape = Shape::new(5, 6, 7);
        let layers = [1.0, 4.0, 0.5, 1.0, 8.0, 2.0, 0.25];
        let kappa = (0..shape.cells()).map(|n| layers[n / 30]).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.spacing[2] = Spacing::Given(vec![1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0]);
        let widths = [1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0];
        let parallel = layers.iter().zip(widths).map(|(k, w)| k * w).sum::<f64>() / 9.5;
        let series = 9.5 / layers.iter().zip(widths).map(|(k, w)| w / k).sum::<f64>();
        let mut sample = Sample::new(problem).unwrap();
        for (axis, expected) in [(Axis::X, parallel), (Axis::Y, parallel), (Axis::Z, series)] {
            let found = along(&mut sample, axis);
            assert_near(found.conductivity, expected, 1e-9);
            assert_near(found.bounds[0], series, 1e-12);
            assert_near(found.bounds[1], parallel, 1e-12);
            assert_near(found.tortuosity, parallel / expected, 1e-9);
            assert_eq!((found.porosity, found.connected), (1.0, 1.0));
            assert!(found.imbalance < 1e-9 && found.outcome.unwrap().converged());
        }
    }

    /// A checkerboard conducts √(κ₁ κ₂) (Keller, 1964); cells at its corners see that slowly.
    #[test]
    fn checkerboards_tend_to_the_geometric_mean() {
        let mut errors = Vec::new();
        for cells in [8, 16, 32] {
            let n = 2 * cells;
            let kappa = (0..n * n).map(|m| if (m % n / cells + m / n / cells) % 2 == 0 { 4.0 } else { 1.0 }).collect();
            let mut sample = sample(Shape::new(n, n, 1), kappa);
            let [x, y] = [Axis::X, Axis::Y].map(|axis| along(&mut sample, axis));
            assert_near(x.conductivity, y.conductivity, 1e-9);
            errors.push((x.conductivity / 2.0 - 1.0).abs());
            assert!(x.bounds[0] < x.conductivity && x.conductivity < x.bounds[1]);
        }
        assert!(errors[2] < 0.01 && errors.is_sorted_by(|a, b| 1.5 * b < *a), "{errors:?}");
    }

    /// Pores that lead nowhere are left out, and change nothing.
    #[test]
    fn dead_ends_and_islands_do_not_count_as_connected() {
        // A channel along x, and cells that only touch one side or none.
        let rows = ["#######", ".......", "#######", "..###..", "###.###"];
        let kappa: Vec<f64> = rows.concat().chars().map(|c| if c == '.' { 2.0 } else { 0.0 }).collect();
        let mut sample = sample(Shape::new(7, 5, 1), kappa);
        let x = along(&mut sample, Axis::X);
        assert_near(x.conductivity, 2.0 / 5.0, 1e-10);
        assert_near(x.porosity, 12.0 / 35.0, 1e-14);
        assert_near(x.connected, 7.0 / 12.0, 1e-14);
        assert_near(x.tortuosity, 12.0 / 7.0, 1e-10);
        assert_eq!(x.bounds[0], 0.0);
        assert!(x.solution[7..14].iter().all(|u| *u > 0.0) && x.solution[14..].iter().all(|u| *u == 0.0));
        let y = along(&mut sample, Axis::Y);
        assert_eq!((y.conductivity, y.connected, y.imbalance), (0.0, 0.0, 0.0));
        assert!(y.tortuosity == f64::INFINITY && y.outcome.is_none() && y.solution.is_empty());
        // The first axis again, after the second.
        assert_eq!(along(&mut sample, Axis::X).conductivity, x.conductivity);
    }

    /// A path of N cells from side to side conducts 1/N of its κ, whatever its turns, and closed pores beside it nothing.
    #[test]
    fn one_winding_path_in_closed_form() {
        let shape = Shape::new(5, 4, 3);
        let mut kappa = vec![0.0; shape.cells()];
        let path = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 2, 0], [1, 2, 1], [2, 2, 1], [3, 2, 1], [3, 2, 2], [4, 2, 2]];
        let islands = [[3, 0, 0], [0, 3, 2], [4, 0, 0]];
        for [i, j, k] in path.into_iter().chain(islands) {
            kappa[i + 5 * (j + 4 * k)] = 3.0;
        }
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.spacing = [1.0; 3].map(Spacing::Uniform);
        // Numbers of sides are ignored.
        problem.side_fields[0][0].value = Some(vec![7.0; 12]);
        let mut sample = Sample::new(problem).unwrap();
        let x = along(&mut sample, Axis::X);
        assert_near(x.conductivity, 3.0 / 9.0 * 5.0 / 12.0, 1e-11);
        assert_near(x.connected, 9.0 / 12.0, 1e-14);
        // The path ends at the upper side of z, which it reaches from the lower one.
        assert_near(along(&mut sample, Axis::Z).connected, 9.0 / 12.0, 1e-14);
        assert_eq!(along(&mut sample, Axis::Y).connected, 0.0);
    }

    /// Several components, of which other ones conduct along each axis: the numbers are those of a problem with the cells of these
    /// alone as its mask, bit for bit.
    #[test]
    fn masks_of_each_axis_give_the_same() {
        for (shape, seed, open) in [(Shape::new(9, 7, 8), 5, 0.45), (Shape::new(13, 12, 1), 6, 0.7)] {
            let kappa: Vec<f64> = (0..shape.cells())
                .map(|n| if random(seed, n).abs() < open { 1.0 + (n % 3) as f64 } else { 0.0 })
                .collect();
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
            problem.spacing = [1.0; 3].map(Spacing::Uniform);
            problem.active = Some((0..shape.cells()).map(|n| n % 17 != 3).collect());
            let mut sample = Sample::new(problem.clone()).unwrap();
            let stencil = problem.stencil().unwrap();
            let all = stencil.components(&Host).unwrap().all;
            for axis in [Axis::X, Axis::Y, Axis::Z, Axis::X] {
                let which = through(&stencil, &all, axis);
                let found = along(&mut sample, axis);
                let mut alone = problem.clone();
                let is_part = |n: usize| all.aggregate(n).is_some_and(|component| which[component]);
                alone.active = Some((0..shape.cells()).map(is_part).collect());
                alone.boundary[axis as usize] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
                let Ok(matrix) = alone.stencil() else {
                    assert_eq!(found.connected, 0.0);
                    continue;
                };
                let rhs = alone.rhs(None, 0, isobar_core::problem::Weighting::None).unwrap();
                let mut u = vec![0.0; rhs.len()];
                let device = Device::cpu_with_threads(2).unwrap();
                let mut solver = Solver::builder(&matrix).device(&device).options(&options(1e-12)).build().unwrap();
                solver.solve_observed(&rhs, &mut u, Guess::Zero, &mut ignore).unwrap();
                assert_eq!(found.solution, u, "{shape} {axis:?}");
                let energy = alone.flow(&matrix).energy(&u).unwrap();
                let [length, size] = [shape.extents()[axis as usize], shape.cells()].map(|n| n as f64);
                assert_eq!(found.conductivity, 2.0 * energy * length * length / size);
            }
        }
    }

    #[test]
    fn a_loose_tolerance_costs_its_square() {
        let shape = Shape::new(24, 20, 6);
        let kappa: Vec<f64> =
            (0..shape.cells()).map(|n| if random(3, n) < -0.5 { 0.0 } else { (2.0 * random(4, n)).exp() }).collect();
        let mut sample = sample(shape, kappa);
        let exact = along(&mut sample, Axis::X);
        let device = Device::cpu_with_threads(1).unwrap();
        let loose = sample.along(Axis::X, &device, &options(1e-3), &mut ignore).unwrap();
        let error = loose.conductivity / exact.conductivity - 1.0;
        // The energy of any other field is larger.
        assert!((-1e-12..1e-4).contains(&error) && exact.imbalance < 1e-9, "{error} {}", loose.imbalance);
    }

    #[test]
    fn odd_samples() {
        for (shape, kappa) in [(Shape::new(1, 1, 1), vec![3.0]), (Shape::new(1, 4, 1), vec![3.0; 4])] {
            for axis in Axis::ALL {
                assert_near(along(&mut sample(shape, kappa.clone()), axis).conductivity, 3.0, 1e-12);
            }
        }
        let found = along(&mut sample(Shape::new(3, 2, 1), vec![0.0; 6]), Axis::Y);
        assert_eq!((found.conductivity, found.porosity, found.connected, found.bounds), (0.0, 0.0, 0.0, [0.0, 0.0]));
        for wrong in [vec![0.0; 5], vec![f64::NAN; 6], vec![-1.0; 6]] {
            let problem = DiffusionProblem::new(Shape::new(3, 2, 1), Coefficient::Isotropic(wrong));
            assert!(Sample::new(problem).is_err());
        }
        // A mask, and a κ of one direction alone.
        let mut problem = DiffusionProblem::new(
            Shape::new(3, 2, 1),
            Coefficient::Diagonal([vec![2.0; 6], vec![0.0; 6], vec![0.0; 6]]),
        );
        problem.active = Some(vec![true, true, true, false, true, true]);
        let mut sample = Sample::new(problem).unwrap();
        let found = along(&mut sample, Axis::X);
        assert_near(found.conductivity, 1.0, 1e-12);
        assert_near(found.connected, 3.0 / 5.0, 1e-14);
        assert_eq!(along(&mut sample, Axis::Y).conductivity, 0.0);
    }
}
