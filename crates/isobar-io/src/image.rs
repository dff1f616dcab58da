//! Images of samples, one number per cell, from `.npy` arrays and stacks of grey TIFF pages.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{PhotometricInterpretation, Tag};

use crate::{Error, Result, npy};

/// An image with its numbers as stored in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// (nz, ny, nx): pages, rows, columns.
    pub shape: [usize; 3],
    /// Values in C order.
    pub values: Pixels,
    /// Whether the values are integers or booleans.
    pub is_whole: bool,
}

/// The values of an image. Bytes stay bytes, an eighth of the memory of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// Whole numbers from 0 to 255, or booleans.
    Bytes(Vec<u8>),
    /// Values of any other type; integers beyond 2⁵³ are rounded.
    Numbers(Vec<f64>),
}

impl Pixels {
    /// Returns the values as numbers.
    pub fn into_numbers(mut self) -> Vec<f64> {
        std::mem::take(self.numbers())
    }

    /// Converts the values to numbers.
    fn numbers(&mut self) -> &mut Vec<f64> {
        if let Self::Bytes(bytes) = self {
            *self = Self::Numbers(bytes.iter().copied().map(f64::from).collect());
        }
        match *self {
            Self::Numbers(ref mut numbers) => numbers,
            Self::Bytes(_) => self.numbers(),
        }
    }

    /// Appends numbers, after the conversion of all others.
    fn extend(&mut self, more: impl IntoIterator<Item = f64>) {
        self.numbers().extend(more);
    }

    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }
}

/// Reads an image of one to three dimensions: `.npy` of any real dtype, or `.tif`/`.tiff` with grey pages of equal size, uncompressed or
/// compressed with LZW, deflate or PackBits.
///
/// # Errors
/// [`Error::Unusable`] for another ending, and for a TIFF file that is damaged, coloured or has pages of different sizes; the errors of [`npy::read`].
pub fn read(path: &Path) -> Result<Image> {
    let ending = path.extension().map(OsStr::to_ascii_lowercase);
    match ending.as_ref().and_then(|ending| ending.to_str()) {
        Some("npy") => {
            let (found, is_whole) = npy::describe(path)?;
            let lengths: Option<Vec<usize>> =
                found.iter().map(|&n| usize::try_from(n).ok().filter(|&n| n > 0)).collect();
            let shape = match lengths.as_deref() {
                Some(&[nx]) => [1, 1, nx],
                Some(&[ny, nx]) => [1, ny, nx],
                Some(&[nz, ny, nx]) => [nz, ny, nx],
                _ => {
                    let problem =
                        format!("has shape {found:?}; save a non-empty array of one to three dimensions, (nz, ny, nx)");
                    return Err(Error::Unusable { path: path.to_path_buf(), problem });
                }
            };
            let values = match npy::read_bytes(path, shape)? {
                Some(bytes) => Pixels::Bytes(bytes),
                None => Pixels::Numbers(npy::read(path, shape)?),
            };
            Ok(Image { shape, values, is_whole })
        }
        Some("tif" | "tiff") => read_tiff(path).map_err(|problem| match problem {
            Problem::Io(source) => Error::Read { path: path.to_path_buf(), source },
            Problem::Other(problem) => Error::Unusable { path: path.to_path_buf(), problem },
        }),
        _ => {
            let problem =
                "cannot tell the format of an image from this ending; use .npy (NumPy) or .tif (TIFF)".to_owned();
            Err(Error::Unusable { path: path.to_path_buf(), problem })
        }
    }
}

/// Reads an image that must have this shape; leading dimensions of length 1 may be missing.
///
/// # Errors
/// The errors of [`read`]; [`Error::Shape`] for another shape.
pub fn read_shaped(path: &Path, shape: [usize; 3]) -> Result<Image> {
    let image = read(path)?;
    if image.shape == shape {
        return Ok(image);
    }
    let [found, expected] = [image.shape, shape].map(|shape| shape.map(|n| n as u64).to_vec());
    Err(Error::Shape { path: path.to_path_buf(), found, expected, axes: "(nz, ny, nx)" })
}

/// An error of a TIFF file, before its name is added.
enum Problem {
    Io(std::io::Error),
    Other(String),
}

impl From<tiff::TiffError> for Problem {
    fn from(error: tiff::TiffError) -> Self {
        match error {
            tiff::TiffError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Self::Io(error),
            tiff::TiffError::IoError(_) => Self::Other("is truncated; copy or save it again".to_owned()),
            other => {
                Self::Other(format!("cannot be read as a TIFF file ({other}); save it as uncompressed grey pages"))
            }
        }
    }
}

fn read_tiff(path: &Path) -> Result<Image, Problem> {
    // Opening a pipe would wait for its writer.
    let found = fs::metadata(path).map_err(Problem::Io)?;
    if !found.is_file() {
        return Err(Problem::Other("is not a regular file; name a TIFF file".to_owned()));
    }
    let file = File::open(path).map_err(Problem::Io)?;
    let mut decoder = Decoder::new(BufReader::new(file))?.with_limits(Limits::unlimited());
    let (mut values, mut pages, mut first, mut is_whole) = (Pixels::Bytes(Vec::new()), 0, (0, 0), true);
    let description = decoder.find_tag(Tag::ImageDescription).ok().flatten().and_then(|text| text.into_string().ok());
    loop {
        let size = decoder.dimensions()?;
        match decoder.colortype()? {
            ColorType::Gray(1 | 8 | 16 | 32 | 64) => {}
            other => {
                return Err(Problem::Other(format!(
                    "page {pages} is of type {other:?}; convert it to grey pages of 1 bit, or 8 or more"
                )));
            }
        }
        let layers = [IMAGE_DEPTH, TILE_DEPTH].map(|tag| decoder.find_tag_unsigned::<u32>(tag).ok().flatten());
        if let Some(layers) = layers.into_iter().flatten().find(|&layers| layers > 1) {
            return Err(Problem::Other(format!(
                "page {pages} is a volume of {layers} layers (ImageDepth); save it with one page per slice, or as .npy"
            )));
        }
        // Programs differ in whether the values of such pages are those of the file.
        let zero = decoder.find_tag_unsigned::<u16>(Tag::PhotometricInterpretation)?;
        if zero == Some(PhotometricInterpretation::WhiteIsZero.to_u16()) {
            return Err(Problem::Other(format!(
                "page {pages} has white as 0 (WhiteIsZero), and programs differ in what its labels are; save it with black as 0"
            )));
        }
        if pages == 0 {
            first = size;
        } else if size != first {
            return Err(Problem::Other(format!(
                "page {pages} has {} × {} pixels, and the first {} × {}; save a stack of equal pages",
                size.0, size.1, first.0, first.1
            )));
        }
        // The size in a damaged header may be too large for the file.
        let pixels = u64::from(size.0) * u64::from(size.1);
        let more = usize::try_from(pixels).unwrap_or(usize::MAX);
        let room = match (&mut values, decoder.colortype()?) {
            (Pixels::Bytes(bytes), ColorType::Gray(1 | 8)) => bytes.try_reserve(more),
            (values, _) => values.numbers().try_reserve(more),
        };
        if room.is_err() {
            return Err(Problem::Other(format!(
                "page {pages} has {pixels} pixels, more than fit into memory; crop the image"
            )));
        }
        let before = values.len();
        let page = match (decoder.colortype()?, decoder.read_image()?) {
            (ColorType::Gray(1), DecodingResult::U8(rows)) => {
                DecodingResult::U8(pixels_of_bits(&rows, size.0 as usize))
            }
            (_, page) => page,
        };
        is_whole &= !matches!(page, DecodingResult::F16(_) | DecodingResult::F32(_) | DecodingResult::F64(_));
        match (page, &mut values) {
            (DecodingResult::U8(page), Pixels::Bytes(bytes)) => bytes.extend(page),
            (DecodingResult::U8(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::U16(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::U32(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::U64(page), values) => values.extend(page.into_iter().map(|value| value as f64)),
            (DecodingResult::I8(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::I16(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::I32(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::I64(page), values) => values.extend(page.into_iter().map(|value| value as f64)),
            (DecodingResult::F16(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::F32(page), values) => values.extend(page.into_iter().map(f64::from)),
            (DecodingResult::F64(page), values) => values.extend(page),
        }
        if (values.len() - before) as u64 != pixels || pixels == 0 {
            return Err(Problem::Other(format!("page {pages} is truncated or empty; save it again")));
        }
        pages += 1;
        if !decoder.more_images() {
            break;
        }
        decoder.next_image()?;
    }
    if let Some((what, count)) = description.as_deref().and_then(imagej_others) {
        return Err(Problem::Other(format!(
            "is an ImageJ stack of {count} {what}, whose pages are not the layers of one volume; save one of the {what}"
        )));
    }
    // ImageJ and tifffile may describe slices after the first page by their number only, without pages of their own.
    let slices = description.as_deref().and_then(|text| {
        imagej_count(text, "images").or_else(|| Some(tifffile_pixels(text)? / (first.0 as usize * first.1 as usize)))
    });
    if let Some(slices) = slices.filter(|&slices| slices > pages) {
        return Err(Problem::Other(format!(
            "is a stack of {slices} slices with {pages} of them as {}, and the rest would be lost; save it with one page per \
             slice, or as .npy (in Python: numpy.save(\"image.npy\", tifffile.imread(\"image.tif\")))",
            if pages == 1 { "a page" } else { "pages" }
        )));
    }
    let shape = [pages, first.1 as usize, first.0 as usize];
    if let Pixels::Numbers(values) = &values
        && let Some(at) = values.iter().position(|value| !value.is_finite())
    {
        return Err(Problem::Other(format!(
            "pixel {at}, counted over all pages, is {}; all pixels must be finite",
            values[at]
        )));
    }
    Ok(Image { shape, values, is_whole })
}

/// Returns the pixels of rows of this width, eight to a byte from its highest bit on; each row begins with a byte.
fn pixels_of_bits(rows: &[u8], width: usize) -> Vec<u8> {
    let row = |row: &[u8]| (0..width).map(|x| row[x / 8] >> (7 - x % 8) & 1).collect::<Vec<_>>();
    rows.chunks_exact(width.div_ceil(8).max(1)).flat_map(row).collect()
}

/// Tags of pages that hold several layers.
const IMAGE_DEPTH: Tag = Tag::Unknown(32997);
const TILE_DEPTH: Tag = Tag::Unknown(32998);

/// Returns what an ImageJ stack has several of beside slices, and how many. Frames without slices are often the slices of a volume.
fn imagej_others(description: &str) -> Option<(&'static str, usize)> {
    let count = |name| imagej_count(description, name).unwrap_or(1);
    let (channels, frames) = (count("channels"), count("frames"));
    match count("slices") {
        _ if channels > 1 => Some(("channels", channels)),
        slices if slices > 1 && frames > 1 => Some(("frames", frames)),
        _ => None,
    }
}

/// Returns a number from ImageJ's description of a stack.
fn imagej_count(description: &str, name: &str) -> Option<usize> {
    let mut lines = description.lines().map(str::trim);
    lines.next().filter(|first| first.starts_with("ImageJ="))?;
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Returns the number of pixels of the array that tifffile describes, such as `{"shape": [5, 7, 9]}`.
fn tifffile_pixels(description: &str) -> Option<usize> {
    let (shape, _) = description.trim().strip_prefix("{\"shape\": [")?.split_once(']')?;
    shape.split(',').try_fold(1, |all: usize, n| all.checked_mul(n.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use tiff::encoder::{TiffEncoder, colortype};

    use super::*;

    fn tiff<C: colortype::ColorType>(path: &Path, pages: &[(u32, u32, &[C::Inner])])
    where
        [C::Inner]: tiff::encoder::TiffValue,
    {
        let mut encoder = TiffEncoder::new(File::create(path).unwrap()).unwrap();
        for (width, height, values) in pages {
            encoder.write_image::<C>(*width, *height, values).unwrap();
        }
    }

    #[test]
    fn stacks_and_arrays_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rock.tif");
        tiff::<colortype::Gray8>(&path, &[(3, 2, &[0, 255, 0, 1, 2, 3]), (3, 2, &[9, 8, 7, 6, 5, 4])]);
        let found = read(&path).unwrap();
        let values = Pixels::Bytes(vec![0, 255, 0, 1, 2, 3, 9, 8, 7, 6, 5, 4]);
        assert_eq!(found, Image { shape: [2, 2, 3], values, is_whole: true });
        assert_eq!(found.values.clone().into_numbers()[..3], [0.0, 255.0, 0.0]);
        assert_eq!(read_shaped(&path, [2, 2, 3]).unwrap(), found);
        let message = read_shaped(&path, [2, 3, 2]).unwrap_err().to_string();
        assert!(message.contains("has shape (2, 2, 3), but the grid needs (2, 3, 2)"), "{message}");
        tiff::<colortype::Gray16>(&path, &[(1, 2, &[65535, 300])]);
        assert_eq!(read(&path).unwrap().values, Pixels::Numbers(vec![65535.0, 300.0]));
        tiff::<colortype::Gray32Float>(&path, &[(2, 1, &[0.5, 2.0])]);
        assert_eq!(
            read(&path).unwrap(),
            Image { shape: [1, 1, 2], values: Pixels::Numbers(vec![0.5, 2.0]), is_whole: false }
        );
        let path = folder.path().join("k.npy");
        npy::write(File::create(&path).unwrap(), &[2, 1], &[1.0, 3.0]).unwrap();
        assert_eq!(
            read(&path).unwrap(),
            Image { shape: [1, 2, 1], values: Pixels::Numbers(vec![1.0, 3.0]), is_whole: false }
        );
    }

    #[test]
    fn binary_images_have_eight_pixels_a_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.tif");
        // 10 × 2 pixels in one strip behind a directory of eight entries.
        let (rows, entries) = ([0b1010_0000, 0b0100_0000, 0b0000_0001, 0b1000_0000], 8_u16);
        let at = 8 + 2 + 12 * u32::from(entries) + 4;
        let tags = [(256, 10), (257, 2), (258, 1), (259, 1), (262, 1), (273, at), (278, 2), (279, 4)];
        let mut bytes = [&b"II*\0\x08\0\0\0"[..], &entries.to_le_bytes()].concat();
        for (tag, value) in tags {
            bytes.extend([&u16::to_le_bytes(tag)[..], &[4, 0, 1, 0, 0, 0], &u32::to_le_bytes(value)].concat());
        }
        bytes.extend([[0; 4], rows].concat());
        fs::write(&path, &bytes).unwrap();
        let values = [[1, 0, 1, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 0]].concat();
        assert_eq!(read(&path).unwrap(), Image { shape: [1, 2, 10], values: Pixels::Bytes(values), is_whole: true });
        fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("truncated"));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tif");
        let says = |path: &Path, what: &str| {
            let message = read(path).unwrap_err().to_string();
            assert!(message.contains(what), "{message}");
        };
        says(&path, "no such file");
        says(&path.with_extension("png"), "use .npy (NumPy) or .tif (TIFF)");
        says(folder.path().with_extension("tif").as_path(), "no such file");
        fs::write(&path, b"II*\0\x08\0\0\0").unwrap();
        says(&path, "is truncated; copy or save it again");
        fs::write(&path, b"not one").unwrap();
        says(&path, "cannot be read as a TIFF file");
        tiff::<colortype::RGB8>(&path, &[(1, 1, &[1, 2, 3])]);
        says(&path, "page 0 is of type RGB(8); convert it to grey");
        tiff::<colortype::Gray8>(&path, &[(2, 1, &[1, 2]), (1, 1, &[1])]);
        says(&path, "page 1 has 1 × 1 pixels, and the first 2 × 1");
        tiff::<colortype::Gray32Float>(&path, &[(2, 1, &[0.5, f32::NAN])]);
        says(&path, "pixel 1, counted over all pages, is NaN");
        tiff::<colortype::Gray8>(&path, &[(64, 64, &[7; 4096])]);
        let mut bytes = fs::read(&path).unwrap();
        for cut in [9, 100, 2000] {
            fs::write(&path, &bytes[..bytes.len().min(cut)]).unwrap();
            says(&path, "is truncated");
        }
        // The tag of the photometric interpretation, one short number.
        let tag = [6, 1, 3, 0, 1, 0, 0, 0];
        let at = bytes.windows(tag.len()).position(|window| window == tag).unwrap() + tag.len();
        assert_eq!(bytes[at], 1, "black is 0");
        bytes[at] = 0;
        fs::write(&path, &bytes).unwrap();
        says(&path, "page 0 has white as 0 (WhiteIsZero)");
        let described = |layers: u32, text: &str| {
            let mut encoder = TiffEncoder::new(File::create(&path).unwrap()).unwrap();
            let mut page = encoder.new_image::<colortype::Gray8>(2, 1).unwrap();
            page.encoder().write_tag(Tag::ImageDescription, text).unwrap();
            page.encoder().write_tag(IMAGE_DEPTH, layers).unwrap();
            page.write_data(&[1, 2]).unwrap();
        };
        let stack = |slices: usize| described(1, &format!("ImageJ=1.54f\nimages={slices}\nslices={slices}\n"));
        described(4, "");
        says(&path, "page 0 is a volume of 4 layers (ImageDepth)");
        described(1, "ImageJ=1.54f\nimages=12\nslices=6\nframes=2\n");
        says(&path, "is an ImageJ stack of 2 frames");
        described(1, "ImageJ=1.54f\nimages=2\nchannels=2\n");
        says(&path, "is an ImageJ stack of 2 channels");
        described(1, "ImageJ=1.54f\nimages=1\nframes=12\n");
        assert_eq!(read(&path).unwrap().shape, [1, 1, 2]);
        stack(1);
        assert_eq!(read(&path).unwrap().shape, [1, 1, 2]);
        stack(6);
        says(&path, "is a stack of 6 slices with 1 of them as a page, and the rest would be lost; save it");
        described(1, "{\"shape\": [5, 1, 2], \"truncated\": true}");
        says(&path, "is a stack of 5 slices with 1 of them as a page");
        described(1, "{\"shape\": [1, 2]}");
        assert_eq!(read(&path).unwrap().shape, [1, 1, 2]);
        let npy_path = folder.path().join("a.npy");
        npy::write(File::create(&npy_path).unwrap(), &[1, 1, 1, 1], &[1.0]).unwrap();
        says(&npy_path, "has shape [1, 1, 1, 1]; save a non-empty array of one to three dimensions");
    }
}
