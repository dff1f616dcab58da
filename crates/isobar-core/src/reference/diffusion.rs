//! The diffusion operator, cell by cell.

use std::sync::Arc;

use super::seven_point::{At, Coupling, Plain, Rows, SevenPoint, row};
use super::{Reference, Vector};
use crate::operator::aggregate::{Components, Entry};
use crate::operator::{AggregateOperator, Capabilities, MixedSmoother, Operator};
use crate::options::Smoother;
use crate::stencil::point_levels::levels_for;
use crate::stencil::{Axis, Diffusion, Hierarchy, Stencil, Supports};
use crate::{AggregateMap, Layout, Real, Result, Serial, Shape, Sum};

/// The rows of a [`Diffusion`] stencil: every transmissibility computed once, in double precision.
#[derive(Clone, Debug)]
pub struct DiffusionRows<T> {
    shape: Shape,
    periodic: [bool; 3],
    /// The transmissibility T between a cell and its upper neighbour, for each direction, in the order of cells.
    faces: [Vec<T>; 3],
    /// The shift s, Dirichlet sides included.
    shift: Vec<T>,
    coefficient_vectors: f64,
}

impl<T: Real> DiffusionRows<T> {
    #[inline(always)]
    fn number(&self, [i, j, k]: At) -> usize {
        i + self.shape.nx * (j + self.shape.ny * k)
    }

    /// Returns t to the neighbour on one side. Inlined, and without writes to parts of an array that is then read whole, which
    /// would wait for them: these are most steps of a test.
    #[inline(always)]
    fn coupling(&self, at: At, axis: Axis, upper: bool) -> Option<Coupling<T>> {
        let (d, n) = (axis as usize, self.shape.extents()[axis as usize]);
        let is_end = if upper { at[d] + 1 == n } else { at[d] == 0 };
        if is_end && !(n > 1 && self.periodic[d]) {
            return None;
        }
        let along = match (is_end, upper) {
            (true, true) => 0,
            (true, false) => n - 1,
            (false, true) => at[d] + 1,
            (false, false) => at[d] - 1,
        };
        let [i, j, k] = at;
        let to = match axis {
            Axis::X => [along, j, k],
            Axis::Y => [i, along, k],
            Axis::Z => [i, j, along],
        };
        let t = self.faces[d][self.number(if upper { at } else { to })];
        Some(Coupling { to, t, in_line: axis == Axis::Z && !is_end, higher: upper != is_end })
    }
}

impl<T: Real> Rows<T> for DiffusionRows<T> {
    fn couplings(&self, at: At) -> [Option<Coupling<T>>; 6] {
        [
            self.coupling(at, Axis::X, false),
            self.coupling(at, Axis::X, true),
            self.coupling(at, Axis::Y, false),
            self.coupling(at, Axis::Y, true),
            self.coupling(at, Axis::Z, false),
            self.coupling(at, Axis::Z, true),
        ]
    }

    fn shift(&self, at: At) -> T {
        self.shift[self.number(at)]
    }

    fn coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors
    }
}

impl SevenPoint for Diffusion {
    type Rows<T: Real> = DiffusionRows<T>;

    fn periodic(&self) -> [bool; 3] {
        let Shape { nx, ny, nz } = self.shape();
        let n = [nx, ny, nz];
        Axis::ALL.map(|axis| self.is_periodic(axis) && n[axis as usize] > 1)
    }

    fn rows<T: Real>(&self, layout: &Layout) -> Result<DiffusionRows<T>> {
        self.require_host()?;
        let of =
            |value: &dyn Fn(At) -> f64| layout.shape().places().map(|at| T::from_f64(value(at))).collect::<Vec<_>>();
        let faces = |axis| of(&|at| self.face(axis, at));
        Ok(DiffusionRows {
            shape: self.shape(),
            periodic: self.periodic(),
            faces: Axis::ALL.map(faces),
            shift: of(&|at| self.shift(at)),
            coefficient_vectors: Diffusion::coefficient_vectors(self),
        })
    }
}

impl<T: Real> AggregateOperator<Reference, T> for Plain<Diffusion, T> {
    fn subtract_aggregated(
        &self,
        aggregates: &AggregateMap,
        a: &Vec<f64>,
        p: &Vector<T>,
        q: &mut Vector<T>,
        (sigma, scalars): Sum<'_, Reference>,
    ) -> Result<()> {
        let state = self.state();
        let value = |at: At| {
            let aggregate = aggregates.aggregate_at(at);
            aggregate.map_or(T::ZERO, |aggregate| T::from_f64(a[aggregate]))
        };
        let mut sum = 0.0;
        for at @ [i, j, k] in self.layout().shape().places() {
            let entry = q.get(i, j, k) - row(&state.rows, at, value);
            q.set(i, j, k, entry);
            sum += entry.to_f64() * p.get(i, j, k).to_f64();
        }
        scalars.reduce(sigma, [sum]);
        Ok(())
    }

    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>> {
        Ok(self.state().stencil.galerkin(map))
    }

    fn clear_inactive(&self, x: &mut Vector<T>) -> Result<()> {
        let state = self.state();
        for at @ [i, j, k] in self.layout().shape().places() {
            if !state.stencil.is_active(at) {
                x.set(i, j, k, T::ZERO);
            }
        }
        Ok(())
    }

    fn components(&self) -> Result<Option<Components>> {
        Ok(self.state().stencil.components(&Serial))
    }

    fn bodies(&self) -> Result<AggregateMap> {
        Ok(self.state().stencil.bodies(&Serial))
    }
}

impl Supports<Diffusion> for Reference {
    type Operator<T: Real> = Plain<Diffusion, T>;

    fn operator<T: Real>(&self, stencil: &Diffusion) -> Result<Arc<Plain<Diffusion, T>>> {
        Ok(Arc::new(Plain::new(stencil)?))
    }

    fn update<T: Real>(&self, operator: &Plain<Diffusion, T>, stencil: &Diffusion) -> Result<bool> {
        operator.update(stencil)?;
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Plain<Diffusion, T>>) -> Capabilities<Self, T> {
        Capabilities::all(operator)
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &Diffusion,
        finest: &Arc<Plain<Diffusion, T>>,
        smoother: Smoother,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, Diffusion, T>>> {
        levels_for(self, stencil, finest, smoother, wanted).map(Some)
    }

    fn mixed_smoother(&self, double: &Arc<Plain<Diffusion, f64>>) -> Option<Arc<dyn MixedSmoother<Self>>> {
        Some(Arc::clone(double) as _)
    }
}
