//! All transmissibilities of a diffusion operator at once.

use std::sync::Arc;

use super::Stencil;
use super::diffusion::{Axis, Coefficients, Diffusion, Side, harmonic};
use crate::layout::Shape;

impl Diffusion {
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
