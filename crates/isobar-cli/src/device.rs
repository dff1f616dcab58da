//! Opens the device of the command line.

use isobar::{Device, Ranks};

use crate::args::{DeviceArgs, DeviceChoice};
use crate::failure::{Failure, Result};

/// Opens the device.
///
/// # Errors
/// The device is missing or does not work. Only `auto` falls back to another.
pub fn open(args: &DeviceArgs) -> Result<Device> {
    let threads = args.threads.map(std::num::NonZeroUsize::get);
    match &args.device {
        DeviceChoice::Auto => Ok(Device::auto(threads)?),
        DeviceChoice::Cpu => Ok(threads.map_or_else(Device::cpu, Device::cpu_with_threads)?),
        DeviceChoice::Cuda => named(args, Device::cuda(0)),
        DeviceChoice::Cards(numbers) => named(args, Device::cards(numbers)),
    }
}

/// Opens the device while `work` runs on the host; with its threads, if it is the processor or their number is given.
///
/// # Errors
/// The errors of [`open`].
pub fn open_while<R: Send>(args: &DeviceArgs, work: impl FnOnce() -> R + Send) -> Result<(Device, R)> {
    let is_first = args.threads.is_some() || matches!(args.device, DeviceChoice::Cpu);
    Device::open_while(is_first, || open(args), work)
}

/// Adds the device's name to an error.
fn named(args: &DeviceArgs, device: isobar::Result<Device>) -> Result<Device> {
    device.map_err(|error| Failure::new(format!("--device {}: {error}", args.device)))
}

/// Opens this rank's own device: the CPU, or a GPU. With `cuda`, this is the GPU with the rank's number among the `here`
/// ranks of this machine.
///
/// # Errors
/// The errors of [`open`]; several GPUs.
pub fn open_own(ranks: &Ranks, here: usize, args: &DeviceArgs) -> Result<Device> {
    match &args.device {
        DeviceChoice::Cuda => {
            let cards = isobar::internals::cuda::devices().map_or(1, |cards| cards.len().max(1));
            named(args, Device::cuda(here % cards))
        }
        DeviceChoice::Cards(numbers) if numbers.len() > 1 => Err(Failure::new(format!(
            "--device {}: a rank can use one GPU only; use --device cuda, which gives each rank one, or run without mpirun",
            args.device
        ))),
        DeviceChoice::Cards(_) => open(args),
        DeviceChoice::Auto | DeviceChoice::Cpu => {
            let threads = args.threads.map_or_else(|| ranks.threads(), std::num::NonZeroUsize::get);
            Ok(Device::cpu_with_threads(threads)?)
        }
    }
}
