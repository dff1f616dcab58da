//! Coarser versions of the diffusion operator, and the weights of interpolation between them.

use std::sync::Arc;

use super::Stencil;
use super::diffusion::{Axis, Coefficients, Diffusion, Side};
use super::faces::FaceForm;
use crate::layout::Shape;

/// Couplings in x and y count as alike up to this ratio of their means.
const ISOTROPIC: f64 = 4.0;

impl Diffusion {
    /// The operator on a coarser grid: half as many cells (rounded up) in x and y, or, where the couplings of
    /// one of them are more than four times those of the other on average, in that direction alone. As many
    /// cells in z. `None` where there is only one column, or a periodic direction would be left with an odd number of
    /// cells.
    ///
    /// Of the fine faces on the way between the centres of two coarse cells, those side by side add up: ΣT
    /// between the coarse cells, ΣT_in and ΣT_in' inside them. There are two estimates of what this comes to,
    /// which agree for one material:
    ///
    /// * in series, S = 1 / (½/ΣT_in + 1/ΣT + ½/ΣT_in'), right where layers lie across the way;
    /// * by distance, H = ΣT / ℓ with ℓ the distance of the coarse centres in fine cells, 2 for two pairs: the
    ///   Galerkin product of piecewise constant transfers but for a factor, so that no contrast harms it.
    ///
    /// The geometric mean √(S H) is within reach of both (`docs/notes/diffusion-multigrid.md` compares). An inside
    /// without any open face, or of a coarse cell that is one cell wide, adds no resistance. Dirichlet sides follow the
    /// same rule; vertical faces and shifts add up.
    pub fn coarsened(&self) -> Option<Self> {
        let halved = self.coarsened_axes()?;
        Some(Coarsening::new(&self.face_form(), self.sides(), halved).finish())
    }

    /// Which of x and y the next coarser grid halves.
    pub fn coarsened_axes(&self) -> Option<[bool; 2]> {
        let Shape { nx, ny, .. } = self.shape();
        let may = |axis: Axis, n: usize| n > 1 && (!self.is_periodic(axis) || n == 2 || n.is_multiple_of(4));
        let may = [may(Axis::X, nx), may(Axis::Y, ny)];
        if nx == 1 || ny == 1 {
            return (may != [false; 2]).then_some(may);
        }
        let mean = |axis: Axis| {
            let open = self.cells().map(|at| self.face(axis, at)).filter(|&t| t > 0.0);
            let (sum, count) = open.fold((0.0, 0.0), |(sum, count), t| (sum + t, count + 1.0));
            if count > 0.0 { sum / count } else { 0.0 }
        };
        let (x, y) = (mean(Axis::X), mean(Axis::Y));
        let wanted = [y <= ISOTROPIC * x, x <= ISOTROPIC * y];
        let axes = [wanted[0] && may[0], wanted[1] && may[1]];
        (axes != [false; 2]).then_some(axes)
    }

    /// For each cell, the weights w_x and w_y with which its correction depends on the coarse neighbours on its
    /// side; none for a direction that is not halved. Prolongation from coarse values C is
    ///
    /// (1−w_x)(1−w_y) C(I, J) + w_x(1−w_y) C(I', J) + (1−w_x) w_y C(I, J') + w_x w_y C(I', J'),
    ///
    /// with I = i div 2, and I' = I − 1 for even i, I + 1 for odd i (across a periodic side too). Beyond a Dirichlet side
    /// C is 0.
    ///
    /// The flux between coarse centres is the same all the way, so u is linear in the resistance:
    /// w = R₀ / (R₀ + 1/T + R₁), with R₀ = ½/T_in to the cell's centre, T the face towards the neighbour, R₁ half of the
    /// face inside it. For one material w = ¼, the bilinear weight. Where the face inside the cell's own coarse cell
    /// is closed, w = ¼ too; where the neighbour's is, R₁ = 0; where the coarse cell is one cell wide, or T = 0, w = 0.
    pub fn transfer_weights(&self) -> [Option<Vec<f64>>; 2] {
        let Some(halved) = self.coarsened_axes() else { return [None, None] };
        let form = self.face_form();
        [Axis::X, Axis::Y].map(|axis| halved[axis as usize].then(|| weights(&form, axis, self.is_periodic(axis))))
    }
}

/// [`Diffusion::transfer_weights`] of one direction.
fn weights(form: &FaceForm, axis: Axis, periodic: bool) -> Vec<f64> {
    let d = axis as usize;
    let Shape { nx, ny, nz } = form.shape;
    let (count, stride) = ([nx, ny][d], [1, nx][d]);
    let t = &form.faces[d];
    let mut weights = vec![0.0; form.shape.cells()];
    for k in 0..nz {
        for j in 0..ny {
            for i in 0..nx {
                let n = i + nx * (j + ny * k);
                let m = [i, j][d];
                let first = n - m * stride;
                // T of the face above cell m of this line, and below.
                let above = |m: usize| if m + 1 == count && !periodic { 0.0 } else { t[first + m * stride] };
                let below = |m: usize| match m.checked_sub(1) {
                    Some(lower) => above(lower),
                    None if periodic => above(count - 1),
                    None => 0.0,
                };
                let even = m % 2 == 0;
                if even && m + 1 == count {
                    continue;
                }
                let inside = if even { above(m) } else { below(m) };
                let outside = if even { below(m) } else { above(m) };
                let on_side = !periodic && (m == 0 || m + 1 == count);
                let (outside, far) = match (on_side, even) {
                    (true, _) => (form.ends[d][usize::from(!even)][[j + ny * k, i + nx * k][d]], 0.0),
                    // The face inside the neighbouring pair, if that is one.
                    (false, true) => (outside, below((m + count - 1) % count)),
                    (false, false) if m + 2 == count && !periodic => (outside, 0.0),
                    (false, false) => (outside, above((m + 1) % count)),
                };
                weights[n] = weight(inside, outside, far);
            }
        }
    }
    weights
}

/// R₀ / (R₀ + 1/T + R₁) with R₀ = ½/inside and R₁ = ½/far, see [`Diffusion::transfer_weights`].
fn weight(inside: f64, outside: f64, far: f64) -> f64 {
    if outside == 0.0 {
        0.0
    } else if inside == 0.0 {
        0.25
    } else {
        1.0 / (1.0 + 2.0 * inside / outside + if far > 0.0 { inside / far } else { 0.0 })
    }
}

/// Sums over the fine cells and faces of every coarse cell.
struct Coarsening {
    fine: Shape,
    coarse: Shape,
    halved: [bool; 2],
    sides: [[Side; 2]; 3],
    /// Of x and y: faces between a coarse cell and its upper neighbour.
    between: [Vec<f64>; 2],
    /// Of x and y: faces inside.
    inside: [Vec<f64>; 2],
    z: Vec<f64>,
    shift: Vec<f64>,
    ends: [[Vec<f64>; 2]; 2],
}

impl Coarsening {
    fn new(form: &FaceForm, sides: [[Side; 2]; 3], halved: [bool; 2]) -> Self {
        let fine = form.shape;
        let size = |n: usize, halve: bool| if halve { n.div_ceil(2) } else { n };
        let coarse = Shape::new(size(fine.nx, halved[0]), size(fine.ny, halved[1]), fine.nz);
        let zeros = || vec![0.0; coarse.cells()];
        let ends = [coarse.ny, coarse.nx].map(|n| [vec![0.0; n * fine.nz], vec![0.0; n * fine.nz]]);
        let mut sums = Self {
            fine,
            coarse,
            halved,
            sides,
            between: [zeros(), zeros()],
            inside: [zeros(), zeros()],
            z: zeros(),
            shift: zeros(),
            ends,
        };
        for k in 0..fine.nz {
            for j in 0..fine.ny {
                sums.add_row(form, j, k);
            }
        }
        sums
    }

    /// Adds the fine row (j, k) to the coarse one that holds it.
    fn add_row(&mut self, form: &FaceForm, j: usize, k: usize) {
        let Shape { nx, ny, .. } = self.fine;
        let [halve_x, halve_y] = self.halved;
        let coarse_j = if halve_y { j / 2 } else { j };
        let row = nx * (j + ny * k)..nx * (j + 1 + ny * k);
        let start = self.coarse.nx * (coarse_j + self.coarse.ny * k);
        let coarse_row = start..start + self.coarse.nx;
        let add = |sums: &mut Vec<f64>, values: &[f64]| {
            let sums = &mut sums[coarse_row.clone()];
            if halve_x {
                for (sum, pair) in sums.iter_mut().zip(values[row.clone()].chunks(2)) {
                    *sum += pair.iter().sum::<f64>();
                }
            } else {
                sums.iter_mut().zip(&values[row.clone()]).for_each(|(sum, value)| *sum += value);
            }
        };
        add(&mut self.z, &form.faces[2]);
        add(&mut self.shift, &form.inner_shift);
        let inside_y = halve_y && j.is_multiple_of(2) && j + 1 < ny;
        add(if inside_y { &mut self.inside[1] } else { &mut self.between[1] }, &form.faces[1]);
        if halve_x {
            for (n, pair) in form.faces[0][row.clone()].chunks(2).enumerate() {
                match *pair {
                    [inside, above] => {
                        self.inside[0][start + n] += inside;
                        self.between[0][start + n] += above;
                    }
                    ref single => self.between[0][start + n] += single[0],
                }
            }
        } else {
            add(&mut self.between[0], &form.faces[0]);
        }
        for side in 0..2 {
            self.ends[0][side][coarse_j + self.coarse.ny * k] += form.ends[0][side][j + ny * k];
            if j == [0, ny - 1][side] {
                for (i, &end) in form.ends[1][side][nx * k..nx * (k + 1)].iter().enumerate() {
                    self.ends[1][side][if halve_x { i / 2 } else { i } + self.coarse.nx * k] += end;
                }
            }
        }
    }

    /// Transmissibilities of the coarse grid from the sums.
    fn finish(mut self) -> Diffusion {
        let coarse = self.coarse;
        let fine = [self.fine.nx, self.fine.ny];
        // Distance of a coarse cell's centre from its outer fine cells'.
        let offset = |d: usize, n: usize| if self.halved[d] && 2 * n + 1 < fine[d] { 0.5 } else { 0.0 };
        let half_resistance = |inside: f64| if inside > 0.0 { 0.5 / inside } else { 0.0 };
        let mean = |between: f64, distance: f64, resistances: f64| {
            if between > 0.0 { (between / distance / (1.0 / between + resistances)).sqrt() } else { 0.0 }
        };
        let mut faces = [vec![0.0; coarse.cells()], vec![0.0; coarse.cells()]];
        for k in 0..coarse.nz {
            for j in 0..coarse.ny {
                for i in 0..coarse.nx {
                    let n = i + coarse.nx * (j + coarse.ny * k);
                    for d in 0..2 {
                        let (m, count, stride) = ([i, j][d], [coarse.nx, coarse.ny][d], [1, coarse.nx][d]);
                        let inside = &self.inside[d];
                        if count > 1 {
                            let upper = if m + 1 < count { n + stride } else { n - m * stride };
                            let resistances = half_resistance(inside[n]) + half_resistance(inside[upper]);
                            let distance = 1.0 + offset(d, m) + offset(d, (m + 1) % count);
                            faces[d][n] = mean(self.between[d][n], distance, resistances);
                        }
                        let line = [j + coarse.ny * k, i + coarse.nx * k][d];
                        for side in [0, 1] {
                            if m == [0, count - 1][side] {
                                // A side lies half a fine cell away from the outer one's centre.
                                let end = &mut self.ends[d][side][line];
                                *end = mean(*end, 1.0 + 2.0 * offset(d, m), half_resistance(inside[n]));
                                self.shift[n] += *end;
                            }
                        }
                    }
                }
            }
        }
        let extents = [coarse.nx, coarse.ny, coarse.nz];
        let sides = std::array::from_fn(|d| {
            self.sides[d].map(|side| if side == Side::Periodic && extents[d] > 1 { side } else { Side::Closed })
        });
        let [x, y] = faces;
        let faces = Coefficients::Faces([x, y, self.z].map(Arc::from));
        let ends = self.ends.map(|sides| sides.map(Arc::from));
        Diffusion::from_parts(coarse, faces, Some(Arc::from(self.shift)), sides, ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(nx: usize, ny: usize, factors: [f64; 3], side: Side) -> Diffusion {
        let shape = Shape::new(nx, ny, 2);
        let one =
            Coefficients::Cells { fields: vec![Arc::from(vec![1.0; shape.cells()])], axes: factors.map(|f| (0, f)) };
        let sides = [[side; 2], [side; 2], [Side::Closed; 2]];
        Diffusion::new(shape, one, None, sides).unwrap()
    }

    #[test]
    fn one_material_stays_itself() {
        // T = factor/2; doubling dx and dy leaves T_x and T_y, and makes T_z four times as large. A side keeps 2κA/d.
        let coarse = uniform(8, 8, [2.0, 3.0, 4.0], Side::Fixed).coarsened().unwrap();
        assert_eq!(coarse.shape(), Shape::new(4, 4, 2));
        for at in coarse.cells() {
            let expected = |axis, t| if coarse.upper(axis, at).is_some() { t } else { 0.0 };
            assert!((coarse.face(Axis::X, at) - expected(Axis::X, 1.0)).abs() < 1e-15);
            assert!((coarse.face(Axis::Y, at) - expected(Axis::Y, 1.5)).abs() < 1e-15);
            assert!((coarse.face(Axis::Z, at) - expected(Axis::Z, 8.0)).abs() < 1e-15);
            let ends = [at[0] == 0, at[0] == 3, at[1] == 0, at[1] == 3].map(|on| f64::from(u8::from(on)));
            let sides = 2.0 * (ends[0] + ends[1]) + 3.0 * (ends[2] + ends[3]);
            assert!((coarse.shift(at) - sides).abs() < 1e-14, "{at:?}: {} {sides}", coarse.shift(at));
        }
    }

    #[test]
    fn weights_of_one_material_are_bilinear() {
        let closed = uniform(8, 6, [2.0; 3], Side::Closed);
        let [x, y] = closed.transfer_weights().map(Option::unwrap);
        let fixed = uniform(8, 6, [2.0; 3], Side::Fixed).transfer_weights();
        for at in closed.cells() {
            let n = closed.cell(at);
            let on_side = |m: usize, count: usize| m == 0 || m + 1 == count;
            let weight = |m, count, beyond| if on_side(m, count) { beyond } else { 0.25 };
            assert!((x[n] - weight(at[0], 8, 0.0)).abs() < 1e-15 && (y[n] - weight(at[1], 6, 0.0)).abs() < 1e-15);
            // Linear interpolation to zero on the side.
            assert!((fixed[0].as_ref().unwrap()[n] - weight(at[0], 8, 0.5)).abs() < 1e-15);
        }
    }

    #[test]
    fn sizes_down_to_one_column() {
        let mut grid = Some(uniform(7, 5, [1.0; 3], Side::Closed));
        let mut shapes = Vec::new();
        while let Some(stencil) = grid {
            let Shape { nx, ny, .. } = stencil.shape();
            shapes.push((nx, ny));
            grid = stencil.coarsened();
        }
        assert_eq!(shapes, [(7, 5), (4, 3), (2, 2), (1, 1)]);
    }

    #[test]
    fn the_stronger_direction_first() {
        let coarse = uniform(16, 16, [100.0, 1.0, 1.0], Side::Closed).coarsened().unwrap();
        assert_eq!(coarse.shape(), Shape::new(8, 16, 2));
        // Twice as far in x, twice as wide in y.
        assert!((coarse.face(Axis::X, [0, 0, 0]) - 25.0).abs() < 1e-12);
        assert!((coarse.face(Axis::Y, [0, 0, 0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn periodic_grids_stay_periodic() {
        let mut shapes = Vec::new();
        let mut grid = Some(uniform(12, 8, [1.0; 3], Side::Periodic));
        while let Some(stencil) = grid {
            let Shape { nx, ny, .. } = stencil.shape();
            shapes.push((nx, ny));
            // Every cell has all its faces.
            assert!(stencil.cells().all(|at| nx == 1 || stencil.face(Axis::X, at) > 0.0));
            grid = stencil.coarsened();
        }
        // 6 → 3 would be odd, so x stays at 6 from there on.
        assert_eq!(shapes, [(12, 8), (6, 4), (6, 2), (6, 1)]);
    }
}
