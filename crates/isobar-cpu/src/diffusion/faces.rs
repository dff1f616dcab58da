//! Stored entries: the transmissibilities of coarser levels.

use isobar_core::prelude::{Axis, Layout, Pack, Real, Result, Stencil};
use isobar_core::stencil;
use pulp::Simd;

use super::entries::{CellCoefficients, Transmissibilities, arrange, arrange_with, fetch_each};
use crate::around::{Beside, Ended, EndedStrip};
use crate::geometry::Link;
use crate::seven_point::{Coefficients, RowCoefficients, TileCoefficients};
use crate::shared::{Ahead, Strip};
use crate::{Columns, Cpu, Geometry, HalfPlane, Row, Vector, View, Which};

/// Transmissibilities, each stored at the lower of its two cells.
#[derive(Debug)]
pub(super) struct Faces<T> {
    /// The transmissibilities by direction; `None` for directions with one cell. Those across a periodic end of a line
    /// in x are in `wrapped`.
    faces: [Option<Vector<T>>; 3],
    /// The transmissibility between the last and the first cell of each line, if x is periodic; see [`line_of`].
    wrapped: Vec<T>,
    shift: Option<Vector<T>>,
}

/// Returns the place of a line in x among those of all rows here, halo rows included.
fn line_of(layers: usize, j: isize, k: usize) -> usize {
    k + layers * (j + 1).cast_unsigned()
}

impl<T: Real> Faces<T> {
    /// Allocates the transmissibilities of a stencil's rows, periodic in x or not.
    pub(super) fn new(cpu: &Cpu, layout: &Layout, is_ring: bool, stencil: &stencil::Diffusion) -> Result<Self> {
        let shape = layout.shape();
        let (room, whole) = (|n: usize| (n > 1).then(|| Vector::zeros(cpu, layout)).transpose(), stencil.shape());
        Ok(Self {
            faces: [room(whole.nx)?, room(whole.ny)?, room(whole.nz)?],
            wrapped: vec![T::ZERO; if is_ring { (shape.ny + 2) * shape.nz } else { 0 }],
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
            let [before, after] = layout.halo().map(usize::cast_signed);
            let rows = -before..layout.shape().ny.cast_signed() + after;
            let is_ring = !self.wrapped.is_empty();
            for (j, k) in rows.filter(|_| is_ring).flat_map(|j| (0..shape.nz).map(move |k| (j, k))) {
                let face = faces[0][stencil.cell([shape.nx - 1, layout.row_there(j), k])];
                self.wrapped[line_of(shape.nz, j, k)] = T::from_f64(face);
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
    west: EndedStrip<'a, T>,
    east: EndedStrip<'a, T>,
    south: Strip<'a, T>,
    north: Strip<'a, T>,
    vertical: Option<Beside<'a, T>>,
    shift: Option<Strip<'a, T>>,
    ahead: [Option<Ahead<T>>; 3],
    pitch: usize,
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
        let Columns { m, n } = columns;
        let (position, pitch, layers) = (h.start + m as isize, g.layout.pitch(), g.layers());
        // `map` of an array would not inline its function, here and below.
        let view = |axis: usize| match &self.faces[axis] {
            Some(field) => Some(View { g, v: field.share(), h, columns, which: Which::All }),
            None => None,
        };
        let ahead = |axis: usize| self.faces[axis].as_ref().map(|field| field.share().ahead(position));
        let (x, y, z) = (view(0), view(1), view(2));
        let zeros = Strip::repeated(&g.zeros[..n]);
        // SAFETY: rows of vectors that nobody writes while they are borrowed.
        unsafe {
            let ended = |upper: bool| {
                let Some(view) = x else { return EndedStrip::whole(zeros) };
                let strip = EndedStrip::whole(if upper { view.own() } else { view.strip_in_x(false) });
                match view.end_in_x(upper) {
                    // The faces across a periodic end of a line replace those beyond it.
                    Some(lane) if g.periodic[0] => strip.with(
                        lane,
                        Strip::of_entries(&self.wrapped[line_of(layers, h.j.cast_signed(), 0)..][..layers]),
                    ),
                    // West of a first cell lies some other row's last one. The face east of the last cell is zero.
                    Some(lane) if !upper => strip.with(lane, Strip::repeated(&g.zeros[..1])),
                    _ => strip,
                }
            };
            FaceTile {
                simd,
                west: ended(false),
                east: ended(true),
                south: match y {
                    Some(view) => view.in_y(false),
                    None => zeros,
                },
                north: match y {
                    Some(view) => view.own(),
                    None => zeros,
                },
                vertical: z.map(|view| view.in_z()),
                shift: self.shift.as_ref().map(|shift| shift.share().strip(position, n, pitch, layers)),
                ahead: [ahead(0), ahead(1), ahead(2)],
                pitch,
            }
        }
    }
}

impl<'a, S: Simd, T: Real> TileCoefficients<S, T> for FaceTile<'a, S, T> {
    type Row = FaceRow<'a, S, T>;

    #[inline(always)]
    fn row(&self, k: usize) -> Self::Row {
        let Self { simd, ahead: [x, y, z], pitch, .. } = *self;
        let after = |ahead: Option<Ahead<T>>| ahead.map(|ahead| ahead.after(k * pitch));
        // SAFETY: rows of vectors that nobody writes while they are borrowed.
        unsafe {
            FaceRow {
                simd,
                west: self.west.row(simd, k),
                east: self.east.row(simd, k),
                south: self.south.row(simd, k),
                north: self.north.row(simd, k),
                vertical: self.vertical.map(|beside| [beside.row(simd, k, false), beside.own(simd, k)]),
                shift: self.shift.map(|shift| shift.row(simd, k)),
                ahead: [after(x), after(y), after(z)],
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
            let layout = faces.layout();
            return self.wrapped[line_of(layout.shape().nz, layout.row_here(j), k)];
        }
        faces.at(lower)
    }

    fn shift(&self, layout: &Layout, [i, j, k]: [usize; 3]) -> T {
        self.shift.as_ref().map_or(T::ZERO, |shift| shift.entries()[layout.index(i, j, k)])
    }
}
