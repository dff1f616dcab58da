//! Variants of all sources: with every kind of definitions, so that tests can compile every kernel without a GPU.

use std::sync::Arc;

use isobar_core::prelude::{Coefficients, Diffusion, Real, Result, Shape, Side, Stencil};

use crate::cuda::{array_source, vector_source};
use crate::galerkin::setup::Number;
use crate::tensor_product::tile::{Sources, Tile};
use crate::tensor_product::{expand, modes, planes, single};
use crate::{Source, aggregate, diffusion, direct, galerkin, nccl, peers, problem, stored_matrix};

/// Returns the sources that every GPU needs, whatever the solver.
pub fn sources() -> [Source; 5] {
    [vector_source::<f64>(), vector_source::<f32>(), array_source::<f64>(), array_source::<f32>(), problem::source()]
}

/// Returns the variants, each once.
///
/// # Errors
/// None, unless a source of these sizes is not supported.
pub fn all() -> Result<Vec<Source>> {
    let mut all: Vec<Source> = sources().into();
    all.extend([
        direct::source(),
        direct::divided::source(),
        direct::axis::source(256, true, false),
        direct::axis::source(405, false, true),
        peers::source(),
        nccl::source(),
    ]);
    of_operators::<f64>(&mut all)?;
    of_operators::<f32>(&mut all)?;
    let mut seen = std::collections::HashSet::new();
    all.retain(|source| seen.insert(source.clone()));
    Ok(all)
}

/// Returns stencils with every kind of coefficients, of sides, and of columns, alternately with and without a shift.
fn diffusion_stencils() -> Result<Vec<Diffusion>> {
    let mut all = Vec::new();
    for kind in 0..4 {
        for (n, side) in [Side::Closed, Side::Fixed, Side::Periodic].into_iter().enumerate() {
            let shape = Shape::new(4, 4, if (kind + n) % 2 == 0 { 1 } else { 2 });
            let field: Arc<[f64]> = vec![1.0; shape.cells()].into();
            let coefficients = match kind {
                0 => Coefficients::Faces([field.clone(), field.clone(), field.clone()]),
                fields => Coefficients::Cells {
                    fields: vec![field.clone(); fields],
                    axes: [0, 1, 2].map(|axis: usize| (axis.min(fields - 1), 1.0)),
                },
            };
            let shift = ((kind + n) % 3 != 0).then(|| field.to_vec());
            all.push(Diffusion::new(shape, coefficients, shift, [[side; 2]; 3])?);
        }
    }
    Ok(all)
}

fn of_operators<T: Real>(all: &mut Vec<Source>) -> Result<()> {
    all.push(stored_matrix::source::<T>());
    all.push(aggregate::source::<T>());
    all.extend(galerkin::sources::<T>());
    all.extend([galerkin::columns_source::<T>(256), galerkin::apply_source::<T>(true)]);
    all.extend([256, 512].map(galerkin::small_source::<T>));
    for (layers, columns) in [(7, 1 << 15), (100, 1 << 15), (128, 1 << 18)] {
        all.extend(single::sources(Tile::new::<f64>(layers, columns)?, layers, 10));
    }
    for count in [1, 5, 32] {
        for (layers, columns) in [(7, 1), (100, 1), (128, 1 << 18)] {
            let tile = Tile::new::<T>(layers, columns)?;
            all.push(expand::sweep_source::<T, T>(tile, layers, count));
            all.push(expand::sweep_source::<T, f32>(tile, layers, count));
        }
        all.push(modes::source::<T, T>(count));
        all.push(modes::source::<T, f32>(count));
    }
    all.extend([true, false].map(planes::source::<T>));
    all.extend([Number::Single, Number::Double].map(galerkin::setup::source::<T>));
    // The finest grid, halved in x.
    let present = |directions: &[usize]| std::array::from_fn(|n| directions.contains(&n));
    let [seven, halved] = [present(&[0, 2, 8]), present(&[0, 1, 2, 3, 7, 8, 9])];
    for number in [Number::Single, Number::Double] {
        all.extend(galerkin::setup::sources(number, &seven, &halved));
    }
    for (n, stencil) in diffusion_stencils()?.into_iter().enumerate() {
        // Layers of every depth of a thread.
        let layers = if stencil.shape().nz == 1 { vec![1] } else { vec![2, 32, 64, 100, 300, 600] };
        // Every second one also for vectors of 2³¹ elements and more.
        all.extend(diffusion::sources::<T>(&stencil, &layers, !n.is_multiple_of(2)));
    }
    // A number of layers that fills its chunks and is known to the compiler, and one that does not; even and odd.
    for (nx, ny, nz) in [(512, 512, 128), (1, 1, 128), (512, 512, 33), (1, 1, 1), (511, 512, 128), (64, 33, 40)] {
        let Sources { tables, apply, transfer, smooth, stream, mixed, cg, advance, residual } =
            Sources::new::<T>(Tile::new::<T>(nz, nx * ny)?, nz, nx % 2 + ny % 2 > 0);
        all.extend([tables, apply, transfer, smooth, stream, mixed, cg, advance, residual]);
    }
    Ok(())
}
