//! Effective conductivities with the command.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use isobar::problem::{Coefficient, DiffusionProblem, Spacing};
use isobar::stencil::Axis;
use isobar::{Device, Sample, Shape};
use serde_json::Value;
use tempfile::tempdir;

use crate::support::{assert_fails, isobar, json, npy, stderr, stdout, succeeds};

/// Writes channels along x of label 9, two of five rows; the others have label 4.
fn channels(folder: &Path) -> PathBuf {
    let path = folder.join("rock.npy");
    let rows = [9.0, 4.0, 9.0, 4.0, 4.0];
    fs::write(&path, npy("(3, 5, 6)", &(0..90).map(|n| rows[n / 6 % 5]).collect::<Vec<f64>>())).unwrap();
    path
}

#[test]
fn channels_conduct_along_themselves() {
    let folder = tempdir().unwrap();
    let (image, report, plot) = (channels(folder.path()), folder.path().join("r.json"), folder.path().join("r.png"));
    let [image, report, plot] = [&image, &report, &plot].map(|path| path.to_str().unwrap());
    let all = ["effective", image, "--open", "9", "--device", "cpu", "--report", report, "--plot", plot];
    let text = succeeds(all);
    assert!(text.contains("6×5×3 = 90 cells, porosity 0.4000"), "{text}");
    assert!(text.contains("0.400000") && text.contains("infinite") && text.contains("100.00 %"), "{text}");
    let read = json(report.as_ref());
    let number = |axis: &str, key: &str| read["axes"][axis][key].as_f64().unwrap();
    for axis in ["x", "z"] {
        assert!((number(axis, "conductivity") - 0.4).abs() < 1e-9 && (number(axis, "tortuosity") - 1.0).abs() < 1e-9);
        assert!(number(axis, "imbalance") < 1e-6 && number(axis, "connected") == 1.0);
        assert_eq!(read["axes"][axis]["outcome"]["stop"], "converged");
    }
    assert_eq!((number("y", "conductivity"), number("y", "connected")), (0.0, 0.0));
    assert!(read["axes"]["y"]["tortuosity"].is_null() && read["axes"]["y"]["outcome"].is_null());
    assert_eq!((read["grid"].clone(), read["porosity"].as_f64()), (serde_json::json!([6, 5, 3]), Some(0.4)));
    assert!(fs::read(plot).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn labels_conduct_what_they_are_given() {
    let folder = tempdir().unwrap();
    let image = channels(folder.path());
    let image = image.to_str().unwrap();
    let all = ["effective", image, "--values", "9=2,4=0.5", "--axis", "y", "--device", "cpu", "--report", "-"];
    let output = isobar(all).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let read: Value = serde_json::from_str(&stdout(&output)).unwrap();
    // Two fifths of 2 and three of ½ in series.
    let expected = 1.0 / (0.4 / 2.0 + 0.6 / 0.5);
    let y = &read["axes"]["y"];
    assert!((y["conductivity"].as_f64().unwrap() - expected).abs() < 1e-8, "{y}");
    assert!((y["bounds"]["series"].as_f64().unwrap() - expected).abs() < 1e-12);
    assert!((y["bounds"]["parallel"].as_f64().unwrap() - 1.1).abs() < 1e-12);
    assert_eq!(read["axes"].as_object().unwrap().len(), 1);
    // The image holds conductivities.
    let output = isobar(["effective", image, "--device", "cpu", "--axis", "x"]).output().unwrap();
    assert!(stdout(&output).contains(" 6.00000 "), "{}", stdout(&output));
    for (values, shown) in
        [("9=2e-9,4=2e-9", " 2.00000e-9 "), ("9=3e200,4=3e200", " 3.00000e200 "), ("9=2e-4,4=2e-4", " 0.000200000 ")]
    {
        let text = succeeds(["effective", image, "--values", values, "--axis", "x", "--device", "cpu"]);
        assert!(text.contains(shown), "{text}");
    }
}

#[test]
fn cells_need_not_be_cubes() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("rock.npy");
    let kappa: Vec<f64> = (0..90).map(|n| [0.1, 1.0][n * n / 7 % 2]).collect();
    fs::write(&path, npy("(3, 5, 6)", &kappa)).unwrap();
    let image = path.to_str().unwrap();
    let along_x = |more: &[&str]| {
        let all = ["effective", image, "--axis", "x", "--tolerance", "1e-10", "--device", "cpu", "--report", "-"];
        let output = isobar(all.iter().chain(more).copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let read: Value = serde_json::from_str(&stdout(&output)).unwrap();
        read["axes"]["x"]["conductivity"].as_f64().unwrap()
    };
    let problem = DiffusionProblem::new(Shape::new(6, 5, 3), Coefficient::Isotropic(kappa));
    let spacing = [4.0, 1.0, 2.5].map(Spacing::Uniform);
    let mut sample = Sample::new(DiffusionProblem { spacing, ..problem }).unwrap();
    let found = sample
        .along(Axis::X, &Device::cpu().unwrap(), &Sample::options(1e-10), None, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    let expected = found.conductivity;
    assert!((along_x(&["--spacing", "2.5,1,4"]) - expected).abs() < 1e-9 * expected);
    assert!((along_x(&[]) - expected).abs() > 1e-3 * expected);
    assert!((along_x(&["--spacing", "3,3,3"]) - along_x(&[])).abs() < 1e-9);
    let fails = |spacing, part| {
        assert_fails(&isobar(["effective", image, "--device", "cpu", "--spacing", spacing]).output().unwrap(), &[part]);
    };
    fails("1,2", "--spacing: 2 widths for an image of 6×5×3 cells; give one for each direction, in the order z, y, x");
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempdir().unwrap();
    let image = channels(folder.path());
    let image = image.to_str().unwrap();
    let fails = |args: &[&str], parts: &[&str]| {
        let mut all = vec!["effective", image, "--device", "cpu", "--quiet"];
        all.extend(args);
        assert_fails(&isobar(all).output().unwrap(), parts);
    };
    fails(&["--values", "9=1"], &["--values", "rock.npy", "no entry for label 4, which 54 cells have"]);
    fails(&["--values", "9=1,4=-1"], &["--values", "-1 for label 4"]);
    fails(&["--values", "9=1,4=0,9=2"], &["--values", "a label is given twice"]);
    fails(&["--values", "9"], &["use a whole number, = and a number, as in 0=0,255=1"]);
    fails(&["--tolerance", "0"], &["--tolerance", "between 0 and 1"]);
    fails(&["--open", "9", "--values", "9=1"], &["cannot be used with"]);
    fails(&["--open", "9", "--plot", "a.jpg"], &["--plot", ".png"]);
    let missing = folder.path().join("no.npy");
    assert_fails(&isobar(["effective".as_ref(), missing.as_os_str()]).output().unwrap(), &["no.npy: no such file"]);
    let whole = folder.path().join("labels.npy");
    let mut bytes = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
    bytes.extend(b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }".iter());
    bytes.resize(10 + 0x46 - 1, b' ');
    bytes.extend([b'\n', 0, 128, 255]);
    fs::write(&whole, bytes).unwrap();
    let output = isobar(["effective".as_ref(), whole.as_os_str(), "--device=cpu".as_ref()]).output().unwrap();
    assert_fails(&output, &["labels.npy: holds labels (0, 128, 255)", "--open LABEL"]);
    // All cells are closed: a result, not an error.
    let output = isobar(["effective", image, "--values", "4=0,9=0", "--device", "cpu"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("infinite") && stdout(&output).contains("porosity 0.0000"));
    fails(&["--open", "1"], &["--open 1: no cell of", "has this label; the image has 9, 4"]);
}
