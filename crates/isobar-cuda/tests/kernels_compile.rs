//! Every kernel compiles, without a warning, even without a GPU: every file for every supported architecture. Without
//! NVRTC the test is reported as ignored, unless `ISOBAR_REQUIRE_NVRTC=1`.

mod common;

use std::process::ExitCode;

use common::Needing;
use isobar_cuda::compile::Source;
use isobar_cuda::nvrtc::Nvrtc;

const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_80", "sm_90"];

fn main() -> ExitCode {
    let mut all = Needing::new(Nvrtc::get(), "ISOBAR_REQUIRE_NVRTC");
    all.add("every_kernel_compiles_without_a_warning", |nvrtc| every_kernel_compiles_without_a_warning(nvrtc));
    all.run()
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
        jobs.extend(forms[0].kernels().next().map(|kernel| (forms[0], ARCHITECTURES[2], Some(kernel))));
    }
    jobs
}

fn every_kernel_compiles_without_a_warning(nvrtc: &Nvrtc) {
    let sources = isobar_cuda::variants::all().unwrap();
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
                    for other in source.kernels().filter(|name| kernel.is_some_and(|kernel| kernel != *name)) {
                        assert!(!has(other), "{other} is compiled, too: {options:?}");
                    }
                }
            });
        }
    });
    println!("{} sources, {} compilations", sources.len(), jobs.len());
}
