//! Singular systems: parts of the grid that hang on nothing fixed.
//!
//! Where no Dirichlet side, reaction term or well ties a connected part of the grid, a constant can be
//! added to its solution (pure Neumann and periodic problems, pockets cut off by inactive cells). Such a
//! system has solutions only if the right-hand side sums to zero over the part, and then infinitely many.

use crate::backend::Slot;
use crate::disjoint_sets::DisjointSets;
use crate::error::{Error, Result};
use crate::options::Compatibility;
use crate::region::{RegionBackend, RegionMap};
use crate::stencil::Diffusion;

/// The connected parts of a diffusion problem's active cells.
#[derive(Clone, Debug)]
pub struct Parts {
    /// All parts.
    pub all: RegionMap,
    /// Whether each is tied to something fixed.
    pub anchored: Vec<bool>,
}

impl Parts {
    /// Finds them: cells are connected through faces that are open.
    pub fn of(stencil: &Diffusion) -> Self {
        let shape = stencil.shape();
        if stencil.is_one_piece() {
            let anchored = stencil.is_anchored();
            let all = RegionMap::from_parts(shape, vec![0; shape.cells()], 1);
            return Self { all, anchored: vec![anchored] };
        }
        let mut sets = DisjointSets::new(shape.cells());
        stencil.for_each_open_face(|lower, upper, _| sets.union(lower, upper));
        let active: Vec<bool> = stencil.cells().map(|at| stencil.is_active(at)).collect();
        let all = sets.regions(shape, |cell| active[cell]);
        let mut anchored = vec![false; all.count()];
        stencil.for_each_shift(|cell, _| {
            if let Some(part) = all.region(cell) {
                anchored[part] = true;
            }
        });
        Self { all, anchored }
    }

    /// The parts tied to nothing: their indicator vectors span the null space.
    pub fn floating(&self) -> RegionMap {
        self.all.clone().filtered(|part| !self.anchored[part])
    }

    /// Cells that take part.
    pub fn active_cells(&self) -> usize {
        self.all.sizes().iter().sum()
    }
}

/// The null space of a matrix on a device, and the inactive cells.
pub trait NullSpace<B: crate::backend::Backend>: Send {
    /// Takes out of b what no u can produce.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that is more than a solve to `tolerance` could overlook, unless the options ask for
    /// projection; what the device reports.
    fn make_compatible(&mut self, b: &mut B::Vector<f64>, tolerance: f64) -> Result<Removed>;

    /// Gives u the mean 0 over every floating part, and 0 in inactive cells.
    ///
    /// # Errors
    /// What the device reports.
    fn project_out(&mut self, u: &mut B::Vector<f64>) -> Result<()>;

    /// What a user should know.
    fn describe(&self) -> String;
}

/// What was taken out of a right-hand side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Removed {
    /// The norm of what was removed relative to that of b.
    pub relative: f64,
}

/// [`NullSpace`] of a [`Diffusion`] operator.
pub struct FloatingParts<B: RegionBackend> {
    backend: B,
    floating: B::Regions,
    /// Where there are inactive cells: all others.
    active: Option<B::Regions>,
    sizes: Vec<usize>,
    sums: B::RegionVector,
    /// The same numbers on the host.
    host: Vec<f64>,
    scalars: B::Scalars,
    compatibility: Compatibility,
    inactive_cells: usize,
}

const NORM: Slot = Slot::new(0);
/// A part of the right-hand side this small, relative to what the tolerance allows, is rounding.
const NEGLIGIBLE: f64 = 0.1;

impl<B: RegionBackend + Clone> FloatingParts<B> {
    /// Finds what floats; `None` where nothing does and every cell is active.
    ///
    /// # Errors
    /// [`Error::Invalid`] where no cell is active; as [`crate::backend::Backend::zeros`].
    pub fn new(backend: &B, stencil: &Diffusion, compatibility: Compatibility) -> Result<Option<Self>> {
        let cells = stencil.shape().cells();
        if stencil.is_one_piece() && stencil.is_anchored() {
            return Ok(None);
        }
        let parts = Parts::of(stencil);
        let active_cells = parts.active_cells();
        if active_cells == 0 {
            return Err(Error::invalid(
                "diffusion.active",
                format!(
                    "none of the {cells} cells is active; check the mask, and that the coefficient is not 0 everywhere"
                ),
            ));
        }
        let floating = parts.floating();
        if floating.count() == 0 && active_cells == cells {
            return Ok(None);
        }
        let active = (active_cells < cells)
            .then(|| {
                let map = parts.all.ids().iter().map(|&id| if id == RegionMap::NONE { id } else { 0 }).collect();
                backend.regions(&RegionMap::new(stencil.shape(), map, 1)?)
            })
            .transpose()?;
        Ok(Some(Self {
            floating: backend.regions(&floating)?,
            active,
            sizes: floating.sizes(),
            sums: backend.region_vector(floating.count())?,
            host: vec![0.0; floating.count()],
            scalars: backend.scalars()?,
            backend: backend.clone(),
            compatibility,
            inactive_cells: cells - active_cells,
        }))
    }

    /// Leaves minus the mean of x over every floating part in `self.sums` and in `self.host`.
    fn find_means(&mut self, x: &B::Vector<f64>) -> Result<()> {
        let Self { backend, floating, sums, host, sizes, .. } = self;
        backend.region_sums(x, floating, sums)?;
        backend.read_regional(sums, host)?;
        for (mean, &size) in host.iter_mut().zip(sizes.iter()) {
            *mean = -*mean / size as f64;
        }
        backend.write_regional(host, sums)
    }

    fn clear_inactive(&self, x: &mut B::Vector<f64>) -> Result<()> {
        match &self.active {
            Some(active) => self.backend.clear_outside(active, x),
            None => Ok(()),
        }
    }
}

impl<B: RegionBackend + Clone> NullSpace<B> for FloatingParts<B> {
    fn make_compatible(&mut self, b: &mut B::Vector<f64>, tolerance: f64) -> Result<Removed> {
        self.clear_inactive(b)?;
        if self.sizes.is_empty() {
            return Ok(Removed::default());
        }
        self.backend.dot(b, b, NORM, &mut self.scalars)?;
        let norm = self.backend.read(&self.scalars)?[NORM.index()].sqrt();
        if !norm.is_finite() {
            // The caller says which entry is at fault.
            return Ok(Removed::default());
        }
        self.find_means(b)?;
        let part_norm = |part: usize| self.host[part].abs() * (self.sizes[part] as f64).sqrt();
        let total = (0..self.sizes.len()).map(|part| part_norm(part).powi(2)).sum::<f64>().sqrt();
        let relative = if norm > 0.0 { total / norm } else { 0.0 };
        if relative > NEGLIGIBLE * tolerance && self.compatibility == Compatibility::Require {
            let worst = (0..self.sizes.len()).max_by(|&a, &b| part_norm(a).total_cmp(&part_norm(b))).unwrap_or(0);
            return Err(Error::invalid(
                "the right-hand side",
                format!(
                    "it has no solution: a part of {} cells is tied to nothing fixed, so its sources must add up to 0, but \
                     they add up to {:.3e} ({:.1e} of the norm). Balance the sources, fix a value somewhere in that part \
                     (a dirichlet side or a well), or set solver.compatibility = \"project\" to have the mean removed",
                    self.sizes[worst],
                    -self.host[worst] * self.sizes[worst] as f64,
                    relative,
                ),
            ));
        }
        self.backend.add_regional(&self.floating, &self.sums, b)?;
        Ok(Removed { relative })
    }

    fn project_out(&mut self, u: &mut B::Vector<f64>) -> Result<()> {
        self.clear_inactive(u)?;
        if self.sizes.is_empty() {
            return Ok(());
        }
        self.find_means(u)?;
        self.backend.add_regional(&self.floating, &self.sums, u)
    }

    fn describe(&self) -> String {
        let isolated = self.sizes.iter().filter(|&&size| size == 1).count();
        let parts = self.sizes.len() - isolated;
        let mut said = Vec::new();
        if parts > 0 {
            let largest = self.sizes.iter().max().copied().unwrap_or(0);
            let s = if parts == 1 { "" } else { "s" };
            said.push(format!(
                "{parts} connected part{s} (the largest of {largest} cells) tied to nothing fixed: the solution has mean 0 there"
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
