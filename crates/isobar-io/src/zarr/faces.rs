//! Fluxes through all faces of a grid, one array per axis.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::store::{Array, Dimension, Store};
use super::{begin, check_replaceable, coordinate, finish, layers_of_a_chunk, positions, write_array};
use crate::{Error, Mesh, Result};

/// Names and descriptions of the arrays across x, y and z.
const ARRAYS: [(&str, &str); 3] = [
    ("flux_x", "flow through each face across x, positive towards larger x"),
    ("flux_y", "flow through each face across y, positive towards larger y"),
    ("flux_z", "flow through each face across z, positive towards larger z"),
];

/// Writes the flux through each face as a zarr group of three arrays: `flux_x` of shape (nz, ny, nx + 1), `flux_y` of shape
/// (nz, ny + 1, nx) and `flux_z` of shape (nz + 1, ny, nx). An earlier store written by isobar is replaced.
///
/// # Errors
/// [`Error::NotAStore`] for an ending other than `.zarr`; [`Error::Inconsistent`] for arrays that do not fit the mesh; errors of writing.
pub fn write_fluxes(
    path: &Path,
    fluxes: &[Vec<f64>; 3],
    mesh: &Mesh,
    attributes: &BTreeMap<String, String>,
) -> Result<()> {
    require_store(path)?;
    let cells = [0, 1, 2].map(|d| mesh.centres[d].len());
    let shapes = [0, 1, 2].map(|axis| {
        let [nx, ny, nz] = [0, 1, 2].map(|d| cells[d] + usize::from(d == axis));
        [nz, ny, nx]
    });
    for ((values, shape), (what, _)) in fluxes.iter().zip(&shapes).zip(ARRAYS) {
        let (found, expected) = (values.len(), shape.iter().product());
        if found != expected {
            return Err(Error::Inconsistent { name: "flux".to_owned(), what, found, expected });
        }
    }
    let store = begin(path)?;
    store.fill(|folder| {
        let mut store = Store::new(folder);
        let mut names = Vec::new();
        let at_faces = [0, 1].map(|d| {
            let (name, meaning) = [("x_faces", "x of the faces across x"), ("y_faces", "y of the faces across y")][d];
            coordinate(name, &mesh.faces[d], None, meaning)
        });
        for (array, values) in positions(mesh).into_iter().chain(at_faces) {
            names.push(array.name);
            write_array(&mut store, &array, values)?;
        }
        for (axis, (name, meaning)) in ARRAYS.into_iter().enumerate() {
            let shape = shapes[axis];
            let named = |d: usize, centres, faces| if d == axis { faces } else { centres };
            let dimensions = vec![
                Dimension { name: named(2, "z", "z_faces"), length: shape[0], chunk: layers_of_a_chunk(shape) },
                Dimension { name: named(1, "y", "y_faces"), length: shape[1], chunk: shape[1] },
                Dimension { name: named(0, "x", "x_faces"), length: shape[2], chunk: shape[2] },
            ];
            let attributes = Map::from_iter([("long_name".to_owned(), Value::from(meaning))]);
            names.push(name);
            write_array(&mut store, &Array { name, dimensions, attributes }, &fluxes[axis])?;
        }
        finish(&mut store, &names, attributes)
    })?;
    store.finish(check_replaceable)
}

fn require_store(path: &Path) -> Result<()> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zarr")) {
        return Ok(());
    }
    Err(Error::NotAStore { path: path.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn fluxes_lie_on_their_faces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q.zarr");
        let mesh = Mesh::unit([2, 1, 3]);
        let of = |n: usize| (0..n).map(|m| 1.0 + m as f64).collect::<Vec<f64>>();
        let fluxes = [of(9), of(12), of(8)];
        for _ in 0..2 {
            // The second replaces the first.
            write_fluxes(&path, &fluxes, &mesh, &BTreeMap::from([("case".into(), "a".into())])).unwrap();
        }
        let json = |name: &str| -> Value {
            serde_json::from_slice(&fs::read(path.join(name).join("zarr.json")).unwrap()).unwrap()
        };
        for (name, shape, dimensions) in [
            ("flux_x", [3, 1, 3], ["z", "y", "x_faces"]),
            ("flux_y", [3, 2, 2], ["z", "y_faces", "x"]),
            ("flux_z", [4, 1, 2], ["z_faces", "y", "x"]),
        ] {
            let array = json(name);
            assert_eq!(array["shape"], Value::from(shape.to_vec()));
            assert_eq!(array["dimension_names"], Value::from(dimensions.to_vec()));
        }
        let bytes = fs::read(path.join("flux_z/c/0/0/0")).unwrap();
        let values: Vec<f64> = bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
        assert_eq!(values, fluxes[2]);
        assert_eq!(json("y_faces")["shape"], Value::from(vec![2]));
        let message = write_fluxes(&folder.path().join("q.npy"), &fluxes, &mesh, &BTreeMap::new()).unwrap_err();
        assert!(message.to_string().contains("use a name that ends in .zarr"), "{message}");
        let wrong = [of(9), of(12), of(9)];
        assert!(matches!(
            write_fluxes(&path, &wrong, &mesh, &BTreeMap::new()),
            Err(Error::Inconsistent { what: "flux_z", found: 9, expected: 8, .. })
        ));
    }
}
