//! Coarser versions of the diffusion operator, and the weights of interpolation between them.

use std::sync::Arc;

use super::diffusion::{Axis, Coefficients, Diffusion, Side};
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
        let Shape { nx, ny, nz } = self.shape();
        let halved = self.coarsened_axes()?;
        let coarse_size = |n: usize, halve: bool| if halve { n.div_ceil(2) } else { n };
        let coarse = Shape::new(coarse_size(nx, halved[0]), coarse_size(ny, halved[1]), nz);
        let parent = |n: usize, halve: bool| if halve { n / 2 } else { n };
        let zeros = || vec![0.0; coarse.cells()];
        let (mut z, mut shift) = (zeros(), zeros());
        let (mut between, mut inside) = ([zeros(), zeros()], [zeros(), zeros()]);
        let lines = [coarse.ny * nz, coarse.nx * nz];
        let mut ends = lines.map(|n| [vec![0.0; n], vec![0.0; n]]);
        for at in self.cells() {
            let own = [parent(at[0], halved[0]), parent(at[1], halved[1]), at[2]];
            let n = own[0] + coarse.nx * (own[1] + coarse.ny * own[2]);
            let line = [own[1] + coarse.ny * own[2], own[0] + coarse.nx * own[2]];
            z[n] += self.face(Axis::Z, at);
            let mut inner_shift = self.shift(at);
            for (d, axis) in [Axis::X, Axis::Y].into_iter().enumerate() {
                for upper in [false, true] {
                    let end = self.end(axis, upper, at);
                    inner_shift -= end;
                    ends[d][usize::from(upper)][line[d]] += end;
                }
                let Some(upper) = self.upper(axis, at) else { continue };
                let crosses = parent(upper[d], halved[d]) != own[d] || upper[d] < at[d];
                let sums = if crosses { &mut between } else { &mut inside };
                sums[d][n] += self.face(axis, at);
            }
            // What is left of a difference of sums is not negative but for rounding.
            shift[n] += inner_shift.max(0.0);
        }

        // Distance of a coarse cell's centre from its outer fine cells'.
        let offset = |d: usize, n: usize| if halved[d] && 2 * n + 1 < [nx, ny][d] { 0.5 } else { 0.0 };
        let half_resistance = |inside: f64| if inside > 0.0 { 0.5 / inside } else { 0.0 };
        let mean = |between: f64, distance: f64, resistances: f64| {
            if between > 0.0 { (between / distance / (1.0 / between + resistances)).sqrt() } else { 0.0 }
        };
        let mut faces = [zeros(), zeros()];
        for k in 0..nz {
            for j in 0..coarse.ny {
                for i in 0..coarse.nx {
                    let n = i + coarse.nx * (j + coarse.ny * k);
                    for d in 0..2 {
                        let (m, count, stride) = ([i, j][d], [coarse.nx, coarse.ny][d], [1, coarse.nx][d]);
                        let upper = if m + 1 < count { n + stride } else { n - m * stride };
                        let upper_m = (m + 1) % count;
                        let resistances = half_resistance(inside[d][n]) + half_resistance(inside[d][upper]);
                        let distance = 1.0 + offset(d, m) + offset(d, upper_m);
                        faces[d][n] = mean(between[d][n], distance, resistances);
                        let line = [j + coarse.ny * k, i + coarse.nx * k][d];
                        for (side, on_it) in
                            [m == 0, m + 1 == count].into_iter().enumerate().filter(|(_, on_it)| *on_it)
                        {
                            debug_assert!(on_it);
                            let end = &mut ends[d][side][line];
                            // A side lies half a cell away from the outer cell's centre.
                            *end = mean(*end, 1.0 + 2.0 * offset(d, m), half_resistance(inside[d][n]));
                            shift[n] += *end;
                        }
                    }
                }
            }
        }
        let sides =
            self.sides().map(|sides| sides.map(|side| if side == Side::Periodic { side } else { Side::Closed }));
        let [x, y] = faces;
        let faces = Coefficients::Faces([x, y, z].map(Arc::from));
        let ends = ends.map(|sides| sides.map(Arc::from));
        Some(Self::from_parts(coarse, faces, Some(Arc::from(shift)), sides, ends))
    }

    /// Which of x and y the next coarser grid halves.
    pub fn coarsened_axes(&self) -> Option<[bool; 2]> {
        let Shape { nx, ny, .. } = self.shape();
        let may = |axis: Axis, n: usize| n > 1 && (!self.is_periodic(axis) || n == 2 || n % 4 == 0);
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
        let halved = self.coarsened_axes().unwrap_or([false; 2]);
        [Axis::X, Axis::Y].map(|axis| {
            let d = axis as usize;
            halved[d].then(|| self.cells().map(|at| self.transfer_weight(axis, at)).collect())
        })
    }

    fn transfer_weight(&self, axis: Axis, at: [usize; 3]) -> f64 {
        let d = axis as usize;
        let n = [self.shape().nx, self.shape().ny][d];
        let upper = at[d] % 2 == 1;
        let face_between = |lower: [usize; 3]| self.face(axis, lower);
        // The other cell of the pair, and the lower one of the two.
        if !upper && at[d] + 1 == n {
            return 0.0;
        }
        let partner = |at: [usize; 3]| if at[d] % 2 == 1 { self.lower(axis, at) } else { self.upper(axis, at) };
        let inside_of = |at: [usize; 3]| {
            let partner = partner(at).filter(|partner| partner[d] / 2 == at[d] / 2)?;
            Some(face_between(if partner[d] < at[d] { partner } else { at }))
        };
        let end = self.end(axis, upper, at);
        let (t, far) = match if upper { self.upper(axis, at) } else { self.lower(axis, at) } {
            Some(other) => {
                let inside = inside_of(other).unwrap_or(0.0);
                (face_between(if upper { at } else { other }), if inside > 0.0 { 0.5 / inside } else { 0.0 })
            }
            None => (end, 0.0),
        };
        match inside_of(at) {
            _ if t == 0.0 => 0.0,
            Some(inside) if inside > 0.0 => {
                let own = 0.5 / inside;
                own / (own + 1.0 / t + far)
            }
            _ => 0.25,
        }
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
