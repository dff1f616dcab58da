//! `isobar devices`

use isobar::backend::Backend;
use isobar::layout::{Layout, Shape};

use crate::args::{DeviceArgs, DeviceChoice, DevicesArgs};
use crate::console::Console;
use crate::device::{self, on_device};
use crate::failure::Result;
use crate::summary::plural;
use crate::table::Table;
use crate::{SUCCESS, memory};

/// Vectors of this shape, 128 MiB each, are far beyond any cache that they would be copied within.
const COPIED: Shape = Shape { nx: 512, ny: 256, nz: 128 };

/// Lists the devices and what else there is.
///
/// # Errors
/// A device fails while its bandwidth is measured.
pub fn run(args: &DevicesArgs) -> Result<u8> {
    let mut console = Console::new(false);
    let cpu = device::open(&DeviceArgs { device: DeviceChoice::Cpu, threads: args.threads })?;
    let mut table = Table::new(["device", "memory available", "copy bandwidth", "name"]).with_words_in(3);
    let (info, bandwidth) =
        on_device!(&cpu, backend => (backend.device(), backend.copy_bandwidth(&Layout::new(COPIED)?)?));
    table.row([
        info.kind.to_owned(),
        memory::available().map_or_else(|| "unknown".to_owned(), memory::readable),
        format!("{:.1} GB/s", bandwidth * 1e-9),
        format!("{}, {}", info.name, plural(info.threads, "thread")),
    ]);
    console.line(table);
    console.line("CUDA   not in this version");
    console.line("NVRTC  not in this version");
    console.line("MPI    not in this version");
    console.finish()?;
    Ok(SUCCESS)
}
