//! The coefficients of the diffusion operator on processor cores.
//!
//! * this file: the operator and its capabilities,
//! * [`cells`]: entries from coefficients of cells, [`even`]: from equal cells, [`faces`]: stored ones, [`entries`]: their
//!   shared code.

mod cells;
mod entries;
mod even;
mod faces;

use std::sync::Arc;

use isobar_core::operator::aggregate::{Components, Entry};
use isobar_core::operator::update_residual_unfused;
use isobar_core::prelude::{
    AggregateMap, AggregateOperator, Axis, Backend, Capabilities, Choice, Colour, Error, Execute, Hierarchy,
    HostScalars, Layout, MixedSmoother, Operator, Real, ResidualUpdate, Result, Shape, Smoother, SolverOptions,
    Stencil, Sum, Supports, Triangular,
};
use isobar_core::stencil;
use isobar_core::stencil::point_levels::levels_for;
use isobar_dist::PartBackend;
use isobar_dist::diffusion::choice;
use isobar_dist::require_order;

use self::cells::Cells;
pub(crate) use self::entries::CellCoefficients;
use self::faces::Faces;
use crate::aggregate::Aggregates;
use crate::seven_point::substitution::Blocks;
use crate::seven_point::triangular::{IncompletePoisson, RelaxLower, RelaxUpper};
use crate::seven_point::{Kernel, On, SevenPoint, Stored};
use crate::{Cpu, Geometry, Vector};

/// [`stencil::Diffusion`] on processor cores.
pub type Diffusion<T> = SevenPoint<DiffusionCoefficients<T>, T>;

/// The coefficients that a diffusion operator stores.
#[derive(Debug)]
pub struct DiffusionCoefficients<T> {
    kind: Kind<T>,
    vectors: f64,
    /// The stencil, from which components and strongly coupled aggregates are found.
    stencil: stencil::Diffusion,
}

#[derive(Debug)]
enum Kind<T> {
    Cells(Cells<T>),
    Faces(Faces<T>),
}

impl<T: Real> DiffusionCoefficients<T> {
    fn new(cpu: &Cpu, layout: &Layout, periodic: [bool; 3], stencil: &stencil::Diffusion) -> Result<Self> {
        stencil.require_host()?;
        let kind = match stencil.coefficients() {
            stencil::Coefficients::Cells { fields, .. } => Kind::Cells(Cells::new(cpu, layout, stencil, fields.len())?),
            _ => Kind::Faces(Faces::new(cpu, layout, periodic[0], stencil)?),
        };
        let mut coefficients = Self { kind, vectors: stencil.coefficient_vectors(), stencil: stencil.clone() };
        coefficients.set(cpu, stencil)?;
        Ok(coefficients)
    }

    fn set(&mut self, cpu: &Cpu, stencil: &stencil::Diffusion) -> Result<()> {
        stencil.require_host()?;
        match (&mut self.kind, stencil.coefficients()) {
            (Kind::Cells(cells), stencil::Coefficients::Cells { fields, axes }) => {
                cells.set(cpu, stencil, fields, *axes);
            }
            (Kind::Faces(stored), stencil::Coefficients::Faces(faces)) => stored.set(cpu, stencil, faces),
            _ => return Err(Error::invalid("diffusion.coefficient", "coefficients of another kind than before")),
        }
        self.stencil = stencil.clone();
        Ok(())
    }
}

impl<T: Real> Stored<T> for DiffusionCoefficients<T> {
    fn run<K: Kernel<T>>(&self, cpu: &Cpu, geometry: Geometry<'_, T>, kernel: K) -> K::Output {
        match &self.kind {
            Kind::Cells(coefficients) => match &coefficients.even() {
                Some(coefficients) => cpu.dispatch::<T, _>(On { kernel, geometry, coefficients }),
                None => cpu.dispatch::<T, _>(On { kernel, geometry, coefficients }),
            },
            Kind::Faces(coefficients) => cpu.dispatch::<T, _>(On { kernel, geometry, coefficients }),
        }
    }

    fn vectors(&self) -> f64 {
        self.vectors
    }

    fn bytes(&self) -> usize {
        let of = |vectors: &mut dyn Iterator<Item = &Vector<T>>| -> usize {
            vectors.map(|vector| size_of_val(vector.entries())).sum()
        };
        match &self.kind {
            Kind::Cells(cells) => of(&mut cells.vectors()),
            Kind::Faces(faces) => of(&mut faces.vectors()),
        }
    }
}

impl<T: Real> Triangular<Cpu, T> for Diffusion<T> {
    fn relax_lower(&self, r: &Vector<T>, [w, v]: [&mut Vector<T>; 2], rho: Option<Sum<'_, Cpu>>) -> Result<()> {
        self.cpu().fill(w, &Colour::BOTH)?;
        let (r, w, v) = (r.share(), w.share(), v.share_mut());
        let stage = |c: &DiffusionCoefficients<T>, j: usize| self.on_both(c, j, |h| RelaxLower { h, r, w, v });
        match rho {
            Some(rho) => self.summing_pass(|c, j, _| stage(c, j), rho),
            None => {
                self.plain_pass(|c, j, _| {
                    stage(c, j);
                });
                Ok(())
            }
        }
    }

    fn relax_upper(&self, v: &mut Vector<T>, w: Option<&mut Vector<T>>, z: &mut Vector<T>) -> Result<()> {
        let (shared_v, z) = (v.share(), z.share_mut());
        let w = w.unwrap_or(v);
        self.cpu().fill(w, &Colour::BOTH)?;
        let (v, w) = (shared_v, w.share());
        self.plain_pass(|c, j, _| {
            self.on_both(c, j, |h| RelaxUpper { h, v, w, z });
        });
        Ok(())
    }

    fn incomplete_poisson(
        &self,
        scaled: bool,
        inverse_diagonal: &Vector<T>,
        [r, z]: [&mut Vector<T>; 2],
    ) -> Result<()> {
        self.cpu().fill(r, &Colour::BOTH)?;
        let (inverse_diagonal, r, z) = (inverse_diagonal.share(), r.share(), z.share_mut());
        self.plain_pass(|c, j, _| {
            self.on_both(c, j, |h| IncompletePoisson { h, scaled, inverse_diagonal, r, z });
        });
        Ok(())
    }

    fn factorise(&self, block: usize, relaxation: f64, inverse_pivots: &mut Vector<T>) -> Result<()> {
        if block > 1 {
            require_order(&self.geometry().layout)?;
        }
        let c = self.coefficients();
        let blocks = Blocks::new(self.cpu(), self.geometry(), c.stencil.shape(), block);
        let omega = T::from_f64(relaxation);
        match &c.kind {
            Kind::Cells(cells) => blocks.factorise(cells, omega, inverse_pivots)?,
            Kind::Faces(faces) => blocks.factorise(faces, omega, inverse_pivots)?,
        }
        self.cpu().fill(inverse_pivots, &Colour::BOTH)
    }

    fn substitutes(&self) -> bool {
        require_order(&self.geometry().layout).is_ok()
    }

    fn substitutes_on_host(&self) -> bool {
        self.geometry().layout.is_part()
    }

    fn substitute(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        require_order(&self.geometry().layout)?;
        let c = self.coefficients();
        let blocks = Blocks::new(self.cpu(), self.geometry(), c.stencil.shape(), block);
        match &c.kind {
            _ if blocks.is_one() => self.substitute_whole(inverse_pivots, r, z),
            Kind::Cells(cells) => blocks.substitute(cells, inverse_pivots, r, z),
            Kind::Faces(faces) => blocks.substitute(faces, inverse_pivots, r, z),
        }
    }

    fn substitute_residual(
        &self,
        block: usize,
        inverse_pivots: &Vector<T>,
        v: ResidualUpdate<'_, Vector<T>>,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        require_order(&self.geometry().layout)?;
        if block >= self.coefficients().stencil.shape().cells() {
            return self.substitute_whole_residual(inverse_pivots, v, scalars);
        }
        let substitute = |r: &mut Vector<T>, z: &mut Vector<T>| self.substitute(block, inverse_pivots, r, z);
        update_residual_unfused::<_, T>(self.cpu(), v, scalars, substitute)
    }
}

impl<T: Real> AggregateOperator<Cpu, T> for Diffusion<T> {
    fn subtract_aggregated(
        &self,
        aggregates: &Aggregates,
        a: &Vec<f64>,
        p: &Vector<T>,
        q: &mut Vector<T>,
        sigma: Sum<'_, Cpu>,
    ) -> Result<()> {
        self.subtract(aggregates, a, p, q, sigma)
    }

    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>> {
        Ok(self.coefficients().stencil.galerkin(map))
    }

    fn clear_inactive(&self, x: &mut Vector<T>) -> Result<()> {
        let (cpu, layout, stencil) = (self.cpu(), self.geometry().layout, &self.coefficients().stencil);
        let (Shape { nx, ny, nz }, row, whole) = (layout.shape(), layout.first_row(), Stencil::shape(stencil));
        let of_plane = 2 * layout.half_plane();
        let mut planes: Vec<&mut [T]> = x.entries_mut().chunks_mut(of_plane).take(ny).collect();
        Execute::for_each(cpu, &mut planes, |j, plane| {
            let mut is_active = vec![false; whole.nx];
            for k in 0..nz {
                stencil.find_active(row + j + whole.ny * k, &mut is_active);
                for i in (0..nx).filter(|i| !is_active[*i]) {
                    plane[layout.index(i, j, k) - of_plane * j] = T::ZERO;
                }
            }
        });
        Ok(())
    }

    fn components(&self) -> Result<Option<Components>> {
        Ok(self.coefficients().stencil.components(Operator::<Cpu, T>::backend(self)))
    }

    fn bodies(&self) -> Result<AggregateMap> {
        Ok(self.coefficients().stencil.bodies(Operator::<Cpu, T>::backend(self)))
    }
}

impl Supports<stencil::Diffusion> for Cpu {
    type Operator<T: Real> = Diffusion<T>;

    fn choice(&self, stencil: &stencil::Diffusion, _: &Arc<Diffusion<f64>>, options: &SolverOptions) -> Result<Choice> {
        match self.ranks() {
            Some(ranks) => choice(self, ranks, stencil, options, [true, false]),
            None => Ok(self.enter(|| stencil.choice(options))),
        }
    }

    fn layout(&self, stencil: &stencil::Diffusion) -> Result<Layout> {
        stencil.turns().require_one("a checkerboard")?;
        let shape = Stencil::shape(stencil);
        self.own_rows(shape)?.layout(shape, stencil.has_periodic_rows())
    }

    fn operator<T: Real>(&self, stencil: &stencil::Diffusion) -> Result<Arc<Diffusion<T>>> {
        let shape = Stencil::shape(stencil);
        let rows = self.own_rows(shape)?;
        stencil.require_part(rows)?;
        let extents = [shape.nx, shape.ny, shape.nz];
        let periodic = Axis::ALL.map(|axis| stencil.is_periodic(axis) && extents[axis as usize] > 1);
        let layout = rows.layout(shape, periodic[1])?;
        let coefficients = DiffusionCoefficients::new(self, &layout, periodic, stencil)?;
        Ok(Arc::new(SevenPoint::new(self, layout, periodic, coefficients)?))
    }

    fn update<T: Real>(&self, operator: &Diffusion<T>, stencil: &stencil::Diffusion) -> Result<bool> {
        operator.change(|_, coefficients| coefficients.set(self, stencil))?;
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Diffusion<T>>) -> Capabilities<Self, T> {
        Capabilities::all(operator)
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &stencil::Diffusion,
        finest: &Arc<Diffusion<T>>,
        smoother: Smoother,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, stencil::Diffusion, T>>> {
        levels_for(self, stencil, finest, smoother, wanted).map(Some)
    }

    fn mixed_smoother(&self, double: &Arc<Diffusion<f64>>) -> Option<Arc<dyn MixedSmoother<Self>>> {
        Some(Arc::clone(double) as _)
    }
}
