//! This module divides the rows of a grid among ranks.

use isobar_core::prelude::{Error, Result, Shape, Shares, Slab};

/// The largest ratio of the largest slab's rows to those of an even division.
const UNEVENNESS: f64 = 1.2;
/// A slab of fewer rows is not worth its exchanges.
const FEWEST_ROWS: usize = 4;

/// The slabs of consecutive rows that the ranks have, of about equal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// The first row of each rank, and the end of the last one's.
    starts: Vec<usize>,
}

impl Slabs {
    /// Divides the rows of a grid among ranks. Slabs begin at multiples of a power of two, so that coarser grids can be
    /// divided in the same places; of these powers it takes the one for which the largest slab has the least work in a cycle
    /// of multigrid.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no row, or if there are more ranks than rows.
    pub fn new(shape: Shape, ranks: usize) -> Result<Self> {
        let rows = shape.ny;
        Error::unless(rows > 0, "grid.ny", || "0, but at least 1 is needed")?;
        Error::unless(ranks <= rows, "grid.ny", || {
            format!("{rows} rows for {ranks} ranks, each of which takes at least one; use at most {rows} ranks")
        })?;
        Ok(Self::along(rows, ranks))
    }

    fn along(rows: usize, ranks: usize) -> Self {
        let in_blocks = |block: usize| {
            let blocks = rows.div_ceil(block);
            Self { starts: (0..=ranks).map(|rank| (blocks * rank / ranks * block).min(rows)).collect() }
        };
        let powers = (1..usize::BITS).take_while(|power| rows.div_ceil(1 << power) >= ranks);
        // An uneven division has no advantage for methods without coarser grids.
        let is_even = |power: &u32| {
            let even = rows as f64 / ranks as f64;
            *power == 1 || in_blocks(1 << power).largest() as f64 <= UNEVENNESS * even + 1.0
        };
        let best = powers
            .filter(is_even)
            .map(|power| (in_blocks(1 << power).work(), power))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        in_blocks(best.map_or(1, |(_, power)| 1 << power))
    }

    /// Returns the work of the largest slab in a cycle of multigrid, relative to all work on the finest grid: its share of the
    /// divided levels, and all of the others.
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

    /// Rows of the smallest.
    pub fn smallest(&self) -> usize {
        self.starts.windows(2).map(|slab| slab[1] - slab[0]).min().unwrap_or(0)
    }

    /// Returns their number and sizes.
    pub fn shares(&self) -> Shares {
        Shares { slabs: self.ranks(), rows: [self.smallest(), self.largest()] }
    }

    /// Returns the first row of each rank, and the end of the last one's.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the rows of a rank.
    pub fn of(&self, rank: usize) -> Slab {
        Slab { first: self.starts[rank], beyond: self.starts[rank + 1] }
    }

    /// Returns the division of a grid that is half as fine; nothing if a pair of rows is divided.
    pub fn halved(&self) -> Option<Self> {
        let last = self.ranks();
        let is_even = self.starts[..last].iter().all(|start| start.is_multiple_of(2));
        is_even.then(|| Self { starts: self.starts.iter().map(|start| start.div_ceil(2)).collect() })
    }

    /// Returns whether a coarse level of these slabs is divided: every slab is worth its communication, and the next coarser
    /// level could be divided too.
    pub fn stay_divided(&self) -> bool {
        self.halved().is_some() && self.starts.windows(2).all(|slab| slab[1] - slab[0] >= FEWEST_ROWS)
    }
}

/// Makes the error where pairs of rows of a grid are divided.
pub(crate) fn too_thin(rows: usize, ranks: usize) -> Error {
    Error::Unsupported(format!(
        "multigrid for {rows} rows on {ranks} ranks, which need {} at least; use fewer ranks, or solver.method = \"cg\" with the \
         preconditioner \"line\"",
        2 * ranks - 1
    ))
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
