//! Problems given by the conductances of faces.

use isobar::internals::array::Source;
use isobar::internals::cuda::Cuda;
use isobar::stencil::Axis;
use isobar::{DeviceArray, DeviceFaces, Shape};
use isobar_case::{LinearSystem, face_problem};

use crate::array::{Array, ISOBAR_U8};
use crate::handle::{hand_out_handle, sized};
use crate::problem::Problem;
use crate::status::{Failure, ISOBAR_OUT_OF_MEMORY, Result};

/// A matrix of conductances between neighbours, such as those of finite volumes on unequal cells, of cut cells and of networks:
///
/// (A u)_n = s_n u_n + Σ T_nm (u_n − u_m)
///
/// Arrays are in host memory or in that of a GPU, and isobar_problem_faces copies them: where all are on one GPU, there, and then the solver is on that GPU, and the
/// arrays of isobar_problem_rhs are there; else to host memory. Derivatives are computed on the host, from a copy that is made once.
#[repr(C)]
pub struct FaceArrays {
    /// sizeof(isobar_faces), which identifies the version of this struct.
    pub size: usize,
    /// {nz, ny, nx}: numbers of cells.
    pub shape: [usize; 3],
    /// T between neighbours in x, shape {nz, ny, nx − 1}, or {nz, ny, nx} if x is periodic, not negative; null means 0.
    pub tx: *const Array,
    /// T between neighbours in y, shape {nz, ny − 1, nx}, or {nz, ny, nx}; null means 0.
    pub ty: *const Array,
    /// T between neighbours in z, shape {nz − 1, ny, nx}, or {nz, ny, nx}; null means 0.
    pub tz: *const Array,
    /// s of every cell, such as the conductance to a side with a given value, of which b then contains s times that value; null means 0.
    pub shift: *const Array,
    /// 1 in active cells, 0 in others, whose faces are closed. May also be ISOBAR_U8. Null means all cells with a conductance or a shift; what b has in
    /// others is left out. With a mask, b must be 0 in active cells that have neither.
    pub active: *const Array,
    /// Whether x, y and z are periodic (not 0): the last T along such a direction is between the last cell and the first.
    pub periodic: [i32; 3],
}

/// Makes a problem from the conductances of faces. Its cells have no volumes: isobar_problem_rhs returns the inflow of each cell as it is.
///
/// # Safety
/// `description` and everything it points to are readable; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_faces(description: *const FaceArrays, out: *mut *mut Problem) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        place?;
        problem(sized("isobar_faces", description)?)
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// The members of isobar_faces for words of the library.
const MEMBERS: [(&str, &str); 3] =
    [("conductances in x", "tx"), ("conductances in y", "ty"), ("conductances in z", "tz")];

/// Returns the conductances that the caller has left out.
fn zeros(name: &str, count: usize) -> Result<Vec<f64>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| {
        let message = format!("{name}: there is no memory for {count} values; use a smaller shape");
        Failure::new(ISOBAR_OUT_OF_MEMORY, message)
    })?;
    values.resize(count, 0.0);
    Ok(values)
}

/// # Safety
/// Everything that the description points to is readable.
unsafe fn problem(given: &FaceArrays) -> Result<Problem> {
    let [nz, ny, nx] = given.shape;
    let shape = Shape { nx, ny, nz };
    // In bytes, as for the memory of an array.
    let bytes = [nx, ny, nz, 8].into_iter().try_fold(1usize, usize::checked_mul);
    if nx == 0 || ny == 0 || nz == 0 || bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(isobar::Error::shape("isobar_faces", shape, "one cell or more, and memory for them").into());
    }
    let is_periodic = given.periodic.map(|is_periodic| is_periodic != 0);
    let faces_of = |axis: Axis| shape.faces_between(axis, is_periodic[axis as usize]);
    // SAFETY: promised by the caller.
    let given = unsafe { [given.tx, given.ty, given.tz, given.shift, given.active].map(|array| array.as_ref()) };
    // SAFETY: promised by the caller.
    if let Some(problem) = unsafe { on_device(shape, given, is_periodic, &faces_of)? } {
        return Ok(problem);
    }
    let [tx, ty, tz, shift, active] = given;
    let mut faces = [Vec::new(), Vec::new(), Vec::new()];
    for (axis, (array, name)) in Axis::ALL.into_iter().zip([(tx, "tx"), (ty, "ty"), (tz, "tz")]) {
        let shape = faces_of(axis);
        // SAFETY: promised by the caller.
        let values = unsafe { array.map(|array| array.values(name, shape)).transpose()? };
        faces[axis as usize] = values.map_or_else(|| zeros(name, shape.cells()), Ok)?;
    }
    // SAFETY: promised by the caller.
    let shift = shift.map(|array| unsafe { array.values("shift", shape) }).transpose()?;
    // SAFETY: promised by the caller.
    let active = active.map(|array| unsafe { array.mask("active", shape) }).transpose()?;
    let problem = face_problem(shape, faces, is_periodic, shift, active.as_deref())
        .map_err(|error| Failure::from(error).with_names(&MEMBERS))?;
    Ok(Problem::new(LinearSystem::from_faces(problem)))
}

/// Makes a problem of conductances, shift and mask in the memory of one GPU; nothing if they are not, or need a look on the host.
///
/// # Safety
/// All elements of the arrays are readable.
unsafe fn on_device(
    shape: Shape,
    given: [Option<&Array>; 5],
    is_periodic: [bool; 3],
    faces_of: &dyn Fn(Axis) -> Shape,
) -> Result<Option<Problem>> {
    let Some(device) = given.into_iter().flatten().map(|array| array.device).next() else { return Ok(None) };
    if device < 0 || given.into_iter().flatten().any(|array| array.device != device || array.dtype == ISOBAR_U8) {
        return Ok(None);
    }
    let place = |n: usize, name: &str| {
        let shape = Axis::ALL.get(n).map_or(shape, |axis| faces_of(*axis));
        let Some(array) = given[n].filter(|_| shape.cells() > 0) else { return Ok(None) };
        // SAFETY: promised by the caller.
        match unsafe { array.shaped(name, shape)?.source()? } {
            Source::Device(array) => Ok(Some(array)),
            _ => Err(Failure::invalid(format!("{name} is not in the memory of a GPU"))),
        }
    };
    let faces = [place(0, "tx")?, place(1, "ty")?, place(2, "tz")?];
    let (shift, active) = (place(3, "shift")?, place(4, "active")?);
    let Some(device) = faces.iter().flatten().map(DeviceArray::device).next() else { return Ok(None) };
    let faces = DeviceFaces::new(&Cuda::shared(device)?, shape, &faces, is_periodic, shift.as_ref(), active.as_ref())?;
    let system = faces.map(LinearSystem::from_device_faces).transpose();
    let system = system.map_err(|error| Failure::from(error).with_names(&MEMBERS))?.flatten();
    Ok(system.map(Problem::new))
}
