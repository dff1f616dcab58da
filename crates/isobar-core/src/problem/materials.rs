//! Coefficient fields with jumps. All have shape (nz, ny, nx) in C order.

use std::f64::consts::PI;

use serde::Deserialize;

use super::random;
use crate::execute::rows;
use crate::large_pages::prefer_large_pages;
use crate::{Error, Execute, Host, Result, Shape};

fn check_contrast(key: &str, contrast: f64) -> Result<()> {
    if contrast > 0.0 && contrast.is_finite() {
        Ok(())
    } else {
        Err(Error::invalid(key, format!("contrast {contrast}; use a positive number, such as 1e3")))
    }
}

fn fill(shape: Shape, f: impl Fn([usize; 3]) -> f64 + Sync) -> Vec<f64> {
    let Shape { nx, ny, .. } = shape;
    rows(&Host, shape.cells(), nx, |row, values| {
        values.iter_mut().enumerate().for_each(|(i, value)| *value = f([i, row % ny, row / ny]));
    })
}

/// Returns a number uniform in (0, 1).
fn uniform(seed: u64, n: usize) -> f64 {
    0.5 * (random(seed, n) + 1.0)
}

/// Makes two fluids with a horizontal interface at mid-height: 1 below, 1/contrast above (paper D). Up is z, or y where
/// there is only one layer.
///
/// # Errors
/// [`Error::Invalid`] for a contrast that is not positive.
pub fn two_phase(shape: Shape, contrast: f64) -> Result<Vec<f64>> {
    check_contrast("diffusion.coefficient.two_phase", contrast)?;
    let below = |at: [usize; 3]| if shape.nz > 1 { 2 * at[2] < shape.nz } else { 2 * at[1] < shape.ny };
    Ok(fill(shape, |at| if below(at) { 1.0 } else { 1.0 / contrast }))
}

/// A random arrangement of bubbles.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bubbles {
    /// The number of bubbles.
    pub count: usize,
    /// Radius, relative to the shortest side of the domain.
    pub radius: f64,
    /// Coefficient in a bubble over that in the liquid, which is 1. For air in water, β = 1/ρ, about 10³.
    pub contrast: f64,
    /// The seed of their places.
    #[serde(default)]
    pub seed: u64,
}

/// Makes round bubbles in a liquid: discs if there is one layer, balls otherwise. A cell belongs to a bubble if its centre
/// does. Bubbles keep clear of each other and of the sides; `extent` is the domain's size.
///
/// # Errors
/// [`Error::Invalid`] for a radius or contrast that is not positive, for more bubbles than cells, and if the bubbles do not
/// fit.
pub fn bubbles(shape: Shape, extent: [f64; 3], bubbles: &Bubbles) -> Result<Vec<f64>> {
    const KEY: &str = "diffusion.coefficient.bubbles";
    check_contrast(KEY, bubbles.contrast)?;
    let axes: &[usize] = if shape.nz > 1 { &[0, 1, 2] } else { &[0, 1] };
    let shortest = axes.iter().map(|&d| extent[d]).fold(f64::INFINITY, f64::min);
    let radius = bubbles.radius * shortest;
    if !(bubbles.radius > 0.0 && bubbles.radius < 0.5) {
        return Err(Error::invalid(KEY, format!("radius {:e}; use a number between 0 and 0.5", bubbles.radius)));
    }
    if bubbles.count > shape.cells().min(u32::MAX as usize) {
        let message = format!("{} bubbles in a grid of {shape} cells; use at most one a cell", bubbles.count);
        return Err(Error::invalid(KEY, message));
    }
    let crowded = |most: usize| {
        Err(Error::invalid(
            KEY,
            format!(
                "only {most} of {} bubbles of radius {} found room; use fewer or smaller ones",
                bubbles.count, bubbles.radius
            ),
        ))
    };
    // Discs and balls inside a domain fill no more than this part of it (Thue, Kepler).
    let (size, densest) = match axes.len() {
        2 => (PI * radius.powi(2), PI / 12f64.sqrt()),
        _ => (4.0 / 3.0 * PI * radius.powi(3), PI / 18f64.sqrt()),
    };
    let most = densest * axes.iter().map(|&d| extent[d]).product::<f64>() / size;
    if bubbles.count as f64 > most {
        return crowded(most as usize);
    }

    let mut placed = Placed::new(axes, extent, radius, bubbles.count);
    for n in 0..10_000 + 1000 * bubbles.count {
        if placed.centres.len() == bubbles.count {
            break;
        }
        let mut centre = [0.0; 3];
        for &d in axes {
            centre[d] = radius + (extent[d] - 2.0 * radius) * uniform(bubbles.seed, 3 * n + d);
        }
        if placed.is_clear(&centre) {
            placed.push(centre);
        }
    }
    if placed.centres.len() < bubbles.count {
        return crowded(placed.centres.len());
    }

    let cells = shape.extents();
    // The cells of a bubble along a direction, and one more for rounding.
    let reach = |bubble: &[f64; 3], d: usize| {
        let cell = |x: f64| (x / extent[d] * cells[d] as f64).max(0.0) as usize;
        cell(bubble[d] - radius).saturating_sub(1)..(cell(bubble[d] + radius) + 2).min(cells[d])
    };
    // Works layer by layer, or row by row in one layer, with the bubbles that may have cells there.
    let (along, size) = if shape.nz > 1 { (2, shape.nx * shape.ny) } else { (1, shape.nx) };
    let mut field = vec![0.0; shape.cells()];
    prefer_large_pages(&field);
    let mut slices: Vec<(&mut [f64], Vec<u32>)> =
        field.chunks_mut(size.max(1)).map(|slice| (slice, Vec::new())).collect();
    for (n, bubble) in (0u32..).zip(&placed.centres) {
        slices[reach(bubble, along)].iter_mut().for_each(|(_, there)| there.push(n));
    }
    Host.for_each(&mut slices, |n, (slice, there)| {
        slice.fill(1.0);
        for bubble in there.iter().map(|&bubble| &placed.centres[bubble as usize]) {
            let rows = if along == 2 { reach(bubble, 1) } else { n..n + 1 };
            for j in rows {
                let first = if along == 2 { shape.nx * j } else { 0 };
                for i in reach(bubble, 0) {
                    let at = [i, j, n];
                    let mut centre = [0.0; 3];
                    for &d in axes {
                        centre[d] = (at[d] as f64 + 0.5) * extent[d] / cells[d] as f64;
                    }
                    if distance(axes, bubble, &centre) <= radius {
                        slice[first + i] = bubbles.contrast;
                    }
                }
            }
        }
    });
    Ok(field)
}

fn distance(axes: &[usize], a: &[f64; 3], b: &[f64; 3]) -> f64 {
    axes.iter().map(|&d| (a[d] - b[d]).powi(2)).sum::<f64>().sqrt()
}

/// Bubbles with a place, sorted into bins at least a diameter wide, so that only neighbouring bins can hold one that overlaps.
struct Placed<'a> {
    axes: &'a [usize],
    extent: [f64; 3],
    radius: f64,
    /// Numbers of bins along each direction.
    bins: [usize; 3],
    /// The bubble that was last put into each bin…
    last: Vec<Option<u32>>,
    /// … and the one put there before each bubble.
    before: Vec<Option<u32>>,
    centres: Vec<[f64; 3]>,
}

impl<'a> Placed<'a> {
    fn new(axes: &'a [usize], extent: [f64; 3], radius: f64, count: usize) -> Self {
        let mut bins = [1; 3];
        for &d in axes {
            // Bins are slightly wider than a diameter, for rounding.
            bins[d] = ((extent[d] / (2.0 * radius) * (1.0 - 1e-9)) as usize).clamp(1, 1 << 20);
        }
        // More bins than a few times the number of bubbles only cost memory.
        while bins.iter().product::<usize>() > 64 + 4 * count {
            let longest = (0..3).max_by_key(|&d| bins[d]).unwrap_or(0);
            bins[longest] = bins[longest].div_ceil(2);
        }
        let last = vec![None; bins.iter().product()];
        Self { axes, extent, radius, bins, last, before: Vec::new(), centres: Vec::new() }
    }

    fn bin(&self, centre: &[f64; 3]) -> [usize; 3] {
        [0, 1, 2].map(|d| ((centre[d] / self.extent[d] * self.bins[d] as f64) as usize).min(self.bins[d] - 1))
    }

    fn number(&self, [i, j, k]: [usize; 3]) -> usize {
        i + self.bins[0] * (j + self.bins[1] * k)
    }

    fn is_clear(&self, centre: &[f64; 3]) -> bool {
        let bin = self.bin(centre);
        let [columns, rows, layers] = [0, 1, 2].map(|d| bin[d].saturating_sub(1)..(bin[d] + 2).min(self.bins[d]));
        layers.flat_map(|k| rows.clone().map(move |j| (j, k))).all(|(j, k)| {
            columns.clone().all(|i| {
                let mut next = self.last[self.number([i, j, k])];
                while let Some(other) = next {
                    if distance(self.axes, &self.centres[other as usize], centre) <= 2.0 * self.radius {
                        return false;
                    }
                    next = self.before[other as usize];
                }
                true
            })
        })
    }

    fn push(&mut self, centre: [f64; 3]) {
        let bin = self.number(self.bin(&centre));
        let bubble = self.centres.len() as u32;
        self.before.push(self.last[bin].replace(bubble));
        self.centres.push(centre);
    }
}

/// Makes a horizontal layer of each layer of cells, their coefficients spread evenly over the orders of magnitude
/// between 1/contrast and 1: an aquifer of sand and clay.
///
/// # Errors
/// [`Error::Invalid`] for a contrast that is not positive.
pub fn layers(shape: Shape, contrast: f64, seed: u64) -> Result<Vec<f64>> {
    check_contrast("diffusion.coefficient.layers", contrast)?;
    let along_z = shape.nz > 1;
    let layer: Vec<f64> =
        (0..if along_z { shape.nz } else { shape.ny }).map(|n| contrast.powf(-uniform(seed, n))).collect();
    Ok(fill(shape, |at| layer[if along_z { at[2] } else { at[1] }]))
}

/// Makes exp(σ ξ) with ξ uniform in (−√3, √3), cell by cell: rock without any structure.
///
/// # Errors
/// [`Error::Invalid`] for a σ that is negative, or so large that values would not be numbers.
pub fn noise(shape: Shape, sigma: f64, seed: u64) -> Result<Vec<f64>> {
    if !(0.0..=MOST_NOISE).contains(&sigma) {
        let message = format!("sigma {sigma:e}; use 0 to {MOST_NOISE}, such as 1");
        return Err(Error::invalid("diffusion.coefficient.noise", message));
    }
    let Shape { nx, ny, .. } = shape;
    Ok(fill(shape, |[i, j, k]| (sigma * 3f64.sqrt() * random(seed, i + nx * (j + ny * k))).exp()))
}

/// The largest σ: exp(±100 √3) is 10^±75.
const MOST_NOISE: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bubbles_fill_what_geometry_says() {
        let shape = Shape::new(200, 200, 1);
        let field = bubbles(shape, [1.0; 3], &Bubbles { count: 5, radius: 0.1, contrast: 1e3, seed: 3 }).unwrap();
        let inside = field.iter().filter(|&&v| v == 1e3).count() as f64 / 40_000.0;
        let expected = 5.0 * std::f64::consts::PI * 0.01;
        assert!((inside - expected).abs() < 0.005, "{inside} {expected}");
        assert!(field.iter().all(|&v| v == 1.0 || v == 1e3));
        let crowd = Bubbles { count: 100, radius: 0.2, contrast: 10.0, seed: 0 };
        assert!(bubbles(shape, [1.0; 3], &crowd).is_err());
    }

    /// Compares every bubble with every other, and every cell with every bubble.
    fn bubbles_one_by_one(shape: Shape, extent: [f64; 3], bubbles: &Bubbles) -> Vec<f64> {
        let axes: &[usize] = if shape.nz > 1 { &[0, 1, 2] } else { &[0, 1] };
        let radius = bubbles.radius * axes.iter().map(|&d| extent[d]).fold(f64::INFINITY, f64::min);
        let mut centres: Vec<[f64; 3]> = Vec::new();
        let mut n = 0;
        while centres.len() < bubbles.count {
            let mut centre = [0.0; 3];
            for &d in axes {
                centre[d] = radius + (extent[d] - 2.0 * radius) * uniform(bubbles.seed, 3 * n + d);
            }
            if centres.iter().all(|other| distance(axes, other, &centre) > 2.0 * radius) {
                centres.push(centre);
            }
            n += 1;
        }
        let cells = shape.extents();
        fill(shape, |at| {
            let mut centre = [0.0; 3];
            for &d in axes {
                centre[d] = (at[d] as f64 + 0.5) * extent[d] / cells[d] as f64;
            }
            if centres.iter().any(|c| distance(axes, c, &centre) <= radius) { bubbles.contrast } else { 1.0 }
        })
    }

    #[test]
    fn bins_change_no_bubble() {
        for (shape, extent, count, radius) in [
            (Shape::new(64, 64, 1), [1.0; 3], 12, 0.07),
            (Shape::new(40, 30, 1), [8.0, 2.0, 1.0], 60, 0.09),
            (Shape::new(24, 20, 16), [1.0; 3], 20, 0.1),
            (Shape::new(48, 6, 9), [900.0, 20.0, 30.0], 150, 0.2),
            (Shape::new(20, 20, 20), [1e-30, 2e-30, 1e-30], 300, 0.04),
            (Shape::new(30, 30, 1), [1.0; 3], 500, 1e-9),
            (Shape::new(9, 9, 1), [1.0; 3], 1, 0.49),
        ] {
            for seed in 0..3 {
                let bubbly = Bubbles { count, radius, contrast: 1e3, seed };
                let field = bubbles(shape, extent, &bubbly).unwrap();
                assert!(field == bubbles_one_by_one(shape, extent, &bubbly), "{shape} {bubbly:?}");
            }
        }
    }

    #[test]
    fn a_hundred_thousand_bubbles_find_room() {
        let many = Bubbles { count: 100_000, radius: 0.005, contrast: 1e3, seed: 0 };
        let field = bubbles(Shape::new(100, 100, 100), [1.0; 3], &many).unwrap();
        let inside = field.iter().filter(|&&v| v == 1e3).count() as f64 / 1e6;
        assert!((inside - 1e5 * 4.0 / 3.0 * PI * 0.005f64.powi(3)).abs() < 0.01, "{inside}");
    }

    #[test]
    fn crowds_are_refused_at_once() {
        let message = |count, radius| {
            let crowd = Bubbles { count, radius, contrast: 10.0, seed: 0 };
            bubbles(Shape::new(64, 64, 64), [1.0; 3], &crowd).unwrap_err().to_string()
        };
        assert!(message(100_000, 0.2).contains("only 22 of 100000 bubbles of radius 0.2 found room"));
        assert!(message(usize::MAX, 1e-9).contains("at most one a cell"));
        assert!(message(1, 0.5).contains("radius 5e-1") && message(1, 1e308).contains("radius 1e308"));
        assert!(noise(Shape::new(2, 2, 1), 1e308, 0).unwrap_err().to_string().contains("sigma 1e308; use 0 to 100"));
    }

    #[test]
    fn layers_keep_within_the_contrast() {
        let field = layers(Shape::new(3, 2, 50), 1e6, 1).unwrap();
        assert!(field.iter().all(|&v| (1e-6..=1.0).contains(&v)));
        assert_eq!(field[0], field[5]);
        let spread = field.iter().fold(0.0f64, |a, &b| a.max(b)) / field.iter().fold(1.0f64, |a, &b| a.min(b));
        assert!(spread > 1e4);
    }

    #[test]
    fn two_phases_meet_at_mid_height() {
        let flat = two_phase(Shape::new(2, 4, 1), 1e3).unwrap();
        assert_eq!(flat, [1.0, 1.0, 1.0, 1.0, 1e-3, 1e-3, 1e-3, 1e-3]);
        assert_eq!(two_phase(Shape::new(1, 1, 2), 10.0).unwrap(), [1.0, 0.1]);
    }
}
