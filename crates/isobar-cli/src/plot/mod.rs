//! One picture of a solve: how it converged, and the solution along two planes, or the one there is.
//!
//! A PNG is drawn twice as large as it is saved and averaged down, which smooths every line; an SVG has the coordinates of the large one.
//! The font is compiled in: a fresh machine needs neither fonts nor fontconfig.

mod canvas;
mod convergence;
mod curves;
mod profile;
mod scale;
mod slice;
mod steps;

use std::path::Path;

use isobar_io::{Field, atomic};
use plotters::chart::{ChartContext, MeshStyle};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use self::canvas::Canvas;
use self::scale::Scale;
use crate::failure::{Failure, Result};
use isobar_case::report::StepReport;

pub use self::curves::Panel;

/// Size of the saved picture. px
const SIZE: (u32, u32) = (1600, 1000);
/// How much larger it is drawn.
const OVERSIZE: u32 = 2;
const FONT: &str = "sans-serif";
/// Axes and frames.
const FRAME: ShapeStyle = ShapeStyle { color: RGBAColor(38, 38, 38, 1.0), filled: false, stroke_width: OVERSIZE };
const GRID: RGBColor = RGBColor(226, 226, 226);
/// Curves.
const LINE: RGBColor = RGBColor(38, 92, 156);

type Area<'a> = DrawingArea<Canvas<'a>, Shift>;
/// The drawing library's errors have no common type but their message.
type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlotInput<'a> {
    /// The line above everything: the case and how it was solved.
    pub(crate) title: &'a str,
    /// Relative residual before the first iteration and after each.
    pub(crate) history: &'a [f64],
    /// Where the solver stops.
    pub(crate) tolerance: f64,
    /// The solution.
    pub(crate) field: &'a Field<'a>,
}

/// Checks before a solve that a plot can be written to `path`: a PNG or an SVG by its name, in a folder that
/// is there and writable.
///
/// # Errors
/// Another ending; what [`atomic::check`] says.
pub fn check(path: &Path) -> Result<()> {
    if !["png", "svg"].iter().any(|&ending| has_ending(path, ending)) {
        return Err(Failure::at(path, "the plot is a PNG or an SVG image; give it a name that ends in .png or .svg"));
    }
    Ok(atomic::check(path)?)
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Draws the convergence, the middle layer and the middle row as one picture; where there is one layer only, that
/// layer; and where there is one row only, a curve.
///
/// Values that are not finite are grey and counted in the title of their slice; inactive cells are blank.
///
/// # Errors
/// A failure naming `path`; what stood there before is then untouched.
pub(crate) fn solution(path: &Path, input: &PlotInput<'_>) -> Result<()> {
    input.field.validate()?;
    write(path, input.title, |panels| draw_solution(panels, input))
}

/// What the picture of a run in time shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepsPlot<'a> {
    /// The line above everything: the case and how it was solved.
    pub(crate) title: &'a str,
    /// Every step.
    pub(crate) steps: &'a [StepReport],
    /// The last state.
    pub(crate) field: &'a Field<'a>,
}

/// Draws the iterations of every step, the energy, and the last state: the middle layer, or the curve that there is.
///
/// # Errors
/// As [`solution`].
pub(crate) fn steps(path: &Path, input: &StepsPlot<'_>) -> Result<()> {
    input.field.validate()?;
    let draw = |panels: &Area<'_>| -> Drawn {
        let (left, right) = panels.split_horizontally(px(680));
        let (upper, lower) = left.split_vertically(px(465));
        let of = |value: fn(&StepReport) -> Option<f64>| -> Vec<(f64, f64)> {
            input.steps.iter().filter_map(|step| Some((step.time, value(step)?))).collect()
        };
        steps::draw(&upper, "Iterations a step", "iterations", &of(|step| Some(step.iterations as f64)), true)?;
        steps::draw(&lower, "Energy ½ uᵀKu − sᵀu", "energy", &of(|step| step.energy), false)?;
        match input.field.shape {
            [1, 1, _] => profile::draw(&right, input.field),
            _ => slice::draw_horizontal(&right, input.field),
        }
    };
    write(path, input.title, draw)
}

/// Draws up to four diagrams.
///
/// # Errors
/// A failure naming `path`; what stood there before is then untouched.
pub fn curves(path: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    let draw = |area: &Area<'_>| -> Drawn {
        let (left, right) = area.split_horizontally(px(800));
        let halves = [left, right].map(|half| half.split_vertically(px(465)));
        let [(a, b), (c, d)] = &halves;
        [a, b, c, d].into_iter().zip(panels).try_for_each(|(area, panel)| curves::draw(area, panel))
    };
    write(path, title, draw)
}

/// The panels of a solve.
fn draw_solution(panels: &Area<'_>, input: &PlotInput<'_>) -> Drawn {
    match input.field.shape {
        [1, 1, _] => {
            let (upper, lower) = panels.split_vertically(px(465));
            convergence::draw(&upper, input.history, input.tolerance)?;
            profile::draw(&lower, input.field)
        }
        [1, _, _] => {
            let (left, right) = panels.split_horizontally(px(680));
            convergence::draw(&left, input.history, input.tolerance)?;
            slice::draw_horizontal(&right, input.field)
        }
        _ => {
            let (upper, lower) = panels.split_vertically(px(525));
            let (left, right) = upper.split_horizontally(px(850));
            convergence::draw(&left, input.history, input.tolerance)?;
            slice::draw_horizontal(&right, input.field)?;
            slice::draw_vertical(&lower, input.field)
        }
    }
}

/// Writes the picture that the ending of `path` names.
fn write(path: &Path, title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<()> {
    let image = if has_ending(path, "svg") {
        as_svg(title, draw).map(String::into_bytes)
    } else {
        as_pixels(title, draw).and_then(|pixels| encode(&pixels, SIZE))
    };
    let image = image.map_err(|error| Failure::at(path, format!("cannot draw the plot: {error}")))?;
    Ok(atomic::write_whole(path, &image)?)
}

/// The size that is drawn.
const DRAWN_SIZE: (u32, u32) = (SIZE.0 * OVERSIZE, SIZE.1 * OVERSIZE);

/// The picture, three bytes a pixel.
fn as_pixels(title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn<Vec<u8>> {
    let mut pixels = vec![0; (DRAWN_SIZE.0 * DRAWN_SIZE.1 * 3) as usize];
    on_canvas(Canvas::Pixels(BitMapBackend::with_buffer(&mut pixels, DRAWN_SIZE)), title, draw)?;
    Ok(average(&pixels))
}

fn as_svg(title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn<String> {
    let mut text = String::new();
    on_canvas(Canvas::svg(&mut text, DRAWN_SIZE), title, draw)?;
    Ok(text + "</svg>\n")
}

/// Draws panels under a title.
fn on_canvas<'a>(canvas: Canvas<'a>, title: &str, draw: impl FnOnce(&Area<'a>) -> Drawn) -> Drawn {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "the compiled-in font is damaged")?;
    let root = canvas.into_drawing_area();
    root.fill(&WHITE)?;
    let (header, panels) = root.split_vertically(px(70));
    header.draw(&Text::new(fit(title, 92), (px(30), px(24)), font(30.0)))?;
    draw(&panels)?;
    root.present()?;
    Ok(())
}

/// Averages squares of `OVERSIZE`² pixels.
fn average(pixels: &[u8]) -> Vec<u8> {
    let row = (SIZE.0 * OVERSIZE * 3) as usize;
    let side = OVERSIZE as usize;
    let mut small = Vec::with_capacity((SIZE.0 * SIZE.1 * 3) as usize);
    for rows in pixels.chunks(row * side) {
        for x in (0..row).step_by(3 * side) {
            for channel in 0..3 {
                let square = (0..side * side).map(|n| u32::from(rows[n / side * row + x + n % side * 3 + channel]));
                small.push((square.sum::<u32>() / (OVERSIZE * OVERSIZE)) as u8);
            }
        }
    }
    small
}

fn encode(pixels: &[u8], (width, height): (u32, u32)) -> Drawn<Vec<u8>> {
    let mut image = Vec::new();
    let mut encoder = png::Encoder::new(&mut image, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_text_chunk("Software".into(), concat!("isobar ", env!("CARGO_PKG_VERSION")).into())?;
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(image)
}

/// The look that all axes share: their ticks, labels and names.
fn styled<'m, 'a, 'b, 'd, X, Y>(
    mesh: &'m mut MeshStyle<'a, 'b, X, Y, Canvas<'d>>,
) -> &'m mut MeshStyle<'a, 'b, X, Y, Canvas<'d>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    mesh.label_style(font(18.0))
        .axis_desc_style(font(20.0))
        .axis_style(FRAME)
        .set_all_tick_mark_size(px(4))
        // The font stands this much above the middle of its boxes.
        .y_label_offset(px(2))
}

/// A titled diagram of lines, with a grid and the names of both axes.
fn diagram<'a, 'b>(
    area: &'a Area<'b>,
    title: String,
    (across, x_name): (Scale, &str),
    (up, y_name): (Scale, &str),
) -> Drawn<ChartContext<'a, Canvas<'b>, Cartesian2d<Scale, Scale>>> {
    area.draw(&Text::new(title, (px(104), px(8)), font(22.0)))?;
    let names = [format!("{x_name}{}", across.factor()), format!("{y_name}{}", up.factor())];
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(46))
        .margin_right(px(40))
        .margin_bottom(px(8))
        .margin_left(px(16))
        .x_label_area_size(px(56))
        .y_label_area_size(px(88))
        .build_cartesian_2d(across, up)?;
    styled(chart.configure_mesh().x_desc(&names[0]).y_desc(&names[1]))
        .bold_line_style(GRID.stroke_width(OVERSIZE))
        .light_line_style(TRANSPARENT)
        .draw()?;
    Ok(chart)
}

/// From the first to the last of ascending places, or of length 1 where they are one.
fn extent(mut places: impl DoubleEndedIterator<Item = f64>) -> (f64, f64) {
    let first = places.next().unwrap_or(0.0);
    let last = places.next_back().filter(|&last| last > first);
    (first, last.unwrap_or(first + 1.0))
}

/// A length in pixels of the saved picture.
fn px(length: i32) -> i32 {
    length * OVERSIZE as i32
}

fn font(size: f64) -> TextStyle<'static> {
    (FONT, size * f64::from(OVERSIZE)).into_font().color(&FRAME.color)
}

/// Cuts a text that is too long for its place.
fn fit(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
