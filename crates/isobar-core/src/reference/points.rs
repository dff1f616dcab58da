//! Relaxation of points, cell by cell.

use super::seven_point::{At, Coupling, Plain, Rows, SevenPoint, diagonal, fill, get, inverse};
use super::{Reference, Vector};
use crate::operator::points::worst_of_lines;
use crate::operator::{Operator, PointSmoother};
use crate::options::PointCycle;
use crate::{HostScalars, Real, Result, Scalar, Sum};

impl<S: SevenPoint, T: Real> PointSmoother<Reference, T> for Plain<S, T> {
    fn periodic(&self) -> [bool; 3] {
        self.state().stencil.periodic()
    }

    fn suggested_tile(&self) -> [usize; 3] {
        [16; 3]
    }

    fn prepare(&self, _: &PointCycle) -> Result<()> {
        Ok(())
    }

    fn relax_points(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &mut Vector<T>,
        v: &mut Vector<T>,
        norm: Sum<'_, Reference>,
    ) -> Result<()> {
        let before = (cycle.momentum > 0.0).then(|| v.clone());
        self.residual_norm(f, [u, v], norm)?;
        let (state, omega) = (self.state(), T::from_f64(cycle.relaxation));
        let shape = Operator::layout(self).shape();
        let n = shape.extents();
        // u + ω D⁻¹(f − A u) in one cell; neighbours across periodic sides have their values from before the cycle.
        let relaxed = |at: At, now: &Vector<T>| {
            let (here, diagonal) = (get(now)(at), diagonal(&state.rows, at));
            let mut applied = state.rows.shift(at) * here;
            for (side, coupling) in state.rows.couplings(at).into_iter().enumerate() {
                let (d, is_upper) = (side / 2, side % 2 == 1);
                let is_across = if is_upper { at[d] + 1 == n[d] } else { at[d] == 0 };
                if let Some(Coupling { to, t, .. }) = coupling {
                    applied += t * (here - get(if is_across { u } else { now })(to));
                }
            }
            let change = (get(f)(at) - applied) * inverse(diagonal);
            here + omega * if diagonal == T::ZERO { -here } else { change }
        };
        if cycle.is_sweep() {
            let (before, momentum) = (before, T::from_f64(cycle.momentum));
            let moved = |at: At| before.as_ref().map_or(T::ZERO, |before| momentum * (get(u)(at) - get(before)(at)));
            fill(v, |at| relaxed(at, u) + moved(at));
            return Ok(());
        }
        let (mut before, mut after) = (u.clone(), u.clone());
        for t in 0..cycle.tiles(shape) {
            let spans = cycle.spans(shape, t);
            let cells = |ranges: [[usize; 2]; 3]| -> Vec<At> {
                let [x, y, z] = ranges.map(|[start, end]| start..end);
                z.flat_map(|k| {
                    y.clone().flat_map({
                        let x = x.clone();
                        move |j| x.clone().map(move |i| [i, j, k])
                    })
                })
                .collect()
            };
            for _ in 0..cycle.sub_iterations {
                for at @ [i, j, k] in cells(spans.map(|span| span.relaxed)) {
                    after.set(i, j, k, relaxed(at, &before));
                }
                std::mem::swap(&mut before, &mut after);
            }
            for [i, j, k] in cells(spans.map(|span| span.left)) {
                v.set(i, j, k, before.get(i, j, k));
            }
            for [i, j, k] in cells(spans.map(|span| span.relaxed)) {
                before.set(i, j, k, u.get(i, j, k));
                after.set(i, j, k, u.get(i, j, k));
            }
        }
        Ok(())
    }

    fn prepare_lines(&self, _: &PointCycle) -> Result<()> {
        Ok(())
    }

    fn relax_lines(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &Vector<T>,
        v: &mut Vector<T>,
        norms: &mut Vector<f64>,
    ) -> Result<()> {
        let (mut residual, mut scalars) = (Vector::zeros(f.layout())?, HostScalars::default());
        let u = &mut u.clone();
        self.residual(f, [u, &mut residual], Scalar::new(0).of(&mut scalars))?;
        let shape = Operator::layout(self).shape();
        norms.fill_with(|j, _, _| (0..shape.nx).map(|i| residual.get(i, j, 0).to_f64().powi(2)).sum());
        self.relax_points(cycle, f, u, v, Scalar::new(0).of(&mut scalars))
    }

    fn judge_lines(
        &self,
        [norms, weights]: [&Vector<f64>; 2],
        n: &mut Vector<f64>,
        allowed: f64,
        (worst, scalars): Sum<'_, Reference>,
    ) -> Result<()> {
        let lines = norms.entries().iter().zip(weights.entries()).zip(n.entries_mut());
        scalars.set(worst, worst_of_lines(lines.map(|((&norm, &weight), n)| (norm, weight, n)), allowed));
        Ok(())
    }
}
