//! NumPy's `.npy` files: one array in C order, written as float64 and read from any real dtype.
//!
//! The format is <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>: a preamble, a Python dictionary as
//! text, padding, the values. The header and the length of the file are checked before memory for the values is allocated.

mod literal;

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header, as in NumPy. B
const MAX_HEADER: usize = 10_000;

/// Reads a `.npy` file of `shape` (nz, ny, nx) in C order, of floating-point, integer or bool dtype and either
/// byte order. Leading dimensions of length 1 may be missing: (ny, nx) is accepted if nz = 1.
///
/// # Errors
/// [`Error::Unusable`] if the file is missing or not a `.npy` file, has another shape, dtype or
/// order, is truncated or too long, or holds a value that is not finite.
pub fn read(path: &Path, shape: [usize; 3]) -> Result<Vec<f64>> {
    read_with_gaps(path, shape, &[])
}

/// Reads such an array. Where `gaps` is true, as in inactive cells, NaN is allowed and becomes 0.
///
/// # Errors
/// The errors of [`read`].
pub fn read_with_gaps(path: &Path, shape: [usize; 3], gaps: &[bool]) -> Result<Vec<f64>> {
    read_file(path, &Wanted { gaps, ..Wanted::whole(&shape, "(nz, ny, nx)") })
}

/// Reads such an array of bytes or booleans; returns nothing for another dtype.
pub(crate) fn read_bytes(path: &Path, shape: [usize; 3]) -> Result<Option<Vec<u8>>> {
    let wanted = Wanted::whole(&shape, "(nz, ny, nx)");
    let read = || -> Result<Option<Vec<u8>>, Problem> {
        let (mut input, length) = open(path)?;
        let (header, dtype) = checked_header(&mut input, length, &wanted)?;
        if dtype.width != 1 || header.descr.ends_with("i1") {
            return Ok(None);
        }
        let (count, mut bytes) = (shape.iter().product::<usize>(), Vec::new());
        bytes.try_reserve_exact(count).map_err(|_| Problem::Memory(count as u64))?;
        input.take(count as u64).read_to_end(&mut bytes).map_err(Problem::Io)?;
        // The file may have shrunk since its length was checked.
        let found = bytes.len();
        if found == count {
            Ok(Some(bytes))
        } else {
            Err(Problem::Truncated { found: found as u64, expected: count as u64 })
        }
    };
    read().map_err(|problem| problem.of(path))
}

/// Reads some rows of such an array in all layers, (nz, rows, nx) in C order. The other rows are not read.
///
/// # Errors
/// The errors of [`read`] for the part that is read, and for rows outside the array.
pub fn read_rows(path: &Path, shape: [usize; 3], rows: Range<usize>) -> Result<Vec<f64>> {
    read_file(path, &Wanted { rows: Some(rows), ..Wanted::whole(&shape, "(nz, ny, nx)") })
}

/// Reads a `.npy` file of shape (nz,).
pub fn read_layers(path: &Path, nz: usize) -> Result<Vec<f64>> {
    read_file(path, &Wanted::whole(&[nz], "(nz,)"))
}

/// Returns the shape of a `.npy` file's array, and whether its dtype is an integer type or bool.
///
/// # Errors
/// The errors of [`read`] that concern the header.
pub fn describe(path: &Path) -> Result<(Vec<u64>, bool)> {
    let described = || -> Result<(Vec<u64>, bool), Problem> {
        let (mut input, _) = open(path)?;
        let (header, _) = read_header(&mut input)?;
        let is_whole = matches!(header.descr.as_bytes().get(1), Some(b'i' | b'u' | b'b'));
        match Dtype::of(&header.descr) {
            Some(_) => Ok((header.shape, is_whole)),
            None => Err(Problem::Dtype(header.descr)),
        }
    };
    described().map_err(|problem| problem.of(path))
}

/// Reads an array of any shape; `axes` names the shape in messages, such as "(nz, ny)".
pub fn read_array(path: &Path, shape: &[usize], axes: &'static str) -> Result<Vec<f64>> {
    read_file(path, &Wanted::whole(shape, axes))
}

/// The shape that an array must have, and the rows to be read.
struct Wanted<'a> {
    shape: &'a [usize],
    /// The shape in letters.
    axes: &'static str,
    /// The rows of each layer; `None` means all.
    rows: Option<Range<usize>>,
    /// The entries of the array in which NaN becomes 0; none if empty.
    gaps: &'a [bool],
}

impl<'a> Wanted<'a> {
    fn whole(shape: &'a [usize], axes: &'static str) -> Self {
        Self { shape, axes, rows: None, gaps: &[] }
    }

    fn is_met_by(&self, found: &[u64]) -> bool {
        let leading = self.shape.len().saturating_sub(found.len());
        found.len() <= self.shape.len()
            && (leading == 0 || !found.is_empty())
            && self.shape[..leading].iter().all(|&n| n == 1)
            && self.shape[leading..].iter().zip(found).all(|(&n, &m)| n as u64 == m)
    }

    /// Returns the contiguous pieces to read, in order: the first entry of each, and the number of entries in each.
    fn pieces(&self) -> Option<(Vec<usize>, usize)> {
        match (&self.rows, self.shape) {
            (None, shape) => Some((vec![0], shape.iter().product())),
            (Some(rows), &[nz, ny, nx]) if rows.start <= rows.end && rows.end <= ny => {
                Some(((0..nz).map(|k| nx * (rows.start + ny * k)).collect(), nx * rows.len()))
            }
            _ => None,
        }
    }

    /// Returns the index of an entry among those read, as in Python.
    fn index(&self, entry: usize) -> Vec<usize> {
        let mut at = match self.pieces() {
            Some((starts, length)) if length > 0 => starts[entry / length] + entry % length,
            _ => entry,
        };
        let mut index: Vec<usize> = self
            .shape
            .iter()
            .rev()
            .map(|&n| {
                let digit = at % n;
                at /= n;
                digit
            })
            .collect();
        index.reverse();
        index
    }
}

fn read_file(path: &Path, wanted: &Wanted<'_>) -> Result<Vec<f64>> {
    open_and_parse(path, wanted).map_err(|problem| problem.of(path))
}

fn open_and_parse(path: &Path, wanted: &Wanted<'_>) -> Result<Vec<f64>, Problem> {
    let (input, length) = open(path)?;
    parse(input, length, wanted)
}

/// Opens a file and returns its length in bytes.
fn open(path: &Path) -> Result<(BufReader<File>, u64), Problem> {
    // Checked before opening: opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(Problem::Io)?;
    if found.is_dir() {
        return Err(Problem::Io(ErrorKind::IsADirectory.into()));
    }
    if !found.is_file() {
        return Err(Problem::Special);
    }
    let file = File::open(path).map_err(Problem::Io)?;
    Ok((BufReader::new(file), found.len()))
}

/// The problem with a `.npy` file, before the file's name is added.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Io(io::Error),
    #[error("is not a regular file; save the array to a .npy file with numpy.save")]
    Special,
    #[error("is not a .npy file (it does not start with \\x93NUMPY); save the array with numpy.save")]
    NotNpy,
    #[error("is a .npz archive; save the one array in it with numpy.save")]
    Npz,
    #[error("has the unknown .npy version {major}.{minor}; save the array again with numpy.save")]
    Version { major: u8, minor: u8 },
    #[error("has a damaged .npy header ({0}); save the array again with numpy.save")]
    Header(String),
    #[error("has dtype {0}, but float64, float32, an integer or bool is needed; convert with a.astype(\"float64\")")]
    Dtype(String),
    #[error("has shape {found:?}")]
    Shape { found: Vec<u64>, expected: Vec<u64>, axes: &'static str },
    #[error(
        "is stored in Fortran (column-major) order; save numpy.ascontiguousarray(a), which keeps the shape and writes C order"
    )]
    FortranOrder,
    #[error("is truncated: it has {found} bytes of data, and its header requires {expected}; copy or save it again")]
    Truncated { found: u64, expected: u64 },
    #[error("has {0} bytes after its array; save the array again with numpy.save, one array per file")]
    Trailing(u64),
    #[error("has no rows {} to {}", .0.start, .0.end)]
    Rows(Range<usize>),
    #[error("a{index:?} is {value}")]
    NotFinite { index: Vec<usize>, value: f64 },
    #[error("{0} bytes")]
    Memory(u64),
}

impl Problem {
    fn of(self, path: &Path) -> Error {
        let path = path.to_path_buf();
        match self {
            Self::Io(source) => Error::Read { path, source },
            Self::Shape { found, expected, axes } => Error::Shape { path, found, expected, axes },
            Self::NotFinite { index, value } => Error::NotFinite { path, index, value },
            Self::Memory(bytes) => Error::OutOfMemory { what: format!("{}: its array", path.display()), bytes },
            other => Error::Unusable { path, problem: other.to_string() },
        }
    }
}

/// Converts the bytes of a dtype into numbers.
struct Dtype {
    width: usize,
    decode: fn(&[u8], &mut Vec<f64>),
}

impl Dtype {
    /// Parses a type string such as `<f8`.
    fn of(descr: &str) -> Option<Self> {
        /// Covers both byte orders of a type.
        macro_rules! dtype {
            ($type:ty) => {{
                const WIDTH: usize = size_of::<$type>();
                let decode: fn(&[u8], &mut Vec<f64>) = if descr.starts_with('>') {
                    |bytes, values| values.extend(bytes.as_chunks().0.iter().map(|&b| <$type>::from_be_bytes(b) as f64))
                } else {
                    |bytes, values| values.extend(bytes.as_chunks().0.iter().map(|&b| <$type>::from_le_bytes(b) as f64))
                };
                Some(Dtype { width: WIDTH, decode })
            }};
        }
        match descr.strip_prefix(['<', '>', '|', '='])? {
            "f8" => dtype!(f64),
            "f4" => dtype!(f32),
            "b1" | "u1" => dtype!(u8),
            "i1" => dtype!(i8),
            "i2" => dtype!(i16),
            "u2" => dtype!(u16),
            "i4" => dtype!(i32),
            "u4" => dtype!(u32),
            "i8" => dtype!(i64),
            "u8" => dtype!(u64),
            _ => None,
        }
    }
}

/// Reads the header of an array in a stream of `length` bytes, and checks that it is the array that is wanted.
fn checked_header(input: &mut impl Read, length: u64, wanted: &Wanted<'_>) -> Result<(Header, Dtype), Problem> {
    let (header, header_length) = read_header(input)?;
    let dtype = Dtype::of(&header.descr).ok_or_else(|| Problem::Dtype(header.descr.clone()))?;
    let shape = wanted.shape;
    if !wanted.is_met_by(&header.shape) {
        let expected = shape.iter().map(|&n| n as u64).collect();
        return Err(Problem::Shape { found: header.shape, expected, axes: wanted.axes });
    }
    // With at most one dimension longer than 1 the two orders are equal.
    if header.fortran_order && shape.iter().filter(|&&n| n > 1).count() > 1 {
        return Err(Problem::FortranOrder);
    }
    let count = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    let promised = count.and_then(|count| (count as u64).checked_mul(dtype.width as u64));
    let Some(promised) = promised else {
        return Err(Problem::Memory(u64::MAX));
    };
    let there = length.saturating_sub(header_length);
    if there < promised {
        return Err(Problem::Truncated { found: there, expected: promised });
    }
    if there > promised {
        return Err(Problem::Trailing(there - promised));
    }
    Ok((header, dtype))
}

/// Reads an array from a stream of `length` bytes.
fn parse(mut input: impl Read + Seek, length: u64, wanted: &Wanted<'_>) -> Result<Vec<f64>, Problem> {
    let (_, dtype) = checked_header(&mut input, length, wanted)?;
    let (starts, piece) = wanted.pieces().ok_or_else(|| Problem::Rows(wanted.rows.clone().unwrap_or_default()))?;
    let (mut values, count) = (Vec::new(), starts.len() * piece);
    values.try_reserve_exact(count).map_err(|_| Problem::Memory(8 * count as u64))?;
    let mut at = 0;
    for start in starts {
        // Within the length of the file, checked above.
        input.seek_relative(((start - at) * dtype.width) as i64).map_err(Problem::Io)?;
        read_values(&mut input, &dtype, (piece * dtype.width) as u64, &mut values)?;
        at = start + piece;
    }
    let gaps = values.iter_mut().zip(wanted.gaps).filter(|(value, is_gap)| **is_gap && value.is_nan());
    gaps.for_each(|(value, _)| *value = 0.0);
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(Problem::NotFinite { index: wanted.index(at), value: values[at] });
    }
    Ok(values)
}

/// Appends `length` bytes' worth of values.
fn read_values(input: &mut impl Read, dtype: &Dtype, length: u64, values: &mut Vec<f64>) -> Result<(), Problem> {
    // A multiple of every width, so that no value spans two reads.
    let mut buffer = [0_u8; 1 << 14];
    let mut left = length;
    while left > 0 {
        let step = left.min(buffer.len() as u64);
        let bytes = &mut buffer[..step as usize];
        input.read_exact(bytes).map_err(|error| match error.kind() {
            // The file has shrunk since its length was checked.
            ErrorKind::UnexpectedEof => Problem::Truncated { found: length - left, expected: length },
            _ => Problem::Io(error),
        })?;
        (dtype.decode)(bytes, values);
        left -= step;
    }
    Ok(())
}

/// The entries of a header's dictionary.
struct Header {
    /// Type string such as `<f8`; for a structured dtype, its text.
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

/// Reads the header; also returns the number of bytes before the first value.
fn read_header(input: &mut impl Read) -> Result<(Header, u64), Problem> {
    let mut start = [0_u8; 8];
    let missing = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => Problem::NotNpy,
        _ => Problem::Io(error),
    };
    input.read_exact(&mut start[..4]).map_err(missing)?;
    if start.starts_with(b"PK\x03\x04") {
        return Err(Problem::Npz);
    }
    input.read_exact(&mut start[4..]).map_err(missing)?;
    if !start.starts_with(MAGIC) {
        return Err(Problem::NotNpy);
    }
    let [.., major, minor] = start;
    let cut = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => Problem::Header("it is truncated".into()),
        _ => Problem::Io(error),
    };
    let mut length = [0_u8; 4];
    let length_bytes = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(Problem::Version { major, minor }),
    };
    input.read_exact(&mut length[..length_bytes]).map_err(cut)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(Problem::Header(format!("{length} bytes long")));
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text).map_err(cut)?;
    Ok((parse_dictionary(&text)?, (start.len() + length_bytes + length) as u64))
}

fn parse_dictionary(text: &[u8]) -> Result<Header, Problem> {
    let wrong = |what: &str| Problem::Header(what.to_owned());
    let text = std::str::from_utf8(text).map_err(|_| wrong("it is not text"))?;
    let entries = literal::dictionary(text).ok_or_else(|| wrong("it is no dictionary"))?;
    let entry = |key: &str| {
        let found = entries.iter().find(|(name, _)| *name == key);
        found.map(|&(_, value)| value).ok_or_else(|| Problem::Header(format!("it has no '{key}'")))
    };
    let descr = entry("descr")?;
    let descr = match literal::string(descr) {
        Some(plain) => plain,
        // Fields of a structured dtype, used in the message only.
        None if descr.starts_with('[') => descr,
        None => return Err(wrong("'descr' is no dtype")),
    };
    let fortran_order = match entry("fortran_order")? {
        "True" => true,
        "False" => false,
        _ => return Err(wrong("'fortran_order' is neither True nor False")),
    };
    let shape = literal::tuple(entry("shape")?)
        .ok_or_else(|| wrong("'shape' is no tuple"))?
        .into_iter()
        .map(|length| length.parse().ok().filter(|_| length.bytes().all(|byte| byte.is_ascii_digit())))
        .collect::<Option<_>>()
        .ok_or_else(|| wrong("'shape' holds something other than lengths"))?;
    Ok(Header { descr: descr.to_owned(), fortran_order, shape })
}

/// Writes an array of `shape` as float64 in C order.
///
/// # Errors
/// The errors of `out`; [`ErrorKind::InvalidInput`] if the number of values does not fit `shape`.
pub fn write(mut out: impl Write, shape: &[usize], values: &[f64]) -> io::Result<()> {
    if shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n)) != Some(values.len()) {
        let message = format!("an array of shape {shape:?} does not hold {} values", values.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, message));
    }
    let lengths: String = shape.iter().map(|n| format!("{n}, ")).collect();
    // A tuple of one length needs its comma: (4,).
    let lengths = if shape.len() == 1 { lengths.trim_end() } else { lengths.trim_end_matches(", ") };
    let dictionary = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({lengths}), }}");
    // The values start at a multiple of 64 bytes, so that they can be mapped into memory.
    let preamble = MAGIC.len() + 4;
    let length = (preamble + dictionary.len() + 1).next_multiple_of(64) - preamble;
    let Ok(stored_length) = u16::try_from(length) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("{} directions are too many", shape.len())));
    };
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&stored_length.to_le_bytes())?;
    writeln!(out, "{dictionary:width$}", width = length - 1)?;
    write_f64(&mut out, values)
}

/// Writes little-endian values.
pub(crate) fn write_f64(out: &mut dyn Write, values: &[f64]) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(1 << 14);
    for chunk in values.chunks(1 << 11) {
        buffer.clear();
        buffer.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
