//! Several stages over the planes of a grid in one pass over memory, on several threads.
//!
//! Stage s at plane j may read what stage s − 1 wrote at planes j − 1, j and j + 1, and may overwrite
//! what that stage read there. Within a thread's chunk of planes the stages follow each other one
//! plane apart, so that the planes between them stay in cache:
//!
//! ```text
//! plane   0  1  2  3  4  5 | 6  7  8  9 10 11
//! stage 0 a  a  a  a  a  a | a  a  a  a  a  a        a: first, each chunk on its own
//! stage 1 a  a  a  a  a  b | b  a  a  a  a  a        b: then, around each boundary
//! stage 2 a  a  a  a  b  b | b  b  a  a  a  a
//! ```
//!
//! Whatever the number of chunks, each stage sees the same values: results do not depend on it. Planes may form a
//! ring, the last one before the first: another boundary. Where they are part of a larger grid, so is either end: there
//! each stage waits until what it needs of the neighbour's planes has come.

use isobar_core::error::Result;

use crate::cpu::Cpu;

/// Planes are handed out in pairs, as restriction needs them.
const PLANES_TOGETHER: usize = 2;

/// How planes are shared among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    planes: usize,
    count: usize,
    periodic: bool,
    /// Whether there are neighbours' planes before the first and after the last.
    open: [bool; 2],
}

impl Chunks {
    /// At most `wanted` chunks of `planes` planes, none too short for `stages` stages.
    pub(crate) fn new(planes: usize, wanted: usize, stages: usize) -> Self {
        let shortest = (2 * stages).next_multiple_of(PLANES_TOGETHER);
        Self { planes, count: wanted.min(planes / shortest).max(1), periodic: false, open: [false; 2] }
    }

    /// The same with plane 0 beside the last one.
    pub(crate) fn periodic(self) -> Self {
        Self { periodic: true, ..self }
    }

    /// The same with neighbours' planes before the first and after the last, or one of them.
    pub(crate) fn open(self, open: [bool; 2]) -> Self {
        Self { open, ..self }
    }

    /// First plane of chunk `n`; `n == count` gives the end.
    fn start(self, n: usize) -> usize {
        if n == self.count {
            self.planes
        } else {
            let pairs = self.planes.div_ceil(PLANES_TOGETHER);
            (pairs * n / self.count) * PLANES_TOGETHER
        }
    }

    /// The chunk of a plane, and its place there: 0 for the first, 1 for the last, 2 and 3 in turn for
    /// those between. While a two-stage pass runs, no two planes that wait for their second stage share
    /// a place.
    pub(crate) fn locate(self, plane: usize) -> (usize, usize) {
        let chunk = (0..self.count).rev().find(|&n| self.start(n) <= plane).unwrap_or(0);
        let place = if plane == self.start(chunk) {
            0
        } else if plane + 1 == self.start(chunk + 1) {
            1
        } else {
            2 + plane % 2
        };
        (chunk, place)
    }

    /// The planes of stage `s` that chunk `n` may run at once, first and one past the last.
    fn at_once(self, n: usize, s: usize) -> (usize, usize) {
        let (start, end) = (self.start(n), self.start(n + 1));
        let [open_below, open_above] = self.open;
        let waits_below = n > 0 || self.periodic || open_below;
        let waits_above = n + 1 < self.count || self.periodic || open_above;
        (if waits_below { start + s } else { start }, if waits_above { end - s } else { end })
    }
}

/// Runs `stage(s, plane, chunk)` for s = 0 … stages − 1 on all planes.
///
/// `chunk` tells which thread's scratch space to use: calls with the same `chunk` never overlap.
pub(crate) fn run(cpu: &Cpu, chunks: Chunks, stages: usize, stage: impl Fn(usize, usize, usize) + Sync) {
    run_boundaries(cpu, chunks, stages, &stage);
}

/// The same for part of a larger grid: `exchange(s)` is called once for every s > 0, when stage s − 1 is complete and stage
/// s needs what it has left in the neighbours' planes.
///
/// # Errors
/// Those of `exchange`.
pub(crate) fn run_part(
    cpu: &Cpu,
    chunks: Chunks,
    stages: usize,
    stage: impl Fn(usize, usize, usize) + Sync,
    mut exchange: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let (planes, [below, above]) = (chunks.planes, chunks.open);
    let is_short = (below || above) && planes < 2 * stages;
    if !is_short {
        run_boundaries(cpu, chunks, stages, &stage);
    }
    for s in 0..stages {
        if s > 0 {
            exchange(s)?;
        }
        let beyond = if is_short { planes } else { s };
        let ends = if below || is_short { 0..beyond } else { 0..0 };
        for plane in ends.chain(if above && !is_short { planes - s..planes } else { 0..0 }) {
            stage(s, plane, 0);
        }
    }
    Ok(())
}

/// The same, each stage on all planes before the next one.
///
/// # Errors
/// Those of `exchange`.
pub(crate) fn run_apart(
    cpu: &Cpu,
    chunks: Chunks,
    stages: usize,
    stage: impl Fn(usize, usize, usize) + Sync,
    mut exchange: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    for s in 0..stages {
        if s > 0 {
            exchange(s)?;
        }
        cpu.for_each(chunks.count, |n| (chunks.start(n)..chunks.start(n + 1)).for_each(|plane| stage(s, plane, n)));
    }
    Ok(())
}

fn run_boundaries(cpu: &Cpu, chunks: Chunks, stages: usize, stage: &(impl Fn(usize, usize, usize) + Sync)) {
    let first = |n: usize| {
        let (start, end) = (chunks.start(n), chunks.start(n + 1));
        for front in start..end + stages - 1 {
            for s in 0..stages {
                let (lowest, beyond) = chunks.at_once(n, s);
                if let Some(plane) = front.checked_sub(s).filter(|p| (lowest..beyond).contains(p)) {
                    stage(s, plane, n);
                }
            }
        }
    };
    if chunks.periodic && chunks.planes < 2 * stages {
        // A ring too short for its boundary.
        for s in 0..stages {
            (0..chunks.planes).for_each(|plane| stage(s, plane, 0));
        }
        return;
    }
    cpu.for_each(chunks.count, first);
    let boundaries = chunks.count - usize::from(!chunks.periodic);
    if stages > 1 && boundaries > 0 {
        cpu.for_each(boundaries, |n| {
            let boundary = chunks.start(n + 1);
            for s in 1..stages {
                for plane in boundary - s..boundary + s {
                    stage(s, plane % chunks.planes, n);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Every stage runs once on every plane, after the stage before it on that plane and its
    /// neighbours.
    #[test]
    fn order_is_kept() {
        let cpu = Cpu::new(3).unwrap();
        for (planes, periodic) in [1, 2, 3, 4, 7, 8, 10, 24, 25, 64].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            for stages in 1..=5 {
                let chunks = Chunks { periodic, ..Chunks::new(planes, 3, stages) };
                let done = Mutex::new(vec![0; planes]);
                run(&cpu, chunks, stages, |s, plane, _| {
                    let mut done = done.lock().unwrap();
                    assert_eq!(done[plane], s, "plane {plane}");
                    let ring =
                        if periodic { [(plane + planes - 1) % planes, (plane + 1) % planes] } else { [plane; 2] };
                    for neighbour in (plane.saturating_sub(1)..(plane + 2).min(planes)).chain(ring) {
                        let ahead = done[neighbour];
                        assert!(ahead >= s && ahead <= s + 2, "stage {s} on {plane}: {neighbour} at {ahead}");
                        // The next stage must not have run before this one read its input.
                        assert!(neighbour == plane || ahead <= s + 1, "stage {s} on {plane}: {neighbour} at {ahead}");
                    }
                    done[plane] += 1;
                });
                assert_eq!(done.into_inner().unwrap(), vec![stages; planes]);
            }
        }
    }

    /// In part of a larger grid stages at its ends wait for the exchange before them, and every stage runs once on every
    /// plane, after the stage before it on that plane and its neighbours.
    #[test]
    fn ends_of_a_part_wait_for_their_neighbours() {
        let cpu = Cpu::new(3).unwrap();
        for (planes, stages) in
            [1, 2, 3, 4, 7, 8, 10, 24, 25, 64].into_iter().flat_map(|n| (1..=5).map(move |s| (n, s)))
        {
            for open in [[true, false], [false, true], [true, true], [false, false]] {
                let chunks = Chunks::new(planes, 3, stages).open(open);
                let done = Mutex::new((vec![0; planes], 0));
                let stage = |s: usize, plane: usize, _: usize| {
                    let mut done = done.lock().unwrap();
                    let (planes_done, exchanged) = &mut *done;
                    assert_eq!(planes_done[plane], s, "plane {plane}");
                    let around = plane.saturating_sub(1)..(plane + 2).min(planes);
                    for (neighbour, &ahead) in planes_done.iter().enumerate().filter(|(n, _)| around.contains(n)) {
                        assert!(ahead >= s && (neighbour == plane || ahead <= s + 1), "stage {s} on {plane}: {ahead}");
                    }
                    let is_at_end = (open[0] && plane == 0) || (open[1] && plane + 1 == planes);
                    assert!(!is_at_end || *exchanged == s, "stage {s} on {plane} after {exchanged} exchanges");
                    planes_done[plane] += 1;
                };
                let mut seen = 0;
                run_part(&cpu, chunks, stages, stage, |s| {
                    let mut done = done.lock().unwrap();
                    for (plane, is_sent) in [(0, open[0]), (planes - 1, open[1])] {
                        assert!(!is_sent || done.0[plane] == s, "plane {plane} is sent before stage {s}");
                    }
                    seen += 1;
                    assert_eq!(seen, s);
                    done.1 = s;
                    Ok(())
                })
                .unwrap();
                assert_eq!((done.into_inner().unwrap().0, seen), (vec![stages; planes], stages - 1));
            }
        }
    }

    #[test]
    fn stages_apart_are_on_all_planes_one_after_the_other() {
        let cpu = Cpu::new(3).unwrap();
        for (planes, stages) in [1, 2, 7, 24, 64].into_iter().flat_map(|n| (1..=5).map(move |s| (n, s))) {
            let done = Mutex::new(vec![0; planes]);
            let stage = |s: usize, plane: usize, _: usize| {
                let mut done = done.lock().unwrap();
                assert_eq!(done[plane], s);
                done[plane] += 1;
            };
            run_apart(&cpu, Chunks::new(planes, 3, stages), stages, stage, |s| {
                assert_eq!(*done.lock().unwrap(), vec![s; planes]);
                Ok(())
            })
            .unwrap();
            assert_eq!(done.into_inner().unwrap(), vec![stages; planes]);
        }
    }

    #[test]
    fn chunks_start_on_even_planes_and_cover_all() {
        for planes in 1..70 {
            for wanted in 1..9 {
                let chunks = Chunks::new(planes, wanted, 3);
                assert_eq!((chunks.start(0), chunks.start(chunks.count)), (0, planes));
                for n in 0..chunks.count {
                    assert!(chunks.start(n) < chunks.start(n + 1) && chunks.start(n).is_multiple_of(2));
                    assert!(chunks.count == 1 || chunks.start(n + 1) - chunks.start(n) >= 5);
                }
            }
        }
    }
}
