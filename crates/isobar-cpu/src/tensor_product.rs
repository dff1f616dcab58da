//! The factors of the tensor-product operator on processor cores.

use std::sync::Arc;

use isobar_core::prelude::{
    Backend, Capabilities, Hierarchy, Layout, MixedSmoother, Pack, Real, Result, Smoother, SolverOptions, Stencil,
    Supports,
};
use isobar_core::stencil::tensor_levels::{by_coarsening, by_modes};
use isobar_core::stencil::{self, Modes, StoredFaces, by_stored_faces};
use isobar_dist::PartBackend;
use pulp::Simd;

use crate::seven_point::{Coefficients, Entries, Kernel, On, RowCoefficients, SevenPoint, Stored, TileCoefficients};
use crate::{Columns, Cpu, Geometry, HalfPlane, Row, Shared};

/// [`stencil::TensorProduct`] on processor cores.
pub type TensorProduct<T> = SevenPoint<Factors<T>, T>;

/// The factors of a tensor-product operator, W being |T|.
#[derive(Debug)]
pub struct Factors<T> {
    layers: Vec<Layer<T>>,
    /// α over |T|, at `m + pitch · (colour + 2j)`: west, east, south, north, and α_T, which is 1 in padding: there, too, pivots are positive
    /// where a is 0.
    horizontal: [Vec<T>; 5],
    /// |T| and 1/|T|, 0 in padding
    areas: [Vec<T>; 2],
}

/// The vertical factors of one layer, signed so that all are positive in an M-matrix.
#[derive(Clone, Copy, Debug, Default)]
struct Layer<T> {
    /// a
    mass: T,
    /// −b
    above: T,
    /// −c
    below: T,
    /// −d
    horizontal: T,
}

impl<T: Real> Factors<T> {
    fn new(cpu: &Cpu, stencil: &stencil::TensorProduct, layout: &Layout) -> Self {
        let field = || vec![T::ZERO; layout.columns_len()];
        let mut factors = Self {
            layers: vec![Layer::default(); layout.shape().nz],
            horizontal: [field(), field(), field(), field(), vec![T::ONE; layout.columns_len()]],
            areas: std::array::from_fn(|_| field()),
        };
        factors.set(cpu, stencil, layout);
        factors
    }

    /// Rounds and arranges the factors of a stencil for the rows of the layout.
    fn set(&mut self, cpu: &Cpu, stencil: &stencil::TensorProduct, layout: &Layout) {
        let (v, h) = (stencil.vertical(), stencil.horizontal());
        let round = T::from_f64;
        for (k, layer) in self.layers.iter_mut().enumerate() {
            *layer =
                Layer { mass: round(v.a[k]), above: round(-v.b[k]), below: round(-v.c[k]), horizontal: round(-v.d[k]) };
        }
        let horizontal = self.horizontal.each_mut().map(|field| Shared::of(field));
        let areas = self.areas.each_mut().map(|field| Shared::of(field));
        cpu.for_each_column_row(layout, |j, colour, start| {
            let (parity, n) = (layout.parity(j, colour), layout.columns(j, colour));
            let row = layout.first_row() + j;
            // SAFETY: each row is visited once.
            let rows = horizontal.map(|field| unsafe { field.row_mut(start, n) });
            // SAFETY: as above.
            let [area, inverse_area] = areas.map(|field| unsafe { field.row_mut(start, n) });
            let [west, east, south, north, total] = rows;
            for m in 0..n {
                let at = 2 * m + parity + h.nx * row;
                let over = 1.0 / h.area[at];
                (area[m], inverse_area[m]) = (round(h.area[at]), round(over));
                west[m] = round(h.west[at] / h.area[at]);
                east[m] = round(h.east[at] / h.area[at]);
                south[m] = round(h.south[at] / h.area[at]);
                north[m] = round(h.north[at] / h.area[at]);
                total[m] = round(h.total[at] / h.area[at]);
            }
        });
    }
}

impl<T: Real> Stored<T> for Factors<T> {
    fn run<K: Kernel<T>>(&self, cpu: &Cpu, geometry: Geometry<'_, T>, kernel: K) -> K::Output {
        cpu.dispatch::<T, _>(On { kernel, geometry, coefficients: self })
    }

    fn vectors(&self) -> f64 {
        0.0
    }

    fn bytes(&self) -> usize {
        let fields: usize = self.horizontal.iter().chain(&self.areas).map(Vec::len).sum();
        fields * size_of::<T>() + size_of_val(&self.layers[..])
    }
}

/// The factors of some columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile<'a, S: Simd, T: Real> {
    simd: S,
    layers: &'a [Layer<T>],
    horizontal: [Row<'a, S, T>; 5],
    areas: [Row<'a, S, T>; 2],
}

/// The factors of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FactorRow<'a, S: Simd, T: Real> {
    layer: Layer<Pack<S, T>>,
    horizontal: [Row<'a, S, T>; 5],
    areas: [Row<'a, S, T>; 2],
}

/// The factors of a pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FactorPack<S: Simd, T: Real> {
    layer: Layer<Pack<S, T>>,
    /// The entries to the west, east, south and north.
    around: [Pack<S, T>; 4],
    total: Pack<S, T>,
    area: Pack<S, T>,
    inverse_area: Pack<S, T>,
}

impl<T: Real> Coefficients<T> for Factors<T> {
    const IS_PLAIN: bool = true;
    type Tile<'a, S: Simd> = Tile<'a, S, T>;
    type WithoutVectors = Self;

    fn without_vectors(&self) -> &Self {
        self
    }

    #[inline(always)]
    fn tile<'a, S: Simd>(&'a self, simd: S, g: Geometry<'a, T>, h: &HalfPlane, columns: Columns) -> Tile<'a, S, T> {
        let first = (h.colour as usize + 2 * h.j) * g.layout.pitch() + columns.m;
        let row = |field: &'a Vec<T>| Row::new(simd, &field[first..first + columns.n]);
        let [west, east, south, north, total] = &self.horizontal;
        Tile {
            simd,
            layers: &self.layers,
            horizontal: [row(west), row(east), row(south), row(north), row(total)],
            areas: [row(&self.areas[0]), row(&self.areas[1])],
        }
    }
}

impl<'a, S: Simd, T: Real> TileCoefficients<S, T> for Tile<'a, S, T> {
    type Row = FactorRow<'a, S, T>;

    #[inline(always)]
    fn row(&self, k: usize) -> Self::Row {
        let Layer { mass, above, below, horizontal } = self.layers[k];
        let splat = |value| Pack::splat(self.simd, value);
        FactorRow {
            layer: Layer { mass: splat(mass), above: splat(above), below: splat(below), horizontal: splat(horizontal) },
            horizontal: self.horizontal,
            areas: self.areas,
        }
    }
}

impl<S: Simd, T: Real> RowCoefficients<S, T> for FactorRow<'_, S, T> {
    type Entries = FactorPack<S, T>;

    #[inline(always)]
    fn get(&self, i: usize) -> Self::Entries {
        let [west, east, south, north, total] = &self.horizontal;
        let [area, inverse_area] = &self.areas;
        FactorPack {
            layer: self.layer,
            around: [west.get(i), east.get(i), south.get(i), north.get(i)],
            total: total.get(i),
            area: area.get(i),
            inverse_area: inverse_area.get(i),
        }
    }

    /// Does nothing: horizontal factors stay in the cache from layer to layer.
    #[inline(always)]
    fn fetch_ahead(&self, _: usize) {}
}

impl<S: Simd, T: Real> FactorPack<S, T> {
    /// Σ α v / |T|
    #[inline(always)]
    fn couplings(&self, [v_west, v_east, v_south, v_north]: [Pack<S, T>; 4]) -> Pack<S, T> {
        let [west, east, south, north] = self.around;
        west.mul_add(v_west, east * v_east) + south.mul_add(v_south, north * v_north)
    }
}

impl<S: Simd, T: Real> Entries<S, T> for FactorPack<S, T> {
    #[inline(always)]
    fn shift(&self) -> Pack<S, T> {
        let [west, east, south, north] = self.around;
        let outside = self.total - ((west + east) + (south + north));
        self.layer.horizontal.mul_add(outside, self.layer.mass)
    }

    #[inline(always)]
    fn horizontal(&self) -> [Pack<S, T>; 4] {
        let ([west, east, south, north], layer) = (self.around, self.layer.horizontal);
        [layer * west, layer * east, layer * south, layer * north]
    }

    #[inline(always)]
    fn vertical(&self) -> Option<[Pack<S, T>; 2]> {
        Some([self.layer.below, self.layer.above])
    }

    #[inline(always)]
    fn excess(&self) -> Pack<S, T> {
        self.layer.horizontal.mul_add(self.total, self.layer.mass)
    }

    #[inline(always)]
    fn horizontal_sum(&self, around: [Pack<S, T>; 4]) -> Pack<S, T> {
        self.layer.horizontal * self.couplings(around)
    }

    #[inline(always)]
    fn add_horizontal_sum(&self, around: [Pack<S, T>; 4], x: Pack<S, T>) -> Pack<S, T> {
        self.layer.horizontal.mul_add(self.couplings(around), x)
    }

    /// Computes a u_k − b (u_k − u_{k+1}) − c (u_k − u_{k−1}) + d (Σ… − α_T u_k) / |T|.
    #[inline(always)]
    fn apply(&self, u: Pack<S, T>, around: [Pack<S, T>; 4], [below, above]: [Pack<S, T>; 2]) -> Pack<S, T> {
        let v = self.layer;
        let vertical = v.above.mul_add(u - above, v.below.mul_add(u - below, v.mass * u));
        v.horizontal.mul_add(self.total.mul_add(u, -self.couplings(around)), vertical)
    }

    /// Pivots are positive, see [`stencil::TensorProduct`], in padding too.
    #[inline(always)]
    fn invert(x: Pack<S, T>) -> Pack<S, T> {
        Pack::splat(x.simd(), T::ONE).over(x)
    }

    #[inline(always)]
    fn times_weight(&self, x: Pack<S, T>) -> Pack<S, T> {
        self.area * x
    }

    #[inline(always)]
    fn less_weighted(&self, f: Pack<S, T>, x: Pack<S, T>) -> Pack<S, T> {
        (-self.area).mul_add(x, f)
    }

    #[inline(always)]
    fn over_weight(&self, x: Pack<S, T>) -> Pack<S, T> {
        self.inverse_area * x
    }
}

impl Supports<stencil::TensorProduct> for Cpu {
    type Operator<T: Real> = TensorProduct<T>;

    fn layout(&self, stencil: &stencil::TensorProduct) -> Result<Layout> {
        let shape = Stencil::shape(stencil);
        self.own_rows(shape)?.layout(shape, false)
    }

    fn operator<T: Real>(&self, stencil: &stencil::TensorProduct) -> Result<Arc<TensorProduct<T>>> {
        let layout = self.layout(stencil)?;
        let factors = Factors::new(self, stencil, &layout);
        Ok(Arc::new(SevenPoint::new(self, layout, [false; 3], factors)?))
    }

    fn update<T: Real>(&self, operator: &TensorProduct<T>, stencil: &stencil::TensorProduct) -> Result<bool> {
        operator.change(|layout, factors| {
            factors.set(self, stencil, layout);
            Ok(())
        })?;
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<TensorProduct<T>>) -> Capabilities<Self, T> {
        Capabilities { points: Some(Arc::clone(operator) as _), ..Capabilities::of_columns(operator) }
    }

    fn stored_faces<T: Real>(
        &self,
        stencil: &stencil::TensorProduct,
    ) -> Result<Option<StoredFaces<Self, stencil::TensorProduct, T>>> {
        // Subdomains of stored faces are not supported.
        if self.ranks().is_some() { Ok(None) } else { by_stored_faces(self, stencil) }
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &stencil::TensorProduct,
        finest: &Arc<TensorProduct<T>>,
        smoother: Smoother,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, stencil::TensorProduct, T>>> {
        if smoother.begins_with_points() {
            return Ok(None);
        }
        Ok(Some(by_coarsening(self, stencil, finest, wanted)?.0))
    }

    fn modes<T: Real, C: Real>(
        &self,
        stencil: &stencil::TensorProduct,
        operator: &Arc<TensorProduct<T>>,
        options: &SolverOptions,
        tolerance: f64,
    ) -> Result<Option<Modes<Self, stencil::TensorProduct, T, C>>> {
        by_modes(self, stencil, operator, options, tolerance).map(Some)
    }

    fn mixed_smoother(&self, double: &Arc<TensorProduct<f64>>) -> Option<Arc<dyn MixedSmoother<Self>>> {
        Some(Arc::clone(double) as _)
    }
}
