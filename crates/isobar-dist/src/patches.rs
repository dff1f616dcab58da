//! Which rank has which columns.

use std::ops::Range;

use isobar_core::prelude::{Error, Patch, Result, Shape, Shares};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::communicator::{COLLECTIVE, Communicator, Message};
use crate::slabs::Slabs;

/// The columns of a grid, divided among ranks: rectangles, which ranks number along x first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patches {
    /// Columns of a row.
    x: Slabs,
    /// Rows.
    y: Slabs,
}

impl Patches {
    /// In so many parts of x and y. Patches begin with an even column.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there are more parts in y than rows, or in x than pairs of columns.
    pub fn new(shape: Shape, [in_x, in_y]: [usize; 2]) -> Result<Self> {
        Ok(Self { y: Slabs::new(shape, in_y)?, x: Slabs::of_columns(shape.nx, in_x)? })
    }

    /// In how many parts of x and y a grid is divided where nobody says: of whole rows, and where there are fewer of these than ranks,
    /// in as few parts of x as make do.
    ///
    /// # Errors
    /// [`Error::Invalid`] where no division gives every rank a column of its own, two of them side by side.
    pub fn suggested(shape: Shape, ranks: usize) -> Result<[usize; 2]> {
        let divisors = (1..=ranks).filter(|in_x| ranks.is_multiple_of(*in_x));
        let mut all = divisors.map(|in_x| [in_x, ranks / in_x]);
        all.find(|&[in_x, in_y]| in_y <= shape.ny && (in_x == 1 || in_x <= shape.nx.div_ceil(2))).ok_or_else(|| {
            let message = format!(
                "{} × {} columns for {ranks} ranks, which cannot divide them into as many rectangles of a row at least and two \
                 columns; use fewer ranks, {} at most",
                shape.nx,
                shape.ny,
                shape.ny * shape.nx.div_ceil(2)
            );
            Error::invalid("grid", message)
        })
    }

    /// Parts of x and of y.
    pub fn parts(&self) -> [usize; 2] {
        [self.x.ranks(), self.y.ranks()]
    }

    /// The shares of ranks.
    pub fn shares(&self) -> Shares {
        let most = |slabs: &Slabs| [slabs.smallest(), slabs.largest()];
        Shares { parts: self.parts(), in_x: most(&self.x), in_y: most(&self.y) }
    }

    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.x.ranks() * self.y.ranks()
    }

    /// The columns of a rank.
    pub fn of(&self, rank: usize) -> Patch {
        Patch { x: self.x.of(rank % self.x.ranks()), y: self.y.of(rank / self.x.ranks()) }
    }

    /// How rows are divided.
    pub fn rows(&self) -> &Slabs {
        &self.y
    }

    /// A grid as large as the largest patch.
    pub fn largest(&self, whole: Shape) -> Shape {
        Shape { nx: self.x.largest(), ny: self.y.largest(), ..whole }
    }

    /// The division of a grid that is half as fine in x, in y, or in both; nothing where a pair is divided.
    pub fn halved(&self, [in_x, in_y]: [bool; 2]) -> Option<Self> {
        let along = |slabs: &Slabs, is_halved: bool| if is_halved { slabs.halved() } else { Some(slabs.clone()) };
        Some(Self { x: along(&self.x, in_x)?, y: along(&self.y, in_y)? })
    }

    /// Whether a coarse level of these patches is divided: as [`Slabs::stay_divided`] in each direction that is.
    pub fn stay_divided(&self) -> bool {
        [&self.x, &self.y].into_iter().all(|slabs| slabs.ranks() == 1 || slabs.stay_divided())
    }
}

/// Collects the columns of all ranks on rank 0, in an array of the whole grid, (nz, ny, nx) in C order, of which every rank has
/// its own.
///
/// # Errors
/// [`Error::Shape`] for an array of another size; those of [`Patches::new`] and [`Communicator::gather`].
pub fn gather(world: &dyn Communicator, u: &mut [f64], shape: Shape, parts: [usize; 2]) -> Result<()> {
    if u.len() != shape.cells() {
        return Err(Error::shape("array", format!("{} elements", u.len()), shape));
    }
    if world.size() == 1 {
        return Ok(());
    }
    let patches = Patches::new(shape, parts)?;
    let mine: Vec<f64> = lines(patches.of(world.rank()), shape).flat_map(|line| u[line].iter().copied()).collect();
    let counts: Vec<usize> =
        (0..world.size()).map(|rank| patches.of(rank).shape(shape).cells() * size_of::<f64>()).collect();
    let mut all = vec![0.0; if world.rank() == 0 { shape.cells() } else { 0 }];
    world.gather(bytes_of(&mine), &counts, bytes_of_mut(&mut all))?;
    let mut rest = &all[..];
    for line in (0..world.size()).filter(|_| world.rank() == 0).flat_map(|rank| lines(patches.of(rank), shape)) {
        let (from, others) = rest.split_at(line.len());
        u[line].copy_from_slice(from);
        rest = others;
    }
    Ok(())
}

/// Where the lines in x of a patch are in an array of the whole grid: of each row of each layer.
fn lines(patch: Patch, shape: Shape) -> impl Iterator<Item = Range<usize>> {
    (0..shape.nz).flat_map(move |k| {
        (patch.y.first..patch.y.beyond).map(move |j| {
            let start = patch.x.first + shape.nx * (j + shape.ny * k);
            start..start + patch.x.rows()
        })
    })
}

/// Collects layers of a grid, whole ones, on the ranks that are to have them, `layers[rank]`, from the columns of each, `own`, which
/// are (nz, rows, columns) in C order. Returns this rank's, (layers, ny, nx).
///
/// # Errors
/// [`Error::Shape`] for another number of values, of ranks, or other layers; those of [`Patches::new`] and
/// [`Communicator::exchange`].
pub fn collect_layers(
    world: &dyn Communicator,
    own: &[f64],
    shape: Shape,
    parts: [usize; 2],
    layers: &[Range<usize>],
) -> Result<Vec<f64>> {
    let (rank, size) = (world.rank(), world.size());
    let patches = Patches::new(shape, parts)?;
    let layer_len = |rank: usize| Shape { nz: 1, ..patches.of(rank).shape(shape) }.cells();
    let are_there = layers.iter().all(|layers| layers.start <= layers.end && layers.end <= shape.nz);
    if own.len() != shape.nz * layer_len(rank) || layers.len() != size || !are_there {
        let found = format!("{} elements for {} ranks", own.len(), layers.len());
        return Err(Error::shape("a rank's columns", found, shape));
    }
    let count = layers[rank].len();
    let mut of_peers: Vec<Vec<f64>> =
        (0..size).map(|peer| vec![0.0; if peer == rank { 0 } else { count * layer_len(peer) }]).collect();
    let wanted = |layers: &Range<usize>| &own[layers.start * layer_len(rank)..layers.end * layer_len(rank)];
    let messages = of_peers.iter_mut().zip(layers).enumerate().filter(|(peer, _)| *peer != rank);
    let messages = messages.map(|(peer, (part, layers))| Message {
        peer,
        tag: COLLECTIVE,
        send: bytes_of(wanted(layers)),
        receive: bytes_of_mut(part),
    });
    world.exchange(&mut messages.collect::<Vec<_>>())?;
    let here = Shape { nz: count, ..shape };
    let mut all = vec![0.0; here.cells()];
    for (peer, part) in of_peers.iter().enumerate() {
        let patch = patches.of(peer);
        let part = if peer == rank { wanted(&layers[rank]) } else { part };
        for (line, values) in lines(patch, here).zip(part.chunks_exact(patch.x.rows())) {
            all[line].copy_from_slice(values);
        }
    }
    Ok(all)
}

/// Where pairs of rows of a grid are divided; patches begin with even columns in any case.
pub(crate) fn too_thin(shape: Shape, patches: &Patches) -> Error {
    let (rows, ranks) = (shape.ny, patches.rows().ranks());
    Error::Unsupported(format!(
        "multigrid for {rows} rows on {ranks} ranks, which need {} at least; use fewer ranks, or solver.method = \"cg\" with the \
         preconditioner \"line\"",
        2 * ranks - 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [[usize; 2]; 3] = [[1, 6], [2, 3], [3, 2]];

    fn is_own(patch: Patch, shape: Shape, n: usize) -> bool {
        let (i, j) = (n % shape.nx, n / shape.nx % shape.ny);
        (patch.x.first..patch.x.beyond).contains(&i) && (patch.y.first..patch.y.beyond).contains(&j)
    }

    #[test]
    fn all_columns_are_given_away() {
        for shape in [Shape::new(7, 9, 1), Shape::new(16, 6, 1), Shape::new(5, 16, 1)] {
            for parts in PARTS {
                let patches = Patches::new(shape, parts).unwrap();
                assert_eq!((patches.parts(), patches.ranks()), (parts, 6));
                let mut owners = vec![0; shape.nx * shape.ny];
                for rank in 0..6 {
                    let patch = patches.of(rank);
                    assert!(patch.x.first.is_multiple_of(2) && patch.shape(shape).cells() > 0);
                    (0..owners.len()).filter(|&n| is_own(patch, shape, n)).for_each(|n| owners[n] += 1);
                }
                assert!(owners.iter().all(|&count| count == 1), "{shape} {parts:?}");
            }
        }
        let said = |shape, parts| Patches::new(shape, parts).unwrap_err().to_string();
        assert!(said(Shape::new(7, 9, 1), [5, 1]).contains("7 columns for 5 parts in x"));
        assert!(said(Shape::new(7, 9, 1), [1, 10]).contains("9 rows for 10 ranks"));
    }

    #[test]
    fn columns_are_divided_where_rows_are_too_few() {
        let suggested = |nx, ny, ranks| Patches::suggested(Shape::new(nx, ny, 4), ranks).ok();
        assert_eq!(suggested(64, 64, 6), Some([1, 6]));
        assert_eq!(suggested(64, 5, 6), Some([2, 3]));
        assert_eq!(suggested(64, 2, 6), Some([3, 2]));
        assert_eq!(suggested(64, 1, 6), Some([6, 1]));
        assert_eq!(suggested(10, 1, 6), None);
        // No number of ranks but 1 and itself divides it.
        assert_eq!(suggested(64, 5, 7), Some([7, 1]));
        assert_eq!(suggested(12, 5, 7), None);
    }

    #[test]
    fn levels_stay_divided_in_both_directions() {
        let mut patches = Patches::new(Shape::new(64, 128, 1), [2, 4]).unwrap();
        for _ in 0..3 {
            patches = patches.halved([true; 2]).unwrap();
            assert!(patches.stay_divided());
        }
        patches = patches.halved([true; 2]).unwrap();
        assert_eq!(patches.of(7).origin(), [2, 6]);
        assert!(!patches.stay_divided());
        let rows = Patches::new(Shape::new(2, 128, 1), [1, 4]).unwrap();
        assert!(rows.halved([true; 2]).unwrap().stay_divided());
        assert!(rows.halved([true, false]).unwrap().halved([true, false]).is_some());
    }

    #[test]
    fn columns_are_gathered_in_their_places() {
        let shape = Shape::new(7, 11, 4);
        let expected: Vec<f64> = (0..shape.cells()).map(|n| n as f64).collect();
        for parts in PARTS {
            let all = crate::threads::run(6, |world| {
                let patch = Patches::new(shape, parts)?.of(world.rank());
                let own = |(n, &u): (usize, &f64)| if is_own(patch, shape, n) { u } else { -1.0 };
                let mut u: Vec<f64> = expected.iter().enumerate().map(own).collect();
                gather(&world, &mut u, shape, parts)?;
                assert!(gather(&world, &mut u[1..], shape, parts).is_err());
                Ok(u)
            });
            assert_eq!(all.unwrap()[0], expected, "{parts:?}");
        }
    }

    #[test]
    fn layers_are_collected_from_all_columns() {
        let shape = Shape::new(7, 11, 4);
        let value = |n: usize| (n % shape.nx + 10 * (n / shape.nx)) as f64;
        let cells = |layers: Range<usize>| (layers.start * 77..layers.end * 77).map(value).collect::<Vec<f64>>();
        // Of unlike numbers, and none.
        let layers = [1..4, 0..0, 0..1, 2..3, 0..0, 0..4];
        for parts in PARTS {
            let all = crate::threads::run(6, |world| {
                let patch = Patches::new(shape, parts)?.of(world.rank());
                let own: Vec<f64> = (0..shape.cells()).filter(|&n| is_own(patch, shape, n)).map(value).collect();
                let collect = |own: &[f64], layers: &[Range<usize>]| collect_layers(&world, own, shape, parts, layers);
                assert!(collect(&own[1..], &layers).is_err());
                let mut too_many = layers.clone();
                too_many[0] = 0..5;
                assert!(collect(&own, &too_many).is_err());
                collect(&own, &layers)
            });
            assert_eq!(all.unwrap(), layers.clone().map(cells), "{parts:?}");
        }
    }
}
