//! Diagrams of several curves of measured numbers.

use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;

use super::canvas::OVERSIZE;
use super::diagram::{Area, Drawn, FRAME, diagram, font, px};
use super::scale::Scale;

/// A diagram.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The title above it.
    pub title: String,
    /// Names of the axes; the vertical one is logarithmic.
    pub names: [&'static str; 2],
    /// The curves with their names.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
}

/// Draws the curves with their names at the ends.
pub(super) fn draw(area: &Area<'_>, panel: &Panel) -> Drawn {
    let points = || panel.curves.iter().flat_map(|(_, points)| points).filter(|(_, y)| *y > 0.0 && y.is_finite());
    let fold = |value: fn(&(f64, f64)) -> f64| {
        points().map(value).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((first, last), (low, high)) = (fold(|point| point.0), fold(|point| point.1.log10()));
    if first > last {
        return Ok(());
    }
    // Space for the names on the right.
    let across = Scale::new(first, last.max(first + 1.0) * 1.15, 8).with_margin(0.03);
    let up = Scale::decades(low.floor(), high.ceil().max(low.floor() + 1.0), 8).with_margin(0.04);
    let ends = across.range();
    let mut chart = diagram(area, panel.title.clone(), (across, panel.names[0]), (up, panel.names[1]))?;
    for (n, (name, points)) in panel.curves.iter().enumerate() {
        let [red, green, blue] = colorous::CATEGORY10[n % 10].as_array();
        let colour = RGBColor(red, green, blue);
        let points: Vec<(f64, f64)> =
            points.iter().filter(|(_, y)| *y > 0.0 && y.is_finite()).map(|&(x, y)| (x, y.log10())).collect();
        // A single number is a reference level.
        if let [(_, level)] = points[..] {
            let line = [(ends.start, level), (ends.end, level)];
            chart.draw_series(DashedLineSeries::new(line, px(9), px(6), FRAME.color.stroke_width(2 * OVERSIZE)))?;
            let text = Text::new(name.clone(), (px(8), -px(24)), font(18.0));
            chart.draw_series([EmptyElement::at((ends.start, level)) + text])?;
            continue;
        }
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2 * OVERSIZE)))?;
        chart.draw_series(points.iter().map(|&point| Circle::new(point, px(4), colour.filled())))?;
        if let Some(&end) = points.last() {
            let text = Text::new(name.clone(), (px(10), -px(10)), font(18.0).color(&colour));
            chart.draw_series([EmptyElement::at(end) + text])?;
        }
    }
    Ok(())
}
