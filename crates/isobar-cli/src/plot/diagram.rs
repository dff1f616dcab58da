//! Diagrams: their frames, lines, fonts and lengths.

use plotters::chart::{ChartContext, MeshStyle};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

use super::canvas::{Canvas, FONT, OVERSIZE};
use super::scale::Scale;

/// Axes and frames.
pub(super) const FRAME: ShapeStyle =
    ShapeStyle { color: RGBAColor(38, 38, 38, 1.0), filled: false, stroke_width: OVERSIZE };

pub(super) const GRID: RGBColor = RGBColor(226, 226, 226);

/// Curves.
pub(super) const LINE: RGBColor = RGBColor(38, 92, 156);

pub(super) type Area<'a> = DrawingArea<Canvas<'a>, Shift>;

/// The result of the drawing library, whose errors have no common type.
pub(super) type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Applies the common style of ticks, labels and names of axes.
pub(super) fn styled<'m, 'a, 'b, 'd, X, Y>(
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
        // Corrects the font's vertical offset in its boxes.
        .y_label_offset(px(2))
}

/// Makes a titled diagram of lines, with a grid and the names of both axes.
pub(super) fn diagram<'a, 'b>(
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

/// Returns the first and last of ascending values; for one value the interval between it and 0.
pub(super) fn extent(mut places: impl DoubleEndedIterator<Item = f64>) -> (f64, f64) {
    let first = places.next().unwrap_or(0.0);
    let last = places.next_back().filter(|&last| last > first);
    match last {
        Some(last) => (first, last),
        None if first == 0.0 => (0.0, 1.0),
        None => (first.min(0.0), first.max(0.0)),
    }
}

/// Converts a length in pixels of the saved picture.
pub(super) fn px(length: i32) -> i32 {
    length * OVERSIZE as i32
}

pub(super) fn font(size: f64) -> TextStyle<'static> {
    (FONT, size * f64::from(OVERSIZE)).into_font().color(&FRAME.color)
}
