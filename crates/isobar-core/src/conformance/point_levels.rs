//! Levels whose cells are relaxed each by itself: every operator and transfer of a hierarchy, level by level, and updates.

use super::fixture::{SCALARS, Sample, compare_at_scale, fetch, ok, poison, random_vector, send, tolerance};
use crate::backend::{Backend, HostScalars};
use crate::layout::{Colour, Layout, Shape};
use crate::operator::{Guess, LineSmoother, Relaxation, Transfer};
use crate::options::Smoother;
use crate::real::Real;
use crate::reference::{Reference, Vector};
use crate::stencil::{Axis, Coefficients, Diffusion, Hierarchy, Stencil, Supports};

/// Even, odd, prime, flat, one cell wide, long, and large enough for several threads and blocks.
const SHAPES: [(usize, usize, usize); 11] = [
    (1, 1, 1),
    (1, 1, 8),
    (2, 2, 4),
    (12, 10, 7),
    (16, 8, 4),
    (17, 3, 1),
    (1, 9, 4),
    (40, 24, 1),
    (34, 20, 5),
    (68, 64, 10),
    (20, 36, 66),
];

/// What sums of eight residuals round to.
const SCALE: f64 = 100.0;

fn samples() -> impl Iterator<Item = (String, Diffusion)> {
    let of = |(nx, ny, nz)| Diffusion::samples(Shape::new(nx, ny, nz)).into_iter();
    SHAPES.into_iter().flat_map(of).filter(|(_, stencil)| {
        let is_odd_ring = stencil.is_periodic(Axis::Z) && stencil.shape().nz > 1 && stencil.shape().nz % 2 == 1;
        matches!(stencil.coefficients(), Coefficients::Cells { .. }) && !is_odd_ring
    })
}

fn hierarchy<B: Supports<Diffusion>, T: Real>(backend: &B, stencil: &Diffusion) -> Hierarchy<B, Diffusion, T> {
    let operator = ok(backend.operator::<T>(stencil));
    ok(backend.point_hierarchy(stencil, &operator, None)).unwrap_or_else(|| panic!("no levels"))
}

fn relaxations() -> impl Iterator<Item = Relaxation> {
    let of = |first| [1.0, 1.18].map(|rho| Relaxation { smoother: Smoother::PointRedBlack, rho, first });
    Colour::BOTH.into_iter().flat_map(of)
}

/// A level here and there.
struct Level<'a, B: Backend, T: Real> {
    backend: &'a B,
    tested: &'a dyn LineSmoother<B, T>,
    reference: &'a dyn LineSmoother<Reference, T>,
    shape: Shape,
    name: String,
}

impl<B: Backend, T: Real> Level<'_, B, T> {
    fn vector(&self, shape: Shape, seed: u64) -> (Vector<T>, B::Vector<T>) {
        let v = random_vector(shape, seed);
        let sent = send(self.backend, &v);
        (v, sent)
    }

    fn same(&self, found: &B::Vector<T>, expected: &Vector<T>, scale: f64, what: &str) {
        compare_at_scale(self.backend, found, expected, scale, &format!("{what}, {}", self.name));
    }

    fn scratch(&self) -> (Vector<T>, B::Vector<T>) {
        let shape = if self.tested.needs_scratch(Smoother::PointRedBlack) { self.shape } else { Shape::new(1, 1, 1) };
        let (_, on_scratch) = poison(self.backend, shape);
        (poison(self.backend, self.shape).0, on_scratch)
    }

    fn sweeps(&self) {
        let (f, on_f) = self.vector(self.shape, 1);
        let (x, on_x) = self.vector(self.shape, 2);
        let (mut y, mut on_y) = poison(self.backend, self.shape);
        ok(self.reference.apply(&x, &mut y));
        ok(self.tested.apply(&on_x, &mut on_y));
        self.same(&on_y, &y, SCALE, "apply");
        for relaxation in relaxations() {
            let ((mut s, mut on_s), (mut u, mut on_u)) = (self.scratch(), poison(self.backend, self.shape));
            for guess in [Guess::Zero, Guess::Given] {
                ok(self.reference.smooth(relaxation, guess, &f, &mut u, &mut s));
                ok(self.tested.smooth(relaxation, guess, &on_f, &mut on_u, &mut on_s));
                self.same(&on_u, &u, SCALE, &format!("smooth {relaxation:?} {guess:?}"));
            }
        }
    }

    fn transfers(&self, tested: &dyn Transfer<B, T>, reference: &dyn Transfer<Reference, T>) {
        assert!(!tested.is_adjoint() && !reference.is_adjoint());
        let coarse = reference.coarse_layout().shape();
        assert_eq!(tested.coarse_layout().shape(), coarse, "{}", self.name);
        let ((f, on_f), (u, on_u)) = (self.vector(self.shape, 3), self.vector(self.shape, 4));
        let (coarse_u, on_coarse_u) = self.vector(coarse, 5);
        let ((mut coarse_f, mut on_coarse_f), (mut s, mut on_s)) = (poison(self.backend, coarse), self.scratch());
        ok(reference.restrict(&f, &mut coarse_f));
        ok(tested.restrict(&on_f, &mut on_coarse_f));
        self.same(&on_coarse_f, &coarse_f, SCALE, "restrict");
        let (mut v, mut on_v) = (u.clone(), send(self.backend, &u));
        ok(reference.prolong(&coarse_u, &mut v));
        ok(tested.prolong(&on_coarse_u, &mut on_v));
        self.same(&on_v, &v, 1.0, "prolong");
        ok(reference.residual_restrict(&f, &u, &mut coarse_f, &mut s));
        ok(tested.residual_restrict(&on_f, &on_u, &mut on_coarse_f, &mut on_s));
        self.same(&on_coarse_f, &coarse_f, SCALE, "residual_restrict");
        for relaxation in relaxations() {
            let (mut u, mut on_u) = poison(self.backend, self.shape);
            for guess in [Guess::Zero, Guess::Given] {
                let what = format!("smooth_residual_restrict {relaxation:?} {guess:?}");
                let (_, mut on_coarse_f) = poison::<B, T>(self.backend, coarse);
                ok(reference.smooth_residual_restrict(relaxation, guess, &f, &mut u, &mut coarse_f, &mut s));
                ok(tested.smooth_residual_restrict(relaxation, guess, &on_f, &mut on_u, &mut on_coarse_f, &mut on_s));
                self.same(&on_u, &u, SCALE, &what);
                self.same(&on_coarse_f, &coarse_f, SCALE, &what);
            }
            for with_norm in [true, false] {
                let [norm, ..] = SCALARS;
                let (mut scalars, mut on_scalars) = (HostScalars::default(), ok(self.backend.scalars()));
                let out = with_norm.then_some((norm, &mut scalars));
                ok(reference.prolong_smooth(relaxation, &f, &coarse_u, &mut u, &mut s, out));
                let out = with_norm.then_some((norm, &mut on_scalars));
                ok(tested.prolong_smooth(relaxation, &on_f, &on_coarse_u, &mut on_u, &mut on_s, out));
                self.same(&on_u, &u, SCALE, &format!("prolong_smooth {relaxation:?}, norm {with_norm}"));
                if with_norm {
                    let (found, expected) = (ok(self.backend.read(&on_scalars))[norm.index()], scalars.get(norm));
                    let most = SCALE * tolerance::<T>() * expected.max(self.shape.cells() as f64);
                    assert!(
                        (found - expected).abs() <= most,
                        "norm of prolong_smooth, {}: {found} {expected}",
                        self.name
                    );
                }
            }
        }
    }
}

/// Operators, sweeps and transfers of all levels.
pub fn levels<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for (name, stencil) in samples() {
        let tested = hierarchy::<B, T>(backend, &stencil);
        let reference = hierarchy::<Reference, T>(&Reference, &stencil);
        assert_eq!(tested.shapes(), reference.shapes(), "{name}");
        for (n, (on_level, level)) in tested.levels.iter().zip(&reference.levels).enumerate() {
            let (tested_level, reference_level) = (&**on_level, &**level);
            let shape = level.layout().shape();
            let name = format!("level {n}, {shape}, of {name}");
            let level = Level { backend, tested: tested_level, reference: reference_level, shape, name };
            level.sweeps();
            if let (Some(tested), Some(reference)) = (tested.transfers.get(n), reference.transfers.get(n)) {
                level.transfers(&**tested, &**reference);
            }
        }
    }
}

/// A hierarchy that gets other coefficients is as if it had been made with them, bit for bit.
pub fn update<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for shape in [Shape::new(16, 12, 8), Shape::new(13, 10, 6)] {
        let samples = Diffusion::samples(shape);
        let same_form = samples.iter().filter(|(name, _)| name.starts_with("one field"));
        for (name, second) in same_form {
            let Coefficients::Cells { fields, axes } = second.coefficients() else { continue };
            // From constant coefficients, for which there may be other kernels.
            let constant = fields.iter().map(|field| vec![2.0; field.len()].into()).collect();
            let shift = second.stored_shift().map(<[f64]>::to_vec);
            let constant = Coefficients::Cells { fields: constant, axes: *axes };
            let first = ok(Diffusion::new(shape, constant, shift, second.sides()));
            let operator = ok(backend.operator::<T>(&first));
            let Some(levels) = ok(backend.point_hierarchy(&first, &operator, None)) else { panic!("no levels") };
            ok(backend.update(&operator, second));
            ok((levels.update)(second));
            let fresh = hierarchy::<B, T>(backend, second);
            for (n, (updated, fresh)) in levels.levels.iter().zip(&fresh.levels).enumerate() {
                let shape = fresh.layout().shape();
                let x = send(backend, &random_vector::<T>(shape, 6));
                let [mut found, mut expected] = [(); 2].map(|()| ok(backend.zeros::<T>(&ok(Layout::new(shape)))));
                ok(updated.apply(&x, &mut found));
                ok(fresh.apply(&x, &mut expected));
                assert!(fetch(backend, &found, shape) == fetch(backend, &expected, shape), "level {n} of {name}");
            }
        }
    }
}
