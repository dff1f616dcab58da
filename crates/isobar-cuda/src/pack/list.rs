//! Lists of kernels with their specialisation. A line is the source's name, kernels with commas between them, and the source's definitions, as in
//! `vector axpy_f32,axpy_f64 REAL=double`.
//!
//! `packed.txt` lists the kernels that releases bring compiled. `ISOBAR_KERNELS_LOG=FILE` appends every kernel that is
//! neither in the pack nor in the cache when it is requested.

use std::collections::HashSet;
use std::io::Write as _;

use super::Pack;
use crate::compile::Source;

/// The kernels that releases bring compiled.
pub const PACKED: &str = include_str!("packed.txt");

/// A kernel with its specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// The source with its definitions.
    pub source: Source,
    /// The kernel's name.
    pub kernel: String,
}

impl Listed {
    /// Returns the kernel's key in the pack for an architecture: a hash of everything that its machine code depends on, but for the compiler.
    pub fn key(&self, architecture: &str) -> u128 {
        self.source.key(&self.source.options(architecture, Some(&self.kernel)))
    }

    /// Returns whether a pack has the kernel, compiled from this source.
    pub fn is_in(&self, pack: &Pack) -> bool {
        pack.has(self.key(pack.architecture()))
    }
}

/// Returns the line of a kernel.
fn line(source: &Source, kernel: &str) -> String {
    let defines = source.defines.iter().map(|(name, value)| format!(" {name}={value}"));
    format!("{} {kernel}{}", source.name, defines.collect::<String>())
}

/// Returns the lines of all kernels of a source.
pub fn lines(source: &Source) -> Vec<String> {
    source.kernels().map(|kernel| line(source, kernel)).collect()
}

/// Splits a line into one for each kernel.
pub fn each(line: &str) -> Vec<String> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, kernels, ref definitions @ ..] => {
            kernels.split(',').map(|kernel| [&[name, kernel], definitions].concat().join(" ")).collect()
        }
        _ => vec![line.to_owned()],
    }
}

/// Reads a list. Sources of these names must be among `known`, with the same definitions except for their values. Kernels that occur twice, empty
/// lines and lines that begin with `#` are skipped.
///
/// # Errors
/// The number of a line that describes no kernel, and the reason.
pub fn read(text: &str, known: &[Source]) -> Result<Vec<Listed>, String> {
    let mut seen = HashSet::new();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .flat_map(|(n, line)| each(line).into_iter().map(move |line| (n, line)))
        .filter(|(_, line)| seen.insert(line.clone()))
        .map(|(n, line)| parse(&line, known).map_err(|reason| format!("line {}: {reason}: {line}", n + 1)))
        .collect()
}

fn parse(line: &str, known: &[Source]) -> Result<Listed, String> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(kernel)) = (words.next(), words.next()) else { return Err("no kernel".to_owned()) };
    let mut of_name = known.iter().filter(|source| source.name == name).peekable();
    let text = of_name.peek().ok_or_else(|| format!("there is no source {name}"))?.text();
    let mut source = Source::new(of_name.peek().map_or("", |source| source.name), text);
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} is not a definition"))?;
        source = source.define(name.to_owned(), value);
    }
    let names = |source: &Source| source.defines.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if of_name.any(|known| names(known) == names(&source)) {
        Ok(Listed { source, kernel: kernel.to_owned() })
    } else {
        Err("the source has other definitions now".to_owned())
    }
}

/// Appends a kernel to the file `ISOBAR_KERNELS_LOG`, if set. A file that cannot be written is not an error.
pub(crate) fn log(source: &Source, kernel: &str) {
    let Some(path) = std::env::var_os("ISOBAR_KERNELS_LOG").filter(|path| !path.is_empty()) else { return };
    let line = format!("{}\n", line(source, kernel));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // One write, because several threads and processes may append.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let known = variants::all().unwrap();
        for source in &known {
            let read = read(&line(source, "kernel"), &known).unwrap();
            assert_eq!(read, [Listed { source: source.clone(), kernel: "kernel".to_owned() }]);
        }
        let text = "# a remark\n\nvector fill REAL=float\nvector dot,fill REAL=float\n";
        assert_eq!(read(text, &known).unwrap().len(), 2);
        for (line, reason) in [
            ("vector", "no kernel"),
            ("vektor fill REAL=float", "there is no source vektor"),
            ("vector fill REAL", "REAL is not a definition"),
            ("vector fill REAL=float MORE=1", "the source has other definitions now"),
        ] {
            assert_eq!(read(line, &known).unwrap_err(), format!("line 1: {reason}: {line}"));
        }
    }

    #[test]
    fn packed_kernels_have_the_definitions_of_today() {
        let known = variants::all().unwrap();
        assert!(!read(PACKED, &known).unwrap().is_empty());
    }
}
