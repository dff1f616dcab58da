//! The solution of a problem in one direction, as a line.

use plotters::prelude::*;

use super::scale::{Colours, Scale};
use super::{Area, Drawn, Field, GRID, OVERSIZE, font, px, styled};

const LINE: RGBColor = RGBColor(38, 92, 156);

/// Draws the values of the one row over x; inactive cells and values that are not finite interrupt the line.
pub(super) fn draw(area: &Area<'_>, field: &Field<'_>) -> Drawn {
    let x = &field.mesh.centres[0];
    area.draw(&Text::new(format!("{} along x", field.name), (px(104), px(8)), font(22.0)))?;
    // The same care for one value, and for none, as colours take.
    let range = Colours::new(field.values.iter().copied());
    let (first, last) = (x.first().copied().unwrap_or(0.0), x.last().copied().unwrap_or(1.0));
    let last = if last > first { last } else { first + 1.0 };
    let across = Scale::new(first, last, 8).with_margin(0.03);
    let up = Scale::new(range.low, range.high, 8).with_margin(0.04);
    let names = (format!("x{}", across.factor()), format!("{}{}", field.name, up.factor()));
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
    let points: Vec<(f64, f64)> = x.iter().copied().zip(field.values.iter().copied()).collect();
    for stretch in points.split(|(_, value)| !value.is_finite()) {
        chart.draw_series(LineSeries::new(stretch.iter().copied(), LINE.stroke_width(2 * OVERSIZE + 1)))?;
        if let [alone] = stretch {
            chart.draw_series([Circle::new(*alone, px(4), LINE.filled())])?;
        }
    }
    Ok(())
}
