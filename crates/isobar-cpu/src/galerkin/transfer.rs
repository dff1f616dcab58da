//! Restriction and prolongation, direction by direction.
//!
//! Between the fine and the coarse vector lies the *middle grid*, which is coarse in x and fine in y and z, in natural order
//! (i fastest, then k, then j). On the way to the fine grid, a half plane of one parity of i is a row of the middle grid,
//! unchanged (even i) or weighted with the next one (odd i); this needs no shuffling, and is a stage of the finer level's
//! passes. On the way to the coarse grid, it is processed plane by plane of the coarse grid.

use isobar_core::operator::{prolong_smooth_unfused, smooth_residual_restrict_unfused};
use isobar_core::prelude::{
    Backend, Colour, Guess, Layout, LineSmoother, Real, Relaxation, Result, Smoother, Sum, Sweep, Transfer,
};

use super::interpolation::{Fine, Interpolation, Workspace};
use super::operator::Level27;
use super::streams::Order;
use super::weights::{AxisWeights, Stored, combine};
use crate::seven_point::ChunkSpace;
use crate::{Cpu, Shared, Vector};

impl<T: Real> Interpolation<T> {
    /// Sends the last plane of the middle to the next subdomain, and receives that of the previous one.
    fn pass_on(&self, workspace: &mut Workspace<T>) -> Result<()> {
        let Workspace { middle, before, edge: Some(edge), .. } = workspace else { return Ok(()) };
        let Some(last) = middle.last() else { return Ok(()) };
        // Rows of the middle are no longer than those of a plane of a vector, of both colours.
        let (nx, pitch) = (self.nx, 2 * self.fine_layout.pitch());
        let rows = |row: usize| row * pitch..row * pitch + nx;
        let own = edge.entries_mut();
        for (k, from) in last.chunks_exact(self.row).enumerate() {
            own[rows(k)].copy_from_slice(&from[..nx]);
        }
        self.cpu.fill(edge, &Colour::BOTH)?;
        if edge.layout().halo()[0] > 0 {
            for (k, to) in before.chunks_exact_mut(self.row).enumerate() {
                to[..nx].copy_from_slice(&edge.all_entries()[rows(k)]);
            }
        }
        Ok(())
    }

    /// Computes coarse_f = P_zᵀ P_yᵀ middle.
    fn restrict_middle(
        &self,
        w: &AxisWeights<T>,
        workspace: &mut Workspace<T>,
        coarse_f: &mut Vector<T>,
    ) -> Result<()> {
        self.pass_on(workspace)?;
        let Workspace { middle, before, edge, planes, .. } = workspace;
        let before = edge.as_ref().filter(|edge| edge.layout().halo()[0] > 0).map(|_| &before[..]);
        let (middle, out, ny) = ((before, &middle[..]), coarse_f.share_mut(), self.coarse.shape().ny);
        let plane = 2 * self.coarse.half_plane();
        let threads = planes.len().min(ny);
        let spaces = Shared::of(planes);
        self.cpu.for_each(threads, |thread| {
            // SAFETY: each thread has its own space.
            let [sum, _] = unsafe { &mut spaces.row_mut(thread as isize, 1)[0] };
            let sum = Shared::of(sum);
            for j in ny * thread / threads..ny * (thread + 1) / threads {
                self.cpu.for_each_piece(&self.coarse, self.fine_layout.shape().nz, |_, first, beyond| {
                    // SAFETY: each piece has its own layers of the thread's space.
                    let sum = unsafe { sum.row_mut((first * self.row) as isize, (beyond - first) * self.row) };
                    self.cpu.vectorize::<T>(
                        #[inline(always)]
                        || self.gather_in_y(w.y.as_ref(), (j, first), middle, sum),
                    );
                });
                self.cpu.for_each_piece(&self.coarse, self.coarse.shape().nz, |_, first, beyond| {
                    self.cpu.vectorize::<T>(
                        #[inline(always)]
                        // SAFETY: as above; each plane of the vector belongs to one thread.
                        || unsafe {
                            let out = (out, (j * plane) as isize);
                            self.gather_in_z(w.z.as_ref(), (j, (first, beyond)), sum, out);
                        },
                    );
                });
            }
        });
        Ok(())
    }

    /// Expands a plane of the coarse grid, which may be a halo plane, to one that is coarse in y.
    fn scatter_coarse(&self, w: &AxisWeights<T>, coarse_j: usize, coarse_u: &[T], out: &mut [T]) {
        let (out, step) = (Shared::of(out), if w.z.is_some() { 2 } else { 1 });
        self.cpu.for_each_piece(&self.coarse, self.coarse.shape().nz, |_, first, beyond| {
            self.cpu.vectorize::<T>(
                #[inline(always)]
                // SAFETY: each piece has its own layers.
                || unsafe { self.scatter_layers(step, (coarse_j, (first, beyond)), coarse_u, out) },
            );
        });
        let Some(z) = &w.z else { return };
        self.cpu.for_each_piece(&self.coarse, self.fine_layout.shape().nz / 2, |_, first, beyond| {
            self.cpu.vectorize::<T>(
                #[inline(always)]
                // SAFETY: as above.
                || unsafe { self.scatter_between(z, (coarse_j, (first, beyond)), out) },
            );
        });
    }

    /// Computes middle = P_y P_z coarse_u.
    fn prolong_to_middle(&self, w: &AxisWeights<T>, workspace: &mut Workspace<T>, coarse_u: &Vector<T>) {
        let Workspace { middle, planes, .. } = workspace;
        // Beyond the last plane of a subdomain lies its halo plane.
        let (coarse_u, ny) = (&coarse_u.all_entries()[self.coarse.halo_len()[0]..], self.coarse.shape().ny);
        let fine_ny = self.fine_layout.shape().ny;
        let plane = 2 * self.coarse.half_plane();
        let of = |j: usize| &coarse_u[j * plane..(j + 1) * plane];
        let threads = planes.len().min(ny);
        let (spaces, middle) = (Shared::of(planes), Shared::of(middle));
        self.cpu.for_each(threads, |thread| {
            // SAFETY: each thread has its own space.
            let [own, next] = unsafe { &mut spaces.row_mut(thread as isize, 1)[0] };
            let (first, beyond) = (ny * thread / threads, ny * (thread + 1) / threads);
            let Some(y) = &w.y else {
                for j in first..beyond {
                    // SAFETY: each plane belongs to one thread.
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
                let other = if j + 1 < ny + self.coarse.halo()[1] { j + 1 } else { 0 };
                self.scatter_coarse(w, other, of(other), next);
                // SAFETY: as above.
                let odd = unsafe { &mut middle.row_mut(2 * j as isize + 1, 1)[0] };
                self.cpu.vectorize::<T>(
                    #[inline(always)]
                    || {
                        let [below, above] = &y.planes[self.first[1] + j];
                        combine(odd, [&below[..], above], own, next);
                        self.close_rings(odd);
                    },
                );
                std::mem::swap(own, next);
            }
        });
    }

    /// Restricts a fine plane of a vector to the middle.
    fn gather_plane(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], f: &[T], middle: Shared<Vec<T>>) {
        // SAFETY: each plane belongs to one thread.
        let out = Shared::of(unsafe { &mut middle.row_mut(j as isize, 1)[0] });
        self.cpu.for_each_piece(&self.fine_layout, self.fine_layout.shape().nz, |_, first, beyond| {
            // SAFETY: each piece has its own layers.
            let out = unsafe { out.row_mut((first * self.row) as isize, (beyond - first) * self.row) };
            self.cpu.vectorize::<T>(
                #[inline(always)]
                || self.gather(x, (j, first), colours, f, out),
            );
        });
    }

    /// Computes u += P_x middle on plane j.
    fn scatter_plane(&self, x: Option<&Stored<T>>, j: usize, colours: &[Colour], middle: &[Vec<T>], u: Shared<T>) {
        let start = (2 * self.fine_layout.half_plane() * j) as isize;
        self.cpu.for_each_piece(&self.fine_layout, self.fine_layout.shape().nz, |_, first, beyond| {
            let middle = &middle[j][first * self.row..beyond * self.row];
            self.cpu.vectorize::<T>(
                #[inline(always)]
                // SAFETY: each plane belongs to one thread, or to one stage at a time, and each piece has its own layers.
                || unsafe { self.scatter(x, (j, first), colours, middle, (u, start)) },
            );
        });
    }

    /// Runs one sweep of a coarse level with the residual's restriction, in one pass over the planes.
    fn sweep_and_restrict(
        &self,
        operator: &Level27<T>,
        (relaxation, guess): (Relaxation, Guess),
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
    ) -> Result<()> {
        operator.prepare(guess, u);
        let (w, mut workspace) = (self.weights(), self.workspace());
        let order = Order::of(relaxation);
        // The last colour of a sweep is solved exactly, unless its columns couple to each other.
        let is_exact = relaxation.rho == 1.0 && operator.has_no_rings();
        {
            let plane = 2 * self.fine_layout.half_plane();
            let Workspace { middle, residual, .. } = &mut *workspace;
            let (middle, spaces) = (Shared::of(middle), Shared::of(residual));
            let (numbers, mut inner) = (operator.numbers(), operator.workspace());
            let vectors @ [_, shared] = [f.share(), u.share_mut()];
            let restrict = |j: usize, chunk: usize| {
                // SAFETY: each chunk has its own.
                let space = unsafe { &mut spaces.row_mut(chunk as isize, 1)[0] };
                let r = (space.share_mut(), -((j * plane) as isize));
                let is_unsolved = |column: usize| !is_exact || order.turn([column, j % 2]) < 3;
                for column in [0, 1].into_iter().filter(|&column| is_unsolved(column)) {
                    match guess {
                        Guess::Zero if is_exact => operator.residual_after(&numbers, (j, column), order, shared, r),
                        _ => operator.residual_of(&numbers, (j, column), vectors, r),
                    }
                }
                let colour = |column: usize| Colour::BOTH[Level27::<T>::colour(j, column)];
                let colours = [colour(0), colour(1)];
                let from = usize::from(!is_unsolved(0));
                let beyond = 2 - usize::from(!is_unsolved(1));
                self.gather_plane(w.x.as_ref(), j, &colours[from..beyond], space.entries(), middle);
            };
            let fill = &mut || self.cpu.fill(u, &Colour::BOTH);
            operator.sweep(&numbers, &mut inner, (relaxation, guess), vectors, Some(&restrict), fill)?;
        }
        self.restrict_middle(&w, &mut workspace, coarse_f)
    }

    /// Calls `f(j, thread)` for all planes of the finer grid.
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

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.cpu.fill(coarse_u, &Colour::BOTH)?;
        let (w, mut workspace) = (self.weights(), self.workspace());
        self.prolong_to_middle(&w, &mut workspace, coarse_u);
        let (middle, u) = (&workspace.middle, u.share_mut());
        self.for_each_fine_plane(workspace.planes.len(), |j, _| {
            self.scatter_plane(w.x.as_ref(), j, &Colour::BOTH, middle, u);
        });
        Ok(())
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let (w, mut workspace) = (self.weights(), self.workspace());
        let plane = 2 * self.fine_layout.half_plane();
        let threads = workspace.planes.len();
        let middle = Shared::of(&mut workspace.middle);
        let f = f.entries();
        self.for_each_fine_plane(threads, |j, _| {
            self.gather_plane(w.x.as_ref(), j, &Colour::BOTH, &f[j * plane..(j + 1) * plane], middle);
        });
        self.restrict_middle(&w, &mut workspace, coarse_f)
    }

    fn residual_restrict(&self, f: &Vector<T>, [u, coarse_f, _]: [&mut Vector<T>; 3]) -> Result<()> {
        self.cpu.fill(u, &Colour::BOTH)?;
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
                    let r = (space(thread).share_mut(), -((j * plane) as isize));
                    [0, 1].into_iter().for_each(|parity| operator.residual_of(&numbers, (j, parity), [f, u], r));
                    gather(j, thread);
                });
            }
        }
        self.restrict_middle(&w, &mut workspace, coarse_f)
    }

    fn smooth_residual_restrict(&self, sweep: Sweep<'_, Vector<T>>, coarse_f: &mut Vector<T>) -> Result<()> {
        if sweep.relaxation.smoother != Smoother::LineRedBlack {
            return smooth_residual_restrict_unfused(self, sweep, coarse_f);
        }
        let Sweep { relaxation, guess, f, u, .. } = sweep;
        let operator = match &self.fine {
            Fine::Finest(operator) => operator,
            Fine::Coarse(operator) => {
                return self.sweep_and_restrict(operator, (relaxation, guess), f, u, coarse_f);
            }
        };
        let guess = operator.prepare(relaxation, guess, u);
        let (w, mut workspace) = (self.weights(), self.workspace());
        let plane = 2 * self.fine_layout.half_plane();
        {
            let Workspace { middle, residual, .. } = &mut *workspace;
            let (middle, spaces) = (Shared::of(middle), Shared::of(residual));
            let vectors = [f.share(), u.share_mut()];
            let (c, mut inner) = (operator.coefficients(), operator.workspace());
            // After a sweep the residual vanishes on its last colour.
            let unsolved = operator.unsolved(relaxation);
            let gather = |j: usize, space: &mut ChunkSpace<T>| {
                // SAFETY: each chunk has its own.
                let r = unsafe { &mut spaces.row_mut(space.number as isize, 1)[0] };
                for &colour in unsolved {
                    operator.residual_of(&c, j, colour, vectors, r.share_mut(), -((j * plane) as isize));
                }
                self.gather_plane(w.x.as_ref(), j, unsolved, r.entries(), middle);
            };
            let sweep = (relaxation, guess, 1);
            operator.pass_around_sweeps(&c, &mut inner, sweep, [None, Some(&gather)], vectors, u)?;
        }
        self.restrict_middle(&w, &mut workspace, coarse_f)
    }

    fn prolong_smooth(
        &self,
        coarse_u: &mut Vector<T>,
        sweep: Sweep<'_, Vector<T>>,
        norm: Option<Sum<'_, Cpu>>,
    ) -> Result<()> {
        let fine = match &self.fine {
            Fine::Finest(fine) if sweep.relaxation.smoother == Smoother::LineRedBlack => fine,
            _ => return prolong_smooth_unfused(self, coarse_u, sweep, norm),
        };
        let Sweep { relaxation, f, u, .. } = sweep;
        self.cpu.fill(coarse_u, &Colour::BOTH)?;
        let (w, mut workspace) = (self.weights(), self.workspace());
        self.prolong_to_middle(&w, &mut workspace, coarse_u);
        let (middle, vectors) = (&workspace.middle, [f.share(), u.share_mut()]);
        let needed = fine.needed(relaxation);
        let prolong = |j: usize, _: &mut ChunkSpace<T>| {
            self.scatter_plane(w.x.as_ref(), j, needed, middle, vectors[1]);
        };
        fine.sweep_after(&prolong, relaxation, vectors, norm, u)
    }
}
