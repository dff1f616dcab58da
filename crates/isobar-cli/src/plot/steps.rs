//! A quantity of every time step over time.

use plotters::prelude::*;

use super::canvas::OVERSIZE;
use super::diagram::{Area, Drawn, LINE, diagram, extent, px};
use super::scale::{Colours, Scale};

/// Draws the points and the line through them; counts begin at 0.
pub(super) fn draw(area: &Area<'_>, title: &str, name: &str, points: &[(f64, f64)], is_count: bool) -> Drawn {
    let range = Colours::new(points.iter().map(|point| point.1));
    let (first, last) = extent(points.iter().map(|point| point.0));
    let across = Scale::new(first, last, 6).with_margin(0.03);
    let up = if is_count { Scale::integers(0.0, range.high.max(1.0), 8) } else { Scale::new(range.low, range.high, 8) };
    let mut chart = diagram(area, title.into(), (across, "t"), (up.with_margin(0.04), name))?;
    let finite = points.iter().copied().filter(|point| point.1.is_finite());
    chart.draw_series(LineSeries::new(finite.clone(), LINE.stroke_width(2 * OVERSIZE)))?;
    if points.len() <= 60 {
        chart.draw_series(finite.map(|point| Circle::new(point, px(4), LINE.filled())))?;
    }
    Ok(())
}
