//! Fields at several times.

use std::collections::BTreeMap;
use std::path::Path;

use crate::listed::Listed;
use crate::output::check_mesh;
use crate::zarr::series::Frames;
use crate::{Error, Field, Format, Mesh, Result};

/// Frames of a field, written one after another. They go into one `.zarr` store with a time axis, or, for `NAME.vti`, into
/// `NAME_0000.vti`, `NAME_0001.vti`, … with a `NAME.pvd` that lists them; likewise for `NAME.vtr`. After every frame the files are
/// complete and hold the frames so far, even if the process is then killed.
pub struct Series(Kind);

enum Kind {
    Zarr(Box<Frames>),
    Listed(Listed),
}

impl Series {
    /// Begins a series of frames of shape (nz, ny, nx). An earlier store is replaced when the first frame is written.
    ///
    /// # Errors
    /// A format other than `.zarr`, `.vti` and `.vtr`, or one that cannot hold the mesh; a path that cannot be written to.
    pub fn begin(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh) -> Result<Self> {
        Self::new(path, name, shape, mesh, None)
    }

    /// Begins a series that keeps the frames up to the time `until` of the series at `path`, if there is one. Existing files stay unchanged until
    /// the next frame is written.
    ///
    /// # Errors
    /// The errors of [`Series::begin`]; [`Error::NotContinuable`] if `path` is not a series that isobar wrote on this grid.
    pub fn resume(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, until: f64) -> Result<Self> {
        Self::new(path, name, shape, mesh, Some(until))
    }

    fn new(path: &Path, name: &str, shape: [usize; 3], mesh: &Mesh, until: Option<f64>) -> Result<Self> {
        check_mesh(path, mesh)?;
        let kind = match (Format::from_path(path)?, until) {
            (Format::Zarr, None) => Kind::Zarr(Box::new(Frames::begin(path, name, shape, mesh)?)),
            (Format::Zarr, Some(until)) => Kind::Zarr(Box::new(Frames::resume(path, name, shape, mesh, until)?)),
            (format @ (Format::Vti | Format::Vtr), None) => Kind::Listed(Listed::begin(path, format)?),
            (format @ (Format::Vti | Format::Vtr), Some(until)) => {
                Kind::Listed(Listed::resume(path, format, shape, mesh, until)?)
            }
            (Format::Npy, _) => return Err(Error::NoSeries { path: path.to_path_buf() }),
        };
        Ok(Self(kind))
    }

    /// Returns whether frames can be written to a file of this name.
    pub fn is_possible(path: &Path) -> bool {
        matches!(Format::from_path(path), Ok(Format::Zarr | Format::Vti | Format::Vtr))
    }

    /// Returns whether the numbered files and the list of a series at `path` may include another path, by their names in the same folder.
    pub fn writes(path: &Path, other: &Path) -> bool {
        matches!(Format::from_path(path), Ok(Format::Vti | Format::Vtr)) && Listed::has(path, other)
    }

    /// Returns how many frames of an earlier series it keeps, and how many it drops; for a series that was just begun.
    pub fn kept(&self) -> [usize; 2] {
        match &self.0 {
            Kind::Zarr(frames) => frames.kept(),
            Kind::Listed(frames) => frames.kept(),
        }
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::Inconsistent`] for a field that does not fit its shape.
    pub fn push(&mut self, time: f64, field: &Field<'_>) -> Result<()> {
        field.validate()?;
        match &mut self.0 {
            Kind::Zarr(frames) => frames.push(time, field),
            Kind::Listed(frames) => frames.push(time, field),
        }
    }

    /// Completes the series after its last frame. Numbered files of an earlier series that are no longer listed are removed.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::NotReplaceable`] if a store that isobar did not write is in its place.
    pub fn finish(self, attributes: &BTreeMap<String, String>) -> Result<()> {
        match self.0 {
            Kind::Zarr(frames) => frames.finish(attributes),
            Kind::Listed(frames) => frames.finish(),
        }
    }
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
            let mut series = Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap();
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
        let refusal = Series::begin(&folder.path().join("run.vti"), "u", [1, 2, 3], &graded).err().unwrap();
        assert!(matches!(refusal, Error::Graded { .. }), "{refusal}");
        assert!(Series::begin(&folder.path().join("run.vtr"), "u", [1, 2, 3], &graded).is_ok());
    }

    #[test]
    fn a_store_of_frames_is_replaced_and_has_a_time_axis() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mesh) = (folder.path().join("run.zarr"), Mesh::unit([3, 2, 1]));
        for count in [2, 3] {
            let mut series = Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap();
            for n in 0..count {
                series.push(f64::from(n), &Field::new("u", &[f64::from(n); 6], [1, 2, 3], &mesh)).unwrap();
            }
            series.finish(&BTreeMap::from([("case".to_owned(), "a".to_owned())])).unwrap();
            let array = std::fs::read_to_string(path.join("u").join("zarr.json")).unwrap();
            let array: serde_json::Value = serde_json::from_str(&array).unwrap();
            assert_eq!(array["shape"], serde_json::json!([count, 1, 2, 3]));
            assert_eq!(array["dimension_names"], serde_json::json!(["time", "z", "y", "x"]));
        }
        // A series without a frame leaves the earlier files unchanged.
        let before = content(folder.path());
        drop(Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap());
        assert_eq!(content(folder.path()), before);
        assert!(Series::begin(&folder.path().join("run.npy"), "u", [1, 2, 3], &mesh).is_err());
    }

    /// Returns the times of a store, by its root alone and by its arrays.
    fn times(path: &Path) -> [usize; 2] {
        let json = |path: std::path::PathBuf| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(path.join("zarr.json")).unwrap()).unwrap()
        };
        let count = |array: &serde_json::Value| array["shape"][0].as_u64().unwrap() as usize;
        let root = json(path.to_path_buf());
        [count(&root["consolidated_metadata"]["metadata"]["u"]), count(&json(path.join("u")))]
    }

    #[test]
    fn a_store_is_complete_after_every_frame() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mesh) = (folder.path().join("run.zarr"), Mesh::unit([3, 2, 1]));
        let push = |series: &mut Series, time: f64| series.push(time, &Field::new("u", &[time; 6], [1, 2, 3], &mesh));
        let begin = || Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap();
        let resume = |until| Series::resume(&path, "u", [1, 2, 3], &mesh, until).unwrap();
        let mut series = begin();
        for n in 0..4 {
            push(&mut series, f64::from(n)).unwrap();
            assert_eq!(times(&path), [n as usize + 1; 2]);
        }
        drop(series);
        // A process that was killed while it wrote the next frame: with its values, its time and a longer array.
        let before = content(folder.path());
        let mut series = resume(9.0);
        assert_eq!(series.kept(), [4, 0]);
        push(&mut series, 4.0).unwrap();
        drop(series);
        let after = content(folder.path());
        for last in ["u/c/4/0/0/0", "time/c/0", "time/zarr.json", "u/zarr.json"] {
            let changed = |file: &&std::path::PathBuf| after.get(*file) != before.get(*file);
            let files = ["u/c/4/0/0/0", "time/c/0", "time/zarr.json", "u/zarr.json"].map(|file| path.join(file));
            assert!(files.iter().all(|file| changed(&file)), "{last}");
            std::fs::remove_dir_all(&path).unwrap();
            for (file, bytes) in &before {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, bytes).unwrap();
            }
            let root = path.join("zarr.json");
            std::fs::write(&root, &before[&root]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            for file in &files {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, &after[file]).unwrap();
                if file.ends_with(last) {
                    break;
                }
            }
            let series = resume(2.0);
            assert_eq!(series.kept()[0], 3, "{last}");
            drop(begin());
        }
        // A second run replaces the store, and the first one does not write into it.
        let (mut first, mut second) = (begin(), begin());
        push(&mut first, 0.0).unwrap();
        push(&mut second, 0.0).unwrap();
        push(&mut second, 5.0).unwrap();
        let refusal = push(&mut first, 1.0).unwrap_err().to_string();
        assert!(refusal.contains("changed by another program"), "{refusal}");
        assert_eq!(times(&path), [2; 2]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Writes a series of `times` whose values are the times.
    fn write(path: &Path, mesh: &Mesh, mut series: Series, times: &[f64]) {
        for &time in times {
            series.push(time, &Field::new("u", &[time; 6], [1, 2, 3], mesh)).unwrap();
        }
        series.finish(&BTreeMap::new()).unwrap();
        assert!(path.exists() || path.with_extension("pvd").exists());
    }

    /// Returns all files below a folder with their content.
    fn content(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .flat_map(|path| {
                if path.is_dir() {
                    content(&path)
                } else {
                    BTreeMap::from([(path.clone(), std::fs::read(path).unwrap())])
                }
            })
            .collect()
    }

    #[test]
    fn a_series_goes_on_after_the_frames_up_to_a_time() {
        let mesh = Mesh::unit([3, 2, 1]);
        for name in ["run.zarr", "run <1>.vti", "run.vtr"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let begin = || Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap();
            let resume = |until| Series::resume(&path, "u", [1, 2, 3], &mesh, until).unwrap();
            write(&path, &mesh, begin(), &[0.0, 0.1, 0.2, 0.3, 0.4]);
            let whole = content(folder.path());
            // A new series begins, since no frame is early enough to be kept.
            let series = resume(-1.0);
            assert_eq!(series.kept(), [0, 5], "{name}");
            drop(series);
            assert_eq!(content(folder.path()), whole, "{name}");
            let series = resume(0.25);
            assert_eq!(series.kept(), [3, 2], "{name}");
            write(&path, &mesh, series, &[0.3, 0.4]);
            assert_eq!(content(folder.path()), whole, "{name}");
            // Frames that are not computed again are removed.
            write(&path, &mesh, resume(0.1), &[0.2]);
            let part = content(folder.path());
            write(&path, &mesh, begin(), &[0.0, 0.1, 0.2]);
            assert_eq!(content(folder.path()), part, "{name}");
            let other = Mesh { centres: [vec![0.0; 3], vec![0.0; 2], vec![0.5]], ..Mesh::unit([3, 2, 1]) };
            for (shape, mesh) in [([1, 2, 3], &other), ([2, 3, 1], &Mesh::unit([1, 3, 2]))] {
                let refusal = Series::resume(&path, "u", shape, mesh, 1.0).err().unwrap();
                assert!(matches!(refusal, Error::NotContinuable { .. }), "{refusal}");
                assert!(refusal.to_string().contains("choose another name"), "{refusal}");
            }
            assert_eq!(content(folder.path()), part, "{name}");
        }
    }

    #[test]
    fn what_isobar_did_not_list_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mesh) = (folder.path().join("run.vti"), Mesh::unit([3, 2, 1]));
        let resume = |path: &Path| Series::resume(path, "u", [1, 2, 3], &mesh, 1.0);
        assert_eq!(resume(&path).unwrap().kept(), [0, 0]);
        write(&path, &mesh, Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap(), &[0.0, 0.1]);
        let list = folder.path().join("run.pvd");
        let text = std::fs::read_to_string(&list).unwrap();
        for (text, part) in [
            (text.replace("run_0001", "other"), "does not list run_0000.vti, run_0001.vti"),
            (text.replace("run_0001", "run_0002"), "does not list"),
            (text.replace("run_0001", "../run_0001"), "does not list"),
            ("no list".to_owned(), "does not list"),
        ] {
            std::fs::write(&list, text).unwrap();
            let refusal = resume(&path).err().unwrap().to_string();
            assert!(refusal.contains(part) && refusal.contains("another name"), "{refusal}");
        }
        std::fs::write(&list, &text).unwrap();
        let frame = folder.path().join("run_0001.vti");
        std::fs::write(&frame, "not a frame").unwrap();
        assert!(resume(&path).err().unwrap().to_string().contains("run_0001.vti is not on this run's grid"));
        std::fs::remove_file(&frame).unwrap();
        assert!(resume(&path).err().unwrap().to_string().contains("run_0001.vti is missing"));
        // A store of one field.
        let path = folder.path().join("one.zarr");
        crate::write(&path, &Field::new("u", &[1.0; 6], [1, 2, 3], &mesh)).unwrap();
        assert!(resume(&path).err().unwrap().to_string().contains("without frames"));
    }

    #[test]
    fn numbered_files_of_an_earlier_list_are_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mesh) = (folder.path().join("run.vti"), Mesh::unit([3, 2, 1]));
        let begin = || Series::begin(&path, "u", [1, 2, 3], &mesh).unwrap();
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names.into_iter().map(|name| name.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        write(&path, &mesh, begin(), &[0.0, 0.1, 0.2]);
        // Files that the list does not contain, or whose names are not those of frames.
        for name in ["run_0007.vti", "run_a.vti", "run_0000.vtr", "run_01.vti", "other_0002.vti"] {
            std::fs::write(folder.path().join(name), "mine").unwrap();
        }
        let list = folder.path().join("run.pvd");
        let text = std::fs::read_to_string(&list).unwrap();
        let line = |name: &str| format!("<DataSet timestep=\"1\" group=\"\" part=\"0\" file=\"{name}\"/>\n");
        let more = ["run_a.vti", "run_0000.vtr", "run_01.vti", "other_0002.vti"].map(line).concat();
        std::fs::write(&list, text.replace("</Coll", &format!("{more}</Coll"))).unwrap();
        let before = names();
        let mut series = begin();
        series.push(0.0, &Field::new("u", &[0.0; 6], [1, 2, 3], &mesh)).unwrap();
        assert_eq!(names(), before);
        series.finish(&BTreeMap::new()).unwrap();
        assert_eq!(names(), before.replace("run_0001.vti run_0002.vti ", ""));
    }
}
