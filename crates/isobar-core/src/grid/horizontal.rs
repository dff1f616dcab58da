//! Cell areas and face couplings in the horizontal.

use super::{Geometry, GridOptions};
use crate::error::{Error, Result};
use crate::execute::{Host, find_in_rows, find_wrong, map_pieces, no_room, rows_in_small_pieces};

/// The horizontal factors of a tensor-product operator, one entry per column, `i + nx · j`.
///
/// `west`, `east`, `south` and `north` couple a column to its neighbours (0 if there is none);
/// `total` is α_T: the sum of the four, the coupling to a Dirichlet boundary included.
#[derive(Clone, Debug, PartialEq)]
pub struct HorizontalField {
    /// Columns in x.
    pub nx: usize,
    /// Columns in y.
    pub ny: usize,
    /// |T|, on the unit sphere or in the unit square.
    pub area: Vec<f64>,
    /// Coupling to (i − 1, j).
    pub west: Vec<f64>,
    /// Coupling to (i + 1, j).
    pub east: Vec<f64>,
    /// Coupling to (i, j − 1).
    pub south: Vec<f64>,
    /// Coupling to (i, j + 1).
    pub north: Vec<f64>,
    /// α_T.
    pub total: Vec<f64>,
}

impl HorizontalField {
    /// Makes the factors from |T| (nx × ny), the couplings through x-faces ((nx + 1) × ny) and through y-faces (nx × (ny + 1)),
    /// all with x fastest. The outermost faces are Dirichlet boundaries; a coupling of 0 there makes the side Neumann.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::Invalid`] if lengths differ, |T| is not positive, or a coupling is negative or not finite.
    pub fn from_faces(nx: usize, ny: usize, area: Vec<f64>, x_faces: &[f64], y_faces: &[f64]) -> Result<Self> {
        let lengths = [
            ("|T|", area.len(), nx * ny),
            ("x-faces", x_faces.len(), (nx + 1) * ny),
            ("y-faces", y_faces.len(), nx * (ny + 1)),
        ];
        for (name, found, expected) in lengths {
            if found != expected || expected == 0 {
                return Err(Error::shape(name, found, format!("{expected} (nx = {nx}, ny = {ny})")));
            }
        }
        if let Some(n) = find_wrong(&Host, &area, |t| t > 0.0 && t.is_finite()) {
            return Err(Error::invalid(
                "|T|",
                format!("{} in column (i, j) = ({}, {}), counted from 0; areas are positive", area[n], n % nx, n / nx),
            ));
        }
        for (name, faces, row) in [("x-faces", x_faces, nx + 1), ("y-faces", y_faces, nx)] {
            if let Some(n) = find_wrong(&Host, faces, |x| x >= 0.0 && x.is_finite()) {
                return Err(Error::invalid(
                    name,
                    format!(
                        "{} at (i, j) = ({}, {}), counted from 0; couplings are zero or positive",
                        faces[n],
                        n % row,
                        n / row
                    ),
                ));
            }
        }
        let columns = |coupling: &(dyn Fn(usize, usize) -> f64 + Sync)| {
            rows_in_small_pieces(&Host, nx * ny, nx, |j, couplings| {
                couplings.iter_mut().enumerate().for_each(|(i, entry)| *entry = coupling(i, j));
            })
        };
        let x_face = |i: usize, j: usize| x_faces[i + (nx + 1) * j];
        let y_face = |i: usize, j: usize| y_faces[i + nx * j];
        Ok(Self {
            nx,
            ny,
            area,
            west: columns(&|i, j| if i > 0 { x_face(i, j) } else { 0.0 }),
            east: columns(&|i, j| if i + 1 < nx { x_face(i + 1, j) } else { 0.0 }),
            south: columns(&|i, j| if j > 0 { y_face(i, j) } else { 0.0 }),
            north: columns(&|i, j| if j + 1 < ny { y_face(i, j + 1) } else { 0.0 }),
            total: columns(&|i, j| x_face(i, j) + x_face(i + 1, j) + y_face(i, j) + y_face(i, j + 1)),
        })
    }

    /// Computes the horizontal factors of a grid's Laplacian, homogeneous Dirichlet all around.
    ///
    /// # Errors
    /// See [`GridOptions::validate`].
    pub fn laplacian(grid: &GridOptions) -> Result<Self> {
        grid.validate()?;
        let (nx, ny) = (grid.nx, grid.ny);
        // The factors, and for a while faces and corners.
        Vec::<[f64; 10]>::new().try_reserve_exact(nx * ny).map_err(|_| no_room(nx * ny))?;
        let metric = Metric::new(grid);
        let [x, y] = [Coordinates::new(nx, |i| metric.x(i)), Coordinates::new(ny, |j| metric.y(j))];
        let x_faces = rows_in_small_pieces(&Host, (nx + 1) * ny, nx + 1, |j, faces| {
            faces.iter_mut().enumerate().for_each(|(i, face)| *face = face_coupling(grid.geometry, (&x, i), (&y, j)));
        });
        let y_faces = rows_in_small_pieces(&Host, nx * (ny + 1), nx, |j, faces| {
            faces.iter_mut().enumerate().for_each(|(i, face)| *face = face_coupling(grid.geometry, (&y, j), (&x, i)));
        });
        Self::from_faces(nx, ny, metric.areas(), &x_faces, &y_faces)
    }

    /// Coarsens the field to half as many columns each way, rounded up, from the fine one alone: areas add up, and a
    /// coarse coupling is the sum of the fine ones through its face over the distance of the coarse centres (twice the
    /// face at twice the distance). The last coarse cell of an odd number is one fine cell wide. `None` for one column.
    pub fn coarsened(&self) -> Option<Self> {
        let (fine_nx, fine_ny) = (self.nx, self.ny);
        if fine_nx == 1 && fine_ny == 1 {
            return None;
        }
        let (nx, ny) = (fine_nx.div_ceil(2), fine_ny.div_ceil(2));
        // Fine cells of a coarse one: two, or one at the end of an odd number.
        let pair = |n: usize, count: usize| 2 * n..(2 * n + 2).min(count);
        let gather = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..ny).flat_map(|j| (0..nx).map(move |i| (i, j))).map(|(i, j)| f(i, j)).collect()
        };
        let at = |v: &[f64], i: usize, j: usize| v[i + fine_nx * j];
        let over = |i: usize, j: usize, f: &dyn Fn(usize, usize) -> f64| -> f64 {
            pair(j, fine_ny).flat_map(|j| pair(i, fine_nx).map(move |i| (i, j))).map(|(i, j)| f(i, j)).sum()
        };
        // Half the width of a coarse cell, in fine cells: couplings are inverse to the distance of centres, which is 1
        // on the fine grid, and ½ to its boundary.
        let half = |n: usize, count: usize| 0.5 * pair(n, count).len() as f64;
        let distance = |n: usize, other: usize, count: usize| half(n, count) + half(other, count);
        // The couplings of the fine cells at one end of a coarse one.
        let x_faces = |v: &[f64], i: usize, j: usize| pair(j, fine_ny).map(|j| at(v, i, j)).sum::<f64>();
        let y_faces = |v: &[f64], i: usize, j: usize| pair(i, fine_nx).map(|i| at(v, i, j)).sum::<f64>();
        let west = gather(&|i, j| match i {
            0 => 0.0,
            i => x_faces(&self.west, 2 * i, j) / distance(i - 1, i, fine_nx),
        });
        let east = gather(&|i, j| match i + 1 {
            next if next == nx => 0.0,
            next => x_faces(&self.east, 2 * i + 1, j) / distance(i, next, fine_nx),
        });
        let south = gather(&|i, j| match j {
            0 => 0.0,
            j => y_faces(&self.south, i, 2 * j) / distance(j - 1, j, fine_ny),
        });
        let north = gather(&|i, j| match j + 1 {
            next if next == ny => 0.0,
            next => y_faces(&self.north, i, 2 * j + 1) / distance(j, next, fine_ny),
        });
        // The excess of a fine column's α_T over its couplings lies on the coarse boundary.
        let boundary = gather(&|i, j| {
            over(i, j, &|fine_i, fine_j| {
                let [in_x, in_y] = self.boundary(fine_i, fine_j);
                0.5 * (in_x / half(i, fine_nx) + in_y / half(j, fine_ny))
            })
        });
        let total = (0..nx * ny).map(|n| west[n] + east[n] + south[n] + north[n] + boundary[n]).collect();
        let area = gather(&|i, j| over(i, j, &|i, j| at(&self.area, i, j)));
        Some(Self { nx, ny, area, west, east, south, north, total })
    }

    /// Returns the couplings of a column to the boundary in x and in y: the excess of α_T over those to neighbours. In a
    /// corner only their sum is known; it is split as at the columns next to it along either side.
    fn boundary(&self, i: usize, j: usize) -> [f64; 2] {
        let (nx, ny) = (self.nx, self.ny);
        let both = |i: usize, j: usize| {
            let n = i + nx * j;
            self.total[n] - self.west[n] - self.east[n] - self.south[n] - self.north[n]
        };
        let on_side = |n: usize, count: usize| n == 0 || n + 1 == count;
        let inwards = |n: usize| if n == 0 { 1 } else { n - 1 };
        let sum = both(i, j);
        match (on_side(i, nx), on_side(j, ny)) {
            (false, _) => [0.0, sum],
            (true, false) => [sum, 0.0],
            (true, true) => {
                let in_x = (ny > 2).then(|| both(i, inwards(j)));
                let in_y = (nx > 2).then(|| both(inwards(i), j));
                let share = match (in_x, in_y) {
                    (Some(x), Some(y)) if x + y > 0.0 => x / (x + y),
                    (Some(x), None) if sum > 0.0 => (x / sum).clamp(0.0, 1.0),
                    (None, Some(y)) if sum > 0.0 => (1.0 - y / sum).clamp(0.0, 1.0),
                    _ => 0.5,
                };
                [share * sum, (1.0 - share) * sum]
            }
        }
    }

    /// Returns α_T − Σ α, the coupling of a column to the boundary. The sum of four is computed in another order
    /// elsewhere: a difference below its rounding is 0.
    pub(crate) fn outside(&self, n: usize) -> f64 {
        let inside: f64 = [&self.west, &self.east, &self.south, &self.north].iter().map(|side| side[n]).sum();
        let rest = self.total[n] - inside;
        if rest.abs() <= 4.0 * f64::EPSILON * self.total[n].abs() { 0.0 } else { rest }
    }

    /// Returns the columns with the least and the largest α_T/|T|, and these ratios.
    pub(crate) fn extreme_ratios(&self) -> Option<[(usize, f64); 2]> {
        let extremes = |columns: &mut dyn Iterator<Item = usize>| {
            let ratios = columns.map(|n| [(n, self.total[n] / self.area[n]); 2]);
            ratios.reduce(|[least, most], [new, _]| {
                [if new.1 < least.1 { new } else { least }, if new.1 > most.1 { new } else { most }]
            })
        };
        let of_pieces = map_pieces(&Host, &self.total, |first, piece| extremes(&mut (first..first + piece.len())));
        extremes(&mut of_pieces.into_iter().flatten().flatten().map(|(n, _)| n))
    }

    /// Returns whether all columns pass a test.
    pub(crate) fn all_columns(&self, test: impl Fn(usize) -> bool + Sync) -> bool {
        find_in_rows(&Host, self.area.len(), 1, |mut columns| columns.find(|&n| !test(n))).is_none()
    }

    /// Returns whether neighbours are coupled equally both ways.
    pub fn is_symmetric(&self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-14 * a.abs().max(b.abs());
        let (nx, ny) = (self.nx, self.ny);
        let differ = |a: &[f64], b: &[f64]| a.iter().zip(b).any(|(&a, &b)| !close(a, b));
        let differs = |j: usize| {
            let (row, next) = (nx * j..nx * (j + 1), nx * (j + 1)..);
            differ(&self.east[row.clone()], &self.west[row.start + 1..row.end])
                || differ(&self.north[row], &self.south[next])
        };
        find_in_rows(&Host, ny, nx, |mut rows| rows.find(|&j| differs(j))).is_none()
    }
}

/// Coordinates, areas and couplings of one geometry.
///
/// On a panel a point is (ρ, σ) ∈ [−1, 1]², the gnomonic projection onto the cube's face. The panels' grid lines are not
/// orthogonal there, which the two-point couplings neglect, like the papers; `docs/notes/panel-consistency.md` has the
/// size of the error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    geometry: Geometry,
    nx: usize,
    ny: usize,
}

impl Metric {
    pub(crate) fn new(grid: &GridOptions) -> Self {
        Self { geometry: grid.geometry, nx: grid.nx, ny: grid.ny }
    }

    /// Returns the coordinate at a fraction `s` of the width.
    fn coordinate(&self, s: f64) -> f64 {
        match self.geometry {
            Geometry::Panel => 2.0 * s - 1.0,
            Geometry::EquiangularPanel => (std::f64::consts::FRAC_PI_4 * (2.0 * s - 1.0)).tan(),
            Geometry::Box => s,
        }
    }

    /// Returns x or ρ of the point `i` cells from the western side (i + ½: the centre of cell i).
    pub(crate) fn x(&self, i: f64) -> f64 {
        self.coordinate(i / self.nx as f64)
    }

    /// Returns y or σ of the point `j` cells from the southern side.
    pub(crate) fn y(&self, j: f64) -> f64 {
        self.coordinate(j / self.ny as f64)
    }

    /// Returns |T| of every column. Each corner is computed once, which is most of the work of a coarser grid.
    pub(crate) fn areas(&self) -> Vec<f64> {
        let Self { geometry, nx, ny } = *self;
        if geometry == Geometry::Box {
            return vec![1.0 / (nx * ny) as f64; nx * ny];
        }
        let xs: Vec<f64> = (0..=nx).map(|i| self.x(i as f64)).collect();
        let corners = rows_in_small_pieces(&Host, (nx + 1) * (ny + 1), nx + 1, |j, corners| {
            let y = self.y(j as f64);
            corners.iter_mut().zip(&xs).for_each(|(corner, x)| *corner = (x * y / (1.0 + x * x + y * y).sqrt()).atan());
        });
        rows_in_small_pieces(&Host, nx * ny, nx, |j, areas| {
            let (south, north) = corners[(nx + 1) * j..].split_at(nx + 1);
            let ends = south.windows(2).zip(north.windows(2));
            areas.iter_mut().zip(ends).for_each(|(area, (south, north))| {
                *area = north[1] - north[0] - south[1] + south[0];
            });
        })
    }

    /// Returns the lengths of cell (i, j) in x and in y, through its centre.
    pub(crate) fn widths(&self, i: usize, j: usize) -> (f64, f64) {
        let (x, y) = (i as f64, j as f64);
        match self.geometry {
            Geometry::Box => (1.0 / self.nx as f64, 1.0 / self.ny as f64),
            _ => (
                great_circle((self.x(x), self.y(y + 0.5)), (self.x(x + 1.0), self.y(y + 0.5))),
                great_circle((self.x(x + 0.5), self.y(y)), (self.x(x + 0.5), self.y(y + 1.0))),
            ),
        }
    }
}

/// The coordinates of cells along one direction.
struct Coordinates {
    /// The coordinates of the cells' edges.
    edges: Vec<f64>,
    /// The coordinates of the cells' centres.
    centres: Vec<f64>,
    /// The points half way from the first and from the last centre to the side.
    quarters: [f64; 2],
}

impl Coordinates {
    /// Takes the coordinate of the point so many cells from the lower side, for `n` cells.
    fn new(n: usize, coordinate: impl Fn(f64) -> f64) -> Self {
        Self {
            edges: (0..=n).map(|edge| coordinate(edge as f64)).collect(),
            centres: (0..n).map(|cell| coordinate(cell as f64 + 0.5)).collect(),
            quarters: [coordinate(0.25), coordinate(n as f64 - 0.25)],
        }
    }
}

/// Returns face length over centre distance, for face `p` across the first direction and cell `q` along the second; at a boundary the distance is that
/// from the centre to the face.
#[inline(always)]
fn face_coupling(geometry: Geometry, (across, p): (&Coordinates, usize), (along, q): (&Coordinates, usize)) -> f64 {
    let (n, m) = (across.centres.len(), along.centres.len());
    let (is_first, is_last) = (p == 0, p == n);
    let (ratio, times) = (n as f64 / m as f64, if is_first || is_last { 2.0 } else { 1.0 });
    match geometry {
        Geometry::Box => ratio * times,
        Geometry::Panel => {
            // Half way from centre to face at a boundary, where the face would be half way between two centres inside.
            let [first, last] = across.quarters;
            let rho = if is_first {
                first
            } else if is_last {
                last
            } else {
                across.edges[p]
            };
            let sigma = along.centres[q];
            ratio * ((1.0 + rho * rho) / (1.0 + sigma * sigma)).sqrt() * times
        }
        Geometry::EquiangularPanel => {
            let rho = across.edges[p];
            let length = great_circle((rho, along.edges[q]), (rho, along.edges[q + 1]));
            let from = if is_first { rho } else { across.centres[p - 1] };
            let to = if is_last { rho } else { across.centres[p] };
            let sigma = along.centres[q];
            length / great_circle((from, sigma), (to, sigma))
        }
    }
}

/// Returns the angle between two points of a gnomonic panel, by |a × b| and a · b (accurate at small angles).
fn great_circle(a: (f64, f64), b: (f64, f64)) -> f64 {
    let dot = 1.0 + a.0 * b.0 + a.1 * b.1;
    let cross = (a.0 * b.1 - a.1 * b.0).hypot(b.0 - a.0).hypot(b.1 - a.1);
    cross.atan2(dot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(geometry: Geometry, nx: usize, ny: usize) -> GridOptions {
        GridOptions { geometry, nx, ny, nz: 4, ..GridOptions::default() }
    }

    #[test]
    fn panel_areas_sum_to_a_sixth_of_the_sphere() {
        for geometry in [Geometry::Panel, Geometry::EquiangularPanel] {
            let field = HorizontalField::laplacian(&grid(geometry, 13, 8)).unwrap();
            let sum: f64 = field.area.iter().sum();
            assert!((sum - 2.0 * std::f64::consts::PI / 3.0).abs() < 1e-13, "{geometry:?}: {sum}");
            assert!(field.is_symmetric());
        }
    }

    #[test]
    fn equiangular_couplings_approach_those_of_the_metric() {
        // On an orthogonal grid of squares every coupling would be 1; the equiangular panel is one near its centre.
        let field = HorizontalField::laplacian(&grid(Geometry::EquiangularPanel, 64, 64)).unwrap();
        let n = 32 + 64 * 32;
        for coupling in [field.west[n], field.east[n], field.south[n], field.north[n]] {
            assert!((coupling - 1.0).abs() < 1e-3, "{coupling}");
        }
    }

    #[test]
    fn coarsening_the_box_is_rediscretising_it() {
        let fine = HorizontalField::laplacian(&grid(Geometry::Box, 12, 8)).unwrap();
        let coarse = HorizontalField::laplacian(&grid(Geometry::Box, 6, 4)).unwrap();
        let derived = fine.coarsened().unwrap();
        for (a, b) in derived.total.iter().chain(&derived.west).zip(coarse.total.iter().chain(&coarse.west)) {
            assert!((a - b).abs() < 1e-13);
        }
        assert!(HorizontalField::laplacian(&grid(Geometry::Box, 1, 1)).unwrap().coarsened().is_none());
    }

    #[test]
    fn odd_numbers_of_columns_end_with_a_narrow_one() {
        // u = x between Dirichlet sides of the values 0 and 5 has the same flux through all faces.
        let fine =
            HorizontalField::from_faces(5, 2, vec![1.0; 10], &[2.0, 1.0, 1.0, 1.0, 1.0, 2.0].repeat(2), &[0.0; 15]);
        let coarse = fine.unwrap().coarsened().unwrap();
        assert_eq!((coarse.nx, coarse.ny, coarse.area.as_slice()), (3, 1, [4.0, 4.0, 2.0].as_slice()));
        let x = [1.0, 3.0, 4.5];
        let side = |n: usize| coarse.total[n] - coarse.west[n] - coarse.east[n];
        let fluxes =
            [side(0) * x[0], coarse.east[0] * (x[1] - x[0]), coarse.west[2] * (x[2] - x[1]), side(2) * (5.0 - x[2])];
        assert!(fluxes.iter().all(|flux| (flux - 2.0).abs() < 1e-14), "{fluxes:?}");
        assert!(side(1).abs() < 1e-14 && coarse.is_symmetric());
    }

    #[test]
    fn user_fields_are_checked() {
        assert!(HorizontalField::from_faces(2, 1, vec![1.0; 2], &[1.0; 3], &[1.0; 4]).is_ok());
        assert!(HorizontalField::from_faces(2, 1, vec![1.0; 3], &[1.0; 3], &[1.0; 4]).is_err());
        assert!(HorizontalField::from_faces(2, 1, vec![1.0, -1.0], &[1.0; 3], &[1.0; 4]).is_err());
        assert!(HorizontalField::from_faces(2, 1, vec![1.0; 2], &[1.0, f64::NAN, 1.0], &[1.0; 4]).is_err());
    }
}
