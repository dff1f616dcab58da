//! Parts that have some columns of a row alone, in host memory: their edges, and their places in the whole grid.

use isobar_core::prelude::{Colour, Layout, Real, Result};

use crate::edge::{Edge, edges_in_y};

/// The cells of one colour at an end of rows, or the one at a corner, in both directions: where layer 0 of each is, counted from a
/// vector's first entry.
struct Strip {
    towards: [isize; 2],
    colour: Colour,
    sent: Vec<usize>,
    received: Vec<usize>,
}

/// All of them for some colours of the larger grid.
fn strips(layout: &Layout, colours: &[Colour]) -> Vec<Strip> {
    let (shape, before) = (layout.shape(), layout.halo_len()[0]);
    let mut strips = Vec::with_capacity(8);
    for (is_east, end, to_x) in [(false, 0, -1), (true, shape.nx - 1, 1)] {
        if !layout.goes_on_in_x()[usize::from(is_east)] {
            continue;
        }
        let colour_at = |j: usize| layout.local(Colour::of(end, j));
        let sent_at = |j: usize| before + layout.index(end, j, 0);
        let received_at = |j: isize| before.wrapping_add_signed(layout.beyond(is_east, j));
        for &colour in colours {
            // Beside a cell is one of the other colour.
            let sent = (0..shape.ny).filter(|&j| colour_at(j) == colour).map(sent_at);
            let received = (0..shape.ny).filter(|&j| colour_at(j) != colour).map(|j| received_at(j.cast_signed()));
            strips.push(Strip { towards: [to_x, 0], colour, sent: sent.collect(), received: received.collect() });
        }
        for (j, to_y, rows) in [(0, -1, layout.halo()[0]), (shape.ny - 1, 1, layout.halo()[1])] {
            let colour = colour_at(j);
            if rows > 0 && colours.contains(&colour) {
                let (sent, received) = (vec![sent_at(j)], vec![received_at(j.cast_signed() + to_y)]);
                strips.push(Strip { towards: [to_x, to_y], colour, sent, received });
            }
        }
    }
    strips
}

/// [`PartBackend::edges`](crate::part::PartBackend::edges) of a vector in host memory that has halo columns. All that borders on a
/// part, corners too, which interpolation reads, is exchanged at once.
pub(super) fn edges<T: Real>(
    layout: &Layout,
    entries: &mut [T],
    colours: &[Colour],
    exchange: &mut dyn FnMut(&mut [Edge<'_, T>]) -> Result<()>,
) -> Result<()> {
    let (nz, pitch) = (layout.shape().nz, layout.pitch());
    let strips = strips(layout, colours);
    let column = |from: &usize| entries[*from..].iter().step_by(pitch).take(nz).copied();
    let sent: Vec<Vec<T>> = strips.iter().map(|strip| strip.sent.iter().flat_map(column).collect()).collect();
    let mut received: Vec<Vec<T>> = strips.iter().map(|strip| vec![T::ZERO; nz * strip.received.len()]).collect();
    let mut edges: Vec<Edge<'_, T>> = edges_in_y(layout, entries, colours).into_iter().flatten().collect();
    edges.extend(strips.iter().zip(&sent).zip(&mut received).map(|((strip, send), receive)| Edge {
        towards: strip.towards,
        colour: strip.colour,
        send,
        receive,
    }));
    exchange(&mut edges)?;
    for (strip, column) in strips.iter().zip(&received) {
        for (&to, layers) in strip.received.iter().zip(column.chunks_exact(nz)) {
            entries[to..to + nz].copy_from_slice(layers);
        }
    }
    Ok(())
}

/// Copies all rows of a part, half plane by half plane with their padding, the larger grid's red columns of a row before its black
/// ones, to a vector of the whole grid in host memory.
pub fn write_part<T: Real>(from: &[T], of: &Layout, whole: &Layout, entries: &mut [T]) {
    let [first_i, first_j] = of.origin();
    let half_planes = from.chunks_exact(of.half_plane()).enumerate();
    for (n, half_plane) in half_planes {
        let (j, colour) = (n / 2, of.local(Colour::BOTH[n % 2]));
        let (parity, columns) = (of.parity(j, colour), of.columns(j, colour));
        for (k, row) in half_plane.chunks_exact(of.pitch()).enumerate().filter(|_| columns > 0) {
            let to = whole.index(first_i + parity, first_j + j, k);
            entries[to..to + columns].copy_from_slice(&row[..columns]);
        }
    }
}

/// Copies what a part has, all its entries, its halo included, from a vector of the whole grid. Where it goes on beyond the last
/// column or row, that is a ring.
pub fn copy_part<T: Real>(whole: &Layout, from: &[T], part: &Layout, to: &mut [T]) {
    let (shape, [first_i, _], all) = (part.shape(), part.origin(), whole.shape());
    let [halo_before, halo_after] = part.halo().map(usize::cast_signed);
    let start = part.halo_len()[0];
    for j in -halo_before..shape.ny.cast_signed() + halo_after {
        let row = part.row_there(j);
        for colour in Colour::BOTH {
            let halves = 2 * j + colour as isize;
            let begin = start.wrapping_add_signed(halves * part.half_plane().cast_signed());
            // Rows further on by an even number have the same parities.
            let even_j = j.cast_unsigned().wrapping_add(2);
            let (parity, columns) = (part.parity(even_j, colour), part.columns(even_j, colour));
            for k in (0..shape.nz).filter(|_| columns > 0) {
                let source = whole.index(first_i + parity, row, k);
                to[begin + k * part.pitch()..][..columns].copy_from_slice(&from[source..source + columns]);
            }
        }
        for (is_east, beyond) in [(false, first_i.wrapping_sub(1)), (true, first_i + shape.nx)] {
            if !part.goes_on_in_x()[usize::from(is_east)] {
                continue;
            }
            let column = if beyond == usize::MAX { all.nx - 1 } else { beyond % all.nx };
            let begin = start.wrapping_add_signed(part.beyond(is_east, j));
            for (k, to) in to[begin..begin + shape.nz].iter_mut().enumerate() {
                *to = from[whole.index(column, row, k)];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::read_rows;
    use isobar_core::layout::{Patch, Shape, Slab};
    use isobar_core::reference::Vector;

    #[test]
    fn rows_of_a_ring_come_from_its_other_end() {
        let shape = Shape::new(6, 8, 2);
        let value = |i: usize, j: usize, k: usize| (1 + i + 10 * j + 100 * k) as f64;
        let mut whole = Vector::<f64>::zeros(&Layout::new(shape).unwrap()).unwrap();
        whole.fill_with(value);
        let slab = |first, beyond| Slab { first, beyond };
        for (x, y) in [(slab(0, 6), slab(0, 3)), (slab(0, 6), slab(3, 8)), (slab(2, 6), slab(5, 8))] {
            let layout = Patch { x, y }.layout(shape, [true, true]).unwrap();
            let mut part = Vector::<f64>::zeros(&layout).unwrap();
            copy_part(whole.layout(), whole.all_entries(), &layout, part.all_entries_mut());
            for (j, k) in (-1..=y.rows().cast_signed()).flat_map(|j| (0..2).map(move |k| (j, k))) {
                let row = (y.first + 8).wrapping_add_signed(j) % 8;
                for i in 0..x.rows() {
                    assert_eq!(part.get(i, j.cast_unsigned(), k), value(x.first + i, row, k), "{x:?} {y:?} {i} {j}");
                }
                if layout.has_halo_columns() {
                    assert_eq!(part.get(usize::MAX, j.cast_unsigned(), k), value(x.first - 1, row, k));
                    assert_eq!(part.get(x.rows(), j.cast_unsigned(), k), value(0, row, k));
                }
            }
        }
    }

    /// Parts of a grid, wherever they begin, hand over the right cells and take them up in the right places, around corners and around
    /// a ring too.
    #[test]
    fn columns_and_corners_are_those_of_the_larger_grid() {
        let shape = Shape::new(12, 7, 3);
        let value = |i: usize, j: usize, k: usize| (1 + i % 12 + 20 * j + 200 * k) as f64;
        let mut whole = Vector::<f64>::zeros(&Layout::new(shape).unwrap()).unwrap();
        whole.fill_with(value);
        let slab = |first, beyond| Slab { first, beyond };
        for (x, is_ring) in [(slab(0, 4), false), (slab(4, 6), false), (slab(0, 4), true), (slab(6, 12), true)] {
            for y in [slab(0, 3), slab(3, 4), slab(4, 7)] {
                let patch = Patch { x, y };
                let layout = patch.layout(shape, [is_ring, false]).unwrap();
                let mut taken = Vector::<f64>::zeros(&layout).unwrap();
                copy_part(whole.layout(), whole.all_entries(), &layout, taken.all_entries_mut());
                let mut own = Vector::<f64>::zeros(&layout).unwrap();
                own.fill_with(|i, j, k| value(i + x.first, j + y.first, k));
                assert_eq!(own.entries(), taken.entries());

                let mut back = Vector::<f64>::zeros(whole.layout()).unwrap();
                let mut rows = vec![0.0; layout.len()];
                read_rows(&layout, own.all_entries(), y, &mut rows);
                write_part(&rows, &layout, whole.layout(), back.all_entries_mut());
                for [i, j, k] in Shape::new(12, 7, 3).places() {
                    let is_own = (x.first..x.beyond).contains(&i) && (y.first..y.beyond).contains(&j);
                    assert_eq!(back.get(i, j, k), if is_own { value(i, j, k) } else { 0.0 }, "{i} {j} {k}");
                }

                // What the neighbour sends is the other way round what it would get.
                let layers = |i: usize, j: usize| (0..3).map(move |k| value(i, j, k));
                edges(&layout, own.all_entries_mut(), &Colour::BOTH, &mut |edges| {
                    for edge in edges {
                        let [to_x, to_y] = edge.towards;
                        if to_x == 0 {
                            // Rows: see the test of those.
                            let row = if to_y > 0 { y.beyond } else { y.first - 1 };
                            for (m, entry) in edge.receive.iter_mut().enumerate() {
                                let parity = (row + x.first + edge.colour as usize) % 2;
                                let i = 2 * (m % layout.pitch()) + parity;
                                if i < layout.shape().nx {
                                    *entry = value(x.first + i, row, m / layout.pitch());
                                }
                            }
                            continue;
                        }
                        let (end, beyond) =
                            if to_x > 0 { (x.beyond - 1, x.beyond % 12) } else { (x.first, (x.first + 11) % 12) };
                        let rows = |beyond: isize| match to_y {
                            0 => y.first..y.beyond,
                            1 => y.beyond - 1 + beyond as usize..y.beyond + beyond as usize,
                            _ => y.first - beyond as usize..y.first + 1 - beyond as usize,
                        };
                        let of = |i: usize, rows: std::ops::Range<usize>| -> Vec<f64> {
                            let wanted = rows.filter(|&j| Colour::of(i, j) == edge.colour);
                            wanted.flat_map(|j| layers(i, j)).collect()
                        };
                        assert_eq!(edge.send, of(end, rows(0)), "{patch:?} {:?}", edge.towards);
                        edge.receive.copy_from_slice(&of(beyond, rows(1)));
                    }
                    Ok(())
                })
                .unwrap();
                assert_eq!(own.all_entries(), taken.all_entries(), "{patch:?}");
            }
        }
    }
}
