//! Transfers between levels, and the steps that fuse them with sweeps.

use super::fixture::{
    Levels, RETURNING, SCALARS, Sample, both, compare, compare_at_scale, fetch, for_each_two_levels, has_same_weights,
    ok, own, poison, random_pair, relaxations, shapes, tolerance,
};
use super::point_levels::Level;
use crate::operator::MixedTop;
use crate::prelude::*;
use crate::reference::{Plain, Vector};

/// The scale of rounding of two levels: residuals are differences of terms a few times the largest entry.
const RESIDUAL_SCALE: f64 = 10.0;

fn samples<B: Backend, S: Sample>() -> Vec<(String, S)> {
    shapes::<B>().flat_map(S::samples).collect()
}

/// Checks R f and u + P u_c.
pub(super) fn transfers<B: Supports<S>, S: Sample, T: Real>(backend: &B)
where
    Reference: Supports<S, Operator<T> = Plain<S, T>>,
{
    for_each_two_levels(backend, &samples::<B, S>(), |levels: &mut Levels<'_, B, S, T>| {
        let (tested, reference) = levels.transfer();
        assert_eq!(tested.is_adjoint(), reference.is_adjoint());
        assert_eq!(tested.coarse_layout().shape(), levels.coarse);
        if !has_same_weights(backend, &levels.fine.name) {
            return;
        }
        let [mut f, mut u] = [17, 18].map(|n| levels.fine.vector(n));
        let (mut coarse_f, mut coarse_u) = (poison::<B, T>(backend, levels.coarse), levels.coarse_vector(21));
        both!(*reference, *tested => |on, f, coarse_f| on.restrict(f, coarse_f));
        levels.fine.compare(&coarse_f, "restrict");
        both!(*reference, *tested => |on, coarse_u, u| on.prolong(coarse_u, u));
        levels.fine.compare(&u, "prolong");
    });
}

/// Checks sweep and restriction, prolongation and sweep, in one pass.
pub(super) fn fused_transfers<B: Supports<S>, S: Sample, T: Real>(backend: &B)
where
    Reference: Supports<S, Operator<T> = Plain<S, T>>,
{
    let all: Vec<(String, S)> = samples::<B, S>().into_iter().filter(|(_, stencil)| stencil.is_tame()).collect();
    for_each_two_levels(backend, &all, |levels: &mut Levels<'_, B, S, T>| {
        let (tested, reference) = levels.transfer();
        let (shape, name, scales) = (levels.fine.shape(), levels.fine.name.clone(), [1.0, RESIDUAL_SCALE]);
        let (on_fine, fine) = (tested.fine(), reference.fine());
        let level = Level { backend, tested: on_fine, reference: fine, shape, name, scratch: shape, scales };
        let returning = reference.is_adjoint().then_some(RETURNING);
        level.fused_transfers(tested, reference, relaxations().into_iter().chain(returning));
    });
}

/// Makes stencils with strong couplings in one direction, coarsened in that alone.
fn with_a_strong_direction(shape: Shape) -> Vec<(String, Diffusion)> {
    [[50.0, 1.0], [1.0, 50.0]]
        .map(|strong| {
            let field: Vec<f64> = (0..shape.cells()).map(|n| 1.5 + random(3, n)).collect();
            let (factors, shift) = ([strong[0], strong[1], 1.0], Some(vec![0.5; shape.cells()]));
            let stencil = ok(Diffusion::of_field(shape, field, factors, shift, [[Side::Closed; 2]; 3]));
            (format!("factors {strong:?}"), stencil)
        })
        .into()
}

/// Checks ⟨R f, u_c⟩ = ⟨f, P u_c⟩, on which plain conjugate gradients rely.
pub(super) fn adjoint_transfers<B: Supports<Diffusion>, T: Real>(backend: &B) {
    let [left, right, ..] = SCALARS;
    let all = shapes::<B>().flat_map(|shape| {
        let mut all = Diffusion::samples(shape);
        all.extend(with_a_strong_direction(shape));
        all
    });
    let all: Vec<(String, Diffusion)> = all.collect();
    for_each_two_levels(backend, &all, |levels: &mut Levels<'_, B, Diffusion, T>| {
        let (mut f, mut pu) = (levels.fine.vector(22), levels.fine.poison());
        let (mut rf, mut u) = (poison::<B, T>(backend, levels.coarse), levels.coarse_vector(25));
        let (tested, reference) = levels.transfer();
        both!(*reference, *tested => |on, f, rf| on.restrict(f, rf));
        both!(Reference, *backend => |on, pu| on.clear(pu));
        both!(*reference, *tested => |on, u, pu| on.prolong(u, pu));
        if has_same_weights(backend, &levels.fine.name) {
            levels.fine.compare(&pu, "prolong");
            levels.fine.compare(&rf, "restrict");
        }
        let fine = &mut levels.fine;
        ok(backend.dot(&rf.1, &u.1, left.of(&mut fine.scalars.1)));
        ok(backend.dot(&f.1, &pu.1, right.of(&mut fine.scalars.1)));
        let bank = ok(backend.read(&fine.scalars.1));
        let (left, right) = (bank[left.index()], bank[right.index()]);
        let scale = (fine.shape().cells() as f64).sqrt();
        assert!((left - right).abs() <= tolerance::<T>() * scale, "{}: {left} {right}", fine.name);
    });
}

/// Checks two cycles of the finest level in two precisions: down, up, down, up; and external corrections.
pub(super) fn mixed_top<B: Supports<S>, S: Sample>(backend: &B)
where
    Reference: Supports<S, Operator<f64> = Plain<S, f64>, Operator<f32> = Plain<S, f32>>,
{
    let [norm, ..] = SCALARS;
    // Grids large enough for every kind of kernel, small, and odd.
    let shapes = [Shape::new(24, 20, 6), Shape::new(7, 5, 3), Shape::new(260, 160, 3)];
    let tame = |shape| S::samples(shape).into_iter().filter(|(_, stencil)| stencil.is_tame()).take(3);
    for (name, stencil) in shapes.into_iter().flat_map(tame) {
        let shape = stencil.shape();
        let mut f = random_pair::<B, f64>(backend, shape, 1);
        for relaxation in relaxations() {
            let ((there, coarse), (here, _)) =
                (top(backend, &stencil, relaxation), top(&Reference, &stencil, relaxation));
            let mut top = (here, there);
            let mut scalars = (ok(Reference.scalars()), ok(backend.scalars()));
            let mut u = random_pair::<B, f64>(backend, shape, 2);
            both!(|top, f, u, scalars| top.begin(f, u, norm.of(scalars)));
            for cycle in 0..2 {
                let what = format!("{name}, {relaxation:?}, cycle {cycle}");
                let mut coarse_f = poison::<B, f32>(backend, coarse);
                both!(|top, coarse_f| if cycle == 0 { top.descend_first(coarse_f) } else { top.descend(coarse_f) });
                compare_at_scale(backend, &coarse_f.1, &coarse_f.0, RESIDUAL_SCALE, &format!("descend: {what}"));
                let mut coarse_u = random_pair::<B, f32>(backend, coarse, 3 + cycle);
                both!(|top, f, u, coarse_u, scalars| top.ascend(f, u, coarse_u, norm.of(scalars)));
                same_to_single(backend, &u.1, &u.0, &format!("ascend: {what}"));
                let (found, expected) = (ok(backend.read(&scalars.1))[norm.index()], scalars.0.get(norm));
                assert!((found - expected).abs() <= 1e-4 * (expected + 1e-2), "{what}: {found} {expected}");
            }
            // An external correction.
            let mut e = random_pair::<B, f32>(backend, shape, 9);
            both!(|top, f| top.begin_from_zero(f));
            both!(Reference, *backend => |on, e, top| on.convert(e, top.parts()[1]));
            compare(backend, top.1.parts()[0], top.0.parts()[0], "begin_from_zero");
            both!(|top, f, u, scalars| top.correct(f, u, norm.of(scalars)));
            same_to_single(backend, &u.1, &u.0, &format!("correct: {name} {relaxation:?}"));
            let scale = if relaxation.smoother == Smoother::LineJacobi { RESIDUAL_SCALE } else { 1.0 };
            compare_at_scale(backend, top.1.parts()[0], top.0.parts()[0], scale, "correct: r");
        }
    }
}

/// Compares solutions that include corrections in single precision.
fn same_to_single<B: Backend>(backend: &B, found: &B::Vector<f64>, expected: &Vector<f64>, what: &str) {
    let shape = expected.layout().shape();
    let found = fetch(backend, found, shape);
    let expected = fetch(&Reference, expected, shape);
    let largest = expected.iter().fold(0.0f64, |s, v| s.max(v.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= tolerance::<f32>() * largest, "{what}: {found} instead of {expected}");
    }
}

fn top<B: Supports<S>, S: Sample>(
    backend: &B,
    stencil: &S,
    relaxation: crate::operator::Relaxation,
) -> (MixedTop<B>, Shape) {
    let double = ok(backend.operator::<f64>(stencil));
    let single = ok(backend.operator::<f32>(stencil));
    let Some(hierarchy) = ok(backend.hierarchy(stencil, &single, Smoother::LineRedBlack, Some(2))) else {
        panic!("no levels")
    };
    let Some(top) = ok(backend.mixed_top(&double, &single, &hierarchy, relaxation)) else { panic!("no mixed top") };
    (top, hierarchy.levels[1].layout().shape())
}
