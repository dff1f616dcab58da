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
    all.push(isobar_cuda::galerkin::columns_source::<T>(256));
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

/// A compilation: a source, an architecture, and the kernel to be compiled alone, if any.
type Job<'a> = (&'a Source, &'static str, Option<&'static str>);

/// Every file for every architecture: those of many forms for one architecture a form, by turns. One kernel of each file is
/// compiled alone, too, as all are for a solver.
fn jobs(sources: &[Source]) -> Vec<Job<'_>> {
    let mut of_name = std::collections::HashMap::<&str, Vec<&Source>>::new();
    for source in sources {
        of_name.entry(source.name).or_default().push(source);
    }
    let mut jobs = Vec::new();
    for forms in of_name.values() {
        if forms.len() < ARCHITECTURES.len() {
            let everywhere = |&source| ARCHITECTURES.map(|architecture| (source, architecture, None));
            jobs.extend(forms.iter().flat_map(everywhere));
        } else {
            let by_turns = forms.iter().zip(ARCHITECTURES.into_iter().cycle());
            jobs.extend(by_turns.map(|(&source, architecture)| (source, architecture, None)));
        }
        jobs.extend(kernels(forms[0].text()).next().map(|kernel| (forms[0], ARCHITECTURES[2], Some(kernel))));
    }
    jobs
}

/// The names of a source's kernels, but for those that macros make.
fn kernels(text: &'static str) -> impl Iterator<Item = &'static str> {
    let declared = text.split("\nKERNEL(").skip(1);
    declared.map(|after| &after[..after.find([',', ')']).expect("a name ends")])
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
                for (source, architecture, kernel) in share {
                    let options = source.options(architecture, *kernel);
                    let name = format!("{}.cu", source.name);
                    let compiled = nvrtc.compile(&name, source.text(), &options).unwrap_or_else(|e| panic!("{e}"));
                    assert!(compiled.log.trim().is_empty(), "{options:?}\n{}", compiled.log);
                    assert!(compiled.cubin.starts_with(b"\x7fELF"), "{options:?}");
                    let has = |name: &str| {
                        let symbol = format!("\0{name}\0").into_bytes();
                        compiled.cubin.windows(symbol.len()).any(|bytes| bytes == symbol)
                    };
                    for other in kernels(source.text()).filter(|name| kernel.is_some_and(|kernel| kernel != *name)) {
                        assert!(!has(other), "{other} is compiled, too: {options:?}");
                    }
                }
            });
        }
    });
    println!("{} sources, {} compilations", sources.len(), jobs.len());
}
