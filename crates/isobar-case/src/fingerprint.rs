//! Fingerprints of heat equations, stored in checkpoints: a run can only continue from a checkpoint of the same problem.

use std::collections::BTreeMap;

use isobar::Shape;
use isobar::internals::execute::{Execute, Host};
use isobar::problem::{Boundary, DiffusionProblem, SideFields, Spacing};
use isobar::stencil::Axis;
use isobar_io::hash::of_words as hash;

/// A 64-bit number for each part of a problem, by its key in the case file. It depends on the values alone, not on their origin, the
/// machine, the version or the number of threads. Solver options, the end time and the outputs are not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(BTreeMap<&'static str, u64>);

impl Fingerprint {
    /// Computes the fingerprint of a problem with the body source f in C order.
    pub(crate) fn new(problem: &DiffusionProblem, body: Option<&[f64]>, at_points: bool) -> Self {
        let Shape { nx, ny, nz } = problem.shape;
        let axes = [Axis::X, Axis::Y, Axis::Z];
        let along = axes.map(|axis| of_values(problem.coefficient.along(axis)));
        let of_side = |(side, fields): (&Boundary, &SideFields)| {
            let number = |field: &Option<Vec<f64>>, number: f64| match field.as_deref() {
                // Equal values count as one number.
                Some([first, rest @ ..]) if rest.iter().all(|value| value == first) => bits(*first),
                Some(field) => of_values(field),
                None => bits(number),
            };
            match *side {
                Boundary::Neumann(flux) => vec![0, number(&fields.value, flux)],
                Boundary::Dirichlet(value) => vec![1, number(&fields.value, value)],
                Boundary::Periodic => vec![2, 0],
                Boundary::Robin { coefficient, value } => {
                    vec![3, number(&fields.coefficient, coefficient), number(&fields.value, value)]
                }
            }
        };
        let sides = problem.boundary.iter().flatten().zip(problem.side_fields.iter().flatten());
        let width =
            |(spacing, n): (&Spacing, usize)| of_values(&(0..n).map(|cell| spacing.width(cell)).collect::<Vec<_>>());
        let sources = problem.sources.iter().flat_map(|source| {
            let place = [source.i, source.j, source.k[0], source.k[1]].map(|n| n as u64);
            place.into_iter().chain([bits(source.rate)])
        });
        let wells = problem.wells.iter().flat_map(|well| {
            let place = [well.i, well.j, well.k[0], well.k[1]].map(|n| n as u64);
            place.into_iter().chain([bits(well.value), bits(well.radius)])
        });
        Self(BTreeMap::from([
            ("diffusion.coefficient", hash(along)),
            ("diffusion.reaction", of_values(problem.reaction.as_deref().unwrap_or(&[0.0]))),
            ("diffusion.active", of_all(problem.active.as_deref().unwrap_or(&[true]), u64::from)),
            ("diffusion.boundary", hash(sides.flat_map(of_side))),
            ("diffusion.sources", hash(sources)),
            ("diffusion.wells", hash(wells)),
            ("grid.spacing", hash(problem.spacing.iter().zip([nx, ny, nz]).map(width))),
            ("heat.unknowns", u64::from(at_points)),
            ("problem.rhs", of_values(body.unwrap_or(&[0.0]))),
        ]))
    }

    /// Returns keys and numbers, as text.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().map(|(&key, number)| (key, format!("{number:016x}")))
    }
}

/// Returns the bits of a number; −0 counts as 0.
fn bits(value: f64) -> u64 {
    (value + 0.0).to_bits()
}

fn of_values(values: &[f64]) -> u64 {
    of_all(values, bits)
}

/// Returns the fingerprint of an array; an array of equal values has that of one value.
fn of_all<X: Copy + Sync>(all: &[X], bits: impl Fn(X) -> u64 + Sync) -> u64 {
    /// Entries hashed together; the result depends on this number.
    const PIECE: usize = 1 << 16;
    let Some(first) = all.first().map(|&first| bits(first)) else { return hash([]) };
    let mut pieces: Vec<(u64, bool)> = vec![(0, true); all.len().div_ceil(PIECE)];
    Host.for_each(&mut pieces, |n, piece| {
        let words = || all[n * PIECE..all.len().min((n + 1) * PIECE)].iter().map(|&entry| bits(entry));
        *piece = (hash(words()), words().all(|word| word == first));
    });
    if pieces.iter().all(|&(_, is_constant)| is_constant) {
        return hash([first]);
    }
    hash(pieces.into_iter().map(|(hash, _)| hash))
}

#[cfg(test)]
mod tests {
    use isobar::problem::Coefficient;

    use super::*;

    #[test]
    fn numbers_are_those_of_every_version() {
        let many: Vec<f64> = (0..200_000).map(|n| f64::from(n) * 0.5).collect();
        assert_eq!(of_values(&many), 0xf394_ada3_1307_67fd);
        assert_eq!(hash([1, 2, 3]), 0x6da0_eea9_5f45_479e);
    }

    #[test]
    fn what_defines_a_problem_is_told_apart() {
        let kappa: Vec<f64> = (1..=24).map(f64::from).collect();
        let plain = DiffusionProblem::new(Shape::new(4, 3, 2), Coefficient::Isotropic(kappa.clone()));
        let of = |change: &dyn Fn(&mut DiffusionProblem)| {
            let mut problem = plain.clone();
            change(&mut problem);
            Fingerprint::new(&problem, None, false)
        };
        let differing = |other: &Fingerprint| {
            let (ours, theirs) = (of(&|_| {}), other.clone());
            ours.parts().zip(theirs.parts()).filter(|(a, b)| a != b).map(|((key, _), _)| key).collect::<Vec<_>>()
        };
        let same: [&dyn Fn(&mut DiffusionProblem); 5] = [
            &|problem| problem.side_fields[1][0].value = Some(vec![-0.0; 8]),
            &|problem| problem.reaction = Some(vec![-0.0; 24]),
            &|problem| problem.active = Some(vec![true; 24]),
            &|problem| problem.spacing[0] = Spacing::Given(vec![0.25; 4]),
            &|problem| problem.coefficient = Coefficient::Diagonal([kappa.clone(), kappa.clone(), kappa.clone()]),
        ];
        for change in same {
            assert_eq!(differing(&of(change)), [""; 0]);
        }
        let others: [(&str, &dyn Fn(&mut DiffusionProblem)); 8] = [
            ("diffusion.boundary", &|problem| problem.side_fields[1][0].value = Some((0..8).map(f64::from).collect())),
            ("diffusion.boundary", &|problem| {
                problem.boundary[2][1] = Boundary::Robin { coefficient: 1.0, value: 0.0 };
            }),
            ("diffusion.coefficient", &|problem| problem.coefficient = Coefficient::Isotropic(vec![1.0; 24])),
            ("diffusion.reaction", &|problem| problem.reaction = Some(vec![1.0])),
            ("diffusion.active", &|problem| problem.active = Some((0..24).map(|n| n != 7).collect())),
            ("diffusion.boundary", &|problem| problem.boundary[1][0] = Boundary::Dirichlet(0.0)),
            ("grid.spacing", &|problem| problem.spacing[2] = Spacing::Uniform(1.0)),
            ("diffusion.wells", &|problem| {
                problem.wells.push(isobar::problem::Well { i: 1, j: 1, k: [0, 1], value: 1.0, radius: 0.1 });
            }),
        ];
        for (key, change) in others {
            assert_eq!(differing(&of(change)), [key]);
        }
        assert_eq!(differing(&Fingerprint::new(&plain, Some(&kappa), true)), ["heat.unknowns", "problem.rhs"]);
    }
}
