//! Transmissibilities, row by row: from coefficients of cells, computed wherever they are needed, or stored.

use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::real::{Precision, Real};
use isobar_core::simd::Pack;
use isobar_core::stencil::{self, Axis, Side};
use pulp::Simd;

use super::rows::{Ended, Geometry, HalfPlane, Link, Places, Window, end};
use crate::cpu::Cpu;
use crate::shared::{Ahead, Row, Shared};
use crate::vector::Vector;

/// What all kinds of coefficients offer; loops are compiled for each.
pub(super) trait Faces<T: Real>: Sync {
    /// A row's.
    type Row<'a, S: Simd>: FaceRow<S, T>
    where
        Self: 'a;

    /// Those of a window, all of whose neighbours are at these places.
    fn row<'a, S: Simd>(
        &'a self,
        simd: S,
        g: &'a Geometry<T>,
        h: &HalfPlane,
        w: Window,
        places: &Places,
    ) -> Self::Row<'a, S>;

    /// T between a cell and its upper neighbour, given their positions in a vector; j and k of the cell.
    fn between(&self, axis: Axis, lower: usize, upper: usize, link: Link, j: usize, k: usize) -> T;
}

/// The transmissibilities around a row, and its shift.
pub(super) trait FaceRow<S: Simd, T: Real> {
    /// West, east, south, north.
    fn horizontal(&self, i: usize) -> [Pack<S, T>; 4];

    /// Below, above; only where the grid [is tall](Geometry::is_tall).
    fn vertical(&self, i: usize) -> [Pack<S, T>; 2];

    /// s, Dirichlet sides included.
    fn shift(&self, i: usize) -> Pack<S, T>;

    /// Asks memory for what will be needed a little after pack i.
    fn fetch_ahead(&self, i: usize);
}

/// One to three coefficients a cell.
#[derive(Debug)]
pub(super) struct Cells<T> {
    /// Each divided by a power of two, so that its largest entry is near 1: products of four neither
    /// overflow nor vanish.
    fields: Vec<Vector<T>>,
    /// Of each direction: its field, and the factor with that power of two in it.
    axes: [(usize, T); 3],
    shift: Option<Vector<T>>,
    /// By parity: how many ends of its line a column is at that are Dirichlet sides.
    fixed_ends: Option<[Vec<T>; 2]>,
    /// Lower and upper Dirichlet sides in y and z.
    fixed: [[bool; 2]; 2],
}

/// Transmissibilities, each stored at the lower of its two cells.
#[derive(Debug)]
pub(super) struct Stored<T> {
    /// By direction; none for directions with one cell. Those across a periodic end of a line are apart.
    faces: [Option<Vector<T>>; 3],
    /// T between the last and the first cell of the line at k + nz j, where x is periodic.
    wrapped: Vec<T>,
    nz: usize,
    shift: Option<Vector<T>>,
}

/// What is added to sums of coefficients, so that those of zeros can be divided by. Fields are at most 1:
/// the fourth power (of single precision: the square) is no subnormal, and whatever is not negligible
/// beside the largest coefficient stays as it is.
fn tiny<T: Real>() -> T {
    T::from_f64(if T::PRECISION == Precision::F32 { 2f64.powi(-60) } else { 2f64.powi(-200) })
}

/// A C-order array in the layout.
pub(super) fn arranged<T: Real>(cpu: &Cpu, layout: &Layout, value: impl Fn(usize) -> f64 + Sync) -> Result<Vector<T>> {
    let mut out = Vector::zeros(cpu, layout)?;
    let shared = out.share_mut();
    let shape = layout.shape();
    cpu.for_each_half_plane(layout, |j, colour, start| {
        let parity = layout.parity(j, colour);
        for k in 0..shape.nz {
            // SAFETY: each half plane is visited once.
            let row = unsafe { shared.row_mut(start + (k * layout.pitch()) as isize, layout.columns(j, colour)) };
            for (m, entry) in row.iter_mut().enumerate() {
                *entry = T::from_f64(value(2 * m + parity + shape.nx * (j + shape.ny * k)));
            }
        }
    });
    Ok(out)
}

fn stored_shift<T: Real>(cpu: &Cpu, layout: &Layout, stencil: &stencil::Diffusion) -> Result<Option<Vector<T>>> {
    stencil.stored_shift().map(|shift| arranged(cpu, layout, |n| shift[n])).transpose()
}

impl<T: Real> Cells<T> {
    pub(super) fn new(
        cpu: &Cpu,
        g: &Geometry<T>,
        stencil: &stencil::Diffusion,
        fields: &[std::sync::Arc<[f64]>],
        axes: [(usize, f64); 3],
    ) -> Result<Self> {
        let layout = &g.layout;
        let scale = |field: &[f64]| {
            let largest = field.iter().fold(0.0f64, |a, &b| a.max(b));
            // Of subnormal coefficients the power of two would overflow.
            if largest > f64::MIN_POSITIVE { largest.log2().ceil().exp2() } else { 1.0 }
        };
        let scales: Vec<f64> = fields.iter().map(|field| scale(field)).collect();
        let stored = fields.iter().zip(&scales).map(|(field, scale)| arranged(cpu, layout, |n| field[n] / scale));
        let [x, y, z] = stencil.sides();
        let is_fixed = |sides: [Side; 2]| sides.map(|side| side == Side::Fixed);
        let fixed_ends = is_fixed(x).contains(&true).then(|| {
            [0, 1].map(|parity| {
                let nx = layout.shape().nx;
                let ends =
                    |i: usize| u8::from(x[0] == Side::Fixed && i == 0) + u8::from(x[1] == Side::Fixed && i + 1 == nx);
                (0..layout.pitch()).map(|m| T::from_f64(f64::from(ends(2 * m + parity)))).collect()
            })
        });
        Ok(Self {
            fields: stored.collect::<Result<_>>()?,
            axes: axes.map(|(field, factor)| (field, T::from_f64(factor * scales[field]))),
            shift: stored_shift(cpu, layout, stencil)?,
            fixed_ends,
            fixed: [is_fixed(y), is_fixed(z)],
        })
    }

    fn field(&self, axis: Axis) -> Shared<T> {
        self.fields[self.axes[axis as usize].0].share()
    }
}

/// A row of [`Cells`].
#[derive(Clone, Copy, Debug)]
pub(super) struct CellRow<'a, S: Simd, T: Real> {
    simd: S,
    /// By direction, of the cells themselves.
    own: [Row<'a, S, T>; 3],
    /// In that direction's field.
    west: Ended<'a, S, T>,
    east: Ended<'a, S, T>,
    south: Row<'a, S, T>,
    north: Row<'a, S, T>,
    below: Row<'a, S, T>,
    above: Row<'a, S, T>,
    /// Of each field.
    ahead: [Option<Ahead<T>>; 3],
    factors: [Pack<S, T>; 3],
    tiny: Pack<S, T>,
    shift: Option<Row<'a, S, T>>,
    dirichlet: Option<Dirichlet<'a, S, T>>,
}

/// How many Dirichlet sides the cells of a row touch, times the factors.
#[derive(Clone, Copy, Debug)]
struct Dirichlet<'a, S: Simd, T: Real> {
    ends: Row<'a, S, T>,
    y: Pack<S, T>,
    z: Pack<S, T>,
}

impl<T: Real> Faces<T> for Cells<T> {
    type Row<'a, S: Simd> = CellRow<'a, S, T>;

    #[inline(always)]
    fn row<'a, S: Simd>(
        &'a self,
        simd: S,
        g: &'a Geometry<T>,
        h: &HalfPlane,
        w: Window,
        places: &Places,
    ) -> CellRow<'a, S, T> {
        let position = g.position(h, w);
        let factors = self.axes.map(|(_, factor)| Pack::splat(simd, factor));
        let shape = g.layout.shape();
        let count = |fixed: [bool; 2], at: usize, size: usize| {
            u8::from(fixed[0] && at == 0) + u8::from(fixed[1] && at + 1 == size)
        };
        let y = count(self.fixed[0], h.j, shape.ny);
        let z = count(self.fixed[1], w.k, shape.nz);
        let dirichlet = (self.fixed_ends.is_some() || y > 0 || z > 0).then(|| Dirichlet {
            ends: match &self.fixed_ends {
                Some(ends) => Row::new(simd, &ends[h.parity][w.m..w.m + w.n]),
                None => g.zeros(simd, w.n),
            },
            y: Pack::splat(simd, T::from_f64(f64::from(y)) * self.axes[1].1),
            z: Pack::splat(simd, T::from_f64(f64::from(z)) * self.axes[2].1),
        });
        let [x, y, z] = Axis::ALL.map(|axis| self.field(axis));
        let is_other = [true, self.axes[1].0 != self.axes[0].0, self.axes[2].0 != self.axes[0].0];
        let ahead = [0, 1, 2].map(|d| is_other[d].then(|| [x, y, z][d].ahead(places.ahead)));
        // SAFETY: rows of vectors that nobody writes after construction.
        unsafe {
            CellRow {
                simd,
                own: [x.packs(simd, position, w.n), y.packs(simd, position, w.n), z.packs(simd, position, w.n)],
                west: Ended::new(simd, g.row(simd, x, places.west, w.n), end(x, places.west_end)),
                east: Ended::new(simd, g.row(simd, x, places.east, w.n), end(x, places.east_end)),
                south: g.row(simd, y, places.south, w.n),
                north: g.row(simd, y, places.north, w.n),
                below: g.row(simd, z, places.below, w.n),
                above: g.row(simd, z, places.above, w.n),
                ahead,
                factors,
                tiny: Pack::splat(simd, tiny::<T>()),
                shift: self.shift.as_ref().map(|shift| shift.share().packs(simd, position, w.n)),
                dirichlet,
            }
        }
    }

    #[inline(always)]
    fn between(&self, axis: Axis, lower: usize, upper: usize, _: Link, _: usize, _: usize) -> T {
        let (field, factor) = self.axes[axis as usize];
        let entries = self.fields[field].entries();
        let (a, b) = (entries[lower], entries[upper]);
        factor * a * (b / (a + b + tiny()))
    }
}

impl<S: Simd, T: Real> FaceRow<S, T> for CellRow<'_, S, T> {
    /// Harmonic means a b / (a + b), up to four of them by one division: with products of denominators,
    /// 1/d₁ = (1 / (d₁ d₂)) d₂.
    #[inline(always)]
    fn horizontal(&self, i: usize) -> [Pack<S, T>; 4] {
        let (x, y) = (self.own[0].get(i), self.own[1].get(i));
        let (x_tiny, y_tiny) = (x + self.tiny, y + self.tiny);
        let (x, y) = (self.factors[0] * x, self.factors[1] * y);
        let [west, east] = [self.west.get(i), self.east.get(i)];
        let [south, north] = [self.south.get(i), self.north.get(i)];
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
        let [below, above] = [self.below.get(i), self.above.get(i)];
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

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        fetch_each(&self.ahead, i, Row::<S, T>::LANES);
    }
}

impl<T: Real> Stored<T> {
    pub(super) fn new(
        cpu: &Cpu,
        g: &Geometry<T>,
        stencil: &stencil::Diffusion,
        faces: &[std::sync::Arc<[f64]>; 3],
    ) -> Result<Self> {
        let layout = &g.layout;
        let shape = layout.shape();
        let mut stored = [None, None, None];
        for (axis, n) in Axis::ALL.into_iter().zip([shape.nx, shape.ny, shape.nz]) {
            if n > 1 {
                let here = |at: usize| {
                    let place = [at % shape.nx, at / shape.nx % shape.ny, at / shape.nx / shape.ny];
                    let across_an_end = axis == Axis::X && place[0] + 1 == shape.nx;
                    let is_face = !across_an_end && stencil.upper(axis, place).is_some();
                    if is_face { faces[axis as usize][at] } else { 0.0 }
                };
                stored[axis as usize] = Some(arranged(cpu, layout, here)?);
            }
        }
        let mut wrapped = Vec::new();
        if g.periodic[0] {
            for j in 0..shape.ny {
                for k in 0..shape.nz {
                    wrapped.push(T::from_f64(faces[0][stencil.cell([shape.nx - 1, j, k])]));
                }
            }
        }
        Ok(Self { faces: stored, wrapped, nz: shape.nz, shift: stored_shift(cpu, layout, stencil)? })
    }
}

/// A row of [`Stored`].
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredRow<'a, S: Simd, T: Real> {
    simd: S,
    west: Ended<'a, S, T>,
    east: Ended<'a, S, T>,
    south: Row<'a, S, T>,
    north: Row<'a, S, T>,
    below: Row<'a, S, T>,
    above: Row<'a, S, T>,
    shift: Option<Row<'a, S, T>>,
    ahead: [Option<Ahead<T>>; 3],
}

/// A row of faces; zeros where there are none.
///
/// # Safety
/// Nobody writes it meanwhile.
#[inline(always)]
unsafe fn face_row<'a, S: Simd, T: Real>(
    simd: S,
    g: &'a Geometry<T>,
    faces: Option<Shared<T>>,
    position: Option<isize>,
    n: usize,
) -> Row<'a, S, T> {
    match faces {
        // SAFETY: promised by the caller.
        Some(faces) => unsafe { g.row(simd, faces, position, n) },
        None => g.zeros(simd, n),
    }
}

impl<T: Real> Faces<T> for Stored<T> {
    type Row<'a, S: Simd> = StoredRow<'a, S, T>;

    #[inline(always)]
    fn row<'a, S: Simd>(
        &'a self,
        simd: S,
        g: &'a Geometry<T>,
        h: &HalfPlane,
        w: Window,
        places: &Places,
    ) -> StoredRow<'a, S, T> {
        let position = g.position(h, w);
        let wrapped = if g.periodic[0] { self.wrapped[w.k + g.layout.shape().nz * h.j] } else { T::ZERO };
        let wrapped_at = |end: Option<(usize, Option<isize>)>| end.map(|(lane, _)| (lane, wrapped));
        let [x, y, z] = [0, 1, 2].map(|d| self.faces[d].as_ref().map(Vector::share));
        let ahead = [x, y, z].map(|faces| faces.map(|faces| faces.ahead(position)));
        // SAFETY: rows of vectors that nobody writes after construction.
        unsafe {
            StoredRow {
                simd,
                west: Ended::new(simd, face_row(simd, g, x, places.west, w.n), wrapped_at(places.west_end)),
                east: Ended::new(simd, face_row(simd, g, x, Some(position), w.n), wrapped_at(places.east_end)),
                south: face_row(simd, g, y, places.south, w.n),
                north: face_row(simd, g, y, Some(position), w.n),
                below: face_row(simd, g, z, places.below, w.n),
                above: face_row(simd, g, z, Some(position), w.n),
                shift: self.shift.as_ref().map(|shift| shift.share().packs(simd, position, w.n)),
                ahead,
            }
        }
    }

    #[inline(always)]
    fn between(&self, axis: Axis, lower: usize, _: usize, link: Link, j: usize, k: usize) -> T {
        if axis == Axis::X && link == Link::Wrapped {
            return self.wrapped[k + self.nz * j];
        }
        self.faces[axis as usize].as_ref().map_or(T::ZERO, |faces| faces.entries()[lower])
    }
}

impl<S: Simd, T: Real> FaceRow<S, T> for StoredRow<'_, S, T> {
    #[inline(always)]
    fn horizontal(&self, i: usize) -> [Pack<S, T>; 4] {
        [self.west.get(i), self.east.get(i), self.south.get(i), self.north.get(i)]
    }

    #[inline(always)]
    fn vertical(&self, i: usize) -> [Pack<S, T>; 2] {
        [self.below.get(i), self.above.get(i)]
    }

    #[inline(always)]
    fn shift(&self, i: usize) -> Pack<S, T> {
        match self.shift {
            Some(row) => row.get(i),
            None => Pack::splat(self.simd, T::ZERO),
        }
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        fetch_each(&self.ahead, i, Row::<S, T>::LANES);
    }
}

/// Asks for each. (An iterator over options would be written to the stack for every pack.)
#[inline(always)]
fn fetch_each<T: Copy>(ahead: &[Option<Ahead<T>>; 3], i: usize, lanes: usize) {
    let [x, y, z] = ahead;
    if let Some(ahead) = x {
        ahead.fetch(i, lanes);
    }
    if let Some(ahead) = y {
        ahead.fetch(i, lanes);
    }
    if let Some(ahead) = z {
        ahead.fetch(i, lanes);
    }
}

/// One or the other.
#[derive(Debug)]
pub(super) enum Coefficients<T> {
    Cells(Cells<T>),
    Stored(Stored<T>),
}

impl<T: Real> Coefficients<T> {
    pub(super) fn new(cpu: &Cpu, g: &Geometry<T>, stencil: &stencil::Diffusion) -> Result<Self> {
        Ok(match stencil.coefficients() {
            stencil::Coefficients::Cells { fields, axes } => Self::Cells(Cells::new(cpu, g, stencil, fields, *axes)?),
            stencil::Coefficients::Faces(faces) => Self::Stored(Stored::new(cpu, g, stencil, faces)?),
        })
    }
}
