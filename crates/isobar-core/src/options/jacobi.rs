//! `[solver.jacobi]`

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Count, PointCycle};
use crate::forms::Forms;
use crate::{Error, Result, Shape};

/// The number of cells that tiles share with their neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Chosen automatically.
    #[default]
    Auto,
    /// This many in every divided direction.
    All(usize),
    /// Given for each direction.
    Each(Vec<usize>),
}

impl Serialize for Overlap {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::All(cells) => serializer.serialize_u64(*cells as u64),
            Self::Each(cells) => cells.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Overlap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let forms = Forms::<Self, Vec<usize>> {
            word: |word| (word == "auto").then_some(Self::Auto),
            whole: |cells| Some(Self::All(cells)),
            list: Some(|cells| Ok(Self::Each(cells))),
            ..Forms::new("a whole number, 0 or more, a list of one a direction, or \"auto\"")
        };
        forms.read(deserializer)
    }
}

/// The acceleration of plain sweeps of Jacobi's method, and of cycles that equal several sweeps exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// No acceleration.
    #[default]
    None,
    /// Momentum, equal to Chebyshev's semi-iteration in the limit; the spectral radius is estimated during the iteration.
    Chebyshev,
}

/// `[solver.jacobi]`: plain sweeps of Jacobi's method, or hierarchical cycles (paper C).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JacobiOptions {
    /// Sweeps within a tile from one exchange with its neighbours to the next; 1 is the plain method. A short trial decides on
    /// automatic ones, and on overlaps, where there are several tiles.
    pub sub_iterations: Count,
    /// Cells that tiles share with their neighbours, even.
    pub overlap: Overlap,
    /// Cells of a tile in x, y and z; trailing directions of one cell may be omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tile: Option<Vec<usize>>,
    /// Whether a cycle must equal that many plain sweeps exactly: tiles then overlap by 2 (sub_iterations − 1).
    pub exact: bool,
    /// The acceleration of plain sweeps and exact cycles.
    pub acceleration: Acceleration,
    /// Whether every line of cells along x is a problem of its own with its own stopping test: the solve has converged when all
    /// lines have. It requires one layer whose lines are not coupled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub batch: bool,
    /// ω, the damping; by default 1, and 0.9 where a component of the grid is floating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relaxation: Option<f64>,
}

const TILE: &str = "solver.jacobi.tile";
const OVERLAP: &str = "solver.jacobi.overlap";
const SUB_ITERATIONS: &str = "solver.jacobi.sub_iterations";
/// The most sub-iterations; more gain nothing in any tile.
const MOST: usize = 10_000;
/// The default sub-iterations of an exact cycle.
const EXACT: usize = 4;
/// The default sub-iterations if one tile holds the whole grid.
const WHOLE: usize = 16;
/// ω with floating components: with 1, values that change sign from cell to cell would never decay there.
const FLOATING: f64 = 0.9;

impl JacobiOptions {
    /// Checks each value separately.
    pub(super) fn validate(&self) -> Result<()> {
        match self.sub_iterations.given() {
            Some(0) => return Err(Error::invalid(SUB_ITERATIONS, "0 sub-iterations; use 1 (plain sweeps) or more")),
            Some(k) => Error::unless(k <= MOST, SUB_ITERATIONS, || {
                format!("{k} sub-iterations; use {MOST} or fewer (as many as a tile is wide are usual)")
            })?,
            None => {}
        }
        let omega = self.relaxation.unwrap_or(1.0);
        Error::unless(omega > 0.0 && omega < 2.0, "solver.jacobi.relaxation", || {
            format!("{omega} is not between 0 and 2; 1 is Jacobi's method, 2/3 to 0.9 damp oscillating errors")
        })?;
        let given = match &self.overlap {
            Overlap::Auto => &[][..],
            Overlap::All(cells) => std::slice::from_ref(cells),
            Overlap::Each(cells) => cells,
        };
        if let Some(odd) = given.iter().find(|&cells| cells % 2 == 1) {
            let message = format!("{odd} is odd; two tiles halve their shared cells, so use an even number");
            return Err(Error::invalid(OVERLAP, message));
        }
        let tile = self.tile.as_deref().unwrap_or_default();
        for (key, what, list) in [(TILE, "tile", tile), (OVERLAP, "overlap", given)] {
            Error::unless(list.len() <= 3, key, || format!("{} entries; give one for each of x, y and z", list.len()))?;
            Error::unless(what != "tile" || !list.contains(&0), key, || "a tile of 0 cells; use 1 or more")?;
        }
        let has_tiles = match self.sub_iterations.given() {
            Some(k) => k > 1,
            None => self.tile.is_some(),
        };
        let is_plain = self.acceleration == Acceleration::None;
        Error::unless(is_plain || !has_tiles || self.exact, "solver.jacobi.acceleration", || {
            "momentum is that of plain sweeps, which tiles with old values around them are not; use exact = true, \
             sub_iterations = 1, or acceleration = \"none\""
        })?;
        Error::unless(is_plain || !self.batch, "solver.jacobi.batch", || {
            "momentum is that of one problem, and lines of a batch may want different ones; use acceleration = \"none\", or \
             batch = false"
        })?;
        let is_empty = self.tile.as_ref().is_some_and(Vec::is_empty);
        Error::unless(!is_empty, TILE, || "an empty list; give the cells of a tile in x, y and z")
    }

    /// Returns the cycle of these options on a grid. `suggested` is a tile that suits the device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for tiles that are larger than the grid, overlaps that are no smaller than a tile, and exact cycles
    /// where there can be none.
    pub fn cycle(
        &self,
        shape: Shape,
        periodic: [bool; 3],
        is_floating: bool,
        suggested: [usize; 3],
    ) -> Result<PointCycle> {
        let n = shape.extents();
        let relaxation = self.relaxation.unwrap_or(if is_floating { FLOATING } else { 1.0 });
        let is_accelerated = self.acceleration != Acceleration::None;
        if self.sub_iterations == Count::Given(1) || (is_accelerated && !self.exact) {
            return Ok(PointCycle::sweep(relaxation));
        }
        Error::unless(
            !(self.exact && periodic.contains(&true)),
            "solver.jacobi.exact",
            || "tiles end at periodic sides, beyond which a cycle sees old values; use sub_iterations = 1, or exact = false",
        )?;
        let wanted = self.sub_iterations.given().or(self.exact.then_some(EXACT));
        let tile = match &self.tile {
            Some(tile) => self.given_tile(tile, n)?,
            None => [0, 1, 2].map(|d| suggested[d].min(n[d]).max(1)),
        };
        // The directions that tiles may divide.
        let directions = if self.batch { 1 } else { 3 };
        let narrowest = (0..directions).filter(|&d| tile[d] < n[d]).map(|d| tile[d]).min();
        let divided = (0..directions).filter(|&d| n[d] > 1).count();
        let sub_iterations = wanted.unwrap_or_else(|| {
            // The width of a tile, or half of it in one dimension (paper C, sections 3.5 and 4.3).
            narrowest.map_or(WHOLE, |narrowest| if divided > 1 { narrowest } else { narrowest.div_ceil(2) }.max(1))
        });
        if sub_iterations == 1 {
            return Ok(PointCycle::sweep(relaxation));
        }
        let given = |d: usize| match &self.overlap {
            Overlap::All(cells) => Some(*cells),
            Overlap::Each(cells) => Some(cells.get(d).copied().unwrap_or(0)),
            Overlap::Auto => None,
        };
        let mut overlap = [0; 3];
        // Lines of a batch share no cells.
        for d in (0..3).filter(|&d| tile[d] < n[d] && !(self.batch && d > 0)) {
            let axis = ["x", "y", "z"][d];
            let needed = 2 * (sub_iterations - 1);
            overlap[d] = match given(d) {
                Some(cells) if self.exact && cells < needed => {
                    return Err(Error::invalid(
                        OVERLAP,
                        format!(
                            "{cells} cells in {axis}, where {sub_iterations} exact sub-iterations need {needed} or more"
                        ),
                    ));
                }
                Some(cells) => cells,
                None if self.exact => needed,
                // The optimum of paper C's tables 2 and 4 is near an eighth of the sub-iterations.
                None => (2 * sub_iterations.div_ceil(16)).min((tile[d] - 1) / 2 * 2),
            };
            if overlap[d] >= tile[d] {
                let (key, what) = if self.exact && given(d).is_none() {
                    (TILE, format!("{sub_iterations} exact sub-iterations share {needed} cells with each neighbour"))
                } else {
                    (OVERLAP, format!("{} shared cells in {axis}", overlap[d]))
                };
                let message =
                    format!("{what}, and tiles have {} in {axis}; make tiles larger than their overlap", tile[d]);
                return Err(Error::invalid(key, message));
            }
        }
        Ok(PointCycle { sub_iterations, tile, overlap, ..PointCycle::sweep(relaxation) })
    }

    fn given_tile(&self, tile: &[usize], n: [usize; 3]) -> Result<[usize; 3]> {
        let is_complete = (tile.len()..3).all(|d| n[d] <= 1);
        Error::unless(is_complete, TILE, || format!("{} entries; give one for each of x, y and z", tile.len()))?;
        let mut complete = [1; 3];
        for (d, &cells) in tile.iter().enumerate() {
            Error::unless(cells <= n[d], TILE, || {
                format!("{cells} cells in {}, where the grid has {n}; use {n} or fewer", ["x", "y", "z"][d], n = n[d])
            })?;
            complete[d] = cells;
        }
        Ok(complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> JacobiOptions {
        serde_json::from_str(text).unwrap()
    }

    fn cycle(text: &str, shape: Shape) -> Result<PointCycle> {
        let options = read(text);
        options.validate()?;
        options.cycle(shape, [false; 3], false, [64, 16, 16])
    }

    #[test]
    fn what_is_given_is_taken() {
        let plane = Shape::new(256, 256, 1);
        let paper = cycle(r#"{"sub_iterations": 32, "overlap": 4, "tile": [32, 32]}"#, plane).unwrap();
        let expected =
            PointCycle { sub_iterations: 32, tile: [32, 32, 1], overlap: [4, 4, 0], ..PointCycle::sweep(1.0) };
        assert_eq!(paper, expected);
        let exact = cycle(r#"{"sub_iterations": 4, "exact": true}"#, plane).unwrap();
        assert_eq!((exact.tile, exact.overlap), ([64, 16, 1], [6, 6, 0]));
        let auto = cycle("{}", plane).unwrap();
        assert_eq!((auto.sub_iterations, auto.overlap), (16, [2, 2, 0]));
        assert_eq!(cycle("{}", Shape::new(1024, 1, 1)).unwrap().sub_iterations, 32);
        let batch = cycle(r#"{"sub_iterations": 16, "overlap": [4], "tile": [32, 8]}"#, plane).unwrap();
        assert_eq!(batch.overlap, [4, 0, 0]);
        assert!(cycle(r#"{"sub_iterations": 1, "tile": [999]}"#, plane).unwrap().is_sweep());
        let damped = read("{}").cycle(plane, [false; 3], true, [8; 3]).unwrap();
        assert_eq!(damped.relaxation, 0.9);
        for text in ["{}", r#"{"overlap":[4,0],"tile":[8,8],"sub_iterations":3,"relaxation":0.5}"#, r#"{"overlap":2}"#]
        {
            let options = read(text);
            assert_eq!(read(&serde_json::to_string(&options).unwrap()), options);
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let plane = Shape::new(40, 40, 1);
        for (text, parts) in [
            (r#"{"sub_iterations": 0}"#, &["sub_iterations", "use 1"][..]),
            (r#"{"sub_iterations": 10001}"#, &["10001", "10000 or fewer"]),
            (r#"{"overlap": 3}"#, &["overlap", "3 is odd", "even"]),
            (r#"{"overlap": [2, 1]}"#, &["overlap", "1 is odd"]),
            (r#"{"overlap": [2, 2, 2, 2]}"#, &["overlap", "4 entries"]),
            (r#"{"tile": [8, 8, 8, 8]}"#, &["tile", "4 entries"]),
            (r#"{"tile": []}"#, &["tile", "empty"]),
            (r#"{"tile": [0, 4]}"#, &["tile", "0 cells"]),
            (r#"{"tile": [8]}"#, &["tile", "1 entries", "x, y and z"]),
            (r#"{"tile": [64, 8]}"#, &["tile", "64 cells in x", "the grid has 40"]),
            (r#"{"tile": [8, 8], "overlap": 8}"#, &["overlap", "8 shared cells in x", "tiles have 8"]),
            (r#"{"tile": [8, 8], "sub_iterations": 5, "exact": true}"#, &["tile", "5 exact", "share 8 cells"]),
            (r#"{"tile": [9, 9], "sub_iterations": 5, "overlap": 6, "exact": true}"#, &["overlap", "need 8 or more"]),
            (r#"{"relaxation": 2.0}"#, &["relaxation", "between 0 and 2"]),
            (r#"{"relaxation": 0.0}"#, &["relaxation"]),
            (r#"{"acceleration": "chebyshev", "sub_iterations": 4}"#, &["acceleration", "exact = true"]),
            (r#"{"acceleration": "chebyshev", "tile": [8, 8]}"#, &["acceleration", "sub_iterations = 1"]),
            (r#"{"acceleration": "chebyshev", "batch": true}"#, &["batch", "acceleration = \"none\""]),
        ] {
            let message = cycle(text, plane).unwrap_err().to_string();
            assert!(parts.iter().all(|part| message.contains(part)), "{text}: {message}");
        }
        let periodic = read(r#"{"exact": true}"#).cycle(plane, [true, false, false], false, [8; 3]);
        assert!(periodic.unwrap_err().to_string().contains("periodic"));
        assert!(cycle(r#"{"acceleration": "chebyshev"}"#, plane).unwrap().is_sweep());
        let exact = cycle(r#"{"acceleration": "chebyshev", "exact": true, "tile": [9, 9]}"#, plane).unwrap();
        assert_eq!((exact.sub_iterations, exact.overlap), (4, [6, 6, 0]));
        for wrong in
            [r#"{"acceleration": "some"}"#, r#"{"overlap": "some"}"#, r#"{"overlap": -2}"#, r#"{"tiles": [1]}"#]
        {
            assert!(serde_json::from_str::<JacobiOptions>(wrong).is_err(), "{wrong}");
        }
    }
}
