//! A number of every time step over the time.

use plotters::prelude::*;

use super::scale::{Colours, Scale};
use super::{Area, Drawn, GRID, OVERSIZE, font, px, styled};

const LINE: RGBColor = RGBColor(38, 92, 156);

/// Draws the points, joined; counts begin at 0.
pub(super) fn draw(area: &Area<'_>, title: &str, name: &str, points: &[(f64, f64)], is_count: bool) -> Drawn {
    area.draw(&Text::new(title, (px(104), px(8)), font(22.0)))?;
    let range = Colours::new(points.iter().map(|point| point.1));
    let (first, last) = (points.first().map_or(0.0, |p| p.0), points.last().map_or(1.0, |p| p.0));
    let last = if last > first { last } else { first + 1.0 };
    let across = Scale::new(first, last, 6).with_margin(0.03);
    let up = if is_count { Scale::integers(0.0, range.high.max(1.0), 8) } else { Scale::new(range.low, range.high, 8) };
    let up = up.with_margin(0.04);
    let names = (format!("t{}", across.factor()), format!("{name}{}", up.factor()));
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(46))
        .margin_right(px(40))
        .margin_bottom(px(8))
        .margin_left(px(16))
        .x_label_area_size(px(56))
        .y_label_area_size(px(88))
        .build_cartesian_2d(across, up)?;
    styled(chart.configure_mesh().x_desc(names.0).y_desc(names.1))
        .bold_line_style(GRID.stroke_width(OVERSIZE))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let finite = points.iter().copied().filter(|point| point.1.is_finite());
    chart.draw_series(LineSeries::new(finite.clone(), LINE.stroke_width(2 * OVERSIZE)))?;
    if points.len() <= 60 {
        chart.draw_series(finite.map(|point| Circle::new(point, px(4), LINE.filled())))?;
    }
    Ok(())
}
