//! Compiles packs of kernels, without a GPU: `cargo run -p isobar-cuda --example pack -- 80,90 FOLDER [LIST]`.
//!
//! LIST is a file as `ISOBAR_KERNELS_LOG` writes it; by default, the kernels that releases bring compiled. NVRTC sets the oldest driver that loads
//! a pack: one of CUDA 13 for NVRTC 13, of CUDA 12 for NVRTC 12.

use std::path::Path;
use std::process::ExitCode;

use isobar_cuda::nvrtc::Nvrtc;
use isobar_cuda::pack::{Pack, build, list};
use isobar_cuda::variants;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (architectures, folder, from) = match arguments {
        [architectures, folder] => (architectures, folder, None),
        [architectures, folder, from] => (architectures, folder, Some(from)),
        _ => return Err("usage: pack ARCHITECTURES FOLDER [LIST], such as pack 80,90 packs".to_owned()),
    };
    let read = |path: &String| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let text = from.map_or_else(|| Ok(list::PACKED.to_owned()), read)?;
    let known = variants::all().map_err(|error| error.to_string())?;
    let kernels = list::read(&text, &known)?;
    let nvrtc = Nvrtc::get().map_err(|error| error.to_string())?;
    for architecture in architectures.split(',') {
        let path = build::build(nvrtc, &kernels, &format!("sm_{architecture}"), Path::new(folder))
            .map_err(|error| error.to_string())?;
        let pack = Pack::open(&path)?;
        let bytes = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
        println!("{}: {} kernels, {:.1} MB", path.display(), pack.kernels(), bytes as f64 * 1e-6);
    }
    Ok(())
}
