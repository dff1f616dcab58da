//! Opening the device that the command line asks for.

use isobar::{Device, Ranks};

use crate::args::{DeviceArgs, DeviceChoice};
use crate::failure::{Failure, Result};

/// Opens it.
///
/// # Errors
/// The device is not there or does not work. Only `auto` makes do with another.
pub fn open(args: &DeviceArgs) -> Result<Device> {
    let threads = args.threads.map(std::num::NonZeroUsize::get);
    match &args.device {
        DeviceChoice::Auto => Ok(Device::auto(threads)?),
        DeviceChoice::Cpu => Ok(threads.map_or_else(Device::cpu, Device::cpu_with_threads)?),
        DeviceChoice::Cuda => named(args, Device::cuda(0)),
        DeviceChoice::Cards(numbers) => named(args, Device::cards(numbers)),
    }
}

/// With what was asked for in a message about it.
fn named(args: &DeviceArgs, device: isobar::Result<Device>) -> Result<Device> {
    device.map_err(|error| Failure::new(format!("--device {}: {error}", args.device)))
}

/// Opens what this rank has for itself: its cores, or a GPU, which with `cuda` is the one that has its number among the `here`
/// ranks of this machine.
///
/// # Errors
/// As [`open`]; several cards.
pub fn open_own(ranks: &Ranks, here: usize, args: &DeviceArgs) -> Result<Device> {
    match &args.device {
        DeviceChoice::Cuda => {
            let cards = isobar::internals::cuda::devices().map_or(1, |cards| cards.len().max(1));
            named(args, Device::cuda(here % cards))
        }
        DeviceChoice::Cards(numbers) if numbers.len() > 1 => Err(Failure::new(format!(
            "--device {}: several GPUs of each rank; use --device cuda, which gives each rank one, or leave mpirun out",
            args.device
        ))),
        DeviceChoice::Cards(_) => open(args),
        DeviceChoice::Auto | DeviceChoice::Cpu => {
            let threads = args.threads.map_or_else(|| ranks.threads(), std::num::NonZeroUsize::get);
            Ok(Device::cpu_with_threads(threads)?)
        }
    }
}
