//! The sizes of Galerkin levels, known before their matrices.

use super::Grid;
use super::couplings::strong;
use crate::layout::Shape;

/// Returns the grid of each level below one with these average couplings in x, y and z, and how many couplings a cell stores there: half
/// of its neighbours, which lie in any combination of directions that have been halved, and in at most one of the others. `halves_lines`
/// states whether z is halved in addition to other directions. Levels end with at most `coarsest` cells, or with as many levels as are
/// `wanted`, the first one included.
pub fn level_sizes(
    mut shape: Shape,
    mut strengths: [f64; 3],
    halves_lines: bool,
    coarsest: usize,
    wanted: Option<usize>,
) -> Vec<(Shape, usize)> {
    let (mut levels, mut is_halved) = (Vec::new(), [false; 3]);
    while wanted.map_or(shape.cells() > coarsest, |wanted| levels.len() + 1 < wanted) {
        let mut n = [shape.nx, shape.ny, shape.nz];
        let mean = |d: usize| if n[d] > 1 { strengths[d] } else { 0.0 };
        let axes =
            strong(&Grid { shape, periodic: [false; 3] }, [mean(0), 1.0, mean(1), 1.0, mean(2), 1.0], halves_lines);
        if axes.is_empty() {
            break;
        }
        for d in axes.into_iter().map(|axis| axis as usize) {
            n[d] = n[d].div_ceil(2);
            // Half as many faces along it, of half the coupling each; twice the area of the others.
            strengths[d] /= 4.0;
            is_halved[d] = true;
        }
        shape = Shape::new(n[0], n[1], n[2]);
        let count = |halved| (0..3).filter(|&d| n[d] > 1 && is_halved[d] == halved).count();
        levels.push((shape, 3usize.pow(count(true) as u32) * (1 + 2 * count(false)) / 2));
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Boundary, Coefficient, DiffusionProblem, Spacing};
    use crate::stencil::galerkin::{Couplings, Serial, coarsen};

    #[test]
    fn sizes_are_those_of_the_levels_that_are_made() {
        for (shape, widths, periodic) in [
            (Shape::new(40, 30, 3), [1.0; 3], false),
            (Shape::new(64, 48, 1), [1.0, 9.0, 1.0], false),
            (Shape::new(34, 1, 50), [1.0; 3], true),
            (Shape::new(16, 32, 2), [7.0, 1.0, 1.0], true),
            (Shape::new(17, 20, 12), [7.0, 1.0, 1.0], false),
            (Shape::new(12, 12, 60), [1.0, 1.0, 0.1], false),
        ] {
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
            problem.spacing = widths.map(Spacing::Uniform);
            if periodic {
                problem.boundary[0] = [Boundary::Periodic; 2];
            }
            let mut matrix: Couplings = Couplings::of(&Serial, &problem.stencil().unwrap());
            let mut made = Vec::new();
            while matrix.grid.shape.cells() > 256 {
                let axes = matrix.strong_axes(&Serial, true).unwrap();
                matrix = coarsen(&Serial, matrix, &axes).unwrap().coarse;
                made.push((matrix.grid.shape, matrix.present.iter().filter(|&&present| present).count()));
            }
            assert_eq!(level_sizes(shape, widths.map(|width: f64| width.powi(-2)), true, 256, None), made);
            assert_eq!(level_sizes(shape, [1.0; 3], true, 256, Some(2)).len(), 1);
        }
    }
}
