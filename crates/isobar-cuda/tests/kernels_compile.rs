//! Every kernel compiles, without a warning, even without a GPU: the variants of all sources for sm_75 and sm_80, and the kernels that releases bring compiled for
//! sm_90, each alone, as for a solver. Of these, kernels in the pack of the folder `ISOBAR_KERNELS` are not compiled again. Without
//! NVRTC the tests are reported as ignored, unless `ISOBAR_REQUIRE_NVRTC=1`.

mod common;

use std::collections::HashMap;
use std::process::ExitCode;

use common::Needing;
use isobar_core::execute::{Execute, Host};
use isobar_cuda::compile::Source;
use isobar_cuda::nvrtc::Nvrtc;
use isobar_cuda::pack::{self, Pack, build, list};
use isobar_cuda::variants;

const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_80", "sm_90"];

fn main() -> ExitCode {
    let mut all = Needing::new(Nvrtc::get(), "ISOBAR_REQUIRE_NVRTC");
    all.add("every_variant_compiles_without_a_warning", |nvrtc| every_variant_compiles_without_a_warning(nvrtc));
    all.add("every_packed_kernel_compiles_alone", |nvrtc| every_packed_kernel_compiles_alone(nvrtc));
    all.run()
}

/// A compilation: a source and an architecture.
type Job<'a> = (&'a Source, &'static str);

/// Every source for every architecture, those of many forms for one architecture a form, by turns; for sm_90 if its kernels are not in `packed`.
fn jobs<'a>(sources: &'a [Source], packed: &[list::Listed]) -> Vec<Job<'a>> {
    let mut of_name = HashMap::<&str, Vec<&Source>>::new();
    for source in sources {
        of_name.entry(source.name).or_default().push(source);
    }
    let is_packed = |source: &Source, kernel: &str| {
        packed.iter().any(|listed| listed.source.name == source.name && listed.kernel == kernel)
    };
    let mut jobs = Vec::new();
    for forms in of_name.values() {
        let whole = forms[0].kernels().all(|kernel| is_packed(forms[0], kernel));
        let architectures = &ARCHITECTURES[..if whole { 2 } else { 3 }];
        if forms.len() < architectures.len() {
            let everywhere = |&source| architectures.iter().map(move |&architecture| (source, architecture));
            jobs.extend(forms.iter().flat_map(everywhere));
        } else {
            jobs.extend(forms.iter().copied().zip(architectures.iter().copied().cycle()));
        }
    }
    jobs
}

fn packed() -> Vec<list::Listed> {
    list::read(list::PACKED, &variants::all().unwrap()).unwrap()
}

fn every_variant_compiles_without_a_warning(nvrtc: &Nvrtc) {
    let sources = variants::all().unwrap();
    let mut jobs = jobs(&sources, &packed());
    Host.for_each(&mut jobs, |_, (source, architecture)| {
        let options = source.options(architecture, None);
        let compiled = nvrtc.compile(&format!("{}.cu", source.name), source.text(), &options);
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
        assert!(compiled.log.trim().is_empty(), "{options:?}\n{}", compiled.log);
        assert!(compiled.cubin.starts_with(b"\x7fELF"), "{options:?}");
    });
    println!("{} sources, {} compilations", sources.len(), jobs.len());
}

fn every_packed_kernel_compiles_alone(nvrtc: &Nvrtc) {
    let mut kernels = packed();
    if let Some(pack) = pack::find(ARCHITECTURES[2]).unwrap() {
        kernels.retain(|kernel| !kernel.is_in(&pack));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = build::build(nvrtc, &kernels, ARCHITECTURES[2], folder.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(Pack::open(&path).unwrap().kernels(), kernels.len());
    println!("{} kernels", kernels.len());
}
