//! The solution of a diffusion problem as a function of κ, c and f, for programs that differentiate it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, Weak};

use isobar::internals::OfProcess;
use isobar::internals::cuda::{Cuda, problem};
use isobar::internals::team::lock;
use isobar::options::{Judge, SolverOptions, check_tolerance};
use isobar::problem::DiffusionProblem;
use isobar::{Device, DeviceArray, Outcome, Precision, Progress, RawArray, RawMemory};
use isobar_case::{LinearSystem, Matrix, solver_options};

use crate::array::{Batch, groups, on_device};
use crate::error::Failure;
use crate::geometry::change;
use crate::kept::Kept;

/// The meaning of the values of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// The values are source densities f, from which b is computed with sides, sources and wells.
    Densities,
    /// The values are right-hand sides of derivatives, which are projected onto the range of A.
    Projected,
}

/// The arrays from which a matrix is made, all on the host or all on one GPU, and numbers for [`geometry::change`].
///
/// [`geometry::change`]: crate::geometry::change
pub(crate) struct Coefficients {
    /// The coefficient κ: one array, two (horizontal and vertical), or three.
    pub(crate) kappa: Vec<RawArray>,
    pub(crate) reaction: Option<RawArray>,
    pub(crate) geometry: Option<Vec<f64>>,
}

/// The arguments of a call after its κ's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Has {
    pub(crate) reaction: bool,
    pub(crate) geometry: bool,
}

/// Sees every iteration of a solve, and may end it.
pub(crate) type Observer<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a;

/// The function x(κ, c, f) of a problem. Its solvers are kept for the next call.
pub(crate) struct Function {
    /// The number under which [`Function::numbered`] finds it.
    pub(crate) number: i64,
    pub(crate) template: LinearSystem,
    options: SolverOptions,
    device: String,
    threads: Option<usize>,
    /// Whether solutions of solves that do not converge are NaN, instead of an error.
    pub(crate) fills: bool,
    /// The tolerance of solves for derivatives, if it is another one.
    derivative_tolerance: Option<f64>,
    // Outside the locks, which another thread may have held when the process was forked.
    kept: OfProcess<Mutex<BTreeMap<Key, Arc<Mutex<Kept>>>>>,
    forms: OfProcess<Mutex<BTreeMap<usize, Arc<problem::Form>>>>,
}

/// The GPU that coefficients are on, if they stay there, the number of κ's, and the other arguments. A solver cannot change any of these.
type Key = (Option<usize>, usize, Has);

static NUMBERED: Mutex<BTreeMap<i64, Weak<Function>>> = Mutex::new(BTreeMap::new());

impl Function {
    /// Makes the function of a problem, whose coefficients are not used. `options` is the text of a case's `[solver]`.
    pub(crate) fn new(
        template: LinearSystem,
        options: &str,
        device: &str,
        threads: Option<usize>,
        fills: bool,
        derivative_tolerance: Option<f64>,
    ) -> Result<Arc<Self>, Failure> {
        template.diffusion()?;
        if let Some(tolerance) = derivative_tolerance {
            check_tolerance("derivative_tolerance", tolerance)?;
        }
        // Random, because programs that XLA has stored on disk may contain the numbers of another process.
        let number = RandomState::new().build_hasher().finish() as i64;
        let function = Arc::new(Self {
            number,
            template,
            options: solver_options(options)?,
            device: device.to_owned(),
            threads,
            fills,
            derivative_tolerance,
            kept: OfProcess::new("the solver", Mutex::default()),
            forms: OfProcess::new("the problem", Mutex::default()),
        });
        lock(&NUMBERED).insert(number, Arc::downgrade(&function));
        Ok(function)
    }

    /// Returns the function with this number, if it is still there.
    pub(crate) fn numbered(number: i64) -> Option<Arc<Self>> {
        lock(&NUMBERED).get(&number)?.upgrade()
    }

    /// Frees the solvers, unless they are another process's; another call makes new ones.
    pub(crate) fn release(&self) {
        if let (Ok(kept), Ok(forms)) = (self.kept.get(), self.forms.get()) {
            lock(kept).clear();
            lock(forms).clear();
        }
    }

    /// Returns the numbers of solvers that were made, and of changes of coefficients in place, of those that are kept.
    pub(crate) fn counts(&self) -> Result<[usize; 2], Failure> {
        let kept: Vec<_> = lock(self.kept.get()?).values().cloned().collect();
        let each = kept.iter().map(|kept| lock(kept).counts);
        Ok(each.fold([0; 2], |[made, updated], [m, u]| [made + m, updated + u]))
    }

    /// Writes the solutions of A x = b to `out`. `fields` are the κ's, then c and the geometry's numbers if there are any.
    ///
    /// # Safety
    /// All arrays must be memory as described, which nothing else uses meanwhile; `out` shares none with the others.
    pub(crate) unsafe fn solve(
        &self,
        fields: &[Batch],
        has: Has,
        (values, kind): (&Batch, Values),
        out: &Batch,
        observer: &mut Observer<'_>,
    ) -> Result<(), Failure> {
        let (of_cells, shape) = (fields.len().saturating_sub(usize::from(has.geometry)), self.template.shape());
        fields[..of_cells].iter().chain([values, out]).try_for_each(|batch| batch.require_shape(shape))?;
        let all: Vec<&Batch> = fields.iter().chain([values]).collect();
        for (own, systems) in groups(&all, out)? {
            let mut kappa: Vec<RawArray> = fields.iter().zip(own).map(|(batch, n)| batch.at(n)).collect();
            let geometry = if has.geometry { kappa.pop() } else { None };
            let reaction = if has.reaction { kappa.pop() } else { None };
            let systems: Vec<_> = systems.into_iter().map(|(b, x)| (values.at(b), out.at(x))).collect();
            // SAFETY: promised by the caller.
            unsafe {
                let geometry = geometry.map(|numbers| numbers.read()).transpose()?;
                let coefficients = Coefficients { kappa, reaction, geometry };
                self.solve_systems(&coefficients, kind, &systems, observer)?;
            };
        }
        Ok(())
    }

    /// Solves systems of one matrix.
    ///
    /// # Safety
    /// See [`Function::solve`].
    unsafe fn solve_systems(
        &self,
        coefficients: &Coefficients,
        kind: Values,
        systems: &[(RawArray, RawArray)],
        observer: &mut Observer<'_>,
    ) -> Result<(), Failure> {
        let RawMemory::Cuda { ordinal, .. } = systems[0].1.memory() else {
            let kept = self.kept(None, coefficients)?;
            let mut kept = lock(&kept);
            // SAFETY: promised by the caller.
            return unsafe {
                kept.take(self, coefficients)?;
                kept.solve(self, kind, systems, observer)
            };
        };
        // SAFETY: promised by the caller.
        if self.stays_on_gpu() && unsafe { self.solve_on_gpu(ordinal, coefficients, kind, systems, observer)? } {
            return Ok(());
        }
        // SAFETY: promised by the caller.
        let read = |array: &RawArray| unsafe { array.read() };
        let kappa = coefficients.kappa.iter().map(read).collect::<isobar::Result<Vec<_>>>()?;
        let reaction = coefficients.reaction.as_ref().map(read).transpose()?;
        let values = systems.iter().map(|(b, _)| read(b)).collect::<isobar::Result<Vec<_>>>()?;
        let mut found = vec![vec![0.0; self.template.shape().cells()]; values.len()];
        let shape = self.template.shape();
        let on_host = |values: &Vec<f64>| RawArray::c_order(values.as_ptr(), shape);
        let copies = Coefficients {
            kappa: kappa.iter().map(on_host).collect::<isobar::Result<_>>()?,
            reaction: reaction.as_ref().map(on_host).transpose()?,
            geometry: coefficients.geometry.clone(),
        };
        let pairs =
            values.iter().zip(&mut found).map(|(b, x)| Ok((on_host(b)?, RawArray::c_order(x.as_mut_ptr(), shape)?)));
        let pairs: Vec<_> = pairs.collect::<isobar::Result<_>>()?;
        // SAFETY: the vectors outlive the call, and nobody else uses them.
        unsafe { self.solve_systems(&copies, kind, &pairs, observer)? };
        // SAFETY: promised by the caller.
        systems.iter().zip(&found).try_for_each(|((_, out), x)| unsafe { out.write(x) })?;
        Ok(())
    }

    /// Solves systems whose arrays are all on one GPU, where a solver detects whether its coefficients have changed. Returns whether it has a solver for
    /// this matrix.
    ///
    /// # Safety
    /// See [`Function::solve`].
    unsafe fn solve_on_gpu(
        &self,
        ordinal: usize,
        coefficients: &Coefficients,
        kind: Values,
        systems: &[(RawArray, RawArray)],
        observer: &mut Observer<'_>,
    ) -> Result<bool, Failure> {
        // SAFETY: promised by the caller.
        let of = |array: &RawArray| unsafe { on_device(array) };
        let kappa = coefficients.kappa.iter().map(of).collect::<isobar::Result<Vec<DeviceArray>>>()?;
        let reaction = coefficients.reaction.as_ref().map(of).transpose()?;
        let kept = self.kept(Some(ordinal), coefficients)?;
        let mut kept = lock(&kept);
        let form = match &coefficients.geometry {
            None => self.form(ordinal)?,
            Some(numbers) => kept.form(numbers, || self.new_form(ordinal, Some(numbers)))?,
        };
        let matrix = form.stencil(&kappa, reaction.as_ref())?;
        let matrix = if reaction.is_some() { form.examined_if_negative(matrix) } else { Ok(matrix) };
        // The host reports what is wrong.
        let Ok(matrix) = matrix else { return Ok(false) };
        if kept.take_matrix(self, Some(ordinal), Matrix::Diffusion(matrix)).is_err() {
            return Ok(false);
        }
        let mut pairs = systems.to_vec();
        for (n, (b, x)) in pairs.iter_mut().enumerate().filter(|_| kind == Values::Densities) {
            let f = of(b)?;
            // Rounded to single precision, a right-hand side has no solution if a constant is free.
            *b = if x.precision() == Precision::F64 { *x } else { kept.right_hand_side_on_gpu(n, &form)? };
            form.write_rhs(&kappa, Some(&f), &of(b)?)?;
        }
        // SAFETY: promised by the caller.
        let outcomes = unsafe { kept.solve_pairs(self, kind, &pairs, observer)? };
        outcomes.iter().try_for_each(|outcome| self.judge(outcome, kind).map(drop))?;
        Ok(true)
    }

    /// Computes derivatives of the solution: those with respect to f (or, of [`Values::Projected`], b), c and each κ are written to `outs`, in this order, where
    /// they are wanted. All arrays are on the host.
    ///
    /// # Safety
    /// See [`Function::solve`].
    pub(crate) unsafe fn pull_back(
        &self,
        coefficients: &Coefficients,
        [x, xbar]: [&RawArray; 2],
        kind: Values,
        outs: &[Option<RawArray>],
        observer: &mut Observer<'_>,
    ) -> Result<(), Failure> {
        let kept = self.kept(None, coefficients)?;
        let mut kept = lock(&kept);
        let shape = self.template.shape();
        let mut adjoint = vec![0.0; shape.cells()];
        let to = RawArray::c_order(adjoint.as_mut_ptr(), shape)?;
        // SAFETY: promised by the caller; the vector outlives the call.
        let x = unsafe {
            kept.take(self, coefficients)?;
            kept.solve(self, Values::Projected, &[(*xbar, to)], observer)?;
            x.read()?
        };
        let problem = kept.system()?.diffusion()?;
        let [by_f, by_reaction] = problem.density_gradient(&x, &adjoint);
        let write = |to: &Option<RawArray>, values: &[f64]| match to {
            // SAFETY: promised by the caller.
            Some(to) => unsafe { to.write(values) },
            None => Ok(()),
        };
        let (others, by_kappa) = outs.split_at(2);
        write(&others[0], if kind == Values::Densities { &by_f } else { &adjoint })?;
        write(&others[1], &by_reaction)?;
        if by_kappa.iter().any(Option::is_some) {
            let found = problem.gradient(&x, &adjoint, kind == Values::Densities)?;
            by_kappa.iter().zip(&found).try_for_each(|(to, values)| write(to, values))?;
        }
        Ok(())
    }

    /// Returns whether arrays on a GPU need not pass through the host, as filling with NaN needs it.
    pub(crate) fn stays_on_gpu(&self) -> bool {
        !self.fills && self.device != "cpu"
    }

    /// Returns whether a solve converged, and an error if it did not and there is to be one.
    pub(crate) fn judge(&self, outcome: &Outcome, kind: Values) -> Result<bool, Failure> {
        let converged = outcome.converged();
        if converged || self.fills {
            return Ok(converged);
        }
        let what = if kind == Values::Densities { "the solve" } else { "the solve of a derivative" };
        Err(Failure::not_converged(what, outcome))
    }

    /// Returns the tolerance of a solve.
    pub(crate) fn tolerance(&self, kind: Values) -> f64 {
        let own = self.derivative_tolerance.filter(|_| kind == Values::Projected);
        own.unwrap_or(self.options.tolerance)
    }

    /// Makes a solver, for a GPU that coefficients are on, or for the host's.
    pub(crate) fn solver(&self, ordinal: Option<usize>, matrix: &Matrix) -> Result<isobar::Solver, Failure> {
        let own = ordinal.filter(|_| self.device == "auto").map(|ordinal| format!("cuda:{ordinal}"));
        let device = Device::parse(own.as_ref().unwrap_or(&self.device), self.threads)?;
        // The solution is judged before it is rounded to the type of the arrays, as on the host, where it is rounded afterwards.
        let judge = if ordinal.is_some() { Judge::Internal } else { self.options.judge };
        Ok(matrix.solver(&device, &SolverOptions { judge, ..self.options.clone() })?)
    }

    /// Returns the solver for such coefficients.
    fn kept(&self, ordinal: Option<usize>, coefficients: &Coefficients) -> Result<Arc<Mutex<Kept>>, Failure> {
        let has = Has { reaction: coefficients.reaction.is_some(), geometry: coefficients.geometry.is_some() };
        let key = (ordinal, coefficients.kappa.len(), has);
        Ok(Arc::clone(lock(self.kept.get()?).entry(key).or_default()))
    }

    /// Returns the problem's widths and sides on a GPU.
    fn form(&self, ordinal: usize) -> Result<Arc<problem::Form>, Failure> {
        let mut forms = lock(self.forms.get()?);
        if let Some(form) = forms.get(&ordinal) {
            return Ok(Arc::clone(form));
        }
        let form = self.new_form(ordinal, None)?;
        forms.insert(ordinal, Arc::clone(&form));
        Ok(form)
    }

    /// Copies the problem's widths and sides, or these, to a GPU.
    fn new_form(&self, ordinal: usize, geometry: Option<&[f64]>) -> Result<Arc<problem::Form>, Failure> {
        // Cells outside the mask have κ = 0.
        let mut problem = DiffusionProblem { active: None, ..self.template.diffusion()?.clone() };
        geometry.map_or(Ok(()), |numbers| change(&mut problem, numbers))?;
        Ok(Arc::new(problem::Form::new(&Cuda::shared(ordinal)?, problem)?))
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        lock(&NUMBERED).remove(&self.number);
    }
}
