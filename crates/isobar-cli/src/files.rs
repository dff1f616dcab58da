//! Everything a command is to write is looked at before the work: a run of an hour must not end with "no such folder".
//! Text may also go to standard output, which is called `-`.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use isobar_case::report::to_json;
use isobar_io::{Clash, atomic, clash};

use crate::console::Stream;
use crate::failure::{Failure, Result};

/// A file to be written, and the option that asked for it.
pub type Target<'a> = (&'static str, Option<&'a Path>);

/// Whether an option asks for standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Where the summary goes: beside what is written.
pub fn summary_stream(targets: &[Target<'_>]) -> Stream {
    let taken = targets.iter().any(|(_, path)| path.is_some_and(is_standard_output));
    if taken { Stream::Error } else { Stream::Output }
}

/// Refuses standard output for what is not text, or has its format from the ending of its name.
///
/// # Errors
/// `path` is `-`.
pub fn refuse_standard_output(option: &str, path: &Path, endings: &str) -> Result<()> {
    if is_standard_output(path) {
        let message =
            format!("{option} -: goes to a file only; name one that ends in {endings} (./- is a file called -)");
        return Err(Failure::new(message));
    }
    Ok(())
}

/// Writes text where an option asks for it: to a file, whole or not at all, or to standard output.
///
/// # Errors
/// What the disk reports. A reader of standard output that goes away has what it wanted.
pub fn write_text(option: &str, path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if !is_standard_output(path) {
        return atomic::write_with(path, fill).map_err(|error| Failure::new(format!("{option} {error}")));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("{option} -: standard output: {error}; write to a file")))
        }
        _ => Ok(()),
    }
}

/// Writes a report as JSON where `--report` asks for it.
///
/// # Errors
/// As [`write_text`].
pub fn write_report<T: serde::Serialize>(path: &Path, report: &T) -> Result<()> {
    write_text("--report", path, |out| out.write_all(to_json(report).as_bytes()))
}

/// Checks that every target can be written, and that none would destroy another or an input: by being the same file,
/// whatever the spelling and the links, or by being a store that is replaced with the other one in it.
///
/// # Errors
/// The first target that could not be written, with the remedy.
pub fn check(targets: &[Target<'_>], inputs: &[&Path]) -> Result<()> {
    let wanted: Vec<(&str, &Path)> = targets.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (n, &(option, path)) in wanted.iter().enumerate() {
        if is_standard_output(path) {
            if let Some((other, _)) = wanted[..n].iter().find(|(_, earlier)| is_standard_output(earlier)) {
                let message = format!("{option} -: {other} goes to standard output too; write one of them to a file");
                return Err(Failure::new(message));
            }
            continue;
        }
        let fail =
            |message: &str| Err(Failure::new(format!("{option} {}: {message}; choose another name", path.display())));
        for input in inputs {
            match clash(path, input) {
                Some(Clash::Same) => return fail("would overwrite an input of this run"),
                Some(Clash::Inside) => {
                    return fail(&format!("is replaced as a whole, and {}, an input, lies in it", input.display()));
                }
                None => {}
            }
        }
        for &(other, earlier) in wanted[..n].iter().filter(|(_, earlier)| !is_standard_output(earlier)) {
            match (clash(earlier, path), clash(path, earlier)) {
                (None, None) => {}
                (Some(Clash::Same), _) | (_, Some(Clash::Same)) => {
                    return fail(&format!("{other} writes to the same file"));
                }
                (Some(Clash::Inside), _) => {
                    return fail(&format!("lies in {}, which {other} replaces as a whole", earlier.display()));
                }
                (_, Some(Clash::Inside)) => {
                    return fail(&format!("is replaced as a whole, and {} of {other} lies in it", earlier.display()));
                }
            }
        }
        isobar_io::check_writable(path).map_err(|error| Failure::new(format!("{option} {error}")))?;
    }
    Ok(())
}
