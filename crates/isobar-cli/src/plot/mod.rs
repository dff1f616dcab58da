//! One picture of a solve: its convergence, and slices of the solution.
//!
//! A PNG is drawn at twice its size and averaged, for smooth lines; an SVG has the coordinates of the larger picture.
//! The font is compiled in, so that no installed fonts are needed.

mod canvas;
mod convergence;
mod curves;
mod diagram;
mod profile;
mod scale;
mod slice;
mod steps;

use std::path::Path;

use isobar_io::{Field, atomic};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use self::canvas::{Canvas, FONT, OVERSIZE, encode};
use self::diagram::{Area, Drawn, font, px};
use crate::failure::{Failure, Result};
use isobar_case::report::StepReport;

pub use self::curves::Panel;

/// Size of the saved picture. px
const SIZE: (u32, u32) = (1600, 1000);
/// The content of a solve's picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlotInput<'a> {
    /// The title: the case and the solver.
    pub(crate) title: &'a str,
    /// Relative residuals before the first iteration and after each.
    pub(crate) history: &'a [f64],
    /// The solver's tolerance.
    pub(crate) tolerance: f64,
    /// Whether the solve converged.
    pub(crate) is_converged: bool,
    /// The solution.
    pub(crate) field: &'a Field<'a>,
}

/// Checks before a solve that a plot can be written to `path`: a name ending in `.png` or `.svg`, in a folder that
/// exists and is writable.
///
/// # Errors
/// Another ending; the errors of [`atomic::check`].
pub fn check(path: &Path) -> Result<()> {
    if !["png", "svg"].iter().any(|&ending| has_ending(path, ending)) {
        return Err(Failure::at(path, "the plot is a PNG or an SVG image; give it a name that ends in .png or .svg"));
    }
    Ok(atomic::check(path)?)
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Draws the convergence, the middle layer and the middle row as one picture; where these have no active cells, the nearest ones that have. In two dimensions only the plane with
/// several cells both ways is drawn; in one dimension, a curve.
///
/// Values that are not finite are grey and counted in the slice's title; inactive cells are hatched.
///
/// # Errors
/// A failure naming `path`, whose earlier content is then unchanged.
pub(crate) fn solution(path: &Path, input: &PlotInput<'_>) -> Result<()> {
    input.field.validate()?;
    write(path, input.title, |panels| draw_solution(panels, input))
}

/// The content of a time-dependent run's picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepsPlot<'a> {
    /// The title: the case and the solver.
    pub(crate) title: &'a str,
    /// All steps.
    pub(crate) steps: &'a [StepReport],
    /// The last state.
    pub(crate) field: &'a Field<'a>,
}

/// Draws the iterations of every step, the energy, and the last state (its middle layer, its plane, or a curve).
pub(crate) fn steps(path: &Path, input: &StepsPlot<'_>) -> Result<()> {
    input.field.validate()?;
    write(path, input.title, |panels| draw_steps(panels, input))
}

/// Draws up to four diagrams.
///
/// # Errors
/// A failure naming `path`, whose earlier content is then unchanged.
pub fn curves(path: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    let draw = |area: &Area<'_>| -> Drawn {
        let (left, right) = area.split_horizontally(px(800));
        let halves = [left, right].map(|half| half.split_vertically(px(465)));
        let [(a, b), (c, d)] = &halves;
        [a, b, c, d].into_iter().zip(panels).try_for_each(|(area, panel)| curves::draw(area, panel))
    };
    write(path, title, draw)
}

/// Returns the directions (0 is x) with several cells.
fn directions(field: &Field<'_>) -> Vec<usize> {
    (0..3).filter(|&direction| field.shape[2 - direction] > 1).collect()
}

/// Draws the panels of a time-dependent run.
fn draw_steps(panels: &Area<'_>, input: &StepsPlot<'_>) -> Drawn {
    let (left, right) = panels.split_horizontally(px(680));
    let (upper, lower) = left.split_vertically(px(465));
    let of = |value: fn(&StepReport) -> Option<f64>| -> Vec<(f64, f64)> {
        input.steps.iter().filter_map(|step| Some((step.time, value(step)?))).collect()
    };
    steps::draw(&upper, "Iterations per step", "iterations", &of(|step| Some(step.iterations as f64)), true)?;
    steps::draw(&lower, "Energy ½ uᵀKu − sᵀu", "energy", &of(|step| step.energy), false)?;
    match directions(input.field)[..] {
        [] | [_] => profile::draw(&right, input.field),
        ref plane => draw_slice(&right, input.field, plane),
    }
}

/// Draws the plane of two directions, the middle layer if there are three.
fn draw_slice(area: &Area<'_>, field: &Field<'_>, directions: &[usize]) -> Drawn {
    let slice = match *directions {
        [first, 2] => slice::vertical(field, first),
        _ => slice::horizontal(field),
    };
    let colours = slice::colours(std::slice::from_ref(&slice));
    slice.draw(area, &colours)
}

/// Draws the panels of a solve.
fn draw_solution(panels: &Area<'_>, input: &PlotInput<'_>) -> Drawn {
    match directions(input.field)[..] {
        [] | [_] => {
            let (upper, lower) = panels.split_vertically(px(465));
            convergence::draw(&upper, input)?;
            profile::draw(&lower, input.field)
        }
        ref plane @ [_, _] => {
            let (left, right) = panels.split_horizontally(px(680));
            convergence::draw(&left, input)?;
            draw_slice(&right, input.field, plane)
        }
        _ => {
            let slices = [slice::horizontal(input.field), slice::vertical(input.field, 0)];
            let colours = slice::colours(&slices);
            let is_tall = slices[1].proportion().is_some_and(|proportion| proportion < 2.0);
            let areas = if is_tall {
                let (upper, lower) = panels.split_vertically(px(400));
                convergence::draw(&upper, input)?;
                let (left, right) = lower.split_horizontally(px(800));
                [left, right]
            } else {
                let (upper, lower) = panels.split_vertically(px(525));
                let (left, right) = upper.split_horizontally(px(850));
                convergence::draw(&left, input)?;
                [right, lower]
            };
            slices.into_iter().zip(areas).try_for_each(|(slice, area)| slice.draw(&area, &colours))
        }
    }
}

/// Writes the picture in the format given by the ending of `path`.
fn write(path: &Path, title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<()> {
    let image = if has_ending(path, "svg") {
        as_svg(title, draw).map(String::into_bytes)
    } else {
        as_pixels(title, draw).and_then(|pixels| Ok(encode(&pixels, SIZE)?))
    };
    let image = image.map_err(|error| Failure::at(path, format!("cannot draw the plot: {error}")))?;
    Ok(atomic::write_whole(path, &image)?)
}

/// The size at which it is drawn.
const DRAWN_SIZE: (u32, u32) = (SIZE.0 * OVERSIZE, SIZE.1 * OVERSIZE);

/// Returns the picture as three bytes per pixel.
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

/// Leaves out the beginning of a text that is too long: that of a path.
fn fit(text: &str, characters: usize) -> String {
    match text.chars().count() {
        count if count <= characters => text.to_owned(),
        count => std::iter::once('…').chain(text.chars().skip(count - characters + 1)).collect(),
    }
}

#[cfg(test)]
mod tests;
