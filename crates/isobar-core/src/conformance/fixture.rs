//! Grids, stencils, vectors and comparisons.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::arrays;
pub(super) use super::arrays::{fetch, ok, vector};
use crate::grid::HorizontalField;
use crate::lock;
use crate::prelude::*;
use crate::reference::{Plain, SevenPoint, Vector};

/// Grids smaller than a row of lanes, odd, one cell wide in each direction, long and thin, and large enough for several
/// threads and several tiles.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (1, 1, 7),
    (2, 2, 3),
    (7, 5, 10),
    (5, 1, 4),
    (1, 9, 4),
    (8, 6, 10),
    (17, 3, 1),
    (16, 12, 33),
    (34, 20, 5),
    (66, 64, 9),
    (20, 52, 130),
];

/// Grids of more cells are for tiles and threads, not for every combination.
const LARGE: usize = 10_000;

/// Returns the grids for a back end. The reference has neither threads nor tiles, and large grids would show nothing new of it.
pub(super) fn shapes<B: Backend>() -> impl Iterator<Item = Shape> {
    let is_divided = TypeId::of::<B>() != TypeId::of::<Reference>();
    let all = SHAPES.into_iter().map(|(nx, ny, nz)| Shape::new(nx, ny, nz));
    all.filter(move |shape| is_divided || shape.cells() <= LARGE)
}

/// Scalars for the checks' own use.
pub(super) const SCALARS: [Scalar; 4] = [Scalar::new(0), Scalar::new(1), Scalar::new(2), Scalar::new(3)];

/// Returns smoothers, over-relaxed and not, either colour first.
pub(super) fn relaxations() -> [Relaxation; 6] {
    let make = |smoother, rho, first| Relaxation { smoother, rho, first, returns: false };
    [
        make(Smoother::LineRedBlack, 1.0, Colour::Red),
        make(Smoother::LineRedBlack, 1.0, Colour::Black),
        make(Smoother::LineRedBlack, 0.8, Colour::Red),
        make(Smoother::LineRedBlack, 0.8, Colour::Black),
        make(Smoother::LineJacobi, 2.0 / 3.0, Colour::Red),
        make(Smoother::LineJacobi, 1.0, Colour::Red),
    ]
}

/// A sweep of black, red and black columns, as on the finest grid of a symmetric cycle.
pub(super) const RETURNING: Relaxation =
    Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first: Colour::Black, returns: true };

/// A kind of stencil with samples to check.
pub(super) trait Sample: SevenPoint {
    /// Whether GPUs relax points of such a matrix, as processors do.
    const GPUS_RELAX_POINTS: bool = true;

    /// Returns named stencils of this kind on a grid, all their coefficients of order one and different, so that a wrong
    /// one shows, in single precision too.
    fn samples(shape: Shape) -> Vec<(String, Self)>;

    /// Returns more of them for solves with lines.
    fn line_samples(shape: Shape) -> Vec<(String, Self)> {
        Self::samples(shape)
    }

    /// Returns whether lines cannot amplify rounding: every column has a shift.
    fn is_tame(&self) -> bool;

    /// Returns whether a cell is active.
    fn takes_part(&self, at: [usize; 3]) -> bool;
}

impl Sample for TensorProduct {
    const GPUS_RELAX_POINTS: bool = false;

    fn samples(shape: Shape) -> Vec<(String, Self)> {
        vec![("factors of order one".into(), sample(shape))]
    }

    /// Adds the couplings of the real problem, a million times its mass.
    fn line_samples(shape: Shape) -> Vec<(String, Self)> {
        let mut all = Self::samples(shape);
        all.push(("helmholtz".into(), ok(helmholtz(shape).stencil())));
        all
    }

    fn is_tame(&self) -> bool {
        true
    }

    fn takes_part(&self, _: [usize; 3]) -> bool {
        true
    }
}

/// Makes the Helmholtz problem on a panel or a box.
pub(super) fn helmholtz(shape: Shape) -> Helmholtz {
    let Shape { nx, ny, nz } = shape;
    let geometry = if nx % 3 == 0 { Geometry::Box } else { Geometry::Panel };
    Helmholtz { grid: GridOptions { geometry, nx, ny, nz, ..GridOptions::default() }, ..Helmholtz::default() }
}

/// Makes a tensor-product stencil whose factors are all of order one and all different.
pub(super) fn sample(shape: Shape) -> TensorProduct {
    sample_of_mass(shape, 1.0)
}

/// Makes [`sample`] with a, its mass, times a factor; 0 as in Poisson's equation.
pub(super) fn sample_of_mass(shape: Shape, mass: f64) -> TensorProduct {
    let Shape { nx, ny, nz } = shape;
    let positive = |seed: u64, n: usize| 1.0 + 0.5 * random(seed, n);
    let coupling: Vec<f64> = (0..nz.saturating_sub(1)).map(|k| -positive(11, k)).collect();
    let vertical = VerticalProfile::new(
        (0..nz).map(|k| mass * positive(12, k)).collect(),
        coupling.iter().copied().chain([0.0]).collect(),
        [0.0].into_iter().chain(coupling.iter().copied()).collect(),
        (0..nz).map(|k| -positive(13, k)).collect(),
    );
    let x_faces: Vec<f64> = (0..(nx + 1) * ny).map(|n| positive(14, n)).collect();
    let y_faces: Vec<f64> = (0..nx * (ny + 1)).map(|n| positive(15, n)).collect();
    let area = (0..nx * ny).map(|n| positive(16, n)).collect();
    let horizontal = HorizontalField::from_faces(nx, ny, area, &x_faces, &y_faces);
    ok(vertical.and_then(|v| TensorProduct::new(v, horizontal?)))
}

impl Sample for Diffusion {
    /// Combines every kind of coefficients with every kind of sides, and alternates inactive cells and a shift. Large
    /// grids get a few combinations.
    fn samples(shape: Shape) -> Vec<(String, Self)> {
        let all = diffusion_samples(shape);
        if shape.cells() > LARGE { all.into_iter().step_by(5).collect() } else { all }
    }

    fn is_tame(&self) -> bool {
        self.stored_shift().is_some()
    }

    fn takes_part(&self, at: [usize; 3]) -> bool {
        self.is_active(at)
    }
}

fn diffusion_samples(shape: Shape) -> Vec<(String, Diffusion)> {
    let cells = shape.cells();
    let field = |seed: u64, holes: bool| -> Arc<[f64]> {
        let value = |n: usize| if holes && random(seed + 100, n) > 0.6 { 0.0 } else { 1.5 + random(seed, n) };
        (0..cells).map(value).collect()
    };
    let [closed, fixed] = [Side::Closed, Side::Fixed];
    // A periodic direction needs an even number of columns.
    let periodic =
        |n: usize| if n == 1 || n.is_multiple_of(2) { [Side::Periodic; 2] } else { [Side::Fixed, Side::Closed] };
    let sides = [
        [[closed; 2]; 3],
        [[fixed, closed], [closed, fixed], [fixed, fixed]],
        [periodic(shape.nx), periodic(shape.ny), [Side::Periodic; 2]],
    ];
    let mut all = Vec::new();
    for kind in 0..4 {
        for (n, sides) in sides.into_iter().enumerate() {
            let holes = (kind + n) % 2 == 1;
            let fields = |axes: [(usize, f64); 3], count: u64| Coefficients::Cells {
                fields: (0..count).map(|seed| field(seed, holes)).collect(),
                axes,
            };
            let coefficients = match kind {
                0 => fields([(0, 1.0), (0, 0.7), (0, 2.5)], 1),
                1 => fields([(0, 1.0), (0, 0.7), (1, 4.0)], 2),
                2 => fields([(0, 1.0), (1, 0.7), (2, 4.0)], 3),
                _ => {
                    let axes = crate::stencil::Axis::ALL;
                    let source = ok(Diffusion::of_field(shape, field(0, holes), [1.0, 0.7, 2.5], None, sides));
                    Coefficients::Faces(axes.map(|axis| source.cells().map(|at| source.face(axis, at)).collect()))
                }
            };
            let has_shift = (kind + n) % 3 != 0;
            let shift = has_shift.then(|| (0..cells).map(|n| 0.1 + 0.1 * random(50, n)).collect());
            // With stored faces Dirichlet sides are in the shift.
            let kept = sides.map(|sides| sides.map(|side| if kind == 3 && side == fixed { closed } else { side }));
            let what = ["one field", "two fields", "three fields", "faces"][kind];
            let name = format!("{what}, {kept:?}, shift {has_shift}, holes {holes}");
            all.push((name, ok(Diffusion::new(shape, coefficients, shift, kept))));
        }
    }
    all
}

/// Makes a floating stencil with every fifth cell inactive: the constant is in its null space.
pub(super) fn floating(shape: Shape) -> Diffusion {
    let field: Arc<[f64]> = (0..shape.cells()).map(|n| if n % 5 == 0 { 0.0 } else { 1.5 + random(1, n) }).collect();
    ok(Diffusion::of_field(shape, field, [1.0; 3], None, [[Side::Closed; 2]; 3]))
}

/// Makes a stencil whose cells are all equal, apart from an optional shift.
pub(super) fn even(shape: Shape, sides: [[Side; 2]; 3], has_shift: bool) -> Diffusion {
    let shift = has_shift.then(|| (0..shape.cells()).map(|n| random(8, n).abs()).collect());
    ok(Diffusion::of_field(shape, vec![1.7; shape.cells()], [1.0, 1.3, 0.8], shift, sides))
}

/// A vector of the specification, and one of the back end under test.
pub(super) type Twin<B, T> = (Vector<T>, <B as Backend>::Vector<T>);

/// Does a step on both sides, the specification's first: in `both!(here, there => |on, f, u| on.step(f, u))`, `on` is the object of a
/// side, and `f` and `u` are that side's of the twins with these names; `u in pair.u` is a twin that is a field.
macro_rules! both {
    (|$($v:ident $(in $of:ident.$field:ident)?),*| $step:expr) => {{
        {
            $(own!(0, $v $(, $of.$field)?);)*
            ok($step);
        }
        $(own!(1, $v $(, $of.$field)?);)*
        ok($step);
    }};
    ($here:expr, $there:expr => |$on:ident $(, $v:ident $(in $of:ident.$field:ident)?)*| $step:expr) => {{
        let mut $on = (&$here, &$there);
        both!(|$on $(, $v $(in $of.$field)?)*| $step)
    }};
}

/// Gives a twin's name to its side 0 or 1.
macro_rules! own {
    ($side:tt, $v:ident) => {
        let $v = &mut $v.$side;
    };
    ($side:tt, $v:ident, $of:ident.$field:ident) => {
        let $v = &mut $of.$field.$side;
    };
}
pub(super) use {both, own};

/// The operator under test and its specification, with all their capabilities.
pub(super) struct Pair<'b, B: Supports<S>, S: Sample, T: Real> {
    /// The back end under test.
    pub(super) backend: &'b B,
    /// The stencil of both operators.
    pub(super) stencil: S,
    /// The name of the stencil.
    pub(super) name: String,
    /// The operator under test.
    pub(super) operator: Arc<B::Operator<T>>,
    /// Its capabilities.
    pub(super) tested: Capabilities<B, T>,
    /// The solver of its lines.
    pub(super) lines: Arc<dyn LineSolver<B, T>>,
    /// The specification.
    pub(super) reference: Arc<Plain<S, T>>,
    /// Scalars of the specification, and those under test.
    pub(super) scalars: (HostScalars, B::Scalars),
}

impl<'b, B: Supports<S>, S: Sample, T: Real> Pair<'b, B, S, T> {
    /// Makes both operators.
    pub(super) fn new(backend: &'b B, name: String, stencil: S) -> Self {
        let operator = ok(backend.operator::<T>(&stencil));
        let lines = ok(backend.lines(&stencil, &operator)).unwrap_or_else(|| panic!("{name}: no lines"));
        Self {
            tested: backend.capabilities(&operator),
            lines: lines.solver,
            reference: Arc::new(ok(Plain::new(&stencil))),
            scalars: (HostScalars::default(), ok(backend.scalars())),
            operator,
            backend,
            stencil,
            name,
        }
    }

    /// Returns the relaxation of points; nothing where GPUs have none.
    pub(super) fn points(&self) -> Option<Arc<dyn PointSmoother<B, T>>> {
        let points = self.tested.points.clone();
        let may_lack = self.backend.device().kind == "cuda" && !S::GPUS_RELAX_POINTS;
        assert_eq!(points.is_none(), may_lack, "{}: relaxation of points", self.name);
        points
    }

    /// Returns the shape of the grid.
    pub(super) fn shape(&self) -> Shape {
        self.stencil.shape()
    }

    /// Makes a random vector on both back ends; 0 in inactive cells, like every vector of a solve.
    pub(super) fn vector(&self, seed: u64) -> Twin<B, T> {
        let mut v = random_vector(self.shape(), seed);
        for [i, j, k] in self.shape().places() {
            if !self.stencil.takes_part([i, j, k]) {
                v.set(i, j, k, T::ZERO);
            }
        }
        let sent = send(self.backend, &v);
        (v, sent)
    }

    /// Makes a vector for a step to overwrite: NaN, except for padding.
    pub(super) fn poison(&self) -> Twin<B, T> {
        poison(self.backend, self.shape())
    }

    /// Sets a scalar on both sides.
    pub(super) fn set(&mut self, scalar: Scalar, value: f64) {
        self.scalars.0.set(scalar, value);
        ok(self.backend.set(&mut self.scalars.1, scalar, value));
    }

    /// Makes a coefficient α of a given value, in its own scalar.
    pub(super) fn coefficient(&mut self, scalar: Scalar, value: f64) -> Ratio {
        self.set(scalar, value);
        Ratio::new(scalar, Scalar::ONE)
    }

    /// Fails unless the two vectors agree to rounding, of entries of order one.
    pub(super) fn compare(&self, twin: &Twin<B, T>, what: &str) {
        self.compare_at_scale(twin, 1.0, what);
    }

    /// Fails unless the two vectors agree to the rounding of numbers of this size.
    pub(super) fn compare_at_scale(&self, (expected, found): &Twin<B, T>, scale: f64, what: &str) {
        compare_at_scale(self.backend, found, expected, scale, &format!("{what} with {}", self.name));
    }

    /// Fails unless padding is zero: a sum over all entries would show it.
    pub(super) fn compare_padding(&mut self, v: &B::Vector<T>, what: &str) {
        let [sum, ..] = SCALARS;
        ok(self.backend.dot(v, v, sum.of(&mut self.scalars.1)));
        let expected = fetch(self.backend, v, self.shape()).iter().map(|v| v.to_f64() * v.to_f64()).sum();
        self.scalars.0.set(sum, expected);
        self.compare_scalar(sum, 0.0, what);
    }

    /// Fails unless a scalar agrees to its own rounding, or to that of a number of this size if it is smaller.
    pub(super) fn compare_scalar(&self, scalar: Scalar, scale: f64, what: &str) {
        let found = ok(self.backend.read(&self.scalars.1))[scalar.index()];
        let expected = self.scalars.0.get(scalar);
        let scale = scale.max(expected.abs()).max(1e-30);
        assert!(
            (found - expected).abs() <= tolerance::<T>() * scale,
            "{what} with {} on {}: {found} instead of {expected}",
            self.name,
            self.shape()
        );
    }
}

/// Returns whether a back end that makes levels of diffusion by its own kernels gets equal weights up to rounding, for a sample
/// of this name: with inactive cells, couplings of coarse grids are zero up to rounding, and weights depend on that rounding.
pub(super) fn has_same_weights<B: Backend>(backend: &B, name: &str) -> bool {
    backend.device().kind != "cuda" || !name.contains("holes true")
}

/// Runs a check for every stencil of a kind on every grid.
pub(super) fn for_each_pair<B: Supports<S>, S: Sample, T: Real>(
    backend: &B,
    mut check: impl FnMut(&mut Pair<'_, B, S, T>),
) {
    for shape in shapes::<B>() {
        for (name, stencil) in S::samples(shape) {
            check(&mut Pair::new(backend, name, stencil));
        }
    }
}

/// The first two levels of a stencil on both back ends.
pub(super) struct Levels<'b, B: Supports<S>, S: Sample, T: Real> {
    /// The finer level.
    pub(super) fine: Pair<'b, B, S, T>,
    /// The coarser grid.
    pub(super) coarse: Shape,
    /// The hierarchy under test.
    pub(super) tested: Hierarchy<B, S, T>,
    /// The hierarchy of the specification.
    pub(super) reference: Hierarchy<Reference, S, T>,
}

impl<B: Supports<S>, S: Sample, T: Real> Levels<'_, B, S, T> {
    /// Returns the transfers between the levels.
    pub(super) fn transfer(&self) -> (&dyn Transfer<B, T>, &dyn Transfer<Reference, T>) {
        (&*self.tested.transfers[0], &*self.reference.transfers[0])
    }

    /// Makes a random vector of the coarser level.
    pub(super) fn coarse_vector(&self, seed: u64) -> Twin<B, T> {
        random_pair(self.fine.backend, self.coarse, seed)
    }
}

/// Runs a check for the first two levels of every stencil of a kind that has two.
pub(super) fn for_each_two_levels<B, S, T>(
    backend: &B,
    samples: &[(String, S)],
    mut check: impl FnMut(&mut Levels<'_, B, S, T>),
) where
    B: Supports<S>,
    S: Sample,
    T: Real,
    Reference: Supports<S, Operator<T> = Plain<S, T>>,
{
    for (name, stencil) in samples {
        let fine = Pair::<B, S, T>::new(backend, name.clone(), stencil.clone());
        let reference =
            ok(Supports::<S>::hierarchy(&Reference, stencil, &fine.reference, Smoother::LineRedBlack, Some(2)));
        if reference.as_ref().is_some_and(|reference| reference.levels.len() < 2) {
            continue;
        }
        let tested = ok(backend.hierarchy(stencil, &fine.operator, Smoother::LineRedBlack, Some(2)));
        let (Some(tested), Some(reference)) = (tested, reference) else { panic!("{name}: no levels") };
        let coarse = reference.levels[1].layout().shape();
        check(&mut Levels { fine, coarse, tested, reference });
    }
}

/// Makes a vector of random numbers on the reference back end.
pub(super) fn random_vector<T: Real>(shape: Shape, seed: u64) -> Vector<T> {
    let mut v = ok(Vector::zeros(&ok(Layout::new(shape))));
    v.fill_with(|i, j, k| T::from_f64(random(seed, shape.number([i, j, k]))));
    v
}

/// Makes a vector of random numbers on both back ends.
pub(super) fn random_pair<B: Backend, T: Real>(backend: &B, shape: Shape, seed: u64) -> Twin<B, T> {
    let v = random_vector(shape, seed);
    let sent = send(backend, &v);
    (v, sent)
}

/// Makes vectors of NaN on both back ends.
pub(super) fn poison<B: Backend, T: Real>(backend: &B, shape: Shape) -> Twin<B, T> {
    let mut v = ok(Vector::zeros(&ok(Layout::new(shape))));
    v.fill_with(|_, _, _| T::from_f64(f64::NAN));
    let sent = send(backend, &v);
    (v, sent)
}

/// Copies a reference vector to another back end.
pub(super) fn send<B: Backend, T: Real>(backend: &B, v: &Vector<T>) -> B::Vector<T> {
    vector(backend, v.layout(), &fetch(&Reference, v, v.layout().shape()))
}

/// Returns the relative difference that rounding in a different order may cause.
pub(super) fn tolerance<T: Real>() -> f64 {
    200.0 * T::EPSILON
}

/// Returns the largest absolute value of a vector and of another number.
pub(super) fn largest<T: Real>(v: &Vector<T>, least: f64) -> f64 {
    v.entries().iter().fold(least, |largest, v| largest.max(v.to_f64().abs()))
}

/// Fails unless the two vectors agree to rounding, in the maximum norm.
pub(super) fn compare<B: Backend, T: Real>(backend: &B, found: &B::Vector<T>, expected: &Vector<T>, what: &str) {
    compare_at_scale(backend, found, expected, 1e-30, what);
}

/// Fails unless two vectors agree, where rounding is relative to `scale` if that is larger than any entry: a residual
/// rounds like its terms.
pub(super) fn compare_at_scale<B: Backend, T: Real>(
    backend: &B,
    found: &B::Vector<T>,
    expected: &Vector<T>,
    scale: f64,
    what: &str,
) {
    let shape = expected.layout().shape();
    let host = fetch(backend, found, shape);
    let scale = largest(expected, scale);
    for ([i, j, k], found) in shape.places().zip(host) {
        let (found, expected) = (found.to_f64(), expected.get(i, j, k).to_f64());
        assert!(
            (found - expected).abs() <= tolerance::<T>() * scale,
            "{what} on {shape}: {found} instead of {expected} at ({i}, {j}, {k}), largest {scale}"
        );
    }
}

/// Returns the reference's solve of a named problem, computed once for all back ends and checks of a process.
pub(super) fn reference_solve<S: Stencil>(
    name: &str,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
) -> Arc<(Outcome, Vec<f64>)>
where
    Reference: Supports<S>,
{
    type Solved = Mutex<HashMap<String, Arc<OnceLock<Arc<(Outcome, Vec<f64>)>>>>>;
    static SOLVED: OnceLock<Solved> = OnceLock::new();
    let key = format!("{name} {options:?}");
    let solved = SOLVED.get_or_init(Mutex::default);
    let cell = Arc::clone(lock(solved).entry(key).or_default());
    Arc::clone(cell.get_or_init(|| Arc::new(arrays::solve(&Reference, stencil, options, rhs))))
}
