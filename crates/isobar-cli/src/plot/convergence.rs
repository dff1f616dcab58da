//! The relative residual over the iterations, on a logarithmic axis.

use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;

use super::PlotInput;
use super::canvas::OVERSIZE;
use super::diagram::{Area, Drawn, LINE, diagram, font, px};
use super::scale::{Scale, scientific};

const TOLERANCE: RGBColor = RGBColor(196, 78, 34);

/// Draws the curve, the tolerance and the title with the result.
pub(super) fn draw(area: &Area<'_>, input: &PlotInput<'_>) -> Drawn {
    let PlotInput { history, tolerance, is_converged, .. } = *input;
    let iterations = history.len().saturating_sub(1).max(1) as f64;
    let (low, high) = decades(history, tolerance);
    let (across, up) =
        (Scale::integers(0.0, iterations, 10).with_margin(0.03), Scale::decades(low, high, 9).with_margin(0.04));
    let (ends, floor) = (across.range(), up.range().start);
    let mut chart = diagram(area, title(history, is_converged), (across, "iteration"), (up, "relative residual"))?;

    if tolerance > 0.0 && tolerance.is_finite() {
        let at = tolerance.log10();
        let ends = [(ends.start, at), (ends.end, at)];
        let style = TOLERANCE.stroke_width(2 * OVERSIZE);
        chart.draw_series(DashedLineSeries::new(ends, px(9), px(6), style))?;
        let label = format!("tolerance {}", scientific(tolerance));
        let text = Text::new(label, (0, -px(25)), font(18.0).color(&TOLERANCE));
        chart.draw_series([EmptyElement::at((0.0, at)) + text])?;
    }

    // An iteration without a finite residual interrupts the line; a residual of zero is drawn at the lower bound.
    let points: Vec<Option<(f64, f64, bool)>> = history
        .iter()
        .enumerate()
        .map(|(iteration, &residual)| {
            let exact = residual == 0.0;
            let at = if exact { floor } else { residual.log10() };
            at.is_finite().then_some((iteration as f64, at, exact))
        })
        .collect();
    for stretch in points.split(Option::is_none) {
        let line = stretch.iter().flatten().map(|&(x, y, _)| (x, y));
        chart.draw_series(LineSeries::new(line, LINE.stroke_width(2 * OVERSIZE + 1)))?;
    }
    // Touching markers would hide the line.
    let few = history.len() <= 60;
    for &(x, y, exact) in points.iter().flatten().filter(|point| few || point.2) {
        chart.draw_series([Circle::new((x, y), px(5), if exact { WHITE } else { LINE }.filled())])?;
        chart.draw_series([Circle::new((x, y), px(5), LINE.stroke_width(2 * OVERSIZE))])?;
    }
    Ok(())
}

fn title(history: &[f64], is_converged: bool) -> String {
    let what = if is_converged { "Convergence" } else { "NOT converged" };
    match history {
        [] => format!("{what}: no iterations recorded"),
        [start] => format!("{what}: no iteration, relative residual {}", scientific(*start)),
        [.., last] => {
            let iterations = history.len() - 1;
            let plural = if iterations == 1 { "" } else { "s" };
            format!("{what}: {iterations} iteration{plural}, relative residual {}", scientific(*last))
        }
    }
}

/// Returns the powers of ten that enclose all positive residuals and the tolerance.
fn decades(history: &[f64], tolerance: f64) -> (f64, f64) {
    let logarithms = history.iter().chain([&tolerance]).map(|value| value.log10()).filter(|log| log.is_finite());
    let (low, high) = logarithms.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return (-1.0, 0.0);
    }
    // A value past a power of ten only by rounding needs no further decade.
    let (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
    (low.min(high - 1.0), high)
}
