//! Tests of the files that `npy::read` accepts, and of its errors.

use proptest::prelude::*;

use super::*;

const SHAPE: [usize; 3] = [2, 3, 4];

fn values() -> Vec<f64> {
    (0..24).map(|n| f64::from(n) / 4.0).collect()
}

/// Returns a file as NumPy writes it, with any dictionary and data.
fn file(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    if version == 1 {
        bytes.extend((dictionary.len() as u16).to_le_bytes());
    } else {
        bytes.extend((dictionary.len() as u32).to_le_bytes());
    }
    bytes.extend(dictionary.as_bytes());
    bytes.extend(data);
    bytes
}

fn dictionary(descr: &str, order: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}   \n")
}

fn valid() -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, &SHAPE, &values()).unwrap();
    bytes
}

fn wanted(shape: &[usize]) -> Wanted<'_> {
    Wanted::whole(shape, "(nz, ny, nx)")
}

fn read_bytes(bytes: &[u8]) -> Result<Vec<f64>, Problem> {
    parse(io::Cursor::new(bytes), bytes.len() as u64, &wanted(&SHAPE))
}

/// Returns the message for `bytes`, which must be refused.
fn refusal(bytes: &[u8]) -> String {
    let message = read_bytes(bytes).unwrap_err().of(Path::new("a.npy")).to_string();
    message.strip_prefix("a.npy: ").unwrap().to_owned()
}

#[test]
fn reads_back_what_it_writes() {
    let bytes = valid();
    assert_eq!(read_bytes(&bytes).unwrap(), values());
    assert_eq!((bytes.len() - 24 * 8) % 64, 0, "the values are aligned");
    assert_eq!(bytes[bytes.len() - 24 * 8 - 1], b'\n');
}

#[test]
fn nan_is_allowed_in_gaps_only() {
    let mut v = values();
    (v[5], v[7]) = (f64::NAN, f64::NAN);
    let mut bytes = Vec::new();
    write(&mut bytes, &SHAPE, &v).unwrap();
    let mut gaps = [false; 24];
    let read = |gaps: &[bool], bytes: &[u8]| {
        parse(io::Cursor::new(bytes), bytes.len() as u64, &Wanted { gaps, ..wanted(&SHAPE) })
    };
    gaps[5] = true;
    let Err(Problem::NotFinite { index, .. }) = read(&gaps, &bytes) else { panic!("not found") };
    assert_eq!(index, [0, 1, 3]);
    // A number in a gap is kept.
    (gaps[6], gaps[7]) = (true, true);
    (v[5], v[7]) = (0.0, 0.0);
    assert_eq!(read(&gaps, &bytes).unwrap(), v);
}

/// Reads rows of all layers only: errors in other rows are not found.
#[test]
fn reads_rows_alone() {
    let v = values();
    let with = |rows: Range<usize>, bytes: &[u8]| {
        let wanted = Wanted { rows: Some(rows), ..wanted(&SHAPE) };
        parse(io::Cursor::new(bytes), bytes.len() as u64, &wanted)
    };
    let bytes = valid();
    for rows in [0..3, 0..1, 1..3, 2..2] {
        let expected: Vec<f64> = (0..24).filter(|n| rows.contains(&(n / 4 % 3))).map(|n| v[n]).collect();
        assert_eq!(with(rows, &bytes).unwrap(), expected);
    }
    assert!(with(2..4, &bytes).unwrap_err().to_string().contains("has no rows 2 to 4"));
    let mut spoilt = bytes.clone();
    let at = |n: usize| bytes.len() - 8 * (24 - n);
    // a[1, 2, 3]
    spoilt[at(23)..].copy_from_slice(&f64::NAN.to_le_bytes());
    assert_eq!(with(0..2, &spoilt).unwrap().len(), 16);
    let Err(Problem::NotFinite { index, .. }) = with(1..3, &spoilt) else { panic!("not found") };
    assert_eq!(index, [1, 2, 3]);
}

#[test]
fn writes_any_number_of_directions() {
    let header = |shape: &[usize]| {
        let mut bytes = Vec::new();
        write(&mut bytes, shape, &vec![1.0; shape.iter().product()]).unwrap();
        read_header(&mut &bytes[..]).unwrap().0.shape
    };
    for shape in [&[][..], &[3], &[2, 3], &[1, 1, 1, 7]] {
        assert_eq!(header(shape), shape.iter().map(|&n| n as u64).collect::<Vec<_>>());
    }
    assert_eq!(write(io::sink(), &[2, 2], &[1.0]).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(write(io::sink(), &[1; 40_000], &[1.0]).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn reads_each_float_of_each_byte_order_and_version() {
    let v = values();
    let f4 = || v.iter().map(|&x| x as f32);
    let data: [(&str, Vec<u8>); 4] = [
        ("<f8", v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        (">f8", v.iter().flat_map(|x| x.to_be_bytes()).collect()),
        ("<f4", f4().flat_map(f32::to_le_bytes).collect()),
        (">f4", f4().flat_map(f32::to_be_bytes).collect()),
    ];
    for (descr, data) in data {
        for version in 1..=3 {
            let dictionary = dictionary(&format!("'{descr}'"), "False", "(2, 3, 4)");
            assert_eq!(read_bytes(&file(version, &dictionary, &data)).unwrap(), v, "{descr}");
        }
    }
}

#[test]
fn reads_whole_numbers_and_booleans() {
    let read = |descr: &str, data: &[u8]| {
        let bytes = file(1, &dictionary(&format!("'{descr}'"), "False", "(3,)"), data);
        parse(io::Cursor::new(&bytes[..]), bytes.len() as u64, &wanted(&[3])).unwrap()
    };
    assert_eq!(read("|b1", &[0, 1, 1]), [0.0, 1.0, 1.0]);
    assert_eq!(read("|u1", &[0, 1, 255]), [0.0, 1.0, 255.0]);
    assert_eq!(read("|i1", &[0, 1, 255]), [0.0, 1.0, -1.0]);
    assert_eq!(read(">i2", &[0, 1, 1, 0, 255, 255]), [1.0, 256.0, -1.0]);
    assert_eq!(read("<u2", &[1, 0, 0, 1, 255, 255]), [1.0, 256.0, 65535.0]);
    for (descr, bytes) in [("<i4", 4), ("<u4", 4), ("<i8", 8), ("<u8", 8)] {
        let data: Vec<u8> = (0..3).flat_map(|n| [vec![n], vec![0; bytes - 1]].concat()).collect();
        assert_eq!(read(descr, &data), [0.0, 1.0, 2.0], "{descr}");
    }
}

#[test]
fn leading_directions_of_one_cell_may_be_missing() {
    let of = |found: &str, shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        let bytes = file(1, &dictionary("'|u1'", "False", found), &vec![1; count]);
        parse(io::Cursor::new(&bytes[..]), bytes.len() as u64, &wanted(shape)).is_ok()
    };
    assert!(of("(3, 4)", &[1, 3, 4]) && of("(4,)", &[1, 1, 4]) && of("(1, 3, 4)", &[1, 3, 4]));
    assert!(!of("(3, 4)", &[2, 3, 4]) && !of("(4, 3)", &[1, 3, 4]) && !of("(1, 1, 3, 4)", &[1, 3, 4]));
    assert!(!of("()", &[1, 1, 1]) && !of("(12,)", &[1, 3, 4]));
}

#[test]
fn says_which_shape_was_found_and_which_is_wanted() {
    let of = |shape| refusal(&file(1, &dictionary("'<f8'", "False", shape), &[]));
    let message = of("(2, 4, 4)");
    assert!(message.starts_with("has shape (2, 4, 4), but the grid needs (2, 3, 4) = (nz, ny, nx)"));
    assert!(of("(4, 3, 2)").contains("the axes are reversed"));
    assert!(of("(24,)").contains("has shape (24,)"));
    assert!(of("(24,)").contains("a.reshape(2, 3, 4)"));
    assert!(of("()").contains("has shape ()"));
    let huge = of("(18446744073709551615, 18446744073709551615, 18446744073709551615)");
    assert!(huge.contains("has shape (18446744073709551615"), "{huge}");
    assert!(of("(99999999999999999999, 3, 4)").contains("something other than lengths"));
    assert!(of("(-2, 3, 4)").contains("something other than lengths"));
}

#[test]
fn says_which_dtype_was_found() {
    for descr in ["'<c16'", "'|S8'", "'f8'", "'<f2'", "'|O'", "[('u', '<f8'), ('v', '<f8', (2,))]"] {
        let message = refusal(&file(1, &dictionary(descr, "False", "(2, 3, 4)"), &[]));
        assert!(message.contains(descr.trim_matches('\'')), "{message}");
        assert!(message.contains("a.astype(\"float64\")"), "{message}");
    }
}

#[test]
fn fortran_order_is_refused_unless_it_is_c_order_too() {
    let data = [0; 24 * 8];
    let message = refusal(&file(1, &dictionary("'<f8'", "True", "(2, 3, 4)"), &data));
    assert!(message.contains("numpy.ascontiguousarray"), "{message}");
    let column = file(1, &dictionary("'<f8'", "True", "(24, 1, 1)"), &data);
    assert_eq!(parse(io::Cursor::new(&column[..]), column.len() as u64, &wanted(&[24, 1, 1])).unwrap(), [0.0; 24]);
}

#[test]
fn counts_the_bytes() {
    let mut bytes = valid();
    bytes.push(0);
    assert!(refusal(&bytes).starts_with("has 1 bytes after its array"));
    bytes.truncate(bytes.len() - 2);
    assert!(refusal(&bytes).contains("it has 191 bytes of data, and its header requires 192"));
    // The file shrinks while it is read.
    let error = parse(io::Cursor::new(&bytes[..]), bytes.len() as u64 + 1, &wanted(&SHAPE)).unwrap_err();
    assert!(matches!(error, Problem::Truncated { .. }), "{error}");
}

#[test]
fn names_the_first_value_that_is_not_finite() {
    for (bad, text) in [(f64::NAN, "NaN"), (f64::NEG_INFINITY, "-inf")] {
        let mut with_bad = values();
        with_bad[12 + 4 + 3] = bad;
        with_bad[23] = f64::INFINITY;
        let mut bytes = Vec::new();
        write(&mut bytes, &SHAPE, &with_bad).unwrap();
        assert!(refusal(&bytes).starts_with(&format!("a[1, 1, 3] is {text};")), "{}", refusal(&bytes));
    }
}

#[test]
fn other_files_are_named_as_such() {
    assert!(refusal(b"").contains("is not a .npy file"));
    assert!(refusal(b"x,y\n1,2\n").contains("is not a .npy file"));
    assert!(refusal(b"PK\x03\x04 and so on").contains("is a .npz archive"));
    assert!(refusal(b"\x93NUMPY\x09\x00v\x00{}").contains("unknown .npy version 9.0"));
    assert!(refusal(b"\x93NUMPY\x01\x00v\x00{'descr'").contains("truncated"));
    assert!(refusal(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").contains("4294967295 bytes long"));
    for text in ["", "{}", "[]", "{'descr': '<f8'}", "\u{fffd}", "{'shape': 3"] {
        assert!(refusal(&file(1, text, &[])).contains("damaged .npy header"), "{text}");
    }
}

#[test]
fn a_nest_of_brackets_takes_no_time() {
    for bracket in ["[", "{", "(", "{1:", "((1,),"] {
        assert!(refusal(&file(1, &bracket.repeat(1500), &[])).contains("damaged"), "{bracket}");
        assert!(refusal(&file(1, &bracket.repeat(3), &[])).contains("damaged"), "{bracket}");
    }
}

#[test]
fn a_header_for_a_huge_grid_takes_no_memory() {
    let bytes = file(1, &dictionary("'<f8'", "False", "(1000000, 1000000, 1000000)"), &[]);
    let error = parse(io::Cursor::new(&bytes[..]), bytes.len() as u64, &wanted(&[1_000_000; 3])).unwrap_err();
    assert!(matches!(error, Problem::Truncated { found: 0, .. }), "{error}");
    let most = file(1, &dictionary("'<f8'", "False", &format!("({0}, {0}, {0})", usize::MAX)), &[]);
    let error = parse(io::Cursor::new(&most[..]), most.len() as u64, &wanted(&[usize::MAX; 3])).unwrap_err();
    assert!(matches!(error, Problem::Memory(_)), "{error}");
}

#[test]
fn names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("rhs.npy");
    let message = read(&missing, SHAPE).unwrap_err().to_string();
    assert!(message.contains("rhs.npy: no such file"), "{message}");
    let message = read(folder.path(), SHAPE).unwrap_err().to_string();
    assert!(message.contains("is a folder"), "{message}");
    std::fs::write(&missing, valid()).unwrap();
    assert_eq!(read(&missing, SHAPE).unwrap(), values());
    let message = read(&missing.join("deeper.npy"), SHAPE).unwrap_err().to_string();
    assert!(message.contains("no such file"), "{message}");
    #[cfg(target_os = "linux")]
    assert!(read(Path::new("/dev/zero"), SHAPE).unwrap_err().to_string().contains("not a regular"));
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read_bytes(&bytes).is_err());
    }

    #[test]
    fn random_headers_never_panic(version in 0_u8..5, text in "[{}()\\[\\]'\":,0-9a-zA-Z \\\\<>+\\-_.\n]{0,120}") {
        prop_assert!(read_bytes(&file(version, &text, &[0; 64])).is_err());
    }

    #[test]
    fn random_entries_never_panic(
        descr in "('[<>|=]?[a-zA-Z][0-9]{0,3}'|\\[\\('u', '<f8'\\)\\]|[0-9]{1,30}|None)",
        order in "(True|False|1|None)",
        shape in "\\(([0-9]{1,25}, ?){0,4}\\)",
    ) {
        let bytes = file(1, &dictionary(&descr, &order, &shape), &[0; 192]);
        if let Ok(read) = read_bytes(&bytes) {
            prop_assert_eq!(read.len(), 24);
        }
    }

    #[test]
    fn damaged_files_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = valid();
        for (at, byte) in changes {
            *at.get_mut(&mut bytes) = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        if let Ok(read) = read_bytes(&bytes) {
            prop_assert_eq!(read.len(), 24);
            prop_assert!(read.iter().all(|value| value.is_finite()));
        }
    }
}
