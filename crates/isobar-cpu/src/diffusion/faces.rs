//! Stored entries: the transmissibilities of coarser levels.

use isobar_core::prelude::{Axis, Layout, Pack, Real, Result, Stencil};
use isobar_core::stencil;
use pulp::Simd;

use super::entries::{CellCoefficients, Transmissibilities, arrange, arrange_with, fetch_each};
use crate::geometry::{Ended, Link};
use crate::seven_point::{Coefficients, RowCoefficients, TileCoefficients};
use crate::shared::Ahead;
use crate::{Columns, Cpu, Geometry, HalfPlane, Row, Shared, Vector, View, Which, Window};

/// Transmissibilities, each stored at the lower of its two cells.
#[derive(Debug)]
pub(super) struct Faces<T> {
    /// Transmissibilities by direction; `None` for directions with one cell. Those across a periodic end of a
    /// line in x are in `wrapped`.
    faces: [Option<Vector<T>>; 3],
    /// T between the last and the first cell of the line at k + nz j, where x is periodic.
    wrapped: Vec<T>,
    shift: Option<Vector<T>>,
}

impl<T: Real> Faces<T> {
    /// Allocates the transmissibilities of a stencil's rows, periodic in x or not.
    pub(super) fn new(cpu: &Cpu, layout: &Layout, is_ring: bool, stencil: &stencil::Diffusion) -> Result<Self> {
        let shape = layout.shape();
        let (room, whole) = (|n: usize| (n > 1).then(|| Vector::zeros(cpu, layout)).transpose(), stencil.shape());
        Ok(Self {
            faces: [room(whole.nx)?, room(whole.ny)?, room(whole.nz)?],
            wrapped: vec![T::ZERO; if is_ring { shape.ny * shape.nz } else { 0 }],
            shift: stencil.stored_shift().map(|_| Vector::zeros(cpu, layout)).transpose()?,
        })
    }

    /// Rounds and arranges the transmissibilities.
    pub(super) fn set(&mut self, cpu: &Cpu, stencil: &stencil::Diffusion, faces: &[std::sync::Arc<[f64]>; 3]) {
        let shape = stencil.shape();
        for (axis, stored) in Axis::ALL.into_iter().zip(&mut self.faces) {
            let Some(stored) = stored else { continue };
            arrange_with(cpu, stored, |place| {
                let across_an_end = axis == Axis::X && place[0] + 1 == shape.nx;
                let is_face = !across_an_end && stencil.upper(axis, place).is_some();
                if is_face { faces[axis as usize][stencil.cell(place)] } else { 0.0 }
            });
        }
        if let Some(layout) = self.faces[0].as_ref().map(Vector::layout) {
            let first = layout.origin()[1];
            for (n, wrapped) in self.wrapped.iter_mut().enumerate() {
                let [j, k] = [n / shape.nz, n % shape.nz];
                *wrapped = T::from_f64(faces[0][stencil.cell([shape.nx - 1, first + j, k])]);
            }
        }
        if let (Some(stored), Some(shift)) = (&mut self.shift, stencil.stored_shift()) {
            arrange(cpu, stored, shift, shape, 1.0);
        }
    }

    pub(super) fn vectors(&self) -> impl Iterator<Item = &Vector<T>> {
        self.faces.iter().flatten().chain(&self.shift)
    }
}

/// The coefficients of some columns.
pub(crate) struct FaceTile<'a, S: Simd, T: Real> {
    simd: S,
    faces: &'a Faces<T>,
    /// Fields by direction.
    fields: [Option<Shared<T>>; 3],
    g: Geometry<'a, T>,
    h: HalfPlane,
    columns: Columns,
}

/// The coefficients of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaceRow<'a, S: Simd, T: Real> {
    simd: S,
    west: Ended<'a, S, T>,
    east: Ended<'a, S, T>,
    south: Row<'a, S, T>,
    north: Row<'a, S, T>,
    vertical: Option<[Row<'a, S, T>; 2]>,
    shift: Option<Row<'a, S, T>>,
    ahead: [Option<Ahead<T>>; 3],
}

impl<T: Real> Coefficients<T> for Faces<T> {
    const IS_PLAIN: bool = false;
    type Tile<'a, S: Simd> = FaceTile<'a, S, T>;
    type WithoutVectors = Self;

    fn without_vectors(&self) -> &Self {
        self
    }

    #[inline(always)]
    fn tile<'a, S: Simd>(&'a self, simd: S, g: Geometry<'a, T>, h: &HalfPlane, columns: Columns) -> Self::Tile<'a, S> {
        let [x, y, z] = &self.faces;
        let fields = [x.as_ref().map(Vector::share), y.as_ref().map(Vector::share), z.as_ref().map(Vector::share)];
        FaceTile { simd, faces: self, fields, g, h: *h, columns }
    }
}

impl<'a, S: Simd, T: Real> TileCoefficients<S, T> for FaceTile<'a, S, T> {
    type Row = FaceRow<'a, S, T>;

    #[inline(always)]
    fn row(&self, k: usize) -> Self::Row {
        let Self { simd, faces, fields, g, h, columns } = self;
        let (simd, n) = (*simd, columns.n);
        let w = Window { k, columns: *columns };
        // `map` of an array would not inline its function, and rows are short.
        let x = fields[0].map(|v| View { simd, g: *g, v, h, w, which: Which::All });
        let y = fields[1].map(|v| View { simd, g: *g, v, h, w, which: Which::All });
        let z = fields[2].map(|v| View { simd, g: *g, v, h, w, which: Which::All });
        let position = g.position(h, w);
        let ahead = [
            fields[0].map(|v| v.ahead(position)),
            fields[1].map(|v| v.ahead(position)),
            fields[2].map(|v| v.ahead(position)),
        ];
        let zeros = g.zeros(simd, n);
        // The faces across a periodic end of a line replace those beyond it.
        let wrapped = if g.periodic[0] { faces.wrapped[k + g.layers() * h.j] } else { T::ZERO };
        // SAFETY: rows of vectors that nobody writes while they are borrowed.
        unsafe {
            let ended = |view: Option<View<'a, '_, S, T>>, upper: bool| {
                let Some(view) = view else { return Ended::whole(simd, zeros) };
                let row = Ended::whole(simd, if upper { view.own() } else { view.row_in_x(false) });
                match view.end_in_x(upper) {
                    Some(lane) => row.with(lane, wrapped),
                    None => row,
                }
            };
            FaceRow {
                simd,
                west: ended(x, false),
                east: ended(x, true),
                south: y.map_or(zeros, |view| view.in_y(false)),
                north: y.map_or(zeros, |view| view.own()),
                vertical: z.map(|view| [view.in_z(false), view.own()]),
                shift: faces.shift.as_ref().map(|shift| shift.share().packs(simd, position, n)),
                ahead,
            }
        }
    }
}

impl<S: Simd, T: Real> RowCoefficients<S, T> for FaceRow<'_, S, T> {
    type Entries = Transmissibilities<S, T>;

    #[inline(always)]
    fn get(&self, i: usize) -> Self::Entries {
        Transmissibilities {
            horizontal: [self.west.get(i), self.east.get(i), self.south.get(i), self.north.get(i)],
            vertical: self.vertical.map(|[below, above]| [below.get(i), above.get(i)]),
            shift: match self.shift {
                Some(row) => row.get(i),
                None => Pack::splat(self.simd, T::ZERO),
            },
        }
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        fetch_each(&self.ahead, i, Row::<S, T>::LANES);
    }
}

impl<T: Real> CellCoefficients<T> for Faces<T> {
    fn between(&self, axis: Axis, lower: isize, _: isize, link: Link, [j, k]: [usize; 2]) -> T {
        let Some(faces) = &self.faces[axis as usize] else { return T::ZERO };
        if axis == Axis::X && link == Link::Wrapped {
            return self.wrapped[k + faces.layout().shape().nz * j];
        }
        faces.at(lower)
    }

    fn shift(&self, layout: &Layout, [i, j, k]: [usize; 3]) -> T {
        self.shift.as_ref().map_or(T::ZERO, |shift| shift.entries()[layout.index(i, j, k)])
    }
}
