//! Entries computed from one to three coefficients per cell, wherever they are needed.

use isobar_core::prelude::{Axis, Layout, Pack, Precision, Real, Result, Side, Stencil};
use isobar_core::stencil;
use pulp::Simd;

use super::entries::{CellCoefficients, Transmissibilities, arrange, fetch_each};
use super::even::{Even, EvenCells};
use crate::around::{Around, AroundRow};
use crate::geometry::Link;
use crate::seven_point::{Coefficients, RowCoefficients, TileCoefficients};
use crate::shared::{Ahead, Strip};
use crate::{Columns, Cpu, Geometry, HalfPlane, Row, Shared, Vector, View, Which};

/// The coefficients of cells, one to three per cell.
#[derive(Debug)]
pub(super) struct Cells<T> {
    /// Fields, each divided by a power of two, so that its largest entry is near 1: products of four neither overflow nor vanish.
    fields: Vec<Vector<T>>,
    /// The field of each direction, and its factor, which includes that power of two.
    axes: [(usize, T); 3],
    pub(super) shift: Option<Vector<T>>,
    /// The number of Dirichlet sides in x of each column, by parity.
    fixed_ends: Option<[Vec<T>; 2]>,
    /// Whether the lower and upper sides in y and z are Dirichlet sides.
    fixed: [[bool; 2]; 2],
    /// The entries, where all cells are equal.
    even: Option<Even<T>>,
}

/// Returns the number that is added to sums of coefficients, so that sums of zeros can be divisors. Fields are at
/// most 1: its fourth power (in single precision its square) is not subnormal, and every coefficient that is not
/// negligible beside the largest one stays unchanged.
fn tiny<T: Real>() -> T {
    T::from_f64(if T::PRECISION == Precision::F32 { 2f64.powi(-60) } else { 2f64.powi(-200) })
}

impl<T: Real> Cells<T> {
    /// Allocates the coefficients of a stencil with this many fields.
    pub(super) fn new(cpu: &Cpu, layout: &Layout, stencil: &stencil::Diffusion, fields: usize) -> Result<Self> {
        let [x, y, z] = stencil.sides();
        let is_fixed = |sides: [Side; 2]| sides.map(|side| side == Side::Fixed);
        let fixed_ends = is_fixed(x).contains(&true).then(|| {
            [0, 1].map(|parity| {
                let (nx, [west, east]) = (layout.shape().nx, is_fixed(x));
                let ends = |i: usize| u8::from(west && i == 0) + u8::from(east && i + 1 == nx);
                (0..layout.pitch()).map(|m| T::from_f64(f64::from(ends(2 * m + parity)))).collect()
            })
        });
        Ok(Self {
            fields: (0..fields).map(|_| Vector::zeros(cpu, layout)).collect::<Result<_>>()?,
            axes: [(0, T::ZERO); 3],
            shift: stencil.stored_shift().map(|_| Vector::zeros(cpu, layout)).transpose()?,
            fixed_ends,
            fixed: [std::array::from_fn(|end| is_fixed(y)[end] && layout.halo()[end] == 0), is_fixed(z)],
            even: None,
        })
    }

    /// Scales, rounds and arranges the coefficients.
    pub(super) fn set(
        &mut self,
        cpu: &Cpu,
        stencil: &stencil::Diffusion,
        fields: &[std::sync::Arc<[f64]>],
        axes: [(usize, f64); 3],
    ) {
        let mut scales = [1.0; 3];
        let layout = *self.fields[0].layout();
        let is_even = fields.iter().all(|field| field[0] > 0.0 && cpu.are_all(field, field[0]));
        let is_ring = stencil.is_periodic(Axis::X) && Stencil::shape(stencil).nx > 1;
        self.even = is_even.then(|| Even::new(&layout, is_ring, axes.map(|(field, factor)| factor * fields[field][0])));
        for ((stored, field), scale) in self.fields.iter_mut().zip(fields).zip(&mut scales) {
            let largest = cpu.largest(field);
            // The power of two of subnormal coefficients would overflow.
            if largest > f64::MIN_POSITIVE {
                *scale = largest.log2().ceil().exp2();
            }
            arrange(cpu, stored, field, Stencil::shape(stencil), 1.0 / *scale);
        }
        self.axes = axes.map(|(field, factor)| (field, T::from_f64(factor * scales[field])));
        if let (Some(stored), Some(shift)) = (&mut self.shift, stencil.stored_shift()) {
            arrange(cpu, stored, shift, Stencil::shape(stencil), 1.0);
        }
    }

    pub(super) fn vectors(&self) -> impl Iterator<Item = &Vector<T>> {
        self.fields.iter().chain(&self.shift)
    }

    /// Returns the entries, where all cells are equal.
    pub(super) fn even(&self) -> Option<EvenCells<'_, T>> {
        self.even.as_ref().map(|even| EvenCells { even, cells: self })
    }

    /// Returns, for the columns of some parity, at how many Dirichlet sides in x each lies.
    pub(super) fn ends(&self, parity: usize) -> Option<&[T]> {
        self.fixed_ends.as_ref().map(|ends| &ends[parity][..])
    }

    fn field(&self, axis: Axis) -> Shared<T> {
        self.fields[self.axes[axis as usize].0].share()
    }

    /// Returns how many Dirichlet sides in y touch the cells of plane j.
    fn sides_in_y(&self, layout: &Layout, j: usize) -> f64 {
        let [south, north] = self.fixed[0];
        f64::from(u8::from(south && j == 0) + u8::from(north && j + 1 == layout.shape().ny))
    }

    /// Returns how many Dirichlet sides in y, and in z, touch the cells of a row.
    pub(super) fn sides_at(&self, layout: &Layout, j: usize, k: usize) -> [f64; 2] {
        let [bottom, top] = self.fixed[1];
        let in_z = f64::from(u8::from(bottom && k == 0) + u8::from(top && k + 1 == layout.shape().nz));
        [self.sides_in_y(layout, j), in_z]
    }
}

/// The coefficients of some columns.
pub(crate) struct CellTile<'a, S: Simd, T: Real> {
    simd: S,
    /// The cells' own coefficients, by direction, and those of their neighbours in that direction.
    own: [Strip<'a, T>; 3],
    around: Around<'a, T>,
    /// A prefetch for each field.
    ahead: [Option<Ahead<T>>; 3],
    factors: [Pack<S, T>; 3],
    tiny: Pack<S, T>,
    pitch: usize,
    layers: usize,
    shift: Option<Strip<'a, T>>,
    /// The numbers of Dirichlet sides in x that cells touch, and in y times the factor; lower and upper Dirichlet sides in z.
    dirichlet: Option<(Row<'a, S, T>, Pack<S, T>, [bool; 2])>,
}

/// The coefficients of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellRow<'a, S: Simd, T: Real> {
    simd: S,
    /// The cells' own coefficients, by direction.
    own: [Row<'a, S, T>; 3],
    around: AroundRow<'a, S, T>,
    /// A prefetch for each field.
    ahead: [Option<Ahead<T>>; 3],
    factors: [Pack<S, T>; 3],
    tiny: Pack<S, T>,
    is_tall: bool,
    shift: Option<Row<'a, S, T>>,
    dirichlet: Option<Dirichlet<'a, S, T>>,
}

/// The numbers of Dirichlet sides that the cells of a row touch, times the factors.
#[derive(Clone, Copy, Debug)]
struct Dirichlet<'a, S: Simd, T: Real> {
    ends: Row<'a, S, T>,
    y: Pack<S, T>,
    z: Pack<S, T>,
}

impl<T: Real> Coefficients<T> for Cells<T> {
    const IS_PLAIN: bool = false;
    type Tile<'a, S: Simd> = CellTile<'a, S, T>;
    type WithoutVectors = Self;

    fn without_vectors(&self) -> &Self {
        self
    }

    #[inline(always)]
    fn tile<'a, S: Simd>(&'a self, simd: S, g: Geometry<'a, T>, h: &HalfPlane, columns: Columns) -> Self::Tile<'a, S> {
        let Columns { m, n } = columns;
        let (pitch, layers) = (g.layout.pitch(), g.layers());
        // `map` of an array would not inline its function.
        let view = |axis: Axis| View { g, v: self.field(axis), h, columns, which: Which::All };
        let (x, y, z) = (view(Axis::X), view(Axis::Y), view(Axis::Z));
        let is_other = [true, self.axes[1].0 != self.axes[0].0, self.axes[2].0 != self.axes[0].0];
        let (ahead_x, ahead_y, ahead_z) = (x.ahead(), y.ahead(), z.ahead());
        let [(_, factor_x), (_, factor_y), (_, factor_z)] = self.axes;
        let sides_in_y = self.sides_in_y(&g.layout, h.j);
        let dirichlet = if self.fixed_ends.is_some() || sides_in_y > 0.0 || self.fixed[1].contains(&true) {
            let ends = match &self.fixed_ends {
                Some(ends) => Row::new(simd, &ends[h.parity][m..m + n]),
                None => g.zeros(simd, n),
            };
            Some((ends, Pack::splat(simd, T::from_f64(sides_in_y) * factor_y), self.fixed[1]))
        } else {
            None
        };
        // SAFETY: rows of vectors that nobody writes while they are borrowed.
        unsafe {
            CellTile {
                simd,
                own: [x.own(), y.own(), z.own()],
                around: Around::of([&x, &y, &z]),
                ahead: [Some(ahead_x), is_other[1].then_some(ahead_y), is_other[2].then_some(ahead_z)],
                factors: [Pack::splat(simd, factor_x), Pack::splat(simd, factor_y), Pack::splat(simd, factor_z)],
                tiny: Pack::splat(simd, tiny::<T>()),
                pitch,
                layers,
                shift: self.shift.as_ref().map(|shift| shift.share().strip(h.start + m as isize, n, pitch, layers)),
                dirichlet,
            }
        }
    }
}

impl<'a, S: Simd, T: Real> TileCoefficients<S, T> for CellTile<'a, S, T> {
    type Row = CellRow<'a, S, T>;

    #[inline(always)]
    fn row(&self, k: usize) -> Self::Row {
        let Self { simd, own: [x, y, z], ahead: [ahead_x, ahead_y, ahead_z], pitch, layers, .. } = *self;
        let after = |ahead: Option<Ahead<T>>| ahead.map(|ahead| ahead.after(k * pitch));
        let dirichlet = match self.dirichlet {
            Some((ends, y, [lower, upper])) => {
                let zero = Pack::splat(simd, T::ZERO);
                let bottom = if lower && k == 0 { self.factors[2] } else { zero };
                let top = if upper && k + 1 == layers { self.factors[2] } else { zero };
                Some(Dirichlet { ends, y, z: bottom + top })
            }
            None => None,
        };
        // SAFETY: rows of vectors that nobody writes while they are borrowed.
        unsafe {
            CellRow {
                simd,
                own: [x.row(simd, k), y.row(simd, k), z.row(simd, k)],
                around: self.around.row(simd, k),
                ahead: [after(ahead_x), after(ahead_y), after(ahead_z)],
                factors: self.factors,
                tiny: self.tiny,
                is_tall: layers > 1,
                shift: self.shift.map(|shift| shift.row(simd, k)),
                dirichlet,
            }
        }
    }
}

impl<S: Simd, T: Real> CellRow<'_, S, T> {
    /// Returns harmonic means a b / (a + b), up to four of them by one division, with products of denominators:
    /// 1/d₁ = (1 / (d₁ d₂)) d₂.
    #[inline(always)]
    fn horizontal(&self, i: usize) -> [Pack<S, T>; 4] {
        let (x, y) = (self.own[0].get(i), self.own[1].get(i));
        let (x_tiny, y_tiny) = (x + self.tiny, y + self.tiny);
        let (x, y) = (self.factors[0] * x, self.factors[1] * y);
        let [west, east, south, north] = self.around.horizontal(i);
        let [west_sum, east_sum] = [x_tiny + west, x_tiny + east];
        let [south_sum, north_sum] = [y_tiny + south, y_tiny + north];
        let (x_product, y_product) = (west_sum * east_sum, south_sum * north_sum);
        // x / (west_sum · east_sum), y / (south_sum · north_sum)
        let (x_over, y_over) = if T::PRECISION == Precision::F32 {
            (x.over(x_product), y.over(y_product))
        } else {
            let inverse = Pack::splat(self.simd, T::ONE).over(x_product * y_product);
            (x * (inverse * y_product), y * (inverse * x_product))
        };
        [
            (west * east_sum) * x_over,
            (east * west_sum) * x_over,
            (south * north_sum) * y_over,
            (north * south_sum) * y_over,
        ]
    }

    #[inline(always)]
    fn vertical(&self, i: usize) -> [Pack<S, T>; 2] {
        let z = self.own[2].get(i);
        let z_tiny = z + self.tiny;
        let [below, above] = self.around.vertical(i);
        let [below_sum, above_sum] = [z_tiny + below, z_tiny + above];
        let over = (self.factors[2] * z).over(below_sum * above_sum);
        [(below * above_sum) * over, (above * below_sum) * over]
    }

    #[inline(always)]
    fn shift(&self, i: usize) -> Pack<S, T> {
        let mut shift = match self.shift {
            Some(row) => row.get(i),
            None => Pack::splat(self.simd, T::ZERO),
        };
        if let Some(d) = self.dirichlet {
            let along_x = (d.ends.get(i) * self.factors[0]).mul_add(self.own[0].get(i), shift);
            shift = d.z.mul_add(self.own[2].get(i), d.y.mul_add(self.own[1].get(i), along_x));
        }
        shift
    }
}

impl<S: Simd, T: Real> RowCoefficients<S, T> for CellRow<'_, S, T> {
    type Entries = Transmissibilities<S, T>;

    #[inline(always)]
    fn get(&self, i: usize) -> Self::Entries {
        let vertical = if self.is_tall { Some(self.vertical(i)) } else { None };
        Transmissibilities { horizontal: self.horizontal(i), vertical, shift: self.shift(i) }
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        fetch_each(&self.ahead, i, Row::<S, T>::LANES);
    }
}

impl<T: Real> CellCoefficients<T> for Cells<T> {
    fn between(&self, axis: Axis, lower: isize, upper: isize, _: Link, _: [usize; 2]) -> T {
        let (field, factor) = self.axes[axis as usize];
        let [a, b] = [lower, upper].map(|position| self.fields[field].at(position));
        factor * a * (b / (a + b + tiny()))
    }

    fn shift(&self, layout: &Layout, [i, j, k]: [usize; 3]) -> T {
        let at = layout.index(i, j, k);
        let [y, z] = self.sides_at(layout, j, k);
        let x = self.fixed_ends.as_ref().map_or(T::ZERO, |ends| ends[i % 2][i / 2]);
        let sides = [x, T::from_f64(y), T::from_f64(z)];
        let stored = self.shift.as_ref().map_or(T::ZERO, |shift| shift.entries()[at]);
        sides.into_iter().zip(self.axes).fold(stored, |sum, (sides, (field, factor))| {
            (sides * factor).mul_add(self.fields[field].entries()[at], sum)
        })
    }
}
