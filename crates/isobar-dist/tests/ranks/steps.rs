//! Steps with triangular parts on ranks, compared with one.

use std::sync::Arc;

use isobar_core::conformance::arrays::noise;
use isobar_core::prelude::*;
use isobar_dist::{join, threads};

use crate::rocks::rough;
use crate::solves::{Devices, Like, check_updated, joined, part_of, possible};

/// Runs every step with triangular parts, on a rank's subdomain, for blocks of these sizes.
fn steps<B: Supports<Diffusion>, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    rows: Slab,
    [r, w]: [&[f64]; 2],
    blocks: &[usize],
) -> Result<Vec<Vec<f64>>> {
    let (shape, layout) = (stencil.shape(), backend.layout(stencil)?);
    let triangular = backend.capabilities(&backend.operator::<T>(stencil)?).triangular.unwrap();
    let vector = |values: &[f64]| -> Result<B::Vector<T>> {
        let mut v = backend.zeros(&layout)?;
        backend.upload(part_of(values, shape, rows), &mut v)?;
        Ok(v)
    };
    let (mut r, mut w, mut v, mut pivots) = (vector(r)?, vector(w)?, backend.zeros(&layout)?, backend.zeros(&layout)?);
    let mut found = Vec::new();
    let mut note = |v: &B::Vector<T>| -> Result<()> {
        let mut values = vec![0.0; rows.shape(shape).cells()];
        backend.download(v, &mut ArrayViewMut::c_order(&mut values, rows.shape(shape))?)?;
        found.push(values);
        Ok(())
    };
    triangular.relax_lower(&r, [&mut w, &mut v], None)?;
    note(&v)?;
    triangular.relax_upper(&mut r, Some(&mut w), &mut v)?;
    note(&v)?;
    for &block in blocks {
        for relaxation in [0.0, 0.95] {
            triangular.factorise(block, relaxation, &mut pivots)?;
            note(&pivots)?;
            triangular.substitute(block, &pivots, &r, &mut v)?;
            note(&v)?;
        }
    }
    triangular.factorise(1, 0.0, &mut pivots)?;
    for is_scaled in [false, true] {
        triangular.incomplete_poisson(is_scaled, &pivots, [&mut r, &mut v])?;
        note(&v)?;
    }
    Ok(found)
}

/// Checks that every number equals that of one rank: rows do not depend on ranks.
pub(crate) fn check_steps<T: Real>(backend: &impl Devices, stencil: &Diffusion, ranks: &[usize]) {
    check_steps_within::<T>(backend, stencil, ranks, 0.0);
}

/// Checks this up to rounding, relative to the largest number of a step.
pub(crate) fn check_steps_within<T: Real>(backend: &impl Devices, stencil: &Diffusion, ranks: &[usize], rounding: f64) {
    let shape = Stencil::shape(stencil);
    let [r, w] = [1, 2].map(|seed| noise(shape.cells(), seed));
    // Blocks within rows, of rows and more, of layers and more, and the whole grid; slabs cut some of them.
    let Shape { nx, ny, .. } = shape;
    let blocks = [3, nx, 2 * nx, 3 * nx + 1, 8 * nx, nx * ny, 2 * nx * ny + 5, usize::MAX];
    // Elimination does not support a periodic y.
    let blocks = if stencil.is_periodic(Axis::Y) { &blocks[..0] } else { &blocks };
    let expected = steps::<_, T>(&backend.of(None), stencil, Slab::whole(shape), [&r, &w], blocks).unwrap();
    for ranks in possible(backend, ranks) {
        let parts = threads::run(ranks, |world| {
            let backend = join(backend.of(Some(&world)), Arc::new(world));
            let rows = backend.own_rows(shape)?;
            Ok((rows, steps::<_, T>(&backend, stencil, rows, [&r, &w], blocks)?))
        });
        let parts = parts.unwrap();
        for (n, expected) in expected.iter().enumerate() {
            let of_step: Vec<_> = parts.iter().map(|(rows, steps)| (*rows, steps[n].clone())).collect();
            let found = joined(shape, &of_step);
            let most = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let is_same = |a: f64, b: f64| a == b || (a - b).abs() <= rounding * most;
            let off = found.iter().zip(expected).position(|(&a, &b)| !is_same(a, b));
            assert_eq!(off, None, "step {n} of {shape} on {ranks:?} ranks");
        }
    }
}

/// Returns conjugate gradients with a preconditioner.
pub(crate) fn with(preconditioner: Preconditioner) -> SolverOptions {
    SolverOptions { method: Method::Cg, preconditioner, tolerance: 1e-9, ..SolverOptions::default() }
}

/// Checks that new coefficients, of which there is one for every direction, reach these preconditioners on all ranks.
pub(crate) fn check_updates(backend: &impl Devices, ranks: &[usize], kinds: &[Preconditioner]) {
    let after = rough(Shape::new(9, 14, 6));
    let coefficient = Coefficient::Diagonal([0, 1, 2].map(|_| vec![0.1; after.shape.cells()]));
    let stencils = [DiffusionProblem { coefficient, ..after.clone() }, after].map(|problem| problem.stencil().unwrap());
    let rhs = noise(stencils[0].shape().cells(), 6);
    for &kind in kinds {
        check_updated(backend, stencils.each_ref(), ranks, &with(kind), &rhs, Like::up_to(1, 1e-7));
    }
}
