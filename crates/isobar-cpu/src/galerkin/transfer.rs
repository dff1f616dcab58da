//! Restriction and prolongation, direction after direction.
//!
//! Between the fine vector and the coarse one lies the *middle*: numbers on the grid that is coarse in x and fine in y and z,
//! in natural order (i fastest, then k, then j). On the fine side of it a half plane of one parity of i is a row of the
//! middle, as it is (even i) or weighted with the next one (odd i); so that side needs no shuffling, and is a stage of the
//! finer level's own passes. The other side goes plane by plane of the coarse grid.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use isobar_core::backend::{HostScalars, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{Guess, LineSmoother, Relaxation, Transfer};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::stencil::Axis;
use isobar_core::stencil::galerkin::{Execute, Weights};

use super::operator::Level27;
use crate::cpu::Cpu;
use crate::diffusion::Diffusion;
use crate::seven_point::{ChunkSpace, Stage, store};
use crate::shared::Shared;
use crate::vector::Vector;

/// The finer level.
pub(super) enum Fine<T: Real> {
    Finest(Arc<Diffusion<T>>),
    Coarse(Arc<Level27<T>>),
}

impl<T: Real> Fine<T> {
    fn smoother(&self) -> &dyn LineSmoother<Cpu, T> {
        match self {
            Self::Finest(operator) => &**operator,
            Self::Coarse(operator) => &**operator,
        }
    }
}

/// P = P_x P_y P_z, of the directions that are halved, and R = Pᵀ.
pub struct Interpolation<T: Real> {
    cpu: Cpu,
    fine: Fine<T>,
    fine_layout: Layout,
    coarse: Layout,
    /// Cells of the middle in x.
    nx: usize,
    /// Entries from one row of the middle to the next: a ghost beyond the last cell, and as much as a fine row reads.
    row: usize,
    periodic: [bool; 3],
    weights: RwLock<AxisWeights<T>>,
    workspace: Mutex<Workspace<T>>,
}

/// Weights by direction, of those that are halved.
#[derive(Default)]
struct AxisWeights<T> {
    x: Option<Stored<T>>,
    y: Option<Stored<T>>,
    z: Option<Stored<T>>,
}

/// Planes of odd cells, by j: rows of k, as long as those of the middle.
struct Stored<T> {
    planes: Vec<[Vec<T>; 2]>,
    row: usize,
}

struct Workspace<T> {
    /// By fine j.
    middle: Vec<Vec<T>>,
    /// A fine plane a thread.
    residual: Vec<Vector<T>>,
    /// Two planes of the middle's rows a thread.
    planes: Vec<[Vec<T>; 2]>,
}

impl<T: Real> Stored<T> {
    fn new(weights: &Weights, row: usize) -> Self {
        Self { planes: (0..weights.odd.shape.ny).map(|_| [Vec::new(), Vec::new()]).collect(), row }
    }

    fn set(&mut self, cpu: &Cpu, weights: &Weights) {
        let (grid, row) = (weights.odd, self.row);
        Execute::for_each(cpu, &mut self.planes, |j, plane| {
            for (which, stored) in plane.iter_mut().enumerate() {
                stored.resize(row * grid.shape.nz, T::ZERO);
                for k in 0..grid.shape.nz {
                    let from = &weights.rows(j as isize, k as isize)[which][1..=grid.shape.nx];
                    let to = &mut stored[k * row..][..grid.shape.nx];
                    to.iter_mut().zip(from).for_each(|(to, &from)| *to = T::from_f64(from));
                }
            }
        });
    }

    /// [below, above] of row k of plane j.
    #[inline(always)]
    fn rows(&self, j: usize, k: usize) -> [&[T]; 2] {
        let [below, above] = &self.planes[j];
        [&below[k * self.row..(k + 1) * self.row], &above[k * self.row..(k + 1) * self.row]]
    }
}

/// out += w x
#[inline(always)]
fn add_weighted<T: Real>(out: &mut [T], w: &[T], x: &[T]) {
    out.iter_mut().zip(w).zip(x).for_each(|((out, &w), &x)| *out += w * x);
}

/// out = a x + b y
#[inline(always)]
fn combine<T: Real>(out: &mut [T], [a, b]: [&[T]; 2], x: &[T], y: &[T]) {
    out.iter_mut()
        .zip(a.iter().zip(x))
        .zip(b.iter().zip(y))
        .for_each(|((out, (&a, &x)), (&b, &y))| *out = a * x + b * y);
}

impl<T: Real> Interpolation<T> {
    pub(super) fn new(fine: Fine<T>, coarse: Layout, weights: &[Weights]) -> Result<Self> {
        let smoother = fine.smoother();
        let (cpu, fine_layout) = (smoother.backend().clone(), *smoother.layout());
        let shape = fine_layout.shape();
        let periodic = weights.first().map_or([false; 3], |weights| weights.fine.periodic);
        let of = |axis: Axis| weights.iter().find(|weights| weights.axis == axis);
        let nx = coarse.shape().nx;
        let row = (nx.max(fine_layout.pitch()) + 1).next_multiple_of(8);
        let stored = AxisWeights {
            x: of(Axis::X).map(|w| Stored::new(w, row)),
            y: of(Axis::Y).map(|w| Stored::new(w, row)),
            z: of(Axis::Z).map(|w| Stored::new(w, row)),
        };
        let threads = cpu.threads_for(fine_layout.len()).min(shape.ny);
        let plane = Layout::new(isobar_core::layout::Shape::new(shape.nx, 1, shape.nz))?;
        let mut middle = vec![Vec::new(); shape.ny];
        Execute::for_each(&cpu, &mut middle, |_, plane| *plane = vec![T::ZERO; row * shape.nz]);
        let workspace = Workspace {
            middle,
            residual: (0..threads).map(|_| Vector::zeros(&cpu, &plane)).collect::<Result<_>>()?,
            planes: vec![[vec![T::ZERO; row * shape.nz], vec![T::ZERO; row * shape.nz]]; threads],
        };
        let this = Self {
            cpu,
            fine,
            fine_layout,
            coarse,
            nx,
            row,
            periodic,
            weights: RwLock::new(stored),
            workspace: Mutex::new(workspace),
        };
        this.update(weights);
        Ok(this)
    }

    pub(super) fn update(&self, weights: &[Weights]) {
        let mut stored = self.weights.write().unwrap_or_else(PoisonError::into_inner);
        for weights in weights {
            let stored = match weights.axis {
                Axis::X => &mut stored.x,
                Axis::Y => &mut stored.y,
                Axis::Z => &mut stored.z,
            };
            if let Some(stored) = stored {
                stored.set(&self.cpu, weights);
            }
        }
    }

    /// They are written entry by entry, and valid as numbers whatever happened elsewhere.
    fn weights(&self) -> RwLockReadGuard<'_, AxisWeights<T>> {
        self.weights.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn workspace(&self) -> MutexGuard<'_, Workspace<T>> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Position of row k of the half plane of one parity of i, behind the start of plane j.
    #[inline(always)]
    fn half_row(layout: &Layout, j: usize, parity: usize, k: usize) -> usize {
        layout.pitch() * (k + layout.shape().nz * ((j + parity) % 2))
    }

    /// Cells of one parity of i in a row.
    #[inline(always)]
    fn columns(layout: &Layout, parity: usize) -> usize {
        (layout.shape().nx + 1 - parity) / 2
    }

    /// A plane of the middle from a fine plane of f; colours that are not given count as zeros.
    #[inline(always)]
    fn gather(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], f: &[T], middle: &mut [T]) {
        let layout = &self.fine_layout;
        for (k, out) in middle.chunks_exact_mut(self.row).enumerate() {
            out.fill(T::ZERO);
            for &colour in colours {
                let parity = layout.parity(j, colour);
                let columns = Self::columns(layout, parity);
                let f = &f[Self::half_row(layout, j, parity, k)..][..columns];
                match x {
                    None => out[parity..].iter_mut().step_by(2).zip(f).for_each(|(out, &f)| *out = f),
                    Some(_) if parity == 0 => out.iter_mut().zip(f).for_each(|(out, &f)| *out += f),
                    Some(x) => {
                        let [below, above] = x.rows(j, k);
                        add_weighted(out, below, f);
                        add_weighted(&mut out[1..], above, f);
                    }
                }
            }
            // The ghost beyond the last cell of an even ring is the first one.
            if x.is_some() {
                let ghost = std::mem::take(&mut out[self.nx]);
                out[0] += ghost;
            }
        }
    }

    /// u += P_x middle on a fine plane, on some colours.
    #[inline(always)]
    fn scatter(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], middle: &[T], u: &mut [T]) {
        let layout = &self.fine_layout;
        for (k, row) in middle.chunks_exact(self.row).enumerate() {
            for &colour in colours {
                let parity = layout.parity(j, colour);
                let columns = Self::columns(layout, parity);
                let u = &mut u[Self::half_row(layout, j, parity, k)..][..columns];
                match x {
                    None => u.iter_mut().zip(row[parity..].iter().step_by(2)).for_each(|(u, &v)| *u += v),
                    Some(_) if parity == 0 => u.iter_mut().zip(row).for_each(|(u, &v)| *u += v),
                    Some(x) => {
                        let [below, above] = x.rows(j, k);
                        let terms = below.iter().zip(row).zip(above.iter().zip(&row[1..]));
                        u.iter_mut().zip(terms).for_each(|(u, ((&a, &x), (&b, &y)))| *u += a * x + b * y);
                    }
                }
            }
        }
    }

    /// From the middle to a plane of the coarse grid: `sum` and `last` are planes of space.
    #[inline(always)]
    fn gather_coarse(&self, w: &AxisWeights<T>, coarse_j: usize, middle: &[Vec<T>], sum: &mut [T], out: &mut [T]) {
        let (row, nz) = (self.row, self.fine_layout.shape().nz);
        match &w.y {
            None => sum.copy_from_slice(&middle[coarse_j]),
            Some(y) => {
                sum.copy_from_slice(&middle[2 * coarse_j]);
                let odd = y.planes.len();
                // In a ring of an odd number the last plane and the first have nothing between them.
                let is_ring = self.periodic[1] && middle.len().is_multiple_of(2);
                let before = if coarse_j > 0 { Some(coarse_j - 1) } else { is_ring.then(|| odd - 1) };
                for k in 0..nz {
                    let at = k * row..(k + 1) * row;
                    if coarse_j < odd {
                        add_weighted(
                            &mut sum[at.clone()],
                            y.rows(coarse_j, k)[0],
                            &middle[2 * coarse_j + 1][at.clone()],
                        );
                    }
                    if let Some(before) = before {
                        add_weighted(&mut sum[at.clone()], y.rows(before, k)[1], &middle[2 * before + 1][at]);
                    }
                }
            }
        }
        let coarse_nz = self.coarse.shape().nz;
        for k in 0..coarse_nz {
            if let Some(z) = &w.z {
                let odd = nz / 2;
                let is_ring = self.periodic[2] && nz.is_multiple_of(2);
                let before = if k > 0 { Some(k - 1) } else { is_ring.then(|| odd - 1) };
                // Row 2k is read once more only by what comes after; it becomes the sum.
                if k < odd {
                    let (own, other) = sum.split_at_mut((2 * k + 1) * row);
                    add_weighted(&mut own[2 * k * row..], z.rows(coarse_j, k)[0], &other[..row]);
                }
                if let Some(before) = before {
                    let weights = z.rows(coarse_j, before)[1];
                    let odd_row = 2 * before + 1;
                    if odd_row < 2 * k {
                        let (other, own) = sum.split_at_mut(2 * k * row);
                        add_weighted(&mut own[..row], weights, &other[odd_row * row..]);
                    } else {
                        let (own, other) = sum.split_at_mut(odd_row * row);
                        add_weighted(&mut own[2 * k * row..][..row], weights, &other[..row]);
                    }
                }
            }
            let from = &sum[if w.z.is_some() { 2 * k } else { k } * row..][..self.nx];
            for parity in 0..2 {
                let to = &mut out[Self::half_row(&self.coarse, coarse_j, parity, k)..][..self.coarse.pitch()];
                let columns = Self::columns(&self.coarse, parity);
                let values = from.get(parity..).unwrap_or(&[]).iter().step_by(2);
                to[..columns].iter_mut().zip(values).for_each(|(to, &value)| *to = value);
                to[columns..].fill(T::ZERO);
            }
        }
    }

    /// A plane that is coarse in y, from one of the coarse grid.
    #[inline(always)]
    fn scatter_coarse(&self, w: &AxisWeights<T>, coarse_j: usize, coarse_u: &[T], out: &mut [T]) {
        let (row, nz) = (self.row, self.fine_layout.shape().nz);
        let step = if w.z.is_some() { 2 } else { 1 };
        for k in 0..self.coarse.shape().nz {
            let out = &mut out[step * k * row..][..row];
            for parity in 0..2 {
                let columns = Self::columns(&self.coarse, parity);
                let from = &coarse_u[Self::half_row(&self.coarse, coarse_j, parity, k)..][..columns];
                out[parity..].iter_mut().step_by(2).zip(from).for_each(|(out, &value)| *out = value);
            }
            out[self.nx..].fill(T::ZERO);
        }
        if let Some(z) = &w.z {
            for k in 0..nz / 2 {
                let (lower, rest) = out.split_at_mut((2 * k + 1) * row);
                let (own, upper) = rest.split_at_mut(row);
                let below = &lower[2 * k * row..];
                let above = if 2 * k + 2 < nz { &upper[..row] } else { &lower[..row] };
                combine(own, z.rows(coarse_j, k), below, above);
            }
        }
        self.close_rings(out);
    }

    /// Beyond the last cell of a ring comes the first.
    #[inline(always)]
    fn close_rings(&self, plane: &mut [T]) {
        if self.periodic[0] {
            plane.chunks_exact_mut(self.row).for_each(|row| row[self.nx] = row[0]);
        }
    }

    /// coarse_f = P_zᵀ P_yᵀ middle
    fn restrict_middle(&self, w: &AxisWeights<T>, workspace: &mut Workspace<T>, coarse_f: &mut Vector<T>) {
        let Workspace { middle, planes, .. } = workspace;
        let (middle, out, ny) = (&*middle, coarse_f.share_mut(), self.coarse.shape().ny);
        let plane = 2 * self.coarse.half_plane();
        let threads = planes.len().min(ny);
        let spaces = Shared::of(planes);
        self.cpu.for_each(threads, |thread| {
            // SAFETY: each thread has its own space, each plane of the vector one thread.
            let [sum, _] = unsafe { &mut spaces.row_mut(thread as isize, 1)[0] };
            for j in ny * thread / threads..ny * (thread + 1) / threads {
                // SAFETY: as above.
                let out = unsafe { out.row_mut((j * plane) as isize, plane) };
                self.cpu.dispatch::<T, _>(
                    #[inline(always)]
                    || self.gather_coarse(w, j, middle, sum, out),
                );
            }
        });
    }

    /// middle = P_y P_z coarse_u
    fn prolong_to_middle(&self, w: &AxisWeights<T>, workspace: &mut Workspace<T>, coarse_u: &Vector<T>) {
        let Workspace { middle, planes, .. } = workspace;
        let (coarse_u, ny) = (coarse_u.entries(), self.coarse.shape().ny);
        let (fine_ny, nz, row) = (self.fine_layout.shape().ny, self.fine_layout.shape().nz, self.row);
        let plane = 2 * self.coarse.half_plane();
        let of = |j: usize| &coarse_u[j * plane..(j + 1) * plane];
        let threads = planes.len().min(ny);
        let (spaces, middle) = (Shared::of(planes), Shared::of(middle));
        self.cpu.for_each(threads, |thread| {
            // SAFETY: each thread has its own space.
            let [own, next] = unsafe { &mut spaces.row_mut(thread as isize, 1)[0] };
            let (first, beyond) = (ny * thread / threads, ny * (thread + 1) / threads);
            self.cpu.dispatch::<T, _>(
                #[inline(always)]
                || {
                    let Some(y) = &w.y else {
                        for j in first..beyond {
                            // SAFETY: each plane has one thread.
                            self.scatter_coarse(w, j, of(j), unsafe { &mut middle.row_mut(j as isize, 1)[0] });
                        }
                        return;
                    };
                    self.scatter_coarse(w, first, of(first), own);
                    for j in first..beyond {
                        // SAFETY: as above.
                        unsafe { &mut middle.row_mut(2 * j as isize, 1)[0] }.copy_from_slice(own);
                        if 2 * j + 1 == fine_ny {
                            break;
                        }
                        let other = if j + 1 < ny { j + 1 } else { 0 };
                        self.scatter_coarse(w, other, of(other), next);
                        // SAFETY: as above.
                        let odd = unsafe { &mut middle.row_mut(2 * j as isize + 1, 1)[0] };
                        for k in 0..nz {
                            let at = k * row..(k + 1) * row;
                            combine(&mut odd[at.clone()], y.rows(j, k), &own[at.clone()], &next[at]);
                        }
                        self.close_rings(odd);
                        std::mem::swap(own, next);
                    }
                },
            );
        });
    }

    /// A fine plane of a vector to the middle.
    #[inline(always)]
    fn gather_plane(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], f: &[T], middle: Shared<Vec<T>>) {
        // SAFETY: each plane has one thread.
        let out = unsafe { &mut middle.row_mut(j as isize, 1)[0] };
        self.cpu.dispatch::<T, _>(
            #[inline(always)]
            || self.gather(x, j, colours, f, out),
        );
    }

    /// u += P_x middle on plane j.
    #[inline(always)]
    fn scatter_plane(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], middle: &[Vec<T>], u: Shared<T>) {
        let plane = 2 * self.fine_layout.half_plane();
        // SAFETY: each plane has one thread, or one stage at a time.
        let u = unsafe { u.row_mut((j * plane) as isize, plane) };
        self.cpu.dispatch::<T, _>(
            #[inline(always)]
            || self.scatter(x, j, colours, &middle[j], u),
        );
    }

    /// Runs `f(j, thread)` for all planes of the finer grid.
    fn for_each_fine_plane(&self, threads: usize, f: impl Fn(usize, usize) + Sync) {
        let ny = self.fine_layout.shape().ny;
        self.cpu.for_each(threads, |thread| {
            for j in ny * thread / threads..ny * (thread + 1) / threads {
                f(j, thread);
            }
        });
    }
}

impl<T: Real> Transfer<Cpu, T> for Interpolation<T> {
    fn fine(&self) -> &dyn LineSmoother<Cpu, T> {
        self.fine.smoother()
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        true
    }

    fn restrict(&self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let (w, mut workspace) = (self.weights(), self.workspace());
        let plane = 2 * self.fine_layout.half_plane();
        let threads = workspace.planes.len();
        let middle = Shared::of(&mut workspace.middle);
        let f = f.entries();
        self.for_each_fine_plane(threads, |j, _| {
            self.gather_plane(w.x.as_ref(), j, &Colour::BOTH, &f[j * plane..(j + 1) * plane], middle);
        });
        self.restrict_middle(&w, &mut workspace, coarse_f);
        Ok(())
    }

    fn prolong(&self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (w, mut workspace) = (self.weights(), self.workspace());
        self.prolong_to_middle(&w, &mut workspace, coarse_u);
        let (middle, u) = (&workspace.middle, u.share_mut());
        self.for_each_fine_plane(workspace.planes.len(), |j, _| {
            self.scatter_plane(w.x.as_ref(), j, &Colour::BOTH, middle, u);
        });
        Ok(())
    }

    fn residual_restrict(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        let (w, mut workspace) = (self.weights(), self.workspace());
        let plane = 2 * self.fine_layout.half_plane();
        let Workspace { middle, residual, .. } = &mut *workspace;
        let threads = residual.len();
        let (middle, spaces) = (Shared::of(middle), Shared::of(residual));
        let (f, u) = (f.share(), u.share());
        // SAFETY: each thread has its own.
        let space = |thread: usize| unsafe { &mut spaces.row_mut(thread as isize, 1)[0] };
        let gather = |j: usize, thread: usize| {
            self.gather_plane(w.x.as_ref(), j, &Colour::BOTH, space(thread).entries(), middle);
        };
        match &self.fine {
            Fine::Finest(operator) => {
                let c = operator.coefficients();
                self.for_each_fine_plane(threads, |j, thread| {
                    let r = space(thread).share_mut();
                    operator.residual_into(&c, j, [f, u], r, -((j * plane) as isize));
                    gather(j, thread);
                });
            }
            Fine::Coarse(operator) => {
                let numbers = operator.numbers();
                self.for_each_fine_plane(threads, |j, thread| {
                    let r = space(thread).share_mut();
                    operator.plane(&numbers, j, Some(f), u, (r, -((j * plane) as isize)));
                    gather(j, thread);
                });
            }
        }
        self.restrict_middle(&w, &mut workspace, coarse_f);
        Ok(())
    }

    fn smooth_residual_restrict(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        let Fine::Finest(operator) = &self.fine else {
            self.fine().smooth(relaxation, guess, f, u, scratch)?;
            return self.residual_restrict(f, u, coarse_f, scratch);
        };
        if relaxation.smoother != Smoother::LineRedBlack {
            operator.smooth(relaxation, guess, f, u, scratch)?;
            return self.residual_restrict(f, u, coarse_f, scratch);
        }
        let guess = operator.prepare(relaxation, guess, u);
        let (w, mut workspace) = (self.weights(), self.workspace());
        let plane = 2 * self.fine_layout.half_plane();
        {
            let Workspace { middle, residual, .. } = &mut *workspace;
            let (middle, spaces) = (Shared::of(middle), Shared::of(residual));
            let vectors = [f.share(), u.share_mut()];
            let (c, mut inner) = (operator.coefficients(), operator.workspace());
            // After a sweep the residual vanishes on the colour that it ended with.
            let unsolved = operator.unsolved(relaxation);
            let gather = |j: usize, space: &mut ChunkSpace<T>| {
                // SAFETY: chunks have one each.
                let r = unsafe { &mut spaces.row_mut(space.number() as isize, 1)[0] };
                for &colour in unsolved {
                    operator.residual_of(&c, j, colour, vectors, r.share_mut(), -((j * plane) as isize));
                }
                self.gather_plane(w.x.as_ref(), j, unsolved, r.entries(), middle);
            };
            operator.pass_around_sweep(&c, &mut inner, None, (relaxation, guess), vectors, Some(&gather));
        }
        self.restrict_middle(&w, &mut workspace, coarse_f);
        Ok(())
    }

    fn prolong_smooth(
        &self,
        relaxation: Relaxation,
        f: &Vector<T>,
        coarse_u: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        norm: Option<(Scalar, &mut HostScalars)>,
    ) -> Result<()> {
        let Fine::Finest(fine) = &self.fine else {
            self.prolong(coarse_u, u)?;
            self.fine().smooth(relaxation, Guess::Given, f, u, scratch)?;
            return norm.map_or(Ok(()), |(scalar, scalars)| self.fine().residual_norm(f, u, scratch, scalar, scalars));
        };
        if relaxation.smoother != Smoother::LineRedBlack {
            self.prolong(coarse_u, u)?;
            fine.smooth(relaxation, Guess::Given, f, u, scratch)?;
            return norm.map_or(Ok(()), |(scalar, scalars)| self.fine().residual_norm(f, u, scratch, scalar, scalars));
        }
        let (w, mut workspace) = (self.weights(), self.workspace());
        self.prolong_to_middle(&w, &mut workspace, coarse_u);
        let (middle, vectors) = (&workspace.middle, [f.share(), u.share_mut()]);
        let (c, mut inner) = (fine.coefficients(), fine.workspace());
        let (sums, unsolved, needed) =
            (Shared::of(&mut inner.sums), fine.unsolved(relaxation), fine.needed(relaxation));
        let prolong = |j: usize, _: &mut ChunkSpace<T>| {
            self.scatter_plane(w.x.as_ref(), j, needed, middle, vectors[1]);
        };
        let measure = |j: usize, space: &mut ChunkSpace<T>| {
            store(sums, j, [fine.residual_plane(&c, j, unsolved, vectors, None::<Shared<T>>, space), 0.0]);
        };
        let after: Option<Stage<'_, T>> = if norm.is_some() { Some(&measure) } else { None };
        fine.pass_around_sweep(&c, &mut inner, Some(&prolong), (relaxation, Guess::Given), vectors, after);
        if let Some((scalar, scalars)) = norm {
            scalars.reduce(scalar, [inner.total(0)]);
        }
        Ok(())
    }
}
