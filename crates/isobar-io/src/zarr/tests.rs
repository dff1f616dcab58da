//! Tests of the bytes of a store, and of stores that must not be replaced.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::field::Mesh;

fn mesh() -> Mesh {
    Mesh {
        centres: [vec![0.25, 0.75], vec![0.5], vec![1.0, 3.0, 5.0]],
        faces: [vec![], vec![], vec![0.0, 2.0, 4.0, 6.0]],
        spacing: None,
        units: Units::Atmosphere,
    }
}

fn field<'a>(values: &'a [f64], mesh: &'a Mesh) -> Field<'a> {
    Field {
        name: "u",
        values,
        shape: [3, 1, 2],
        mesh,
        active: None,
        attributes: BTreeMap::from([("case".into(), "a".into())]),
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.join("zarr.json")).unwrap()).unwrap()
}

fn numbers(path: &Path) -> Vec<f64> {
    fs::read(path).unwrap().as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
}

/// Checks that the metadata equals what zarr-python 3.1 and xarray 2026.9 read as a dataset.
#[test]
fn metadata_and_chunks_are_those_of_version_3() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    let values = [0.0, -1.0, 2.0, 3.0, 4.0, f64::NAN];
    write(&path, &field(&values, &mesh())).unwrap();
    let array = |lengths: Value, dimensions: Value| {
        json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": lengths,
            "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": lengths}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "dimension_names": dimensions,
        })
    };
    assert_eq!(json(&path.join("u")), array(json!([3, 1, 2]), json!(["z", "y", "x"])));
    let mut z = array(json!([3]), json!(["z"]));
    z["attributes"] = json!({"units": "m", "long_name": "height of the cell centres"});
    assert_eq!(json(&path.join("z")), z);
    let root = json(&path);
    assert_eq!((&root["zarr_format"], &root["node_type"]), (&json!(3), &json!("group")));
    assert_eq!(root["attributes"]["case"], "a");
    let names = ["x", "y", "z", "z_faces", "u"];
    assert_eq!(root["attributes"][ours::NAMES], json!(names));
    let consolidated = &root["consolidated_metadata"];
    assert_eq!((&consolidated["kind"], &consolidated["must_understand"]), (&json!("inline"), &json!(false)));
    assert_eq!(consolidated["metadata"], Value::from_iter(names.map(|name| (name, json(&path.join(name))))));
    let read = numbers(&path.join("u/c/0/0/0"));
    assert!(read[..5] == values[..5] && read.len() == 6 && read[5].is_nan(), "{read:?}");
    assert_eq!(numbers(&path.join("z_faces/c/0")), mesh().faces[2]);
    assert_eq!(numbers(&path.join("x/c/0")), mesh().centres[0]);
}

#[test]
fn zeros_are_not_stored_and_a_last_chunk_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    let shape = [3, 1 << 10, 1 << 10];
    let layer = |value: f64| vec![value; 1 << 20];
    let mesh = Mesh::unit([1 << 10, 1 << 10, 3]);
    write(&path, &Field::new("u", &[layer(0.0), layer(0.0), layer(2.5)].concat(), shape, &mesh)).unwrap();
    assert_eq!(json(&path.join("u"))["chunk_grid"]["configuration"]["chunk_shape"], json!([2, 1 << 10, 1 << 10]));
    assert!(!path.join("u/c/0").exists());
    assert!(numbers(&path.join("u/c/1/0/0")) == [layer(2.5), layer(0.0)].concat());
    // A zero with a sign is stored like any other number.
    write(&path, &Field::new("u", &layer(-0.0), [1, 1 << 10, 1 << 10], &mesh)).unwrap();
    assert!(numbers(&path.join("u/c/0/0/0"))[0].is_sign_negative());
}

#[test]
fn replaces_a_store_of_its_own_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    fs::create_dir(&path).unwrap();
    check(&path).unwrap();
    write(&path, &field(&[0.0; 6], &mesh())).unwrap();
    write(&path, &field(&[1.0; 6], &mesh())).unwrap();
    assert!(path.join("u/c/0/0/0").is_file());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    #[track_caller]
    fn refused(path: &Path, part: &str) {
        let count = || walk(path).len();
        let before = count();
        for error in [check(path).unwrap_err(), write(path, &field(&[0.0; 6], &mesh())).unwrap_err()] {
            let message = error.to_string();
            assert!(message.contains(part), "{message}");
            assert!(message.contains("is not replaced; move it away or choose another name"), "{message}");
        }
        assert_eq!(count(), before);
    }
    let place = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let thesis = place("thesis.zarr");
    fs::write(thesis.join("chapter1.tex"), b"").unwrap();
    refused(&thesis, "is a folder and not a zarr store");
    for mark in [".zgroup", "zarr.json", ".zarray"] {
        let other = place(&format!("{}.zarr", mark.trim_matches('.')));
        fs::write(other.join(mark), b"{\"attributes\": {}}").unwrap();
        refused(&other, "is a zarr store that isobar did not write");
    }
    let file = folder.path().join("file.zarr");
    fs::write(&file, b"mine").unwrap();
    refused(&file, "is not a zarr store");
}

#[test]
fn a_store_that_others_put_something_into_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    for foreign in
        ["case.toml", "v/zarr.json", "u/notes.txt", "u/c/0/0/0.bak", "u/c/x", "c/0", ".zgroup", "x/c/9/0/0/0"]
    {
        write(&path, &field(&[0.0; 6], &mesh())).unwrap();
        let file = path.join(foreign);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, b"mine").unwrap();
        let message = write(&path, &field(&[1.0; 6], &mesh())).unwrap_err().to_string();
        let first = foreign.split('/').next().unwrap();
        assert!(message.contains("also holds") && message.contains(first), "{foreign}: {message}");
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        fs::remove_dir_all(&path).unwrap();
    }
    #[cfg(unix)]
    {
        write(&path, &field(&[0.0; 6], &mesh())).unwrap();
        std::os::unix::fs::symlink("c", path.join("u/2")).unwrap();
        assert!(check(&path).unwrap_err().to_string().contains("u/2"));
    }
}

#[test]
fn a_store_that_another_program_wrote_from_ours_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    write(&path, &field(&[0.0; 6], &mesh())).unwrap();
    // The same arrays and attributes, but compressed, indented or otherwise changed.
    let array = path.join("u/zarr.json");
    let text = fs::read_to_string(&array).unwrap();
    fs::write(&array, text.clone() + " ").unwrap();
    touch(&path.join("zarr.json"));
    assert!(check(&path).unwrap_err().to_string().contains("isobar did not write"));
    fs::write(&array, text).unwrap();
    touch(&path.join("zarr.json"));
    check(&path).unwrap();
}

#[test]
fn a_store_that_was_changed_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    write(&path, &field(&[2.0; 6], &mesh())).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    touch(&path.join("u/c/0/0/0"));
    let message = write(&path, &field(&[1.0; 6], &mesh())).unwrap_err().to_string();
    assert!(message.contains("u/c/0/0/0 was changed afterwards"), "{message}");
}

/// Writes a file again as it is.
fn touch(path: &Path) {
    fs::write(path, fs::read(path).unwrap()).unwrap();
}

#[test]
fn names_that_no_array_can_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    let mesh = mesh();
    for name in ["", ".", "..", "a/b", "../../u", "__u", "x", "z_faces", "u\n", "zarr\0"] {
        let field = Field { name, ..field(&[0.0; 6], &mesh) };
        assert!(matches!(write(&path, &field), Err(Error::FieldName { .. })), "{name}");
    }
    write(&path, &Field { name: "vertical velocity", ..field(&[0.0; 6], &mesh) }).unwrap();
    write(&path, &field(&[0.0; 6], &mesh)).unwrap();
}

/// Returns every file below a path.
fn walk(path: &Path) -> Vec<PathBuf> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flat_map(|entry| walk(&entry.unwrap().path())).collect(),
        Err(_) => vec![path.to_path_buf()],
    }
}

#[test]
fn a_missing_folder_is_named() {
    let error = write(Path::new("/nowhere/at/all/u.zarr"), &field(&[0.0; 6], &mesh())).unwrap_err();
    assert!(error.to_string().contains("mkdir -p /nowhere/at/all"), "{error}");
}

/// Returns every file of a folder with its content.
fn files(root: &std::path::Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(
                files(&entry.path())
                    .into_iter()
                    .map(|(path, bytes)| (PathBuf::from(entry.file_name()).join(path), bytes)),
            );
        } else {
            all.insert(entry.file_name().into(), fs::read(entry.path()).unwrap());
        }
    }
    all
}

/// Checks that several processes write the same bytes as one process, including zeros and a partial last chunk.
#[test]
fn a_shared_store_is_that_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let shape = [5, 1 << 10, 1 << 10];
    let [nz, ny, nx] = shape;
    let mesh = Mesh::unit([nx, ny, nz]);
    let layer = |k: usize| (0..ny * nx).map(move |n| if k < 2 { 0.0 } else { (n + k) as f64 });
    let values: Vec<f64> = (0..nz).flat_map(layer).collect();
    let [alone, together] = ["alone.zarr", "together.zarr"].map(|name| folder.path().join(name));
    let facts = BTreeMap::from([("case".to_owned(), "a".to_owned())]);
    write(&alone, &Field { attributes: facts.clone(), ..Field::new("u", &values, shape, &mesh) }).unwrap();
    let first = shared::SharedStore::begin(&together, "u", shape).unwrap();
    let second = shared::SharedStore::join(&together, "u", shape, first.folder()).unwrap();
    let chunks = first.chunks();
    assert_eq!(chunks, [0..2, 2..4, 4..5]);
    for (n, layers) in chunks.into_iter().enumerate() {
        let values = layers.flat_map(layer).collect();
        if n == 1 { &first } else { &second }.write_chunk(n, values).unwrap();
    }
    assert!(second.write_chunk(2, vec![0.0]).is_err() && !together.exists());
    second.finish(&mesh, &facts).unwrap();
    first.finish(&mesh, &facts).unwrap();
    assert!(files(&alone) == files(&together));
    assert!(shared::SharedStore::join(&together, "u", shape, &folder.path().join("nowhere")).is_err());
    // A store that is not finished leaves the earlier files unchanged, and processes that still write to it do not
    // restore it.
    let first = shared::SharedStore::begin(&together, "u", shape).unwrap();
    let second = shared::SharedStore::join(&together, "u", shape, first.folder()).unwrap();
    drop(first);
    assert!(second.write_chunk(2, vec![1.0; ny * nx]).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
