//! Several stages over the planes of a grid in one pass over memory, on several threads.
//!
//! Stage s at plane j may read the results of stage s − 1 at planes j − 1, j and j + 1, and may overwrite that stage's input
//! there. Within a thread's chunk of planes the stages follow each other one plane apart, so that the planes between them stay
//! in cache:
//!
//! ```text
//! plane   0  1  2  3  4  5 | 6  7  8  9 10 11
//! stage 0 a  a  a  a  a  a | a  a  a  a  a  a        a: first, each chunk on its own
//! stage 1 a  a  a  a  a  b | b  a  a  a  a  a        b: then, around each boundary
//! stage 2 a  a  a  a  b  b | b  b  a  a  a  a
//! ```
//!
//! Each stage sees the same values for any number of chunks: results do not depend on it. If y is periodic, the last plane
//! precedes the first: another boundary. On a subdomain each end is a boundary too: there each stage waits for the neighbour's
//! planes that it reads, and during the first of these exchanges the wavefront runs inside.

use isobar_core::backend::Meanwhile;
use isobar_core::error::Result;

use crate::cpu::Cpu;

/// Planes are distributed in pairs, as restriction needs them.
const PLANES_TOGETHER: usize = 2;

/// A function that runs a stage on a plane; not generic, so that its callers are compiled once, and each stage in one place.
pub(crate) type Stage<'a> = &'a (dyn Fn(usize, usize, usize) + Sync);

/// The distribution of planes among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    planes: usize,
    count: usize,
    periodic: bool,
    stages: usize,
    /// Whether there are neighbours' planes before the first and after the last.
    open: [bool; 2],
    /// Whether the first stage reads neighbours' planes.
    from_start: bool,
}

impl Chunks {
    /// Makes at most `wanted` chunks of `planes` planes, none too short for `stages` stages.
    pub(crate) fn new(planes: usize, wanted: usize, stages: usize) -> Self {
        let shortest = (2 * stages).next_multiple_of(PLANES_TOGETHER);
        let count = wanted.min(planes / shortest).max(1);
        Self { planes, count, periodic: false, stages, open: [false; 2], from_start: false }
    }

    /// Makes plane 0 the neighbour of the last one.
    pub(crate) fn periodic(self) -> Self {
        Self { periodic: true, ..self }
    }

    /// Declares neighbours' planes before the first and after the last, or at one end; `from_start` tells whether the first
    /// stage reads them, or only the second and later ones.
    pub(crate) fn open(self, open: [bool; 2], from_start: bool) -> Self {
        Self { open, from_start, ..self }
    }

    /// Returns the first plane of chunk `n`; `n == count` gives the end.
    fn start(self, n: usize) -> usize {
        if n == self.count {
            self.planes
        } else {
            let pairs = self.planes.div_ceil(PLANES_TOGETHER);
            (pairs * n / self.count) * PLANES_TOGETHER
        }
    }

    /// Returns the chunk of a plane, and its place there: 0 for the first, 1 for the last, 2 and 3 alternating for those
    /// between. In a two-stage pass, no two planes that wait for their second stage share a place.
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

    /// Returns how many planes at an open end stage `s` delays until the neighbour's data has arrived. The last stage may
    /// restrict, and then reads two planes further at the second of a pair.
    fn left_at_end(self, s: usize) -> usize {
        match self.from_start {
            true if s + 1 == self.stages => (s + 1).next_multiple_of(PLANES_TOGETHER),
            true => s + 1,
            false => s.max(1),
        }
    }

    /// Returns the planes of stage `s` that chunk `n` may run at once, first and one past the last.
    fn at_once(self, n: usize, s: usize) -> (usize, usize) {
        let (start, end) = (self.start(n), self.start(n + 1));
        let left = |is_boundary: bool, is_open: bool| match is_boundary || self.periodic {
            true => s,
            false if is_open => self.left_at_end(s),
            false => 0,
        };
        (start + left(n > 0, self.open[0]), end - left(n + 1 < self.count, self.open[1]))
    }
}

/// Runs stages on a subdomain: `exchange(s, inside)` is called once for every stage s that reads the neighbours' planes, when
/// stage s − 1 is complete at the ends, and exchanges its results there. The wavefront inside, which does not depend on the
/// first exchange, may run during it, and runs after it if it did not.
pub(crate) fn run_part(
    cpu: &Cpu,
    chunks: Chunks,
    stage: Stage<'_>,
    exchange: &mut dyn FnMut(usize, Meanwhile<'_>) -> Result<()>,
) -> Result<()> {
    let Chunks { planes, stages, open: [below, above], .. } = chunks;
    let is_short = (below || above) && planes < 2 * chunks.left_at_end(stages - 1);
    let mut is_done = is_short;
    let mut inside = || {
        if !std::mem::replace(&mut is_done, true) {
            run(cpu, chunks, stage);
        }
    };
    for s in 0..stages {
        if s > 0 || chunks.from_start {
            exchange(s, &mut inside)?;
            inside();
        }
        let left = if is_short { planes } else { chunks.left_at_end(s) };
        let ends = if below || is_short { 0..left } else { 0..0 };
        for plane in ends.chain(if above && !is_short { planes - left..planes } else { 0..0 }) {
            stage(s, plane, 0);
        }
    }
    inside();
    Ok(())
}

/// Runs `stage(s, plane, chunk)` for s = 0 … stages − 1 on all planes.
///
/// `chunk` selects a thread's scratch space: calls with the same `chunk` never overlap.
pub(crate) fn run(cpu: &Cpu, chunks: Chunks, stage: Stage<'_>) {
    let stages = chunks.stages;
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
        // Too few periodic planes for their boundary.
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

    /// Checks that every stage runs once on every plane, after the stage before it on that plane and its neighbours.
    #[test]
    fn order_is_kept() {
        let cpu = Cpu::new(3).unwrap();
        for (planes, periodic) in [1, 2, 3, 4, 7, 8, 10, 24, 25, 64].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            for stages in 1..=5 {
                let chunks = Chunks { periodic, ..Chunks::new(planes, 3, stages) };
                let done = Mutex::new(vec![0; planes]);
                run(&cpu, chunks, &|s, plane, _| {
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

    /// Checks that on a subdomain, stages at its ends wait for the exchange before them, and every stage runs once on every
    /// plane, after the previous stage on that plane and its neighbours. The wavefront inside runs during the first exchange,
    /// uses none of its data, and does not change what is sent, or else runs after it.
    #[test]
    fn ends_of_a_part_wait_for_their_neighbours() {
        #[derive(Clone)]
        struct Done {
            planes: Vec<usize>,
            exchanged: usize,
            is_under_way: bool,
        }
        let cpu = Cpu::new(3).unwrap();
        let parts = [1, 2, 3, 4, 7, 8, 10, 24, 25, 64].into_iter().flat_map(|n| (1..=5).map(move |s| (n, s)));
        let opens = [[true, false], [false, true], [true, true], [false, false]];
        let cases = opens.into_iter().flat_map(|open| [false, true].map(|from_start| (open, from_start)));
        for ((planes, stages), (open, from_start)) in parts.flat_map(|part| cases.clone().map(move |case| (part, case)))
        {
            for does_meanwhile in [false, true] {
                let chunks = Chunks::new(planes, 3, stages).open(open, from_start);
                let is_at_end = |plane: usize| (open[0] && plane == 0) || (open[1] && plane + 1 == planes);
                let done = Mutex::new(Done { planes: vec![0; planes], exchanged: 0, is_under_way: false });
                let stage = |s: usize, plane: usize, _: usize| {
                    let mut done = done.lock().unwrap();
                    let reads_others = s > 0 || from_start;
                    assert_eq!(done.planes[plane], s, "plane {plane}");
                    let around = plane.saturating_sub(1)..(plane + 2).min(planes);
                    for neighbour in around {
                        let ahead = done.planes[neighbour];
                        assert!(ahead >= s && (neighbour == plane || ahead <= s + 1), "stage {s} on {plane}: {ahead}");
                    }
                    // Restriction reads the plane before the pair too.
                    let restricts = s + 1 == stages && [planes, s, plane + 1].iter().all(|n| n % 2 == 0) && plane > 2;
                    assert!(!restricts || done.planes[plane - 2] >= s, "stage {s} on {plane}");
                    assert!(!is_at_end(plane) || !done.is_under_way, "stage {s} on {plane} while it is sent");
                    let exchanges = if reads_others { s + usize::from(from_start) } else { 0 };
                    assert!(!is_at_end(plane) || done.exchanged == exchanges, "stage {s} on {plane}");
                    done.planes[plane] += 1;
                };
                let first = usize::from(!from_start);
                let (mut seen, mut most_inside) = (first, 0);
                run_part(&cpu, chunks, &stage, &mut |s, inside| {
                    let before = {
                        let mut done = done.lock().unwrap();
                        for plane in (0..planes).filter(|&plane| is_at_end(plane)) {
                            assert_eq!(done.planes[plane], s, "plane {plane} is sent before stage {s}");
                        }
                        done.is_under_way = true;
                        done.planes.iter().sum::<usize>()
                    };
                    assert_eq!(s, seen);
                    seen += 1;
                    if does_meanwhile {
                        inside();
                    }
                    let mut done = done.lock().unwrap();
                    most_inside = most_inside.max(done.planes.iter().sum::<usize>() - before);
                    (done.exchanged, done.is_under_way) = (seen - first, false);
                    Ok(())
                })
                .unwrap();
                assert_eq!((done.into_inner().unwrap().planes, seen), (vec![stages; planes], stages.max(first)));
                // All but `left` planes.
                let left = 2 * stages * (stages + 1);
                let has_exchange = stages > first;
                assert!(!does_meanwhile || !has_exchange || most_inside + left >= planes * stages, "{planes} planes");
            }
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
