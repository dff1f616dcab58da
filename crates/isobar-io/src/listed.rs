//! Frames in numbered files, `NAME_0000.vti`, `NAME_0001.vti`, …, with a `NAME.pvd` that lists them for ParaView.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::temporary::folder;
use crate::{Error, Field, Format, Mesh, Result, atomic, vtk};

/// Frames in files that are listed as soon as they are written.
pub(crate) struct Listed {
    path: PathBuf,
    format: Format,
    frames: Vec<(f64, String)>,
    /// Files that an earlier list names and that this one may not.
    earlier: BTreeSet<String>,
    dropped: usize,
}

impl Listed {
    /// Returns whether another path is the list of a series at `path`, or may be one of its frames.
    pub(crate) fn has(path: &Path, other: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(folder(path)).ok();
        let (Some(name), stem) = (other.file_name().and_then(OsStr::to_str), stem(path)) else { return false };
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let is_frame = name.strip_prefix(&format!("{stem}_")).and_then(|rest| rest.strip_suffix(&format!(".{ending}")));
        let is_numbered = is_frame.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        (is_numbered || name == format!("{stem}.pvd")) && real(path) == real(other)
    }

    /// Begins with no frames.
    pub(crate) fn begin(path: &Path, format: Format) -> Result<Self> {
        let list = list(path);
        atomic::check(&list)?;
        let mut listed =
            Self { path: path.to_path_buf(), format, frames: Vec::new(), earlier: BTreeSet::new(), dropped: 0 };
        // A list that cannot be read names nothing that may be removed.
        let earlier = fs::read_to_string(&list).map(|text| listed.numbered(&text)).unwrap_or_default();
        listed.earlier = earlier.into_iter().map(|(_, name)| name).collect();
        Ok(listed)
    }

    /// Begins with the frames up to the time `until` of the list that is there, if there is one.
    ///
    /// # Errors
    /// [`Error::NotContinuable`] for a list that isobar did not write, and for frames that are missing or of another grid.
    pub(crate) fn resume(path: &Path, format: Format, shape: [usize; 3], mesh: &Mesh, until: f64) -> Result<Self> {
        let mut listed = Self::begin(path, format)?;
        let list = list(path);
        let text = match fs::read_to_string(&list) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(listed),
            Err(source) => return Err(Error::Read { path: list, source }),
            Ok(text) => text,
        };
        let fail = |found: String| Err(Error::NotContinuable { path: list.clone(), found });
        let mut frames = listed.numbered(&text);
        let is_own = frames.iter().enumerate().all(|(n, (_, name))| *name == listed.name(n));
        if collection(&frames) != text || !is_own {
            return fail(format!("it does not list {}, {}, … as isobar does", listed.name(0), listed.name(1)));
        }
        let count = frames.iter().take_while(|(time, _)| *time <= until).count();
        listed.dropped = frames.len() - count;
        frames.truncate(count);
        for (_, name) in &frames {
            let frame = path.with_file_name(name);
            match vtk::is_on(&frame, format, shape, mesh) {
                Ok(true) => {}
                Ok(false) => return fail(format!("its frame {name} is not on this run's grid")),
                Err(source) if source.kind() == ErrorKind::NotFound => {
                    return fail(format!("its frame {name} is missing"));
                }
                Err(source) => return Err(Error::Read { path: frame, source }),
            }
        }
        listed.frames = frames;
        Ok(listed)
    }

    /// Returns how many earlier frames are kept, and how many are not.
    pub(crate) fn kept(&self) -> [usize; 2] {
        [self.frames.len(), self.dropped]
    }

    /// Writes a frame and lists it.
    pub(crate) fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        let name = self.name(self.frames.len());
        atomic::write_with(&self.path.with_file_name(&name), |out| vtk::write(out, field, self.format))?;
        self.frames.push((time, name));
        atomic::write_whole(&list(&self.path), collection(&self.frames).as_bytes())
    }

    /// Removes files of the earlier list that this one does not name.
    pub(crate) fn finish(self) -> Result<()> {
        let ours: BTreeSet<&String> = self.frames.iter().map(|(_, name)| name).collect();
        for name in self.earlier.iter().filter(|name| !ours.contains(name)) {
            let path = self.path.with_file_name(name);
            // Neither a folder nor a link, which isobar did not make.
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
                fs::remove_file(&path).map_err(|source| atomic::failed(&path, &path, source))?;
            }
        }
        Ok(())
    }

    fn ending(&self) -> &'static str {
        if self.format == Format::Vtr { "vtr" } else { "vti" }
    }

    /// Returns the name of the n-th frame.
    fn name(&self, n: usize) -> String {
        format!("{}_{n:04}.{}", stem(&self.path), self.ending())
    }

    /// Returns the frames of a list whose names are those of this series, numbered in any order.
    fn numbered(&self, text: &str) -> Vec<(f64, String)> {
        let (start, end) = (vtk::escape(&format!("{}_", stem(&self.path))), format!(".{}\"/>", self.ending()));
        let frame = |line: &str| {
            let (time, file) =
                line.strip_prefix("<DataSet timestep=\"")?.split_once("\" group=\"\" part=\"0\" file=\"")?;
            let number = file.strip_prefix(start.as_str())?.strip_suffix(end.as_str())?;
            let name = self.name(number.parse().ok()?);
            (vtk::escape(&name) == file.strip_suffix("\"/>")?).then_some((time.parse().ok()?, name))
        };
        text.lines().filter_map(frame).collect()
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the name of the list, `NAME.pvd`.
fn list(path: &Path) -> PathBuf {
    path.with_extension("pvd")
}

/// Formats ParaView's list of files and their times.
fn collection(frames: &[(f64, String)]) -> String {
    let mut text =
        "<?xml version=\"1.0\"?>\n<VTKFile type=\"Collection\" version=\"1.0\" byte_order=\"LittleEndian\">\n<Collection>\n"
            .to_owned();
    for (time, name) in frames {
        let name = vtk::escape(name);
        text += &format!("<DataSet timestep=\"{time}\" group=\"\" part=\"0\" file=\"{name}\"/>\n");
    }
    text + "</Collection>\n</VTKFile>\n"
}
