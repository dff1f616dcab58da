//! Transfers between a grid and its vertical modes, a half plane at a time.
//!
//! A half plane is layers × columns; a vector of modes has a row a mode where the grid has a row a layer. Projection and expansion
//! are therefore products of small matrices (`kernels`). Modes are rounded to the grid's precision.

mod kernels;

use std::sync::{Arc, Mutex, RwLock};

use isobar_core::prelude::{
    Backend, Colour, Expansion, Guess, Layout, LineSmoother, Meanwhile, ModalTransfer, Operator, Real, Result, Sum,
    Transfer, VerticalModes, lock, read, write,
};
use isobar_core::stencil::tensor_levels::SupportsTransfers;

use self::kernels::{Expand, Project, Vectors};
use crate::bilinear::Bilinear;
use crate::blas::Dot;
use crate::seven_point::kernels::{Residual, Shifted};
use crate::seven_point::sweeps::MOST_SWEEPS;
use crate::seven_point::{ChunkSpace, Stage, Stored, store};
use crate::tensor_product::{Factors, TensorProduct};
use crate::transfer::PlaneTransfer;
use crate::{Cpu, Shared, Vector};

/// The transfer between the grid of an operator and some of its modes.
#[derive(Debug)]
pub(crate) struct Modal<T: Real> {
    fine: Arc<TensorProduct<T>>,
    layout: Layout,
    vectors: RwLock<Vectors<T>>,
    /// A half plane of modes in the grid's precision for every thread.
    rounded: Mutex<Vec<T>>,
}

impl<T: Real> Modal<T> {
    fn new(fine: &Arc<TensorProduct<T>>, modes: &VerticalModes) -> Result<Self> {
        let layout = fine.layout().own_rows(modes.count())?;
        let threads = fine.cpu().threads();
        Ok(Self {
            fine: Arc::clone(fine),
            layout,
            vectors: RwLock::new(Vectors::new(modes)),
            rounded: Mutex::new(vec![T::ZERO; threads * layout.half_plane()]),
        })
    }

    /// Returns the start of half plane (j, colour) of the modes.
    fn start(&self, j: usize, colour: Colour) -> isize {
        ((colour as usize + 2 * j) * self.layout.half_plane()) as isize
    }

    /// Computes g_m = Σ_k s_m(k) r_k on a half plane; `r` is the start of its rows.
    fn project_half<C: Real>(
        &self,
        s: &Vectors<T>,
        (j, colour): (usize, Colour),
        r: (Shared<T>, isize),
        g: Shared<C>,
        (rounded, thread): (Shared<T>, usize),
    ) {
        let (len, own) = (self.fine.geometry().layout.half_plane(), self.layout.half_plane());
        // SAFETY: only this stage uses the half plane of g, that of r is complete, and each thread has its own sums.
        let (r, g, sums) = unsafe {
            (r.0.row(r.1, len), g.row_mut(self.start(j, colour), own), rounded.row_mut((thread * own) as isize, own))
        };
        let cpu = self.fine.cpu();
        cpu.dispatch::<T, _>(Project { s, r, g: &mut *sums, pitch: self.layout.pitch() });
        cpu.vectorize::<T>(
            #[inline(always)]
            || {
                for (g, sum) in g.iter_mut().zip(&*sums) {
                    *g = C::from_f64(sum.to_f64());
                }
            },
        );
    }

    /// Computes u_k += Σ_m s_m(k) x_m on a half plane, or u_k = Σ_m s_m(k) x_m.
    fn expand_half<C: Real>(
        &self,
        s: &Vectors<T>,
        (j, colour): (usize, Colour),
        x: Shared<C>,
        guess: Guess,
        u: Shared<T>,
        (rounded, thread): (Shared<T>, usize),
    ) {
        let g = self.fine.geometry();
        let (len, own) = (g.layout.half_plane(), self.layout.half_plane());
        let start = g.half_plane(j, colour).start;
        // SAFETY: only this stage uses the half plane of u, that of x is complete, and each thread has its own copy.
        let (x, u, own) = unsafe {
            (x.row(self.start(j, colour), own), u.row_mut(start, len), rounded.row_mut((thread * own) as isize, own))
        };
        self.fine.cpu().vectorize::<T>(
            #[inline(always)]
            || {
                for (own, x) in own.iter_mut().zip(x) {
                    *own = T::from_f64(x.to_f64());
                }
            },
        );
        self.fine.cpu().dispatch::<T, _>(Expand {
            s,
            x: own,
            u,
            pitch: self.layout.pitch(),
            adds: guess == Guess::Given,
        });
    }

    /// Computes f − A u on the half planes of plane j of these colours, projected if there is a `g`; g = 0 on the others, whose
    /// residual is zero. Returns the sum of squares.
    fn project_residual_plane<C: Real>(
        &self,
        (c, s): (&Factors<T>, &Vectors<T>),
        j: usize,
        colours: &[Colour],
        [f, u]: [Shared<T>; 2],
        (plane, place): (Shared<T>, isize),
        (g, rounded): (Option<Shared<C>>, (Shared<T>, usize)),
    ) -> f64 {
        let geometry = self.fine.geometry();
        let mut total = 0.0;
        for colour in Colour::BOTH {
            if !colours.contains(&colour) {
                if let Some(g) = g {
                    // SAFETY: only this stage uses the half plane of g.
                    unsafe { g.row_mut(self.start(j, colour), self.layout.half_plane()) }.fill(C::ZERO);
                }
                continue;
            }
            let h = geometry.half_plane(j, colour);
            let to = Shifted { vector: plane, shift: place - h.start };
            total += c.run(self.fine.cpu(), geometry, Residual { h, f, u, to })[0];
            if let Some(g) = g {
                self.project_half(s, (j, colour), (plane, place), g, rounded);
            }
        }
        total
    }
}

impl<T: Real, C: Real> ModalTransfer<Cpu, T, C> for Modal<T> {
    fn fine(&self) -> &dyn LineSmoother<Cpu, T> {
        &*self.fine
    }

    fn modal_layout(&self) -> &Layout {
        &self.layout
    }

    fn update(&self, modes: &VerticalModes) -> Result<()> {
        *write(&self.vectors) = Vectors::new(modes);
        Ok(())
    }

    fn project(&self, r: &Vector<T>, g: &mut Vector<C>) -> Result<()> {
        let s = read(&self.vectors);
        let mut rounded = lock(&self.rounded);
        let (r, g, rounded, geometry) = (r.share(), g.share_mut(), Shared::of(&mut rounded), self.fine.geometry());
        self.fine.plain_pass(|_, j, space| {
            for colour in Colour::BOTH {
                let start = geometry.half_plane(j, colour).start;
                self.project_half(&s, (j, colour), (r, start), g, (rounded, space.number));
            }
        });
        Ok(())
    }

    fn project_rhs(&self, r: &Vector<T>, g: &mut Vector<C>, _: &mut Vector<T>, norm: Sum<'_, Cpu>) -> Result<()> {
        let s = read(&self.vectors);
        let mut rounded = lock(&self.rounded);
        let (r, g, rounded, geometry) = (r.share(), g.share_mut(), Shared::of(&mut rounded), self.fine.geometry());
        let mut workspace = self.fine.workspace();
        let sums = Shared::of(&mut workspace.sums);
        let project = |j: usize, space: &mut ChunkSpace<T>| {
            let mut total = 0.0;
            for colour in Colour::BOTH {
                let start = geometry.half_plane(j, colour).start;
                self.project_half(&s, (j, colour), (r, start), g, (rounded, space.number));
                // SAFETY: nobody writes to r.
                let r = unsafe { r.row(start, geometry.layout.half_plane()) };
                total += self.fine.cpu().dispatch::<f64, _>(Dot { x: r, y: r });
            }
            store(sums, j, [total, 0.0]);
        };
        self.fine.pass(&mut workspace, &[&project]);
        self.fine.reduce(&workspace, norm)
    }

    fn expand(&self, x: &Vector<C>, guess: Guess, u: &mut Vector<T>) -> Result<()> {
        let s = read(&self.vectors);
        let mut rounded = lock(&self.rounded);
        let (x, u, rounded) = (x.share(), u.share_mut(), Shared::of(&mut rounded));
        self.fine.plain_pass(|_, j, space| {
            for colour in Colour::BOTH {
                self.expand_half(&s, (j, colour), x, guess, u, (rounded, space.number));
            }
        });
        Ok(())
    }

    fn project_residual(
        &self,
        f: &Vector<T>,
        u: &mut Vector<T>,
        g: &mut Vector<C>,
        _: &mut Vector<T>,
        norm: Sum<'_, Cpu>,
    ) -> Result<()> {
        let s = read(&self.vectors);
        let mut rounded = lock(&self.rounded);
        let (vectors, g, rounded) = ([f.share(), u.share()], g.share_mut(), Shared::of(&mut rounded));
        let (c, mut workspace) = (self.fine.coefficients(), self.fine.workspace());
        let (sums, plane) = (Shared::of(&mut workspace.sums), workspace.planes.share_mut());
        let residual = |j: usize, space: &mut ChunkSpace<T>| {
            let place = (plane, self.fine.own_plane(space, 0));
            let rounded = (rounded, space.number);
            let sum = self.project_residual_plane((&c, &s), j, &Colour::BOTH, vectors, place, (Some(g), rounded));
            store(sums, j, [sum, 0.0]);
        };
        let fill = |_, inside: Meanwhile<'_>| self.fine.cpu().fill_while(u, &Colour::BOTH, inside);
        self.fine.pass_on_part(&mut workspace, &[&residual], true, fill)?;
        self.fine.reduce(&workspace, norm)
    }

    fn expand_smooth_project(
        &self,
        expansion: &Expansion<'_, Vector<C>>,
        f: &Vector<T>,
        [u, _]: [&mut Vector<T>; 2],
        g: &mut Vector<C>,
        norm: Sum<'_, Cpu>,
    ) -> Result<()> {
        self.expand_smooth_and(expansion, f, u, Some(g), norm)
    }

    fn expand_smooth_norm(
        &self,
        expansion: &Expansion<'_, Vector<C>>,
        f: &Vector<T>,
        [u, _]: [&mut Vector<T>; 2],
        norm: Sum<'_, Cpu>,
    ) -> Result<()> {
        self.expand_smooth_and(expansion, f, u, None, norm)
    }

    fn needs_scratch(&self) -> bool {
        false
    }
}

impl<T: Real> Modal<T> {
    /// Expands, sweeps, and computes the norm of the residual without the half planes known to be zero; with `g` also its
    /// projection.
    fn expand_smooth_and<C: Real>(
        &self,
        &Expansion { x, guess, relaxation, sweeps }: &Expansion<'_, Vector<C>>,
        f: &Vector<T>,
        u: &mut Vector<T>,
        g: Option<&mut Vector<C>>,
        norm: Sum<'_, Cpu>,
    ) -> Result<()> {
        let fine = &self.fine;
        fine.prepare(relaxation, guess, u);
        let s = read(&self.vectors);
        let mut rounded = lock(&self.rounded);
        let (x, g, rounded) = (x.share(), g.map(Vector::share_mut), Shared::of(&mut rounded));
        let vectors = [f.share(), u.share_mut()];
        let needed = fine.needed(relaxation);
        let summed = if g.is_some() { fine.unsolved(relaxation) } else { &Colour::BOTH };
        let (c, mut workspace) = (fine.coefficients(), fine.workspace());
        let (sums, plane) = (Shared::of(&mut workspace.sums), workspace.planes.share_mut());
        let expand = |j: usize, space: &mut ChunkSpace<T>| {
            for &colour in needed {
                self.expand_half(&s, (j, colour), x, guess, vectors[1], (rounded, space.number));
            }
        };
        let residual = |j: usize, space: &mut ChunkSpace<T>| {
            let place = (plane, fine.own_plane(space, 0));
            let rounded = (rounded, space.number);
            store(sums, j, [self.project_residual_plane((&c, &s), j, summed, vectors, place, (g, rounded)), 0.0]);
        };
        let mut before: Option<Stage<'_, T>> = Some(&expand);
        let mut left = sweeps;
        while left > 0 {
            let now = left.min(MOST_SWEEPS);
            left -= now;
            let after: Option<Stage<'_, T>> = (left == 0).then_some(&residual);
            let some = (relaxation, Guess::Given, now);
            fine.pass_around_sweeps(&c, &mut workspace, some, [before.take(), after], vectors, u)?;
        }
        fine.reduce(&workspace, norm)
    }
}

impl SupportsTransfers for Cpu {
    fn transfer<T: Real>(
        &self,
        fine: &Arc<TensorProduct<T>>,
        _: &Arc<TensorProduct<T>>,
        own: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        Ok(Arc::new(PlaneTransfer::new(fine, *own, Bilinear)))
    }

    fn modal_transfer<T: Real, C: Real>(
        &self,
        operator: &Arc<TensorProduct<T>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn ModalTransfer<Self, T, C>>> {
        Ok(Arc::new(Modal::new(operator, modes)?))
    }
}
