//! Steps with the triangular parts.

use isobar_core::operator::triangular::singular_pivot;
use isobar_core::operator::update_residual_unfused;
use isobar_core::prelude::{Real, ResidualUpdate, Result, Triangular};
use isobar_dist::require_order;

use super::passes::Passes;
use super::whole_grid::Sweep;
use super::{Kernels, SevenPoint};
use crate::{Arguments, Cuda, Pointer, Scalars, Sum, Vector};

/// Appends the arguments of factorisation kernels after the stencil.
fn factors<T: Real>(arguments: Arguments, relaxation: f64, to: &Vector<T>) -> Arguments {
    arguments.with_real::<T>(singular_pivot::<T>()).with_real::<T>(relaxation).with(to.pointer())
}

impl<T: Real> SevenPoint<Passes<T>> {
    pub(super) fn factorise_blocks(&self, block: usize, relaxation: f64, inverse_pivots: &mut Vector<T>) -> Result<()> {
        self.kernels.in_blocks("factorise", block, |arguments| factors(arguments, relaxation, inverse_pivots))
    }

    /// Solves upwards, downwards, or both.
    pub(super) fn substitute_blocks(
        &self,
        block: usize,
        ways: [bool; 2],
        inverse_pivots: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        self.kernels.in_blocks("substitute", block, |arguments| {
            let arguments = ways.into_iter().fold(arguments, |all, way| all.with(i32::from(way)));
            arguments.with(inverse_pivots.pointer()).with(r.pointer()).with(z.pointer())
        })
    }

    /// Solves z = (Δ + L)⁻¹ r over the whole grid.
    pub(super) fn substitute_up(&self, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let [inverse_pivots, r, z] = [inverse_pivots.pointer(), r.pointer(), z.pointer()];
        let up = |arguments: Arguments| arguments.with(inverse_pivots).with(r).with(z);
        self.kernels.sweep_whole(Sweep::Substitute, "substitute_up", up, None)
    }

    /// Solves z = (Δ + Lᵀ)⁻¹ Δ y over the whole grid, with y = (Δ + L)⁻¹ r in z.
    pub(super) fn substitute_down(&self, inverse_pivots: Pointer, z: Pointer) -> Result<()> {
        let down = |arguments: Arguments| arguments.with(inverse_pivots).with(z);
        self.kernels.sweep_whole(Sweep::Substitute, "substitute_down", down, None)
    }
}

impl<T: Real> Triangular<Cuda, T> for SevenPoint<Passes<T>> {
    fn relax_lower(&self, r: &Vector<T>, [w, v]: [&mut Vector<T>; 2], rho: Option<Sum<'_>>) -> Result<()> {
        self.fill(w)?;
        let vectors = [r.pointer(), w.pointer(), v.pointer()];
        match rho {
            Some((rho, scalars)) => {
                self.kernels.pass_with_sums("relax_lower_sum", &vectors, scalars.pointer(rho))?;
                self.sum([rho], scalars)
            }
            None => self.kernels.pass("relax_lower", &vectors),
        }
    }

    fn relax_upper(&self, v: &mut Vector<T>, w: Option<&mut Vector<T>>, z: &mut Vector<T>) -> Result<()> {
        let from = v.pointer();
        let w = w.unwrap_or(v);
        self.fill(w)?;
        self.kernels.pass("relax_upper", &[from, w.pointer(), z.pointer()])
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        [r, z]: [&mut Vector<T>; 2],
    ) -> Result<()> {
        self.fill(r)?;
        let name = if scaled { "incomplete_poisson_scaled" } else { "incomplete_poisson" };
        self.kernels.pass(name, &[inverse_diagonal.pointer(), r.pointer(), z.pointer()])
    }

    fn factorise(&self, block: usize, relaxation: f64, inverse_pivots: &mut Vector<T>) -> Result<()> {
        let to = inverse_pivots.pointer();
        if block > 1 {
            require_order(self.layout_of())?;
        }
        if block == 1 {
            self.kernels.pass("inverse_diagonal", &[to])?;
        } else if self.crosses(block) != [false; 2] {
            self.factorise_in_turn(block, relaxation, inverse_pivots)?;
        } else if self.kernels.is_whole(block) {
            let more = |arguments| factors(arguments, relaxation, inverse_pivots);
            self.kernels.sweep_whole(Sweep::Factorise, "factorise_whole", more, None)?;
        } else {
            self.factorise_blocks(block, relaxation, inverse_pivots)?;
        }
        self.fill(inverse_pivots)
    }

    fn substitutes(&self) -> bool {
        require_order(self.layout_of()).is_ok()
    }

    fn substitutes_on_host(&self) -> bool {
        self.layout_of().is_part()
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        require_order(self.layout_of())?;
        if self.crosses(block) != [false; 2] {
            return self.substitute_in_turn(block, inverse_pivots, r, z);
        }
        if self.kernels.is_whole(block) {
            self.substitute_up(inverse_pivots, r, z)?;
            return self.substitute_down(inverse_pivots.pointer(), z.pointer());
        }
        self.substitute_blocks(block, [true, true], inverse_pivots, r, z)
    }

    /// The upward sweep over the whole grid also computes r −= αq, ρ = ⟨y, Δ y⟩ with y = (Δ + L)⁻¹ r, and ‖r‖².
    fn substitute_residual(
        &self,
        block: usize,
        inverse_pivots: &Vector<T>,
        v: ResidualUpdate<'_, Vector<T>>,
        scalars: &mut Scalars,
    ) -> Result<()> {
        if !self.kernels.is_whole(block) || self.crosses(block) != [false; 2] {
            let substitute = |r: &mut Vector<T>, z: &mut Vector<T>| self.substitute(block, inverse_pivots, r, z);
            return update_residual_unfused::<_, T>(self.kernels.cuda(), v, scalars, substitute);
        }
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let [inverse_pivots, r, q, z] = [inverse_pivots.pointer(), r.pointer(), q.pointer(), z.pointer()];
        let up =
            |arguments: Arguments| arguments.with(scalars.ratio(alpha)).with(inverse_pivots).with(q).with(r).with(z);
        self.kernels.sweep_whole(Sweep::Substitute, "substitute_up_residual", up, Some(scalars.sums(out)))?;
        self.sum(out.all(), scalars)?;
        self.substitute_down(inverse_pivots, z)
    }
}
