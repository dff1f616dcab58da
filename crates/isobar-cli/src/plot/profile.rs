//! The solution of a one-dimensional problem, as a line.

use isobar_io::Field;
use plotters::prelude::*;

use super::canvas::OVERSIZE;
use super::diagram::{Area, Drawn, LINE, diagram, extent, px};
use super::scale::{Colours, Scale};

/// Draws the values over x, or over the direction with several cells; inactive cells and values that are not finite interrupt the line.
pub(super) fn draw(area: &Area<'_>, field: &Field<'_>) -> Drawn {
    let direction = (0..3).find(|&direction| field.shape[2 - direction] > 1).unwrap_or(0);
    let (name, x) = (["x", "y", "z"][direction], &field.mesh.centres[direction]);
    // Handles one value, and none, as the colour scale does.
    let range = Colours::new(field.values.iter().copied());
    let (first, last) = extent(x.iter().copied());
    let across = Scale::new(first, last, 8).with_margin(0.03);
    let up = Scale::new(range.low, range.high, 8).with_margin(0.04);
    let mut chart = diagram(area, format!("{} along {name}", field.name), (across, name), (up, field.name))?;
    let points: Vec<(f64, f64)> = x.iter().copied().zip(field.values.iter().copied()).collect();
    for stretch in points.split(|(_, value)| !value.is_finite()) {
        chart.draw_series(LineSeries::new(stretch.iter().copied(), LINE.stroke_width(2 * OVERSIZE + 1)))?;
        if let [alone] = stretch {
            chart.draw_series([Circle::new(*alone, px(4), LINE.filled())])?;
        }
    }
    Ok(())
}
