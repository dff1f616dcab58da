//! The diffusion operator on several ranks.

use std::sync::Arc;

use isobar_core::backend::{AggregateMap, Scalar};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, needs_whole_rows};
use isobar_core::operator::aggregate::{Components, Entry};
use isobar_core::operator::mixed::UnfusedTop;
use isobar_core::operator::{AggregateOperator, Capabilities, MixedSmoother, MixedTop, Operator, Relaxation};
use isobar_core::options::{Choice, Method, Preconditioner, Smoother, SolverOptions};
use isobar_core::real::Real;
use isobar_core::stencil::parts::{SupportsParts, SupportsPointParts};
use isobar_core::stencil::{Diffusion, Hierarchy, Lines, Stencil, Supports};

use crate::above_lines::{has_points_above_lines, points_above_lines};
use crate::distributed::{Aggregates, Distributed};
use crate::galerkin::{by_galerkin, divides_galerkin, has_galerkin};
use crate::operator::DistributedOperator;
use crate::points::{by_points, has_points};
use crate::vector::Vector;

impl<B: SupportsPointParts> Supports<Diffusion> for Distributed<B>
where
    <B as SupportsParts<Diffusion>>::Part<f64>: MixedSmoother<B>,
{
    type Operator<T: Real> = DistributedOperator<B, B::Part<T>>;

    /// What one rank takes, where slabs have pairs of rows and the back end divides such levels; else conjugate gradients with lines.
    fn choice(&self, stencil: &Diffusion, _: &Arc<Self::Operator<f64>>, options: &SolverOptions) -> Result<Choice> {
        let alone = match has_points_above_lines(self, stencil)? {
            true => self.inner().enter(|| stencil.choice_on_host(options))?,
            false => self.inner().enter(|| stencil.choice_by(options, || Ok(stencil.measures())))?,
        };
        let has_galerkin = has_galerkin(self, stencil)?;
        if alone.smoother == Smoother::PointRedBlack {
            if options.multigrid.smoother == Smoother::PointRedBlack || has_points(self, stencil)? {
                let reserve = if has_galerkin { alone.preconditioner } else { Preconditioner::Line };
                return Ok(Choice { preconditioner: reserve, ..alone });
            }
        } else if has_galerkin {
            return Ok(alone);
        }
        let (rows, ranks) = (stencil.shape().ny, self.world().size());
        let reason = if divides_galerkin(self) {
            format!("{rows} rows are too few for {ranks} ranks to share coarser grids")
        } else if self.has_whole_rows() {
            "ranks share no Galerkin grids on this device".to_owned()
        } else {
            "ranks that divide x share no Galerkin grids".to_owned()
        };
        // Coarser grids are shared by ranks that have a pair of rows each.
        let remedy = match rows / 2 {
            0 | 1 => "use one process".to_owned(),
            most if most < ranks => format!("use {most} processes or fewer"),
            _ if self.has_whole_rows() => "use one process".to_owned(),
            _ => format!("use --parts 1x{ranks}"),
        };
        let why = format!(
            "conjugate gradients with lines, which take many times the iterations of multigrid: {reason}; {remedy}"
        );
        Ok(Choice { why: Some(why), ..Choice::new(Method::Cg, Preconditioner::Line) })
    }

    fn layout(&self, stencil: &Diffusion) -> Result<Layout> {
        stencil.turns().require_one("a checkerboard")?;
        let shape = stencil.shape();
        self.patch(shape)?.layout(shape, stencil.rings())
    }

    fn operator<T: Real>(&self, stencil: &Diffusion) -> Result<Arc<Self::Operator<T>>> {
        self.part(stencil)
    }

    fn update<T: Real>(&self, operator: &Self::Operator<T>, stencil: &Diffusion) -> Result<()> {
        self.inner().update_part(operator.part(), stencil)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Self::Operator<T>>) -> Capabilities<Self, T> {
        let parts = self.inner().part_triangular::<T>(operator.part());
        let triangular = parts.map(|part| Arc::new(DistributedOperator::of_part(self, part)) as _);
        let (points, aggregates) = (self.points::<Diffusion, T>(operator), Some(Arc::clone(operator) as _));
        Capabilities { points, triangular, aggregates, ..operator.capabilities() }
    }

    fn lines<T: Real>(
        &self,
        _: &Diffusion,
        operator: &Arc<Self::Operator<T>>,
    ) -> Result<Option<Lines<Self, Diffusion, T>>> {
        self.inner().prepare_lines(operator.part())?;
        Ok(Some(Lines { solver: Arc::clone(operator) as _, update: None }))
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &Diffusion,
        finest: &Arc<Self::Operator<T>>,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, Diffusion, T>>> {
        let hierarchy = by_galerkin(self, stencil, finest, wanted)?;
        hierarchy.map(Some).ok_or_else(|| {
            Error::Unsupported(
                "multigrid on Galerkin grids for diffusion on several of these devices; use solver.method = \"cg\" with the \
                 preconditioner \"line\" or \"jacobi\", solver.multigrid.smoother = \"point-red-black\" where coefficients are \
                 smooth, or run on one"
                    .into(),
            )
        })
    }

    fn point_hierarchy<T: Real>(
        &self,
        stencil: &Diffusion,
        finest: &Arc<Self::Operator<T>>,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, Diffusion, T>>> {
        by_points(self, stencil, finest, wanted).map(Some)
    }

    fn point_line_hierarchy<T: Real>(
        &self,
        stencil: &Diffusion,
        finest: &Arc<Self::Operator<T>>,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, Diffusion, T>>> {
        points_above_lines(self, stencil, finest, wanted).map(Some)
    }

    fn mixed_top(
        &self,
        double: &Arc<Self::Operator<f64>>,
        single: &Arc<Self::Operator<f32>>,
        hierarchy: &Hierarchy<Self, Diffusion, f32>,
        relaxation: Relaxation,
    ) -> Result<Option<Box<dyn MixedTop<Self>>>> {
        if relaxation.smoother == Smoother::PointRedBlack {
            self.inner().prepare_points(double.part())?;
        }
        let transfer = hierarchy.transfers.first().cloned();
        let top = UnfusedTop::new(Arc::clone(double) as _, Arc::clone(single) as _, transfer, relaxation)?;
        Ok(Some(Box::new(top)))
    }
}

type Part<B, T> = <B as SupportsParts<Diffusion>>::Part<T>;

/// What is known of the whole grid's matrix, where parts have the steps of deflation.
fn of_whole<B: SupportsPointParts, T: Real>(
    operator: &DistributedOperator<B, Part<B, T>>,
) -> Result<Arc<dyn AggregateOperator<B, T>>> {
    if !operator.ranks().has_whole_rows() {
        return Err(needs_whole_rows("deflation"));
    }
    let part = operator.ranks().inner().part_aggregates::<T>(operator.part());
    part.ok_or_else(|| Error::Unsupported("deflation on several of these devices; run on one".into()))
}

/// Aggregates are those of the whole grid, of whose matrix every rank knows all.
impl<B: SupportsPointParts, T: Real> AggregateOperator<Distributed<B>, T> for DistributedOperator<B, Part<B, T>> {
    fn subtract_aggregated(
        &self,
        aggregates: &Aggregates<B::Aggregates>,
        a: &B::AggregateVector,
        p: &Vector<B::Vector<T>>,
        q: &mut Vector<B::Vector<T>>,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        of_whole::<B, T>(self)?.subtract_aggregated(&aggregates.part, a, &*p.part()?, q.part_mut(), sigma, scalars)?;
        self.combine([sigma], scalars)
    }

    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>> {
        of_whole::<B, T>(self)?.galerkin(map)
    }

    fn subtracts_aggregated(&self) -> bool {
        of_whole::<B, T>(self).is_ok()
    }

    fn ties(&self, components: &Components) -> Result<Vec<f64>> {
        Operator::<_, T>::backend(self).inner().ties_of_whole(self.part(), components)
    }

    fn components(&self) -> Result<Option<Components>> {
        Operator::<_, T>::backend(self).inner().components_of_whole(self.part())
    }

    fn own_cells(&self, of_whole: AggregateMap) -> Result<AggregateMap> {
        of_whole.of_part(Operator::<_, T>::layout(self))
    }

    fn bodies(&self) -> Result<AggregateMap> {
        of_whole::<B, T>(self)?.bodies()
    }
}
