//! The time of an iteration on many ranks: equation (16) of paper B, with latency added.

use isobar::Precision;
use serde::Serialize;

/// The work of a solver on one level of an iteration, a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// The factor by which columns in x and in y are fewer than on the finest level.
    pub(crate) coarsened: f64,
    /// Vectors read and written, each once a pass (n_Mem in the paper).
    pub(crate) references: f64,
    /// Halo rows exchanged with each neighbour (n_halo), in whole rows of this level.
    pub(crate) rows: f64,
    /// Messages for these, one after another.
    pub(crate) messages: f64,
}

/// An iteration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Iteration {
    /// Its name in case files.
    pub(crate) name: &'static str,
    /// Levels, finest first.
    pub(crate) levels: Vec<Level>,
    /// Sums over all ranks.
    pub(crate) sums: f64,
    /// Vectors held, right-hand side and solution included.
    pub(crate) vectors: f64,
}

impl Iteration {
    /// Returns conjugate gradients with lines: passes of 6 and 4 vectors, z exchanged, two sums.
    pub(crate) fn conjugate_gradients() -> Self {
        let level = Level { coarsened: 1.0, references: 10.0, rows: 1.0, messages: 1.0 };
        Self { name: "cg", levels: vec![level], sums: 2.0, vectors: 7.0 }
    }

    /// Returns a cycle V(1,1) with lines on five levels, with two sweeps on the last. Sweep, residual and restriction take four half
    /// rows, three if they begin with 0; prolongation, sweep and norm take a row of the coarser level and three half rows.
    pub(crate) fn multigrid() -> Self {
        let coarsened = |level: i32| 2f64.powi(level);
        let level =
            |level, references, rows, messages| Level { coarsened: coarsened(level), references, rows, messages };
        let mut levels = vec![level(0, 6.5, 4.0, 8.0)];
        levels.extend((1..4).map(|n| level(n, 5.5, 3.5, 7.0)));
        levels.push(level(4, 5.0, 1.5, 3.0));
        Self { name: "multigrid", levels, sums: 1.0, vectors: 8.0 / 3.0 }
    }

    /// Returns the vectors read and written in an iteration, in those of the finest level.
    pub(crate) fn references(&self) -> f64 {
        self.levels.iter().map(|level| level.references / level.coarsened.powi(2)).sum()
    }

    /// Returns the halo rows of an iteration, in those of the finest level.
    pub(crate) fn rows(&self) -> f64 {
        self.levels.iter().map(|level| level.rows / level.coarsened).sum()
    }

    /// Returns the messages of an iteration, one after another.
    pub(crate) fn messages(&self) -> f64 {
        self.levels.iter().map(|level| level.messages).sum()
    }

    /// Returns R of equation (16) for a subdomain with this many columns: numbers sent over numbers read and written. ρ is R times
    /// the bandwidth of memory over that of the network.
    pub(crate) fn ratio(&self, part: Part, ranks: f64) -> f64 {
        part.border(ranks) * self.rows() / (part.columns() * self.references())
    }
}

/// The division of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Division {
    /// Squares, each with four neighbours, as in paper B.
    #[default]
    Squares,
    /// Slabs of rows, isobar's default.
    Slabs,
}

/// A rank's columns of the grid, if all subdomains were put together into squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// Columns in x of a square.
    pub(crate) nx: f64,
    /// Columns in y.
    pub(crate) ny: f64,
    /// The division of the whole grid, which is √N nx by √N ny.
    pub(crate) division: Division,
}

impl Part {
    /// Returns the columns of a rank.
    pub(crate) fn columns(self) -> f64 {
        self.nx * self.ny
    }

    /// Returns the columns at a rank's border to others: of squares 2 (nx + ny), of slabs two rows of the whole grid.
    pub(crate) fn border(self, ranks: f64) -> f64 {
        match self.division {
            _ if ranks <= 1.0 => 0.0,
            Division::Squares => 2.0 * (self.nx + self.ny),
            Division::Slabs => (ranks - 1.0).min(2.0) * self.nx * ranks.sqrt(),
        }
    }

    /// Returns the rows of a slab, which must be at least one; nothing for squares.
    pub(crate) fn rows(self, ranks: f64) -> Option<f64> {
        (self.division == Division::Slabs).then(|| self.ny / ranks.sqrt())
    }
}

/// Returns the bytes of a number.
pub(crate) fn bytes_a_number(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 4.0,
        _ => 8.0,
    }
}

/// The bandwidths and the latency of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Machine {
    /// Bytes a second that a rank reads and writes in a plain copy.
    pub(crate) memory: f64,
    /// Bytes a second that a rank sends, while it receives as many.
    pub(crate) network: f64,
    /// Seconds of a small message.
    pub(crate) latency: f64,
}

/// Seconds of an iteration on N ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Prediction {
    /// Reading and writing memory.
    pub(crate) memory: f64,
    /// Halo rows by the network's bandwidth: ρ times the memory time at the bandwidth of a copy.
    pub(crate) halo: f64,
    /// Latencies of messages, one after another.
    pub(crate) messages: f64,
    /// Latencies of sums, ⌈log₂ N⌉ each.
    pub(crate) sums: f64,
}

impl Prediction {
    /// Predicts for a solver whose steps reach `share` of a copy's bandwidth, on subdomains of `nz` layers.
    pub(crate) fn new(
        iteration: &Iteration,
        part: Part,
        nz: f64,
        ranks: f64,
        machine: Machine,
        share: f64,
        precision: Precision,
    ) -> Self {
        let bytes = iteration.references() * part.columns() * nz * bytes_a_number(precision);
        let alone = ranks <= 1.0;
        // Messages to all neighbours, four of a square and two of a slab, are concurrent.
        let latency = if alone { 0.0 } else { machine.latency };
        Self {
            memory: bytes / (share * machine.memory),
            halo: iteration.ratio(part, ranks) * bytes / machine.network,
            messages: iteration.messages() * latency,
            sums: iteration.sums * ranks.log2().ceil() * latency,
        }
    }

    /// Returns the sum of all parts.
    pub(crate) fn total(&self) -> f64 {
        self.memory + self.halo + self.messages + self.sums
    }

    /// Returns the fraction of an iteration that is not communication: the efficiency of weak scaling from one rank.
    pub(crate) fn efficiency(&self) -> f64 {
        self.memory / self.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(n: f64) -> Part {
        Part { nx: n, ny: n, division: Division::Squares }
    }

    fn level(level: i32, references: f64, rows: f64) -> Level {
        Level { coarsened: 2f64.powi(level), references, rows, messages: rows }
    }

    /// Returns paper B's own counts (table 1, column Mem(C)): an exchange an iteration of conjugate gradients, four a level of
    /// multigrid, two on the coarsest, which only does two sweeps.
    fn of_paper_b() -> [Iteration; 3] {
        let [smooth, restrict_smooth, residual, prolongate, norm] = [8.0, 6.0, 3.0, 3.0, 1.0];
        let finest = level(0, 2.0 * smooth + residual + prolongate + norm, 4.0);
        let coarse = |n| level(n, restrict_smooth + smooth + residual + prolongate, 4.0);
        let coarsest = level(4, restrict_smooth + smooth, 2.0);
        let of = |name, levels| Iteration { name, levels, sums: 0.0, vectors: 0.0 };
        [
            of("cg", vec![level(0, 6.0 + 9.0, 1.0)]),
            of("multigrid", vec![finest, coarse(1), coarse(2), coarse(3), coarsest]),
            of("multigrid, fine level", vec![finest]),
        ]
    }

    #[test]
    fn the_paper_counts_its_references() {
        let [cg, multigrid, finest] = of_paper_b();
        assert_eq!((cg.references(), finest.references()), (15.0, 23.0));
        assert!((multigrid.references() - 29.6).abs() < 0.05, "{}", multigrid.references());
    }

    #[test]
    fn table_2_of_paper_b() {
        // R times 10⁴ for parts of n × n columns.
        let printed: [(f64, [f64; 3]); 4] = [
            (128.0, [20.8, 80.5, 54.3]),
            (256.0, [10.4, 40.2, 27.2]),
            (512.0, [5.2, 20.1, 13.6]),
            (768.0, [3.5, 13.4, 9.1]),
        ];
        for (n, expected) in printed {
            for (iteration, expected) in of_paper_b().iter().zip(expected) {
                let found = 1e4 * iteration.ratio(square(n), 64.0);
                assert!((found - expected).abs() <= 0.0501, "{}, {n}: {found}, printed {expected}", iteration.name);
            }
        }
    }

    #[test]
    fn the_paper_predicts_its_overheads() {
        // Section 5.3: 5 % for conjugate gradients and 20 % for multigrid on 512 × 512 × 128 with memory 100 times as fast as
        // the network.
        let machine = Machine { memory: 100e9, network: 1e9, latency: 0.0 };
        let [cg, multigrid, _] = of_paper_b();
        for (iteration, overhead) in [(cg, 0.052), (multigrid, 0.201)] {
            let of = Prediction::new(&iteration, square(512.0), 128.0, 64.0, machine, 1.0, Precision::F64);
            assert!((of.halo / of.memory - overhead).abs() < 5e-4, "{}: {of:?}", iteration.name);
        }
    }

    #[test]
    fn an_iteration_by_hand() {
        // 10 vectors of 100 × 100 × 10 numbers of 8 bytes are 8 MB: 2 ms at 40 % of 10 GB/s. A halo row of the border's 400
        // columns is 32 kB: 32 µs at 1 GB/s. One message and two sums over 2³ ranks at 5 µs: 5 and 30 µs.
        let machine = Machine { memory: 10e9, network: 1e9, latency: 5e-6 };
        let of = |part, ranks| {
            Prediction::new(&Iteration::conjugate_gradients(), part, 10.0, ranks, machine, 0.4, Precision::F64)
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        let eight = of(square(100.0), 8.0);
        near(eight.memory, 2e-3);
        near(eight.halo, 32e-6);
        near(eight.messages, 5e-6);
        near(eight.sums, 30e-6);
        near(eight.efficiency(), 2000.0 / 2067.0);
        let alone = of(square(100.0), 1.0);
        near(alone.total(), 2e-3);
        near(alone.efficiency(), 1.0);
        // Slabs of 16 ranks: the whole grid is 400 columns wide, so two rows of it are 800 columns.
        let slab = Part { nx: 100.0, ny: 100.0, division: Division::Slabs };
        near(of(slab, 16.0).halo, 64e-6);
        assert_eq!((slab.rows(16.0), slab.border(2.0)), (Some(25.0), 100.0 * 2f64.sqrt()));
    }

    #[test]
    fn cycles_of_isobar() {
        // Computed by hand: 6.5 + 5.5 (1/4 + 1/16 + 1/64) + 5/256, and 4 + 3.5 (1/2 + 1/4 + 1/8) + 1.5/16.
        let cycle = Iteration::multigrid();
        assert_eq!(cycle.references(), 6.5 + 5.5 * 21.0 / 64.0 + 5.0 / 256.0);
        assert_eq!(cycle.rows(), 4.0 + 3.5 * 7.0 / 8.0 + 1.5 / 16.0);
        assert_eq!(cycle.messages(), 8.0 + 3.0 * 7.0 + 3.0);
    }
}
