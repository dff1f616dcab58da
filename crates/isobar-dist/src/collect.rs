//! This module collects arrays of a whole grid from the rows of each rank.

use std::ops::Range;

use isobar_core::prelude::{Error, Result, Shape, Slab};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::communicator::{COLLECTIVE, Communicator, Message};
use crate::slabs::Slabs;

/// Collects the rows of all ranks on rank 0, in an array of the whole grid, (nz, ny, nx) in C order. Every rank passes such an
/// array; only its own rows need values.
///
/// # Errors
/// [`Error::Shape`] for an array of another size; those of [`Slabs::new`] and [`Communicator::gather`].
pub fn gather(world: &dyn Communicator, u: &mut [f64], shape: Shape) -> Result<()> {
    if u.len() != shape.cells() {
        return Err(Error::shape("array", format!("{} elements", u.len()), shape));
    }
    if world.size() == 1 {
        return Ok(());
    }
    let slabs = Slabs::new(shape, world.size())?;
    let mine: Vec<f64> = layers(slabs.of(world.rank()), shape).flat_map(|layer| u[layer].iter().copied()).collect();
    let counts: Vec<usize> =
        (0..world.size()).map(|rank| slabs.of(rank).shape(shape).cells() * size_of::<f64>()).collect();
    let mut all = vec![0.0; if world.rank() == 0 { shape.cells() } else { 0 }];
    world.gather(bytes_of(&mine), &counts, bytes_of_mut(&mut all))?;
    let mut rest = &all[..];
    for layer in (0..world.size()).filter(|_| world.rank() == 0).flat_map(|rank| layers(slabs.of(rank), shape)) {
        let (from, others) = rest.split_at(layer.len());
        u[layer].copy_from_slice(from);
        rest = others;
    }
    Ok(())
}

/// Returns the ranges that the rows of a slab have in an array of the whole grid, layer by layer.
fn layers(Slab { first, beyond }: Slab, Shape { nx, ny, nz }: Shape) -> impl Iterator<Item = Range<usize>> {
    (0..nz).map(move |k| nx * (first + ny * k)..nx * (beyond + ny * k))
}

/// Redistributes a grid from rows to whole layers: rank r gets the layers `wanted[r]`. `own` has this rank's rows, (nz, rows, nx) in
/// C order. Returns this rank's layers, (layers, ny, nx).
///
/// # Errors
/// [`Error::Shape`] for another number of values, of ranks, or other layers; those of [`Slabs::new`] and [`Communicator::exchange`].
pub fn collect_layers(
    world: &dyn Communicator,
    own: &[f64],
    shape: Shape,
    wanted: &[Range<usize>],
) -> Result<Vec<f64>> {
    let (rank, size) = (world.rank(), world.size());
    let slabs = Slabs::new(shape, size)?;
    let layer_len = |rank: usize| shape.nx * slabs.of(rank).rows();
    let are_there = wanted.iter().all(|layers| layers.start <= layers.end && layers.end <= shape.nz);
    if own.len() != shape.nz * layer_len(rank) || wanted.len() != size || !are_there {
        let found = format!("{} elements for {} ranks", own.len(), wanted.len());
        return Err(Error::shape("a rank's rows", found, shape));
    }
    let count = wanted[rank].len();
    let mut of_peers: Vec<Vec<f64>> =
        (0..size).map(|peer| vec![0.0; if peer == rank { 0 } else { count * layer_len(peer) }]).collect();
    let sent = |layers: &Range<usize>| &own[layers.start * layer_len(rank)..layers.end * layer_len(rank)];
    let messages = of_peers.iter_mut().zip(wanted).enumerate().filter(|(peer, _)| *peer != rank);
    let messages = messages.map(|(peer, (rows, layers))| Message {
        peer,
        tag: COLLECTIVE,
        send: bytes_of(sent(layers)),
        receive: bytes_of_mut(rows),
    });
    world.exchange(&mut messages.collect::<Vec<_>>())?;
    let here = Shape { nz: count, ..shape };
    let mut all = vec![0.0; here.cells()];
    for (peer, rows) in of_peers.iter().enumerate() {
        let rows = if peer == rank { sent(&wanted[rank]) } else { rows };
        for (layer, values) in layers(slabs.of(peer), here).zip(rows.chunks_exact(layer_len(peer))) {
            all[layer].copy_from_slice(values);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(Slab { first, beyond }: Slab, shape: Shape, n: usize) -> bool {
        (first..beyond).contains(&(n / shape.nx % shape.ny))
    }

    #[test]
    fn rows_are_gathered_in_their_places() {
        let shape = Shape::new(7, 11, 4);
        let expected: Vec<f64> = (0..shape.cells()).map(|n| n as f64).collect();
        let all = crate::threads::run(6, |world| {
            let slab = Slabs::new(shape, 6)?.of(world.rank());
            let own = |(n, &u): (usize, &f64)| if is_own(slab, shape, n) { u } else { -1.0 };
            let mut u: Vec<f64> = expected.iter().enumerate().map(own).collect();
            gather(&world, &mut u, shape)?;
            assert!(gather(&world, &mut u[1..], shape).is_err());
            Ok(u)
        });
        assert_eq!(all.unwrap()[0], expected);
    }

    #[test]
    fn layers_are_collected_from_all_rows() {
        let shape = Shape::new(7, 11, 4);
        let value = |n: usize| (n % shape.nx + 10 * (n / shape.nx)) as f64;
        let cells = |layers: Range<usize>| (layers.start * 77..layers.end * 77).map(value).collect::<Vec<f64>>();
        // Different numbers of layers, and ranks without any.
        let layers = [1..4, 0..0, 0..1, 2..3, 0..0, 0..4];
        let all = crate::threads::run(6, |world| {
            let slab = Slabs::new(shape, 6)?.of(world.rank());
            let own: Vec<f64> = (0..shape.cells()).filter(|&n| is_own(slab, shape, n)).map(value).collect();
            let collect = |own: &[f64], layers: &[Range<usize>]| collect_layers(&world, own, shape, layers);
            assert!(collect(&own[1..], &layers).is_err());
            let mut too_many = layers.clone();
            too_many[0] = 0..5;
            assert!(collect(&own, &too_many).is_err());
            collect(&own, &layers)
        });
        assert_eq!(all.unwrap(), layers.clone().map(cells));
    }
}
