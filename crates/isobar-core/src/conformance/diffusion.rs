//! The steps of the diffusion operator, of its preconditioners and of regions.

use std::sync::Arc;

use super::fixture::{compare, compare_at_scale, random_vector, send, shapes, tolerance};
use crate::backend::{DiffusionBackend, HostScalars, Ratio, Slot};
use crate::error::Result;
use crate::layout::{ArrayView, ArrayViewMut, Colour, Layout, Shape};
use crate::operator::{Direction, Guess, LineOperator, LineSolver, MultigridOperator, Operator, Relaxation};
use crate::options::Smoother;
use crate::problem::random;
use crate::real::Real;
use crate::reference::{PlainDiffusion, Reference, Vector};
use crate::region::{RegionBackend, RegionMap, RegionOperator};
use crate::stencil::{Coefficients, Diffusion, Side};
use crate::triangular::TriangularOperator;

const FIRST: Slot = Slot::new(0);
const SECOND: Slot = Slot::new(1);

pub(super) fn ok<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Where coefficients come from, what sides are like, whether cells are inactive and whether there is a
/// shift: every kind of the first with every kind of the second, the rest by turns.
pub(super) fn stencils(shape: Shape) -> Vec<Diffusion> {
    let cells = shape.cells();
    let field = |seed: u64, holes: bool| -> Arc<[f64]> {
        let value = |n: usize| if holes && random(seed + 100, n) > 0.6 { 0.0 } else { 1.5 + random(seed, n) };
        (0..cells).map(value).collect()
    };
    let [closed, fixed] = [Side::Closed, Side::Fixed];
    // An odd number of columns cannot be periodic.
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
                    let cells = fields([(0, 1.0), (0, 0.7), (0, 2.5)], 1);
                    let source = ok(Diffusion::new(shape, cells, None, sides));
                    faces_of(&source)
                }
            };
            let shift = ((kind + n) % 3 != 0).then(|| (0..cells).map(|n| 0.1 + 0.1 * random(50, n)).collect());
            // Stored faces have taken Dirichlet sides into their shift.
            let kept = sides.map(|sides| sides.map(|side| if kind == 3 && side == fixed { closed } else { side }));
            all.push(ok(Diffusion::new(shape, coefficients, shift, kept)));
        }
    }
    // The largest grid is there for tiles and threads, not for every combination.
    if cells > 50_000 { all.into_iter().step_by(5).collect() } else { all }
}

fn faces_of(stencil: &Diffusion) -> Coefficients {
    use crate::stencil::Axis;
    Coefficients::Faces(Axis::ALL.map(|axis| stencil.cells().map(|at| stencil.face(axis, at)).collect()))
}

/// The operator under test and its specification.
struct Pair<'b, B: DiffusionBackend, T: Real> {
    backend: &'b B,
    stencil: Diffusion,
    tested: B::Diffusion<T>,
    reference: PlainDiffusion<T>,
    scalars: B::Scalars,
    reference_scalars: HostScalars,
}

impl<'b, B: DiffusionBackend, T: Real> Pair<'b, B, T> {
    fn new(backend: &'b B, stencil: Diffusion) -> Self {
        Self {
            backend,
            tested: ok(backend.diffusion(&stencil, true)),
            reference: ok(PlainDiffusion::new(&stencil, true)),
            scalars: ok(backend.scalars()),
            reference_scalars: HostScalars::default(),
            stencil,
        }
    }

    fn shape(&self) -> Shape {
        self.stencil.shape()
    }

    /// A random vector here and there; 0 in inactive cells, as every vector of a solve is.
    fn vector(&self, seed: u64) -> (Vector<T>, B::Vector<T>) {
        let mut v = random_vector(self.shape(), seed);
        for at @ [i, j, k] in self.stencil.cells() {
            if !self.stencil.is_active(at) {
                v.set(i, j, k, T::ZERO);
            }
        }
        let sent = send(self.backend, &v);
        (v, sent)
    }

    fn compare(&self, found: &B::Vector<T>, expected: &Vector<T>, what: &str) {
        // Differences of the order of the diagonal round like it.
        compare_at_scale(self.backend, found, expected, 1.0, &self.named(what));
    }

    fn compare_scalar(&self, slot: Slot, scale: f64, what: &str) {
        let found = ok(self.backend.read(&self.scalars))[slot.index()];
        let expected = self.reference_scalars.0[slot.index()];
        let scale = scale.max(expected.abs()).max(1e-30);
        assert!(
            (found - expected).abs() <= tolerance::<T>() * scale,
            "{}: {found} instead of {expected}",
            self.named(what)
        );
    }

    fn named(&self, what: &str) -> String {
        let coefficients = match self.stencil.coefficients() {
            Coefficients::Cells { fields, .. } => format!("{} fields", fields.len()),
            Coefficients::Faces(_) => "faces".into(),
        };
        format!(
            "{what} with {coefficients}, {:?}, shift {}",
            self.stencil.sides(),
            self.stencil.stored_shift().is_some()
        )
    }
}

fn for_each_pair<B: DiffusionBackend, T: Real>(backend: &B, mut check: impl FnMut(&mut Pair<'_, B, T>)) {
    for shape in shapes() {
        for stencil in stencils(shape) {
            check(&mut Pair::new(backend, stencil));
        }
    }
}

/// y = A x;  r = f − A u;  z = D⁻¹ r
pub fn diffusion_apply<B: DiffusionBackend, T: Real>(backend: &B) {
    for_each_pair::<B, T>(backend, |pair| {
        let ((u, on_u), (f, on_f)) = (pair.vector(1), pair.vector(2));
        let ((mut y, mut on_y), (mut z, mut on_z)) = (pair.vector(3), pair.vector(4));
        ok(pair.reference.apply(&u, &mut y));
        ok(pair.tested.apply(&on_u, &mut on_y));
        pair.compare(&on_y, &y, "apply");
        ok(pair.reference.residual(&f, &u, &mut y, FIRST, &mut pair.reference_scalars));
        ok(pair.tested.residual(&on_f, &on_u, &mut on_y, FIRST, &mut pair.scalars));
        pair.compare(&on_y, &y, "residual");
        pair.compare_scalar(FIRST, 0.0, "norm of the residual");
        ok(pair.tested.residual_norm(&on_f, &on_u, &mut on_y, SECOND, &mut pair.scalars));
        pair.reference_scalars.0[SECOND.index()] = pair.reference_scalars.0[FIRST.index()];
        pair.compare_scalar(SECOND, 0.0, "norm alone");
        ok(pair.reference.divide_by_diagonal(&f, &mut z));
        ok(pair.tested.divide_by_diagonal(&on_f, &mut on_z));
        pair.compare(&on_z, &z, "diagonal");
        assert_eq!(pair.tested.coefficient_vectors(), pair.stencil.coefficient_vectors(), "declared traffic");
    });
}

/// The two halves of an iteration of conjugate gradients.
pub fn diffusion_cg_steps<B: DiffusionBackend, T: Real>(backend: &B) {
    for_each_pair::<B, T>(backend, |pair| {
        let [(mut u, mut on_u), (mut p, mut on_p), (z, on_z), (mut q, mut on_q)] = [5, 6, 7, 8].map(|n| pair.vector(n));
        for (slot, value) in [(FIRST, 0.7), (SECOND, 1.3)] {
            pair.reference_scalars.0[slot.index()] = value;
            ok(pair.backend.set(&mut pair.scalars, slot, value));
        }
        let (alpha, beta, sigma) = (Ratio::new(FIRST, SECOND), Ratio::new(SECOND, FIRST), Slot::new(2));
        ok(pair.tested.reserve_direction());
        let direction = Direction { u: &mut u, p: &mut p, z: &z, q: &mut q };
        ok(pair.reference.advance_direction(direction, alpha, beta, sigma, &mut pair.reference_scalars));
        let direction = Direction { u: &mut on_u, p: &mut on_p, z: &on_z, q: &mut on_q };
        ok(pair.tested.advance_direction(direction, alpha, beta, sigma, &mut pair.scalars));
        for (found, expected, what) in [(&on_u, &u, "u"), (&on_p, &p, "p"), (&on_q, &q, "q")] {
            pair.compare(found, expected, &format!("advance_direction: {what}"));
        }
        pair.compare_scalar(sigma, 1.0, "σ");

        let ((mut r, mut on_r), (mut z, mut on_z)) = (pair.vector(9), pair.vector(10));
        let out = [Slot::new(3), Slot::new(4)];
        ok(pair.reference.scale_residual(&mut r, &q, &mut z, alpha, out, &mut pair.reference_scalars));
        ok(pair.tested.scale_residual(&mut on_r, &on_q, &mut on_z, alpha, out, &mut pair.scalars));
        pair.compare(&on_r, &r, "scale_residual: r");
        pair.compare(&on_z, &z, "scale_residual: z");
        let largest = pair.reference_scalars.0[out[1].index()];
        for slot in out {
            pair.compare_scalar(slot, largest, "scale_residual: sums");
        }
    });
}

/// z = M⁻¹ r by lines, alone and in an iteration.
pub fn diffusion_lines<B: DiffusionBackend, T: Real>(backend: &B) {
    for_each_pair::<B, T>(backend, |pair| {
        let [(mut r, mut on_r), (q, on_q), (mut z, mut on_z)] = [11, 12, 13].map(|n| pair.vector(n));
        let scale = |z: &Vector<T>| z.entries().iter().fold(1.0, |s: f64, v| s.max(v.to_f64().abs()));
        ok(pair.reference.solve_lines(&r, &mut z));
        ok(pair.tested.solve_lines(&on_r, &mut on_z));
        compare_at_scale(backend, &on_z, &z, scale(&z), &pair.named("solve_lines"));
        ok(pair.backend.set(&mut pair.scalars, FIRST, 0.5));
        pair.reference_scalars.0[FIRST.index()] = 0.5;
        let (alpha, out) = (Ratio::new(FIRST, Slot::ONE), [Slot::new(3), Slot::new(4)]);
        ok(pair.reference.precondition_residual(&mut r, &q, &mut z, alpha, out, &mut pair.reference_scalars));
        ok(pair.tested.precondition_residual(&mut on_r, &on_q, &mut on_z, alpha, out, &mut pair.scalars));
        pair.compare(&on_r, &r, "precondition_residual: r");
        compare_at_scale(backend, &on_z, &z, scale(&z), &pair.named("precondition_residual: z"));
        pair.compare_scalar(out[0], scale(&z) * pair.shape().cells() as f64, "ρ");
        pair.compare_scalar(out[1], 0.0, "norm");
    });
}

fn relaxations() -> [Relaxation; 4] {
    let make = |smoother, rho, first| Relaxation { smoother, rho, first };
    [
        make(Smoother::LineRedBlack, 1.0, Colour::Red),
        make(Smoother::LineRedBlack, 0.8, Colour::Black),
        make(Smoother::LineJacobi, 0.8, Colour::Red),
        make(Smoother::LineJacobi, 1.0, Colour::Red),
    ]
}

/// Whether lines cannot amplify rounding: every column is tied to something.
fn is_tame(stencil: &Diffusion) -> bool {
    stencil.stored_shift().is_some()
}

/// One sweep, from zero and from given values.
pub fn diffusion_smooth<B: DiffusionBackend, T: Real>(backend: &B) {
    for_each_pair::<B, T>(backend, |pair| {
        if !is_tame(&pair.stencil) {
            return;
        }
        for relaxation in relaxations() {
            for guess in [Guess::Zero, Guess::Given] {
                let [(f, on_f), (mut u, mut on_u), (mut s, mut on_s)] = [14, 15, 16].map(|n| pair.vector(n));
                ok(pair.reference.smooth(relaxation, guess, &f, &mut u, &mut s));
                ok(pair.tested.smooth(relaxation, guess, &on_f, &mut on_u, &mut on_s));
                pair.compare(&on_u, &u, &format!("smooth {relaxation:?} {guess:?}"));
            }
        }
    });
}

/// Transfers, and the steps that fuse them with sweeps.
pub fn diffusion_transfers<B: DiffusionBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        let mut all = stencils(shape);
        // Strong couplings in one direction: coarsened in that alone.
        for strong in [[50.0, 1.0], [1.0, 50.0]] {
            let field: Arc<[f64]> = (0..shape.cells()).map(|n| 1.5 + random(3, n)).collect();
            let axes = [(0, strong[0]), (0, strong[1]), (0, 1.0)];
            let shift = Some(vec![0.5; shape.cells()]);
            let cells = Coefficients::Cells { fields: vec![field], axes };
            all.push(ok(Diffusion::new(shape, cells, shift, [[Side::Closed; 2]; 3])));
        }
        for stencil in all {
            let Some(coarse) = stencil.coarsened() else { continue };
            let mut fine = Pair::<B, T>::new(backend, stencil);
            let coarse = Pair::<B, T>::new(backend, coarse);
            assert_eq!(fine.tested.has_adjoint_transfers(), fine.reference.has_adjoint_transfers());
            let [(f, on_f), (mut u, mut on_u), (mut s, mut on_s)] = [17, 18, 19].map(|n| fine.vector(n));
            let [(mut coarse_f, mut on_coarse_f), (coarse_u, on_coarse_u)] = [20, 21].map(|n| coarse.vector(n));
            ok(fine.reference.restrict(&coarse.reference, &f, &mut coarse_f));
            ok(fine.tested.restrict(&coarse.tested, &on_f, &mut on_coarse_f));
            coarse.compare(&on_coarse_f, &coarse_f, "restrict");
            ok(fine.reference.prolong(&coarse.reference, &coarse_u, &mut u));
            ok(fine.tested.prolong(&coarse.tested, &on_coarse_u, &mut on_u));
            fine.compare(&on_u, &u, "prolong");
            ok(fine.reference.residual_restrict(&coarse.reference, &f, &u, &mut coarse_f, &mut s));
            ok(fine.tested.residual_restrict(&coarse.tested, &on_f, &on_u, &mut on_coarse_f, &mut on_s));
            compare_at_scale(backend, &on_coarse_f, &coarse_f, 10.0, &fine.named("residual_restrict"));
            if !is_tame(&fine.stencil) {
                continue;
            }
            for relaxation in relaxations() {
                for guess in [Guess::Zero, Guess::Given] {
                    ok(fine.reference.smooth_residual_restrict(
                        &coarse.reference,
                        relaxation,
                        guess,
                        &f,
                        &mut u,
                        &mut coarse_f,
                        &mut s,
                    ));
                    ok(fine.tested.smooth_residual_restrict(
                        &coarse.tested,
                        relaxation,
                        guess,
                        &on_f,
                        &mut on_u,
                        &mut on_coarse_f,
                        &mut on_s,
                    ));
                    fine.compare(&on_u, &u, "smooth_residual_restrict: u");
                    compare_at_scale(
                        backend,
                        &on_coarse_f,
                        &coarse_f,
                        10.0,
                        &fine.named("smooth_residual_restrict: f"),
                    );
                    ok(fine.reference.prolong_smooth(
                        &coarse.reference,
                        relaxation,
                        &f,
                        &coarse_u,
                        &mut u,
                        &mut s,
                        Some((FIRST, &mut fine.reference_scalars)),
                    ));
                    ok(fine.tested.prolong_smooth(
                        &coarse.tested,
                        relaxation,
                        &on_f,
                        &on_coarse_u,
                        &mut on_u,
                        &mut on_s,
                        Some((FIRST, &mut fine.scalars)),
                    ));
                    fine.compare(&on_u, &u, "prolong_smooth");
                    fine.compare_scalar(FIRST, fine.shape().cells() as f64, "norm after prolong_smooth");
                }
            }
        }
    }
}

/// ⟨R f, u_c⟩ = ⟨f, P u_c⟩, on which plain conjugate gradients rely.
pub fn diffusion_adjoint_transfers<B: DiffusionBackend, T: Real>(backend: &B) {
    for shape in shapes() {
        for stencil in stencils(shape) {
            let Some(coarse) = stencil.coarsened() else { continue };
            let mut fine = Pair::<B, T>::new(backend, stencil);
            let coarse = Pair::<B, T>::new(backend, coarse);
            let ((_, f), (_, mut pu)) = (fine.vector(22), fine.vector(23));
            let ((_, mut rf), (_, u)) = (coarse.vector(24), coarse.vector(25));
            ok(fine.tested.restrict(&coarse.tested, &f, &mut rf));
            ok(backend.clear(&mut pu));
            ok(fine.tested.prolong(&coarse.tested, &u, &mut pu));
            ok(backend.dot(&rf, &u, FIRST, &mut fine.scalars));
            ok(backend.dot(&f, &pu, SECOND, &mut fine.scalars));
            let bank = ok(backend.read(&fine.scalars));
            let (left, right) = (bank[FIRST.index()], bank[SECOND.index()]);
            let scale = (shape.cells() as f64).sqrt();
            assert!((left - right).abs() <= tolerance::<T>() * scale, "{}: {left} {right}", fine.named("transfers"));
        }
    }
}

/// The steps of Neumann, incomplete Poisson and block-IC preconditioners.
pub fn diffusion_triangular_steps<B: DiffusionBackend, T: Real>(backend: &B) {
    for_each_pair::<B, T>(backend, |pair| {
        let [(r, on_r), (w, on_w), (mut v, mut on_v)] = [26, 27, 28].map(|n| pair.vector(n));
        ok(pair.reference.relax_lower(&r, &w, &mut v, Some((FIRST, &mut pair.reference_scalars))));
        ok(pair.tested.relax_lower(&on_r, &on_w, &mut on_v, Some((FIRST, &mut pair.scalars))));
        pair.compare(&on_v, &v, "relax_lower");
        pair.compare_scalar(FIRST, 0.0, "relax_lower: ρ");
        ok(pair.tested.relax_lower(&on_r, &on_w, &mut on_v, None));
        pair.compare(&on_v, &v, "relax_lower without ρ");
        ok(pair.reference.relax_upper(&r, &w, &mut v));
        ok(pair.tested.relax_upper(&on_r, &on_w, &mut on_v));
        pair.compare(&on_v, &v, "relax_upper");
        let mut inverse = random_vector::<T>(pair.shape(), 29);
        for entry in inverse.entries_mut() {
            *entry = T::from_f64(0.3) * (*entry * *entry);
        }
        let on_inverse = send(backend, &inverse);
        for scaled in [false, true] {
            ok(pair.reference.incomplete_poisson(scaled, &inverse, &r, &mut v));
            ok(pair.tested.incomplete_poisson(scaled, &on_inverse, &on_r, &mut on_v));
            pair.compare(&on_v, &v, &format!("incomplete_poisson {scaled}"));
        }
        let Shape { nx, ny, .. } = pair.shape();
        for block in [1, 3, 2 * nx, 3 * nx + 1, nx * ny, 3 * nx * ny, usize::MAX] {
            ok(pair.reference.substitute(block, &inverse, &r, &mut v));
            ok(pair.tested.substitute(block, &on_inverse, &on_r, &mut on_v));
            pair.compare(&on_v, &v, &format!("substitute in blocks of {block}"));
        }
    });
}

/// Products with Z and Zᵀ, and deflation's step.
pub fn regions<B: DiffusionBackend, T: Real>(backend: &B) {
    for_each_pair::<B, T>(backend, |pair| {
        let shape = pair.shape();
        let cells = shape.cells();
        for count in [1, 3, cells.div_ceil(7), 700] {
            let id = |n: usize| match (random(30, n).abs() * (count + 1) as f64) as usize {
                id if id >= count => RegionMap::NONE,
                id => id as u32,
            };
            let map = ok(RegionMap::new(shape, (0..cells).map(id).collect(), count));
            let (here, there) = (ok(Reference.regions(&map)), ok(backend.regions(&map)));
            let numbers: Vec<f64> = (0..count).map(|n| random(31, n)).collect();
            let (mut a, mut on_a) = (ok(Reference.region_vector(count)), ok(backend.region_vector(count)));
            ok(Reference.write_regional(&numbers, &mut a));
            ok(backend.write_regional(&numbers, &mut on_a));

            let [(p, on_p), (mut q, mut on_q)] = [32, 33].map(|n| pair.vector(n));
            ok(pair.reference.subtract_regional(&here, &a, &p, &mut q, FIRST, &mut pair.reference_scalars));
            ok(pair.tested.subtract_regional(&there, &on_a, &on_p, &mut on_q, FIRST, &mut pair.scalars));
            pair.compare(&on_q, &q, &format!("subtract_regional of {count}"));
            pair.compare_scalar(FIRST, (cells as f64).sqrt(), "subtract_regional: σ");

            let (mut sums, mut on_sums) = (ok(Reference.region_vector(count)), ok(backend.region_vector(count)));
            // Twice: sums must not pile up.
            for _ in 0..2 {
                ok(Reference.region_sums(&q, &here, &mut sums));
                ok(backend.region_sums(&on_q, &there, &mut on_sums));
            }
            let mut found = vec![f64::NAN; count];
            ok(backend.read_regional(&on_sums, &mut found));
            for (found, expected) in found.iter().zip(&sums) {
                assert!((found - expected).abs() <= tolerance::<T>() * cells as f64, "sums: {found} {expected}");
            }

            ok(Reference.add_regional(&here, &a, &mut q));
            ok(backend.add_regional(&there, &on_a, &mut on_q));
            pair.compare(&on_q, &q, "add_regional");
            ok(Reference.clear_outside(&here, &mut q));
            ok(backend.clear_outside(&there, &mut on_q));
            pair.compare(&on_q, &q, "clear_outside");
        }
    });
}

/// y = M x with a dense matrix.
pub fn region_matrices<B: DiffusionBackend, T: Real>(backend: &B) {
    for size in [1, 2, 31, 64, 500] {
        let entries: Vec<f64> = (0..size * size).map(|n| random(34, n)).collect();
        let x: Vec<f64> = (0..size).map(|n| random(35, n)).collect();
        let matrix = ok(backend.region_matrix(size, &entries));
        let (mut on_x, mut on_y) = (ok(backend.region_vector(size)), ok(backend.region_vector(size)));
        ok(backend.write_regional(&x, &mut on_x));
        ok(backend.region_multiply(&matrix, &on_x, &mut on_y));
        let mut found = vec![f64::NAN; size];
        ok(backend.read_regional(&on_y, &mut found));
        for (row, found) in entries.chunks(size).zip(&found) {
            let expected: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            assert!((found - expected).abs() < 1e-12 * size as f64, "{found} instead of {expected}");
        }
    }
}

/// Vectors hold zeros in their padding after every step: sums would show it otherwise.
pub fn diffusion_padding<B: DiffusionBackend, T: Real>(backend: &B) {
    for shape in [Shape::new(3, 3, 2), Shape::new(17, 5, 3)] {
        for stencil in stencils(shape) {
            let mut pair = Pair::<B, T>::new(backend, stencil);
            let (_, r) = pair.vector(36);
            let mut ones = ok(backend.zeros::<T>(&ok(Layout::new(shape))));
            let mut z = ok(backend.zeros::<T>(&ok(Layout::new(shape))));
            ok(backend.upload(ArrayView::constant(&1.0f64, shape), &mut ones));
            ok(pair.tested.solve_lines(&r, &mut z));
            ok(pair.tested.smooth(relaxations()[0], Guess::Given, &r, &mut z, &mut ones));
            ok(pair.tested.relax_lower(&r, &z, &mut ones, None));
            ok(backend.dot(&ones, &ones, FIRST, &mut pair.scalars));
            let mut host = vec![T::ZERO; shape.cells()];
            ok(backend.download(&ones, &mut ok(ArrayViewMut::c_order(&mut host, shape))));
            let expected: f64 = host.iter().map(|v| v.to_f64() * v.to_f64()).sum();
            pair.reference_scalars.0[FIRST.index()] = expected;
            pair.compare_scalar(FIRST, 0.0, "padding");
            compare(backend, &ones, &from_host(&host, shape), "round trip");
        }
    }
}

fn from_host<T: Real>(host: &[T], shape: Shape) -> Vector<T> {
    let mut v = ok(Vector::zeros(&ok(Layout::new(shape))));
    v.fill_with(|i, j, k| host[i + shape.nx * (j + shape.ny * k)]);
    v
}
