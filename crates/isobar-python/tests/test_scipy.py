"""With SciPy's own solvers."""

import numpy as np
import oracle
import pytest
import scipy.sparse.linalg as sla

import isobar


def count(solve, A, b, M):
    seen = []
    x, status = solve(A, b, M=M, rtol=1e-10, callback=lambda _: seen.append(0))
    assert status == 0
    return x, len(seen)


@pytest.mark.parametrize("problem", ["diffusion", "helmholtz"])
def test_cg(rng, problem):
    if problem == "diffusion":
        kappa = rng.uniform(0.1, 10.0, (6, 16, 16))
        problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    else:
        problem = isobar.Helmholtz.panel(16, 16, 6)
    solver = isobar.Solver(problem)
    A, M = solver.as_linear_operator(), solver.as_preconditioner()
    assert A.shape == M.shape == (problem.size, problem.size) and A.dtype == np.float64
    b = problem.rhs(rng.standard_normal(problem.shape)).ravel()
    with_, fast = count(sla.cg, A, b, M)
    without, plain = count(sla.cg, A, b, None)
    assert fast < plain / 2
    np.testing.assert_allclose(with_, without, atol=1e-7 * abs(without).max())
    np.testing.assert_allclose(A @ with_, b, atol=1e-9 * np.linalg.norm(b))
    # Columns, and the transpose, which is the same.
    np.testing.assert_allclose(A @ np.stack([b, 2 * b], axis=1), np.stack([A @ b, 2 * (A @ b)], axis=1), rtol=1e-12)
    np.testing.assert_allclose(A.T @ b, A @ b, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"preconditioner": {"kind": "jacobi"}}])
def test_preconditioners_are_linear_and_symmetric(rng, options):
    kappa = rng.uniform(0.1, 10.0, (6, 16, 16))
    M = isobar.Solver(isobar.Diffusion(kappa, boundary={"x": 0.0}), **options).as_preconditioner()
    a, b = rng.standard_normal((2, kappa.size))
    np.testing.assert_allclose(M @ (a + 3 * b), M @ a + 3 * (M @ b), atol=1e-12 * abs(M @ a).max())
    assert a @ (M @ b) == pytest.approx(b @ (M @ a), rel=1e-10) and a @ (M @ a) > 0


@pytest.mark.parametrize("shape", [(24, 24, 24), (64, 64)])
@pytest.mark.parametrize("roughness", [0.0, 2.0])
def test_smooth_right_hand_sides_on_rough_coefficients(rng, shape, roughness):
    kappa = np.exp(roughness * rng.standard_normal(shape))
    problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    solver = isobar.Solver(problem, device="cpu")
    A, M = solver.as_linear_operator(), solver.as_preconditioner()
    b = problem.rhs(1.0).ravel()
    a = rng.standard_normal(b.size)
    assert np.linalg.norm(M @ b) > 0 and a @ (M @ b) == pytest.approx(b @ (M @ a), rel=1e-9)
    x, iterations = count(sla.cg, A, b, M)
    assert iterations < 40
    np.testing.assert_allclose(A @ x, b, atol=1e-8 * np.linalg.norm(b))
    twice = solver.as_preconditioner(2)
    np.testing.assert_allclose(twice @ b, M @ b + M @ (b - A @ (M @ b)), rtol=1e-9)


def test_eigenvalues(rng):
    kappa = rng.uniform(0.5, 2.0, (5, 6, 4))
    A, _ = oracle.assemble(kappa, boundary=[(None, None), (0.0, 0.0), (None, None)])
    solver = isobar.Solver(isobar.Diffusion(kappa, boundary={"y": 0.0}))
    ours = sla.eigsh(solver.as_linear_operator(), k=3, return_eigenvectors=False)
    np.testing.assert_allclose(ours, sla.eigsh(A, k=3, return_eigenvectors=False), rtol=1e-8)
