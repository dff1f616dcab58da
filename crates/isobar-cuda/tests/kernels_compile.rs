//! Every kernel compiles, without a warning, even without a GPU: every file for every supported architecture. Without
//! NVRTC the test is reported as ignored, unless `ISOBAR_REQUIRE_NVRTC=1`.

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use common::Needing;
use isobar_core::layout::Shape;
use isobar_core::real::Real;
use isobar_core::stencil::{Coefficients, Diffusion, Side, Stencil};
use isobar_cuda::compile::Source;
use isobar_cuda::galerkin::setup::Number;
use isobar_cuda::nvrtc::Nvrtc;
use isobar_cuda::tensor_product::tile::{Sources, Tile};

const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_80", "sm_90"];

fn main() -> ExitCode {
    let mut all = Needing::new(Nvrtc::get(), "ISOBAR_REQUIRE_NVRTC");
    all.add("every_kernel_compiles_without_a_warning", |nvrtc| every_kernel_compiles_without_a_warning(nvrtc));
    all.run()
}

/// Returns stencils with every kind of coefficients, of sides, and of columns, alternately with and without a shift.
fn diffusion_stencils() -> Vec<Diffusion> {
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
            all.push(Diffusion::new(shape, coefficients, shift, [[side; 2]; 3]).unwrap());
        }
    }
    all
}

fn of_operators<T: Real>(all: &mut Vec<Source>) {
    all.push(isobar_cuda::stored_matrix::source::<T>());
    all.push(isobar_cuda::aggregate::source::<T>());
    all.extend(isobar_cuda::galerkin::sources::<T>());
    for (layers, columns) in [(7, 1 << 15), (100, 1 << 15), (128, 1 << 18)] {
        let tile = Tile::new::<f64>(layers, columns).unwrap();
        all.extend(isobar_cuda::tensor_product::single::sources(tile, layers, 10));
    }
    for count in [1, 5, 32] {
        for (layers, columns) in [(7, 1), (100, 1), (128, 1 << 18)] {
            let tile = Tile::new::<T>(layers, columns).unwrap();
            all.push(isobar_cuda::tensor_product::modes::sweep_source::<T, T>(tile, layers, count));
            all.push(isobar_cuda::tensor_product::modes::sweep_source::<T, f32>(tile, layers, count));
        }
        all.push(isobar_cuda::tensor_product::modes::source::<T, T>(count));
        all.push(isobar_cuda::tensor_product::modes::source::<T, f32>(count));
    }
    all.extend([true, false].map(isobar_cuda::tensor_product::planes::source::<T>));
    all.extend([Number::Single, Number::Double].map(isobar_cuda::galerkin::setup::source::<T>));
    // The finest grid, halved in x.
    let present = |directions: &[usize]| std::array::from_fn(|n| directions.contains(&n));
    let [seven, halved] = [present(&[0, 2, 8]), present(&[0, 1, 2, 3, 7, 8, 9])];
    for number in [Number::Single, Number::Double] {
        all.extend(isobar_cuda::galerkin::setup::sources(number, &seven, &halved));
    }
    for (n, stencil) in diffusion_stencils().into_iter().enumerate() {
        // Few layers, many, and very many.
        let layers = if stencil.shape().nz == 1 { vec![1] } else { vec![2, 100, 300, 600] };
        // Every second one also for vectors of 2³¹ elements and more.
        all.extend(isobar_cuda::diffusion::sources::<T>(&stencil, &layers, !n.is_multiple_of(2)));
    }
    // A number of layers that fills its chunks and is known to the compiler, and one that does not; even and odd.
    for (nx, ny, nz) in [(512, 512, 128), (1, 1, 128), (512, 512, 33), (1, 1, 1), (511, 512, 128), (64, 33, 40)] {
        let Sources { tables, apply, transfer, smooth, stream, mixed, cg, advance, residual } =
            Sources::new::<T>(Tile::new::<T>(nz, nx * ny).unwrap(), nz, nx % 2 + ny % 2 > 0);
        all.extend([tables, apply, transfer, smooth, stream, mixed, cg, advance, residual]);
    }
}

/// Returns every file for every architecture; a file with many forms for one architecture each, in turn.
fn jobs(sources: &[Source]) -> Vec<(&Source, &'static str)> {
    let mut forms = std::collections::HashMap::<&str, usize>::new();
    let mut jobs = Vec::new();
    for source in sources {
        let form = forms.entry(source.name).or_default();
        jobs.push((source, ARCHITECTURES[*form % ARCHITECTURES.len()]));
        *form += 1;
    }
    for source in sources.iter().filter(|source| forms[source.name] < ARCHITECTURES.len()) {
        jobs.extend(ARCHITECTURES.map(|architecture| (source, architecture)));
    }
    jobs
}

fn every_kernel_compiles_without_a_warning(nvrtc: &Nvrtc) {
    let mut sources: Vec<Source> = isobar_cuda::sources().into();
    sources.extend([
        isobar_cuda::direct::source(),
        isobar_cuda::direct::axis::source(256, true, false),
        isobar_cuda::direct::axis::source(405, false, true),
        isobar_cuda::peers::source(),
        isobar_cuda::nccl::source(),
    ]);
    of_operators::<f64>(&mut sources);
    of_operators::<f32>(&mut sources);
    let mut seen = std::collections::HashSet::new();
    sources.retain(|source| seen.insert(source.clone()));
    let jobs = jobs(&sources);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let share = jobs.iter().skip(thread).step_by(threads);
            scope.spawn(move || {
                for (source, architecture) in share {
                    let options = source.options(architecture);
                    let name = format!("{}.cu", source.name);
                    let compiled = nvrtc.compile(&name, source.text(), &options).unwrap_or_else(|e| panic!("{e}"));
                    assert!(compiled.log.trim().is_empty(), "{options:?}\n{}", compiled.log);
                    assert!(compiled.cubin.starts_with(b"\x7fELF"), "{options:?}");
                }
            });
        }
    });
    println!("{} sources, {} compilations", sources.len(), jobs.len());
}
