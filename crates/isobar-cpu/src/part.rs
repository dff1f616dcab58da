//! Vectors on processors that are subdomains of larger ones.

use std::sync::Arc;

use isobar_core::operator::{Coarser, LevelBackend, OwnModes};
use isobar_core::prelude::{Colour, Layout, ModalTransfer, Real, Result, Shape, Slab, Transfer};
use isobar_dist::part::{self, Edge, NoLink, PartBackend};
use isobar_dist::{Ranks, levels, modes};

use crate::{Cpu, Vector};

impl LevelBackend for Cpu {
    fn coarser(&self, fine: Shape, coarse: Shape, is_small: bool) -> Result<Coarser<Self>> {
        levels::coarser(self, fine, coarse, is_small)
    }

    fn gathering<T: Real>(
        &self,
        to_own: Arc<dyn Transfer<Self, T>>,
        own: &Layout,
        whole: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        levels::gathering(self, to_own, own, whole)
    }

    fn own_modes<T: Real, C: Real>(
        &self,
        grid: Shape,
        to_all: Arc<dyn ModalTransfer<Self, T, C>>,
    ) -> Result<OwnModes<Self, T, C>> {
        modes::own_modes(self, grid, to_all)
    }
}

impl PartBackend for Cpu {
    type Link = NoLink;

    fn ranks(&self) -> Option<&Arc<Ranks>> {
        self.ranks.as_ref()
    }

    fn with_ranks(mut self, ranks: Option<Arc<Ranks>>) -> Self {
        self.ranks = ranks;
        self
    }

    fn edges<T: Real>(
        &self,
        x: &mut Vector<T>,
        colours: &[Colour],
        exchange: &mut dyn FnMut(&mut [Edge<'_, T>]) -> Result<()>,
    ) -> Result<()> {
        let layout = *x.layout();
        part::edges(&layout, x.all_entries_mut(), colours, exchange)
    }

    fn read_rows<T: Real>(&self, x: &Vector<T>, rows: Slab, to: &mut [T]) -> Result<()> {
        part::read_rows(x.layout(), x.all_entries(), rows, to);
        Ok(())
    }

    fn write_rows<T: Real>(&self, from: &[T], rows: Slab, x: &mut Vector<T>) -> Result<()> {
        let layout = *x.layout();
        part::write_rows(&layout, from, rows, x.all_entries_mut());
        Ok(())
    }

    fn copy_part<T: Real>(&self, from: &Vector<T>, to: &mut Vector<T>) -> Result<()> {
        let layout = *to.layout();
        part::copy_part(from.all_entries(), &layout, to.all_entries_mut());
        Ok(())
    }
}
