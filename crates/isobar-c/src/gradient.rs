//! Derivatives of a solve.

use std::slice;

use isobar::internals::array::Source;
use isobar::internals::cuda::problem::DeviceField;
use isobar::stencil::Axis;
use isobar::{Derivatives, DeviceProblem, Outcome, RawArray, Shape};
use isobar_case::Matrix;

use crate::array::Array;
use crate::handle::{required, sized};
use crate::outcome::judged;
use crate::problem::Problem;
use crate::solver::Solver;
use crate::status::{Failure, ISOBAR_OK, ISOBAR_UNSUPPORTED, Result, coded};

/// Outputs for the derivatives of a number J(u). A null pointer means that a derivative is not wanted; with all members 0 except `size`,
/// none is computed. Arrays have the grid's shape, and are in host memory or in that of a GPU. Derivatives with respect to κ, c, f, sides and widths need a
/// problem from isobar_problem_diffusion.
#[repr(C)]
pub struct Gradient {
    /// sizeof(isobar_gradient), which identifies the version of this struct.
    pub size: usize,
    /// 0: b is from isobar_problem_rhs and changes with κ, sides and widths. Not 0: b is fixed.
    pub fixed_b: i32,
    /// ∂J/∂b = A⁻¹ ∂J/∂u
    pub b: *const Array,
    /// ∂J/∂κ; includes κ of y and z unless the problem has separate ones. 0 where κ = 0, because closed cells stay closed.
    pub kappa: *const Array,
    /// ∂J/∂κ_y, for problems with a separate κ in y.
    pub kappa_y: *const Array,
    /// ∂J/∂κ_z, for problems with a separate κ in z.
    pub kappa_z: *const Array,
    /// ∂J/∂c
    pub reaction: *const Array,
    /// ∂J/∂f
    pub f: *const Array,
    /// Derivatives with respect to the values or fluxes of each side's faces, in the order of isobar_diffusion.side_values.
    pub side_values: [[*mut f64; 2]; 3],
    /// Derivatives with respect to h of each ISOBAR_ROBIN side's faces; 0 on other sides.
    pub side_coefficients: [[*mut f64; 2]; 3],
    /// Derivatives with respect to the widths of cells in x, y and z: nx, ny and nz numbers.
    pub widths: [*mut f64; 3],
    /// Derivatives with respect to the conductances of isobar_faces, in x, y and z, of the shapes of tx, ty and tz; for a problem from
    /// isobar_problem_faces.
    pub faces: [*const Array; 3],
    /// ∂J/∂s, for a problem from isobar_problem_faces.
    pub shift: *const Array,
    /// An input: the source density f, needed for derivatives with respect to widths if b has a source.
    pub density: *const Array,
}

/// Computes the derivatives of a number J(u) with respect to the problem's inputs from the solution u and `ubar` = ∂J/∂u. It takes one more solve
/// with the same solver, since A is symmetric. `problem` is the one that the solver was made from or last updated with; `u` is the result of its last
/// solve.
///
/// Returns ISOBAR_NOT_CONVERGED, and writes nothing, if the last solve or the one for the derivatives did not converge. Errors of the derivatives are
/// proportional to the solver's tolerance. Arrays are in host memory or in that of a GPU. If they and κ are on one GPU, derivatives with respect to b, κ, c and f
/// are computed there, otherwise on the host. Grids divided among ranks are not supported.
///
/// # Safety
/// Handles are valid; arrays are as described; the outputs in `wanted` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isobar_solver_gradient(
    solver: *mut Solver,
    problem: *const Problem,
    u: *const Array,
    ubar: *const Array,
    wanted: *const Gradient,
) -> i32 {
    // SAFETY: promised by the caller.
    coded(|| unsafe {
        let (solver, problem) = (required("solver", solver)?, required("problem", problem)?);
        if problem.ranks().is_some() || solver.0.lock()?.ranks.is_some() {
            let message = "derivatives are not supported on a grid divided among ranks; solve on one process";
            return Err(Failure::new(ISOBAR_UNSUPPORTED, message));
        }
        let system = &problem.system;
        if !system.is_symmetric() {
            let message = "the matrix is not symmetric: c of a layer differs from b of the layer below it";
            return Err(Failure::new(ISOBAR_UNSUPPORTED, message));
        }
        let shape = system.shape();
        let is_periodic = match &problem.system.matrix {
            Matrix::Diffusion(matrix) => Axis::ALL.map(|axis| matrix.is_periodic(axis)),
            Matrix::TensorProduct(_) => [false; 3],
        };
        let outputs = Outputs::new(sized("isobar_gradient", wanted)?, shape, is_periodic)?;
        let [u, ubar] = [required("u", u)?, required("ubar", ubar)?];
        if let Some(gpu) = system.on_gpu()
            && outputs.computed_on_gpu(solver, problem, gpu, [u, ubar])?
        {
            return Ok(ISOBAR_OK);
        }
        let (u, ubar) = (u.values("u", shape)?, ubar.values("ubar", shape)?);
        if let Some(n) = ubar.iter().position(|value| !value.is_finite()) {
            let [i, j, k] = shape.place(n);
            return Err(isobar::Error::NotFinite { what: "ubar".into(), value: ubar[n], i, j, k }.into());
        }
        let mut adjoint = vec![0.0; ubar.len()];
        solver.solve_adjoint(|solver| solver.solve(&ubar, &mut adjoint))?;
        let found = outputs.computed(problem, &u, &adjoint)?;
        for (array, values) in &found.arrays {
            array.raw("the gradient")?.write(values)?;
        }
        for (place, values) in &found.numbers {
            // Not null, and room for as many as there are faces or cells, as the caller promises.
            slice::from_raw_parts_mut(*place, values.len()).copy_from_slice(values);
        }
        Ok(ISOBAR_OK)
    })
}

/// The requested outputs, checked.
struct Outputs<'a> {
    wanted: &'a Gradient,
    b: Option<&'a Array>,
    kappa: Option<&'a Array>,
    kappa_y: Option<&'a Array>,
    kappa_z: Option<&'a Array>,
    reaction: Option<&'a Array>,
    f: Option<&'a Array>,
    /// The derivatives with respect to the conductances in x, y and z.
    faces: [Option<&'a Array>; 3],
    shift: Option<&'a Array>,
    density: Option<Vec<f64>>,
}

/// The derivatives and their outputs.
#[derive(Default)]
struct Found<'a> {
    arrays: Vec<(&'a Array, Vec<f64>)>,
    numbers: Vec<(*mut f64, Vec<f64>)>,
}

impl<'a> Outputs<'a> {
    /// # Safety
    /// Everything that `wanted` points to is as described.
    unsafe fn new(wanted: &'a Gradient, shape: Shape, is_periodic: [bool; 3]) -> Result<Self> {
        // SAFETY: promised by the caller.
        let of_cells = |name, array| unsafe { output(name, array, shape) };
        let of_faces = |name, axis: Axis| {
            let faces = shape.faces_between(axis, is_periodic[axis as usize]);
            // SAFETY: promised by the caller.
            unsafe { output(name, wanted.faces[axis as usize], faces) }
        };
        Ok(Self {
            wanted,
            b: of_cells("b", wanted.b)?,
            kappa: of_cells("kappa", wanted.kappa)?,
            kappa_y: of_cells("kappa_y", wanted.kappa_y)?,
            kappa_z: of_cells("kappa_z", wanted.kappa_z)?,
            reaction: of_cells("reaction", wanted.reaction)?,
            f: of_cells("f", wanted.f)?,
            faces: [of_faces("faces[0]", Axis::X)?, of_faces("faces[1]", Axis::Y)?, of_faces("faces[2]", Axis::Z)?],
            shift: of_cells("shift", wanted.shift)?,
            // SAFETY: promised by the caller.
            density: unsafe { wanted.density.as_ref().map(|f| f.values("density", shape)).transpose()? },
        })
    }

    fn computed(&self, problem: &Problem, u: &[f64], adjoint: &[f64]) -> Result<Found<'a>> {
        let (system, moves_rhs, mut found) = (&problem.system, self.wanted.fixed_b == 0, Found::default());
        let Self { b, kappa, kappa_y, kappa_z, reaction, f, faces, shift, .. } = *self;
        found.arrays.extend(b.map(|b| (b, adjoint.to_vec())));
        if kappa.or(kappa_y).or(kappa_z).is_some() {
            let mut fields = system.diffusion()?.gradient(u, adjoint, moves_rhs)?;
            let places = of_fields(fields.len(), problem, [kappa, kappa_y, kappa_z])?;
            if problem.z_follows_x
                && let [by_x, _, by_z] = &mut fields[..]
            {
                by_x.iter_mut().zip(by_z).for_each(|(by_x, by_z)| *by_x += *by_z);
            }
            found.arrays.extend(places.into_iter().zip(fields).filter_map(|(array, field)| Some((array?, field))));
        }
        if reaction.or(f).is_some() {
            let [by_f, by_reaction] = system.diffusion()?.density_gradient(u, adjoint);
            found.arrays.extend(reaction.map(|array| (array, by_reaction)));
            found.arrays.extend(f.map(|array| (array, by_f)));
        }
        if faces.into_iter().chain([shift]).any(|array| array.is_some()) {
            let by = system.face_gradient(u, adjoint)?;
            let wanted = faces.into_iter().chain([shift]).zip(by.faces.into_iter().chain([by.shift]));
            found.arrays.extend(wanted.filter_map(|(array, values)| Some((array?, values))));
        }
        for (d, axis) in Axis::ALL.into_iter().enumerate() {
            for side in 0..2 {
                let places = [self.wanted.side_values[d][side], self.wanted.side_coefficients[d][side]];
                if places.iter().any(|place| !place.is_null()) {
                    let by = system.diffusion()?.side_gradient(u, adjoint, axis, side == 1, moves_rhs)?;
                    let wanted = places.into_iter().zip([by.value, by.coefficient]);
                    found.numbers.extend(wanted.filter(|(place, _)| !place.is_null()));
                }
            }
            if !self.wanted.widths[d].is_null() {
                let density = self.density.as_deref();
                let by = system.diffusion()?.width_gradient(u, adjoint, axis, density, moves_rhs)?;
                found.numbers.push((self.wanted.widths[d], by));
            }
        }
        Ok(found)
    }
}

impl Outputs<'_> {
    /// Computes everything on the GPU that the coefficients and all arrays are on. Returns whether they are.
    ///
    /// # Safety
    /// The arrays are as described.
    unsafe fn computed_on_gpu(
        &self,
        solver: &Solver,
        problem: &Problem,
        gpu: &DeviceProblem,
        given: [&Array; 2],
    ) -> Result<bool> {
        let Self { wanted, b, kappa, kappa_y, kappa_z, reaction, f, faces, shift, .. } = *self;
        let mut numbers = wanted.side_values.iter().chain(&wanted.side_coefficients).flatten().chain(&wanted.widths);
        if numbers.any(|place| !place.is_null()) || faces.into_iter().chain([shift]).any(|array| array.is_some()) {
            return Ok(false);
        }
        // Two of the three derivatives that a GPU computes are then to be added, which the host does.
        if problem.z_follows_x && kappa.is_some() {
            return Ok(false);
        }
        let [u, ubar] = given.map(Some);
        let mut there = [None; 8];
        for (there, array) in there.iter_mut().zip([u, ubar, b, kappa, kappa_y, kappa_z, reaction, f]) {
            let Some(array) = array else { continue };
            // SAFETY: promised by the caller.
            match unsafe { array.raw("the gradient")?.source()? } {
                Source::Device(array) if array.device() == gpu.ordinal() => *there = Some(array),
                _ => return Ok(false),
            }
        }
        let [Some(u), Some(ubar), b, kappa, kappa_y, kappa_z, reaction, body] = there else { return Ok(false) };
        let (mut by_kappa, mut unwanted) = (Vec::new(), Vec::new());
        if kappa.or(kappa_y).or(kappa_z).is_some() {
            for place in of_fields(gpu.kappa_count(), problem, [kappa, kappa_y, kappa_z])? {
                if place.is_none() {
                    unwanted.push(gpu.new_field()?);
                }
                by_kappa.extend(place.or_else(|| unwanted.last().map(DeviceField::array)));
            }
        }
        let adjoint = gpu.new_field()?;
        solver.solve_adjoint(|solver| {
            let (from, to) = (ubar.into(), adjoint.array().into());
            // SAFETY: promised by the caller; the field outlives the call.
            unsafe { RawArray::with(&from, &to, |from, to| solver.solve(from, to)) }
        })?;
        let derivatives = Derivatives { kappa: &by_kappa, reaction, body };
        gpu.gradient([&u, &adjoint.array()], wanted.fixed_b == 0, derivatives)?;
        b.map_or(Ok(()), |b| gpu.copy(&adjoint.array(), &b))?;
        Ok(true)
    }
}

/// Returns the outputs for each of `count` arrays of κ.
fn of_fields<T: Copy>(
    count: usize,
    problem: &Problem,
    [kappa, kappa_y, kappa_z]: [Option<T>; 3],
) -> Result<Vec<Option<T>>> {
    let separate = [("kappa_y", kappa_y, count > 2), ("kappa_z", kappa_z, count > 1 && !problem.z_follows_x)];
    for (name, array, is_separate) in separate {
        if array.is_some() && !is_separate {
            return Err(Failure::invalid(format!("{name}: the problem has no separate {name}; use kappa")));
        }
    }
    Ok(match count {
        1 => vec![kappa],
        2 => vec![kappa, kappa_z],
        _ => vec![kappa, kappa_y, kappa_z],
    })
}

/// Checks an output for derivatives, if there is one.
///
/// # Safety
/// The array, if not null, is readable and as described.
unsafe fn output<'a>(name: &str, array: *const Array, shape: Shape) -> Result<Option<&'a Array>> {
    // SAFETY: promised by the caller.
    let Some(array) = (unsafe { array.as_ref() }) else { return Ok(None) };
    // SAFETY: promised by the caller.
    unsafe { array.shaped(name, shape)?.target()? };
    Ok(Some(array))
}

impl Solver {
    /// Calls a function that solves with a derivative on the right; fails unless both the last solve and this one converge.
    fn solve_adjoint(&self, solve: impl FnOnce(&mut isobar::Solver) -> isobar::Result<Outcome>) -> Result<()> {
        let mut run = self.0.lock()?;
        match &run.last {
            None => {
                let message = "there is no solve to differentiate since the solver was made or updated; call isobar_solver_solve first";
                return Err(Failure::invalid(message));
            }
            Some((outcome, _)) => judged(outcome).map_err(|failure| of("the solve", failure))?,
        };
        let outcome = run.work.projecting(solve)?;
        judged(&outcome).map_err(|failure| of("the adjoint solve", failure))?;
        Ok(())
    }
}

fn of(what: &str, failure: Failure) -> Failure {
    Failure { message: format!("no gradient: {what} was {}", failure.message), ..failure }
}
