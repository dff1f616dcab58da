//! All transmissibilities of a diffusion operator at once.

use std::sync::Arc;

use super::Stencil;
use super::diffusion::{Axis, Coefficients, Diffusion, Ends, Side, harmonic};
use crate::layout::Shape;

/// A [`Diffusion`] operator by its faces, whatever it was made from.
#[derive(Debug)]
pub(super) struct FaceForm {
    /// The grid.
    pub(super) shape: Shape,
    /// As [`Coefficients::Faces`].
    pub(super) faces: [Arc<[f64]>; 3],
    /// s without Dirichlet sides of x and y.
    pub(super) inner_shift: Vec<f64>,
    /// Transmissibilities to the Dirichlet sides of x, by (j, k), and y, by (i, k).
    pub(super) ends: Ends,
}

impl Diffusion {
    pub(super) fn face_form(&self) -> FaceForm {
        let shape @ Shape { nx, ny, nz } = self.shape();
        let faces = match self.coefficients() {
            Coefficients::Faces(faces) => faces.clone(),
            _ => Axis::ALL.map(|axis| self.faces_along(axis)),
        };
        let end = |axis: Axis, upper: bool| -> Arc<[f64]> {
            let at = |n: usize, count: usize| if upper { count - 1 } else { n };
            match axis {
                Axis::X => (0..nz)
                    .flat_map(|k| (0..ny).map(move |j| [at(0, nx), j, k]))
                    .map(|c| self.end(axis, upper, c))
                    .collect(),
                _ => (0..nz)
                    .flat_map(|k| (0..nx).map(move |i| [i, at(0, ny), k]))
                    .map(|c| self.end(axis, upper, c))
                    .collect(),
            }
        };
        let ends = [Axis::X, Axis::Y].map(|axis| [end(axis, false), end(axis, true)]);
        let mut inner_shift = match self.stored_shift() {
            Some(shift) => shift.to_vec(),
            None => vec![0.0; shape.cells()],
        };
        if matches!(self.coefficients(), Coefficients::Faces(_)) {
            // The stored shift holds the ends. What is left of a difference of sums is not negative but for rounding.
            for k in 0..nz {
                for j in 0..ny {
                    for (side, i) in [0, nx - 1].into_iter().enumerate() {
                        let inner = &mut inner_shift[i + nx * (j + ny * k)];
                        *inner = (*inner - ends[0][side][j + ny * k]).max(0.0);
                    }
                }
                for i in 0..nx {
                    for (side, j) in [0, ny - 1].into_iter().enumerate() {
                        let inner = &mut inner_shift[i + nx * (j + ny * k)];
                        *inner = (*inner - ends[1][side][i + nx * k]).max(0.0);
                    }
                }
            }
        } else {
            for k in if nz > 1 { vec![0, nz - 1] } else { vec![0] } {
                for j in 0..ny {
                    for i in 0..nx {
                        inner_shift[i + nx * (j + ny * k)] += self.vertical_ends([i, j, k]);
                    }
                }
            }
        }
        FaceForm { shape, faces, inner_shift, ends }
    }

    /// Calls `f(lower cell, upper cell, T)` for every open face.
    pub(crate) fn for_each_open_face(&self, mut f: impl FnMut(usize, usize, f64)) {
        let Shape { nx, ny, nz } = self.shape();
        for axis in Axis::ALL {
            let (count, stride) = [(nx, 1), (ny, nx), (nz, nx * ny)][axis as usize];
            if count == 1 {
                continue;
            }
            let faces = match self.coefficients() {
                Coefficients::Faces(faces) => faces[axis as usize].clone(),
                _ => self.faces_along(axis),
            };
            for (block, faces) in faces.chunks(count * stride).enumerate() {
                let first = block * count * stride;
                for (n, &t) in faces.iter().enumerate().filter(|(_, t)| **t > 0.0) {
                    // The last row's upper neighbour is the first, across a periodic side.
                    let upper = if n < (count - 1) * stride { n + stride } else { n - (count - 1) * stride };
                    f(first + n, first + upper, t);
                }
            }
        }
    }

    /// Calls `f(cell, s)` for every cell with s > 0.
    pub(crate) fn for_each_shift(&self, mut f: impl FnMut(usize, f64)) {
        let Shape { nx, ny, nz } = self.shape();
        let fixed = self.sides().map(|sides| sides.contains(&Side::Fixed));
        let mut visit = |at: [usize; 3]| {
            let shift = self.shift(at);
            if shift > 0.0 {
                f(self.cell(at), shift);
            }
        };
        for k in 0..nz {
            for j in 0..ny {
                let on_side = fixed[1] && (j == 0 || j + 1 == ny) || fixed[2] && (k == 0 || k + 1 == nz);
                if on_side || self.stored_shift().is_some() {
                    (0..nx).for_each(|i| visit([i, j, k]));
                } else if fixed[0] {
                    visit([0, j, k]);
                    if nx > 1 {
                        visit([nx - 1, j, k]);
                    }
                }
            }
        }
    }

    /// The faces of one direction, from cells: rows of a plane against the next row or plane.
    fn faces_along(&self, axis: Axis) -> Arc<[f64]> {
        let Shape { nx, ny, nz } = self.shape();
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return Arc::from(Vec::new()) };
        let (field, factor) = axes[axis as usize];
        let h = &fields[field];
        let (count, stride) = [(nx, 1), (ny, nx), (nz, nx * ny)][axis as usize];
        let mut faces = vec![0.0; h.len()];
        // Blocks of `count` rows of `stride` cells each.
        for (faces, h) in faces.chunks_mut(count * stride).zip(h.chunks(count * stride)) {
            let last = (count - 1) * stride;
            for ((face, &a), &b) in faces[..last].iter_mut().zip(h).zip(&h[stride..]) {
                *face = factor * harmonic(a, b);
            }
            if self.is_periodic(axis) && count > 1 {
                for ((face, &a), &b) in faces[last..].iter_mut().zip(&h[last..]).zip(h) {
                    *face = factor * harmonic(a, b);
                }
            }
        }
        Arc::from(faces)
    }
}
