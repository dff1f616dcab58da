//! Problems.

use std::ffi::c_char;
use std::slice;
use std::sync::OnceLock;

use isobar::grid::{HorizontalField, VerticalProfile};
use isobar::internals::array::Source;
use isobar::internals::cuda::Cuda;
use isobar::problem::{Boundary, Coefficient, DiffusionProblem, Field, SideFields, Spacing};
use isobar::stencil::{Axis, TensorProduct};
use isobar::{DeviceArray, DeviceProblem, RawArray, RawMemory, Shape};
use isobar_case::{LinearSystem, Matrix};

use crate::array::Array;
use crate::handle::{free_handle, hand_out, hand_out_handle, required, sized};
use crate::status::{Failure, ISOBAR_OK, Result, coded};
use crate::text;
use crate::together::{on_all, own_shape, presence, require_same_call, whole_values};

/// A linear system A u = b as data. It may be freed once a solver has been made from it.
pub struct Problem {
    pub(crate) system: LinearSystem,
    /// Whether κ in y is separate and κ in z is that in x. The coefficients of `system` do not show it, because they are then three arrays.
    pub(crate) z_follows_x: bool,
    /// The ranks among which the grid is divided.
    ranks: OnceLock<isobar::Ranks>,
}

impl Problem {
    pub(crate) fn new(system: LinearSystem) -> Self {
        Self { system, z_follows_x: false, ranks: OnceLock::new() }
    }

    /// Returns the boundary conditions of diffusion in cells as bytes.
    fn sides(&self) -> Vec<u8> {
        let Ok(DiffusionProblem { boundary, side_fields, .. }) = self.system.diffusion() else { return Vec::new() };
        let mut bytes = format!("{boundary:?}").into_bytes();
        for field in side_fields.iter().flatten().flat_map(|side| [&side.value, &side.coefficient]) {
            bytes.push(field.is_some().into());
            bytes.extend(field.iter().flatten().flat_map(|number| number.to_le_bytes()));
        }
        bytes
    }

    /// Notes which directions have a separate κ.
    fn of_directions(self, kappa_y: Option<&Array>, kappa_z: Option<&Array>) -> Self {
        Self { z_follows_x: kappa_y.is_some() && kappa_z.is_none(), ..self }
    }

    /// Returns the ranks among which the grid is divided.
    pub(crate) fn ranks(&self) -> Option<&isobar::Ranks> {
        self.ranks.get()
    }

    /// Fails if one of this problem and what it is to update is divided among ranks, and the other is not.
    pub(crate) fn require_division_of(&self, what: &str, ranks: Option<&isobar::Ranks>) -> Result<()> {
        match (self.ranks(), ranks) {
            (None, Some(_)) => Err(Failure::invalid(format!(
                "the {what} is divided among ranks, and the problem is not; call isobar_problem_divide first"
            ))),
            (Some(_), None) => Err(Failure::invalid(format!(
                "the problem is divided among ranks, and the {what} is not; give a problem of the whole grid"
            ))),
            _ => Ok(()),
        }
    }

    /// Divides it among ranks, which must have the same boundary conditions; to be called on all ranks together.
    pub(crate) fn divide(&self, ranks: isobar::Ranks) -> Result<()> {
        ranks.require_same("the kind, the value or the coefficient of a side", &self.sides())?;
        let again = "the problem is divided already; make a new one";
        self.ranks.set(ranks).map_err(|_| Failure::invalid(again))
    }
}

/// Neumann condition: no flow, or a given flux κ ∂u/∂n into the domain, per area.
pub const ISOBAR_NEUMANN: i32 = 0;
/// Dirichlet condition: a given value of u.
pub const ISOBAR_DIRICHLET: i32 = 1;
/// Periodic condition; the opposite side must be periodic too.
pub const ISOBAR_PERIODIC: i32 = 2;

/// Robin condition: a flux h (u − v) out of the domain, per area. v is the side's value, h is in `coefficients` of isobar_diffusion.
pub const ISOBAR_ROBIN: i32 = 3;

/// The boundary condition on a side of the box. All members 0 means closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side {
    /// ISOBAR_NEUMANN, ISOBAR_DIRICHLET, ISOBAR_PERIODIC or ISOBAR_ROBIN.
    pub kind: i32,
    /// The flux into the domain, the value of u, or v for ISOBAR_ROBIN.
    pub value: f64,
}

/// The equation −∇·(κ∇u) + c u = f on a box of nx × ny × nz cells, by finite volumes. With all members 0 except `size` and `kappa` it is
/// a unit box with closed sides. isobar_problem_diffusion copies the arrays. κ and c may all be in the memory of one GPU, and stay there: then `active` is
/// null, the solver is on that GPU, and the arrays of isobar_problem_rhs are there. Derivatives, fluxes and time steps copy them to the host once, where those are
/// computed.
#[repr(C)]
pub struct DiffusionArrays {
    /// sizeof(isobar_diffusion), which identifies the version of this struct.
    pub size: usize,
    /// κ in every cell, 0 in inactive cells; in x only if the next two are given.
    pub kappa: *const Array,
    /// κ in y, or null if equal to that in x.
    pub kappa_y: *const Array,
    /// κ in z, or null if equal to that in x.
    pub kappa_z: *const Array,
    /// c in every cell, or null if 0.
    pub reaction: *const Array,
    /// Not 0 in active cells; null means that all are active. May also be ISOBAR_U8.
    pub active: *const Array,
    /// Widths of cells in x, y and z; 0 means 1/nx, 1/ny, 1/nz.
    pub spacing: [f64; 3],
    /// Width of every cell in x, y and z, if they differ: nx, ny and nz numbers; or null.
    pub widths: [*const f64; 3],
    /// Boundary conditions: west and east, south and north, bottom and top.
    pub sides: [[Side; 2]; 3],
    /// h of ISOBAR_ROBIN sides, not negative.
    pub coefficients: [[f64; 2]; 3],
    /// Value of every face of a side, if they differ, x fastest: ny × nz numbers for west and east, nx × nz for south and north, nx × ny for
    /// bottom and top; or null. Every rank passes the values of the whole side.
    pub side_values: [[*const f64; 2]; 3],
    /// h of every face of a side, in the same way; or null.
    pub side_coefficients: [[*const f64; 2]; 3],
}

/// A matrix with entries that are products of vertical vectors and horizontal fields:
///
/// (A u)_{T,k} = |T| [(a_k − b_k − c_k) u_k + b_k u_{k+1} + c_k u_{k−1}] + d_k Σ α_{TT'} (u_{T',k} − u_{T,k})
#[repr(C)]
pub struct TensorProductArrays {
    /// sizeof(isobar_tensor_product), which identifies the version of this struct.
    pub size: usize,
    /// Columns in x.
    pub nx: usize,
    /// Columns in y.
    pub ny: usize,
    /// Layers.
    pub nz: usize,
    /// a, nz numbers: mass.
    pub a: *const f64,
    /// b, nz numbers: coupling to the layer above, not positive; the last is 0.
    pub b: *const f64,
    /// c, nz numbers: coupling to the layer below, not positive; the first is 0.
    pub c: *const f64,
    /// d, nz numbers: factors of the horizontal couplings, not positive.
    pub d: *const f64,
    /// |T|, ny × nx numbers, x fastest: areas of cells.
    pub area: *const f64,
    /// α of the faces between cells in x, ny × (nx + 1) numbers. On the outermost faces, 0 means Neumann and other values mean Dirichlet.
    pub x_faces: *const f64,
    /// α of the faces between cells in y, (ny + 1) × nx numbers.
    pub y_faces: *const f64,
}

/// Makes a problem from the text of a case file (TOML) of any kind except "heat". Relative paths in it are relative to `folder`; null
/// means the working directory.
///
/// # Safety
/// Texts are null-terminated; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_from_case(
    text: *const c_char,
    folder: *const c_char,
    out: *mut *mut Problem,
) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        place?;
        Ok(Problem::new(LinearSystem::from_case(text::case(text, folder)?)?))
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// Makes a diffusion problem from arrays.
///
/// # Safety
/// `description` and everything it points to are readable; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_diffusion(description: *const DiffusionArrays, out: *mut *mut Problem) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        place?;
        diffusion(sized("isobar_diffusion", description)?, None)
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// The members of isobar_diffusion for keys of a case file.
const MEMBERS: [(&str, &str); 7] = [
    ("diffusion.coefficient_y", "kappa_y"),
    ("diffusion.coefficient_z", "kappa_z"),
    ("diffusion.coefficient", "kappa"),
    ("diffusion.reaction", "reaction"),
    ("diffusion.active", "active"),
    ("diffusion.boundary", "sides"),
    ("grid.spacing", "spacing or widths"),
];

/// Makes a diffusion problem from arrays of the whole grid, or of this rank's rows of a grid with a given number of rows.
///
/// # Safety
/// Everything that the description points to is readable.
pub(crate) unsafe fn diffusion(given: &DiffusionArrays, rows: Option<(&isobar::Ranks, usize)>) -> Result<Problem> {
    // SAFETY: promised by the caller.
    let [kappa, kappa_y, kappa_z, reaction, active] = unsafe {
        [given.kappa, given.kappa_y, given.kappa_z, given.reaction, given.active].map(|array| array.as_ref())
    };
    let kappa = kappa.ok_or_else(|| Failure::invalid("kappa is a null pointer; pass the coefficient of every cell"))?;
    let own = kappa.raw("kappa")?.shape();
    let (ranks, shape) = match rows {
        Some((ranks, ny)) => (Some(ranks), Shape { ny, ..own }),
        None => (None, own),
    };
    // The product of the extents may be too large for a number as long as the caller's rows are not checked.
    if own.cells() == 0 || shape.ny == 0 {
        return Err(isobar::Error::shape("kappa", shape, "one cell or more").into());
    }
    let named = [("kappa", Some(kappa)), ("kappa_y", kappa_y), ("kappa_z", kappa_z), ("reaction", reaction)];
    let named = named.into_iter().filter_map(|(name, array)| Some((name, array?)));
    let is_on_gpu = |(name, array): (&str, &Array)| Ok(array.raw(name)?.memory() != RawMemory::Host);
    let on_gpu: Vec<bool> = named.clone().map(is_on_gpu).collect::<Result<_>>()?;
    if on_gpu.contains(&true) {
        if on_gpu.contains(&false) || active.is_some() || ranks.is_some() {
            let message = "some coefficients are in the memory of a GPU; then all must be, there is no mask (κ is 0 in inactive cells instead), and \
                           the grid is not divided among ranks";
            return Err(isobar::Error::Unsupported(message.into()).into());
        }
        // SAFETY: promised by the caller.
        return unsafe { on_device(given, shape, [kappa_y, kappa_z], kappa, reaction) };
    }
    // Where the caller's rows are wrong, that is said first.
    kappa.shaped("kappa", own_shape(ranks, shape)?)?;
    require_same_call(ranks, || {
        let optional = [("kappa_y", kappa_y), ("kappa_z", kappa_z), ("reaction", reaction), ("active", active)];
        let optional = optional.map(|(name, array)| presence(name, array)).join(", ");
        format!("problem_diffusion_rows of a grid of {shape}, {optional}")
    })?;
    let read = |name: &str, array: Option<&Array>| {
        // SAFETY: promised by the caller.
        array.map(|array| unsafe { whole_values(array, name, ranks, shape) }).transpose()
    };
    let field = |name: &str, array: &Array| -> Result<Field> {
        if ranks.is_some() {
            // SAFETY: promised by the caller.
            return Ok(Field::from(&*unsafe { whole_values(array, name, ranks, shape)? }));
        }
        // SAFETY: promised by the caller.
        Ok(Field::read(unsafe { array.shaped(name, shape)?.source()? })?)
    };
    let along_x = field("kappa", kappa)?;
    let along_y = kappa_y.map_or_else(|| Ok(along_x.clone()), |array| field("kappa_y", array))?;
    let along_z = kappa_z.map_or_else(|| Ok(along_x.clone()), |array| field("kappa_z", array))?;
    let mut problem = DiffusionProblem::new(shape, Coefficient::Shared([along_x, along_y, along_z]));
    problem.reaction = read("reaction", reaction)?;
    let mask = |array: &Array| -> Result<Vec<bool>> {
        // SAFETY: promised by the caller.
        let own = unsafe { array.mask("active", own_shape(ranks, shape)?)? };
        let Some(ranks) = ranks else { return Ok(own) };
        let numbers: Vec<f64> = own.into_iter().map(|is_active| f64::from(u8::from(is_active))).collect();
        Ok(ranks.collect(&numbers, shape)?.into_iter().map(|number| number != 0.0).collect())
    };
    problem.active = active.map(mask).transpose()?;
    // SAFETY: promised by the caller.
    unsafe { read_form(given, &mut problem)? };
    let system = LinearSystem::from_diffusion(problem).map_err(|error| Failure::from(error).with_names(&MEMBERS))?;
    Ok(Problem::new(system).of_directions(kappa_y, kappa_z))
}

/// Sets the widths and sides of a problem.
///
/// # Safety
/// Everything that the description points to is readable.
unsafe fn read_form(given: &DiffusionArrays, problem: &mut DiffusionProblem) -> Result<()> {
    let shape = problem.shape;
    for (d, cells) in shape.extents().into_iter().enumerate() {
        if !given.widths[d].is_null() {
            // SAFETY: as many numbers as there are cells, which the caller promises to be readable.
            problem.spacing[d] = Spacing::Given(unsafe { slice::from_raw_parts(given.widths[d], cells) }.to_vec());
        } else if given.spacing[d] != 0.0 {
            problem.spacing[d] = Spacing::Uniform(given.spacing[d]);
        }
        let faces = shape.cells() / cells;
        for (side, Side { kind, value }) in given.sides[d].into_iter().enumerate() {
            problem.boundary[d][side] = match kind {
                ISOBAR_NEUMANN => Boundary::Neumann(value),
                ISOBAR_DIRICHLET => Boundary::Dirichlet(value),
                ISOBAR_PERIODIC => Boundary::Periodic,
                ISOBAR_ROBIN => Boundary::Robin { coefficient: given.coefficients[d][side], value },
                other => {
                    let message = format!(
                        "a side of {} has the unknown kind {other}; use ISOBAR_NEUMANN, ISOBAR_DIRICHLET, ISOBAR_PERIODIC or ISOBAR_ROBIN",
                        ["x", "y", "z"][d]
                    );
                    return Err(Failure::invalid(message));
                }
            };
            // SAFETY: null, or a number for each face, which the caller promises to be readable.
            let field =
                |data: *const f64| unsafe { data.as_ref().map(|first| slice::from_raw_parts(first, faces).to_vec()) };
            problem.side_fields[d][side] = SideFields {
                value: field(given.side_values[d][side]),
                coefficient: field(given.side_coefficients[d][side]),
            };
        }
    }
    Ok(())
}

/// Makes a diffusion problem from coefficients in the memory of a GPU.
///
/// # Safety
/// Everything that the description points to is readable.
unsafe fn on_device(
    given: &DiffusionArrays,
    shape: Shape,
    [kappa_y, kappa_z]: [Option<&Array>; 2],
    kappa: &Array,
    reaction: Option<&Array>,
) -> Result<Problem> {
    let place = |name: &str, array: &Array| -> Result<DeviceArray> {
        // SAFETY: promised by the caller.
        match unsafe { array.shaped(name, shape)?.source()? } {
            Source::Device(array) => Ok(array),
            _ => Err(Failure::invalid(format!("{name} is not in the memory of a GPU"))),
        }
    };
    let along_x = place("kappa", kappa)?;
    let along_z = kappa_z.map_or(Ok(along_x), |array| place("kappa_z", array))?;
    let fields = match (kappa_y, kappa_z) {
        (None, None) => vec![along_x],
        (None, Some(_)) => vec![along_x, along_z],
        (Some(along_y), _) => vec![along_x, place("kappa_y", along_y)?, along_z],
    };
    let reaction = reaction.map(|array| place("reaction", array)).transpose()?;
    let mut form = DiffusionProblem::new(shape, Coefficient::Isotropic(Vec::new()));
    // SAFETY: promised by the caller.
    unsafe { read_form(given, &mut form)? };
    let cuda = Cuda::shared(along_x.device())?;
    let problem = DeviceProblem::new(&cuda, form, &fields, reaction.as_ref())
        .map_err(|error| Failure::from(error).with_names(&MEMBERS))?;
    let system = LinearSystem::from_device(problem).map_err(|error| Failure::from(error).with_names(&MEMBERS))?;
    Ok(Problem::new(system).of_directions(kappa_y, kappa_z))
}

/// Makes a problem from the profiles of a tensor-product matrix.
///
/// # Safety
/// `description` and everything it points to are readable; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_tensor_product(
    description: *const TensorProductArrays,
    out: *mut *mut Problem,
) -> i32 {
    // SAFETY: promised by the caller.
    let make = |place: Result<()>| unsafe {
        place?;
        let given = sized("isobar_tensor_product", description)?;
        let (nx, ny, nz) = (given.nx, given.ny, given.nz);
        if [nx, ny, nz].contains(&0) {
            return Err(Failure::invalid(format!("nx, ny and nz are {nx}, {ny} and {nz}; use 1 or more of each")));
        }
        let numbers = |name: &str, data: *const f64, [m, n]: [usize; 2]| {
            let length = m.checked_mul(n).filter(|&length| length <= isize::MAX as usize / 8);
            let too_many = || Failure::invalid(format!("{name} would have {m} × {n} numbers, which is too many"));
            let length = length.ok_or_else(too_many)?;
            // Not null, and as many numbers as the caller promises.
            required(name, data).map(|first| slice::from_raw_parts(first, length))
        };
        let profile = |name: &str, data| numbers(name, data, [nz, 1]).map(<[f64]>::to_vec);
        let vertical = VerticalProfile::new(
            profile("a", given.a)?,
            profile("b", given.b)?,
            profile("c", given.c)?,
            profile("d", given.d)?,
        )?;
        let horizontal = HorizontalField::from_faces(
            nx,
            ny,
            numbers("area", given.area, [nx, ny])?.to_vec(),
            numbers("x_faces", given.x_faces, [nx.saturating_add(1), ny])?,
            numbers("y_faces", given.y_faces, [nx, ny.saturating_add(1)])?,
        )?;
        let matrix = Matrix::TensorProduct(TensorProduct::new(vertical, horizontal)?);
        Ok(Problem::new(LinearSystem::from_matrix(matrix)))
    };
    // SAFETY: promised by the caller.
    unsafe { hand_out_handle(out, make) }
}

/// Writes the shape of a problem's arrays, {nz, ny, nx}; if it is divided among ranks, that of this rank's rows.
///
/// # Safety
/// `problem` is a valid handle; `shape` has space for three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_shape(problem: *const Problem, shape: *mut usize) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let problem = required("problem", problem)?;
        let Shape { nx, ny, nz } = own_shape(problem.ranks(), problem.system.shape())?;
        hand_out("shape", shape.cast(), [nz, ny, nx])?;
        Ok(ISOBAR_OK)
    })
}

/// Computes the right-hand side b for the source density f: f times the volume of every cell, plus boundary values, sources and
/// wells. With `f` null it is the right-hand side of the case, or that of f = 0.
///
/// # Safety
/// `problem` is a valid handle; the arrays are as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_rhs(problem: *const Problem, f: *const Array, b: *const Array) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let problem = required("problem", problem)?;
        let (shape, ranks) = (problem.system.shape(), problem.ranks());
        let own = own_shape(ranks, shape)?;
        on_all(ranks, || {
            let (f, to) = (f.as_ref(), required("b", b)?.raw("b")?);
            isobar::Error::unless_equal("b", to.shape(), own)?;
            require_same_call(ranks, || format!("problem_rhs {}", presence("f", f)))?;
            let Some(ranks) = ranks else {
                match f {
                    Some(f) => {
                        let f = f.shaped("f", shape)?;
                        RawArray::with(&f, &to, |f, to| problem.system.write_rhs(Some(f), to))?;
                    }
                    None => problem.system.write_rhs(None, to.target()?)?,
                }
                return Ok(ISOBAR_OK);
            };
            let body = f.map(|f| whole_values(f, "f", Some(ranks), shape)).transpose()?;
            let (values, rows) = (problem.system.rhs(body)?, ranks.rows(shape)?);
            let planes = values.chunks_exact(shape.nx * shape.ny);
            let values: Vec<f64> =
                planes.flat_map(|plane| &plane[rows.start * shape.nx..rows.end * shape.nx]).copied().collect();
            to.write(&values)?;
            Ok(ISOBAR_OK)
        })
    })
}

/// Computes the flow out of the domain through a side for a solution u of diffusion in cells, and writes it to *total: through the lower side
/// (`is_upper` 0) or the upper side (1) of x, y or z (`axis` 0, 1, 2). Inflow is negative. u may be in the memory of a GPU, and is then copied to the host.
///
/// # Safety
/// `problem` is a valid handle; the array is as described; `total` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_flux(
    problem: *const Problem,
    u: *const Array,
    axis: i32,
    is_upper: i32,
    total: *mut f64,
) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let problem = required("problem", problem)?;
        let ranks = problem.ranks();
        on_all(ranks, || {
            let known = usize::try_from(axis).ok().and_then(|axis| Axis::ALL.get(axis).copied());
            let Some(axis) = known else {
                return Err(Failure::invalid(format!("axis is {axis}; use 0 for x, 1 for y or 2 for z")));
            };
            if !matches!(is_upper, 0 | 1) {
                return Err(Failure::invalid(format!(
                    "is_upper is {is_upper}; use 0 for the lower side or 1 for the upper one"
                )));
            }
            let u = required("u", u)?;
            required("total", total)?;
            require_same_call(ranks, || format!("problem_flux of axis {} and is_upper {is_upper}", axis as usize))?;
            let u = whole_values(u, "u", ranks, problem.system.shape())?;
            let flux = problem.system.flux(&u, axis, is_upper == 1)?;
            hand_out("total", total, flux)?;
            Ok(ISOBAR_OK)
        })
    })
}

/// Frees a problem; null is allowed.
///
/// # Safety
/// `problem` is null, or a valid handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_problem_free(problem: *mut Problem) {
    // SAFETY: promised by the caller.
    unsafe { free_handle(problem) }
}
