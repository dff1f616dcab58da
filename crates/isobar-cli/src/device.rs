//! Opening the device that the command line asks for.

use isobar::Device;

use crate::args::{DeviceArgs, DeviceChoice};
use crate::failure::{Failure, Result};

/// Runs an expression, generic over the back end, on whichever device it is.
macro_rules! on_device {
    ($device:expr, $backend:ident => $body:expr) => {
        match $device {
            isobar::Device::Cpu($backend) => $body,
        }
    };
}
pub(crate) use on_device;

/// Opens it.
///
/// # Errors
/// The device is not there, or this version cannot use it.
pub fn open(args: &DeviceArgs) -> Result<Device> {
    match args.device {
        DeviceChoice::Auto | DeviceChoice::Cpu => Ok(match args.threads {
            Some(threads) => Device::cpu_with_threads(threads.get())?,
            None => Device::cpu()?,
        }),
        DeviceChoice::Cuda(_) => Err(Failure::new(format!(
            "--device {}: this version of isobar has no CUDA back end; use --device cpu",
            args.device
        ))),
    }
}
