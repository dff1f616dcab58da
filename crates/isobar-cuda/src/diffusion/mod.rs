//! The diffusion operator on a GPU: coefficients of cells or of faces, for the header `kernels/diffusion.cuh`.

mod supports;

use isobar_core::array::DeviceArray;
use isobar_core::execute::for_each_row;
use isobar_core::prelude::{ArrayView, Axis, Coefficients, Host, Layout, Real, Result, Shape, Side, Slab, Stencil};
use isobar_core::stencil;

use crate::part::rows_around;
use crate::seven_point::sources;
use crate::{Buffer, Cuda, Pointer, Source, argument};

/// The compile-time properties of a stencil: see `diffusion.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Whether coefficients of faces are stored instead of coefficients of cells.
    stored_faces: bool,
    /// The number of the field for each direction.
    fields: [usize; 3],
    /// The fields that kernels read.
    used: [bool; 3],
    /// Dirichlet sides: bit 2 axis + upper.
    fixed: u32,
    /// Periodic directions.
    periodic: u32,
    shift: bool,
}

argument! {
    /// `Stencil` of diffusion.cuh.
    pub(crate) struct Operands {
        fields: [Pointer; 3],
        shift: Pointer,
        ratio: Pointer,
        nx: i32,
        ny: i32,
        nz: i32,
        pitch: i32,
        rows: [i32; 2],
    }
}

argument! {
    /// `Form` of galerkin/setup/finest.cu.
    pub(crate) struct Form {
        stored_faces: i32,
        fields: [i32; 3],
        fixed: u32,
        shift: i32,
    }
}

/// Returns all sources for a stencil and line solves for columns with these numbers of layers; `wide` for vectors of 2³¹ elements and more.
pub fn sources<T: Real>(stencil: &stencil::Diffusion, layers: &[usize], wide: bool) -> Vec<Source> {
    sources::all::<T>(stencil, layers, wide)
}

impl Kind {
    /// Returns the properties as arguments for unspecialised kernels.
    pub(crate) fn form(&self) -> Form {
        Form {
            stored_faces: i32::from(self.stored_faces),
            fields: self.fields.map(|field| field as i32),
            fixed: self.fixed,
            shift: i32::from(self.shift),
        }
    }

    fn is_periodic(&self, axis: Axis) -> bool {
        self.periodic >> axis as usize & 1 != 0
    }

    /// Returns the kinds of the sides.
    pub(crate) fn sides(&self) -> [[Side; 2]; 3] {
        [0, 1, 2].map(|d| {
            [0, 1].map(|upper| match (self.periodic >> d & 1, self.fixed >> (2 * d + upper) & 1) {
                (1, _) => Side::Periodic,
                (_, 1) => Side::Fixed,
                _ => Side::Closed,
            })
        })
    }

    /// Copies the ratios of each direction's h to that of the first direction with the same field.
    pub(crate) fn send_ratios<T: Real>(
        &self,
        cuda: &Cuda,
        operands: &Operands,
        axes: &[(usize, f64); 3],
    ) -> Result<()> {
        let ratios = axes.map(|(field, factor)| T::from_f64(factor / first_factor(axes, field)));
        cuda.context().send(&ratios, operands.ratio)
    }

    /// Returns the fields that kernels read, in order.
    pub(crate) fn used_fields(&self) -> impl Iterator<Item = usize> {
        let used = self.used;
        (0..3).filter(move |&field| used[field])
    }
}

/// Returns the stored rows of coefficients before and after a subdomain: the halo row, and one more before it, so that colours are stored
/// in the same order from the first stored row as from the subdomain's first row.
fn rows_beside(layout: &Layout) -> [usize; 2] {
    let [before, after] = layout.halo();
    [2 * before, after]
}

/// Copies coefficients of the whole grid from the host to a subdomain's layout, halo rows included, times a factor; cells of the whole
/// grid from `end` on, in any direction, are set to zero. Returns whether a number has changed.
fn upload_rows<T: Real>(
    cuda: &Cuda,
    layout: &Layout,
    whole: Shape,
    values: &[f64],
    factor: f64,
    end: [usize; 3],
    to: Pointer,
) -> Result<bool> {
    let shape = layout.shape();
    let [before, after] = rows_beside(layout);
    let (first, rows) = (layout.first_row(), before + shape.ny + after);
    let stored = Layout::new(Shape { ny: rows, ..shape })?;
    let start = to - (before * 2 * layout.half_plane() * size_of::<T>()) as Pointer;
    let is_one_run = !layout.divides_ring() && first >= before && first - before + rows <= whole.ny;
    if is_one_run {
        let slab = Slab { first: first - before, beyond: first - before + rows };
        let part = ArrayView::c_order(values, whole)?.part(slab)?;
        let layers = part.as_c_order().map(|all| vec![all]).or_else(|| part.layers()).unwrap_or_default();
        let end = [end[0], end[1].saturating_sub(slab.first).min(rows), end[2]];
        return cuda.upload_coefficients::<T>(&stored, &layers, factor, end, start);
    }
    let row_there = |row: usize| match layout.divides_ring() {
        true => Some(layout.row_there(row.cast_signed() - before.cast_signed())),
        false => (first + row).checked_sub(before),
    };
    let mut packed = vec![0.0; shape.nx * rows * shape.nz];
    for_each_row(&Host, &mut packed, whole.nx, |n, packed| {
        // Other rows stay zero, also the row before a halo row, which only fixes the order of colours, if the grid does not have it.
        if let Some(j) = row_there(n % rows).filter(|&j| j < end[1]) {
            packed.copy_from_slice(&values[whole.nx * (j + whole.ny * (n / rows))..][..whole.nx]);
        }
    });
    cuda.upload_coefficients::<T>(&stored, &[&packed], factor, [end[0], rows, end[2]], start)
}

/// Returns the factor of the first direction that uses a field; the field is stored with this factor.
pub(crate) fn first_factor(axes: &[(usize, f64); 3], field: usize) -> f64 {
    axes.iter().find(|axis| axis.0 == field).map_or(1.0, |&(_, factor)| factor)
}

impl Operands {
    /// Returns the address of a field.
    pub(crate) fn field(&self, field: usize) -> Pointer {
        self.fields[field]
    }

    /// Returns the address of the shift, if there is one.
    pub(crate) fn shift(&self) -> Pointer {
        self.shift
    }
}

impl Kind {
    /// Returns the properties of a stencil.
    pub(crate) fn of(stencil: &stencil::Diffusion) -> Self {
        let nz = stencil.shape().nz;
        let (stored_faces, fields) = match stencil.coefficients() {
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => {
                (false, axes.map(|(field, _)| field))
            }
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => (true, [0, 1, 2]),
        };
        let (mut fixed, mut periodic) = (0, 0);
        for (d, sides) in stencil.sides().into_iter().enumerate() {
            for (upper, side) in sides.into_iter().enumerate() {
                match side {
                    // Stored faces include Dirichlet sides in the shift.
                    Side::Fixed if !stored_faces => fixed |= 1 << (2 * d + upper),
                    Side::Periodic => periodic |= 1 << d,
                    Side::Fixed | Side::Closed => {}
                }
            }
        }
        let mut used = [false; 3];
        for (d, &field) in fields.iter().enumerate() {
            // A missing face must be stored as a zero, except those above a single layer. A cell's coefficient makes it active in any direction.
            used[field] |= !stored_faces || d < 2 || nz > 1;
        }
        Self { stored_faces, fields, used, fixed, periodic, shift: stencil.has_shift() }
    }

    /// Defines the macros that specialise the header.
    pub(crate) fn define(&self, source: Source) -> Source {
        source
            .define("STORED_FACES", u32::from(self.stored_faces))
            .define("FIELD_X", self.fields[0])
            .define("FIELD_Y", self.fields[1])
            .define("FIELD_Z", self.fields[2])
            .define("FIXED", self.fixed)
            .define("SHIFT", u32::from(self.shift))
    }

    /// Returns the bits of the periodic directions.
    pub(crate) fn periodic(&self) -> u32 {
        self.periodic
    }

    /// Returns whether there is a field of shifts s.
    pub(crate) fn has_shift(&self) -> bool {
        self.shift
    }

    /// Allocates one buffer for the ratios, the fields that are used and the shift, and returns their addresses for kernels; `rows` are the
    /// rows of the whole grid.
    pub(crate) fn allocate<T: Real>(&self, cuda: &Cuda, layout: &Layout, rows: usize) -> Result<(Buffer, Operands)> {
        /// Alignment of vectors in bytes.
        const ALIGNMENT: usize = 256;
        let row = 2 * layout.half_plane() * size_of::<T>();
        let [before, after] = rows_beside(layout);
        let bytes = ((before + layout.shape().ny + after) * row).next_multiple_of(ALIGNMENT);
        let vectors = self.used_fields().count() + usize::from(self.shift);
        let shape @ Shape { nx, ny, nz } = layout.shape();
        let what = format!("the {vectors} vectors of a diffusion operator on {shape} cells");
        let buffer = Buffer::new(cuda.context(), ALIGNMENT + vectors * bytes, &what)?;
        let vector = |n: usize| buffer.start() + (ALIGNMENT + n * bytes + before * row) as Pointer;
        // Fields that no kernel uses point to readable memory all the same.
        let mut fields = [vector(0); 3];
        for (n, field) in self.used_fields().enumerate() {
            fields[field] = vector(n);
        }
        let operands = Operands {
            fields,
            shift: vector(vectors - 1),
            ratio: buffer.start(),
            nx: nx as i32,
            ny: ny as i32,
            nz: nz as i32,
            pitch: layout.pitch() as i32,
            rows: rows_around(layout, rows),
        };
        Ok((buffer, operands))
    }

    /// Copies coefficients to the GPU. Returns whether a number differs from those of the stencil before.
    pub(crate) fn send<T: Real>(
        &self,
        cuda: &Cuda,
        layout: &Layout,
        operands: &Operands,
        before: &stencil::Diffusion,
        stencil: &stencil::Diffusion,
    ) -> Result<bool> {
        let whole @ Shape { nx, ny, nz } = stencil.shape();
        let extents = [nx, ny, nz];
        let mut has_changed = before.factors() != stencil.factors();
        let import_shift = |shift: Option<&DeviceArray>| {
            let least = if stencil.is_definite() { 0.0 } else { f64::MIN };
            let import =
                |shift| cuda.import_coefficients::<T>(layout, "the shift", shift, [1.0, least], operands.shift);
            shift.map_or(Ok(false), import)
        };
        match stencil.coefficients() {
            Coefficients::Cells { fields, axes } => {
                for field in self.used_fields() {
                    let (factor, to) = (first_factor(axes, field), operands.fields[field]);
                    has_changed |= upload_rows::<T>(cuda, layout, whole, &fields[field], factor, extents, to)?;
                }
                self.send_ratios::<T>(cuda, operands, axes)?;
            }
            Coefficients::DeviceCells { fields, axes, shift } => {
                for field in self.used_fields() {
                    let (what, to) = ("diffusion.coefficient", operands.fields[field]);
                    let factor = first_factor(axes, field);
                    has_changed |= cuda.import_coefficients::<T>(layout, what, &fields[field], [factor, 0.0], to)?;
                }
                self.send_ratios::<T>(cuda, operands, axes)?;
                has_changed |= import_shift(shift.as_ref())?;
            }
            Coefficients::DeviceFaces { faces, shift, .. } => {
                for field in self.used_fields() {
                    let to = operands.fields[field];
                    has_changed |= match &faces[field] {
                        Some(array) => cuda.import_coefficients::<T>(layout, "conductances", array, [1.0, 0.0], to)?,
                        None => cuda.clear_coefficients::<T>(layout, to)?,
                    };
                }
                has_changed |= import_shift(shift.as_ref())?;
            }
            Coefficients::Faces(faces) => {
                for axis in self.used_fields().map(|axis| Axis::ALL[axis]) {
                    // There is no face above the last cell, whatever the stored value.
                    let (d, mut end) = (axis as usize, extents);
                    if !self.is_periodic(axis) || extents[d] == 1 {
                        end[d] -= 1;
                    }
                    has_changed |= upload_rows::<T>(cuda, layout, whole, &faces[d], 1.0, end, operands.fields[d])?;
                }
            }
        }
        if let Some(shift) = stencil.stored_shift() {
            has_changed |= upload_rows::<T>(cuda, layout, whole, shift, 1.0, extents, operands.shift)?;
        }
        Ok(has_changed)
    }
}
