//! Levels with relaxation of points: every operator and transfer of a hierarchy, level by level, and updates; the hybrid smoother.

use super::complete::Complete;
use super::fixture::{
    SCALARS, Sample, Twin, both, compare_at_scale, even, fetch, ok, own, poison, random_pair, random_vector, send,
    tolerance,
};
use super::solves::{like_the_reference, options};
use crate::precond::multigrid::Cycle;
use crate::prelude::*;

/// Grids that are even, odd, prime, flat, one cell wide, long, and large enough for several threads and blocks.
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

/// The scale of rounding of sums of eight residuals.
const SCALE: f64 = 100.0;

fn samples() -> impl Iterator<Item = (String, Diffusion)> {
    let of = |(nx, ny, nz)| Diffusion::samples(Shape::new(nx, ny, nz)).into_iter();
    SHAPES.into_iter().flat_map(of).filter(|(_, stencil)| {
        let is_odd_ring = stencil.is_periodic(Axis::Z) && stencil.shape().nz > 1 && stencil.shape().nz % 2 == 1;
        matches!(stencil.coefficients(), Coefficients::Cells { .. }) && !is_odd_ring
    })
}

fn hierarchy<B: Supports<Diffusion>, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    wanted: Option<usize>,
) -> Hierarchy<B, Diffusion, T> {
    let operator = ok(backend.operator::<T>(stencil));
    ok(backend.hierarchy(stencil, &operator, Smoother::PointRedBlack, wanted)).unwrap_or_else(|| panic!("no levels"))
}

fn relaxations() -> impl Iterator<Item = Relaxation> {
    let of =
        |first| [1.0, 1.18].map(|rho| Relaxation { smoother: Smoother::PointRedBlack, rho, first, returns: false });
    Colour::BOTH.into_iter().flat_map(of)
}

/// A level on both back ends.
pub(super) struct Level<'a, B: Backend, T: Real> {
    pub(super) backend: &'a B,
    pub(super) tested: &'a dyn LineSmoother<B, T>,
    pub(super) reference: &'a dyn LineSmoother<Reference, T>,
    pub(super) shape: Shape,
    pub(super) name: String,
    /// The scratch vector of the back end that is tested.
    pub(super) scratch: Shape,
    /// The scales of rounding of its vectors, and of those of the coarser level.
    pub(super) scales: [f64; 2],
}

impl<'a, B: Backend, T: Real> Level<'a, B, T> {
    /// Makes a level whose points are relaxed.
    fn of_points(
        backend: &'a B,
        tested: &'a dyn LineSmoother<B, T>,
        reference: &'a dyn LineSmoother<Reference, T>,
        name: String,
    ) -> Self {
        let shape = reference.layout().shape();
        let scratch = if tested.needs_scratch(Smoother::PointRedBlack) { shape } else { Shape::new(1, 1, 1) };
        Self { backend, tested, reference, shape, name, scratch, scales: [SCALE; 2] }
    }

    fn vector(&self, shape: Shape, seed: u64) -> Twin<B, T> {
        random_pair(self.backend, shape, seed)
    }

    fn same(&self, (expected, found): &Twin<B, T>, scale: f64, what: &str) {
        compare_at_scale(self.backend, found, expected, scale, &format!("{what}, {}", self.name));
    }

    fn scratch(&self) -> Twin<B, T> {
        let (_, on_scratch) = poison(self.backend, self.scratch);
        (poison(self.backend, self.shape).0, on_scratch)
    }

    fn sweeps(&self) {
        let [mut f, mut x] = [1, 2].map(|seed| self.vector(self.shape, seed));
        let mut y = poison(self.backend, self.shape);
        both!(*self.reference, *self.tested => |on, x, y| on.apply(x, y));
        self.same(&y, SCALE, "apply");
        for relaxation in relaxations() {
            let (mut s, mut u) = (self.scratch(), poison(self.backend, self.shape));
            for guess in [Guess::Zero, Guess::Given] {
                both!(*self.reference, *self.tested => |on, f, u, s| on.smooth(Sweep::new(relaxation, guess, f, u, s)));
                self.same(&u, SCALE, &format!("smooth {relaxation:?} {guess:?}"));
            }
        }
    }

    fn transfers(
        &self,
        tested: &dyn Transfer<B, T>,
        reference: &dyn Transfer<Reference, T>,
        relaxations: impl Iterator<Item = Relaxation>,
    ) {
        assert_eq!(tested.is_adjoint(), reference.is_adjoint(), "{}", self.name);
        let coarse = reference.coarse_layout().shape();
        assert_eq!(tested.coarse_layout().shape(), coarse, "{}", self.name);
        let [mut f, mut u] = [3, 4].map(|seed| self.vector(self.shape, seed));
        let (mut coarse_u, mut coarse_f) = (self.vector(coarse, 5), poison(self.backend, coarse));
        both!(*reference, *tested => |on, f, coarse_f| on.restrict(f, coarse_f));
        self.same(&coarse_f, SCALE, "restrict");
        both!(*reference, *tested => |on, coarse_u, u| on.prolong(coarse_u, u));
        self.same(&u, 1.0, "prolong");
        self.fused_transfers(tested, reference, relaxations);
    }

    /// Checks sweep and restriction, prolongation and sweep, in one pass.
    pub(super) fn fused_transfers(
        &self,
        tested: &dyn Transfer<B, T>,
        reference: &dyn Transfer<Reference, T>,
        relaxations: impl IntoIterator<Item = Relaxation>,
    ) {
        let (coarse, [scale, coarse_scale]) = (reference.coarse_layout().shape(), self.scales);
        let [mut f, mut u] = [3, 4].map(|seed| self.vector(self.shape, seed));
        let (mut coarse_u, mut coarse_f) = (self.vector(coarse, 5), poison(self.backend, coarse));
        let mut s = self.scratch();
        both!(*reference, *tested => |on, f, u, coarse_f, s| on.residual_restrict(f, [u, coarse_f, s]));
        self.same(&coarse_f, coarse_scale, "residual_restrict");
        for relaxation in relaxations {
            let mut u = poison(self.backend, self.shape);
            for guess in [Guess::Zero, Guess::Given] {
                let what = format!("smooth_residual_restrict {relaxation:?} {guess:?}");
                coarse_f = poison(self.backend, coarse);
                both!(*reference, *tested => |on, f, u, s, coarse_f| {
                    on.smooth_residual_restrict(Sweep::new(relaxation, guess, f, u, s), coarse_f)
                });
                self.same(&u, scale, &what);
                self.same(&coarse_f, coarse_scale, &what);
            }
            for with_norm in [true, false] {
                let [norm, ..] = SCALARS;
                let mut scalars = (HostScalars::default(), ok(self.backend.scalars()));
                both!(*reference, *tested => |on, coarse_u, f, u, s, scalars| {
                    let sweep = Sweep::new(relaxation, Guess::Given, f, u, s);
                    on.prolong_smooth(coarse_u, sweep, with_norm.then_some((norm, scalars)))
                });
                self.same(&u, scale, &format!("prolong_smooth {relaxation:?}, norm {with_norm}"));
                if with_norm {
                    let (found, expected) = (ok(self.backend.read(&scalars.1))[norm.index()], scalars.0.get(norm));
                    let most = scale * tolerance::<T>() * expected.max(self.shape.cells() as f64);
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

/// Checks operators, sweeps and transfers of all levels.
pub(super) fn levels<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for (name, stencil) in samples() {
        let tested = hierarchy::<B, T>(backend, &stencil, None);
        let reference = hierarchy::<Reference, T>(&Reference, &stencil, None);
        assert_eq!(tested.shapes(), reference.shapes(), "{name}");
        for (n, (on_level, level)) in tested.levels.iter().zip(&reference.levels).enumerate() {
            let name = format!("level {n}, {}, of {name}", level.layout().shape());
            let level = Level::of_points(backend, &**on_level, &**level, name);
            level.sweeps();
            if let (Some(tested), Some(reference)) = (tested.transfers.get(n), reference.transfers.get(n)) {
                level.transfers(&**tested, &**reference, relaxations());
            }
        }
    }
}

/// Checks the finest level where all cells are equal; on a GPU on grids large enough for passes that pay only there.
pub(super) fn large_levels<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let [fixed, closed] = [Side::Fixed, Side::Closed];
    let mixed = [[fixed, closed], [closed, fixed], [fixed, fixed]];
    let (plane, cube) = match backend.device().kind == "cuda" {
        true => (Shape::new(1601, 1330, 1), Shape::new(517, 262, 126)),
        false => (Shape::new(301, 130, 1), Shape::new(67, 42, 30)),
    };
    for (shape, sides, has_shift) in
        [(plane, [[fixed; 2], [fixed, closed], [closed; 2]], false), (plane, mixed, true), (cube, mixed, false)]
    {
        let stencil = even(shape, sides, has_shift);
        let tested = hierarchy::<B, T>(backend, &stencil, Some(2));
        let reference = hierarchy::<Reference, T>(&Reference, &stencil, Some(2));
        let name = format!("{sides:?}, shift {has_shift}");
        let level = Level::of_points(backend, &*tested.levels[0], &*reference.levels[0], name);
        // Both factors and either colour first; the reference takes a second for such a sweep.
        level.transfers(&*tested.transfers[0], &*reference.transfers[0], relaxations().skip(1).take(2));
    }
}

/// Checks the finest level of the hybrid smoother with its transfer, and whole solves; back ends without such levels must refuse.
pub(super) fn above_lines<B: Complete, T: Real>(backend: &B) {
    let mut options = SolverOptions { compatibility: Compatibility::Project, ..options::<T>() };
    options.multigrid.smoother = Smoother::PointLine;
    let mut compared = 0;
    for (name, stencil) in samples() {
        let (on_operator, operator) = (ok(backend.operator::<T>(&stencil)), ok(Reference.operator::<T>(&stencil)));
        // Single cells are not halved, nor periodic directions of 4 n + 2 cells.
        let Ok(Some(reference)) = Reference.hierarchy(&stencil, &operator, Smoother::PointLine, None) else { continue };
        let Some(tested) = ok(backend.hierarchy(&stencil, &on_operator, Smoother::PointLine, None)) else {
            let refused = System::new(backend, &stencil, &options).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|message| message.contains("point-line")), "{name}");
            return;
        };
        assert_eq!(tested.shapes(), reference.shapes(), "{name}");
        let level = Level::of_points(backend, &*tested.levels[0], &*reference.levels[0], name);
        level.transfers(&*tested.transfers[0], &*reference.transfers[0], relaxations());
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
    let jumps = |n: usize, most: f64| if random(3, n / 5) > 0.3 { most } else { 1.0 };
    let kinds: [(&str, [[Side; 2]; 3], &dyn Fn(usize) -> f64); 3] = [
        ("rough, fixed", [[Side::Fixed; 2]; 3], &|n| 10f64.powf(random(2, n))),
        ("jumps, a ring", [[Side::Periodic; 2], [Side::Fixed, Side::Closed], [Side::Closed; 2]], &|n| jumps(n, 30.0)),
        ("jumps, floating", [[Side::Closed; 2]; 3], &|n| jumps(n, 100.0)),
    ];
    for (shape, (name, sides, kappa)) in
        [Shape::new(20, 13, 10), Shape::new(40, 33, 1)].into_iter().flat_map(|shape| kinds.map(|kind| (shape, kind)))
    {
        let field: Vec<f64> = (0..shape.cells()).map(kappa).collect();
        let stencil = ok(Diffusion::of_field(shape, field, [1.0; 3], None, sides));
        let cg = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..options.clone() };
        let mut variants = vec![cg.clone()];
        if T::PRECISION == Precision::F64 {
            variants.push(SolverOptions { precision: Precision::Mixed, ..cg });
        }
        let name = format!("hybrid smoother, {name}, {shape}");
        like_the_reference(backend, &name, &stencil, &variants, |_, expected| 1 + expected / 10);
    }
}

/// Checks cycles whose small levels are left on to one solver, if the back end has one.
pub(super) fn at_once<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let all = [(1, 1, 2), (2, 1, 3), (0, 2, 1)];
    let all = all.map(|(pre, post, coarse_sweeps)| MultigridOptions {
        smoother: Smoother::PointRedBlack,
        pre,
        post,
        coarse_sweeps,
        ..MultigridOptions::default()
    });
    for (name, stencil) in samples() {
        let shape = stencil.shape();
        for options in &all {
            let reference = hierarchy::<Reference, T>(&Reference, &stencil, None);
            let tested = ok(hierarchy::<B, T>(backend, &stencil, None).at_once(options));
            assert_eq!(tested.shapes(), reference.shapes());
            let (f, on_f) = random_pair::<B, T>(backend, shape, 7);
            let (mut u, mut on_u) = poison(backend, shape);
            ok(ok(Cycle::new(&reference, options)).cycle(&f, &mut u, Guess::Zero, None));
            ok(ok(Cycle::new(&tested, options)).cycle(&on_f, &mut on_u, Guess::Zero, None));
            compare_at_scale(backend, &on_u, &u, SCALE, &format!("a cycle at once, {name}, {shape}"));
        }
    }
}

/// Checks that an updated hierarchy equals a new one, bit for bit.
pub(super) fn update<B: Supports<Diffusion>, T: Real>(backend: &B) {
    for shape in [Shape::new(16, 12, 8), Shape::new(13, 10, 6)] {
        let samples = Diffusion::samples(shape);
        let same_form = samples.iter().filter(|(name, _)| name.starts_with("one field"));
        for (name, second) in same_form {
            let Coefficients::Cells { fields, axes } = second.coefficients() else { continue };
            // Updates from constant coefficients, which may have other kernels.
            let constant = fields.iter().map(|field| vec![2.0; field.len()].into()).collect();
            let shift = second.stored_shift().map(<[f64]>::to_vec);
            let constant = Coefficients::Cells { fields: constant, axes: *axes };
            let first = ok(Diffusion::new(shape, constant, shift, second.sides()));
            let operator = ok(backend.operator::<T>(&first));
            let Some(levels) = ok(backend.hierarchy(&first, &operator, Smoother::PointRedBlack, None)) else {
                panic!("no levels")
            };
            ok(backend.update(&operator, second));
            ok((levels.update)(second));
            let fresh = hierarchy::<B, T>(backend, second, None);
            for (n, (updated, fresh)) in levels.levels.iter().zip(&fresh.levels).enumerate() {
                let shape = fresh.layout().shape();
                let mut x = send(backend, &random_vector::<T>(shape, 6));
                let [mut found, mut expected] = [(); 2].map(|()| ok(backend.zeros::<T>(&ok(Layout::new(shape)))));
                ok(updated.apply(&mut x, &mut found));
                ok(fresh.apply(&mut x, &mut expected));
                assert!(fetch(backend, &found, shape) == fetch(backend, &expected, shape), "level {n} of {name}");
            }
        }
    }
}
