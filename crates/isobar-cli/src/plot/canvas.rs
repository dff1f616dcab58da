//! Canvases: pixels for a PNG, or the elements of an SVG.
//!
//! An SVG has text, lines and areas as elements, in the coordinates of the pixels, and colour maps as embedded PNGs.

use std::fmt::Write;

use plotters::prelude::{BitMapBackend, DrawingBackend};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontTransform};

/// The factor by which it is drawn larger.
pub(super) const OVERSIZE: u32 = 2;

pub(super) const FONT: &str = "sans-serif";

/// Pixels, or the growing text of an SVG.
pub(super) enum Canvas<'a> {
    Pixels(BitMapBackend<'a>),
    Svg { text: &'a mut String, size: (u32, u32) },
}

type ErrorType<'a> = <BitMapBackend<'a> as DrawingBackend>::ErrorType;
type Drawn<'a> = Result<(), DrawingErrorKind<ErrorType<'a>>>;

impl<'a> Canvas<'a> {
    /// Begins an SVG with coordinates `OVERSIZE` times its pixels.
    pub(super) fn svg(text: &'a mut String, size: (u32, u32)) -> Self {
        let (width, height) = size;
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"DejaVu Sans, {FONT}\">",
            width / OVERSIZE,
            height / OVERSIZE
        );
        Self::Svg { text, size }
    }
}

/// Formats a colour as attributes of a filled or stroked element.
fn painted(color: BackendColor, fill: bool, width: u32) -> String {
    let ((red, green, blue), alpha) = (color.rgb, color.alpha);
    if fill {
        return format!("fill=\"#{red:02x}{green:02x}{blue:02x}\" fill-opacity=\"{alpha}\"");
    }
    format!(
        "fill=\"none\" stroke=\"#{red:02x}{green:02x}{blue:02x}\" stroke-opacity=\"{alpha}\" stroke-width=\"{width}\""
    )
}

fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
    path.into_iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

impl<'a> DrawingBackend for Canvas<'a> {
    type ErrorType = ErrorType<'a>;

    fn get_size(&self) -> (u32, u32) {
        match self {
            Self::Pixels(inner) => inner.get_size(),
            Self::Svg { size, .. } => *size,
        }
    }

    fn ensure_prepared(&mut self) -> Drawn<'a> {
        match self {
            Self::Pixels(inner) => inner.ensure_prepared(),
            Self::Svg { .. } => Ok(()),
        }
    }

    fn present(&mut self) -> Drawn<'a> {
        match self {
            Self::Pixels(inner) => inner.present(),
            Self::Svg { .. } => Ok(()),
        }
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn<'a> {
        match self {
            Self::Pixels(inner) => inner.draw_pixel(point, color),
            Self::Svg { .. } => self.draw_rect(point, point, &color, true),
        }
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn<'a> {
        match self {
            Self::Pixels(inner) => inner.draw_line(from, to, style),
            Self::Svg { .. } => self.draw_path([from, to], style),
        }
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Drawn<'a> {
        let text = match self {
            Self::Pixels(inner) => return inner.draw_rect(from, to, style, fill),
            Self::Svg { text, .. } => text,
        };
        // Both corners are pixels of the rectangle, so a filled one ends at the far side of the last pixel.
        let beyond = i32::from(fill);
        let (width, height) = (to.0 - from.0 + beyond, to.1 - from.1 + beyond);
        let paint = painted(style.color(), fill, style.stroke_width());
        let _ =
            writeln!(text, "<rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\" {paint}/>", from.0, from.1);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn<'a> {
        let text = match self {
            Self::Pixels(inner) => return inner.draw_path(path, style),
            Self::Svg { text, .. } => text,
        };
        if style.color().alpha > 0.0 {
            let paint = painted(style.color(), false, style.stroke_width());
            let _ = writeln!(text, "<polyline points=\"{}\" {paint}/>", points(path));
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, at: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn<'a> {
        let text = match self {
            Self::Pixels(inner) => return inner.draw_circle(at, radius, style, fill),
            Self::Svg { text, .. } => text,
        };
        let paint = painted(style.color(), fill, style.stroke_width());
        let _ = writeln!(text, "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" {paint}/>", at.0, at.1);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn<'a> {
        let text = match self {
            Self::Pixels(inner) => return inner.fill_polygon(path, style),
            Self::Svg { text, .. } => text,
        };
        let _ = writeln!(text, "<polygon points=\"{}\" {}/>", points(path), painted(style.color(), true, 0));
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, words: &str, style: &S, (x, y): BackendCoord) -> Drawn<'a> {
        let text = match self {
            Self::Pixels(inner) => return inner.draw_text(words, style, (x, y)),
            Self::Svg { text, .. } => text,
        };
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // The distance from the anchor down to the baseline.
        let down = match style.anchor().v_pos {
            VPos::Top => 0.85,
            VPos::Center => 0.35,
            VPos::Bottom => -0.2,
        } * style.size();
        let angle = match style.transform() {
            FontTransform::None => 0,
            FontTransform::Rotate90 => 90,
            FontTransform::Rotate180 => 180,
            FontTransform::Rotate270 => 270,
        };
        let turned = if angle == 0 { String::new() } else { format!(" transform=\"rotate({angle} {x} {y})\"") };
        let _ = writeln!(
            text,
            "<text x=\"{x}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\" {}{turned}>{}</text>",
            f64::from(y) + down,
            style.size(),
            painted(style.color(), true, 0),
            escape(words)
        );
        Ok(())
    }

    fn blit_bitmap(&mut self, at: BackendCoord, size: (u32, u32), pixels: &[u8]) -> Drawn<'a> {
        let text = match self {
            Self::Pixels(inner) => return inner.blit_bitmap(at, size, pixels),
            Self::Svg { text, .. } => text,
        };
        let image = encode(pixels, size).map_err(|error| DrawingErrorKind::FontError(error.to_string().into()))?;
        let ((x, y), (width, height)) = (at, size);
        let _ = write!(
            text,
            "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" href=\"data:image/png;base64,"
        );
        push_base64(text, &image);
        text.push_str("\"/>\n");
        Ok(())
    }
}

/// Escapes text for an XML element.
fn escape(words: &str) -> String {
    let plain: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Appends bytes in base64 (RFC 4648).
fn push_base64(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let all = three.iter().enumerate().fold(0_u32, |all, (n, &byte)| all | u32::from(byte) << (16 - 8 * n));
        for n in 0..4 {
            let digit = char::from(DIGITS[(all >> (18 - 6 * n)) as usize & 63]);
            text.push(if n <= three.len() { digit } else { '=' });
        }
    }
}

/// Encodes three bytes per pixel as a PNG.
pub(super) fn encode(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>, png::EncodingError> {
    let mut image = Vec::new();
    let mut encoder = png::Encoder::new(&mut image, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_text_chunk("Software".into(), concat!("isobar ", env!("CARGO_PKG_VERSION")).into())?;
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        for (bytes, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut text = String::new();
            push_base64(&mut text, bytes.as_bytes());
            assert_eq!(text, expected);
        }
    }
}
