//! The solution of a one-dimensional problem, as a line.

use isobar_io::Field;
use plotters::prelude::*;

use super::canvas::OVERSIZE;
use super::diagram::{Area, Drawn, LINE, diagram, extent, px};
use super::scale::{Colours, Scale};

/// Draws the values of the single row over x; inactive cells and values that are not finite interrupt the line.
pub(super) fn draw(area: &Area<'_>, field: &Field<'_>) -> Drawn {
    let x = &field.mesh.centres[0];
    // Handles one value, and none, as the colour scale does.
    let range = Colours::new(field.values.iter().copied());
    let (first, last) = extent(x.iter().copied());
    let across = Scale::new(first, last, 8).with_margin(0.03);
    let up = Scale::new(range.low, range.high, 8).with_margin(0.04);
    let mut chart = diagram(area, format!("{} along x", field.name), (across, "x"), (up, field.name))?;
    let points: Vec<(f64, f64)> = x.iter().copied().zip(field.values.iter().copied()).collect();
    for stretch in points.split(|(_, value)| !value.is_finite()) {
        chart.draw_series(LineSeries::new(stretch.iter().copied(), LINE.stroke_width(2 * OVERSIZE + 1)))?;
        if let [alone] = stretch {
            chart.draw_series([Circle::new(*alone, px(4), LINE.filled())])?;
        }
    }
    Ok(())
}
