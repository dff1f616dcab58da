//! The levels of multigrid on a device that may be one of several ranks.

use std::ops::Range;
use std::sync::Arc;

use super::{ModalTransfer, Transfer};
use crate::{Backend, Layout, Real, Result, Shape};

/// The device as the next coarser grid has it.
#[derive(Clone, Debug)]
pub struct Coarser<B> {
    /// The device with its share of the coarser grid, which ranks divide in the same places as the finer one.
    pub own: B,
    /// The device without its ranks, if every rank holds the coarser grid completely though the finer one was divided.
    pub alone: Option<B>,
}

impl<B: LevelBackend> Coarser<B> {
    /// Returns the device that makes the coarser level.
    pub fn level(&self) -> &B {
        self.alone.as_ref().unwrap_or(&self.own)
    }

    /// Returns the transfer to the coarser level, whose vectors have the layout `level`, given the transfer to this rank's subdomain
    /// of it, `own`.
    pub fn transfer<T: Real>(
        &self,
        to_own: Arc<dyn Transfer<B, T>>,
        own: &Layout,
        level: &Layout,
    ) -> Result<Arc<dyn Transfer<B, T>>> {
        if self.alone.is_some() { self.own.gathering(to_own, own, level) } else { Ok(to_own) }
    }

    /// Returns a note for the user on the level where ranks stop dividing the work.
    pub fn note(&self, grid: Shape) -> Option<String> {
        self.alone.as_ref().map(|_| format!("multigrid: every rank does all the work from {grid} on"))
    }
}

/// A rank's share of the problems of vertical modes, which are independent of each other.
pub struct OwnModes<B: Backend, T: Real, C: Real> {
    /// The device without its ranks, which solves them.
    pub alone: B,
    /// The numbers of the modes.
    pub which: Range<usize>,
    /// The transfer to these.
    pub transfer: Arc<dyn ModalTransfer<B, T, C>>,
}

/// A back end that makes levels of multigrid. It may be one of several ranks; the defaults are those of a single device.
pub trait LevelBackend: Backend {
    /// Returns the device for the coarser of two grids, which has half as many cells as the finer one in some directions. Ranks
    /// divide it in the same places, unless their shares are too small or it `is_small`: then every rank holds it and all coarser
    /// ones completely.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if ranks divide a pair of cells of the finer grid.
    fn coarser(&self, _fine: Shape, _coarse: Shape, _is_small: bool) -> Result<Coarser<Self>> {
        Ok(Coarser { own: self.clone(), alone: None })
    }

    /// Makes a transfer to a level that every rank holds completely from the transfer to this rank's subdomain of it: right-hand
    /// sides are gathered on the way down, and nothing is sent on the way up. Called on [`Coarser::own`].
    fn gathering<T: Real>(
        &self,
        to_own: Arc<dyn Transfer<Self, T>>,
        _own: &Layout,
        _whole: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        Ok(to_own)
    }

    /// Shares the problems of all modes that a transfer projects a grid to, this rank's rows of it, among ranks.
    /// Divides among ranks the problems of all modes to which a transfer projects a grid (this rank's rows of it).
    /// # Errors
    /// The errors of [`Backend::zeros`].
    fn own_modes<T: Real, C: Real>(
        &self,
        _grid: Shape,
        to_all: Arc<dyn ModalTransfer<Self, T, C>>,
    ) -> Result<OwnModes<Self, T, C>> {
        let which = 0..to_all.modal_layout().shape().nz;
        Ok(OwnModes { alone: self.clone(), which, transfer: to_all })
    }
}
