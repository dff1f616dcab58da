//! The solver.

use std::fmt;

use isobar_core::build::{Arrays, Balance, Description, of_system, solve_many};
use isobar_core::options::Compatibility;
use isobar_core::precond::OwnPreconditioner;
use isobar_core::prelude::{
    Error, Guess, Method, Observer, Outcome, Precision, Preconditioner, Result, Shape, SolverOptions, Source, Target,
    ignore,
};

use crate::arrays::{Input, Output};
use crate::device::Device;
use crate::matrix::{Inner, Matrix, each};
use crate::process::OfProcess;

/// A solver of A u = b: a matrix, a method and a device, with all the memory that solving takes.
///
/// It is made once and used for any number of right-hand sides; if the coefficients of the matrix change from one time step to the next,
/// [`Solver::update`] changes them in place. It can be sent to another thread, and does not outlive a
/// `fork()`: in the new process every call fails with [`Error::Device`](crate::Error::Device).
pub struct Solver {
    inner: OfProcess<Inner>,
    shape: Shape,
    /// Notes about options that it does not use.
    unused: Vec<String>,
}

/// Builds a [`Solver`]. Everything has a default.
#[must_use = "a builder makes nothing until `build`"]
pub struct SolverBuilder<'m, M> {
    matrix: &'m M,
    device: Option<Device>,
    options: SolverOptions,
    preconditioner: Option<Box<dyn OwnPreconditioner>>,
}

impl<M: Matrix> SolverBuilder<'_, M> {
    /// Sets where to compute; the default is [`Device::auto`].
    pub fn device(self, device: &Device) -> Self {
        Self { device: Some(device.clone()), ..self }
    }

    /// Sets all options at once.
    pub fn options(self, options: &SolverOptions) -> Self {
        Self { options: options.clone(), ..self }
    }

    /// Stops at ‖b − A u‖ ≤ tolerance · ‖b − A u₀‖; the default is 1e-5.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.options.tolerance = tolerance;
        self
    }

    /// Sets the outer iteration; the default depends on the matrix.
    pub fn method(mut self, method: Method) -> Self {
        self.options.method = method;
        self
    }

    /// Sets the preconditioner of a Krylov method; the default depends on the matrix.
    pub fn preconditioner(mut self, preconditioner: Preconditioner) -> Self {
        self.options.preconditioner = preconditioner;
        self
    }

    /// Sets how numbers are stored during a solve; the default is f64.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Sets a preconditioner of your own, for conjugate gradients or BiCGStab.
    pub fn own_preconditioner(self, preconditioner: impl OwnPreconditioner + 'static) -> Self {
        Self { preconditioner: Some(Box::new(preconditioner)), ..self }
    }

    /// Makes the solver and allocates its memory; solving allocates next to nothing.
    ///
    /// # Errors
    /// Options that are invalid alone, together or for this matrix; a device that fails or is too small.
    pub fn build(self) -> Result<Solver> {
        let device = self.device.map_or_else(|| Device::auto(None), Ok)?;
        device.require_process()?;
        let inner = self.matrix.make(&device, &self.options, self.preconditioner)?;
        let mut solver =
            Solver { inner: OfProcess::new("the solver", inner), shape: self.matrix.grid(), unused: Vec::new() };
        let Description { method, preconditioner, .. } = solver.description();
        solver.unused = self.options.unused_parts(method, preconditioner);
        Ok(solver)
    }
}

impl Solver {
    /// Makes a solver for a matrix, with the method that suits it, on the best device there is.
    ///
    /// # Errors
    /// See [`SolverBuilder::build`].
    pub fn new(matrix: &impl Matrix) -> Result<Self> {
        Self::builder(matrix).build()
    }

    /// Begins to build a solver for a matrix.
    pub fn builder<M: Matrix>(matrix: &M) -> SolverBuilder<'_, M> {
        SolverBuilder { matrix, device: None, options: SolverOptions::default(), preconditioner: None }
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Solves A u = `rhs`, beginning with u = 0. Not converging is an outcome, not an error.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for arrays of another shape, [`Error::NotFinite`](crate::Error::NotFinite) for a NaN or an infinity in one,
    /// [`Error::Invalid`](crate::Error::Invalid) for a right-hand side that a singular A cannot produce, and the errors of the device.
    pub fn solve<'a>(&mut self, rhs: impl Input<'a>, u: impl Output<'a>) -> Result<Outcome> {
        self.solve_observed(rhs, u, Guess::Zero, &mut ignore)
    }

    /// Solves A u = `rhs`, beginning with the values of `u`.
    ///
    /// # Errors
    /// See [`Solver::solve`].
    pub fn solve_from<'a>(&mut self, rhs: impl Input<'a>, u: impl Output<'a>) -> Result<Outcome> {
        self.solve_observed(rhs, u, Guess::Given, &mut ignore)
    }

    /// Solves with an observer, which sees the residual after every iteration and can end the solve:
    /// [`Stop::Interrupted`](crate::Stop::Interrupted).
    ///
    /// # Errors
    /// See [`Solver::solve`].
    pub fn solve_observed<'a>(
        &mut self,
        rhs: impl Input<'a>,
        u: impl Output<'a>,
        guess: Guess,
        observer: &mut Observer<'_>,
    ) -> Result<Outcome> {
        let (rhs, u) = pair(self.shape, rhs, u)?;
        each!(self.inner.get_mut()?, solver => solver.solve(rhs, u, guess, observer))
    }

    /// Solves several systems with this matrix: A u = b for every pair of a right-hand side b and a u. Each is judged by itself; the
    /// outcomes are in the order of the pairs. A GPU solves up to eight systems of a diffusion matrix at the same time, if vectors for them fit into a
    /// quarter of its free memory, and a processor one per thread, if that keeps more threads busy; other systems are solved one after the other. The
    /// results are the same.
    ///
    /// ```
    /// # use isobar::problem::{Boundary, Coefficient, DiffusionProblem};
    /// # use isobar::{Device, Guess, Shape, Solver};
    /// # use std::ops::ControlFlow;
    /// # fn main() -> isobar::Result<()> {
    /// let mut problem = DiffusionProblem::new(Shape::new(4, 1, 1), Coefficient::Isotropic(vec![1.0; 4]));
    /// problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
    /// let mut solver = Solver::builder(&problem.stencil()?).device(&Device::cpu_with_threads(1)?).tolerance(1e-12).build()?;
    /// let (b, mut u) = ([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0_f64; 8]);
    /// let outcomes = solver.solve_many(b.chunks_exact(4).zip(u.chunks_exact_mut(4)), Guess::Zero, &mut |_| {
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(outcomes.len() == 2 && outcomes.iter().all(|outcome| outcome.converged()));
    /// assert!((u[0] - u[7]).abs() < 1e-12 && (u[0] - 0.21875 / 2.0).abs() < 1e-12);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The observer sees the iterations of all systems. If it ends one, the others in progress end too, and later systems are not begun: the outcomes
    /// are those of the systems that were begun, which are the first ones.
    ///
    /// # Errors
    /// The errors of [`Solver::solve`], with the number of the system, counted from 0; [`Error::Invalid`](crate::Error::Invalid) for no
    /// pairs. Unless the error is an array's shape, the u of the systems before that one hold their solutions.
    pub fn solve_many<'a, I: Input<'a>, O: Output<'a>>(
        &mut self,
        systems: impl IntoIterator<Item = (I, O)>,
        guess: Guess,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<Outcome>> {
        let arrays = systems.into_iter().map(|(rhs, u)| pair(self.shape, rhs, u));
        let arrays = arrays.enumerate().map(|(n, arrays)| arrays.map_err(|error| of_system(n, error)));
        self.solve_all(arrays.collect::<Result<_>>()?, guess, observer, &|(rhs, u), solve| solve(*rhs, u.reborrow()))
    }

    /// Solves systems whose arrays a function passes on.
    pub(crate) fn solve_all<X: Send>(
        &mut self,
        systems: Vec<X>,
        guess: Guess,
        observer: &mut Observer<'_>,
        arrays: &Arrays<'_, X>,
    ) -> Result<Vec<Outcome>> {
        each!(self.inner.get_mut()?, solver => solve_many(&mut **solver, systems, guess, observer, arrays))
    }

    /// Computes v = A u.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for arrays of another shape; the errors of the device.
    pub fn apply<'a>(&mut self, u: impl Input<'a>, v: impl Output<'a>) -> Result<()> {
        let u = u.source(self.shape).map_err(|error| error.of_array("u"))?;
        let v = v.target(self.shape).map_err(|error| error.of_array("v"))?;
        each!(self.inner.get_mut()?, solver => solver.apply(u, v))
    }

    /// Computes z = B r with a fixed linear B ≈ A⁻¹, for an iteration of your own: `iterations` steps z += M⁻¹ (r − A z) from zero, where M
    /// is the preconditioner of a Krylov method, or one cycle of multigrid or of vertical modes, or the diagonal of Jacobi's method. Where
    /// a cycle relaxes points, which is not symmetric, it is one by lines, made by the first call. The residual is not checked. B is
    /// symmetric where A and the cycle are: always for diffusion, unless the options ask for different sweeps before and after the coarse
    /// correction.
    ///
    /// # Errors
    /// See [`Solver::apply`]; [`Error::Invalid`](crate::Error::Invalid) for no iterations.
    pub fn precondition<'a>(&mut self, r: impl Input<'a>, z: impl Output<'a>, iterations: usize) -> Result<()> {
        Error::unless(iterations > 0, "iterations", || "0; use 1 or more")?;
        let r = r.source(self.shape).map_err(|error| error.of_array("r"))?;
        let z = z.target(self.shape).map_err(|error| error.of_array("z"))?;
        each!(self.inner.get_mut()?, solver => solver.precondition(r, z, iterations))
    }

    /// Sets the tolerance of later solves, for a nonlinear iteration whose first steps need few digits, say.
    ///
    /// ```
    /// # use isobar::options::{Method, SolverOptions};
    /// # use isobar::problem::{Boundary, Coefficient, DiffusionProblem};
    /// # use isobar::{Device, Shape, Solver};
    /// # fn main() -> isobar::Result<()> {
    /// let mut problem = DiffusionProblem::new(Shape::new(60, 50, 1), Coefficient::Isotropic(vec![1.0; 3000]));
    /// problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
    /// let options = SolverOptions { method: Method::Cg, ..SolverOptions::default() };
    /// let device = Device::cpu_with_threads(1)?;
    /// let mut solver = Solver::builder(&problem.stencil()?).options(&options).device(&device).tolerance(1e-2).build()?;
    /// let (b, mut u) = (vec![1.0; 3000], vec![0.0; 3000]);
    /// let rough = solver.solve(&b[..], &mut u[..])?;
    /// solver.set_tolerance(1e-10)?;
    /// let exact = solver.solve_from(&b[..], &mut u[..])?;
    /// assert!(rough.converged() && exact.converged() && exact.relative_residual <= 1e-10);
    /// assert!(solver.set_tolerance(0.0).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for one that is not between 0 and 1.
    pub fn set_tolerance(&mut self, tolerance: f64) -> Result<()> {
        each!(self.inner.get_mut()?, solver => solver.set_tolerance(tolerance))
    }

    /// Replaces the coefficients by those of a matrix that differs in nothing else: in place, without allocating or compiling. A solver on a GPU
    /// recomputes nothing if no coefficient of a diffusion matrix has changed.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a matrix of another kind, or that differs in more, naming the difference; the errors of
    /// the device.
    pub fn update(&mut self, matrix: &impl Matrix) -> Result<()> {
        matrix.update(self.inner.get_mut()?)
    }

    /// Calls a function that solves with this solver, and meanwhile removes the part of right-hand sides that a singular matrix cannot produce, whatever
    /// the options say: adjoint solves need that, whose right-hand sides are derivatives.
    ///
    /// ```
    /// # use isobar::problem::{Coefficient, DiffusionProblem};
    /// # use isobar::{Device, Shape, Solver};
    /// # fn main() -> isobar::Result<()> {
    /// let closed = DiffusionProblem::new(Shape::new(4, 1, 1), Coefficient::Isotropic(vec![1.0; 4]));
    /// let mut solver = Solver::builder(&closed.stencil()?).device(&Device::cpu_with_threads(1)?).tolerance(1e-12).build()?;
    /// let (derivative, mut adjoint) = (vec![1.0, 0.0, 0.0, 0.0], vec![0.0; 4]);
    /// assert!(solver.solve(&derivative, &mut adjoint).is_err());
    /// assert!(solver.projecting(|solver| solver.solve(&derivative, &mut adjoint))?.converged());
    /// assert!(adjoint[0] > adjoint[3] && adjoint.iter().sum::<f64>().abs() < 1e-12);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of the function; [`Error::Device`](crate::Error::Device) after a `fork()`.
    pub fn projecting<R>(&mut self, solve: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let before = self.set_compatibility(Compatibility::Project)?;
        let solved = solve(self);
        self.set_compatibility(before)?;
        solved
    }

    fn set_compatibility(&mut self, compatibility: Compatibility) -> Result<Compatibility> {
        Ok(each!(self.inner.get_mut()?, solver => solver.set_compatibility(compatibility)))
    }

    /// Computes sums of the last solution of a diffusion matrix, without a copy of it.
    pub(crate) fn balance(&mut self) -> Result<Balance> {
        each!(self.inner.get_mut()?, solver => solver.balance())
    }

    /// Describes the solver: the device, the method, the grids of multigrid, memory, and notes for the user.
    pub fn description(&self) -> &Description {
        each!(self.inner.anywhere(), solver => solver.description())
    }

    /// Returns notes about options that were given and that the solver does not use.
    pub fn unused_options(&self) -> &[String] {
        &self.unused
    }

    /// Measures the bytes a second that a copy of a vector of this size moves: the roofline of any solver.
    pub fn copy_bandwidth(&self) -> Result<f64> {
        each!(self.inner.get()?, solver => solver.copy_bandwidth())
    }
}

/// Returns views of a right-hand side and a solution.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) if a slice has another length, naming the array.
fn pair<'a>(shape: Shape, rhs: impl Input<'a>, u: impl Output<'a>) -> Result<(Source<'a>, Target<'a>)> {
    let rhs = rhs.source(shape).map_err(|error| error.of_array("the right-hand side"))?;
    Ok((rhs, u.target(shape).map_err(|error| error.of_array("the solution"))?))
}

impl fmt::Debug for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Solver").field("shape", &self.shape).field("description", self.description()).finish()
    }
}
