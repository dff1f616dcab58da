//! Matrices and vectors as files for other programs.

use isobar_core::prelude::*;
use isobar_core::stencil::matrix_market::{write_matrix, write_vector};

fn helmholtz(advection: [f64; 3]) -> isobar_core::stencil::Csr {
    let grid = GridOptions { nx: 5, ny: 4, nz: 3, ..GridOptions::default() };
    Helmholtz { grid, advection, ..Helmholtz::default() }.stencil().unwrap().to_csr().unwrap()
}

#[test]
fn files_have_every_number_of_a_matrix() {
    for advection in [[0.0; 3], [1.0, 2.0, 0.0]] {
        let matrix = helmholtz(advection);
        let mut file = Vec::new();
        write_matrix(&mut file, &matrix, "a comment").unwrap();
        let file = String::from_utf8(file).unwrap();
        let mut lines = file.lines();
        let (kind, is_symmetric) = if advection == [0.0; 3] { ("symmetric", true) } else { ("general", false) };
        assert_eq!(lines.next().unwrap(), format!("%%MatrixMarket matrix coordinate real {kind}"));
        assert_eq!(lines.next(), Some("% a comment"));
        let stored = (0..60).flat_map(|row| matrix.row(row).map(move |(column, value)| (row + 1, column + 1, value)));
        let stored: Vec<_> = stored.filter(|(row, column, _)| !is_symmetric || column <= row).collect();
        assert_eq!(lines.next().unwrap(), format!("60 60 {}", stored.len()));
        let read = lines.map(|line| {
            let [row, column, value] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            (row.parse().unwrap(), column.parse().unwrap(), value.parse().unwrap())
        });
        assert_eq!(read.collect::<Vec<(usize, usize, f64)>>(), stored);
    }
}

#[test]
fn vectors_are_one_column_arrays() {
    let mut file = Vec::new();
    write_vector(&mut file, &[1.5, -2.0], "a comment").unwrap();
    let text = String::from_utf8(file).unwrap();
    assert!(text.starts_with("%%MatrixMarket matrix array real general\n% a comment\n2 1\n1.5"), "{text}");
}
