//! Coefficient fields with jumps. All have shape (nz, ny, nx) in C order.

use super::random;
use crate::error::{Error, Result};
use crate::layout::Shape;

fn check_contrast(key: &str, contrast: f64) -> Result<()> {
    if contrast > 0.0 && contrast.is_finite() {
        Ok(())
    } else {
        Err(Error::invalid(key, format!("contrast {contrast}; use a positive number, such as 1e3")))
    }
}

fn fill(shape: Shape, f: impl Fn([usize; 3]) -> f64) -> Vec<f64> {
    let Shape { nx, ny, nz } = shape;
    let f = &f;
    (0..nz).flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| f([i, j, k])))).collect()
}

/// Uniform in (0, 1).
fn uniform(seed: u64, n: usize) -> f64 {
    0.5 * (random(seed, n) + 1.0)
}

/// Two fluids with a horizontal interface at mid-height: 1 below, 1/contrast above (paper D). Up is z, and
/// y where there is only one level.
///
/// # Errors
/// [`Error::Invalid`] for a contrast that is not positive.
pub fn two_phase(shape: Shape, contrast: f64) -> Result<Vec<f64>> {
    check_contrast("diffusion.coefficient.two_phase", contrast)?;
    let below = |at: [usize; 3]| if shape.nz > 1 { 2 * at[2] < shape.nz } else { 2 * at[1] < shape.ny };
    Ok(fill(shape, |at| if below(at) { 1.0 } else { 1.0 / contrast }))
}

/// Where bubbles are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bubbles {
    /// How many.
    pub count: usize,
    /// Radius, relative to the shortest side of the domain.
    pub radius: f64,
    /// Coefficient in a bubble over that in the liquid, which is 1. For air in water, β = 1/ρ, about 10³.
    pub contrast: f64,
    /// Of their places.
    pub seed: u64,
}

/// Round bubbles in a liquid: discs where there is one level, balls otherwise. A cell belongs to a bubble if
/// its centre does. Bubbles keep clear of each other and of the sides; `extent` is the domain's size.
///
/// # Errors
/// [`Error::Invalid`] for a radius or contrast that is not positive, and where so many bubbles find no room.
pub fn bubbles(shape: Shape, extent: [f64; 3], bubbles: &Bubbles) -> Result<Vec<f64>> {
    const KEY: &str = "diffusion.coefficient.bubbles";
    check_contrast(KEY, bubbles.contrast)?;
    let axes: &[usize] = if shape.nz > 1 { &[0, 1, 2] } else { &[0, 1] };
    let shortest = axes.iter().map(|&d| extent[d]).fold(f64::INFINITY, f64::min);
    let radius = bubbles.radius * shortest;
    if !(bubbles.radius > 0.0 && bubbles.radius < 0.5) {
        return Err(Error::invalid(KEY, format!("radius {}; use a number between 0 and 0.5", bubbles.radius)));
    }
    let distance = |a: &[f64; 3], b: &[f64; 3]| axes.iter().map(|&d| (a[d] - b[d]).powi(2)).sum::<f64>().sqrt();
    let mut centres: Vec<[f64; 3]> = Vec::with_capacity(bubbles.count.min(1 << 16));
    let tries = 10_000 + 1000 * bubbles.count;
    for n in 0..tries {
        if centres.len() == bubbles.count {
            break;
        }
        let mut centre = [0.0; 3];
        for &d in axes {
            centre[d] = radius + (extent[d] - 2.0 * radius) * uniform(bubbles.seed, 3 * n + d);
        }
        if centres.iter().all(|other| distance(other, &centre) > 2.0 * radius) {
            centres.push(centre);
        }
    }
    if centres.len() < bubbles.count {
        return Err(Error::invalid(
            KEY,
            format!(
                "only {} of {} bubbles of radius {} found room; use fewer or smaller ones",
                centres.len(),
                bubbles.count,
                bubbles.radius
            ),
        ));
    }
    let cells = [shape.nx, shape.ny, shape.nz];
    Ok(fill(shape, |at| {
        let mut centre = [0.0; 3];
        for &d in axes {
            centre[d] = (at[d] as f64 + 0.5) * extent[d] / cells[d] as f64;
        }
        if centres.iter().any(|c| distance(c, &centre) <= radius) { bubbles.contrast } else { 1.0 }
    }))
}

/// Horizontal layers, one a level, their coefficients spread evenly over the orders of magnitude between
/// 1/contrast and 1: an aquifer of sand and clay.
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

/// exp(σ ξ) with ξ uniform in (−√3, √3), cell by cell: rock without any structure.
///
/// # Errors
/// [`Error::Invalid`] for a σ that is negative or not finite.
pub fn noise(shape: Shape, sigma: f64, seed: u64) -> Result<Vec<f64>> {
    if !(sigma >= 0.0 && sigma.is_finite()) {
        return Err(Error::invalid("diffusion.coefficient.noise", format!("sigma {sigma}; use 0 or more")));
    }
    let Shape { nx, ny, .. } = shape;
    Ok(fill(shape, |[i, j, k]| (sigma * 3f64.sqrt() * random(seed, i + nx * (j + ny * k))).exp()))
}

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
