//! `isobar devices`

use std::num::NonZeroUsize;

use isobar_case::devices::{self, Found};
use isobar_case::memory;
use isobar_case::text::plural;

use crate::args::DevicesArgs;
use crate::failure::in_flags;
use crate::{Console, Result, SUCCESS, Stream, Table};

/// Lists the devices and the libraries.
///
/// # Errors
/// A device fails while its bandwidth is measured.
pub fn run(args: &DevicesArgs) -> Result<u8> {
    let mut console = Console::new(Stream::Output, false);
    let (found, no_gpu) = devices::find(args.threads.map(NonZeroUsize::get), true)?;
    let mut table = Table::new(["device", "memory", "copy bandwidth", "name"]).with_words_in(3);
    let mut remarks = Vec::new();
    found.iter().for_each(|device| table.row(row(device, &mut remarks)));
    let gpus = no_gpu.is_none();
    remarks.extend(no_gpu.map(|error| format!("GPU       none: {}", reason(&error))));
    console.line(table);
    for remark in remarks {
        console.line(remark);
    }
    for (name, library) in devices::libraries(gpus) {
        match library {
            Ok(found) => console.line(format_args!("{name:<9} {found}")),
            Err(error) => console.line(format_args!("{name:<9} none: {}", reason(&error))),
        }
    }
    console.finish()?;
    Ok(SUCCESS)
}

/// Returns the message of an error, without the name of the device or the library that stands before it anyway.
fn reason(error: &isobar::Error) -> String {
    let text = in_flags(error);
    text.strip_prefix("cuda: ").or_else(|| text.strip_prefix("mpi: ")).unwrap_or(&text).to_owned()
}

/// Returns a device's row of the table; a remark explains why a device cannot be used.
fn row(found: &Found, remarks: &mut Vec<String>) -> [String; 4] {
    let bandwidth = match &found.bandwidth {
        Ok(Some(bandwidth)) => format!("{:.1} GB/s", bandwidth * 1e-9),
        Ok(None) => "unknown".to_owned(),
        Err(error) => {
            remarks.push(format!("{} cannot be used: {}", found.device, in_flags(error)));
            "unknown".to_owned()
        }
    };
    let threads = found.threads.map(|threads| format!(", {}", plural(threads, "thread")));
    let capability = found.capability.map(|(major, minor)| format!(", compute capability {major}.{minor}"));
    let details = threads.or(capability).unwrap_or_default();
    [
        found.device.clone(),
        found.memory.map_or_else(|| "unknown".to_owned(), memory::readable),
        bandwidth,
        format!("{}{details}", found.name),
    ]
}
