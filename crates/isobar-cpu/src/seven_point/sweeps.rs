//! Relaxation of lines, and the steps that share its pass.

use isobar_core::prelude::{
    Backend, Colour, Error, Guess, LineSmoother, MixedSmoother, Real, Relaxation, Result, Smoother, Sum, Sweep,
};

use super::kernels::{Nowhere, Residual, Rounded, Shifted};
use super::lines::{Correction, Relax, Solve};
use super::{ChunkSpace, PLANES, SevenPoint, Stage, Stored, Workspace, store};
use crate::{Cpu, Shared, Vector, blas};

/// The most sweeps in one pass.
pub(crate) const MOST_SWEEPS: usize = 3;
/// The most stages of a pass: half sweeps, one before and one after.
const MAX_STAGES: usize = 3 * MOST_SWEEPS + 2;

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Returns whether a sweep leaves no residual on its last colour, and reads no old values of the other: red–black without
    /// over-relaxation, with columns that are not periodic.
    fn solves_lines(&self, relaxation: Relaxation) -> bool {
        relaxation.overwrites() && !self.geometry().periodic[2]
    }

    /// Returns the colour that a sweep begins with, as it is stored here.
    fn first(&self, relaxation: Relaxation) -> Colour {
        self.geometry().layout.local(relaxation.first)
    }

    /// Returns the colours whose residual does not vanish after a sweep.
    pub(crate) fn unsolved(&self, relaxation: Relaxation) -> &'static [Colour] {
        match self.geometry().layout.local(relaxation.last()) {
            _ if !self.solves_lines(relaxation) => &Colour::BOTH,
            Colour::Red => &[Colour::Black],
            Colour::Black => &[Colour::Red],
        }
    }

    /// Returns the colours whose old values a sweep reads.
    pub(crate) fn needed(&self, relaxation: Relaxation) -> &'static [Colour] {
        match self.first(relaxation) {
            _ if !self.solves_lines(relaxation) => &Colour::BOTH,
            Colour::Red => &[Colour::Black],
            Colour::Black => &[Colour::Red],
        }
    }

    /// Prepares u for a sweep and returns the guess that it assumes. Only a sweep that overwrites all columns needs no old
    /// values; for the others a guess of zero is written to u.
    pub(crate) fn prepare(&self, relaxation: Relaxation, guess: Guess, u: &mut Vector<T>) -> Guess {
        // Relaxation of points from zero writes all of u.
        if guess == Guess::Given || relaxation.smoother == Smoother::PointRedBlack {
            return guess;
        }
        if !self.solves_lines(relaxation) {
            blas::fill(self.cpu(), T::ZERO, u);
            return Guess::Given;
        }
        // The first and the last number of each half plane are multiplied by zero entries if their neighbours are rows at an
        // end of lines; old values there might be NaN.
        for half_plane in u.entries_mut().chunks_exact_mut(self.geometry().layout.half_plane()) {
            if let [first, .., last] = half_plane {
                (*first, *last) = (T::ZERO, T::ZERO);
            }
        }
        let (halo, own) = (self.geometry().layout.halo_len(), self.geometry().layout.len());
        let entries = u.all_entries_mut();
        entries[..halo[0]].fill(T::ZERO);
        entries[halo[0] + own..].fill(T::ZERO);
        guess
    }

    /// z = M⁻¹ r on one colour
    pub(crate) fn solve(&self, c: &C, j: usize, colour: Colour, [r, z]: [Shared<T>; 2], space: &mut ChunkSpace<T>) {
        let h = self.geometry().half_plane(j, colour);
        self.on_lines(c, space, |space| Solve { h, r, z, space });
    }

    /// Computes Σ (f − A u)² over the given colours of plane j; stores the residual if it is wanted, zero on the others.
    pub(crate) fn residual_plane<R: Real>(
        &self,
        c: &C,
        j: usize,
        colours: &[Colour],
        [f, u]: [Shared<T>; 2],
        r: Option<Shared<R>>,
        space: &mut ChunkSpace<T>,
    ) -> f64 {
        let g = self.geometry();
        let mut total = 0.0;
        for colour in Colour::BOTH {
            let h = g.half_plane(j, colour);
            if colours.contains(&colour) {
                let sums = match r {
                    Some(vector) => {
                        let rows = Shared::of(&mut space.rows);
                        self.on_rows(c, |piece| Residual { h, f, u, to: Rounded { vector, rows, piece } })
                    }
                    None => self.on_rows(c, |_| Residual { h, f, u, to: Nowhere }),
                };
                total += sums[0];
            } else if let Some(r) = r {
                // SAFETY: only this stage uses plane j of r.
                unsafe { r.row_mut(h.start, g.layout.half_plane()) }.fill(R::ZERO);
            }
        }
        total
    }

    /// Computes r = f − A u on plane j, stored at a distance from its place in f; Σ r².
    pub(crate) fn residual_into(&self, c: &C, j: usize, [f, u]: [Shared<T>; 2], r: Shared<T>, shift: isize) -> f64 {
        self.on_both(c, j, |h| Residual { h, f, u, to: Shifted { vector: r, shift } })[0]
    }

    /// Computes r = f − A u on one colour of plane j.
    pub(crate) fn residual_of(
        &self,
        c: &C,
        j: usize,
        colour: Colour,
        [f, u]: [Shared<T>; 2],
        r: Shared<T>,
        shift: isize,
    ) {
        let h = self.geometry().half_plane(j, colour);
        self.on_rows(c, |_| Residual { h, f, u, to: Shifted { vector: r, shift } });
    }

    /// Computes u += a x on some colours of plane j, x being stored at a distance from its place in u.
    fn add_plane<R: Real>(&self, j: usize, colours: &[Colour], a: T, (x, shift): (Shared<R>, isize), u: Shared<T>) {
        let g = self.geometry();
        for &colour in colours {
            let (start, len) = (g.half_plane(j, colour).start, g.layout.half_plane());
            // SAFETY: only this stage uses plane j of u; that of x is complete.
            let (x, u) = unsafe { (x.row(start + shift, len), u.row_mut(start, len)) };
            blas::axpy_part::<T, _, _>(self.cpu(), a, x, u);
        }
    }

    /// Runs a pass of `before`, of a red–black sweep and, if requested, of ‖f − A u‖².
    pub(crate) fn sweep_after(
        &self,
        before: Stage<'_, T>,
        relaxation: Relaxation,
        vectors: [Shared<T>; 2],
        norm: Option<Sum<'_, Cpu>>,
        u: &mut Vector<T>,
    ) -> Result<()> {
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let (sums, unsolved) = (Shared::of(&mut workspace.sums), self.unsolved(relaxation));
        let measure = |j: usize, space: &mut ChunkSpace<T>| {
            store(sums, j, [self.residual_plane(&c, j, unsolved, vectors, None::<Shared<T>>, space), 0.0]);
        };
        let after: Option<Stage<'_, T>> = if norm.is_some() { Some(&measure) } else { None };
        let sweep = (relaxation, Guess::Given, 1);
        self.pass_around_sweeps(&c, &mut workspace, sweep, [Some(before), after], vectors, u)?;
        norm.map_or(Ok(()), |norm| self.reduce(&workspace, norm))
    }

    /// Runs a pass with the stages of some red–black sweeps in the middle, at most [`MOST_SWEEPS`]. The guess is that of the
    /// first one. Before each, the halo of u is filled; `filled` is the vector of u.
    pub(crate) fn pass_around_sweeps(
        &self,
        c: &C,
        workspace: &mut Workspace<T>,
        (relaxation, guess, sweeps): (Relaxation, Guess, usize),
        [before, after]: [Option<Stage<'_, T>>; 2],
        [f, u]: [Shared<T>; 2],
        filled: &mut Vector<T>,
    ) -> Result<()> {
        let (rho, colour) = (T::from_f64(relaxation.rho), self.first(relaxation));
        let is_by_points = relaxation.smoother == Smoother::PointRedBlack;
        let relax = |j: usize, colour: Colour, space: &mut ChunkSpace<T>| {
            if is_by_points {
                return self.relax_cells(c, j, colour, rho, Guess::Given, [f, u]);
            }
            let h = self.geometry().half_plane(j, colour);
            self.on_lines(c, space, |space| Relax { h, rho, f, u, space });
        };
        let first = |j: usize, space: &mut ChunkSpace<T>| match guess {
            Guess::Zero if is_by_points => self.relax_cells(c, j, colour, rho, Guess::Zero, [f, u]),
            Guess::Zero => self.solve(c, j, colour, [f, u], space),
            Guess::Given => relax(j, colour, space),
        };
        let second = |j: usize, space: &mut ChunkSpace<T>| relax(j, colour.other(), space);
        let mut stages: [Stage<'_, T>; MAX_STAGES] = [&first; MAX_STAGES];
        let mut count = 0;
        let again = |j: usize, space: &mut ChunkSpace<T>| relax(j, colour, space);
        let third = relaxation.returns.then_some(&again as Stage<'_, T>);
        let halves = (0..sweeps)
            .flat_map(|n| [if n == 0 { &first as Stage<'_, T> } else { &again }, &second].into_iter().chain(third));
        for stage in before.into_iter().chain(halves).chain(after) {
            stages[count] = stage;
            count += 1;
        }
        // Each stage reads the halo of the colour that was relaxed last; a colour of cells has columns of both colours.
        let first_half = usize::from(before.is_some());
        let [first, second]: [&[Colour]; 2] = match relaxation.first {
            _ if is_by_points => [&Colour::BOTH; 2],
            Colour::Red => [&[Colour::Red], &[Colour::Black]],
            Colour::Black => [&[Colour::Black], &[Colour::Red]],
        };
        let halves = 2 + usize::from(relaxation.returns);
        let relaxed = |n: usize| if n % halves == 1 { second } else { first };
        let read = |s: usize| (s - first_half).checked_sub(1).map_or(second, relaxed);
        let from_start = before.is_none() && guess == Guess::Given;
        self.pass_on_part(workspace, &stages[..count], from_start, |s, inside| {
            self.cpu().fill_while(filled, read(s), inside)
        })
    }

    /// Runs one sweep of block Jacobi: corrections of a plane are kept until its neighbours have theirs.
    fn jacobi_sweep(&self, c: &C, workspace: &mut Workspace<T>, rho: f64, [f, u]: [Shared<T>; 2]) {
        let (g, rho) = (self.geometry(), T::from_f64(rho));
        let chunks = self.chunks(workspace, 2);
        let delta = workspace.planes.share_mut();
        let shift = |j: usize| {
            let (chunk, place) = chunks.locate(j);
            g.plane_start(chunk * PLANES + place) - g.plane_start(j)
        };
        let solve = |j: usize, space: &mut ChunkSpace<T>| {
            for colour in Colour::BOTH {
                let h = g.half_plane(j, colour);
                let shift = shift(j);
                self.on_lines(c, space, |space| Correction { h, f, u, delta, shift, space });
            }
        };
        let correct = |j: usize, _: &mut ChunkSpace<T>| self.add_plane(j, &Colour::BOTH, rho, (delta, shift(j)), u);
        self.pass(workspace, &[&solve, &correct]);
    }
}

impl<C: Stored<T>, T: Real> LineSmoother<Cpu, T> for SevenPoint<C, T> {
    fn smooth(&self, sweep: Sweep<'_, Vector<T>>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, .. } = sweep;
        let guess = self.prepare(relaxation, guess, u);
        let vectors = [f.share(), u.share_mut()];
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        match relaxation.smoother {
            Smoother::LineJacobi => {
                self.cpu().fill(u, &Colour::BOTH)?;
                self.jacobi_sweep(&c, &mut workspace, relaxation.rho, vectors);
                Ok(())
            }
            Smoother::LineRedBlack | Smoother::PointRedBlack => {
                self.pass_around_sweeps(&c, &mut workspace, (relaxation, guess, 1), [None; 2], vectors, u)
            }
            other => Err(Error::Unsupported(format!("relaxation by {other:?} on processor cores"))),
        }
    }

    fn needs_scratch(&self, _: Smoother) -> bool {
        false
    }
}

impl<C: Stored<f64>> MixedSmoother<Cpu> for SevenPoint<C, f64> {
    fn residual_in_single(
        &self,
        f: &Vector<f64>,
        u: &mut Vector<f64>,
        r: &mut Vector<f32>,
        _: &mut Vector<f64>,
        norm: Sum<'_, Cpu>,
    ) -> Result<()> {
        let (vectors, r) = ([f.share(), u.share()], Some(r.share_mut()));
        let residual = |c: &C, j: usize, space: &mut ChunkSpace<f64>| {
            [self.residual_plane(c, j, &Colour::BOTH, vectors, r, space), 0.0]
        };
        self.summing_pass_and_fill(residual, norm, u)
    }

    fn correct_smooth_residual(
        &self,
        relaxation: Relaxation,
        f: &Vector<f64>,
        [u, scratch]: [&mut Vector<f64>; 2],
        [e, r]: [&mut Vector<f32>; 2],
        (norm, scalars): Sum<'_, Cpu>,
    ) -> Result<()> {
        if relaxation.smoother == Smoother::LineJacobi {
            blas::axpy(self.cpu(), 1.0, e, u);
            self.smooth(Sweep::new(relaxation, Guess::Given, f, u, scratch))?;
            return self.residual_in_single(f, u, r, scratch, norm.of(scalars));
        }
        let (e, vectors, r) = (e.share(), [f.share(), u.share_mut()], Some(r.share_mut()));
        let (needed, unsolved) = (self.needed(relaxation), self.unsolved(relaxation));
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let sums = Shared::of(&mut workspace.sums);
        let correct = |j: usize, _: &mut ChunkSpace<f64>| self.add_plane(j, needed, 1.0, (e, 0), vectors[1]);
        let residual = |j: usize, space: &mut ChunkSpace<f64>| {
            store(sums, j, [self.residual_plane(&c, j, unsolved, vectors, r, space), 0.0]);
        };
        let sweep = (relaxation, Guess::Given, 1);
        self.pass_around_sweeps(&c, &mut workspace, sweep, [Some(&correct), Some(&residual)], vectors, u)?;
        self.reduce(&workspace, norm.of(scalars))
    }

    fn mixed_needs_scratch(&self, _: Smoother) -> bool {
        false
    }
}
