//! A solver with its current coefficients, kept between calls.

use std::sync::Arc;

use isobar::internals::array::Source;
use isobar::internals::cuda::problem::{DeviceField, Form};
use isobar::problem::Field;
use isobar::stencil::Axis;
use isobar::{Guess, Outcome, RawArray};
use isobar_case::{LinearSystem, Matrix};

use crate::error::Failure;
use crate::function::{Coefficients, Function, Observer, Values};
use crate::geometry::change;
use crate::system::of_fields;

/// A solver and the system that it was made or updated for.
#[derive(Default)]
pub(crate) struct Kept {
    solver: Option<isobar::Solver>,
    /// The system, if its coefficients are on the host.
    system: Option<LinearSystem>,
    /// The numbers of the widths and sides, if they are not the problem's, and the form made from them on a GPU.
    geometry: Option<Vec<f64>>,
    form: Option<Arc<Form>>,
    /// The right-hand sides in double precision on a GPU.
    sides: Vec<DeviceField>,
    /// The numbers of solvers made and of updates.
    pub(crate) counts: [usize; 2],
}

impl Kept {
    /// Gives the solver coefficients on the host. Nothing is done if it has them.
    ///
    /// # Safety
    /// The arrays must be memory as described, which nothing writes meanwhile.
    pub(crate) unsafe fn take(&mut self, function: &Function, given: &Coefficients) -> Result<(), Failure> {
        // SAFETY: promised by the caller.
        let source = |array: &RawArray| unsafe { array.source() };
        let kappa = given.kappa.iter().map(source).collect::<isobar::Result<Vec<_>>>()?;
        let reaction = given.reaction.as_ref().map(source).transpose()?;
        let is_known = self.solver.is_some() && self.geometry == given.geometry;
        if is_known && self.system.as_ref().is_some_and(|known| has(known, &kappa, reaction.as_ref())) {
            return Ok(());
        }
        let read = kappa.iter().map(|&field| Field::read(field)).collect::<isobar::Result<Vec<_>>>()?;
        let reaction = reaction.map(Source::to_vec).transpose()?;
        let system = function.template.changed(of_fields(&read)?, reaction, |problem| {
            given.geometry.as_ref().map_or(Ok(()), |numbers| change(problem, numbers))
        })?;
        self.take_matrix(function, None, system.matrix.clone())?;
        (self.system, self.geometry) = (Some(system), given.geometry.clone());
        Ok(())
    }

    /// Returns widths and sides on a GPU, made again if their numbers differ from the last ones.
    pub(crate) fn form(
        &mut self,
        numbers: &[f64],
        make: impl FnOnce() -> Result<Arc<Form>, Failure>,
    ) -> Result<Arc<Form>, Failure> {
        let known = self.form.take().filter(|_| self.geometry.as_deref() == Some(numbers));
        let form = known.map_or_else(make, Ok)?;
        (self.form, self.geometry) = (Some(Arc::clone(&form)), Some(numbers.to_vec()));
        Ok(form)
    }

    /// Returns memory for a right-hand side in double precision on a GPU, number n of a call.
    pub(crate) fn right_hand_side_on_gpu(&mut self, n: usize, form: &Form) -> Result<RawArray, Failure> {
        while self.sides.len() <= n {
            self.sides.push(form.new_field::<f64>()?);
        }
        Ok(self.sides[n].array().into())
    }

    /// Gives the solver a matrix, whose coefficients are on this GPU if there is a number. If that is not possible in place, a new solver is made.
    pub(crate) fn take_matrix(
        &mut self,
        function: &Function,
        ordinal: Option<usize>,
        matrix: Matrix,
    ) -> Result<(), Failure> {
        // If anything fails, the solver and its system do not fit each other.
        let solver = self.solver.take();
        self.system = None;
        if let Some(mut solver) = solver
            && matrix.update(&mut solver).is_ok()
        {
            self.counts[1] += 1;
            self.solver = Some(solver);
            return Ok(());
        }
        self.solver = Some(function.solver(ordinal, &matrix)?);
        self.counts[0] += 1;
        Ok(())
    }

    /// Solves systems with arrays on the host, with the coefficients of [`Kept::take`].
    ///
    /// # Safety
    /// The arrays must be memory as described; nothing else may use those to write, which share no memory with others.
    pub(crate) unsafe fn solve(
        &mut self,
        function: &Function,
        kind: Values,
        systems: &[(RawArray, RawArray)],
        observer: &mut Observer<'_>,
    ) -> Result<(), Failure> {
        let mut sides = Vec::with_capacity(systems.len());
        for (values, _) in systems {
            // SAFETY: promised by the caller.
            sides.push(self.right_hand_side(function, kind, unsafe { values.source()? })?);
        }
        let shape = function.template.shape();
        let is_double = |x: &RawArray| x.precision() == isobar::Precision::F64 && !x.repeats();
        // Solutions in single precision are rounded once they are judged.
        let mut wide: Vec<Vec<f64>> =
            systems.iter().map(|(_, x)| if is_double(x) { Vec::new() } else { vec![0.0; shape.cells()] }).collect();
        let mut pairs = Vec::with_capacity(systems.len());
        for ((side, wide), (_, x)) in sides.iter().zip(&mut wide).zip(systems) {
            let Some(side) = side else { continue };
            let to = if is_double(x) { *x } else { RawArray::c_order(wide.as_mut_ptr(), shape)? };
            pairs.push((RawArray::c_order(side.as_ptr(), shape)?, to));
        }
        // SAFETY: promised by the caller; the vectors outlive the call.
        let outcomes = unsafe { self.solve_pairs(function, kind, &pairs, observer)? };
        let mut outcomes = outcomes.iter();
        for ((side, wide), (_, x)) in sides.iter().zip(&wide).zip(systems) {
            // After an interruption there are fewer outcomes than systems.
            let outcome = side.as_ref().and_then(|_| outcomes.next());
            let is_sound = outcome.map_or(Ok(false), |outcome| function.judge(outcome, kind))?;
            // SAFETY: promised by the caller.
            unsafe {
                if !is_sound {
                    x.write(&vec![f64::NAN; shape.cells()])?;
                } else if !is_double(x) {
                    x.write(wide)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the right-hand side of a call's values; none if the solution is to be NaN.
    fn right_hand_side(
        &self,
        function: &Function,
        kind: Values,
        values: Source<'_>,
    ) -> Result<Option<Vec<f64>>, Failure> {
        let system = self.system()?;
        if kind == Values::Densities {
            let shape = system.shape();
            let mut b = vec![0.0; shape.cells()];
            system.write_rhs(Some(values), isobar::ArrayViewMut::c_order(&mut b, shape)?.into())?;
            return Ok(Some(b));
        }
        let values = values.to_vec()?;
        Ok((!function.fills || values.iter().all(|value| value.is_finite())).then_some(values))
    }

    /// Solves systems given by their right-hand sides and solutions.
    ///
    /// # Safety
    /// See [`Kept::solve`]; a solution may be its own right-hand side.
    pub(crate) unsafe fn solve_pairs(
        &mut self,
        function: &Function,
        kind: Values,
        pairs: &[(RawArray, RawArray)],
        observer: &mut Observer<'_>,
    ) -> Result<Vec<Outcome>, Failure> {
        let solver = self.solver.as_mut().ok_or_else(missing)?;
        solver.set_tolerance(function.tolerance(kind))?;
        let mut solve = |solver: &mut isobar::Solver| {
            // SAFETY: promised by the caller.
            unsafe {
                match pairs {
                    [] => Ok(Vec::new()),
                    [(b, x)] => {
                        RawArray::with(b, x, |b, x| Ok(vec![solver.solve_observed(b, x, Guess::Zero, observer)?]))
                    }
                    _ => solver.solve_many_raw(pairs.iter().copied(), Guess::Zero, observer),
                }
            }
        };
        Ok(if kind == Values::Projected { solver.projecting(solve)? } else { solve(solver)? })
    }

    /// Returns the system of coefficients on the host.
    pub(crate) fn system(&self) -> Result<&LinearSystem, Failure> {
        self.system.as_ref().ok_or_else(missing)
    }
}

fn missing() -> Failure {
    isobar::Error::invalid("the solver", "it has no coefficients yet").into()
}

/// Returns whether a system has these coefficients.
fn has(system: &LinearSystem, kappa: &[Source<'_>], reaction: Option<&Source<'_>>) -> bool {
    let Ok(problem) = system.diffusion() else { return false };
    let axes = match kappa.len() {
        1 => &[Axis::X][..],
        2 => &[Axis::X, Axis::Z],
        _ => &Axis::ALL,
    };
    axes.iter().zip(kappa).all(|(&axis, field)| equal(problem.coefficient.along(axis), field))
        && reaction.is_none_or(|given| problem.reaction.as_ref().is_some_and(|known| equal(known, given)))
}

fn equal(known: &[f64], given: &Source<'_>) -> bool {
    if let Source::F64(view) = given
        && let Some(values) = view.as_c_order()
    {
        return values == known;
    }
    let Ok(read) = given.reader() else { return false };
    let mut block = [0.0; 512];
    known.chunks(block.len()).enumerate().all(|(n, known)| {
        let block = &mut block[..known.len()];
        read(n * 512, block);
        block == known
    })
}
