//! `isobar devices`

use isobar::internals::backend::Backend;
use isobar::internals::cpu::Cpu;
use isobar::internals::cuda::cusparse::Cusparse;
use isobar::internals::cuda::nccl::Nccl;
use isobar::internals::cuda::nvrtc::Nvrtc;
use isobar::internals::cuda::{self, DeviceDescription};
use isobar::{Device, Shape};
use isobar_case::memory;
use isobar_case::text::plural;

use crate::SUCCESS;
use crate::args::DevicesArgs;
use crate::console::{Console, Stream};
use crate::failure::Result;
use crate::table::Table;

/// Vectors of this shape, 128 MiB each, are far beyond any cache that they would be copied within.
const COPIED: Shape = Shape { nx: 512, ny: 256, nz: 128 };

/// Lists the devices and what else there is.
///
/// # Errors
/// A device fails while its bandwidth is measured.
pub fn run(args: &DevicesArgs) -> Result<u8> {
    let mut console = Console::new(Stream::Output, false);
    let cpu = args.threads.map_or_else(Cpu::with_all_threads, |threads| Cpu::new(threads.get()))?;
    let mut table = Table::new(["device", "memory", "copy bandwidth", "name"]).with_words_in(3);
    let (info, bandwidth) = (cpu.device(), Device::Cpu(cpu).copy_bandwidth(COPIED)?);
    table.row([
        info.kind.to_owned(),
        memory::available().map_or_else(|| "unknown".to_owned(), memory::readable),
        format!("{:.1} GB/s", bandwidth * 1e-9),
        format!("{}, {}", info.name, plural(info.threads, "thread")),
    ]);
    let mut remarks = Vec::new();
    match cuda::devices() {
        Ok(cards) => cards.iter().for_each(|card| table.row(card_row(card, &mut remarks))),
        Err(error) => remarks.push(format!("CUDA      none: {}", reason(&error))),
    }
    console.line(table);
    for remark in remarks {
        console.line(remark);
    }
    let libraries = [
        ("NVRTC", Nvrtc::get().map(|found| (found.version(), found.path()))),
        ("cuSPARSE", Cusparse::get().map(|found| (found.version(), found.path()))),
        ("NCCL", Nccl::get().map(|found| (found.version(), found.path()))),
    ];
    for (name, found) in libraries {
        match found {
            Ok(((major, minor), path)) => {
                console.line(format_args!("{name:<9} {major}.{minor}, {}", path.display()));
            }
            Err(error) => console.line(format_args!("{name:<9} none: {}", reason(&error))),
        }
    }
    console.line(match mpi() {
        Ok(found) => format!("MPI       {found}"),
        Err(error) => format!("MPI       none: {}", error.to_string().trim_start_matches("mpi: ")),
    });
    console.finish()?;
    Ok(SUCCESS)
}

/// The MPI that ranks would use.
fn mpi() -> isobar::Result<String> {
    #[cfg(unix)]
    return isobar::internals::dist::mpi::find()
        .map(|found| format!("{}, {}, {}", found.version, found.family, found.library));
    #[cfg(not(unix))]
    Err(isobar::Error::Unsupported("not on this system".into()))
}

/// What an error says, without the name of the device that stands before it anyway.
fn reason(error: &isobar::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("cuda: ").unwrap_or(&text).to_owned()
}

/// A card's row of the table, its bandwidth measured if it works; else a remark says why it does not.
fn card_row(card: &DeviceDescription, remarks: &mut Vec<String>) -> [String; 4] {
    let name = format!("cuda:{}", card.ordinal);
    let measured = Device::cuda(card.ordinal).and_then(|cuda| cuda.copy_bandwidth(COPIED));
    let bandwidth = match measured {
        Ok(bandwidth) => format!("{:.1} GB/s", bandwidth * 1e-9),
        Err(error) => {
            remarks.push(format!("{name} cannot be used: {error}"));
            "unknown".to_owned()
        }
    };
    let (major, minor) = card.capability;
    [
        name,
        memory::readable(card.memory as f64),
        bandwidth,
        format!("{}, compute capability {major}.{minor}", card.name),
    ]
}
