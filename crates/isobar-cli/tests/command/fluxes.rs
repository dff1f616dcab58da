//! Fluxes and images of labels with the command: files, report and messages.

use std::fs;
use std::path::Path;

use crate::support::{Case, json, npy, number, succeeded};

/// Two layers in series along x, of 1 and 3, from u = 2 to u = 0: a flux of 2 / (½ + ½/3) = 3 per area.
const CASE: &str = "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 8\nny = 5\nnz = 2\n[diffusion]\n\
                    coefficient = { image = \"rock.npy\", values = { 0 = 1.0, 7 = 3.0 } }\n\
                    boundary = { west = { dirichlet = 2.0 }, east = \"dirichlet\" }\n\
                    [solver]\ntolerance = 1e-12\n[output]\nflux = \"q.zarr\"\n";

fn chunk(path: &Path) -> Vec<f64> {
    fs::read(path).unwrap().as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
}

#[test]
fn fluxes_are_written_and_their_totals_reported() {
    let labels = [0., 0., 0., 0., 7., 7., 7., 7.].repeat(10);
    let case = Case::new(CASE).with("rock.npy", npy("(2, 5, 8)", &labels));
    for _ in 0..2 {
        let text = succeeded(&case.run("solve", &["--report", "report.json"]));
        assert!(text.contains("2 values of the image"), "{text}");
        assert!(text.contains("flow       east 3.000000e0, west -3.000000e0 out of the domain"), "{text}");
        assert!(text.contains("q.zarr"), "{text}");
    }
    let report = json(&case.path("report.json"));
    let of = |side: &str| number(&report["flux"][side]);
    assert!((of("east") - 3.0).abs() < 1e-9 && (of("west") + 3.0).abs() < 1e-9, "{}", report["flux"]);
    assert_eq!(report["flux"].as_object().unwrap().len(), 2);
    let q = chunk(&case.path("q.zarr/flux_x/c/0/0/0"));
    assert!(q.len() == 9 * 5 * 2 && q.iter().all(|q| (q - 0.3).abs() < 1e-10), "{q:?}");
    let across = case.path("q.zarr/flux_y/c/0/0/0");
    assert!(!across.exists() || chunk(&across).iter().all(|q| q.abs() < 1e-10));
}

/// A source flows out through the wells where sides are closed, and through both otherwise.
#[test]
fn wells_are_part_of_the_balance() {
    let case = Case::new(
        "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 8\nny = 5\n[diffusion]\nsources = [{ i = 1, j = 1, rate = 3.0 }]\n\
         wells = [{ i = 6, j = 3, value = 1.0, radius = 1e-3 }, { i = 0, j = 4, value = 0.0, radius = 1e-3 }]\n[solver]\ntolerance = 1e-12\n",
    );
    let text = succeeded(&case.run("solve", &[]));
    assert!(text.contains("flow       wells 3.000000e0 out of the domain"), "{text}");
    succeeded(&case.run("solve", &["--set", "diffusion.boundary.west=dirichlet", "--report", "report.json"]));
    let flux = &json(&case.path("report.json"))["flux"];
    let [west, wells] = ["west", "wells"].map(|name| number(&flux[name]));
    assert!(west != 0.0 && (west + wells - 3.0).abs() < 1e-9, "{flux}");
}

#[test]
fn what_is_wrong_with_an_image_is_said() {
    let case = Case::new(CASE);
    let fails = |set: &[&str], parts: &[&str]| {
        case.fails_with(set, parts);
        assert!(!case.path("q.zarr").exists());
    };
    fails(&[], &["diffusion.coefficient", "rock.npy: no such file"]);
    let mut labels = [0., 0., 0., 0., 7., 7., 7., 7.].repeat(10);
    (labels[9], labels[40]) = (5.0, 5.0);
    fs::write(case.path("rock.npy"), npy("(2, 5, 8)", &labels)).unwrap();
    let expected = "no entry for label 5, which 2 cells have, the first at (i, j, k) = (1, 1, 0)";
    fails(&[], &["diffusion.coefficient", "rock.npy", expected]);
    fails(&["--set", "grid.nx=9"], &["has shape (2, 5, 8), but the grid needs (2, 5, 9)"]);
    labels[9] = 0.5;
    fs::write(case.path("rock.npy"), npy("(2, 5, 8)", &labels)).unwrap();
    fails(&[], &["in cell (i, j, k) = (1, 1, 0) is no label"]);
    fails(&["--set", "output.flux=no/such/folder/q.zarr"], &["output.flux", "does not exist"]);
}
