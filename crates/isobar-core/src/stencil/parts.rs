//! What a back end must offer for a grid to be divided among several devices.

use std::ops::Range;
use std::sync::Arc;

use super::galerkin_parts::{Division, GalerkinParts};
use super::halving::Halving;
use super::modes::{SupportsModes, VerticalModes};
use super::{Coarsen, Diffusion, Hierarchy, Stencil, TensorProduct};
use crate::backend::AggregateBackend;
use crate::backend::part::PartBackend;
use crate::error::{Error, Result};
use crate::layout::{Layout, Patch};
use crate::operator::aggregate::Components;
use crate::operator::mixed::ChangeSteps;
use crate::operator::part::{PartOperator, PartPoints, PartTriangular};
use crate::operator::{AggregateOperator, ModalTransfer, Relaxation, Transfer};
use crate::options::MultigridOptions;
use crate::real::Real;

/// A back end that can put a part of a stencil's grid on its device.
pub trait SupportsParts<S: Stencil>: AggregateBackend + PartBackend {
    /// Those rows of the matrix, with their coefficients on the device. Vectors have the layout of [`Patch::layout`].
    type Part<T: Real>: PartOperator<Self, T> + 'static;

    /// Puts a part of a stencil, which is that of the whole grid, on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where it does not fit, [`Error::Unsupported`] for parts of rows where they are not
    /// [divided](PartBackend::DIVIDES_ROWS); what the device reports.
    fn part<T: Real>(&self, stencil: &S, patch: Patch) -> Result<Arc<Self::Part<T>>>;

    /// Gives a part the coefficients of another stencil, as [`Supports::update`](super::Supports::update).
    ///
    /// # Errors
    /// What the device reports.
    fn update_part<T: Real>(&self, part: &Self::Part<T>, stencil: &S) -> Result<()>;

    /// Gets a part ready to solve with lines.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn prepare_lines<T: Real>(&self, _part: &Self::Part<T>) -> Result<()> {
        Ok(())
    }

    /// A part that relaxes its cells each by itself; nothing where parts do not.
    fn part_points<T: Real>(&self, _part: &Arc<Self::Part<T>>) -> Option<Arc<dyn PartPoints<Self, T>>> {
        None
    }
}

/// A back end that makes parts of the levels of such a stencil.
pub trait SupportsPartLevels<S: Coarsen>: SupportsParts<S> {
    /// Between parts of two of them.
    type PartTransfer<T: Real>: Transfer<Self, T> + 'static;

    /// What goes between parts of a stencil and of its coarser version, made of the same rows: the finer one begins with
    /// an even row.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn part_transfer<T: Real>(
        &self,
        fine: &Arc<Self::Part<T>>,
        coarse: &Arc<Self::Part<T>>,
    ) -> Result<Arc<Self::PartTransfer<T>>>;

    /// The fused steps of a mixed-precision cycle between a part in double precision and the same in single precision, where
    /// there are such. Each reads the halo rows of the vectors and colours that it couples.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn change_steps(
        &self,
        _double: &Arc<Self::Part<f64>>,
        _single: &Arc<Self::Part<f32>>,
        _relaxation: Relaxation,
    ) -> Result<Option<Box<dyn ChangeSteps<Self>>>> {
        Ok(None)
    }
}

/// A back end that goes between a part of a grid and vertical modes of its rows.
pub trait SupportsPartModes: SupportsPartLevels<TensorProduct> + SupportsModes {
    /// What goes between a part and some modes of its rows.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn part_modes<T: Real, C: Real>(
        &self,
        part: &Arc<Self::Part<T>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn ModalTransfer<Self, T, C>>>;

    /// [`problems_of_modes`](super::modes::problems_of_modes), on the whole grid.
    ///
    /// # Errors
    /// As there.
    fn problems_of_modes<C: Real>(
        &self,
        stencil: &TensorProduct,
        which: Range<usize>,
        options: &MultigridOptions,
    ) -> Result<Hierarchy<Self, TensorProduct, C>>;
}

/// A back end that makes parts of the levels of diffusion whose cells are relaxed each by itself.
pub trait SupportsPointParts: SupportsParts<Diffusion> {
    /// Between parts of two of them.
    type PointPartTransfer<T: Real>: Transfer<Self, T> + 'static;

    /// [`SupportsParts::part`] of a coarser level, of which nothing is asked but to relax points.
    ///
    /// # Errors
    /// As there.
    fn point_part<T: Real>(&self, stencil: &Diffusion, patch: Patch) -> Result<Arc<Self::Part<T>>> {
        self.part(stencil, patch)
    }

    /// What goes between a part and that of the coarser grid, in this layout, that is made of the same rows: where y is halved the
    /// finer one begins with an even row.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn point_part_transfer<T: Real>(
        &self,
        fine: &Arc<Self::Part<T>>,
        coarse: &Layout,
        by: &Halving,
    ) -> Result<Arc<Self::PointPartTransfer<T>>>;

    /// The connected components of the whole grid that this is a part of, as
    /// [`AggregateOperator::components`].
    ///
    /// # Errors
    /// As there.
    fn components_of_whole<T: Real>(&self, part: &Self::Part<T>) -> Result<Option<Components>>;

    /// What ties the connected components of the whole grid to something fixed, as
    /// [`AggregateOperator::ties`].
    ///
    /// # Errors
    /// As there; [`Error::Unsupported`] where no such levels are made as ask for it.
    fn ties_of_whole<T: Real>(&self, _part: &Self::Part<T>, _components: &Components) -> Result<Vec<f64>> {
        Err(Error::Unsupported("constants of disconnected pieces on several of these devices; run on one".into()))
    }

    /// The triangular parts of a part's rows; nothing where there are no steps with them.
    fn part_triangular<T: Real>(&self, _part: &Arc<Self::Part<T>>) -> Option<Arc<dyn PartTriangular<Self, T>>> {
        None
    }

    /// What can be said of the whole grid's matrix in terms of aggregates, and, of this part's rows,
    /// [`AggregateOperator::subtract_aggregated`], for which aggregates know those of the halo rows; nothing where parts have no
    /// such step.
    fn part_aggregates<T: Real>(&self, _part: &Arc<Self::Part<T>>) -> Option<Arc<dyn AggregateOperator<Self, T>>> {
        None
    }

    /// Whether [`SupportsPointParts::galerkin_levels`] makes any.
    const DIVIDES_GALERKIN: bool = false;

    /// Whether such levels may lie below a finest grid whose points are relaxed.
    const DIVIDES_POINTS_ABOVE_LINES: bool = Self::DIVIDES_GALERKIN;

    /// The Galerkin levels of a stencil of whose grid this is a part; none where such levels are not divided.
    ///
    /// # Errors
    /// As [`SupportsParts::part`].
    fn galerkin_levels<T: Real>(
        &self,
        _stencil: &Diffusion,
        _part: &Arc<Self::Part<T>>,
        _division: Division<'_>,
        _wanted: Option<usize>,
    ) -> Result<Option<GalerkinParts<Self, T>>> {
        Ok(None)
    }

    /// Gets a part ready to relax points.
    ///
    /// # Errors
    /// What the device reports.
    fn prepare_points<T: Real>(&self, _part: &Self::Part<T>) -> Result<()> {
        Ok(())
    }
}
