//! Which rank has which rows.

use std::ops::Range;

use isobar_core::error::{Error, Result};
use isobar_core::layout::{Shape, Slab};

use crate::communicator::{COLLECTIVE, Communicator, Message, bytes_of, bytes_of_mut};

/// The largest slab has at most so many times as many rows as it would have evenly.
const UNEVENNESS: f64 = 1.2;
/// A slab of fewer rows is not worth its exchanges.
const FEWEST_ROWS: usize = 4;

/// The rows of a grid, divided among ranks: consecutive ones each, as many as the others or a few more or less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// Where the rows of each begin, and where the last one's end.
    starts: Vec<usize>,
}

impl Slabs {
    /// For so many ranks. Slabs begin at multiples of a power of two, so that coarser grids can be divided in the same places:
    /// of that which leaves the largest slab the least to do in a cycle of multigrid.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there are more ranks than rows.
    pub fn new(shape: Shape, ranks: usize) -> Result<Self> {
        let rows = shape.ny;
        if rows < ranks {
            return Err(Error::invalid(
                "grid.ny",
                format!("{rows} rows for {ranks} ranks, each of which takes at least one; use at most {rows} ranks"),
            ));
        }
        let in_blocks = |block: usize| {
            let blocks = rows.div_ceil(block);
            Self { starts: (0..=ranks).map(|rank| (blocks * rank / ranks * block).min(rows)).collect() }
        };
        let powers = (1..usize::BITS).take_while(|power| rows.div_ceil(1 << power) >= ranks);
        // Methods without coarser grids have nothing from an uneven division.
        let is_even = |power: &u32| {
            let even = rows as f64 / ranks as f64;
            *power == 1 || in_blocks(1 << power).largest() as f64 <= UNEVENNESS * even + 1.0
        };
        let best = powers
            .filter(is_even)
            .map(|power| (in_blocks(1 << power).work(), power))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        Ok(in_blocks(best.map_or(1, |(_, power)| 1 << power)))
    }

    /// Slabs that begin, and end, there.
    pub(crate) fn from_starts(starts: &[usize]) -> Self {
        Self { starts: starts.to_vec() }
    }

    /// What the largest slab has to do in a cycle of multigrid, relative to all work on the finest grid: its share of the
    /// levels that are divided, and all of the others.
    fn work(&self) -> f64 {
        let share = |slabs: &Self| slabs.largest() as f64 / slabs.starts[slabs.ranks()] as f64;
        let (mut work, mut cells) = (share(self), 0.25);
        let mut coarser = self.halved().filter(Self::stay_divided);
        while let Some(slabs) = coarser {
            work += cells * share(&slabs);
            cells *= 0.25;
            coarser = slabs.halved().filter(Self::stay_divided);
        }
        work + cells / 0.75
    }

    /// Rows of the largest.
    pub fn largest(&self) -> usize {
        self.starts.windows(2).map(|slab| slab[1] - slab[0]).max().unwrap_or(0)
    }

    /// Where the rows of each rank begin, and their end.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The rows of a rank.
    pub fn of(&self, rank: usize) -> Slab {
        Slab { first: self.starts[rank], beyond: self.starts[rank + 1] }
    }

    /// The same rows of a grid that is half as fine; nothing where a pair of rows is divided.
    pub fn halved(&self) -> Option<Self> {
        let last = self.ranks();
        let is_even = self.starts[..last].iter().all(|start| start.is_multiple_of(2));
        is_even.then(|| Self { starts: self.starts.iter().map(|start| start.div_ceil(2)).collect() })
    }

    /// Whether a coarse level of these slabs is divided: where every slab is worth its exchanges, and the next coarser one
    /// could be divided too.
    pub fn stay_divided(&self) -> bool {
        self.halved().is_some() && self.starts.windows(2).all(|slab| slab[1] - slab[0] >= FEWEST_ROWS)
    }
}

/// Collects the rows of all ranks on rank 0, in an array of the whole grid, (nz, ny, nx) in C order, of which every rank has
/// its own rows.
///
/// # Errors
/// [`Error::Shape`] for an array of another size; those of [`Slabs::new`] and [`Communicator::gather`].
pub fn gather_rows(world: &dyn Communicator, u: &mut [f64], shape: Shape) -> Result<()> {
    if u.len() != shape.cells() {
        return Err(Error::shape("array", format!("{} elements", u.len()), shape.to_string()));
    }
    if world.size() == 1 {
        return Ok(());
    }
    let slabs = Slabs::new(shape, world.size())?;
    let pieces = |slab: Slab| {
        (0..shape.nz).map(move |k| {
            let start = shape.nx * (slab.first + shape.ny * k);
            start..start + shape.nx * slab.rows()
        })
    };
    let mine: Vec<f64> = pieces(slabs.of(world.rank())).flat_map(|piece| u[piece].iter().copied()).collect();
    let counts: Vec<usize> =
        (0..world.size()).map(|rank| slabs.of(rank).shape(shape).cells() * size_of::<f64>()).collect();
    let mut all = vec![0.0; if world.rank() == 0 { shape.cells() } else { 0 }];
    world.gather(bytes_of(&mine), &counts, bytes_of_mut(&mut all))?;
    let mut rest = &all[..];
    for piece in (0..world.size()).filter(|_| world.rank() == 0).flat_map(|rank| pieces(slabs.of(rank))) {
        let (from, others) = rest.split_at(piece.len());
        u[piece].copy_from_slice(from);
        rest = others;
    }
    Ok(())
}

/// Collects layers of a grid, whole ones, on the ranks that are to have them, `layers[rank]`, from the rows of each, `rows`, which
/// are (nz, rows, nx) in C order. Returns this rank's, (layers, ny, nx).
///
/// # Errors
/// [`Error::Shape`] for another number of values, of ranks, or other layers; those of [`Slabs::new`] and
/// [`Communicator::exchange`].
pub fn collect_layers(
    world: &dyn Communicator,
    rows: &[f64],
    shape: Shape,
    layers: &[Range<usize>],
) -> Result<Vec<f64>> {
    let (rank, size) = (world.rank(), world.size());
    let slabs = Slabs::new(shape, size)?;
    let row = |rank: usize| shape.nx * slabs.of(rank).rows();
    let are_there = layers.iter().all(|layers| layers.start <= layers.end && layers.end <= shape.nz);
    if rows.len() != shape.nz * row(rank) || layers.len() != size || !are_there {
        return Err(Error::shape(
            "rows",
            format!("{} elements for {} ranks", rows.len(), layers.len()),
            shape.to_string(),
        ));
    }
    let own = layers[rank].len();
    let mut parts: Vec<Vec<f64>> =
        (0..size).map(|peer| vec![0.0; if peer == rank { 0 } else { own * row(peer) }]).collect();
    let wanted = |layers: &Range<usize>| &rows[layers.start * row(rank)..layers.end * row(rank)];
    let messages = parts.iter_mut().zip(layers).enumerate().filter(|(peer, _)| *peer != rank);
    let messages = messages.map(|(peer, (part, layers))| Message {
        peer,
        tag: COLLECTIVE,
        send: bytes_of(wanted(layers)),
        receive: bytes_of_mut(part),
    });
    world.exchange(&mut messages.collect::<Vec<_>>())?;
    let mut all = Vec::with_capacity(own * shape.nx * shape.ny);
    for layer in 0..own {
        for (peer, part) in parts.iter().enumerate() {
            let part = if peer == rank { wanted(&layers[rank]) } else { part };
            all.extend_from_slice(&part[layer * row(peer)..][..row(peer)]);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_given_away_about_evenly() {
        for rows in 1..200 {
            for ranks in 1..=rows.min(17) {
                let slabs = Slabs::new(Shape::new(3, rows, 2), ranks).unwrap();
                assert_eq!((slabs.of(0).first, slabs.of(ranks - 1).beyond), (0, rows));
                let sizes: Vec<usize> = (0..ranks).map(|rank| slabs.of(rank).rows()).collect();
                assert!(sizes.iter().all(|&size| size > 0), "{rows} rows, {ranks} ranks: {sizes:?}");
                let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
                let even = rows as f64 / ranks as f64;
                assert!(
                    *most as f64 <= UNEVENNESS * even + 2.0 && 3 * least + 4 >= *most,
                    "{rows} on {ranks}: {sizes:?}"
                );
                if rows.div_ceil(2) >= ranks {
                    let coarse = slabs.halved().unwrap();
                    assert_eq!(coarse.of(ranks - 1).beyond, rows.div_ceil(2));
                }
            }
        }
        assert!(Slabs::new(Shape::new(3, 2, 2), 3).is_err());
    }

    #[test]
    fn rows_are_gathered_in_their_places() {
        let shape = Shape::new(3, 11, 4);
        let expected: Vec<f64> = (0..shape.cells()).map(|n| n as f64).collect();
        let all = crate::threads::run(3, |world| {
            let rows = Slabs::new(shape, 3)?.of(world.rank());
            let is_own = |n: usize| (rows.first..rows.beyond).contains(&(n / shape.nx % shape.ny));
            let mut u: Vec<f64> = expected.iter().enumerate().map(|(n, &u)| if is_own(n) { u } else { -1.0 }).collect();
            gather_rows(&world, &mut u, shape)?;
            assert!(gather_rows(&world, &mut u[1..], shape).is_err());
            Ok(u)
        });
        assert_eq!(all.unwrap()[0], expected);
    }

    #[test]
    fn layers_are_collected_from_all_rows() {
        let shape = Shape::new(3, 11, 4);
        let value = |n: usize| (n % shape.nx + 10 * (n / shape.nx)) as f64;
        let cells = |layers: Range<usize>| (layers.start * 33..layers.end * 33).map(value).collect::<Vec<f64>>();
        // Of unlike numbers, and none.
        let layers = [1..4, 0..0, 0..1];
        let all = crate::threads::run(3, |world| {
            let rows = Slabs::new(shape, 3)?.of(world.rank());
            let is_own = |n: &usize| (rows.first..rows.beyond).contains(&(n / shape.nx % shape.ny));
            let own: Vec<f64> = (0..shape.cells()).filter(is_own).map(value).collect();
            assert!(collect_layers(&world, &own[1..], shape, &layers).is_err());
            assert!(collect_layers(&world, &own, shape, &[0..5, 0..0, 0..0]).is_err());
            collect_layers(&world, &own, shape, &layers)
        });
        assert_eq!(all.unwrap(), layers.map(cells));
    }

    /// A little more for the largest slab, so that three more levels are divided.
    #[test]
    fn divided_levels_are_worth_some_unevenness() {
        let rows = |rows: usize, ranks: usize| -> Vec<usize> {
            let slabs = Slabs::new(Shape::new(64, rows, 32), ranks).unwrap();
            (0..ranks).map(|rank| slabs.of(rank).rows()).collect()
        };
        assert_eq!(rows(64, 3), [16, 24, 24]);
        assert_eq!(rows(1024, 6), [160, 176, 176, 160, 176, 176]);
        assert_eq!(rows(7, 3), [2, 2, 3]);
    }

    #[test]
    fn powers_of_two_stay_divided() {
        let mut slabs = Slabs::new(Shape::new(128, 128, 128), 4).unwrap();
        for _ in 0..5 {
            slabs = slabs.halved().unwrap();
        }
        assert_eq!(slabs.of(3), Slab { first: 3, beyond: 4 });
        assert!(!slabs.stay_divided() && slabs.halved().is_none());
    }
}
