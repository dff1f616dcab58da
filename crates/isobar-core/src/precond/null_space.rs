//! Singular systems: floating components of the grid, which have no shift anywhere.
//!
//! A connected component of the grid without a Dirichlet or Robin side, reaction term or well floats: a constant can be added to
//! its solution (pure Neumann and periodic problems, pockets cut off by inactive cells). Such a system has solutions only if the
//! right-hand side sums to zero over the component, and then infinitely many.

use std::sync::Arc;

use crate::backend::AggregateBackend;
use crate::operator::aggregate::Components;
use crate::operator::{AggregateOperator, Operator};
use crate::options::Compatibility;
use crate::{AggregateMap, ArrayView, ArrayViewMut, Error, Result, Scalar, Shape};

/// The part that was removed from a right-hand side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Removed {
    /// The norm of that part relative to that of b.
    pub relative: f64,
}

/// The null space of a matrix on a device, and its inactive cells.
pub struct NullSpace<B: AggregateBackend> {
    operator: Arc<dyn Operator<B, f64>>,
    /// Finds components; nothing if the null space is known to be the constants.
    aggregates: Option<Arc<dyn AggregateOperator<B, f64>>>,
    scalars: B::Scalars,
    found: Option<Found<B>>,
}

struct Found<B: AggregateBackend> {
    /// The floating components, if there are any.
    floating: Option<B::Aggregates>,
    sizes: Vec<usize>,
    sums: B::AggregateVector,
    /// The numbers of the components on the host.
    host: Vec<f64>,
    inactive_cells: usize,
    /// Whether all active cells are one floating component.
    is_alone: bool,
    /// See [`Components::is_one_floating`].
    is_one_floating: bool,
}

const NORM: Scalar = Scalar::new(0);
/// A part of the right-hand side below this fraction of the tolerance is rounding.
pub(crate) const NEGLIGIBLE: f64 = 0.1;
/// Sources of a component below this fraction of the right-hand side may be rounding of it, as those of A x are where x is constant.
const UNJUDGED: f64 = 64.0 * f64::EPSILON;
/// The relative rounding error of a right-hand side that is removed completely.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

impl<B: AggregateBackend> NullSpace<B> {
    /// Finds the floating components, and the inactive cells.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no cell is active; see [`crate::backend::Backend::zeros`].
    pub fn new(aggregates: Arc<dyn AggregateOperator<B, f64>>) -> Result<Self> {
        let (operator, components) = (Arc::clone(&aggregates) as Arc<dyn Operator<B, f64>>, aggregates.components()?);
        let (scalars, found) = (operator.backend().scalars()?, Found::new(&*operator, components)?);
        Ok(Self { operator, aggregates: Some(aggregates), scalars, found })
    }

    /// Makes the null space of the constants of a whole grid of this shape.
    ///
    /// # Errors
    /// See [`crate::backend::Backend::zeros`].
    pub fn of_constants(operator: Arc<dyn Operator<B, f64>>, shape: Shape) -> Result<Self> {
        let components = Components { all: AggregateMap::whole(shape), anchored: vec![false] };
        let (scalars, found) = (operator.backend().scalars()?, Found::new(&*operator, Some(components))?);
        Ok(Self { operator, aggregates: None, scalars, found })
    }

    /// Finds them again, after a change of the coefficients.
    pub fn update(&mut self) -> Result<()> {
        let Some(aggregates) = &self.aggregates else { return Ok(()) };
        let components = aggregates.components()?;
        let was_one_floating = self.found.as_ref().is_some_and(|found| found.is_one_floating);
        if !Components::stay_one_floating(was_one_floating, components.as_ref()) {
            self.found = Found::new(&*self.operator, components)?;
        }
        Ok(())
    }

    /// Sets x to 0 in inactive cells, whose entries no matrix and no norm may meet: they may be of any size, or NaN.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn clear_inactive(&self, x: &mut B::Vector<f64>) -> Result<()> {
        match (&self.aggregates, &self.found) {
            (Some(aggregates), Some(found)) if found.inactive_cells > 0 => aggregates.clear_inactive(x),
            _ => Ok(()),
        }
    }

    /// Removes the part of b, 0 in inactive cells, that no u can produce; returns nothing if there is none. Messages speak of one of the
    /// `copies` of a caller's grid in vectors, and of b before it was multiplied by a factor.
    ///
    /// # Errors
    /// [`Error::Invalid`] if that part exceeds what a solve to `tolerance` could ignore, unless it is to be projected out; the errors of the device.
    pub fn make_compatible(
        &mut self,
        b: &mut B::Vector<f64>,
        (copies, factor): (usize, f64),
        tolerance: f64,
        compatibility: Compatibility,
    ) -> Result<Option<Removed>> {
        let Self { operator, scalars, found, .. } = self;
        let Some(found) = found else { return Ok(None) };
        found.make_compatible(&**operator, (b, scalars), (copies, factor), tolerance, compatibility).map(Some)
    }

    /// Gives u the mean 0 over every floating component, and 0 in inactive cells.
    pub fn project_out(&mut self, u: &mut B::Vector<f64>) -> Result<()> {
        self.clear_inactive(u)?;
        match &mut self.found {
            Some(found) => found.project_out(self.operator.backend(), u),
            None => Ok(()),
        }
    }

    /// Returns whether there is a floating component.
    pub fn is_floating(&self) -> bool {
        self.found.as_ref().is_some_and(|found| !found.sizes.is_empty())
    }

    /// Returns a note for the user, if any, on one of the `copies` of a caller's grid, on which floating components have the sizes `of_one`, where they
    /// have been counted.
    pub fn describe(&self, copies: usize, of_one: Option<Vec<usize>>) -> Option<String> {
        self.found.as_ref().map(|found| found.describe(copies, of_one))
    }
}

impl<B: AggregateBackend> Found<B> {
    fn new(operator: &dyn Operator<B, f64>, components: Option<Components>) -> Result<Option<Self>> {
        let Some(components) = components else { return Ok(None) };
        let (backend, shape) = (operator.backend(), components.all.shape());
        let cells = shape.cells();
        let active_cells = backend.enter(|| components.active_cells());
        let is_one_floating = components.is_one_floating();
        Error::unless(active_cells > 0, "diffusion.active", || {
            format!("none of the {cells} cells is active; check the mask, and that the coefficient is not 0 everywhere")
        })?;
        let is_any_floating = components.anchored.contains(&false);
        let floating = is_any_floating.then(|| components.floating());
        let sizes = floating.as_ref().map_or_else(Vec::new, AggregateMap::sizes);
        let (count, is_alone) = (sizes.len(), sizes == [active_cells]);
        let floating = floating.map(|map| backend.aggregates(&map.on(operator.layout())?)).transpose()?;
        Ok(Some(Self {
            floating,
            sizes,
            sums: backend.aggregate_vector(count)?,
            host: vec![0.0; count],
            inactive_cells: cells - active_cells,
            is_alone,
            is_one_floating,
        }))
    }

    /// Computes ‖b‖ over every floating component, and leaves `self.sums` unchanged.
    fn norms(&mut self, operator: &dyn Operator<B, f64>, b: &B::Vector<f64>) -> Result<Vec<f64>> {
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

    /// Stores minus the mean of x over every floating component in `self.sums` and in `self.host`.
    fn find_means(&mut self, backend: &B, x: &B::Vector<f64>) -> Result<()> {
        let Self { floating: Some(floating), sums, host, sizes, .. } = self else { return Ok(()) };
        backend.aggregate_sums(x, floating, sums)?;
        backend.read_aggregated(sums, host)?;
        for (mean, &size) in host.iter_mut().zip(sizes.iter()) {
            *mean = -*mean / size as f64;
        }
        backend.write_aggregated(host, sums)
    }

    fn make_compatible(
        &mut self,
        operator: &dyn Operator<B, f64>,
        (b, scalars): (&mut B::Vector<f64>, &mut B::Scalars),
        (copies, factor): (usize, f64),
        tolerance: f64,
        compatibility: Compatibility,
    ) -> Result<Removed> {
        let backend = operator.backend();
        if self.sizes.is_empty() {
            return Ok(Removed::default());
        }
        backend.dot(b, b, NORM.of(scalars))?;
        let norm = backend.read(scalars)?[NORM.index()].sqrt();
        if !norm.is_finite() {
            // The caller reports the entry.
            return Ok(Removed::default());
        }
        self.find_means(backend, b)?;
        // The sources of one of several components are judged relative to its own.
        let is_judged = compatibility == Compatibility::Require && self.host.iter().any(|&mean| mean != 0.0);
        let norms = if is_judged && !self.is_alone { Some(self.norms(operator, b)?) } else { None };
        let component_norm = |component: usize| self.host[component].abs() * (self.sizes[component] as f64).sqrt();
        let total = (0..self.sizes.len()).map(|component| component_norm(component).powi(2)).sum::<f64>().sqrt();
        let relative = if norm > 0.0 { total / norm } else { 0.0 };
        // The unbalanced part relative to the sources of a component, or to all of b if there is only one; 0 if it is rounding of b.
        let share = |component: usize| {
            let (off, own) = (component_norm(component), norms.as_ref().map_or(norm, |norms| norms[component]));
            if own > 0.0 && off > UNJUDGED * norm { off / own } else { 0.0 }
        };
        let worst = (0..self.sizes.len()).max_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0);
        if share(worst).max(relative) > NEGLIGIBLE * tolerance && compatibility == Compatibility::Require {
            let (which, sum) = match self.of_one(self.sizes[worst], copies) {
                Some(size) => (
                    format!("a component of {}", cells(size)),
                    format!("add up to {:.3e}", -self.host[worst] * size as f64 / factor),
                ),
                None => ("a component".into(), "do not".into()),
            };
            return Err(Error::invalid(
                "the right-hand side",
                format!(
                    "it has no solution: {which} has no fixed value, so its sources must add up to 0, but they {sum}. Balance the sources, fix a \
                     value somewhere in it (a dirichlet or robin side, or a well), or set solver.compatibility = \"project\" to have the mean \
                     removed"
                ),
            ));
        }
        self.remove_found(backend, b)?;
        self.remove_means(backend, b)?;
        backend.dot(b, b, NORM.of(scalars))?;
        if backend.read(scalars)?[NORM.index()].sqrt() <= ROUNDING * norm {
            // The rest of a constant right-hand side is rounding.
            backend.clear(b)?;
        }
        Ok(Removed { relative })
    }

    fn project_out(&mut self, backend: &B, u: &mut B::Vector<f64>) -> Result<()> {
        if self.sizes.is_empty() {
            return Ok(());
        }
        self.remove_means(backend, u)?;
        self.remove_means(backend, u)
    }

    /// Subtracts the means once. Rounding of a mean leaves an error relative to the mean; a second call removes that too. A
    /// constant then vanishes completely, since every cell subtracts the same number.
    fn remove_means(&mut self, backend: &B, x: &mut B::Vector<f64>) -> Result<()> {
        self.find_means(backend, x)?;
        self.remove_found(backend, x)
    }

    fn remove_found(&self, backend: &B, x: &mut B::Vector<f64>) -> Result<()> {
        self.floating.as_ref().map_or(Ok(()), |floating| backend.add_aggregated(floating, &self.sums, x))
    }

    /// Returns the cells of a component in one of the copies of a grid, where that is known: some go around them and some do not.
    fn of_one(&self, size: usize, copies: usize) -> Option<usize> {
        (self.is_alone || copies == 1).then_some(size / copies)
    }

    fn describe(&self, copies: usize, of_one: Option<Vec<usize>>) -> String {
        // How often one goes around a periodic direction decides on its number of parts in the copies.
        let is_counted = of_one.is_some();
        let sizes = of_one.as_ref().unwrap_or(&self.sizes);
        let isolated = sizes.iter().filter(|&&size| size == 1).count();
        let components = sizes.len() - isolated;
        let mut said = Vec::new();
        if components > 0 {
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let largest = if is_counted { Some(largest) } else { self.of_one(largest, copies) };
            let which = match (components, largest) {
                (1, Some(largest)) => format!("1 connected component of {largest} cells"),
                (_, Some(largest)) => format!("{components} connected components (the largest of {largest} cells)"),
                (_, None) => "connected components".into(),
            };
            said.push(format!("{which} without fixed values: the solution has mean 0 there"));
        }
        if isolated > 0 {
            said.push(format!(
                "{} with no open face: the solution is 0 there",
                cells(isolated / if is_counted { 1 } else { copies })
            ));
        }
        if self.inactive_cells > 0 {
            said.push(format!(
                "{} inactive {}",
                self.inactive_cells / copies,
                if self.inactive_cells == copies { "cell" } else { "cells" }
            ));
        }
        said.join("; ")
    }
}

fn cells(count: usize) -> String {
    format!("{count} cell{}", if count == 1 { "" } else { "s" })
}
