//! Cases assembled by several threads: their arrays, and the errors that they find.

use std::fs;

use isobar::{Device, Shape};

use super::parse;
use crate::{Assembled, Case, Error, Matrix, Override};

/// 75 × 52 × 61 cells, more than three threads have pieces.
const GRID: &str = "[grid]\nnx = 75\nny = 52\nnz = 61\n";
const SHAPE: Shape = Shape { nx: 75, ny: 52, nz: 61 };

fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    Device::cpu_with_threads(threads).unwrap().enter(work)
}

/// Returns all numbers of a system as text, which is the same for the same bits.
fn written(case: &Case, threads: usize) -> String {
    let Assembled { matrix, rhs, exact, active, .. } = on_threads(threads, || case.assemble()).unwrap();
    let guess = on_threads(threads, || case.first_guess()).unwrap();
    let matrix = match matrix {
        Matrix::Diffusion(matrix) => format!("{matrix:?}"),
        Matrix::TensorProduct(matrix) => format!("{matrix:?}"),
    };
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    format!("{matrix} {:?} {:?} {active:?} {:?}", bits(&rhs), exact.as_deref().map(bits), bits(&guess))
}

#[test]
fn threads_change_nothing() {
    let bubbles = "{ bubbles = { count = 6, radius = 0.15, contrast = 1e3, seed = 1 } }";
    let diffusion = |rhs: &str, keys: &str| {
        format!("[problem]\nkind = \"diffusion\"\n[problem.rhs]\nkind = \"{rhs}\"\n{GRID}[diffusion]\n{keys}\n")
    };
    let cases = [
        diffusion("random", &format!("coefficient = {bubbles}")),
        diffusion(
            "manufactured",
            "coefficient = { noise = { sigma = 2.0 } }\ncoefficient_z = { ratio = 0.1 }\nboundary.west = \"dirichlet\"",
        ),
        diffusion("smooth", "unknowns = \"points\"\ncoefficient = { layers = { contrast = 50.0 } }"),
        diffusion("constant", "coefficient_y = 2.0\nmultiplier = 0.3\nreaction = 0.5\nactive = 1.0"),
        format!("[problem]\nkind = \"heat\"\n{GRID}[heat]\ndt = 0.1\nend_time = 0.2\ninitial = \"random\"\n"),
        format!("[problem]\nkind = \"helmholtz\"\nrhs.kind = \"manufactured\"\n{GRID}"),
        format!("[problem]\nkind = \"helmholtz\"\nrhs.weighting = \"volume\"\n{GRID}[solver]\nguess = \"random\"\n"),
    ];
    for text in cases {
        let case = parse(&text, &[]).unwrap();
        let expected = written(&case, 1);
        for threads in [2, 5] {
            assert!(written(&case, threads) == expected, "{threads} threads: {text}");
        }
    }
}

#[test]
fn the_first_wrong_cell_of_a_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.toml");
    fs::write(
        &path,
        format!("[problem]\nkind = \"diffusion\"\n{GRID}[diffusion]\ncoefficient = {{ file = \"k.npy\" }}\n"),
    )
    .unwrap();
    let of = |wrong: &[([usize; 3], f64)]| -> Vec<Error> {
        let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, {}, {}), }}", 61, 52, 75);
        header += &" ".repeat(118 - 1 - header.len());
        let mut bytes = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), b"\n"].concat();
        let mut values = vec![1.0f64; SHAPE.cells()];
        for &([i, j, k], value) in wrong {
            values[i + SHAPE.nx * (j + SHAPE.ny * k)] = value;
        }
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        fs::write(folder.path().join("k.npy"), bytes).unwrap();
        let case = Case::load(&path, &[] as &[Override]).unwrap();
        [1, 2, 5].map(|threads| on_threads(threads, || case.assemble()).unwrap_err()).to_vec()
    };
    for (wrong, expected) in [
        (&[([3, 17, 59], -2.0), ([4, 17, 59], -1.0)][..], "-2 in cell (i, j, k) = (3, 17, 59), a[59, 17, 3]"),
        (&[([74, 51, 60], 1e90), ([1, 0, 60], 1e-90)], "in cell (i, j, k) = (1, 0, 60) is out of range"),
    ] {
        for error in of(wrong) {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
