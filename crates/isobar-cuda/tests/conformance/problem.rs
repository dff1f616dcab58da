//! Diffusion problems whose coefficients are on the GPU, compared with those on the host.

use std::marker::PhantomData;

use cudarc::driver::result;
use isobar_core::conformance::arrays::noise;
use isobar_core::layout::Axis;
use isobar_core::prelude::*;
use isobar_core::problem::{Phases, Source, Well};
use isobar_core::real::Real;
use isobar_cuda::Cuda;
use isobar_cuda::problem::{Derivatives, DeviceProblem, Form};

use crate::common::OnCard;

/// Adds the checks of this module.
pub(crate) fn add_to(all: &mut OnCard) {
    all.add("derivatives_on_the_card", derivatives_on_the_card);
    all.add("matrices_and_right_hand_sides_on_the_card", matrices_and_right_hand_sides_on_the_card);
    all.add("solvers_of_problems_on_the_card", solvers_of_problems_on_the_card);
    all.add("problems_of_phases_on_the_card", problems_of_phases_on_the_card);
    all.add("problems_that_need_the_host", problems_that_need_the_host);
}

/// An array on the GPU, in any order and precision.
pub(crate) struct OnGpu<S> {
    pub(crate) array: DeviceArray,
    precision: PhantomData<S>,
}

impl<S: Real> OnGpu<S> {
    /// Copies values in C order to an array with these strides.
    pub(crate) fn new(cuda: &Cuda, shape: Shape, strides: [usize; 3], values: &[f64]) -> Self {
        cuda.synchronize().unwrap();
        // SAFETY: the back end has made its context current on this thread; the allocation lives until `drop`.
        let array = unsafe {
            let pointer = result::malloc_sync(elements(shape, strides) * size_of::<S>()).unwrap();
            DeviceArray::new::<S>(pointer, shape, strides, cuda.ordinal())
        };
        let new = Self { array, precision: PhantomData };
        new.fill(values);
        new
    }

    /// Copies other values in C order to it, which nothing may be using.
    pub(crate) fn fill(&self, values: &[f64]) {
        let (shape @ Shape { nx, ny, .. }, strides) = (self.array.shape(), self.array.strides());
        let mut placed = vec![S::ZERO; elements(shape, strides)];
        for (n, &value) in values.iter().enumerate() {
            placed[n % nx * strides[0] + n / nx % ny * strides[1] + n / (nx * ny) * strides[2]] = S::from_f64(value);
        }
        // SAFETY: the array has these elements.
        unsafe { result::memcpy_htod_sync(self.array.pointer(), &placed).unwrap() };
        // Such a copy may still be pending, and other streams do not wait for it.
        result::ctx::synchronize().unwrap();
    }

    fn c_order(cuda: &Cuda, shape: Shape, values: &[f64]) -> Self {
        Self::new(cuda, shape, [1, shape.nx, shape.nx * shape.ny], values)
    }

    /// Makes an array to write.
    fn empty(cuda: &Cuda, shape: Shape) -> Self {
        Self::c_order(cuda, shape, &vec![f64::NAN; shape.cells()])
    }

    /// Returns its values in C order.
    pub(crate) fn read(&self) -> Vec<f64> {
        read::<S>(&self.array)
    }
}

/// Returns the number of elements from the first to the last of an array.
fn elements(shape: Shape, strides: [usize; 3]) -> usize {
    1 + shape.extents().iter().zip(strides).map(|(n, stride)| (n - 1) * stride).sum::<usize>()
}

/// Returns the values of an array in C order; the calls that write it have waited for the GPU.
fn read<S: Real>(array: &DeviceArray) -> Vec<f64> {
    let (shape @ Shape { nx, ny, .. }, strides) = (array.shape(), array.strides());
    let mut values = vec![S::ZERO; elements(shape, strides)];
    // SAFETY: the array has these elements.
    unsafe { result::memcpy_dtoh_sync(&mut values, array.pointer()).unwrap() };
    let view = ArrayView::new(&values, shape, strides).unwrap();
    (0..shape.cells()).map(|n| view.get(n % nx, n / nx % ny, n / (nx * ny)).to_f64()).collect()
}

impl<S> Drop for OnGpu<S> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once, and nothing uses it any more.
        unsafe { result::free_sync(self.array.pointer()).unwrap() };
    }
}

fn field(shape: Shape, seed: u64) -> Vec<f64> {
    (0..shape.cells()).map(|n| (1.5 * random(seed, n)).exp()).collect()
}

fn widths(n: usize) -> Spacing {
    Spacing::Given((0..n).map(|m| 1.0 + 0.3 * (m % 3) as f64).collect())
}

/// Returns problems with every kind of side, width and number of κ; some cells are closed.
fn problems() -> Vec<DiffusionProblem> {
    let shape @ Shape { nx, ny, nz } = Shape::new(37, 22, 11);
    let mut holes = field(shape, 1);
    holes.iter_mut().step_by(7).for_each(|kappa| *kappa = 0.0);
    let mut sides = DiffusionProblem::new(shape, Coefficient::Isotropic(holes));
    sides.boundary[0] = [Boundary::Dirichlet(2.0), Boundary::Neumann(0.7)];
    sides.boundary[1] = [Boundary::Periodic; 2];
    let mut layered =
        DiffusionProblem::new(shape, Coefficient::Layered { horizontal: field(shape, 2), vertical: field(shape, 3) });
    layered.spacing[2] = widths(nz);
    layered.boundary[2] = [Boundary::Dirichlet(-1.0), Boundary::Dirichlet(3.0)];
    let fields = [4, 5, 6].map(|seed| {
        let mut field = field(shape, seed);
        field.iter_mut().skip(seed as usize).step_by(11).for_each(|kappa| *kappa = 0.0);
        field
    });
    let mut films = DiffusionProblem::new(shape, Coefficient::Diagonal(fields));
    films.spacing = [widths(nx), widths(ny), widths(nz)];
    films.boundary[0][1] = Boundary::Robin { coefficient: 3.0, value: 2.0 };
    films.boundary[1] = [Boundary::Dirichlet(0.0), Boundary::Robin { coefficient: 0.0, value: 1.0 }];
    films.boundary[2][0] = Boundary::Robin { coefficient: 0.5, value: -1.0 };
    films.side_fields[0][1].coefficient = Some((0..ny * nz).map(|face| 0.1 + (face % 13) as f64).collect());
    films.side_fields[1][0].value = Some((0..nx * nz).map(|face| (face % 9) as f64 - 4.0).collect());
    let plane = Shape::new(50, 1, 1);
    let mut line = DiffusionProblem::new(plane, Coefficient::Isotropic(field(plane, 7)));
    line.boundary[0] = [Boundary::Periodic; 2];
    line.boundary[1] = [Boundary::Periodic; 2];
    let tall = Shape::new(1, 3, 400);
    let mut column = DiffusionProblem::new(tall, Coefficient::Isotropic(field(tall, 8)));
    column.boundary[2] = [Boundary::Dirichlet(1.0), Boundary::Robin { coefficient: 2.0, value: 3.0 }];
    layered.sources = vec![Source { i: 1, j: 2, k: [0, 9], rate: 2.0 }, Source { i: 1, j: 2, k: [3, 4], rate: -0.7 }];
    films.wells = vec![
        Well { i: 2, j: 1, k: [0, 10], value: 1.5, radius: 0.02 },
        Well { i: 7, j: 5, k: [1, 3], value: -2.0, radius: 0.1 },
    ];
    vec![sides, layered, films, line, column]
}

fn kappa_of(problem: &DiffusionProblem) -> Vec<&[f64]> {
    let numbers = problem.coefficient.numbers();
    let first = |field| Axis::ALL.into_iter().find(|&axis| numbers[axis as usize] == field);
    (0..3).filter_map(|field| Some(problem.coefficient.along(first(field)?))).collect()
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
    assert_eq!(found.len(), expected.len());
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance * largest, "{what}, {n}: {found} instead of {expected}");
    }
}

fn derivatives_agree<S: Real>(cuda: &Cuda, problem: &DiffusionProblem, tolerance: f64) {
    let shape @ Shape { nx, ny, nz } = problem.shape;
    // Numbers that either precision has.
    let rounded = |values: Vec<f64>| -> Vec<f64> { values.into_iter().map(|v| S::from_f64(v).to_f64()).collect() };
    let mut problem = problem.clone();
    let fields: Vec<Vec<f64>> = kappa_of(&problem).into_iter().map(|kappa| rounded(kappa.to_vec())).collect();
    problem.coefficient = match fields.as_slice() {
        [all] => Coefficient::Isotropic(all.clone()),
        [horizontal, vertical] => Coefficient::Layered { horizontal: horizontal.clone(), vertical: vertical.clone() },
        _ => Coefficient::Diagonal([0, 1, 2].map(|n| fields[n].clone())),
    };
    let [u, adjoint] = [21, 22].map(|seed| rounded(noise(shape.cells(), seed)));
    // Columns contiguous, and layers apart from each other.
    let columns = [ny * nz, nz, 1];
    let apart = [1, nx + 3, (nx + 3) * (ny + 1)];
    let kappa: Vec<_> = fields.iter().map(|field| OnGpu::<S>::new(cuda, shape, apart, field)).collect();
    let pair = [OnGpu::<S>::new(cuda, shape, columns, &u), OnGpu::<S>::c_order(cuda, shape, &adjoint)];
    let arrays: Vec<_> = kappa.iter().map(|kappa| kappa.array).collect();
    let of_pair = [&pair[0].array, &pair[1].array];
    let form = Form::new(cuda, problem.clone()).unwrap();
    for moves_rhs in [true, false] {
        let found: Vec<_> = kappa.iter().map(|_| OnGpu::<S>::empty(cuda, shape)).collect();
        let by_kappa: Vec<_> = found.iter().map(|found| found.array).collect();
        let by_reaction = OnGpu::<S>::new(cuda, shape, columns, &noise(shape.cells(), 1));
        let by_body = OnGpu::<S>::empty(cuda, shape);
        let wanted = Derivatives { kappa: &by_kappa, reaction: Some(by_reaction.array), body: Some(by_body.array) };
        form.gradient(&arrays, of_pair, moves_rhs, wanted).unwrap();
        let expected = problem.gradient(&u, &adjoint, moves_rhs).unwrap();
        for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_close(&found.read(), expected, tolerance, &format!("{shape}, κ {n}"));
        }
        let volumes = problem.volumes();
        let by = |factor: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..shape.cells()).map(|n| factor(n) * volumes[n] * adjoint[n]).collect()
        };
        assert_close(&by_reaction.read(), &by(&|n| -u[n]), tolerance, "c");
        assert_close(&by_body.read(), &by(&|_| 1.0), tolerance, "f");
        for axis in Axis::ALL {
            let mut extents = [nx, ny, nz];
            extents[axis as usize] = 1;
            let faces = Shape::new(extents[0], extents[1], extents[2]);
            for is_upper in [false, true] {
                let found = [0, 1].map(|_| OnGpu::<S>::empty(cuda, faces));
                let wanted = [&found[0].array, &found[1].array];
                form.side_gradient(&arrays, of_pair, (axis, is_upper), moves_rhs, wanted).unwrap();
                let expected = problem.side_gradient(&u, &adjoint, axis, is_upper, moves_rhs).unwrap();
                assert_close(&found[0].read(), &expected.value, tolerance, &format!("{shape}, {axis:?} {is_upper}"));
                let what = format!("{shape}, coefficients of {axis:?} {is_upper}");
                assert_close(&found[1].read(), &expected.coefficient, tolerance, &what);
            }
        }
    }
}

/// Derivatives by κ, c, f and sides are those of the host, in either precision and any order.
fn derivatives_on_the_card(cuda: &Cuda) {
    for problem in problems() {
        derivatives_agree::<f64>(cuda, &problem, 1e-13);
        derivatives_agree::<f32>(cuda, &problem, 3e-7);
    }
}

/// Returns a problem on the host, with a reaction for every second one, and on the GPU.
fn in_both_places(cuda: &Cuda, n: usize, mut host: DiffusionProblem) -> (DiffusionProblem, DeviceProblem) {
    host.reaction = n.is_multiple_of(2).then(|| field(host.shape, 31));
    let put = |values: &[f64]| OnGpu::<f64>::c_order(cuda, host.shape, values);
    let kappa: Vec<_> = kappa_of(&host).into_iter().map(put).collect();
    let reaction = host.reaction.as_deref().map(put);
    let reaction = reaction.as_ref().map(|reaction| &reaction.array);
    let arrays: Vec<_> = kappa.iter().map(|kappa| kappa.array).collect();
    // The problem has copies.
    let made = DeviceProblem::new(cuda, host.clone(), &arrays, reaction).unwrap();
    (host, made)
}

/// Returns the same problem with another κ, on the host and on the GPU.
fn with_another(cuda: &Cuda, host: &DiffusionProblem, problem: &DeviceProblem) -> (DiffusionProblem, DeviceProblem) {
    let shape = host.shape;
    let coefficient = match host.coefficient {
        Coefficient::Isotropic(_) => Coefficient::Isotropic(field(shape, 41)),
        Coefficient::Layered { .. } => {
            Coefficient::Layered { horizontal: field(shape, 41), vertical: field(shape, 42) }
        }
        _ => Coefficient::Diagonal([41, 42, 43].map(|seed| field(shape, seed))),
    };
    let other = DiffusionProblem { coefficient, ..host.clone() };
    let kappa: Vec<_> = kappa_of(&other).into_iter().map(|kappa| OnGpu::<f64>::c_order(cuda, shape, kappa)).collect();
    let arrays: Vec<_> = kappa.iter().map(|kappa| kappa.array).collect();
    let made = problem.with_coefficients(&arrays, None).unwrap();
    (other, made)
}

fn same_matrix_and_right_hand_side(cuda: &Cuda, host: &DiffusionProblem, problem: &DeviceProblem) {
    let shape = host.shape;
    let (f, x) = (OnGpu::<f64>::c_order(cuda, shape, &noise(shape.cells(), 32)), noise(shape.cells(), 33));
    for body in [Some(&f), None] {
        let b = OnGpu::<f64>::empty(cuda, shape);
        problem.write_rhs(body.map(|body| &body.array), &b.array).unwrap();
        let given = body.map_or_else(|| vec![0.0; shape.cells()], OnGpu::read);
        let expected = host.rhs_from(given, Weighting::Volume).unwrap();
        assert_close(&b.read(), &expected, 1e-13, &format!("{shape}, b"));
    }
    let (matrix, expected) = (problem.stencil().unwrap(), host.stencil().unwrap());
    let on_host = matrix.on_host(|array| Ok(read::<f64>(array))).unwrap();
    assert_close(&on_host.times(&x), &expected.times(&x), 1e-13, &format!("{shape}, the matrix"));
    for (found, expected) in matrix.spreads().iter().zip(expected.spreads()) {
        let are_close = |a: f64, b: f64| (a - b).abs() <= 1e-14 * b;
        let both = [(found.least, expected.least), (found.positive, expected.positive), (found.most, expected.most)];
        assert!(both.into_iter().all(|(found, expected)| are_close(found, expected)), "{shape}: {found:?}");
    }
}

/// Matrices and right-hand sides are those of the host, also with other coefficients.
fn matrices_and_right_hand_sides_on_the_card(cuda: &Cuda) {
    for (n, host) in problems().into_iter().enumerate() {
        let (host, first) = in_both_places(cuda, n, host);
        assert!(first.on_host().unwrap() == plain(&host), "{}", host.shape);
        same_matrix_and_right_hand_side(cuda, &host, &first);
        let (other, second) = with_another(cuda, &host, &first);
        same_matrix_and_right_hand_side(cuda, &other, &second);
    }
}

/// Solvers are made and updated without a copy on the host.
fn solvers_of_problems_on_the_card(cuda: &Cuda) {
    for (n, host) in problems().into_iter().enumerate() {
        let (host, first) = in_both_places(cuda, n, host);
        let (shape, x) = (host.shape, noise(host.shape.cells(), 33));
        let options =
            SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Jacobi, ..SolverOptions::default() };
        let matrix = first.stencil().unwrap();
        let mut system = System::new(cuda, &matrix, &options).unwrap();
        let check = |system: &mut dyn Solve<Diffusion>, host: &DiffusionProblem| {
            let mut product = vec![f64::NAN; shape.cells()];
            let (from, to) =
                (ArrayView::c_order(&x, shape).unwrap(), ArrayViewMut::c_order(&mut product, shape).unwrap());
            system.apply(from.into(), to.into()).unwrap();
            assert_close(&product, &host.stencil().unwrap().times(&x), 1e-12, &format!("{shape}, A x"));
        };
        check(&mut system, &host);
        let (other, second) = with_another(cuda, &host, &first);
        system.update(&second.stencil().unwrap()).unwrap();
        check(&mut system, &other);
        // A matrix keeps its coefficients alive.
        drop((first, second));
        system.update(&matrix).unwrap();
        check(&mut system, &host);
    }
}

/// κ of phases is that of every cell, whether single precision has it or not, and right-hand sides follow from it.
fn problems_of_phases_on_the_card(cuda: &Cuda) {
    // The last image is sent by several threads.
    let shapes = [[37, 22, 11], [1, 3, 400], [50, 1, 1], [303, 256, 221]];
    let shapes = shapes.map(|[nx, ny, nz]| Shape::new(nx, ny, nz));
    for (shape, last) in shapes.into_iter().flat_map(|shape| [0.75, 0.1].map(|last| (shape, last))) {
        let numbers = (0..shape.cells()).map(|n| (1.5 + 1.5 * random(51, n)) as u8).collect();
        let phases = Phases::new(shape, numbers, vec![0.0, 2.0, last]).unwrap();
        let mut host = DiffusionProblem::new(shape, Coefficient::Isotropic(phases.coefficients()));
        host.spacing = [0.5, 1.0, 2.0].map(Spacing::Uniform);
        let closed = DeviceProblem::of_phases(cuda, host.clone(), &phases).unwrap();
        assert!(closed.on_host().unwrap() == host, "{shape}, {last}");
        for axis in Axis::ALL.into_iter().take(if shape.nx > 300 { 1 } else { 3 }) {
            host.boundary = [[Boundary::Neumann(0.0); 2]; 3];
            host.boundary[axis as usize] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
            let between = closed.with_sides(host.boundary).unwrap();
            let [double, single] = [false, true].map(|is_single| between.new_rhs(is_single).unwrap());
            cuda.synchronize().unwrap();
            let expected = host.rhs_from(vec![0.0; shape.cells()], Weighting::Volume).unwrap();
            assert_close(&read::<f64>(&double.array()), &expected, 1e-13, &format!("{shape}, {axis:?}, b"));
            assert_close(&read::<f32>(&single.array()), &expected, 1e-7, &format!("{shape}, {axis:?}, b in single"));
        }
    }
}

/// Returns the problem as it comes back from a GPU.
fn plain(problem: &DiffusionProblem) -> DiffusionProblem {
    let fields: Vec<Vec<f64>> = kappa_of(problem).into_iter().map(<[f64]>::to_vec).collect();
    let coefficient = match <[Vec<f64>; 3]>::try_from(fields.clone()) {
        Ok(all) => Coefficient::Diagonal(all),
        Err(_) if fields.len() == 1 => Coefficient::Isotropic(fields[0].clone()),
        Err(_) => Coefficient::Layered { horizontal: fields[0].clone(), vertical: fields[1].clone() },
    };
    DiffusionProblem { coefficient, ..problem.clone() }
}

/// Masks, arrays of another shape, arrays of another GPU, and points that do not fit are reported.
fn problems_that_need_the_host(cuda: &Cuda) {
    let shape = Shape::new(6, 5, 4);
    let problem = DiffusionProblem::new(shape, Coefficient::Isotropic(Vec::new()));
    let mut masked = problem.clone();
    masked.active = Some(vec![true; shape.cells()]);
    assert!(matches!(Form::new(cuda, masked), Err(Error::Unsupported(_))));
    let mut outside = problem.clone();
    outside.sources = vec![Source { i: 1, j: 5, k: [0, 1], rate: 1.0 }];
    assert!(matches!(Form::new(cuda, outside), Err(Error::Invalid { .. })));
    let mut short = problem.clone();
    short.spacing[0] = Spacing::Given(vec![1.0; 5]);
    assert!(Form::new(cuda, short).is_err());
    let form = Form::new(cuda, problem.clone()).unwrap();
    let kappa = OnGpu::<f64>::c_order(cuda, shape, &field(shape, 1));
    let long = Shape::new(6, 5, 5);
    let longer = OnGpu::<f64>::c_order(cuda, long, &field(long, 1));
    let none = Derivatives::default();
    let of = |kappa: &[DeviceArray], u: &DeviceArray| form.gradient(kappa, [u, u], true, none);
    assert!(matches!(of(&[kappa.array], &longer.array), Err(Error::Shape { .. })));
    assert!(matches!(of(&[longer.array], &kappa.array), Err(Error::Shape { .. })));
    assert!(matches!(of(&[], &kappa.array), Err(Error::Invalid { .. })));
    // SAFETY: refused before it is touched.
    let elsewhere = unsafe { DeviceArray::c_order::<f64>(kappa.array.pointer(), shape, cuda.ordinal() + 1) };
    assert!(matches!(of(&[kappa.array], &elsewhere), Err(Error::Unsupported(_))));
    of(&[kappa.array], &kappa.array).unwrap();
    let mut wrong = field(shape, 1);
    wrong[7 + 6 * 5 * 2] = -1.0;
    let wrong = OnGpu::<f64>::c_order(cuda, shape, &wrong);
    let made = DeviceProblem::new(cuda, problem.clone(), &[wrong.array], None).unwrap();
    match made.stencil() {
        Err(Error::Invalid { message, .. }) => assert!(message.contains("(1, 1, 2)"), "{message}"),
        other => panic!("{other:?}"),
    }
    // The source's cells are closed, and the well is wider than its cell.
    let mut closed = field(shape, 1);
    [2, 3].into_iter().for_each(|k| closed[1 + 6 * (1 + 5 * k)] = 0.0);
    let kappa = OnGpu::<f32>::new(cuda, shape, [2, 14, 80], &closed);
    let mut points = problem.clone();
    points.sources = vec![Source { i: 1, j: 1, k: [2, 3], rate: 1.0 }];
    let mut wide = problem.clone();
    wide.wells = vec![Well { i: 2, j: 1, k: [0, 0], value: 1.0, radius: 0.1 }];
    for (problem, words) in [(points, "inactive cells only"), (wide, "only reaches")] {
        match DeviceProblem::new(cuda, problem, &[kappa.array], None).unwrap().stencil() {
            Err(Error::Invalid { message, .. }) => assert!(message.contains(words), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(DeviceProblem::new(cuda, problem, &[longer.array], None), Err(Error::Shape { .. })));
}
