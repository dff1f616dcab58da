//! Conductances on the GPU, compared with those on the host.

use isobar_core::conformance::arrays::noise;
use isobar_core::layout::Axis;
use isobar_core::prelude::*;
use isobar_core::problem::FaceProblem;
use isobar_cuda::Cuda;
use isobar_cuda::problem::DeviceFaces;

use crate::common::OnCard;
use crate::problem::OnGpu;

/// Adds the checks of this module.
pub(crate) fn add_to(all: &mut OnCard) {
    all.add("conductances_on_the_card", conductances_on_the_card);
    all.add("conductances_that_need_the_host", conductances_that_need_the_host);
}

/// The arrays of a problem on the host.
#[derive(Clone)]
struct Given {
    shape: Shape,
    is_periodic: [bool; 3],
    faces: [Vec<f64>; 3],
    shift: Option<Vec<f64>>,
    active: Option<Vec<bool>>,
}

/// Arrays on the GPU that the caller owns.
struct There {
    faces: [Option<OnGpu<f64>>; 3],
    shift: Option<OnGpu<f32>>,
    active: Option<OnGpu<f32>>,
}

impl Given {
    fn new([nx, ny, nz]: [usize; 3], rings: u8, has_shift: bool, has_mask: bool, seed: u64) -> Self {
        let (shape, is_periodic) = (Shape::new(nx, ny, nz), [0, 1, 2].map(|d| rings >> d & 1 == 1));
        let faces = Axis::ALL.map(|axis| {
            let d = axis as u64;
            let count = shape.faces_between(axis, is_periodic[axis as usize]).cells();
            noise(count, seed + d).into_iter().map(|value| (4.0 * value).exp()).collect()
        });
        let single = |value: f64| f64::from(value.abs() as f32);
        let shift = has_shift.then(|| noise(shape.cells(), seed + 3).into_iter().map(single).collect());
        let mask = || noise(shape.cells(), seed + 4).into_iter().map(|value| value < 0.7).collect();
        Self { shape, is_periodic, faces, shift, active: has_mask.then(mask) }
    }

    fn on_host(&self) -> FaceProblem {
        FaceProblem::new(self.shape, self.faces.clone(), self.is_periodic, self.shift.clone(), self.active.as_deref())
            .unwrap()
    }

    /// Copies the arrays to the GPU, those of faces with gaps between rows.
    fn there(&self, cuda: &Cuda) -> There {
        let faces = Axis::ALL.map(|axis| {
            let d = axis as usize;
            let shape = self.shape.faces_between(axis, self.is_periodic[d]);
            let strides = [1, shape.nx + 2, (shape.nx + 2) * shape.ny];
            (shape.cells() > 0).then(|| OnGpu::new(cuda, shape, strides, &self.faces[d]))
        });
        let cells =
            |values: &[f64]| OnGpu::new(cuda, self.shape, [1, self.shape.nx, self.shape.nx * self.shape.ny], values);
        let mask = |mask: &Vec<bool>| mask.iter().map(|&is_active| f64::from(u8::from(is_active))).collect::<Vec<_>>();
        There {
            faces,
            shift: self.shift.as_deref().map(cells),
            active: self.active.as_ref().map(|given| cells(&mask(given))),
        }
    }

    fn made(&self, cuda: &Cuda) -> Option<DeviceFaces> {
        let There { faces, shift, active } = self.there(cuda);
        let faces = faces.each_ref().map(|array| array.as_ref().map(|array| array.array));
        let array = |given: &Option<OnGpu<f32>>| given.as_ref().map(|given| given.array);
        let (shift, active) = (array(&shift), array(&active));
        // The arrays are freed when it is made.
        DeviceFaces::new(cuda, self.shape, &faces, self.is_periodic, shift.as_ref(), active.as_ref()).unwrap()
    }
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    let most = expected.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let error = found.iter().zip(expected).fold(0.0_f64, |error, (a, b)| error.max((a - b).abs()));
    assert!(error <= tolerance * most, "{what}: {error} of {most}");
}

/// Matrices, right-hand sides and solutions are those of the host, also after updates.
fn conductances_on_the_card(cuda: &Cuda) {
    let shapes = [[24, 20, 16], [17, 13, 5], [9, 7, 1], [64, 1, 1], [1, 12, 10], [5, 3, 40], [1, 1, 9], [33, 20, 2]];
    for (n, shape) in shapes.into_iter().enumerate() {
        for rings in 0..8 {
            let variant = n + rings as usize;
            let seed = 100 * variant as u64;
            let given = |seed| Given::new(shape, rings, !variant.is_multiple_of(3), variant % 4 == 1, seed);
            let (first, second) = (given(seed), given(seed + 10));
            let (host, Some(made)) = (first.on_host(), first.made(cuda)) else { continue };
            let (cells, name) = (first.shape.cells(), format!("{}, periodic {rings:b}", first.shape));
            let x = noise(cells, 1);
            let read = |array: &DeviceArray| cuda.read_array(array);
            let matrix = made.stencil().unwrap();
            assert_eq!(matrix.on_host(read).unwrap().times(&x), host.stencil().times(&x), "{name}");
            assert_eq!(made.on_host().unwrap().stencil().times(&x), host.stencil().times(&x), "{name}");

            let f = OnGpu::<f64>::new(
                cuda,
                first.shape,
                [1, first.shape.nx, first.shape.nx * first.shape.ny],
                &noise(cells, 2),
            );
            let b = OnGpu::<f64>::new(
                cuda,
                first.shape,
                [1, first.shape.nx, first.shape.nx * first.shape.ny],
                &vec![f64::NAN; cells],
            );
            made.write_rhs(Some(&f.array), &b.array).unwrap();
            assert_eq!(b.read(), host.rhs_from_in(&(0..first.shape.ny), f.read()).unwrap(), "{name}");

            let options = SolverOptions { tolerance: 1e-11, ..SolverOptions::default() };
            let mut found = System::new(cuda, &matrix, &options).unwrap();
            drop(made);
            let solve = |system: &mut dyn Solve<Diffusion>, b: &[f64]| {
                let mut u = vec![f64::NAN; cells];
                let (from, to) =
                    (ArrayView::c_order(b, first.shape).unwrap(), ArrayViewMut::c_order(&mut u, first.shape).unwrap());
                let outcome = system.solve(from.into(), to.into(), Guess::Zero, &mut ignore).unwrap();
                (u, outcome)
            };
            let mut expected = System::new(cuda, host.stencil(), &options).unwrap();
            for given in [&first, &second] {
                let host = given.on_host();
                // Made of a product, so that singular systems have a solution.
                let exact: Vec<f64> = noise(cells, 3);
                let b = host.stencil().times(&exact);
                if std::ptr::eq(given, &second) {
                    let Some(made) = second.made(cuda) else { continue };
                    found.update(&made.stencil().unwrap()).unwrap();
                    expected.update(host.stencil()).unwrap();
                }
                let ((u, outcome), (wanted, host_outcome)) = (solve(&mut found, &b), solve(&mut expected, &b));
                assert!(outcome.converged() && host_outcome.converged(), "{name}: {outcome:?}");
                assert_close(&u, &wanted, 1e-7, &name);
                assert_close(&host.stencil().times(&u), &b, 1e-9, &name);
            }
        }
    }
}

/// Numbers for which the host has a message, or another rule, are not taken.
fn conductances_that_need_the_host(cuda: &Cuda) {
    let given = || Given::new([6, 5, 4], 0, true, false, 7);
    assert!(given().made(cuda).is_some());
    for value in [-1.0, f64::NAN, f64::INFINITY] {
        let mut wrong = given();
        wrong.faces[1][3] = value;
        assert!(wrong.made(cuda).is_none(), "{value}");
        let mut wrong = given();
        wrong.shift.as_mut().unwrap()[100] = value;
        assert!(wrong.made(cuda).is_none(), "a shift of {value}");
    }
    let mut closed = given();
    closed.faces.iter_mut().chain(&mut closed.shift).for_each(|values| values.fill(0.0));
    assert!(closed.made(cuda).is_none());
    // An active cell that has neither.
    let mut isolated = Given { shift: None, active: Some(vec![true; 120]), ..given() };
    assert!(isolated.made(cuda).is_some());
    isolated.active = Some((0..120).map(|n| n % 2 == n / 6 % 2).collect());
    assert!(isolated.made(cuda).is_none());
}
