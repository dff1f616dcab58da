//! Solutions by elimination, accurate to the last digits for any contrast.

use isobar_core::prelude::*;

/// Solves A u = b by band elimination with row sums carried beside couplings (Grassmann, Taksar and Heyman, 1985), separately
/// for the positive and the negative part of b: every number is a sum of positive ones. The last cell of a floating component
/// has u = 0, and no equation. Periodic directions are not supported.
pub(crate) fn solve(stencil: &Diffusion, b: &[f64]) -> Vec<f64> {
    let shape = stencil.shape();
    let extents = shape.extents();
    // The shortest direction first: the band is as wide as a plane of the first two.
    let mut order = Axis::ALL;
    order.sort_by_key(|&axis| extents[axis as usize]);
    let mut strides = [0; 3];
    let mut stride = 1;
    for axis in order {
        strides[axis as usize] = stride;
        stride *= extents[axis as usize];
    }
    let (cells, band) = (shape.cells(), strides[order[2] as usize]);
    let number = |at: [usize; 3]| at.iter().zip(strides).map(|(n, stride)| n * stride).sum::<usize>();
    // For each cell: couplings to the cells after it, the row sum, and b of either sign.
    let mut couplings = vec![0.0; cells * band];
    let (mut sums, mut right) = (vec![0.0; cells], vec![[0.0; 2]; cells]);
    for at in stencil.cells() {
        let n = number(at);
        sums[n] = stencil.shift(at);
        let value = b[stencil.cell(at)];
        right[n] = [value.max(0.0), (-value).max(0.0)];
        for (to, c) in stencil.neighbours(at) {
            if let Some(distance) = number(to).checked_sub(n).filter(|&distance| (1..=band).contains(&distance)) {
                couplings[n * band + distance - 1] = c;
            }
        }
    }
    let mut pivots = vec![0.0; cells];
    for n in 0..cells {
        let (own, after) = couplings[n * band..].split_at_mut(band);
        pivots[n] = sums[n] + own.iter().sum::<f64>();
        for m in (0..band).filter(|&m| own[m] > 0.0) {
            let factor = own[m] / pivots[n];
            let to = &mut after[m * band..(m + 1) * band];
            to.iter_mut().zip(&own[m + 1..]).for_each(|(to, c)| *to += factor * c);
            sums[n + m + 1] += factor * sums[n];
            let given = right[n];
            right[n + m + 1].iter_mut().zip(given).for_each(|(to, own)| *to += factor * own);
        }
    }
    for n in (0..cells).rev() {
        let own = &couplings[n * band..(n + 1) * band];
        let (before, after) = right.split_at_mut(n + 1);
        for (sign, value) in before[n].iter_mut().enumerate() {
            let given = own.iter().zip(&*after).map(|(c, x)| c * x[sign]).sum::<f64>();
            *value = if pivots[n] > 0.0 { (*value + given) / pivots[n] } else { 0.0 };
        }
    }
    let mut u = vec![0.0; b.len()];
    for at in stencil.cells() {
        let [plus, minus] = right[number(at)];
        u[stencil.cell(at)] = plus - minus;
    }
    u
}
