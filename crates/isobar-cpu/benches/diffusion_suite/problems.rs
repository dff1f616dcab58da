//! Random diffusion problems of hard families, each made from its number alone.

use std::sync::Arc;

use isobar_core::prelude::*;

/// A problem with its right-hand side.
pub(crate) struct Problem {
    /// Its description.
    pub(crate) name: String,
    /// The matrix.
    pub(crate) stencil: Diffusion,
    /// Uniform in (−1, 1), 0 in inactive cells.
    pub(crate) rhs: Vec<f64>,
}

/// A stream of random numbers.
struct Stream {
    seed: u64,
    drawn: usize,
}

impl Stream {
    /// Returns a number uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        self.drawn += 1;
        0.5 * (random(self.seed, self.drawn) + 1.0)
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n - 1)
    }

    fn pick<X: Copy>(&mut self, of: &[X]) -> X {
        of[self.below(of.len())]
    }

    /// Returns a standard normal number (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().max(1e-300).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }
}

const FAMILIES: [&str; 8] =
    ["noise", "correlated", "binary", "channels", "layers", "bubbles", "checkerboard", "blocks"];

/// Makes problem number n.
pub(crate) fn problem(n: usize) -> Problem {
    let mut stream = Stream { seed: 1000 + n as u64, drawn: 0 };
    let extents = extents(&mut stream, n);
    let [nx, ny, nz] = extents;
    let shape = Shape::new(nx, ny, nz);
    let family = FAMILIES[n % FAMILIES.len()];
    let contrast = 10f64.powf(3.0 + 9.0 * stream.uniform());
    let mut field = field(&mut stream, family, extents, contrast);
    let is_holey = stream.uniform() < 0.5;
    let fraction = if is_holey { 0.1 + 0.4 * stream.uniform() } else { 0.0 };
    for value in &mut field {
        if stream.uniform() < fraction {
            *value = 0.0;
        }
    }
    // Widths of cells: T = 2κ (area / distance) a half.
    let aspect = 10f64.powf(3.0 * stream.uniform());
    let widths = match stream.below(4) {
        0 | 1 => [1.0; 3],
        2 => [1.0, 1.0, 1.0 / aspect],
        _ => {
            let mut widths = [1.0; 3];
            widths[stream.below(3)] = aspect;
            widths
        }
    };
    let volume: f64 = widths.iter().product();
    let axes = widths.map(|width| (0, 2.0 * volume / (width * width)));
    let mut sides = [[Side::Closed; 2]; 3];
    let mut shift = None;
    let ends = match stream.below(4) {
        0 | 1 => {
            let d = stream.below(if nz > 1 { 3 } else { 2 });
            sides[d][stream.below(2)] = Side::Fixed;
            "dirichlet"
        }
        2 => {
            let rate = 10f64.powf(-6.0 * stream.uniform()) * volume;
            shift = Some(field.iter().map(|k| if *k > 0.0 { rate } else { 0.0 }).collect());
            "reaction"
        }
        _ => {
            for d in 0..3 {
                if stream.uniform() < 0.5 && (d == 2 || extents[d].is_multiple_of(2)) {
                    sides[d] = [Side::Periodic; 2];
                }
            }
            "floating"
        }
    };
    let rhs = field.iter().map(|k| if *k > 0.0 { 2.0 * stream.uniform() - 1.0 } else { 0.0 }).collect();
    let name = format!(
        "{n:3} {family} {shape}, contrast {contrast:.0e}, {:.0} % closed, widths {:.0e} {:.0e} {:.0e}, {ends}",
        100.0 * fraction,
        widths[0],
        widths[1],
        widths[2]
    );
    let cells = Coefficients::Cells { fields: vec![Arc::from(field)], axes };
    let stencil = Diffusion::new(shape, cells, shift, sides).unwrap_or_else(|error| panic!("{name}: {error}"));
    Problem { name, stencil, rhs }
}

/// Makes problem number n of open and closed blocks, which have many components.
pub(crate) fn closed_blocks(n: usize) -> Problem {
    let mut stream = Stream { seed: 5_000 + n as u64, drawn: 0 };
    let extents = [(); 3].map(|()| 6 + stream.below(50));
    let [nx, ny, nz] = extents;
    let (size, open, is_rough) =
        (stream.pick(&[2, 3, 4, 5, 6, 8]), stream.pick(&[0.3, 0.5, 0.7]), stream.uniform() < 0.5);
    let blocks = extents.map(|n| n.div_ceil(size));
    let mut is_open: Vec<bool> = (0..blocks.iter().product()).map(|_| stream.uniform() < open).collect();
    // At least one block is open.
    is_open[0] |= !is_open.contains(&true);
    let mut field = Vec::with_capacity(nx * ny * nz);
    for (k, j, i) in (0..nz).flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| (k, j, i)))) {
        let value = if is_rough { stream.normal().exp() } else { 1.0 };
        let is_open = is_open[i / size + blocks[0] * (j / size + blocks[1] * (k / size))];
        field.push(if is_open { value } else { 0.0 });
    }
    let rhs = field.iter().map(|k| if *k > 0.0 { 2.0 * stream.uniform() - 1.0 } else { 0.0 }).collect();
    let mut sides = [[Side::Closed; 2]; 3];
    sides[0][0] = stream.pick(&[Side::Fixed, Side::Fixed, Side::Closed]);
    let shape = Shape::new(nx, ny, nz);
    let name = format!("{n:3} closed blocks {shape}, of {size}, {:.0} % open, {:?}", 100.0 * open, sides[0][0]);
    let stencil =
        Diffusion::of_field(shape, field, [2.0; 3], None, sides).unwrap_or_else(|error| panic!("{name}: {error}"));
    Problem { name, stencil, rhs }
}

/// Returns odd, even and prime sizes; a third are flat.
fn extents(stream: &mut Stream, n: usize) -> [usize; 3] {
    if n.is_multiple_of(3) {
        let size = || [31, 48, 64, 81, 97, 128];
        return [stream.pick(&size()), stream.pick(&size()), 1];
    }
    let sizes = [13, 16, 20, 24, 29, 32, 37, 40, 48];
    [stream.pick(&sizes), stream.pick(&sizes), stream.pick(&sizes)]
}

fn field(stream: &mut Stream, family: &str, extents @ [nx, ny, nz]: [usize; 3], contrast: f64) -> Vec<f64> {
    let cells = nx * ny * nz;
    let at = |n: usize| [n % nx, n / nx % ny, n / nx / ny];
    let sigma = 1.0 + 2.0 * stream.uniform();
    match family {
        "noise" => (0..cells).map(|_| (sigma * stream.normal()).exp()).collect(),
        "correlated" => {
            // Noise averaged over boxes twice, scaled back to its standard deviation.
            let mut field: Vec<f64> = (0..cells).map(|_| stream.normal()).collect();
            let reach = 1 + stream.below(3);
            for d in [0, 1, 2, 0, 1, 2] {
                field = averaged(&field, extents, d, reach);
            }
            let mean_square = field.iter().map(|x| x * x).sum::<f64>() / cells as f64;
            field.into_iter().map(|x| (sigma * x / mean_square.sqrt()).exp()).collect()
        }
        "binary" => {
            let share = 0.2 + 0.6 * stream.uniform();
            (0..cells).map(|_| if stream.uniform() < share { contrast } else { 1.0 }).collect()
        }
        "channels" => {
            let mut field = vec![1.0; cells];
            let value = if stream.uniform() < 0.7 { contrast } else { 1.0 / contrast };
            for _ in 0..3 + stream.below(12) {
                let directions = if nz > 1 { 3 } else { 2 };
                let along = stream.below(directions);
                let mut place = [stream.below(nx), stream.below(ny), stream.below(nz)];
                for m in 0..extents[along] {
                    place[along] = m;
                    field[place[0] + nx * (place[1] + ny * place[2])] = value;
                    // The channels wander.
                    let across = (along + 1 + stream.below(2)) % 3;
                    if stream.uniform() < 0.3 {
                        let step = if stream.uniform() < 0.5 { extents[across] - 1 } else { 1 };
                        place[across] = (place[across] + step) % extents[across];
                        field[place[0] + nx * (place[1] + ny * place[2])] = value;
                    }
                }
            }
            field
        }
        "layers" => {
            let d = stream.below(if nz > 1 { 3 } else { 2 });
            let values: Vec<f64> = (0..extents[d]).map(|_| contrast.powf(stream.uniform())).collect();
            (0..cells).map(|n| values[at(n)[d]]).collect()
        }
        "bubbles" => {
            let value = if stream.uniform() < 0.5 { contrast } else { 1.0 / contrast };
            let smallest = if nz > 1 { nx.min(ny).min(nz) } else { nx.min(ny) } as f64;
            let balls: Vec<[f64; 4]> = (0..30)
                .map(|_| {
                    let place = [nx, ny, nz].map(|extent| stream.uniform() * extent as f64);
                    [place[0], place[1], place[2], smallest * (0.05 + 0.1 * stream.uniform())]
                })
                .collect();
            (0..cells)
                .map(|n| {
                    let centre = at(n).map(|m| m as f64 + 0.5);
                    let is_inside = |ball: &[f64; 4]| {
                        let distance = |d: usize| if d == 2 && nz == 1 { 0.0 } else { (centre[d] - ball[d]).powi(2) };
                        distance(0) + distance(1) + distance(2) <= ball[3] * ball[3]
                    };
                    if balls.iter().any(is_inside) { value } else { 1.0 }
                })
                .collect()
        }
        "checkerboard" => {
            let size = 1 + stream.below(5);
            (0..cells)
                .map(|n| if at(n).iter().map(|m| m / size).sum::<usize>() % 2 == 0 { contrast } else { 1.0 })
                .collect()
        }
        _ => {
            let size = 2 + stream.below(4);
            let seed = stream.seed + 7777;
            (0..cells)
                .map(|n| {
                    let [i, j, k] = at(n).map(|m| m / size);
                    contrast.powf(0.5 * (random(seed, i + 1000 * (j + 1000 * k)) + 1.0))
                })
                .collect()
        }
    }
}

/// Averages each value over those within reach in a direction.
fn averaged(field: &[f64], [nx, ny, nz]: [usize; 3], d: usize, reach: usize) -> Vec<f64> {
    let (count, stride) = ([nx, ny, nz][d], [1, nx, nx * ny][d]);
    (0..field.len())
        .map(|n| {
            let m = n / stride % count;
            let (first, last) = (m.saturating_sub(reach), (m + reach).min(count - 1));
            (first..=last).map(|other| field[n - m * stride + other * stride]).sum::<f64>() / (last + 1 - first) as f64
        })
        .collect()
}

/// Returns ε ‖|A| |x|‖ / ‖b‖, below which a residual is rounding.
pub(crate) fn rounding_floor(stencil: &Diffusion, x: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let rows = stencil.cells().map(|at| {
        let here = x[stencil.cell(at)].abs();
        stencil.neighbours(at).fold(stencil.diagonal(at) * here, |sum, (to, t)| sum + t * x[stencil.cell(to)].abs())
    });
    f64::EPSILON * norm(&mut rows.collect::<Vec<_>>().into_iter()) / norm(&mut b.iter().copied())
}
