//! The levels of multigrid that points and lines are relaxed on.

use super::{HOST, MatrixKind, MatrixSize, Setup};
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::options::Smoother;
use crate::stencil::TensorProduct;
use crate::stencil::halving::{End, halvings};

impl Setup<'_> {
    /// The levels of multigrid, and the vectors of a cycle.
    pub(super) fn hierarchy(&mut self, matrix: &MatrixSize, size: usize) -> Result<()> {
        let shapes = match matrix.kind {
            MatrixKind::Diffusion { .. } if self.options.multigrid.smoother == Smoother::PointRedBlack => {
                self.points(matrix, size)?
            }
            MatrixKind::Diffusion { .. } if self.options.multigrid.smoother == Smoother::PointLine => {
                self.points_above_lines(matrix, size)?
            }
            MatrixKind::Diffusion { .. } => self.galerkin(matrix, size, self.options.multigrid.levels)?,
            _ => {
                let shapes = halved(matrix, self.options.multigrid.levels);
                for &shape in &shapes[1..] {
                    // The columns' factors on the host, and the corners that they are computed from.
                    self.pass(HOST, (16 * 8 * shape.nx * shape.ny) as f64);
                    self.operator(&MatrixSize { shape, ..*matrix }, &Layout::new(shape)?, size);
                }
                shapes
            }
        };
        for (n, &shape) in shapes.iter().enumerate() {
            let is_jacobi = n > 0 && self.sweeps_by_jacobi() && matches!(matrix.kind, MatrixKind::Diffusion { .. });
            let scratch = is_jacobi || self.needs_scratch(matrix) || self.streams(matrix, shape);
            let scratch = f64::from(u8::from(scratch));
            self.vectors(if n > 0 { 2.0 + scratch } else { scratch }, &Layout::new(shape)?, size);
        }
        Ok(())
    }

    /// Coarser levels of points: their coefficients, of each direction its own where cells differ in width; the grids.
    fn points(&mut self, matrix: &MatrixSize, size: usize) -> Result<Vec<Shape>> {
        let mut shapes = vec![matrix.shape];
        let MatrixKind::Diffusion { strengths, is_periodic, mut fields, has_shift } = matrix.kind else {
            return Ok(shapes);
        };
        let ends = is_periodic.map(|is_ring| [if is_ring { End::Ring } else { End::Closed }; 2]);
        for by in halvings(matrix.shape, ends, strengths, self.options.multigrid.levels) {
            if !by.is_regular {
                fields = 3;
            }
            let kind = MatrixKind::Diffusion { fields, has_shift, strengths, is_periodic };
            if !self.is_cuda() {
                // The same on the host, as they were before they were arranged.
                self.keep(HOST, (8 * (fields + usize::from(has_shift)) * by.coarse.cells()) as f64);
            }
            self.operator(&MatrixSize { shape: by.coarse, kind }, &Layout::new(by.coarse)?, size);
            shapes.push(by.coarse);
        }
        Ok(shapes)
    }

    /// Points above lines: the faces of the grid below the finest, and that grid's Galerkin levels.
    fn points_above_lines(&mut self, matrix: &MatrixSize, size: usize) -> Result<Vec<Shape>> {
        let mut shapes = vec![matrix.shape];
        let MatrixKind::Diffusion { mut strengths, is_periodic, .. } = matrix.kind else { return Ok(shapes) };
        let ends = is_periodic.map(|is_ring| [if is_ring { End::Ring } else { End::Closed }; 2]);
        let Some(by) = halvings(matrix.shape, ends, strengths, Some(2)).into_iter().next() else { return Ok(shapes) };
        for (strength, is_halved) in strengths.iter_mut().zip(by.halved()) {
            *strength *= if is_halved { 0.25 } else { 1.0 };
        }
        let kind = MatrixKind::Diffusion { fields: 3, has_shift: true, strengths, is_periodic };
        let coarse = MatrixSize { shape: by.coarse, kind };
        // Faces and shift as they were before they were arranged.
        self.keep(HOST, (8 * 4 * by.coarse.cells()) as f64);
        self.operator(&coarse, &Layout::new(by.coarse)?, size);
        let wanted = self.options.multigrid.levels.map(|wanted| wanted.saturating_sub(1).max(1));
        shapes.extend(self.galerkin(&coarse, size, wanted)?);
        Ok(shapes)
    }
}

/// The grids of a matrix whose levels are not Galerkin's, finest first.
pub(super) fn halved(matrix: &MatrixSize, wanted: Option<usize>) -> Vec<Shape> {
    let halves = matches!(matrix.kind, MatrixKind::TensorProduct);
    let shapes = std::iter::successors(Some(matrix.shape), |shape| shape.halved().filter(|_| halves));
    shapes.take(wanted.unwrap_or(TensorProduct::DEFAULT_LEVELS).max(1)).collect()
}
