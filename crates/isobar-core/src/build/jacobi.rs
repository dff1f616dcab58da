//! The short trial of Jacobi's method, by which [`policy::jacobi`](crate::policy::jacobi) chooses sub-iterations and overlap.

use std::time::Instant;

use crate::operator::PointSmoother;
use crate::options::{JacobiOptions, PointCycle};
use crate::policy::jacobi::{Cost, best, may_try};
use crate::{Backend, Real, Result, Scalar};

/// Numbers of sub-iterations that are timed.
const TIMED: [usize; 2] = [2, 18];
/// The number of timings of each candidate, of which the shortest counts.
const REPEATS: usize = 2;
/// Returns the cycle that is predicted to converge first, among those that the options allow, with the tiles of `cycle`, the
/// choice without a trial; and a note.
///
/// # Errors
/// The errors of the device; no memory for the three vectors that cycles are timed with.
pub(super) fn choose<B: Backend, T: Real>(
    points: &dyn PointSmoother<B, T>,
    options: &JacobiOptions,
    cycle: PointCycle,
) -> Result<(PointCycle, Option<String>)> {
    let shape = points.layout().shape();
    let device = points.backend().device();
    if !may_try(options, &cycle, shape, [device.ranks > 1, device.kind == "cpu"]) {
        return Ok((cycle, None));
    }
    // Without overlap, so that even two sub-iterations are not plain sweeps, which devices may compute otherwise.
    let timed = PointCycle { overlap: [0; 3], ..cycle };
    let cost = measure(points, &timed)?;
    let note = format!(
        "sub-iterations and overlap by a trial: {:.1e} s a sub-iteration, {:.1e} s a cycle beside them",
        cost.sub_iteration, cost.beside
    );
    Ok((best(cost, &timed, options, cycle, shape), Some(note)))
}

/// Times cycles of few and of more sub-iterations.
fn measure<B: Backend, T: Real>(points: &dyn PointSmoother<B, T>, cycle: &PointCycle) -> Result<Cost> {
    let backend = points.backend();
    let layout = points.layout();
    let [f, mut u, mut v] = [backend.zeros::<T>(layout)?, backend.zeros(layout)?, backend.zeros(layout)?];
    let mut scalars = backend.scalars()?;
    let mut times = [f64::INFINITY; 2];
    for (time, sub_iterations) in times.iter_mut().zip(TIMED) {
        let cycle = PointCycle { sub_iterations, ..*cycle };
        points.prepare(&cycle)?;
        for _ in 0..=REPEATS {
            backend.synchronize()?;
            let clock = Instant::now();
            points.relax_points(&cycle, &f, &mut u, &mut v, Scalar::new(0).of(&mut scalars))?;
            backend.synchronize()?;
            *time = time.min(clock.elapsed().as_secs_f64());
        }
    }
    let [few, more] = TIMED.map(|count| count as f64);
    let sub_iteration = ((times[1] - times[0]) / (more - few)).max(1e-12);
    Ok(Cost { beside: (times[0] - few * sub_iteration).max(0.0), sub_iteration })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;
    use crate::options::{Count, Overlap};
    use crate::reference::Plain;
    use crate::stencil::{Diffusion, Side};

    #[test]
    fn what_is_given_stays() {
        let shape = Shape::new(40, 36, 1);
        let stencil =
            Diffusion::of_field(shape, vec![1.0; shape.cells()], [1.0; 3], None, [[Side::Fixed; 2]; 3]).unwrap();
        let points = Plain::<_, f64>::new(&stencil).unwrap();
        let start = PointCycle { sub_iterations: 6, tile: [16, 16, 1], overlap: [2, 2, 0], ..PointCycle::sweep(1.0) };
        let of = |options: &JacobiOptions| choose(&points, options, start).unwrap();
        let (chosen, note) = of(&JacobiOptions::default());
        assert!(note.unwrap().contains("trial") && chosen.tile == start.tile);
        let (chosen, _) = of(&JacobiOptions { sub_iterations: Count::Given(6), ..JacobiOptions::default() });
        assert_eq!(chosen.sub_iterations, 6);
        let (chosen, _) = of(&JacobiOptions { overlap: Overlap::All(2), ..JacobiOptions::default() });
        assert_eq!(chosen.overlap, [2, 2, 0]);
        let given =
            JacobiOptions { sub_iterations: Count::Given(6), overlap: Overlap::All(2), ..JacobiOptions::default() };
        assert_eq!(of(&given), (start, None));
        assert_eq!(of(&JacobiOptions { exact: true, ..JacobiOptions::default() }), (start, None));
    }
}
