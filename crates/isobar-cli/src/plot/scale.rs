//! Axes, numbers and colours.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// An axis from `low` to `high` with ticks at round numbers.
#[derive(Clone)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    /// Positions of the ticks, in order.
    pub(super) ticks: Vec<f64>,
    labels: Labels,
}

/// The format of tick labels.
#[derive(Clone, Copy)]
enum Labels {
    /// Multiples of 10^exponent.
    Number { exponent: i32, decimals: usize },
    /// Powers of ten; the values are exponents.
    PowerOfTen,
}

impl Scale {
    /// Makes a scale with at most about `most` ticks at 1, 2 or 5 times a power of ten; `low` < `high`.
    pub(super) fn new(low: f64, high: f64, most: usize) -> Self {
        Self::with_step(low, high, round_step((high - low) / most as f64))
    }

    /// Makes a scale with ticks at integers only.
    pub(super) fn integers(low: f64, high: f64, most: usize) -> Self {
        Self::with_step(low, high, round_step((high - low) / most as f64).max(1.0))
    }

    /// Makes a logarithmic axis from 10^low to 10^high with ticks at powers of ten; its values are logarithms.
    pub(super) fn decades(low: f64, high: f64, most: usize) -> Self {
        Scale { labels: Labels::PowerOfTen, ..Self::integers(low, high, most) }
    }

    fn with_step(low: f64, high: f64, step: f64) -> Self {
        let first = (low / step - 1e-9).ceil();
        let count = ((high / step + 1e-9).floor() - first).clamp(0.0, 100.0) as usize;
        let ticks = (0..=count).map(|n| (first + n as f64) * step).collect();
        let magnitude = low.abs().max(high.abs()).log10().floor();
        let exponent = if (-2.0..5.0).contains(&magnitude) { 0 } else { magnitude as i32 };
        let decimals = (f64::from(exponent) - (step.log10() + 1e-9).floor()).clamp(0.0, 9.0);
        let labels = Labels::Number { exponent, decimals: decimals as usize };
        Scale { low, high, ticks, labels }
    }

    /// Adds a margin, as a fraction of the length, at both ends.
    pub(super) fn with_margin(mut self, margin: f64) -> Self {
        let room = margin * (self.high - self.low);
        self.low -= room;
        self.high += room;
        self
    }

    /// Returns ` (×10⁻⁷)`, to be appended to the axis name; empty if the factor is 1.
    pub(super) fn factor(&self) -> String {
        match self.labels {
            Labels::Number { exponent, .. } if exponent != 0 => {
                format!(" (×10{})", superscript(exponent))
            }
            _ => String::new(),
        }
    }

    /// Returns the number of characters of the longest label.
    pub(super) fn longest_label(&self) -> usize {
        self.ticks.iter().map(|tick| self.format_ext(tick).chars().count()).max().unwrap_or(0)
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let height = (value - self.low) / (self.high - self.low);
        start + (height * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        let (exponent, decimals) = match self.labels {
            Labels::Number { exponent, decimals } => (exponent, decimals),
            Labels::PowerOfTen => return format!("10{}", superscript(value.round() as i32)),
        };
        let text = format!("{:.decimals$}", value / 10_f64.powi(exponent));
        match text.strip_prefix('-') {
            // A rounded −0 is written as 0.
            Some(digits) if digits.bytes().all(|byte| matches!(byte, b'0' | b'.')) => digits.into(),
            Some(digits) => format!("−{digits}"),
            None => text,
        }
    }
}

/// Returns 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|&round| round >= step * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// Formats a number as 10⁻⁵ or 8.1 × 10⁻⁶; numbers near 1 in decimals.
pub(super) fn scientific(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let text = format!("{value:.1e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => match (mantissa, exponent.parse()) {
            (_, Ok(-2..=2)) => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').replace('-', "−"),
            ("1.0", Ok(exponent)) => format!("10{}", superscript(exponent)),
            (_, Ok(exponent)) => format!("{} × 10{}", mantissa.replace('-', "−"), superscript(exponent)),
            _ => text,
        },
        None => text,
    }
}

/// Formats −12 as ⁻¹².
pub(super) fn superscript(exponent: i32) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised = |c: char| c.to_digit(10).map_or('⁻', |digit| digits[digit as usize]);
    exponent.to_string().chars().map(raised).collect()
}

/// The fraction of a range that values of the other sign must exceed for a scale of both signs.
const ROUNDING: f64 = 1e-6;

/// A colour scale.
pub(super) struct Colours {
    /// Bounds of the scale.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Whether there are values of both signs; the scale is then centred on zero, which is white.
    diverging: bool,
}

impl Colours {
    /// Makes a scale for the finite values among `values`.
    pub(super) fn new(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return Colours { low: 0.0, high: 1.0, diverging: false };
        }
        let largest = low.abs().max(high.abs());
        if high - low <= 1e-12 * largest || largest < f64::MIN_POSITIVE {
            // A constant field gets the middle of a scale around it, so that rounding errors are not amplified.
            let half = if largest < f64::MIN_POSITIVE { 1.0 } else { 0.1 * largest };
            return Colours { low: low - half, high: high + half, diverging: false };
        }
        // Values of the other sign are rounding errors.
        let least = ROUNDING * (high - low);
        let low = if low < 0.0 && -low <= least { 0.0 } else { low };
        let high = if high > 0.0 && high <= least { 0.0 } else { high };
        if low < 0.0 && high > 0.0 {
            return Colours { low: -largest, high: largest, diverging: true };
        }
        Colours { low, high, diverging: false }
    }

    /// Returns red, green and blue.
    pub(super) fn colour(&self, value: f64) -> [u8; 3] {
        if !value.is_finite() {
            return [150; 3];
        }
        let height = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        let colour = if self.diverging {
            colorous::RED_BLUE.eval_continuous(1.0 - height)
        } else {
            colorous::VIRIDIS.eval_continuous(height)
        };
        colour.as_array()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, most: usize) -> String {
        let scale = Scale::new(low, high, most);
        let labels: Vec<_> = scale.ticks.iter().map(|tick| scale.format_ext(tick)).collect();
        format!("{}{}", labels.join(" "), scale.factor())
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(0.0, 1.0, 5), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(labels(-1.0, 1.0, 4), "−1.0 −0.5 0.0 0.5 1.0");
        assert_eq!(labels(0.0, 50.0, 6), "0 10 20 30 40 50");
        assert_eq!(labels(1.3e-7, 4.1e-7, 3), "2 3 4 (×10⁻⁷)");
        assert_eq!(labels(-3e6, 3e6, 3), "−2 0 2 (×10⁶)");
        assert_eq!(labels(1000.0, 1000.03, 4), "1000.00 1000.01 1000.02 1000.03");
        assert_eq!(Scale::integers(0.0, 3.0, 10).ticks, [0.0, 1.0, 2.0, 3.0]);
        let decades = Scale::decades(-12.0, 0.0, 5);
        assert_eq!(decades.ticks, [-10.0, -5.0, 0.0]);
        assert_eq!(decades.format_ext(&-10.0), "10⁻¹⁰");
    }

    #[test]
    fn numbers_are_written_as_in_a_paper() {
        assert_eq!(scientific(1e-5), "10⁻⁵");
        assert_eq!(scientific(8.14e-6), "8.1 × 10⁻⁶");
        assert_eq!(scientific(0.25), "0.25");
        assert_eq!(scientific(1.0), "1");
        assert_eq!(scientific(0.0), "0");
        assert_eq!(scientific(-2e12), "−2.0 × 10¹²");
        assert_eq!(scientific(f64::NAN), "NaN");
    }

    #[test]
    fn a_scale_of_both_signs_is_white_at_zero() {
        let colours = Colours::new([-1.0, 0.0, 4.0, f64::NAN].into_iter());
        assert_eq!((colours.low, colours.high), (-4.0, 4.0));
        assert!(colours.colour(0.0).iter().all(|&channel| channel > 235));
        let [red, _, blue] = colours.colour(4.0);
        assert!(red > blue, "positive is red");
        assert_eq!(colours.colour(f64::INFINITY), [150; 3]);
    }

    #[test]
    fn rounding_errors_of_the_other_sign_do_not_count() {
        for sign in [1.0, -1.0] {
            let scale = |least: f64| Colours::new([-least * sign, sign].into_iter());
            let one_sided = scale(1e-8);
            assert!(!one_sided.diverging && one_sided.high - one_sided.low == 1.0);
            assert_eq!(one_sided.colour(-1e-8 * sign), one_sided.colour(0.0));
            assert!(scale(1e-4).diverging);
        }
    }

    #[test]
    fn one_value_has_a_scale_around_it() {
        for value in [0.0, 3.0, -1e-300, 1e300] {
            let colours = Colours::new([value; 3].into_iter());
            assert!(colours.low < value && value < colours.high, "{value}");
        }
        let none = Colours::new(std::iter::empty());
        assert!(none.low < none.high);
    }
}
