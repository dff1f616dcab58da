//! Fields at several times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::output::check_mesh;
use crate::zarr::series::Frames;
use crate::{Error, Field, Format, Mesh, Result, atomic, vtk};

/// Frames of a field, written one after another. They go into one `.zarr` store with a time axis, which is put in place
/// when it is complete; or, for `NAME.vti`, into `NAME_0000.vti`, `NAME_0001.vti`, … with a `NAME.pvd` that lists
/// the frames written so far; likewise for `NAME.vtr`.
pub struct Series(Kind);

enum Kind {
    Zarr(Box<Frames>),
    Vtk { path: PathBuf, format: Format, frames: Vec<(f64, String)> },
}

impl Series {
    /// Begins a series of at most `most` frames of shape (nz, ny, nx).
    ///
    /// # Errors
    /// A format other than `.zarr`, `.vti` and `.vtr`, or one that cannot hold the mesh; a path that cannot be written to.
    pub fn begin(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, most: usize) -> Result<Self> {
        check_mesh(path, mesh)?;
        match Format::from_path(path)? {
            Format::Zarr => Ok(Self(Kind::Zarr(Box::new(Frames::begin(path, name, shape, mesh, most)?)))),
            format @ (Format::Vti | Format::Vtr) => {
                atomic::check(&list(path))?;
                Ok(Self(Kind::Vtk { path: path.to_path_buf(), format, frames: Vec::new() }))
            }
            Format::Npy => Err(Error::NoSeries { path: path.to_path_buf() }),
        }
    }

    /// Returns whether frames can be written to a file of this name.
    pub fn is_possible(path: &Path) -> bool {
        matches!(Format::from_path(path), Ok(Format::Zarr | Format::Vti | Format::Vtr))
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::Inconsistent`] for a field that does not fit its shape.
    pub fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        field.validate()?;
        match &mut self.0 {
            Kind::Zarr(frames) => frames.push(time, field),
            Kind::Vtk { path, format, frames } => {
                let ending = if *format == Format::Vtr { "vtr" } else { "vti" };
                let name = format!("{}_{:04}.{ending}", stem(path), frames.len());
                atomic::write_with(&path.with_file_name(&name), |out| vtk::write(out, field, *format))?;
                frames.push((time, name));
                atomic::write_whole(&list(path), collection(frames).as_bytes())
            }
        }
    }

    /// Completes the series after its last frame.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::NotReplaceable`] if a store that isobar did not write is in its place.
    pub fn finish(self, attributes: &BTreeMap<String, String>) -> Result<()> {
        match self.0 {
            Kind::Zarr(frames) => frames.finish(attributes),
            Kind::Vtk { .. } => Ok(()),
        }
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The name of the list, `NAME.pvd`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_listed_with_their_times() {
        let folder = tempfile::tempdir().unwrap();
        let mesh = Mesh::unit([3, 2, 1]);
        for ending in ["vti", "vtr"] {
            let path = folder.path().join("run").with_extension(ending);
            let mut series = Series::begin(&path, "u", [1, 2, 3], &mesh, 2).unwrap();
            for (time, value) in [(0.0, 1.0), (0.25, 2.0)] {
                series.push(time, &Field::new("u", &[value; 6], [1, 2, 3], &mesh)).unwrap();
            }
            series.finish(&BTreeMap::new()).unwrap();
            let list = std::fs::read_to_string(folder.path().join("run.pvd")).unwrap();
            let second = format!("run_0001.{ending}");
            assert!(list.contains("timestep=\"0.25\"") && list.contains(&format!("file=\"{second}\"")), "{list}");
            assert!(folder.path().join(format!("run_0000.{ending}")).is_file() && folder.path().join(second).is_file());
        }
        let graded = Mesh { spacing: None, ..mesh };
        let refusal = Series::begin(&folder.path().join("run.vti"), "u", [1, 2, 3], &graded, 2).err().unwrap();
        assert!(matches!(refusal, Error::Graded { .. }), "{refusal}");
        assert!(Series::begin(&folder.path().join("run.vtr"), "u", [1, 2, 3], &graded, 2).is_ok());
    }

    #[test]
    fn a_store_of_frames_is_replaced_and_has_a_time_axis() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mesh) = (folder.path().join("run.zarr"), Mesh::unit([3, 2, 1]));
        for count in [2, 3] {
            let mut series = Series::begin(&path, "u", [1, 2, 3], &mesh, 5).unwrap();
            for n in 0..count {
                series.push(f64::from(n), &Field::new("u", &[f64::from(n); 6], [1, 2, 3], &mesh)).unwrap();
            }
            series.finish(&BTreeMap::from([("case".to_owned(), "a".to_owned())])).unwrap();
            let array = std::fs::read_to_string(path.join("u").join("zarr.json")).unwrap();
            let array: serde_json::Value = serde_json::from_str(&array).unwrap();
            assert_eq!(array["shape"], serde_json::json!([count, 1, 2, 3]));
            assert_eq!(array["dimension_names"], serde_json::json!(["time", "z", "y", "x"]));
        }
        // One that is not finished leaves what was there.
        let mut series = Series::begin(&path, "u", [1, 2, 3], &mesh, 5).unwrap();
        series.push(0.0, &Field::new("u", &[7.0; 6], [1, 2, 3], &mesh)).unwrap();
        drop(series);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(Series::begin(&folder.path().join("run.npy"), "u", [1, 2, 3], &mesh, 5).is_err());
    }
}
