//! Every kernel compiles, without a warning, for every architecture that is supported, where there is no
//! card. Without NVRTC the test says so and passes, unless `ISOBAR_REQUIRE_NVRTC=1`.

use std::sync::Arc;

use isobar_core::layout::Shape;
use isobar_core::real::Real;
use isobar_core::stencil::{Coefficients, Diffusion, Side};
use isobar_cuda::compile::Source;
use isobar_cuda::diffusion::kind::Kind;
use isobar_cuda::nvrtc::Nvrtc;
use isobar_cuda::tensor_product::cut::{Cut, Sources};

const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_80", "sm_90"];

/// Every kind of coefficients, of sides, and of columns, by turns, with and without a shift.
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
    all.push(isobar_cuda::region::source::<T>());
    all.push(isobar_cuda::diffusion::kind::transfer::<T>());
    for (n, stencil) in diffusion_stencils().into_iter().enumerate() {
        // Vectors of 2³¹ elements and more by turns, too.
        let kind = if n.is_multiple_of(2) { Kind::of(&stencil) } else { Kind::of(&stencil).widened() };
        all.extend([kind.passes::<T>(), kind.substitute::<T>()]);
        let levels = stencil.shape().nz;
        // Few levels, many, and very many.
        all.extend(if levels == 1 { vec![1] } else { vec![2, 100, 300] }.into_iter().map(|n| kind.lines::<T>(n)));
    }
    // A number of levels that fills its chunks and is known to the compiler, and one that does not.
    for (levels, columns) in [(128, 1 << 18), (128, 1), (33, 1 << 18), (1, 1)] {
        let sources = Sources::new::<T>(Cut::new::<T>(levels, columns).unwrap(), levels);
        all.extend([sources.smooth, sources.cg, sources.advance, sources.apply]);
        all.extend(sources.transfer);
        all.extend(sources.march);
        all.push(sources.mixed);
    }
}

#[test]
fn every_kernel_compiles_without_a_warning() {
    let nvrtc = match Nvrtc::get() {
        Ok(nvrtc) => nvrtc,
        Err(error) if std::env::var_os("ISOBAR_REQUIRE_NVRTC").is_some_and(|v| v == "1") => panic!("{error}"),
        Err(error) => {
            println!("skipped: no NVRTC ({error})");
            return;
        }
    };
    let mut sources = isobar_cuda::sources();
    of_operators::<f64>(&mut sources);
    of_operators::<f32>(&mut sources);
    let mut seen = std::collections::HashSet::new();
    sources.retain(|source| seen.insert(source.clone()));
    let jobs: Vec<_> =
        sources.iter().flat_map(|source| ARCHITECTURES.map(|architecture| (source, architecture))).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for share in jobs.chunks(jobs.len().div_ceil(threads)) {
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
    println!("{} sources, each for {ARCHITECTURES:?}", sources.len());
}
