//! Singular systems: components of the grid that are tied to nothing fixed.
//!
//! Where no Dirichlet or Robin side, reaction term or well ties a connected component of the grid, a constant can be
//! added to its solution (pure Neumann and periodic problems, pockets cut off by inactive cells). Such a
//! system has solutions only if the right-hand side sums to zero over the component, and then infinitely many.

use std::sync::Arc;

use crate::array::{ArrayView, ArrayViewMut};
use crate::backend::{AggregateBackend, AggregateMap, Scalar};
use crate::error::{Error, Result};
use crate::operator::AggregateOperator;
use crate::operator::aggregate::Components;
use crate::options::Compatibility;

/// The part that was removed from a right-hand side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Removed {
    /// The norm of what was removed relative to that of b.
    pub relative: f64,
}

/// The null space of a matrix on a device, and its inactive cells.
pub struct NullSpace<B: AggregateBackend> {
    operator: Arc<dyn AggregateOperator<B, f64>>,
    compatibility: Compatibility,
    scalars: B::Scalars,
    found: Option<Found<B>>,
}

struct Found<B: AggregateBackend> {
    /// Components that are tied to nothing, where there are any.
    floating: Option<Arc<B::Aggregates>>,
    /// Where there are inactive cells: all components.
    all: Option<Arc<B::Aggregates>>,
    sizes: Vec<usize>,
    sums: B::AggregateVector,
    /// The numbers on the host.
    host: Vec<f64>,
    inactive_cells: usize,
    /// Whether all active cells are one floating component.
    is_alone: bool,
    /// See [`Components::is_one_floating`].
    is_one_floating: bool,
}

const NORM: Scalar = Scalar::new(0);
/// A part of the right-hand side this small, relative to what the tolerance allows, is rounding.
pub(crate) const NEGLIGIBLE: f64 = 0.1;
/// The rounding error that remains of a right-hand side that is removed completely, relative to it.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

impl<B: AggregateBackend> NullSpace<B> {
    /// Finds what floats, and which cells are inactive.
    ///
    /// # Errors
    /// [`Error::Invalid`] where no cell is active; as [`crate::backend::Backend::zeros`].
    pub fn new(operator: Arc<dyn AggregateOperator<B, f64>>, compatibility: Compatibility) -> Result<Self> {
        let scalars = operator.backend().scalars()?;
        let found = Found::new(&*operator, operator.components()?)?;
        Ok(Self { operator, compatibility, scalars, found })
    }

    /// Finds it anew, after the matrix has got other coefficients.
    ///
    /// # Errors
    /// See [`NullSpace::new`].
    pub fn update(&mut self) -> Result<()> {
        let components = self.operator.components()?;
        let was_one_floating = self.found.as_ref().is_some_and(|found| found.is_one_floating);
        if !Components::stay_one_floating(was_one_floating, components.as_ref()) {
            self.found = Found::new(&*self.operator, components)?;
        }
        Ok(())
    }

    /// Takes out of b what no u can produce; nothing where there is nothing such.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that is more than a solve to `tolerance` could overlook, unless the options ask for
    /// projection; the errors of the device.
    pub fn make_compatible(&mut self, b: &mut B::Vector<f64>, tolerance: f64) -> Result<Option<Removed>> {
        let Self { operator, compatibility, scalars, found } = self;
        let Some(found) = found else { return Ok(None) };
        found.make_compatible(&**operator, b, tolerance, *compatibility, scalars).map(Some)
    }

    /// Gives u the mean 0 over every floating component, and 0 in inactive cells.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn project_out(&mut self, u: &mut B::Vector<f64>) -> Result<()> {
        match &mut self.found {
            Some(found) => found.project_out(self.operator.backend(), u),
            None => Ok(()),
        }
    }

    /// Whether there is a part of the grid that is tied to nothing.
    pub fn is_floating(&self) -> bool {
        self.found.as_ref().is_some_and(|found| !found.sizes.is_empty())
    }

    /// A note for the user, if any.
    pub fn describe(&self) -> Option<String> {
        self.found.as_ref().map(Found::describe)
    }
}

impl<B: AggregateBackend> Found<B> {
    fn new(operator: &dyn AggregateOperator<B, f64>, components: Option<Components>) -> Result<Option<Self>> {
        let Some(components) = components else { return Ok(None) };
        let (backend, shape) = (operator.backend(), components.all.shape());
        let cells = shape.cells();
        let (active_cells, is_one_floating) = (components.active_cells(), components.is_one_floating());
        if active_cells == 0 {
            return Err(Error::invalid(
                "diffusion.active",
                format!(
                    "none of the {cells} cells is active; check the mask, and that the coefficient is not 0 everywhere"
                ),
            ));
        }
        let device = |map: AggregateMap| backend.aggregates(&operator.own_cells(map)?).map(Arc::new);
        let all = (active_cells < cells).then(|| device(components.all.clone())).transpose()?;
        let is_any_floating = components.anchored.contains(&false);
        let floating = is_any_floating.then(|| components.floating());
        let sizes = floating.as_ref().map_or_else(Vec::new, AggregateMap::sizes);
        let (count, is_alone) = (sizes.len(), sizes == [active_cells]);
        let floating = match (floating, &all) {
            (Some(floating), Some(all)) if floating.count() == components.all.count() => Some(Arc::clone(all)),
            (floating, _) => floating.map(device).transpose()?,
        };
        Ok(Some(Self {
            floating,
            all,
            sizes,
            sums: backend.aggregate_vector(count)?,
            host: vec![0.0; count],
            inactive_cells: cells - active_cells,
            is_alone,
            is_one_floating,
        }))
    }

    /// ‖b‖ over every floating component; `self.sums` is as it was.
    fn norms(&mut self, operator: &dyn AggregateOperator<B, f64>, b: &B::Vector<f64>) -> Result<Vec<f64>> {
        let Self { floating: Some(floating), sums, sizes, host, .. } = self else { return Ok(Vec::new()) };
        let (backend, layout) = (operator.backend(), operator.layout());
        let mut values = vec![0.0; layout.shape().cells()];
        backend.download(b, &mut ArrayViewMut::c_order(&mut values, layout.shape())?)?;
        values.iter_mut().for_each(|value| *value *= *value);
        let mut squares = backend.zeros::<f64>(layout)?;
        backend.upload(ArrayView::c_order(&values, layout.shape())?, &mut squares)?;
        backend.aggregate_sums(&squares, floating, sums)?;
        let mut norms = vec![0.0; sizes.len()];
        backend.read_aggregated(sums, &mut norms)?;
        norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
        backend.write_aggregated(host, sums)?;
        Ok(norms)
    }

    /// Leaves minus the mean of x over every floating component in `self.sums` and in `self.host`.
    fn find_means(&mut self, backend: &B, x: &B::Vector<f64>) -> Result<()> {
        let Self { floating: Some(floating), sums, host, sizes, .. } = self else { return Ok(()) };
        backend.aggregate_sums(x, floating, sums)?;
        backend.read_aggregated(sums, host)?;
        for (mean, &size) in host.iter_mut().zip(sizes.iter()) {
            *mean = -*mean / size as f64;
        }
        backend.write_aggregated(host, sums)
    }

    fn clear_inactive(&self, backend: &B, x: &mut B::Vector<f64>) -> Result<()> {
        self.all.as_ref().map_or(Ok(()), |all| backend.clear_outside(all, x))
    }

    fn make_compatible(
        &mut self,
        operator: &dyn AggregateOperator<B, f64>,
        b: &mut B::Vector<f64>,
        tolerance: f64,
        compatibility: Compatibility,
        scalars: &mut B::Scalars,
    ) -> Result<Removed> {
        let backend = operator.backend();
        self.clear_inactive(backend, b)?;
        if self.sizes.is_empty() {
            return Ok(Removed::default());
        }
        backend.dot(b, b, NORM, scalars)?;
        let norm = backend.read(scalars)?[NORM.index()].sqrt();
        if !norm.is_finite() {
            // The caller says which entry is at fault.
            return Ok(Removed::default());
        }
        self.find_means(backend, b)?;
        // Where a floating component is not all there is, its sources are judged beside its own.
        let is_judged = compatibility == Compatibility::Require && self.host.iter().any(|&mean| mean != 0.0);
        let norms = if is_judged && !self.is_alone { Some(self.norms(operator, b)?) } else { None };
        let component_norm = |component: usize| self.host[component].abs() * (self.sizes[component] as f64).sqrt();
        let total = (0..self.sizes.len()).map(|component| component_norm(component).powi(2)).sum::<f64>().sqrt();
        let relative = if norm > 0.0 { total / norm } else { 0.0 };
        // What is missing beside the sources of a component: of all of b where there is one component alone.
        let share = |component: usize| {
            let own = norms.as_ref().map_or(norm, |norms| norms[component]);
            if own > 0.0 { component_norm(component) / own } else { 0.0 }
        };
        let worst = (0..self.sizes.len()).max_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0);
        if share(worst).max(relative) > NEGLIGIBLE * tolerance && compatibility == Compatibility::Require {
            return Err(Error::invalid(
                "the right-hand side",
                format!(
                    "it has no solution: a component of {} cells is tied to nothing fixed, so its sources must add up to 0, but \
                     they add up to {:.3e} ({:.1e} of their norm). Balance the sources, fix a value somewhere in it \
                     (a dirichlet or robin side, or a well), or set solver.compatibility = \"project\" to have the mean removed",
                    self.sizes[worst],
                    -self.host[worst] * self.sizes[worst] as f64,
                    share(worst),
                ),
            ));
        }
        self.remove_found(backend, b)?;
        self.remove_means(backend, b)?;
        backend.dot(b, b, NORM, scalars)?;
        if backend.read(scalars)?[NORM.index()].sqrt() <= ROUNDING * norm {
            // What is left of a right-hand side that was constant is its rounding, and has no meaning.
            backend.clear(b)?;
        }
        Ok(Removed { relative })
    }

    fn project_out(&mut self, backend: &B, u: &mut B::Vector<f64>) -> Result<()> {
        self.clear_inactive(backend, u)?;
        if self.sizes.is_empty() {
            return Ok(());
        }
        self.remove_means(backend, u)?;
        self.remove_means(backend, u)
    }

    /// Takes the means out once. What rounding of a mean leaves is as large as the mean is beside what differs from it; a second
    /// time takes that out too. Of a constant then nothing is left: the same is taken from the same in every cell.
    fn remove_means(&mut self, backend: &B, x: &mut B::Vector<f64>) -> Result<()> {
        self.find_means(backend, x)?;
        self.remove_found(backend, x)
    }

    fn remove_found(&self, backend: &B, x: &mut B::Vector<f64>) -> Result<()> {
        self.floating.as_ref().map_or(Ok(()), |floating| backend.add_aggregated(floating, &self.sums, x))
    }

    fn describe(&self) -> String {
        let isolated = self.sizes.iter().filter(|&&size| size == 1).count();
        let components = self.sizes.len() - isolated;
        let mut said = Vec::new();
        if components > 0 {
            let largest = self.sizes.iter().max().copied().unwrap_or(0);
            let s = if components == 1 { "" } else { "s" };
            said.push(format!(
                "{components} connected component{s} (the largest of {largest} cells) tied to nothing fixed: the solution has mean 0 there"
            ));
        }
        if isolated > 0 {
            said.push(format!("{isolated} cells with no open face: the solution is 0 there"));
        }
        if self.inactive_cells > 0 {
            said.push(format!("{} inactive cells", self.inactive_cells));
        }
        said.join("; ")
    }
}
