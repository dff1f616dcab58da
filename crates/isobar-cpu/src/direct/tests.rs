use isobar_core::direct::{AxisMatrix, Basis, Symmetry, Trig};
use isobar_core::prelude::*;
use isobar_core::problem::random;

use super::blocks::AcrossRows;
use super::tables::{Ask, Machine};
use super::transform::{Direction, Transform};
use crate::{Cpu, Shared};

/// Makes uniform cells with these couplings of the first and the last to the sides, in units of a coupling, or a periodic axis.
fn axis(n: usize, ends: Option<[f64; 2]>) -> AxisMatrix {
    let mut shift = vec![0.0; n];
    if let Some([lower, upper]) = ends {
        shift[0] += 0.3 * lower;
        shift[n - 1] += 0.3 * upper;
    }
    let couplings = (0..n).map(|i| if (i + 1 < n || ends.is_none()) && n > 1 { 0.3 } else { 0.0 }).collect();
    AxisMatrix { mass: vec![1.7; n], shift, couplings }
}

const KINDS: [(Option<[f64; 2]>, Trig); 6] = [
    (Some([0.0, 0.0]), Trig::Cosine),
    (Some([2.0, 2.0]), Trig::Sine),
    (Some([0.0, 2.0]), Trig::CosineFour),
    (Some([2.0, 0.0]), Trig::SineFour),
    (Some([1.0, 1.0]), Trig::SineOne),
    (None, Trig::Fourier),
];

/// Compares both directions with sums of entries, on two packs of lines.
fn check(cpu: &Cpu, transform: &Transform, basis: &Basis, tolerance: f64, what: &str) {
    let Machine { lanes, .. } = cpu.dispatch::<f64, _>(Ask);
    let (n, width) = (basis.len(), 2 * lanes);
    let x: Vec<f64> = (0..n * width).map(|at| random(5, at) - 0.5).collect();
    let vectors = basis.vectors();
    for direction in [Direction::Forward, Direction::Backward] {
        let (mut from, mut to) = (x.clone(), vec![f64::NAN; n * width]);
        let mut scratch = vec![f64::NAN; transform.scratch() * lanes];
        let [from, to] = [&mut from, &mut to].map(|data| Shared::of(data));
        let (starts, pitch, scratch) = ([0; 2], width, &mut scratch[..]);
        cpu.dispatch::<f64, _>(AcrossRows { transform, direction, from, to, starts, pitch, has_second: true, scratch });
        // SAFETY: nobody writes it now.
        let found = unsafe { to.row(0, n * width) };
        for lane in [0, 1, lanes, width - 1] {
            for m in 0..n {
                let entry = |other: usize| match direction {
                    Direction::Forward => vectors[m * n + other],
                    Direction::Backward => vectors[other * n + m],
                };
                let wanted: f64 = (0..n).map(|other| entry(other) * x[other * width + lane]).sum();
                let found = found[m * width + lane];
                let bound = tolerance * (n as f64).sqrt();
                assert!((found - wanted).abs() < bound, "{what} {n} {direction:?} {m} {lane}: {found} {wanted}");
            }
        }
    }
}

#[test]
fn transforms_are_products_with_their_vectors() {
    let cpu = Cpu::new(1).unwrap();
    let registers = cpu.dispatch::<f64, _>(Ask).registers;
    for (ends, trig) in KINDS {
        for n in (2..=40).chain([45, 49, 61, 64, 67, 74, 96, 105, 127, 128]) {
            let basis = Basis::new(&axis(n, ends)).unwrap();
            if n > 3 {
                assert_eq!(basis.trig(), Some(trig));
            }
            let transform = Transform::new(&basis, 1.0, registers);
            let is_fast = !matches!(transform, Transform::Products(_));
            assert!(is_fast || n > 61 || (trig == Trig::SineOne && n > 29), "{trig:?} {n}");
            check(&cpu, &transform, &basis, 1e-14, trig.name());
        }
    }
}

#[test]
fn products_use_symmetry_of_any_kind() {
    let cpu = Cpu::new(1).unwrap();
    let of = |widths: Vec<f64>, ends: [f64; 2]| {
        let n = widths.len();
        let couplings = (0..n).map(|i| if i + 1 < n { 1.0 / (widths[i] + widths[i + 1]) } else { 0.0 }).collect();
        let mut shift = vec![0.0; n];
        (shift[0], shift[n - 1]) = (ends[0], shift[n - 1] + ends[1]);
        Basis::new(&AxisMatrix { mass: widths, shift, couplings }).unwrap()
    };
    for registers in [16, 32] {
        for n in [1, 2, 3, 7, 12, 23, 30] {
            let stretched = of((0..n).map(|i| 1.0 + 0.1 * i as f64).collect(), [0.0, 1.0]);
            let mirrored = of((0..n).map(|i| 3.0 - 0.1 * i.min(n - 1 - i) as f64).collect(), [0.1; 2]);
            if n > 2 {
                assert_eq!([&stretched, &mirrored].map(Basis::symmetry), [Symmetry::None, Symmetry::Reversal], "{n}");
            }
            let periodic = Basis::new(&axis(n, None)).unwrap();
            for basis in [stretched, mirrored, periodic] {
                let products = Transform::Products(super::products::Products::new(&basis, 1.0, registers));
                // Computed vectors are even and odd up to rounding.
                check(&cpu, &products, &basis, 1e-11, "products");
            }
        }
    }
}

#[test]
fn callers_arrays_are_solved_in_place_and_kept_where_numbers_are_not_finite() {
    let cpu = Cpu::new(2).unwrap();
    let shape = Shape::new(13, 6, 9);
    let field = vec![1.0; shape.cells()];
    for sides in [[Side::Closed; 2], [Side::Fixed; 2]] {
        let cells = Coefficients::Cells { fields: vec![field.clone().into()], axes: [(0, 2.0), (0, 3.0), (0, 1.0)] };
        let stencil = Diffusion::new(shape, cells, None, [sides; 3]).unwrap();
        let layout = Layout::new(shape).unwrap();
        let solver = super::direct(&cpu, &layout, &stencil.separable().unwrap()).unwrap().unwrap();
        for (entry, is_solved) in [(0.5, true), (f64::NAN, false), (f64::INFINITY, false)] {
            let mut b = vec![1.0; shape.cells()];
            b[100] = entry;
            let mut u = vec![7.0; shape.cells()];
            let target = ArrayViewMut::c_order(&mut u, shape).unwrap();
            let source = ArrayView::c_order(&b, shape).unwrap();
            let judged = solver.lock().unwrap().solve_arrays(&source.into(), &mut target.into()).unwrap();
            assert_eq!(judged.is_some(), is_solved);
            assert_eq!(u.iter().all(|&u| u == 7.0), !is_solved);
        }
        // Numbers of other strides, or in single precision, take the general path.
        let (b, mut u) = (vec![1.0; 2 * shape.cells()], vec![0_f32; shape.cells()]);
        let apart = ArrayView::new(&b, shape, [2, 26, 156]).unwrap();
        let target = ArrayViewMut::c_order(&mut u, shape).unwrap();
        assert_eq!(solver.lock().unwrap().solve_arrays(&apart.into(), &mut target.into()).unwrap(), None);
    }
}
