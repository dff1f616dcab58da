//! The devices and libraries of this machine.

use std::collections::BTreeSet;

use isobar::internals::backend::Backend;
use isobar::internals::cpu::Cpu;
use isobar::internals::cuda;
use isobar::internals::cuda::nccl::Nccl;
use isobar::internals::cuda::nvrtc::Nvrtc;
use isobar::internals::cuda::{DeviceDescription, pack};
use isobar::{Device, Error, Result, Shape};

use crate::memory;
use crate::text::plural;

/// Vectors of this shape have 128 MiB each, far more than any cache.
const COPIED: Shape = Shape { nx: 512, ny: 256, nz: 128 };

/// A device of this machine.
#[derive(Debug)]
pub struct Found {
    /// The device's name in options: `cpu`, `cuda:0`.
    pub device: String,
    /// The device's model.
    pub name: String,
    /// Memory in bytes: all of a GPU's, or the memory available to the processor without swapping.
    pub memory: Option<f64>,
    /// Threads of the processor that a solver uses by default.
    pub threads: Option<usize>,
    /// Compute capability of a GPU, major and minor.
    pub capability: Option<(i32, i32)>,
    /// Bandwidth of a copy of a vector in bytes per second, if measured; an error if the device cannot be used.
    pub bandwidth: Result<Option<f64>>,
}

/// Finds the devices: the processor with this number of threads (or all), and GPUs, or the reason why there are none.
///
/// # Errors
/// Threads cannot be started; the processor fails while its bandwidth is measured.
pub fn find(threads: Option<usize>, measures: bool) -> Result<(Vec<Found>, Option<Error>)> {
    let measure = |device: Device| measures.then(|| device.copy_bandwidth(COPIED)).transpose();
    let cpu = threads.map_or_else(Cpu::with_all_threads, Cpu::new)?;
    let info = cpu.device();
    let mut found = vec![Found {
        device: info.kind.to_owned(),
        name: info.name,
        memory: memory::available(),
        threads: Some(info.threads),
        capability: None,
        bandwidth: Ok(measure(Device::Cpu(cpu))?),
    }];
    let cards = match cuda::devices() {
        Ok(cards) => cards,
        Err(error) => return Ok((found, Some(error))),
    };
    found.extend(cards.into_iter().map(|card| Found {
        device: format!("cuda:{}", card.ordinal),
        name: card.name,
        memory: Some(card.memory as f64),
        threads: None,
        capability: Some(card.capability),
        bandwidth: Device::cuda(card.ordinal).and_then(measure),
    }));
    Ok((found, None))
}

/// Finds the libraries that are loaded at run time, and packs of compiled kernels for the GPUs. Returns the name of each with its version
/// and path, or the reason why it is not found. Libraries for GPUs that are not found are listed only if there are `gpus`.
pub fn libraries(gpus: bool) -> Vec<(&'static str, Result<String>)> {
    let of_cuda =
        |((major, minor), path): ((i32, i32), &std::path::Path)| format!("{major}.{minor}, {}", path.display());
    let of_gpus = [
        ("NVRTC", Nvrtc::get().map(|found| of_cuda((found.version(), found.path())))),
        ("NCCL", Nccl::get().map(|found| of_cuda((found.version(), found.path())))),
    ];
    let of_gpus = of_gpus.into_iter().filter(|(_, found)| gpus || found.is_ok());
    packs().into_iter().map(|found| ("kernels", found)).chain(of_gpus).chain([("MPI", mpi())]).collect()
}

/// Describes the compiled kernels for the GPUs, for each architecture.
fn packs() -> Vec<Result<String>> {
    let cards = cuda::devices().unwrap_or_default();
    let architectures: BTreeSet<_> = cards.iter().map(DeviceDescription::architecture).collect();
    let none = |message| Error::Device { device: "cuda".into(), message };
    let describe = |architecture: String| {
        let found = pack::find(&architecture).map_err(none)?;
        let found = found.ok_or_else(|| none(format!("no compiled kernels for {architecture}; NVRTC compiles all")))?;
        let (major, minor) = found.nvrtc();
        let count = plural(found.kernels(), "kernel");
        Ok(format!(
            "{count} for {}, compiled by NVRTC {major}.{minor}, {}",
            found.architecture(),
            found.path().display()
        ))
    };
    architectures.into_iter().map(describe).collect()
}

/// Describes the MPI library that ranks would use.
fn mpi() -> Result<String> {
    #[cfg(unix)]
    return isobar::internals::dist::mpi::find()
        .map(|found| format!("{}, {}, {}", found.version, found.family, found.library));
    #[cfg(not(unix))]
    Err(Error::Unsupported("not supported on this system".into()))
}
