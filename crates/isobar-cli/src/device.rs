//! Opens the device of the command line.

use std::num::NonZeroUsize;

use isobar::internals::DeviceName;
use isobar::{Device, Ranks};

use crate::args::DeviceArgs;
use crate::failure::{Failure, Result};

/// Opens the device.
///
/// # Errors
/// The device is missing or does not work. Only `auto` falls back to another.
pub fn open(args: &DeviceArgs) -> Result<Device> {
    named(args, args.device.open(args.threads.map(NonZeroUsize::get)))
}

/// Opens the device while `work` runs on the host; with its threads, if it is the processor or their number is given.
pub fn open_while<R: Send>(args: &DeviceArgs, work: impl FnOnce() -> R + Send) -> Result<(Device, R)> {
    let is_first = args.threads.is_some() || args.device == DeviceName::Cpu;
    Device::open_while(is_first, || open(args), work)
}

/// Opens this rank's own device: the CPU, or a GPU. With `cuda`, this is the GPU with the rank's number among the `here`
/// ranks of this machine.
///
/// # Errors
/// The errors of [`open`]; several GPUs.
pub fn open_own(ranks: &Ranks, here: usize, args: &DeviceArgs) -> Result<Device> {
    named(args, args.device.open_own(ranks, here, args.threads.map(NonZeroUsize::get)))
}

/// Adds the device's name to an error.
fn named(args: &DeviceArgs, device: isobar::Result<Device>) -> Result<Device> {
    device.map_err(|error| {
        let (device, message) = (args.device.to_string(), error.to_string());
        let message = message.strip_prefix(&format!("{device}: ")).unwrap_or(&message);
        Failure::new(format!("--device {device}: {message}"))
    })
}
