//! Transmissibilities of all faces of a diffusion operator, and those of a tensor product.

use std::sync::Arc;

use super::diffusion::{Coefficients, Diffusion, Side};
use super::spread::Spread;
use super::{Stencil, StoredFaces, Supports, TensorProduct};
use crate::error::{Error, Result};
use crate::execute::{Execute, Host, shared};
use crate::layout::{Axis, Shape};
use crate::real::{Real, harmonic};

impl TensorProduct {
    /// Makes the same matrix with T stored for every face and s for every cell,
    ///
    /// T = −d_k α between columns, −|T| b_k between layers, s = |T| a_k − d_k (α_T − Σ α),
    ///
    /// that is, four numbers per cell; returns nothing for a matrix that is not symmetric.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for couplings of the wrong sign, naming the cell.
    pub fn with_stored_faces(&self) -> Result<Option<Diffusion>> {
        if !self.is_symmetric() {
            return Ok(None);
        }
        let (v, h, Shape { nx, ny, nz }) = (self.vertical(), self.horizontal(), self.shape());
        let columns = nx * ny;
        let of_cells = |value: &dyn Fn(usize, usize) -> f64| {
            let mut values = Vec::with_capacity(columns * nz);
            values.extend((0..nz).flat_map(|k| (0..columns).map(move |n| value(n, k))));
            values
        };
        let east = of_cells(&|n, k| if (n + 1).is_multiple_of(nx) { 0.0 } else { -v.d[k] * h.east[n] }).into();
        let north = of_cells(&|n, k| if n + nx >= columns { 0.0 } else { -v.d[k] * h.north[n] }).into();
        let above = of_cells(&|n, k| if k + 1 == nz { 0.0 } else { -h.area[n] * v.b[k] }).into();
        let outside: Vec<f64> = (0..columns).map(|n| h.outside(n)).collect();
        let shift = of_cells(&|n, k| h.area[n] * v.a[k] - v.d[k] * outside[n]);
        let faces = Coefficients::Faces([east, north, above]);
        Diffusion::new(self.shape(), faces, Some(shift), [[Side::Closed; 2]; 3]).map(Some)
    }
}

/// Puts the faces of a tensor product on a device, for [`Supports::stored_faces`].
///
/// # Errors
/// See [`TensorProduct::with_stored_faces`] and [`Supports::operator`].
pub fn by_stored_faces<B: Supports<Diffusion>, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
) -> Result<Option<StoredFaces<B, TensorProduct, T>>> {
    let Some(faces) = stencil.with_stored_faces()? else { return Ok(None) };
    let operator = backend.operator::<T>(&faces)?;
    let capabilities = backend.capabilities(&operator);
    let device = backend.clone();
    let update = move |stencil: &TensorProduct| match stencil.with_stored_faces()? {
        Some(faces) => device.update(&operator, &faces).map(drop),
        None => Err(Error::invalid("the new operator", "it is not symmetric, and the preconditioner needs that")),
    };
    Ok(Some(StoredFaces { capabilities, update: Box::new(update) }))
}

/// Sets shifts to 0 that are no larger than the rounding of their rows' sums, from which they may have been computed: of either sign, as
/// one of them is negative.
pub(super) fn clear_rounding(shape: Shape, faces: &[Arc<[f64]>; 3], shift: &mut [f64]) {
    /// A row's sum of seven numbers, in units of the largest.
    const ROUNDING: f64 = 16.0 * f64::EPSILON;
    for (n, shift) in shift.iter_mut().enumerate() {
        let at = shape.place(n);
        // Without a periodic side there is none before the first cell, and 0 is stored above the last.
        let before = |d: usize| {
            let mut before = at;
            before[d] = before[d].checked_sub(1).unwrap_or(shape.extents()[d] - 1);
            faces[d][shape.number(before)]
        };
        let all: f64 = (0..3).map(|d| faces[d][n] + before(d)).sum();
        if shift.abs() <= ROUNDING * all {
            *shift = 0.0;
        }
    }
}

impl Diffusion {
    /// Makes the matrix (A u)_n = s_n u_n + Σ T_nm (u_n − u_m) of conductances T of the faces between neighbours in x, y and z: arrays of shapes
    /// (nz, ny, nx − 1), (nz, ny − 1, nx) and (nz − 1, ny, nx) in C order, each with one more along its own axis if that is periodic, for the faces
    /// between the last cells and the first. `shift` is s, 0 if absent; `active` is the mask of active cells, and closes
    /// the faces of all others. Without a mask cells with a conductance or a shift are active; with one, right-hand sides must be 0 in active cells
    /// that have neither.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of other lengths; [`Error::Invalid`] for conductances and shifts that are negative or not finite, naming the
    /// face or the cell.
    pub fn from_faces(
        shape: Shape,
        faces: [Vec<f64>; 3],
        is_periodic: [bool; 3],
        shift: Option<Vec<f64>>,
        active: Option<&[bool]>,
    ) -> Result<Self> {
        let Shape { nx, ny, nz } = shape;
        if let Some(active) = active.filter(|active| active.len() != shape.cells()) {
            return Err(Error::shape("active", active.len(), format!("{} = {shape}", shape.cells())));
        }
        let is_open = |n: usize| active.is_none_or(|active| active[n]);
        let all = |axis: Axis, given: Vec<f64>| -> Result<Arc<[f64]>> {
            let (d, name) = (axis as usize, ["x", "y", "z"][axis as usize]);
            let (n, what) = (shape.extents()[d], format!("conductances in {name}"));
            let faces = shape.faces_between(axis, is_periodic[d]);
            let count = faces.cells();
            if given.len() != count {
                let round = if is_periodic[d] { ", the last and the first ones included" } else { "" };
                return Err(Error::shape(
                    what,
                    format!("{} faces", given.len()),
                    format!("{count} for {shape} cells, one for each pair of neighbours in {name}{round}"),
                ));
            }
            let upper = |mut at: [usize; 3]| {
                at[d] = (at[d] + 1) % n;
                at
            };
            if let Err(face) = Spread::of(&Host, &given) {
                let from = faces.place(face);
                let to = upper(from);
                let remedy = if is_open(shape.number(from)) && is_open(shape.number(to)) {
                    "it must be finite and not negative"
                } else {
                    "the mask closes this face, but it needs a number: set 0 beside cells that are not active"
                };
                let ([i, j, k], [i_to, j_to, k_to]) = (from, to);
                let message = format!(
                    "{} between the cells (i, j, k) = ({i}, {j}, {k}) and ({i_to}, {j_to}, {k_to}), counted from 0; {remedy}",
                    given[face]
                );
                return Err(Error::invalid(what, message));
            }
            Ok(shared(&Host, shape.cells(), nx, |row, values| {
                let first @ [_, j, k] = [0, row % ny, row / ny];
                if n == 1 || j >= faces.ny || k >= faces.nz {
                    return;
                }
                let values = &mut values[..faces.nx];
                values.copy_from_slice(&given[faces.number(first)..][..faces.nx]);
                let Some(active) = active else { return };
                let beside = shape.number(if axis == Axis::X { first } else { upper(first) });
                for (i, value) in values.iter_mut().enumerate() {
                    let other = if axis == Axis::X { (i + 1) % nx } else { i };
                    *value = if active[row * nx + i] & active[beside + other] { *value } else { 0.0 };
                }
            }))
        };
        let [x, y, z] = faces;
        let faces = [all(Axis::X, x)?, all(Axis::Y, y)?, all(Axis::Z, z)?];
        let shift = shift.map(|mut shift| {
            let pairs = shift.iter_mut().zip(active.unwrap_or_default());
            pairs.filter(|(_, is_open)| !**is_open).for_each(|(shift, _)| *shift = 0.0);
            shift
        });
        let sides = is_periodic.map(|is_periodic| [if is_periodic { Side::Periodic } else { Side::Closed }; 2]);
        let mut this = Self::new(shape, Coefficients::Faces(faces), shift, sides)?;
        if active.is_some() {
            let mut of_rows = vec![Vec::new(); ny * nz];
            Host.for_each(&mut of_rows, |row, isolated| {
                let mut is_active = vec![false; nx];
                this.find_active(row, &mut is_active);
                let cells = is_active.into_iter().zip(row * nx..);
                isolated.extend(cells.filter(|&(is_active, n)| is_open(n) && !is_active).map(|(_, n)| shape.place(n)));
            });
            this.isolated = Arc::new(of_rows.concat());
        }
        Ok(this)
    }

    /// Calls `f(lower cell, upper cell, T)` for every open face.
    pub(crate) fn for_each_open_face(&self, mut f: impl FnMut(usize, usize, f64)) {
        let Shape { nx, ny, nz } = self.shape();
        for axis in Axis::ALL {
            let (count, stride) = [(nx, 1), (ny, nx), (nz, nx * ny)][axis as usize];
            if count == 1 {
                continue;
            }
            let faces = match self.coefficients() {
                Coefficients::Faces(faces) => faces[axis as usize].clone(),
                _ => self.faces_along(axis),
            };
            for (block, faces) in faces.chunks(count * stride).enumerate() {
                let first = block * count * stride;
                for (n, &t) in faces.iter().enumerate().filter(|(_, t)| **t > 0.0) {
                    // The last row's upper neighbour is the first, across a periodic side.
                    let upper = if n < (count - 1) * stride { n + stride } else { n - (count - 1) * stride };
                    f(first + n, first + upper, t);
                }
            }
        }
    }

    /// Calls `f(cell, s)` for every cell with s > 0.
    pub(crate) fn for_each_shift(&self, mut f: impl FnMut(usize, f64)) {
        let Shape { ny, nz, .. } = self.shape();
        (0..ny * nz).for_each(|row| self.for_each_shift_of_row(row, &mut f));
    }

    /// Calls `f(cell, s)` for the cells of row j + ny k with s > 0.
    pub(super) fn for_each_shift_of_row(&self, row: usize, mut f: impl FnMut(usize, f64)) {
        let Shape { nx, ny, nz } = self.shape();
        let (j, k) = (row % ny, row / ny);
        let fixed = self.sides().map(|sides| sides.contains(&Side::Fixed));
        let mut visit = |i: usize| {
            let shift = self.shift([i, j, k]);
            if shift > 0.0 {
                f(self.cell([i, j, k]), shift);
            }
        };
        let on_side = fixed[1] && (j == 0 || j + 1 == ny) || fixed[2] && (k == 0 || k + 1 == nz);
        if on_side || self.has_shift() {
            (0..nx).for_each(visit);
        } else if fixed[0] {
            visit(0);
            if nx > 1 {
                visit(nx - 1);
            }
        }
    }

    /// Marks the open faces above the cells of row j + ny k with 1, others with 0.
    pub(super) fn open_faces(&self, axis: Axis, row: usize, open: &mut [u8]) {
        let Shape { nx, ny, .. } = self.shape();
        let (j, k) = (row % ny, row / ny);
        let start = self.cell([0, j, k]);
        open.fill(0);
        match self.coefficients() {
            Coefficients::Faces(faces) => {
                let faces = &faces[axis as usize][start..start + nx];
                open.iter_mut().zip(faces).for_each(|(open, &t)| *open = u8::from(t > 0.0));
                let is_above = |at| self.upper(axis, at).is_some_and(|upper| upper != at);
                if axis == Axis::X {
                    open[nx - 1] &= u8::from(is_above([nx - 1, j, k]));
                } else if !is_above([0, j, k]) {
                    open.fill(0);
                }
            }
            Coefficients::Cells { fields, axes } => {
                let (field, factor) = axes[axis as usize];
                let h = &fields[field];
                // If no product rounds to 0, a face is open between two open cells.
                let Spread { positive, most, .. } = self.spreads()[field];
                let is_moderate = [positive, most, factor].iter().all(|value| (1e-100..1e100).contains(value));
                let is_open = |a: f64, b: f64| {
                    u8::from(if is_moderate { (a > 0.0) & (b > 0.0) } else { factor * harmonic(a, b) > 0.0 })
                };
                let own = &h[start..start + nx];
                if axis == Axis::X {
                    let pairs = own.iter().zip(&own[1..]);
                    open.iter_mut().zip(pairs).for_each(|(open, (&a, &b))| *open = is_open(a, b));
                    if self.is_periodic(axis) && nx > 1 {
                        open[nx - 1] = is_open(own[nx - 1], own[0]);
                    }
                } else if let Some(upper) =
                    self.upper(axis, [0, j, k]).map(|at| self.cell(at)).filter(|&to| to != start)
                {
                    let pairs = own.iter().zip(&h[upper..upper + nx]);
                    open.iter_mut().zip(pairs).for_each(|(open, (&a, &b))| *open = is_open(a, b));
                }
            }
            // Back ends copy these to the host first.
            Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. } => {}
        }
    }

    /// Finds which cells of row j + ny k are [active](Diffusion::is_active).
    pub fn find_active(&self, row: usize, is_active: &mut [bool]) {
        let Shape { nx, ny, .. } = self.shape();
        let (j, k) = (row % ny, row / ny);
        match self.coefficients() {
            Coefficients::Cells { fields, axes } => {
                is_active.fill(false);
                for &(field, factor) in axes {
                    let h = &fields[field][self.cell([0, j, k])..][..nx];
                    is_active.iter_mut().zip(h).for_each(|(is_active, &h)| *is_active |= factor * h > 0.0);
                }
                // A cell without couplings may have a reaction.
                if self.has_shift() {
                    let shifted = |i: usize| self.shift([i, j, k]) > 0.0;
                    is_active.iter_mut().enumerate().for_each(|(i, is_active)| *is_active |= shifted(i));
                }
            }
            Coefficients::Faces(faces) => {
                match &self.shift {
                    // The diagonal may be negative, or 0, where the shift is negative.
                    Some(shift) => {
                        let shift = &shift[self.cell([0, j, k])..][..nx];
                        is_active.iter_mut().zip(shift).for_each(|(is_active, &shift)| *is_active = shift != 0.0);
                    }
                    None => is_active.fill(false),
                }
                let above = |axis: Axis, [_, j, k]: [usize; 3]| &faces[axis as usize][self.cell([0, j, k])..][..nx];
                let mark = |is_active: &mut [bool], faces: &[f64]| {
                    is_active.iter_mut().zip(faces).for_each(|(is_active, &t)| *is_active |= t > 0.0);
                };
                let row = above(Axis::X, [0, j, k]);
                mark(&mut is_active[..nx - 1], row);
                mark(&mut is_active[1..], row);
                if self.is_periodic(Axis::X) && nx > 1 {
                    is_active[nx - 1] |= row[nx - 1] > 0.0;
                    is_active[0] |= row[nx - 1] > 0.0;
                }
                for axis in [Axis::Y, Axis::Z] {
                    let own = self.upper(axis, [0, j, k]).map(|_| [0, j, k]);
                    let rows = own.into_iter().chain(self.lower(axis, [0, j, k]));
                    rows.for_each(|at| mark(is_active, above(axis, at)));
                }
            }
            Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. } => {
                is_active.iter_mut().enumerate().for_each(|(i, is_active)| *is_active = self.is_active([i, j, k]));
            }
        }
    }

    /// Computes the faces of one direction from cells: rows of a plane against the next row or plane.
    fn faces_along(&self, axis: Axis) -> Arc<[f64]> {
        let Shape { nx, ny, nz } = self.shape();
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return Arc::from(Vec::new()) };
        let (field, factor) = axes[axis as usize];
        let h = &fields[field];
        let (count, stride) = [(nx, 1), (ny, nx), (nz, nx * ny)][axis as usize];
        let mut faces = vec![0.0; h.len()];
        // Blocks of `count` rows of `stride` cells each.
        for (faces, h) in faces.chunks_mut(count * stride).zip(h.chunks(count * stride)) {
            let last = (count - 1) * stride;
            for ((face, &a), &b) in faces[..last].iter_mut().zip(h).zip(&h[stride..]) {
                *face = factor * harmonic(a, b);
            }
            if self.is_periodic(axis) && count > 1 {
                for ((face, &a), &b) in faces[last..].iter_mut().zip(&h[last..]).zip(h) {
                    *face = factor * harmonic(a, b);
                }
            }
        }
        Arc::from(faces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_rounding_of_row_sums_is_zero() {
        let shape = Shape::new(2, 2, 1);
        let made = |shift: [f64; 4]| {
            let faces = [[3.0, 0.0, 2.0, 0.0], [1.0, 5.0, 0.0, 0.0], [0.0; 4]].map(|face| face.to_vec().into());
            Diffusion::new(shape, Coefficients::Faces(faces), Some(shift.to_vec()), [[Side::Closed; 2]; 3]).unwrap()
        };
        let of = |stencil: &Diffusion| stencil.stored_shift().unwrap().to_vec();
        assert_eq!(of(&made([-1e-16, 2e-16, 0.5, 0.0])), [0.0, 0.0, 0.5, 0.0]);
        assert!(made([-1e-16, 2e-16, 0.5, 0.0]).is_definite());
        // Without a negative one a small shift is one.
        assert_eq!(of(&made([1e-16, 2e-16, 0.5, 0.0])), [1e-16, 2e-16, 0.5, 0.0]);
        let message = made([0.0, -1e-3, 0.0, 0.0]).check_iterated().unwrap_err().to_string();
        assert!(message.starts_with("faces.shift: negative in cell (i, j, k) = (1, 0, 0)"), "{message}");
    }

    /// Estimates of errors know how far conductances lie apart; those by a weak preconditioner are none.
    #[test]
    fn conductances_have_a_contrast() {
        let floor = |t: [f64; 3], weak_iterations| {
            let faces = [t.to_vec(), Vec::new(), Vec::new()];
            let made = Diffusion::from_faces(Shape::new(4, 1, 1), faces, [false; 3], None, None).unwrap();
            made.error_floor(weak_iterations)
        };
        assert_eq!(floor([2.0, 0.0, 1e-6], None), Some(f64::EPSILON * (2.0 / 1e-6)));
        assert_eq!(floor([2.0, 1.0, 1e-20], None), Some(f64::EPSILON * 1e13));
        assert_eq!(floor([1.0; 3], Some(30)), None);
    }

    #[test]
    fn rows_of_given_faces_are_those_of_their_cells() {
        let shapes = [(5, 4, 3), (1, 4, 3), (5, 1, 3), (5, 4, 1), (7, 1, 1), (1, 1, 6), (1, 1, 1), (2, 3, 2)];
        let rings = (0..8).map(|bits| [0, 1, 2].map(|d| bits >> d & 1 == 1));
        for ((nx, ny, nz), rings) in shapes.into_iter().flat_map(|shape| rings.clone().map(move |rings| (shape, rings)))
        {
            let shape = Shape { nx, ny, nz };
            let faces = |axis| shape.faces_between(axis, rings[axis as usize]);
            let given = Axis::ALL
                .map(|axis| (0..faces(axis).cells()).map(|n| ((7 * n + axis as usize) % 4) as f64).collect::<Vec<_>>());
            let shift: Vec<f64> = (0..shape.cells()).map(|n| f64::from(u8::from(n % 11 == 3))).collect();
            let mask: Vec<bool> = (0..shape.cells()).map(|n| n % 5 != 1).collect();
            for active in [None, Some(&mask[..])] {
                let is_open = |at| active.is_none_or(|active| active[shape.number(at)]);
                let made = Diffusion::from_faces(shape, given.clone(), rings, Some(shift.clone()), active).unwrap();
                for at in shape.places() {
                    for axis in Axis::ALL {
                        let between = made.upper(axis, at).filter(|&upper| is_open(at) && is_open(upper));
                        let expected = between.map_or(0.0, |_| given[axis as usize][faces(axis).number(at)]);
                        let Coefficients::Faces(stored) = made.coefficients() else { panic!("other coefficients") };
                        assert_eq!(stored[axis as usize][shape.number(at)], expected, "{shape}, {axis:?}, {at:?}");
                    }
                }
                for row in 0..ny * nz {
                    let mut found = vec![true; nx];
                    made.find_active(row, &mut found);
                    let expected: Vec<bool> = (0..nx).map(|i| made.is_active([i, row % ny, row / ny])).collect();
                    assert_eq!(found, expected, "{shape}, row {row}");
                }
                let isolated = shape.places().filter(|&at| active.is_some() && is_open(at) && !made.is_active(at));
                assert_eq!(made.isolated(), isolated.collect::<Vec<_>>());
            }
        }
    }
}
