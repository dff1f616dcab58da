//! Incomplete factorisation and triangular solves as a pipeline of subdomains: a subdomain starts when the neighbouring row is done, and
//! then passes its own row to the next rank, through the host.
//!
//! A subdomain processes all its rows at once, so several GPUs take as long as one. It does this by a sweep over its own grid
//! ([`super::whole_grid`]), after the contributions of the neighbouring row have been added to the right-hand side.

use isobar_core::operator::triangular::blocks_cross;
use isobar_core::prelude::{Backend, Real, Result, Slab, lock};
use isobar_dist::part::{Handed, PartBackend};

use super::passes::Passes;
use super::{Kernels, SevenPoint};
use crate::vector::Vector;

/// One traversal of all subdomains.
struct Turn {
    upwards: bool,
    /// Halo rows before and after this subdomain's rows that blocks reach into.
    crosses: [bool; 2],
}

impl<T: Real> SevenPoint<Passes<T>> {
    pub(super) fn crosses(&self, block: usize) -> [bool; 2] {
        let layout = self.layout_of();
        let (first, rows, halo) = (layout.first_row(), layout.shape().ny, layout.halo());
        let crosses = |end: usize, row: usize| halo[end] > 0 && blocks_cross(self.kernels.whole, block, row);
        [crosses(0, first), crosses(1, first + rows)]
    }

    /// Receives the halo row that this subdomain waits for, processes its own rows, and sends the last of them. The argument of `sweep`
    /// states whether a row was received.
    fn take_turn(
        &self,
        Turn { upwards, crosses: [before, behind] }: Turn,
        x: &mut Vector<T>,
        sweep: impl FnOnce(bool, &mut Vector<T>) -> Result<()>,
    ) -> Result<()> {
        let (cuda, layout) = (self.kernels.cuda(), self.layout_of());
        let (first, rows) = (layout.first_row(), layout.shape().ny);
        let [begin, end] = [first, first + rows - 1];
        let (comes, goes, from, own) =
            if upwards { (before, behind, begin.wrapping_sub(1), end) } else { (behind, before, end + 1, begin) };
        let one = |row: usize| Slab { first: row, beyond: row + 1 };
        let mut row = vec![T::ZERO; 2 * layout.half_plane()];
        if comes {
            cuda.hand_on(Handed { upwards, send: &[], receive: &mut row })?;
            cuda.write_rows(&row, one(from), x)?;
        }
        sweep(comes, x)?;
        if goes {
            cuda.read_rows(x, one(own), &mut row)?;
            cuda.hand_on(Handed { upwards, send: &row, receive: &mut [] })?;
        }
        Ok(())
    }
}

impl<T: Real> SevenPoint<Passes<T>> {
    /// Implements [`Triangular::factorise`] on a subdomain whose blocks include cells of others.
    pub(super) fn factorise_in_turn(
        &self,
        block: usize,
        relaxation: f64,
        inverse_pivots: &mut Vector<T>,
    ) -> Result<()> {
        let turn = Turn { upwards: true, crosses: self.crosses(block) };
        self.take_turn(turn, inverse_pivots, |_, inverse_pivots| {
            self.factorise_blocks(block, relaxation, inverse_pivots)
        })
    }

    /// Implements [`Triangular::substitute`] on such a subdomain.
    pub(super) fn substitute_in_turn(
        &self,
        block: usize,
        inverse_pivots: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        let crosses = self.crosses(block);
        let [up, down] = [true, false].map(|upwards| Turn { upwards, crosses });
        if !self.kernels.is_whole(block) {
            self.take_turn(up, z, |_, z| self.substitute_blocks(block, [true, false], inverse_pivots, r, z))?;
            return self.take_turn(down, z, |_, z| self.substitute_blocks(block, [false, true], inverse_pivots, r, z));
        }
        self.take_turn(up, z, |comes, z| {
            if !comes {
                return self.substitute_up(inverse_pivots, r, z);
            }
            let mut handed = lock(&self.kernels.handed);
            let right = match &mut *handed {
                Some(right) => right,
                none => none.insert(self.kernels.cuda().zeros(self.layout_of())?),
            };
            self.kernels.cuda().convert(r, right)?;
            self.kernels.add_beside("add_row_before", &[z.pointer(), right.pointer()])?;
            self.substitute_up(inverse_pivots, right, z)
        })?;
        self.take_turn(down, z, |comes, z| {
            if comes {
                self.kernels.add_beside("add_row_behind", &[inverse_pivots.pointer(), z.pointer()])?;
            }
            self.substitute_down(inverse_pivots.pointer(), z.pointer())
        })
    }
}
