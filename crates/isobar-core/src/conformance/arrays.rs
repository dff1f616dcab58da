//! Solves between arrays of a whole grid in C order, and vectors made of them, for tests and benchmarks.

use crate::prelude::*;

/// Unwraps a result that a check needs.
pub(super) fn ok<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns conjugate gradients with a preconditioner.
pub fn cg(preconditioner: Preconditioner) -> SolverOptions {
    SolverOptions { method: Method::Cg, preconditioner, ..SolverOptions::default() }
}

/// Solves A u = `rhs`, with or without a first guess in `u`.
pub fn solve_again<S>(
    solver: &mut (impl Solve<S> + ?Sized),
    shape: Shape,
    rhs: &[f64],
    u: &mut [f64],
    guess: Guess,
) -> Result<Outcome> {
    let (rhs, u) = (ArrayView::c_order(rhs, shape)?, ArrayViewMut::c_order(u, shape)?);
    solver.solve(rhs.into(), u.into(), guess, &mut ignore)
}

/// Solves from zero; the array for the solution is NaN before.
pub fn solve_by<S>(solver: &mut (impl Solve<S> + ?Sized), shape: Shape, rhs: &[f64]) -> (Outcome, Vec<f64>) {
    let mut u = vec![f64::NAN; rhs.len()];
    (ok(solve_again(solver, shape, rhs, &mut u, Guess::Zero)), u)
}

/// Makes a solver, and does [`solve_again`].
pub fn solve_into<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
    u: &mut [f64],
    guess: Guess,
) -> Result<Outcome> {
    solve_again(&mut System::new(backend, stencil, options)?, stencil.shape(), rhs, u, guess)
}

/// Makes a solver, and does [`solve_by`].
pub fn solve<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    rhs: &[f64],
) -> (Outcome, Vec<f64>) {
    solve_by(&mut ok(System::new(backend, stencil, options)), stencil.shape(), rhs)
}

/// Makes a vector of values in C order.
pub fn vector<B: Backend, T: Real>(backend: &B, layout: &Layout, values: &[impl Real]) -> B::Vector<T> {
    let mut vector = ok(backend.zeros(layout));
    ok(backend.upload(ok(ArrayView::c_order(values, layout.shape())), &mut vector));
    vector
}

/// Returns the values of a vector in C order.
pub fn fetch<B: Backend, T: Real>(backend: &B, vector: &B::Vector<T>, shape: Shape) -> Vec<T> {
    let mut values = vec![T::ZERO; shape.cells()];
    ok(backend.download(vector, &mut ok(ArrayViewMut::c_order(&mut values, shape))));
    values
}

/// Returns a random number in [−1, 1) for every cell.
pub fn noise(cells: usize, seed: u64) -> Vec<f64> {
    (0..cells).map(|n| random(seed, n)).collect()
}

/// Returns the 2-norm.
pub fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Computes ‖b − A u‖ / ‖b‖.
pub fn residual(stencil: &Diffusion, b: &[f64], u: &[f64]) -> f64 {
    distance(&stencil.times(u), b)
}

/// Computes ‖x − y‖ / ‖y‖.
pub fn distance(x: &[f64], y: &[f64]) -> f64 {
    let difference: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - y).collect();
    norm(&difference) / norm(y).max(f64::MIN_POSITIVE)
}

/// Subtracts the mean of all values, so that a floating matrix can produce them.
pub fn without_mean(mut b: Vec<f64>) -> Vec<f64> {
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    b.iter_mut().for_each(|b| *b -= mean);
    b
}
