//! Grids, vectors and comparison.

use crate::backend::{Backend, TensorProductBackend};
use crate::grid::{Geometry, GridOptions, HorizontalField, VerticalProfile};
use crate::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use crate::problem::{Helmholtz, random};
use crate::real::Real;
use crate::reference::{PlainTensorProduct, Reference, Vector};
use crate::stencil::TensorProduct;

/// Grids: smaller than a row of lanes, odd, one cell wide in each direction, long and thin, and large
/// enough for several threads and several tiles.
pub const SHAPES: [(usize, usize, usize); 12] = [
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

/// Those that can be halved.
pub fn halvable() -> impl Iterator<Item = Shape> {
    shapes().filter(|shape| shape.halved().is_some())
}

/// All.
pub fn shapes() -> impl Iterator<Item = Shape> {
    SHAPES.into_iter().map(|(nx, ny, nz)| Shape::new(nx, ny, nz))
}

/// The Helmholtz problem on a panel.
pub fn problem(shape: Shape) -> Helmholtz {
    let Shape { nx, ny, nz } = shape;
    let geometry = if nx % 3 == 0 { Geometry::Box } else { Geometry::Panel };
    Helmholtz { grid: GridOptions { geometry, nx, ny, nz, ..GridOptions::default() }, ..Helmholtz::default() }
}

/// A stencil whose factors are all of order one and all different, so that a wrong one shows, in
/// single precision too.
pub fn stencil(shape: Shape) -> TensorProduct {
    let Shape { nx, ny, nz } = shape;
    let positive = |seed: u64, n: usize| 1.0 + 0.5 * random(seed, n);
    let coupling: Vec<f64> = (0..nz.saturating_sub(1)).map(|k| -positive(11, k)).collect();
    let vertical = VerticalProfile::new(
        (0..nz).map(|k| positive(12, k)).collect(),
        coupling.iter().copied().chain([0.0]).collect(),
        [0.0].into_iter().chain(coupling.iter().copied()).collect(),
        (0..nz).map(|k| -positive(13, k)).collect(),
    );
    let x_faces: Vec<f64> = (0..(nx + 1) * ny).map(|n| positive(14, n)).collect();
    let y_faces: Vec<f64> = (0..nx * (ny + 1)).map(|n| positive(15, n)).collect();
    let area = (0..nx * ny).map(|n| positive(16, n)).collect();
    let horizontal = HorizontalField::from_faces(nx, ny, area, &x_faces, &y_faces);
    match vertical.and_then(|v| TensorProduct::new(v, horizontal?)) {
        Ok(stencil) => stencil,
        Err(error) => panic!("{error}"),
    }
}

/// A vector of random numbers on the reference back end.
pub fn random_vector<T: Real>(shape: Shape, seed: u64) -> Vector<T> {
    let layout = Layout::new(shape).unwrap_or_else(|error| panic!("{error}"));
    let mut v = Vector::zeros(&layout).unwrap_or_else(|error| panic!("{error}"));
    v.fill_with(|i, j, k| T::from_f64(random(seed, i + shape.nx * (j + shape.ny * k))));
    v
}

/// Two operators of the same stencil, and whatever both sides need.
pub struct Pair<'b, B: TensorProductBackend, T: Real> {
    /// The back end under test.
    pub backend: &'b B,
    /// The operator under test.
    pub tested: B::TensorProduct<T>,
    /// The specification.
    pub reference: PlainTensorProduct<T>,
    /// Scalars under test.
    pub scalars: B::Scalars,
    /// Scalars of the specification.
    pub reference_scalars: <Reference as Backend>::Scalars,
}

impl<'b, B: TensorProductBackend, T: Real> Pair<'b, B, T> {
    /// Both operators.
    pub fn new(backend: &'b B, stencil: &TensorProduct) -> Self {
        let make = || {
            Ok::<_, crate::Error>(Self {
                backend,
                tested: backend.tensor_product(stencil)?,
                reference: PlainTensorProduct::new(stencil)?,
                scalars: backend.scalars()?,
                reference_scalars: Reference.scalars()?,
            })
        };
        make().unwrap_or_else(|error| panic!("{error}"))
    }

    /// A reference vector's copy on the back end under test.
    pub fn send(&self, v: &Vector<T>) -> B::Vector<T> {
        send(self.backend, v)
    }

    /// Fails unless the two vectors agree to rounding.
    pub fn compare(&self, found: &B::Vector<T>, expected: &Vector<T>, what: &str) {
        compare(self.backend, found, expected, what);
    }

    /// Fails unless the scalar in a slot agrees to rounding.
    pub fn compare_scalar(&self, slot: crate::backend::Slot, what: &str) {
        let found = self.backend.read(&self.scalars).unwrap_or_else(|error| panic!("{error}"))[slot.index()];
        let expected = self.reference_scalars.0[slot.index()];
        let scale = expected.abs().max(1e-30);
        assert!((found - expected).abs() <= tolerance::<T>() * scale, "{what}: {found} instead of {expected}");
    }
}

/// A reference vector's copy on another back end.
pub fn send<B: Backend, T: Real>(backend: &B, v: &Vector<T>) -> B::Vector<T> {
    let shape = v.layout().shape();
    let mut host = vec![T::ZERO; shape.cells()];
    let send = |host: &mut [T]| {
        Reference.download(v, &mut ArrayViewMut::c_order(host, shape)?)?;
        let mut out = backend.zeros(v.layout())?;
        backend.upload(ArrayView::c_order(host, shape)?, &mut out)?;
        Ok::<_, crate::Error>(out)
    };
    send(&mut host).unwrap_or_else(|error| panic!("{error}"))
}

/// Relative differences that rounding in a different order may leave.
pub fn tolerance<T: Real>() -> f64 {
    200.0 * T::EPSILON
}

/// Fails unless the two vectors agree to rounding, in the maximum norm.
pub fn compare<B: Backend, T: Real>(backend: &B, found: &B::Vector<T>, expected: &Vector<T>, what: &str) {
    compare_at_scale(backend, found, expected, 1e-30, what);
}

/// [`compare`], where rounding is relative to `scale` if that is larger than any entry: a residual
/// rounds like the terms it is the difference of.
pub fn compare_at_scale<B: Backend, T: Real>(
    backend: &B,
    found: &B::Vector<T>,
    expected: &Vector<T>,
    scale: f64,
    what: &str,
) {
    let shape = expected.layout().shape();
    let mut host = vec![T::ZERO; shape.cells()];
    ArrayViewMut::c_order(&mut host, shape)
        .and_then(|mut view| backend.download(found, &mut view))
        .unwrap_or_else(|error| panic!("{error}"));
    let scale = expected.entries().iter().fold(scale, |s: f64, v| s.max(v.to_f64().abs()));
    for k in 0..shape.nz {
        for j in 0..shape.ny {
            for i in 0..shape.nx {
                let (found, expected) =
                    (host[i + shape.nx * (j + shape.ny * k)].to_f64(), expected.get(i, j, k).to_f64());
                assert!(
                    (found - expected).abs() <= tolerance::<T>() * scale,
                    "{what} on {shape}: {found} instead of {expected} at ({i}, {j}, {k}), largest {scale}"
                );
            }
        }
    }
}
