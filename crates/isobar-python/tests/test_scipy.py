"""Use with SciPy's own solvers."""

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


POINTS = """
problem.kind = "poisson"
grid = { nx = 17, ny = 15, nz = 9 }
diffusion = { unknowns = "points", boundary = { west = "dirichlet", east = "dirichlet", south = "dirichlet", north = "dirichlet", bottom = "dirichlet", top = "dirichlet" } }
"""


def problems():
    """Return a problem for every default method."""
    rng = np.random.default_rng(3)
    shape = (10, 12, 17)
    rough, mask = np.exp(2 * rng.standard_normal(shape)), rng.random(shape) > 0.3
    smooth = 1 + np.linspace(0, 1, 12)[:, None] * np.linspace(0, 3, 17) + np.linspace(0, 3, 10)[:, None, None] ** 2
    rings = {"x": "periodic", "y": "periodic", "z": 0.0}
    return {
        "constant": isobar.Diffusion(np.ones(shape), boundary=0.0),
        "constant, closed": isobar.Diffusion(np.ones(shape)),
        "smooth": isobar.Diffusion(smooth, boundary=0.0),
        "rough": isobar.Diffusion(rough, boundary=0.0),
        "rough, closed": isobar.Diffusion(rough),
        "rough, 2D": isobar.Diffusion(np.exp(2 * rng.standard_normal((64, 64))), boundary=0.0),
        "rough, 1D": isobar.Diffusion(rough[0, 0], boundary=0.0),
        "periodic": isobar.Diffusion(rough, boundary=rings),
        "thin": isobar.Diffusion(rough, spacing=(0.01, 1.0, 1.0), boundary={"x": 0.0}),
        "masked": isobar.Diffusion(np.ones(shape), active=mask, boundary={"x": 0.0}),
        "masked, closed": isobar.Diffusion(rough, active=mask),
        "wells": isobar.Diffusion(rough, wells=[{"i": 3, "j": 4, "value": 1.0, "radius": 1e-3}]),
        "reaction": isobar.Diffusion(rough, reaction=rng.random(shape)),
        "points": POINTS,
        "panel": isobar.Helmholtz.panel(17, 16, 9),
        "box": isobar.Helmholtz.box(16, 16, 8),
    }


@pytest.mark.parametrize("name", problems())
def test_preconditioners_are_fixed_linear_symmetric_and_positive(rng, tmp_path, name):
    problem = problems()[name]
    if isinstance(problem, str):
        (tmp_path / "case.toml").write_text(problem)
        problem = isobar.Case(tmp_path / "case.toml")
    solver = isobar.Solver(problem, device="cpu", tolerance=1e-10)
    A, M = solver.as_linear_operator(), solver.as_preconditioner()
    # These use modes with a correction in single precision, and a prolongation that is not the transpose of restriction.
    digits = 1e-6 if isinstance(problem, isobar.Helmholtz) else 1e-13
    smooth = np.linspace(1.0, 2.0, problem.size)
    rough, other = rng.standard_normal((2, problem.size))
    for a, b in ((rough, other), (rough, smooth)):
        both = M @ (a + 3 * b)
        np.testing.assert_allclose(both, M @ a + 3 * (M @ b), rtol=0, atol=digits * abs(both).max())
        assert abs(a @ (M @ b) - b @ (M @ a)) <= digits * np.linalg.norm(a) * np.linalg.norm(M @ b)
        assert a @ (M @ a) > 0 and b @ (M @ b) > 0
    np.testing.assert_array_equal(M @ rough, M @ rough)
    # It has the null space of the singular matrix.
    if "closed" in name:
        assert abs(M @ np.ones(problem.size)).max() < 1e-12 * abs(M @ rough).max()
    b = A @ other
    own = solver.solve(b.reshape(problem.shape))
    x, iterations = count(sla.cg, A, b, M)
    assert own.converged and iterations <= own.iterations + 2
    np.testing.assert_allclose(A @ x, b, rtol=0, atol=1e-9 * np.linalg.norm(b))


@pytest.mark.parametrize("method", ["multigrid", "jacobi", "bicgstab"])
def test_preconditioners_of_other_methods(rng, method):
    kappa = np.exp(2 * rng.standard_normal((6, 16, 16)))
    M = isobar.Solver(isobar.Diffusion(kappa, boundary={"x": 0.0}), method=method).as_preconditioner()
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


@pytest.mark.parametrize("name", problems())
def test_matrices_are_in_the_order_of_arrays(rng, tmp_path, name):
    problem = problems()[name]
    if isinstance(problem, str):
        (tmp_path / "case.toml").write_text(problem)
        problem = isobar.Case(tmp_path / "case.toml")
    A = problem.to_scipy()
    assert A.shape == (problem.size, problem.size) and A.has_sorted_indices and A.has_canonical_format
    x = rng.standard_normal(problem.shape)
    expected = isobar.Solver(problem, device="cpu").apply(x)
    np.testing.assert_allclose(A @ x.ravel(), expected.ravel(), atol=1e-13 * abs(expected).max())
    if "masked" in name:
        empty = np.diff(A.indptr) == 0
        assert empty.any() and not expected.ravel()[empty].any()


def test_matrices_of_scipy_can_be_changed_and_solved_with(rng):
    kappa = rng.uniform(1.0, 2.0, (4, 5, 6))
    problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    A, b = problem.to_scipy(), problem.rhs(1.0)
    ours, _ = oracle.assemble(kappa, boundary=[(None, None), (None, None), (0.0, 0.0)])
    assert abs(A - ours).max() < 1e-12 * abs(A).max()
    x = sla.spsolve(A.tocsc(), b.ravel()).reshape(b.shape)
    np.testing.assert_allclose(isobar.Solver(problem, tolerance=1e-12).solve(b).x, x, atol=1e-10 * abs(x).max())
    A.data *= 2.0
    np.testing.assert_allclose(A @ x.ravel(), 2 * b.ravel(), atol=1e-10 * abs(b).max())


def test_a_matrix_that_is_not_symmetric_has_no_transpose(rng):
    n, one = 4, np.ones((3, 3))
    upward, downward = -np.array([3.0, 1.0, 2.0, 0.0]), -np.array([0.0, 1.0, 0.2, 0.5])
    problem = isobar.TensorProduct(np.ones(n), upward, downward, -np.ones(n), one, np.ones((3, 4)), np.ones((4, 3)))
    A, x = isobar.Solver(problem, device="cpu").as_linear_operator(), rng.standard_normal(problem.size)
    np.testing.assert_allclose(A @ x, problem.to_scipy() @ x, atol=1e-12)
    with pytest.raises(NotImplementedError):
        A.rmatvec(x)


def test_complex_vectors():
    problem = isobar.Diffusion(np.ones((6, 5)), boundary={"x": 0.0})
    solver, A = isobar.Solver(problem, device="cpu"), problem.to_scipy()
    b = np.arange(30.0) + 1j * np.ones(30)
    assert abs(solver.as_linear_operator() @ b - A @ b).max() < 1e-13
    x, info = sla.gmres(A.astype(complex), b, M=solver.as_preconditioner(), rtol=1e-10)
    assert info == 0 and np.linalg.norm(A @ x - b) < 1e-9 * np.linalg.norm(b)
