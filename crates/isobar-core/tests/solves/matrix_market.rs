//! Matrices survive a file, and no file crashes the reader.

use isobar_core::prelude::*;
use isobar_core::stencil::matrix_market::{read_matrix, write_matrix, write_vector};
use proptest::prelude::*;

fn helmholtz(advection: [f64; 3]) -> isobar_core::stencil::Csr {
    let grid = GridOptions { nx: 5, ny: 4, nz: 3, ..GridOptions::default() };
    Helmholtz { grid, advection, ..Helmholtz::default() }.stencil().unwrap().to_csr().unwrap()
}

#[test]
fn written_matrices_are_read_back_exactly() {
    for advection in [[0.0; 3], [1.0, 2.0, 0.0]] {
        let matrix = helmholtz(advection);
        let mut file = Vec::new();
        write_matrix(&mut file, &matrix, "a comment").unwrap();
        let symmetric = file.starts_with(b"%%MatrixMarket matrix coordinate real symmetric");
        assert_eq!(symmetric, advection == [0.0; 3]);
        assert_eq!(read_matrix(file.as_slice()).unwrap(), matrix);
    }
}

#[test]
fn vectors_are_one_column_arrays() {
    let mut file = Vec::new();
    write_vector(&mut file, &[1.5, -2.0], "a comment").unwrap();
    let text = String::from_utf8(file).unwrap();
    assert!(text.starts_with("%%MatrixMarket matrix array real general\n% a comment\n2 1\n1.5"), "{text}");
}

#[test]
fn mistakes_are_named_with_their_line() {
    let head = "%%MatrixMarket matrix coordinate real general\n% a comment\n";
    for (text, line, word) in [
        (String::new(), 1, "empty"),
        ("1 1 1\n1 1 1\n".into(), 1, "MatrixMarket"),
        (format!("{head}2 2 1\n1 3 1.0\n"), 4, "column"),
        (format!("{head}2 2 1\n0 1 1.0\n"), 4, "row"),
        (format!("{head}2 2 1\n1 1 x\n"), 4, "value"),
        (format!("{head}2 2 1\n1 1 inf\n"), 4, "finite"),
        (format!("{head}2 2 1\n1 1\n"), 4, "fields"),
        (format!("{head}2 2 2\n1 1 1.0\n"), 1, "truncated"),
        (format!("{head}2 2 1\n1 1 1.0\n2 2 1.0\n"), 5, "more than"),
        (head.to_owned(), 1, "size"),
    ] {
        match read_matrix(text.as_bytes()) {
            Err(Error::Parse { line: found, message }) => {
                assert!(found == line && message.contains(word), "{text:?}: line {found}: {message}");
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
    // A repeated entry gives columns out of order, which a stored matrix refuses.
    assert!(read_matrix(format!("{head}1 1 2\n1 1 1.0\n1 1 1.0\n").as_bytes()).is_err());
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_matrix(bytes.as_slice());
    }

    #[test]
    fn no_damage_breaks_the_reader(position in 0usize..2000, byte in any::<u8>()) {
        let mut file = Vec::new();
        write_matrix(&mut file, &helmholtz([0.0; 3]), "a comment").unwrap();
        let position = position % file.len();
        file[position] = byte;
        let _ = read_matrix(file.as_slice());
    }
}
