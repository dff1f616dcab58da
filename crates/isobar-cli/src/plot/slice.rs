//! Slices of the solution as colour maps.

use plotters::element::BitMapElement;
use plotters::prelude::*;

use isobar_io::{Field, Units};

use super::diagram::{Area, Drawn, FRAME, font, px, styled};
use super::scale::{Colours, Scale};

/// The colour of inactive cells, which no scale has.
pub(super) const BLANK: [u8; 3] = [206, 206, 200];

/// The colour of lines across inactive cells.
pub(super) const HATCH: [u8; 3] = [128; 3];

/// Distance and width of these lines along a row. px
const LINES: [i32; 2] = [8, 1];

/// Returns the colour of inactive cells at a pixel that is drawn: hatched, so that no value of a scale looks the same.
fn blank([row, column]: [usize; 2]) -> [u8; 3] {
    let [distance, width] = LINES.map(|length| px(length) as usize);
    let saved = px(1) as usize;
    // In whole pixels of the saved picture.
    let at = (row / saved + column / saved) * saved;
    if at % distance < width { HATCH } else { BLANK }
}

/// Returns the middle of `count` slices or, if it has no active cells, the nearest one that has; and a remark for the title if it is not the middle.
fn middle(count: usize, is_active: impl Fn(usize) -> bool) -> (usize, &'static str) {
    let middle = count / 2;
    let nearest = (0..count).filter(|&slice| is_active(slice)).min_by_key(|slice| slice.abs_diff(middle));
    match nearest {
        Some(nearest) if nearest != middle => (nearest, "; the middle is inactive"),
        _ => (middle, ""),
    }
}

/// One direction of a slice: its name and the boundaries of its cells.
struct Axis {
    name: &'static str,
    faces: Vec<f64>,
}

/// A plane of cells.
pub(super) struct Slice<'a> {
    title: String,
    field: &'a Field<'a>,
    /// To the right, and up.
    axes: [Axis; 2],
    /// Whether it is drawn in true proportions, as far as it can be seen then; otherwise it fills its area.
    is_square: bool,
    /// The first cell, and the distance between cells along each of the axes.
    cells: [usize; 3],
}

/// Returns the middle layer with active cells, seen from above.
pub(super) fn horizontal<'a>(field: &'a Field<'a>) -> Slice<'a> {
    let [nz, ny, nx] = field.shape;
    let (layer, remark) =
        middle(nz, |layer| (layer * ny * nx..(layer + 1) * ny * nx).any(|cell| field.is_active(cell)));
    let height = match (field.mesh.units, field.mesh.centres[2][layer]) {
        (Units::Atmosphere, metres) if metres >= 1000.0 => format!(" at {:.1} km", metres / 1000.0),
        (Units::Atmosphere, metres) => format!(" at {metres:.1} m"),
        (Units::Unspecified, z) => format!(" at z = {}", short(z)),
    };
    let title = match nz {
        1 => field.name.to_owned(),
        _ => format!("{}{height} (layer {} of {nz}{remark})", field.name, layer + 1),
    };
    let axes = [Axis::across(field, 0), Axis::across(field, 1)];
    Slice { title, field, axes, is_square: true, cells: [layer * ny * nx, 1, nx] }
}

/// Returns the middle row along x (0), or the middle column of layers along y (1), that has active cells, seen from the side.
pub(super) fn vertical<'a>(field: &'a Field<'a>, along: usize) -> Slice<'a> {
    let [nz, ny, nx] = field.shape;
    let (name, number, count, length) = if along == 0 { ("y", "row", ny, nx) } else { ("x", "column", nx, ny) };
    let [step, across] = if along == 0 { [1, nx] } else { [nx, 1] };
    let is_active = |at| {
        (0..nz).any(|layer| (0..length).any(|place| field.is_active(at * across + layer * ny * nx + place * step)))
    };
    let (at, remark) = middle(count, is_active);
    let title = match count {
        1 => field.name.to_owned(),
        _ => {
            let place = short(field.mesh.centres[1 - along][at]);
            format!("{} at {name} = {place} ({number} {} of {count}{remark})", field.name, at + 1)
        }
    };
    let z_faces = &field.mesh.faces[2];
    let top = z_faces.last().copied().unwrap_or_default();
    let (name, unit) = match field.mesh.units {
        Units::Atmosphere if top >= 1000.0 => ("height (km)", 1000.0),
        Units::Atmosphere => ("height (m)", 1.0),
        Units::Unspecified => ("z", 1.0),
    };
    let faces = z_faces.iter().map(|height| height / unit).collect();
    let axes = [Axis::across(field, along), Axis::new(name, faces)];
    // Heights of the atmosphere are in other units than x and y.
    let is_square = field.mesh.units == Units::Unspecified;
    Slice { title, field, axes, is_square, cells: [at * across, step, ny * nx] }
}

/// The largest ratio of lengths that is drawn in true proportions: a thinner strip could not be seen.
const LONGEST: f64 = 4.0;

/// Returns the colours of the values in all of these slices.
pub(super) fn colours(slices: &[Slice<'_>]) -> Colours {
    Colours::new(slices.iter().flat_map(|slice| slice.active().map(|cell| slice.field.values[cell])))
}

/// Formats a coordinate for a title.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Axis {
    /// Makes the axis of x (0) or y (1).
    fn across(field: &Field<'_>, direction: usize) -> Self {
        let name = match field.mesh.units {
            Units::Atmosphere => ["x (dimensionless)", "y (dimensionless)"][direction],
            Units::Unspecified => ["x", "y"][direction],
        };
        Self::new(name, field.mesh.edges(direction).into_owned())
    }

    fn new(name: &'static str, faces: Vec<f64>) -> Self {
        let increasing = faces.windows(2).all(|pair| pair[0] < pair[1]);
        if increasing && faces.iter().all(|face| face.is_finite()) {
            return Axis { name, faces };
        }
        // The coordinates are not increasing: use cell numbers instead.
        Axis { name, faces: (0..faces.len()).map(|n| n as f64).collect() }
    }

    fn low(&self) -> f64 {
        self.faces[0]
    }

    fn high(&self) -> f64 {
        self.faces[self.faces.len() - 1]
    }

    /// Returns the cell under each of `pixels` equal steps from the low end to the high end.
    fn cells(&self, pixels: u32) -> Vec<usize> {
        let step = (self.high() - self.low()) / f64::from(pixels);
        let inner = &self.faces[1..self.faces.len() - 1];
        (0..pixels)
            .map(|pixel| {
                let at = self.low() + (f64::from(pixel) + 0.5) * step;
                inner.partition_point(|&face| face <= at)
            })
            .collect()
    }
}

impl Slice<'_> {
    /// Returns the cell at a place along both axes.
    fn cell(&self, row: usize, column: usize) -> usize {
        let [first, right, up] = self.cells;
        first + column * right + row * up
    }

    /// Returns the width over the height of a section in true proportions; nothing if it fills any area.
    pub(super) fn proportion(&self) -> Option<f64> {
        let [across, up] = self.axes.each_ref().map(|axis| axis.high() - axis.low());
        self.is_square.then_some(across / up)
    }

    /// Returns the active cells.
    fn active(&self) -> impl Iterator<Item = usize> {
        let [columns, rows] = [0, 1].map(|axis| self.axes[axis].faces.len() - 1);
        let cells = (0..rows).flat_map(move |row| (0..columns).map(move |column| self.cell(row, column)));
        cells.filter(|&cell| self.field.is_active(cell))
    }

    /// Draws the values with a colour key.
    pub(super) fn draw(mut self, area: &Area<'_>, colours: &Colours) -> Drawn {
        let broken = self.active().filter(|&cell| !self.field.values[cell].is_finite()).count();
        if broken > 0 {
            self.title.push_str(&format!(", {broken} cells not finite"));
        }
        if let Some(proportion) = self.proportion() {
            let [across, up] = self.axes.each_ref().map(|axis| axis.name);
            let (short, times) = if proportion > LONGEST { (up, proportion) } else { (across, proportion.recip()) };
            if times > LONGEST {
                self.title.push_str(&format!(", {short} stretched by {:.1}", times / LONGEST));
            }
        }
        let Slice { title, field, axes: [across, up], .. } = &self;
        let colour = |row, column, pixel: [usize; 2]| {
            let cell = self.cell(row, column);
            if field.is_active(cell) { colours.colour(field.values[cell]) } else { blank(pixel) }
        };
        area.draw(&Text::new(title.as_str(), (px(104), px(8)), font(22.0)))?;

        let (left, top, bottom) = (px(104), px(46), px(64));
        let bar_scale = Scale::new(colours.low, colours.high, 6);
        let bar_labels = px(10 * bar_scale.longest_label() as i32 + 42);
        let (gap, bar) = (px(18), px(22));
        let (width, height) = area.dim_in_pixel();
        let room = (width as i32 - left - gap - bar - bar_labels - px(8), height as i32 - top - bottom);
        let size = if let Some(proportion) = self.proportion() {
            let proportion = proportion.clamp(LONGEST.recip(), LONGEST);
            let width = room.0.min((f64::from(room.1) * proportion) as i32);
            (width, room.1.min((f64::from(width) / proportion) as i32))
        } else {
            room
        };

        // A label needs about 60 pixels.
        let most = (size.0 / px(60)).clamp(2, 8) as usize;
        let across_scale = Scale::new(across.low(), across.high(), most);
        let up_scale = Scale::new(up.low(), up.high(), 6);
        let (across_name, up_name) =
            (format!("{}{}", across.name, across_scale.factor()), format!("{}{}", up.name, up_scale.factor()));
        let map = area.clone().shrink((0, top), (left + size.0, size.1 + bottom));
        let mut chart = ChartBuilder::on(&map)
            .x_label_area_size(bottom - px(8))
            .y_label_area_size(left - px(16))
            .margin_left(px(16))
            .margin_bottom(px(8))
            .build_cartesian_2d(across_scale, up_scale)?;
        let (width, height) = chart.plotting_area().dim_in_pixel();
        let (columns, rows) = (across.cells(width), up.cells(height));
        let pixels = rows.iter().rev().enumerate().flat_map(|(down, &row)| {
            columns.iter().enumerate().map(move |(right, &column)| (row, column, [down, right]))
        });
        let image = pixels.flat_map(|(row, column, pixel)| colour(row, column, pixel)).collect();
        let corner = (across.low(), up.high());
        chart.draw_series(BitMapElement::with_owned_buffer(corner, (width, height), image))?;
        styled(chart.configure_mesh().disable_mesh().x_desc(across_name).y_desc(up_name)).draw()?;
        chart.draw_series([Rectangle::new([(across.low(), up.low()), (across.high(), up.high())], FRAME)])?;

        let key = area.clone().shrink((left + size.0 + gap, top), (bar + bar_labels, size.1));
        draw_key(&key, bar_labels, colours, bar_scale, field.name)
    }
}

/// Draws the colour key, from the lowest to the highest value.
fn draw_key(area: &Area<'_>, room: i32, colours: &Colours, scale: Scale, name: &str) -> Drawn {
    let (low, high) = (colours.low, colours.high);
    let name = format!("{name}{}", scale.factor());
    let mut chart = ChartBuilder::on(area).right_y_label_area_size(room).build_cartesian_2d(0.0..1.0, scale)?;
    let (width, height) = chart.plotting_area().dim_in_pixel();
    let image = (0..height)
        .rev()
        .map(|row| low + (f64::from(row) + 0.5) / f64::from(height) * (high - low))
        .flat_map(|value| colours.colour(value).repeat(width as usize))
        .collect();
    chart.draw_series(BitMapElement::with_owned_buffer((0.0, high), (width, height), image))?;
    styled(chart.configure_mesh().disable_mesh().disable_x_axis().y_desc(name)).draw()?;
    chart.draw_series([Rectangle::new([(0.0, low), (1.0, high)], FRAME)])?;
    Ok(())
}
