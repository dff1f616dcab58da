//! The flow through the faces of cells that follows from a solution.

use super::sides::{face_of, in_series};
use super::{Boundary, DiffusionProblem, SideFields, Spacing};
use crate::execute::rows;
use crate::real::harmonic;
use crate::stencil::{Axis, Coefficients, Diffusion, Stencil};
use crate::{Error, Execute, Host, Result, Shape};

/// A face on a side of the grid; G (g − u) + q flows into its cell, whose value is u.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SideFace {
    /// G
    pub(super) conductance: f64,
    /// g
    pub(super) value: f64,
    /// q
    pub(super) inflow: f64,
}

impl Boundary {
    /// Returns the condition at a face of this side, from the transmissibility 2κA/Δ between the face and the centre of its cell, and the area A.
    /// Matrix, right-hand side and fluxes all use it.
    pub(super) fn face(&self, half: f64, area: f64) -> SideFace {
        match *self {
            Self::Dirichlet(value) => SideFace { conductance: half, value, inflow: 0.0 },
            Self::Neumann(flux) => SideFace { inflow: flux * area, ..SideFace::default() },
            Self::Robin { coefficient, value } => {
                SideFace { conductance: in_series(half, coefficient * area), value, inflow: 0.0 }
            }
            Self::Periodic => SideFace::default(),
        }
    }
}

/// The flow through the faces of a box of cells,
///
/// q = T (u_lower − u_upper),
///
/// for a whole face, not per unit area, and positive in the direction of the axis. T is the transmissibility of the matrix, 0 beside an inactive
/// cell, whatever `u` is there. On a side, q follows from its boundary condition, half a cell from the centre of its cell; across a periodic side
/// the first and the last face are the same.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// The matrix.
    pub stencil: &'a Diffusion,
    /// Widths of cells in x, y and z.
    pub spacing: &'a [Spacing; 3],
    /// Lower and upper side of x, y and z.
    pub boundary: &'a [[Boundary; 2]; 3],
    /// Numbers that differ from face to face on these sides.
    pub side_fields: &'a [[SideFields; 2]; 3],
}

impl DiffusionProblem {
    /// Makes the flow through its faces, given its matrix.
    pub fn flow<'a>(&'a self, stencil: &'a Diffusion) -> Flow<'a> {
        Flow { stencil, spacing: &self.spacing, boundary: &self.boundary, side_fields: &self.side_fields }
    }
}

impl Flow<'_> {
    /// Computes the fluxes through all faces across x, y and z for a solution `u` in C order: arrays of shape (nz, ny, nx + 1), (nz, ny + 1, nx)
    /// and (nz + 1, ny, nx), the faces on the sides included.
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells; [`Error::Unsupported`] for coefficients in the memory of a GPU.
    pub fn faces(&self, u: &[f64]) -> Result<[Vec<f64>; 3]> {
        self.check(u)?;
        Ok(Axis::ALL.map(|axis| {
            let Shape { nx, ny, nz } = self.stencil.shape().faces_across(axis);
            rows(&Host, nx * ny * nz, nx, |row, values| {
                let (j, k) = (row % ny, row / ny);
                values.iter_mut().enumerate().for_each(|(i, value)| *value = self.through_face(u, axis, [i, j, k])[0]);
            })
        }))
    }

    /// Computes the total that flows out of the domain through the lower or the upper side of an axis.
    ///
    /// # Errors
    /// See [`Flow::faces`].
    pub fn through(&self, u: &[f64], axis: Axis, is_upper: bool) -> Result<f64> {
        self.check(u)?;
        let shape = self.stencil.shape();
        let first = if is_upper { shape.extents()[axis as usize] } else { 0 };
        let Shape { nx, ny, nz } = shape.faces_on_side(axis);
        let total = sum(ny * nz, |row| {
            let at = |i| {
                let mut at = [i, row % ny, row / ny];
                at[axis as usize] += first;
                at
            };
            (0..nx).map(|i| self.through_face(u, axis, at(i))[0]).sum()
        });
        Ok(if is_upper { total } else { -total })
    }

    /// Computes the outward totals of all sides that are neither closed nor periodic, by their names.
    ///
    /// # Errors
    /// See [`Flow::faces`].
    pub fn through_sides(&self, u: &[f64]) -> Result<Vec<(&'static str, f64)>> {
        self.open_sides().map(|(axis, n, name)| Ok((name, self.through(u, axis, n == 1)?))).collect()
    }

    /// Returns whether any side is neither closed nor periodic.
    pub fn has_open_sides(&self) -> bool {
        self.open_sides().next().is_some()
    }

    /// Returns the sides that are neither closed nor periodic: axis, 0 for the lower and 1 for the upper, and name.
    fn open_sides(&self) -> impl Iterator<Item = (Axis, usize, &'static str)> {
        let all =
            Axis::ALL.into_iter().zip(SIDES).flat_map(|(axis, [lower, upper])| [(axis, 0, lower), (axis, 1, upper)]);
        all.filter(|&(axis, n, _)| match self.boundary[axis as usize][n] {
            Boundary::Neumann(0.0) => self.side_fields[axis as usize][n].value.is_some(),
            Boundary::Periodic => false,
            _ => true,
        })
    }

    /// Computes ½ Σ T (Δu)² over all faces, with the differences to given values on the sides: ½ ∫ κ |∇u|².
    ///
    /// # Errors
    /// See [`Flow::faces`].
    pub fn energy(&self, u: &[f64]) -> Result<f64> {
        self.check(u)?;
        let Shape { ny, nz, .. } = self.stencil.shape();
        // The faces of each row of cells: in x, below it in y and in z, and above the last row in y and in z.
        let mut rows = vec![[0.0; 5]; ny * nz];
        Host.for_each(&mut rows, |row, sums| {
            let (j, k) = (row % ny, row / ny);
            let of = |axis, j, k| self.twice_energy_of_row(u, axis, [j, k]);
            *sums = [of(Axis::X, j, k), of(Axis::Y, j, k), of(Axis::Z, j, k), 0.0, 0.0];
            if j + 1 == ny {
                sums[3] = of(Axis::Y, ny, k);
            }
            if k + 1 == nz {
                sums[4] = of(Axis::Z, j, nz);
            }
        });
        let cells = |j: usize, k: usize| &rows[j + ny * k];
        let in_y = |j: usize, k: usize| if j < ny { cells(j, k)[1] } else { cells(ny - 1, k)[3] };
        let in_z = |j: usize, k: usize| if k < nz { cells(j, k)[2] } else { cells(j, nz - 1)[4] };
        let x: f64 = rows.iter().map(|sums| sums[0]).sum();
        let y: f64 = (0..nz).flat_map(|k| (0..=ny).map(move |j| (j, k))).map(|(j, k)| in_y(j, k)).sum();
        let z: f64 = (0..=nz).flat_map(|k| (0..ny).map(move |j| (j, k))).map(|(j, k)| in_z(j, k)).sum();
        Ok(0.5 * (x + y + z))
    }

    /// Returns Σ T (Δu)² over a row of faces across an axis.
    fn twice_energy_of_row(&self, u: &[f64], axis: Axis, [j, k]: [usize; 2]) -> f64 {
        let shape = self.stencil.shape();
        let faces = shape.faces_across(axis).nx;
        let (d, n) = (axis as usize, shape.extents()[axis as usize]);
        // The last face across a periodic side is the first.
        let is_counted = |at: &[usize; 3]| !(self.stencil.is_periodic(axis) && at[d] == 0);
        let of_face = |i: usize| Some([i, j, k]).filter(is_counted).map(|at| self.through_face(u, axis, at));
        let plain = |i: usize| of_face(i).map_or(0.0, |[flow, difference]| flow * difference);
        let Coefficients::Cells { fields, axes } = self.stencil.coefficients() else {
            return (0..faces).map(plain).sum();
        };
        let (inside, step) = match axis {
            Axis::X => (1..n, 1),
            Axis::Y => (if (1..n).contains(&j) { 0..faces } else { 0..0 }, shape.nx),
            Axis::Z => (if (1..n).contains(&k) { 0..faces } else { 0..0 }, shape.nx * shape.ny),
        };
        let mut sum: f64 = (0..inside.start).map(plain).sum();
        if !inside.is_empty() {
            let (field, factor) = axes[d];
            let (first, count) = (self.stencil.cell([inside.start, j, k]), inside.len());
            let [upper, lower] =
                [first, first - step].map(|start| (&fields[field][start..][..count], &u[start..][..count]));
            sum += twice_energy(factor, lower, upper);
        }
        sum + (inside.end.max(inside.start)..faces).map(plain).sum::<f64>()
    }

    fn check(&self, u: &[f64]) -> Result<()> {
        let shape = self.stencil.shape();
        self.stencil.require_host()?;
        if u.len() == shape.cells() {
            return Ok(());
        }
        Err(Error::shape("the solution", format!("{} cells", u.len()), format!("{} = {shape}", shape.cells())))
    }

    /// Returns q and Δu, the difference of values that drives it (0 for a given flux).
    #[inline(always)]
    fn through_face(&self, u: &[f64], axis: Axis, at: [usize; 3]) -> [f64; 2] {
        let (d, shape) = (axis as usize, self.stencil.shape());
        let n = shape.extents()[d];
        let value = |at| u[self.stencil.cell(at)];
        let (mut lower, mut upper) = (at, at);
        if (at[d] > 0 && at[d] < n) || self.stencil.is_periodic(axis) {
            lower[d] = (at[d] + n - 1) % n;
            upper[d] = at[d] % n;
            let t = self.stencil.face(axis, lower);
            // If nothing flows, u may have any value, even NaN.
            if t == 0.0 {
                return [0.0; 2];
            }
            let difference = value(lower) - value(upper);
            return [t * difference, difference];
        }
        let is_upper = at[d] == n;
        let inner = if is_upper { at[d] - 1 } else { 0 };
        lower[d] = inner;
        if !self.stencil.is_active(lower) {
            return [0.0; 2];
        }
        let area = (0..3).filter(|&e| e != d).map(|e| self.spacing[e].width(at[e])).product();
        let end = usize::from(is_upper);
        let side = self.side_fields[d][end].at(self.boundary[d][end], face_of(shape, axis, lower));
        let side = side.face(self.stencil.half(axis, lower), area);
        let difference = if side.conductance > 0.0 { side.value - value(lower) } else { 0.0 };
        let inward = side.conductance * difference + side.inflow;
        if is_upper { [-inward, -difference] } else { [inward, difference] }
    }
}

/// Returns Σ T (Δu)² over faces, from the coefficients and the u of the cells below and above them. Every face whose number has the
/// same remainder belongs to the same partial sum, so that the compiler has vectors of them.
fn twice_energy(factor: f64, lower: (&[f64], &[f64]), upper: (&[f64], &[f64])) -> f64 {
    const LANES: usize = 8;
    let of = |a: f64, from: f64, b: f64, to: f64| {
        let (t, difference) = (harmonic(factor * a, factor * b), from - to);
        // If nothing flows, u may have any value, even NaN.
        if t > 0.0 { t * difference * difference } else { 0.0 }
    };
    let [kappa_below, below, kappa_above, above] =
        [lower.0, lower.1, upper.0, upper.1].map(|row| row.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    let first = kappa_below.0.iter().zip(below.0).zip(kappa_above.0.iter().zip(above.0));
    for ((kappa_below, below), (kappa_above, above)) in first {
        for lane in 0..LANES {
            sums[lane] += of(kappa_below[lane], below[lane], kappa_above[lane], above[lane]);
        }
    }
    let rest = kappa_below.1.iter().zip(below.1).zip(kappa_above.1.iter().zip(above.1));
    for (sum, ((&kappa_below, &below), (&kappa_above, &above))) in sums.iter_mut().zip(rest) {
        *sum += of(kappa_below, below, kappa_above, above);
    }
    sums.iter().sum()
}

/// Names of the sides of x, y and z, the lower one first.
pub const SIDES: [[&str; 2]; 3] = [["west", "east"], ["south", "north"], ["bottom", "top"]];

/// Returns Σ f(n), computed by all threads and added in a fixed order.
fn sum(count: usize, f: impl Fn(usize) -> f64 + Sync) -> f64 {
    let mut terms = vec![0.0; count];
    Host.for_each(&mut terms, |n, term| *term = f(n));
    terms.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Coefficient, Source, Weighting, random};

    /// Returns problems with everything that fluxes depend on, in one, two and three dimensions.
    fn problems() -> Vec<DiffusionProblem> {
        let mut all = Vec::new();
        let shapes =
            [Shape::new(9, 1, 1), Shape::new(1, 1, 7), Shape::new(8, 5, 1), Shape::new(6, 5, 4), Shape::new(2, 1, 3)];
        for (n, shape) in shapes.into_iter().enumerate() {
            let field = |seed: u64| (0..shape.cells()).map(|cell| random(seed, cell).exp()).collect::<Vec<f64>>();
            let various = |count: usize| Spacing::Given((0..count).map(|m| 0.5 + (m % 3) as f64).collect());
            let plain = DiffusionProblem::new(shape, Coefficient::Isotropic(field(n as u64)));
            let mut masked = plain.clone();
            masked.active = Some((0..shape.cells()).map(|cell| cell == 0 || random(5, cell) < 0.6).collect());
            masked.spacing = [various(shape.nx), Spacing::Uniform(0.3), various(shape.nz)];
            masked.boundary = [
                [Boundary::Dirichlet(2.0), Boundary::Neumann(-0.7)],
                [Boundary::Neumann(0.0), Boundary::Dirichlet(-1.0)],
                [Boundary::Neumann(0.4), Boundary::Dirichlet(0.5)],
            ];
            let mut ring = plain.clone();
            ring.coefficient = Coefficient::Diagonal([field(7), field(8), field(9)]);
            ring.boundary = [[Boundary::Periodic; 2], [Boundary::Dirichlet(1.0); 2], [Boundary::Periodic; 2]];
            ring.sources = vec![Source { i: 0, j: 0, k: [0, 0], rate: 3.0 }];
            let mut films = masked.clone();
            films.boundary = [
                [Boundary::Robin { coefficient: 3.0, value: 2.0 }, Boundary::Robin { coefficient: 1.0, value: 0.0 }],
                [Boundary::Dirichlet(0.0), Boundary::Neumann(0.0)],
                [Boundary::Robin { coefficient: 0.0, value: 1.0 }, Boundary::Dirichlet(0.5)],
            ];
            let of_faces = |count: usize| Some((0..count).map(|face| 1.0 + random(6, face)).collect());
            films.side_fields[0][1] =
                SideFields { value: of_faces(shape.ny * shape.nz), coefficient: of_faces(shape.ny * shape.nz) };
            films.side_fields[1][0].value = of_faces(shape.nx * shape.nz);
            films.side_fields[1][1].value = of_faces(shape.nx * shape.nz);
            all.extend([plain, masked, ring, films]);
        }
        all
    }

    /// The flow out of every cell is A u − b with b of the sides alone: it equals the rows of the stencil and the right-hand side's own terms.
    #[test]
    fn divergence_is_that_of_the_rows() {
        for problem in problems() {
            let stencil = problem.stencil().unwrap();
            let shape = problem.shape;
            let mut u: Vec<f64> = (0..shape.cells()).map(|cell| random(3, cell)).collect();
            let sides = DiffusionProblem { sources: Vec::new(), ..problem.clone() };
            let b = sides.rhs(None, 0, Weighting::None).unwrap();
            let expected: Vec<f64> = stencil.times(&u).iter().zip(&b).map(|(row, b)| row - b).collect();
            // Inactive cells are not read.
            for at in stencil.cells().filter(|&at| !stencil.is_active(at)) {
                u[stencil.cell(at)] = f64::NAN;
            }
            let faces = problem.flow(&stencil).faces(&u).unwrap();
            for at in stencil.cells() {
                let of = |axis: Axis, more: usize| {
                    let n = shape.faces_across(axis);
                    let mut face = at;
                    face[axis as usize] += more;
                    faces[axis as usize][face[0] + n.nx * (face[1] + n.ny * face[2])]
                };
                let out: f64 = Axis::ALL.into_iter().map(|axis| of(axis, 1) - of(axis, 0)).sum();
                let size: f64 = Axis::ALL.into_iter().map(|axis| of(axis, 1).abs() + of(axis, 0).abs()).sum();
                assert!((out - expected[stencil.cell(at)]).abs() <= 1e-13 * size, "{shape} {at:?}");
            }
        }
    }

    /// The sums over faces of a side and over all of them equal uᵀ (A u − b) of a linear combination.
    #[test]
    fn totals_and_energy_are_those_of_the_faces() {
        for problem in problems() {
            let stencil = problem.stencil().unwrap();
            let (flow, shape) = (problem.flow(&stencil), problem.shape);
            let u: Vec<f64> = (0..shape.cells()).map(|cell| random(4, cell)).collect();
            let faces = flow.faces(&u).unwrap();
            for axis in Axis::ALL {
                let n = shape.faces_across(axis);
                for is_upper in [false, true] {
                    let last = n.extents()[axis as usize] - 1;
                    let of_side: f64 = (0..n.cells())
                        .filter(|f| {
                            [f % n.nx, f / n.nx % n.ny, f / n.nx / n.ny][axis as usize]
                                == if is_upper { last } else { 0 }
                        })
                        .map(|f| faces[axis as usize][f])
                        .sum();
                    let expected = if is_upper { of_side } else { -of_side };
                    let found = flow.through(&u, axis, is_upper).unwrap();
                    assert!((found - expected).abs() <= 1e-13 * (1.0 + expected.abs()), "{shape} {axis:?}");
                }
            }
            // With all given values 0 the energy is half of uᵀ A u.
            let mut zero = problem.clone();
            for side in zero.boundary.iter_mut().flatten() {
                if let Boundary::Dirichlet(value) | Boundary::Robin { value, .. } = side {
                    *value = 0.0;
                }
            }
            zero.side_fields.iter_mut().flatten().for_each(|fields| fields.value = None);
            let product: f64 = stencil.times(&u).iter().zip(&u).map(|(row, u)| row * u).sum();
            let energy = zero.flow(&stencil).energy(&u).unwrap();
            assert!((2.0 * energy - product).abs() <= 1e-12 * product.abs(), "{shape}: {energy} {product}");
        }
    }

    /// Two layers in series let 1 / (l₁/κ₁ + l₂/κ₂) per unit area through every face.
    #[test]
    fn a_laminate_in_closed_form() {
        let shape = Shape::new(2, 8, 3);
        let kappa = (0..shape.cells()).map(|n| if n / 2 % 8 < 2 { 5.0 } else { 0.5 }).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.spacing = [Spacing::Uniform(0.5), Spacing::Uniform(0.25), Spacing::Uniform(2.0)];
        problem.boundary[1] = [Boundary::Dirichlet(3.0), Boundary::Dirichlet(1.0)];
        // 0.5 of 5 and 1.5 of 0.5.
        let per_area = 2.0 / (0.5 / 5.0 + 1.5 / 0.5);
        let mut u = Vec::new();
        for n in 0..shape.cells() {
            let y = 0.25 * ((n / 2 % 8) as f64 + 0.5);
            u.push(3.0 - per_area * if y < 0.5 { y / 5.0 } else { 0.1 + (y - 0.5) / 0.5 });
        }
        let stencil = problem.stencil().unwrap();
        let flow = problem.flow(&stencil);
        let [x, y, z] = flow.faces(&u).unwrap();
        assert_eq!([x.len(), y.len(), z.len()], [3 * 8 * 3, 2 * 9 * 3, 2 * 8 * 4]);
        assert!(x.iter().chain(&z).all(|q| q.abs() < 1e-13));
        assert!(y.iter().all(|q| (q - per_area * 0.5 * 2.0).abs() < 1e-12), "{y:?}");
        let total = per_area * 1.0 * 6.0;
        let sides = flow.through_sides(&u).unwrap();
        assert_eq!([sides[0].0, sides[1].0], ["south", "north"]);
        assert!(sides.len() == 2 && (sides[0].1 + total).abs() < 1e-12 && (sides[1].1 - total).abs() < 1e-12);
        assert!((flow.energy(&u).unwrap() - 0.5 * 2.0 * total).abs() < 1e-12);
    }

    #[test]
    fn a_solution_of_another_size_is_refused() {
        let problem = DiffusionProblem::new(Shape::new(3, 2, 1), Coefficient::Isotropic(vec![1.0; 6]));
        let stencil = problem.stencil().unwrap();
        let message = problem.flow(&stencil).faces(&[0.0; 5]).unwrap_err().to_string();
        assert!(message.contains("the solution: found shape 5 cells, but 6 = 3×2×1"), "{message}");
    }
}
