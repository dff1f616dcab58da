//! Means over the cells of a sample.

use isobar_core::prelude::{Axis, Coefficient, DiffusionProblem, Execute, Host, Shape, Spacing};

/// Returns whether the mask marks a cell as active.
fn is_active(problem: &DiffusionProblem, n: usize) -> bool {
    problem.active.as_ref().is_none_or(|active| active[n])
}

/// Returns whether all cells of a problem are closed; its arrays have the right lengths.
pub(super) fn is_closed(problem: &DiffusionProblem) -> bool {
    let cells = problem.shape.cells();
    let has = |length: usize| length == cells;
    has(problem.active.as_ref().map_or(cells, Vec::len))
        && Axis::ALL.iter().all(|&axis| has(problem.coefficient.along(axis).len()))
        && cells > 0
        && (0..cells)
            .all(|n| !is_active(problem, n) || Axis::ALL.iter().all(|&axis| problem.coefficient.along(axis)[n] == 0.0))
}

/// Returns the volume means of κ and of 1/κ along each axis, and the part of the volume whose cells are open.
pub(super) fn means_and_porosity(problem: &DiffusionProblem) -> ([[f64; 2]; 3], f64) {
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
pub(super) fn means<const N: usize>(
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
