//! Stores as zarr itself reads them, and what is never replaced.

use std::collections::BTreeMap;

use zarrs::group::Group;

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

#[test]
fn zarr_reads_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    let values = [0.0, -1.0, 2.0, 3.0, 4.0, f64::NAN];
    write(&path, &field(&values, &mesh())).unwrap();
    let store = Arc::new(FilesystemStore::new(&path).unwrap());
    let group = Group::open(Arc::clone(&store), "/").unwrap();
    assert_eq!(group.attributes()["case"], "a");
    assert_eq!(group.consolidated_metadata().unwrap().metadata.len(), 5);
    let array = Array::open(store, "/u").unwrap();
    let names: Vec<_> = array.dimension_names().clone().unwrap().into_iter().flatten().collect();
    assert_eq!(names, ["z", "y", "x"]);
    let read: Vec<f64> = array.retrieve_array_subset(&array.subset_all()).unwrap();
    assert_eq!(read[..5], values[..5]);
    assert!(read[5].is_nan());
}

#[test]
fn replaces_a_store_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u.zarr");
    fs::create_dir(&path).unwrap();
    check(&path).unwrap();
    write(&path, &field(&[0.0; 6], &mesh())).unwrap();
    write(&path, &field(&[1.0; 6], &mesh())).unwrap();
    assert!(path.join("u/c/0/0/0").is_file());

    let thesis = folder.path().join("thesis.zarr");
    fs::create_dir(&thesis).unwrap();
    fs::write(thesis.join("chapter1.tex"), b"").unwrap();
    for error in [check(&thesis).unwrap_err(), write(&thesis, &field(&[0.0; 6], &mesh())).unwrap_err()] {
        assert!(error.to_string().contains("is not a zarr store"), "{error}");
    }
    assert!(thesis.join("chapter1.tex").is_file());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_missing_folder_is_named() {
    let error = write(Path::new("/nowhere/at/all/u.zarr"), &field(&[0.0; 6], &mesh())).unwrap_err();
    assert!(error.to_string().contains("mkdir -p /nowhere/at/all"), "{error}");
}
