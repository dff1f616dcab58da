//! Opening the device that the command line asks for.

use isobar::{Device, Ranks};

use crate::args::{DeviceArgs, DeviceChoice};
use crate::failure::{Failure, Result};

/// Runs an expression, generic over the back end, on whichever device it is.
macro_rules! on_device {
    ($device:expr, $backend:ident => $body:expr) => {
        match $device {
            isobar::Device::Cpu($backend) => $body,
            isobar::Device::Cuda($backend) => $body,
            _ => return Err($crate::failure::Failure::new("this command does not know devices of this kind")),
        }
    };
}
pub(crate) use on_device;

/// Opens it.
///
/// # Errors
/// The device is not there or does not work. Only `auto` makes do with another.
pub fn open(args: &DeviceArgs) -> Result<Device> {
    let threads = args.threads.map(std::num::NonZeroUsize::get);
    match args.device {
        DeviceChoice::Auto => Ok(Device::auto(threads)?),
        DeviceChoice::Cpu => Ok(threads.map_or_else(Device::cpu, Device::cpu_with_threads)?),
        DeviceChoice::Cuda(number) => {
            Device::cuda(number).map_err(|error| Failure::new(format!("--device {}: {error}", args.device)))
        }
    }
}

/// Opens the cores of this rank, as its part of the job's.
///
/// # Errors
/// As [`open`]; a device that ranks cannot have.
pub fn open_on(ranks: &Ranks, args: &DeviceArgs) -> Result<Device> {
    if let DeviceChoice::Cuda(_) = args.device {
        return Err(Failure::new(format!(
            "--device {}: several ranks run on the CPU in this version; use --device cpu",
            args.device
        )));
    }
    let threads = args.threads.map_or_else(|| ranks.threads(), std::num::NonZeroUsize::get);
    Ok(ranks.device(Device::cpu_with_threads(threads)?)?)
}
