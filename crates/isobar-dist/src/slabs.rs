//! Which rank has which rows.

use isobar_core::error::{Error, Result};
use isobar_core::layout::{Shape, Slab};

/// Rows of a slab that its size may differ by from another's, at most about one in so many.
const EVENNESS: usize = 8;
/// A slab of fewer rows is not worth its exchanges.
const FEWEST_ROWS: usize = 4;

/// The rows of a grid, divided among ranks: consecutive ones each, as many as the others or a few more or less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// Where the rows of each begin, and where the last one's end.
    starts: Vec<usize>,
}

impl Slabs {
    /// For so many ranks. Slabs begin at multiples of a power of two, as high a one as leaves their sizes about equal, so
    /// that coarser grids can be divided in the same places.
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
        let mut block = 1;
        while rows / (2 * block) >= EVENNESS * ranks {
            block *= 2;
        }
        // At least the next coarser grid.
        if block == 1 && rows.div_ceil(2) >= ranks {
            block = 2;
        }
        let blocks = rows.div_ceil(block);
        Ok(Self { starts: (0..=ranks).map(|rank| (blocks * rank / ranks * block).min(rows)).collect() })
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

    /// Whether every slab is worth its exchanges.
    pub fn are_thick(&self) -> bool {
        self.starts.windows(2).all(|slab| slab[1] - slab[0] >= FEWEST_ROWS)
    }
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
                assert!(most - least <= 2.max(rows / ranks / 2), "{rows} rows, {ranks} ranks: {sizes:?}");
                if rows.div_ceil(2) >= ranks {
                    let coarse = slabs.halved().unwrap();
                    assert_eq!(coarse.of(ranks - 1).beyond, rows.div_ceil(2));
                }
            }
        }
        assert!(Slabs::new(Shape::new(3, 2, 2), 3).is_err());
    }

    #[test]
    fn powers_of_two_stay_divided() {
        let mut slabs = Slabs::new(Shape::new(128, 128, 128), 4).unwrap();
        for _ in 0..5 {
            slabs = slabs.halved().unwrap();
        }
        assert_eq!(slabs.of(3), Slab { first: 3, beyond: 4 });
        assert!(!slabs.are_thick() && slabs.halved().is_none());
    }
}
