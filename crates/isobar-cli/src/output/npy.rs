//! NumPy's `.npy` files: one array in C order; written as float64, read from any real dtype.
//!
//! The format is <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>: a
//! preamble, a Python dictionary in text, padding, the values. The dictionary is parsed by
//! `py_literal`; everything a file can get wrong is answered before memory is taken for its values.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::Path;

use py_literal::Value;

use super::error::{NpyError, OutputError};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself reads no longer header, for the same reason: a literal is not cheap to parse.
const MAX_HEADER: usize = 10_000;
/// The parser's time grows with 3^depth; a plain array's header needs 2, a structured dtype 4.
const MAX_DEPTH: usize = 6;

/// Reads a `.npy` file of `shape` (nz, ny, nx) in C order, of floating-point, integer or bool dtype and either
/// byte order. Leading directions of one cell may be missing: (ny, nx) will do where nz is 1.
///
/// # Errors
/// [`OutputError::Npy`] where the file is missing or no `.npy` file, has another shape, dtype or
/// order, is cut short or too long, or holds a value that is not finite.
pub(crate) fn read(path: &Path, shape: [usize; 3]) -> Result<Vec<f64>, OutputError> {
    read_file(path, &Wanted { shape: &shape, axes: "(nz, ny, nx)" })
}

/// The same for an array of shape (nz,).
///
/// # Errors
/// Those of [`read`].
pub(crate) fn read_levels(path: &Path, nz: usize) -> Result<Vec<f64>, OutputError> {
    read_file(path, &Wanted { shape: &[nz], axes: "(nz,)" })
}

/// The shape that an array must have.
struct Wanted<'a> {
    shape: &'a [usize],
    /// The same in letters.
    axes: &'static str,
}

impl Wanted<'_> {
    fn is_met_by(&self, found: &[u64]) -> bool {
        let leading = self.shape.len().saturating_sub(found.len());
        found.len() <= self.shape.len()
            && (leading == 0 || !found.is_empty())
            && self.shape[..leading].iter().all(|&n| n == 1)
            && self.shape[leading..].iter().zip(found).all(|(&n, &m)| n as u64 == m)
    }

    /// The index of an entry, as Python has it.
    fn index(&self, mut at: usize) -> Vec<usize> {
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

fn read_file(path: &Path, wanted: &Wanted<'_>) -> Result<Vec<f64>, OutputError> {
    open_and_parse(path, wanted).map_err(|reason| OutputError::Npy { path: path.to_path_buf(), reason })
}

fn open_and_parse(path: &Path, wanted: &Wanted<'_>) -> Result<Vec<f64>, NpyError> {
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(unreadable)?;
    if found.is_dir() {
        return Err(NpyError::Folder);
    }
    if !found.is_file() {
        return Err(NpyError::Special);
    }
    let file = File::open(path).map_err(unreadable)?;
    parse(BufReader::new(file), found.len(), wanted)
}

fn unreadable(error: io::Error) -> NpyError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => NpyError::Missing,
        ErrorKind::PermissionDenied => NpyError::Permission,
        _ => NpyError::Io(error),
    }
}

/// How a dtype's bytes become numbers.
struct Dtype {
    width: usize,
    decode: fn(&[u8], &mut Vec<f64>),
}

impl Dtype {
    /// Of `<f8` and the like.
    fn of(descr: &str) -> Option<Self> {
        /// Both byte orders of a type.
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

/// Reads an array from a stream of `length` bytes.
fn parse(mut input: impl Read, length: u64, wanted: &Wanted<'_>) -> Result<Vec<f64>, NpyError> {
    let (header, header_length) = read_header(&mut input)?;
    let dtype = Dtype::of(&header.descr).ok_or_else(|| NpyError::Dtype(header.descr.clone()))?;
    let shape = wanted.shape;
    if !wanted.is_met_by(&header.shape) {
        let expected = shape.iter().map(|&n| n as u64).collect();
        return Err(NpyError::Shape { found: header.shape, expected, axes: wanted.axes });
    }
    // With one long axis at most the two orders are the same.
    if header.fortran_order && shape.iter().filter(|&&n| n > 1).count() > 1 {
        return Err(NpyError::FortranOrder);
    }
    let count = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    let promised = count.and_then(|count| (count as u64).checked_mul(dtype.width as u64));
    let (Some(count), Some(promised)) = (count, promised) else {
        return Err(NpyError::Memory(usize::MAX));
    };
    let there = length.saturating_sub(header_length);
    if there < promised {
        return Err(NpyError::Truncated { found: there, expected: promised });
    }
    if there > promised {
        return Err(NpyError::Trailing(there - promised));
    }
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| NpyError::Memory(count))?;
    read_values(&mut input, &dtype, promised, &mut values)?;
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(NpyError::NotFinite { index: wanted.index(at), value: values[at] });
    }
    Ok(values)
}

/// Appends `length` bytes' worth of values.
fn read_values(input: &mut impl Read, dtype: &Dtype, length: u64, values: &mut Vec<f64>) -> Result<(), NpyError> {
    // A multiple of every width, so that no value straddles two reads.
    let mut buffer = [0_u8; 1 << 14];
    let mut left = length;
    while left > 0 {
        let step = left.min(buffer.len() as u64);
        let bytes = &mut buffer[..step as usize];
        input.read_exact(bytes).map_err(|error| match error.kind() {
            // It was long enough when its length was asked for.
            ErrorKind::UnexpectedEof => NpyError::Truncated { found: length - left, expected: length },
            _ => NpyError::Io(error),
        })?;
        (dtype.decode)(bytes, values);
        left -= step;
    }
    Ok(())
}

/// What the dictionary of a header says.
struct Header {
    /// `<f8` and the like; for a structured dtype its text.
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

/// The header and the number of bytes up to the first value.
fn read_header(input: &mut impl Read) -> Result<(Header, u64), NpyError> {
    let mut start = [0_u8; 8];
    let missing = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => NpyError::NotNpy,
        _ => NpyError::Io(error),
    };
    input.read_exact(&mut start[..4]).map_err(missing)?;
    if start.starts_with(b"PK\x03\x04") {
        return Err(NpyError::Npz);
    }
    input.read_exact(&mut start[4..]).map_err(missing)?;
    if !start.starts_with(MAGIC) {
        return Err(NpyError::NotNpy);
    }
    let [.., major, minor] = start;
    let cut = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => NpyError::Header("it is cut short".into()),
        _ => NpyError::Io(error),
    };
    let mut length = [0_u8; 4];
    let length_bytes = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(NpyError::Version { major, minor }),
    };
    input.read_exact(&mut length[..length_bytes]).map_err(cut)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(NpyError::Header(format!("{length} bytes long")));
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text).map_err(cut)?;
    Ok((parse_dictionary(&text)?, (start.len() + length_bytes + length) as u64))
}

fn parse_dictionary(text: &[u8]) -> Result<Header, NpyError> {
    let wrong = |what: &str| NpyError::Header(what.to_owned());
    let text = std::str::from_utf8(text).map_err(|_| wrong("it is not text"))?;
    if depth(text) > MAX_DEPTH {
        return Err(wrong("its brackets are nested too deeply"));
    }
    let dictionary: Value = text.trim_end().parse().map_err(|_| wrong("it is no dictionary"))?;
    let entries = dictionary.as_dict().ok_or_else(|| wrong("it is no dictionary"))?;
    let entry = |key: &str| {
        let found = entries.iter().find(|(name, _)| name.as_string().is_some_and(|name| name == key));
        found.map(|(_, value)| value).ok_or_else(|| NpyError::Header(format!("no '{key}' in it")))
    };
    let descr = match entry("descr")? {
        Value::String(plain) => plain.clone(),
        structured => structured.to_string(),
    };
    let fortran_order = match entry("fortran_order")? {
        Value::Boolean(order) => *order,
        _ => return Err(wrong("'fortran_order' is neither True nor False")),
    };
    let lengths = entry("shape")?.as_tuple().ok_or_else(|| wrong("'shape' is no tuple"))?;
    let shape = lengths
        .iter()
        .map(|length| length.as_integer().and_then(|length| u64::try_from(length).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| wrong("'shape' holds something other than lengths"))?;
    Ok(Header { descr, fortran_order, shape })
}

/// How deeply brackets are nested, those in strings included.
fn depth(text: &str) -> usize {
    let mut open = 0_usize;
    let mut deepest = 0;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// Writes an array of `shape` (nz, ny, nx) as float64 in C order.
pub(super) fn write(out: &mut dyn Write, shape: [usize; 3], values: &[f64]) -> io::Result<()> {
    let [nz, ny, nx] = shape;
    let dictionary = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({nz}, {ny}, {nx}), }}");
    // The values start at a multiple of 64 bytes, so that they can be mapped into memory.
    let preamble = MAGIC.len() + 4;
    let length = (preamble + dictionary.len() + 1).next_multiple_of(64) - preamble;
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    // Three lengths of 20 digits stay far below 2¹⁶.
    out.write_all(&(length as u16).to_le_bytes())?;
    writeln!(out, "{dictionary:width$}", width = length - 1)?;
    write_f64(out, values)
}

/// Writes little-endian values.
pub(super) fn write_f64(out: &mut dyn Write, values: &[f64]) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(1 << 14);
    for chunk in values.chunks(1 << 11) {
        buffer.clear();
        buffer.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&buffer)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "npy_tests.rs"]
mod tests;
