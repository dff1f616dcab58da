//! A field at several times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::field::{Field, Format, Mesh};
use crate::zarr::series::Frames;
use crate::{atomic, vti};

/// Frames of a field in time, written one after another: into one `.zarr` with a time axis, which is put into its place
/// when it is complete; or, for `NAME.vti`, into `NAME_0000.vti`, `NAME_0001.vti`, … with a `NAME.pvd` that lists
/// those that are there.
pub struct Series(Kind);

enum Kind {
    Zarr(Box<Frames>),
    Vti { path: PathBuf, frames: Vec<(f64, String)> },
}

impl Series {
    /// Before the first of at most so many frames, of shape (nz, ny, nx).
    ///
    /// # Errors
    /// Another format than `.zarr` and `.vti`; a place that cannot be written to.
    pub fn begin(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, most: usize) -> Result<Self> {
        match Format::from_path(path)? {
            Format::Zarr => Ok(Self(Kind::Zarr(Box::new(Frames::begin(path, name, shape, mesh, most)?)))),
            Format::Vti => {
                atomic::check(&list(path))?;
                Ok(Self(Kind::Vti { path: path.to_path_buf(), frames: Vec::new() }))
            }
            Format::Npy => Err(Error::NoSeries { path: path.to_path_buf() }),
        }
    }

    /// Whether frames can be written to a file of this name.
    pub fn is_possible(path: &Path) -> bool {
        matches!(Format::from_path(path), Ok(Format::Zarr | Format::Vti))
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// What the disk says; a field that does not fit its shape.
    pub fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        field.validate()?;
        match &mut self.0 {
            Kind::Zarr(frames) => frames.push(time, field),
            Kind::Vti { path, frames } => {
                let name = format!("{}_{:04}.vti", stem(path), frames.len());
                atomic::write_with(&path.with_file_name(&name), |out| vti::write(out, field))?;
                frames.push((time, name));
                atomic::write_whole(&list(path), collection(frames).as_bytes())
            }
        }
    }

    /// After the last frame.
    ///
    /// # Errors
    /// What the disk says; a store in its place that isobar did not write.
    pub fn finish(self, attributes: &BTreeMap<String, String>) -> Result<()> {
        match self.0 {
            Kind::Zarr(frames) => frames.finish(attributes),
            Kind::Vti { .. } => Ok(()),
        }
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `NAME.pvd`
fn list(path: &Path) -> PathBuf {
    path.with_extension("pvd")
}

/// ParaView's list of files and their times.
fn collection(frames: &[(f64, String)]) -> String {
    let mut text =
        "<?xml version=\"1.0\"?>\n<VTKFile type=\"Collection\" version=\"1.0\" byte_order=\"LittleEndian\">\n<Collection>\n"
            .to_owned();
    for (time, name) in frames {
        let name = vti::escape(name);
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
        let (path, mesh) = (folder.path().join("run.vti"), Mesh::unit([3, 2, 1]));
        let mut series = Series::begin(&path, "u", [1, 2, 3], &mesh, 2).unwrap();
        for (time, value) in [(0.0, 1.0), (0.25, 2.0)] {
            series.push(time, &Field::new("u", &[value; 6], [1, 2, 3], &mesh)).unwrap();
        }
        series.finish(&BTreeMap::new()).unwrap();
        let list = std::fs::read_to_string(folder.path().join("run.pvd")).unwrap();
        assert!(list.contains("timestep=\"0.25\"") && list.contains("file=\"run_0001.vti\""), "{list}");
        assert!(folder.path().join("run_0000.vti").is_file() && folder.path().join("run_0001.vti").is_file());
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
