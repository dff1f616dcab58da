//! Effective conductivities of a sample of cells, such as the image of a porous rock.

use isobar_core::backend::AggregateMap;
use isobar_core::error::{Error, Result};
use isobar_core::execute::{Execute, Host, for_each_piece};
use isobar_core::layout::Shape;
use isobar_core::operator::Guess;
use isobar_core::options::SolverOptions;
use isobar_core::outcome::Outcome;
use isobar_core::problem::{Boundary, DiffusionProblem, Flow, Weighting};
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
    problem: DiffusionProblem,
    /// The connected components; nothing where no cell is open.
    components: Option<AggregateMap>,
    porosity: f64,
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
        let boundary = [[Boundary::Neumann(0.0); 2]; 3];
        let problem = DiffusionProblem { boundary, reaction: None, sources: Vec::new(), wells: Vec::new(), ..problem };
        let stencil = match problem.stencil() {
            Ok(stencil) => stencil,
            Err(_) if is_closed(&problem) => return Ok(Self { problem, components: None, porosity: 0.0 }),
            Err(error) => return Err(error),
        };
        let components = stencil.components(&Host).map(|components| components.all);
        drop(stencil);
        let porosity = components.as_ref().map_or(0.0, |components| {
            let all = Through { map: components.clone(), which: vec![true; components.count()] };
            let [open] = means(&problem, |n| [f64::from(u8::from(all.has(n)))]);
            open
        });
        Ok(Self { problem, components, porosity })
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.problem.shape
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
        let through = device.enter(|| self.through(axis));
        let [arithmetic, inverse, connected] = device.enter(|| {
            let kappa = self.problem.coefficient.along(axis);
            means(&self.problem, |n| {
                let kappa = if is_active(&self.problem, n) { kappa[n] } else { 0.0 };
                [kappa, kappa.recip(), f64::from(u8::from(through.as_ref().is_some_and(|through| through.has(n))))]
            })
        });
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
        let Some(through) = through.filter(|_| connected > 0.0) else { return Ok(found) };
        found.connected = connected / self.porosity;
        let mut boundary = self.problem.boundary;
        boundary[axis as usize] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
        let (stencil, rhs) = device.enter(|| self.system(&through, boundary))?;
        drop(through);
        let mut solver = Solver::builder(&stencil).device(device).options(options).build()?;
        found.solution = vec![0.0; rhs.len()];
        found.outcome = Some(solver.solve_observed(&rhs, &mut found.solution, Guess::Zero, observer)?);
        drop((solver, rhs));
        let DiffusionProblem { spacing, side_fields, .. } = &self.problem;
        let flow = Flow { stencil: &stencil, spacing, boundary: &boundary, side_fields };
        let u = &found.solution;
        let (inflow, outflow, energy) = device.enter(|| {
            Ok::<_, Error>((-flow.through(u, axis, false)?, flow.through(u, axis, true)?, flow.energy(u)?))
        })?;
        let extent = self.problem.extent();
        let length = extent[axis as usize];
        // Twice the energy is Q times the difference, which is 1; the cross-section is volume over length.
        found.conductivity = 2.0 * energy * length * length / extent.iter().product::<f64>();
        found.tortuosity = arithmetic / found.conductivity;
        found.imbalance = (inflow - outflow).abs() / inflow.abs().max(outflow.abs());
        Ok(found)
    }

    /// Returns the components that connect both sides of an axis.
    fn through(&self, axis: Axis) -> Option<Through> {
        let components = self.components.as_ref()?;
        let Shape { nx, ny, nz } = self.problem.shape;
        let (d, kappa) = (axis as usize, self.problem.coefficient.along(axis));
        let mut extents = [nx, ny, nz];
        let last = extents[d] - 1;
        extents[d] = 1;
        let [first, second] = [0, last].map(|place| {
            let mut reached = vec![false; components.count()];
            for m in 0..extents.iter().product() {
                let mut at = [m % extents[0], m / extents[0] % extents[1], m / extents[0] / extents[1]];
                at[d] = place;
                let n = at[0] + nx * (at[1] + ny * at[2]);
                if let Some(component) = components.aggregate(n).filter(|_| kappa[n] > 0.0) {
                    reached[component] = true;
                }
            }
            reached
        });
        let which: Vec<bool> = first.into_iter().zip(second).map(|(first, second)| first && second).collect();
        Some(Through { map: components.clone(), which })
    }

    /// Returns the matrix and right-hand side of the conducting cells with these boundary conditions.
    fn system(&mut self, through: &Through, boundary: [[Boundary; 2]; 3]) -> Result<(Diffusion, Vec<f64>)> {
        let closed = std::mem::replace(&mut self.problem.boundary, boundary);
        let open = through.which.contains(&false).then(|| self.problem.active.replace(through.mask()));
        let made = self.problem.checked().and_then(|checked| {
            let rows = 0..self.problem.shape.ny;
            Ok((checked.stencil()?, checked.rhs_in(&rows, None, 0, Weighting::None)?))
        });
        self.problem.boundary = closed;
        if let Some(open) = open {
            self.problem.active = open;
        }
        made
    }
}

/// The cells of some components.
struct Through {
    map: AggregateMap,
    which: Vec<bool>,
}

impl Through {
    fn has(&self, n: usize) -> bool {
        match &*self.which {
            // A component of all cells stores no numbers.
            &[which] if self.map.is_whole() => which,
            which => self.map.aggregate(n).is_some_and(|component| which[component]),
        }
    }

    fn mask(&self) -> Vec<bool> {
        let mut mask = vec![false; self.map.shape().cells()];
        for_each_piece(&Host, &mut mask, |first, piece| {
            piece.iter_mut().zip(first..).for_each(|(has, n)| *has = self.has(n));
        });
        mask
    }
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

/// Returns the volume means of the numbers `value` gives for every cell.
fn means<const N: usize>(problem: &DiffusionProblem, value: impl Fn(usize) -> [f64; N] + Sync) -> [f64; N] {
    let Shape { nx, ny, nz } = problem.shape;
    let mut rows = vec![(0.0, [0.0; N]); ny * nz];
    let [in_x, in_y, in_z] = &problem.spacing;
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
    use isobar_core::problem::{Coefficient, Spacing, random};
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
