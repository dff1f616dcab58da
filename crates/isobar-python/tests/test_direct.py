"""Direct solves of boxes compared with SciPy's transforms and its sparse factorisation."""

import numpy as np
import pytest

import isobar

fft = pytest.importorskip("scipy.fft")
sparse = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")


def eigenvalues(shape, angles):
    parts = [2 - 2 * np.cos(angle(n)) for n, angle in zip(shape, angles)]
    return sum(part.reshape([-1 if d == axis else 1 for d in range(len(shape))]) for axis, part in enumerate(parts))


@pytest.mark.parametrize("shape", [(12, 15, 8), (7, 16), (33,)])
def test_transforms(shape):
    b = np.random.default_rng(1).standard_normal(shape)
    for boundary, kind, angle in [
        ("neumann", "dctn", lambda n: np.pi * np.arange(n) / n),
        (0.0, "dstn", lambda n: np.pi * (np.arange(n) + 1) / n),
    ]:
        rhs = b - b.mean() if boundary == "neumann" else b
        values = eigenvalues(shape, [angle] * len(shape))
        values[values < 1e-14] = np.inf
        expected = getattr(fft, "i" + kind)(getattr(fft, kind)(rhs, type=2, norm="ortho") / values, type=2, norm="ortho")
        problem = isobar.Diffusion(np.ones(shape), spacing=1.0, boundary=boundary)
        for method in ["auto", "direct"]:
            solver = isobar.Solver(problem, method=method, device="cpu", tolerance=1e-12)
            result = solver.solve(rhs)
            assert solver.method == "direct" and result.converged and result.iterations == 1
            np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_layers_on_stretched_cells(axis):
    shape = (6, 7, 8)
    rng = np.random.default_rng(axis)
    layers = 10 ** rng.uniform(-3, 3, shape[axis])
    kappa = np.broadcast_to(layers.reshape([-1 if d == axis else 1 for d in range(3)]), shape).copy()
    widths = [np.geomspace(0.1, 2.0, n) for n in shape]
    problem = isobar.Diffusion(kappa, spacing=widths, boundary={"x": 0.0, "south": 1.0})
    b = problem.rhs(1.0)
    solver = isobar.Solver(problem, device="cpu", tolerance=1e-11)
    result = solver.solve(b)
    assert solver.method == "direct" and result.converged
    n = kappa.size
    basis = np.eye(n).reshape((n, *shape))
    matrix = sparse.csc_matrix(np.stack([solver.apply(e).ravel() for e in basis]))
    expected = linalg.spsolve(matrix, b.ravel()).reshape(shape)
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_what_is_not_separable():
    kappa = np.ones((4, 5, 6))
    kappa[1, 2, 3] = 5.0
    problem = isobar.Diffusion(kappa)
    with pytest.raises(ValueError, match=r"products of one factor a direction.*\[3, 2, 1\]|\[2, 2, 1\]"):
        isobar.Solver(problem, method="direct", device="cpu")
    assert isobar.Solver(problem, device="cpu").method != "direct"


def test_the_nearest_box():
    z, y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in (10, 16, 20)), indexing="ij")
    active = z > 0.2 + 0.3 * np.sin(5 * x) * np.cos(4 * y)
    problem = isobar.Diffusion(np.ones(active.shape), spacing=(0.01, 1.0, 1.0), active=active)
    b = np.where(active, np.random.default_rng(0).standard_normal(active.shape), 0.0)
    solver = isobar.Solver(
        problem, method="cg", preconditioner="direct", device="cpu", tolerance=1e-8, compatibility="project"
    )
    result = solver.solve(b)
    assert result.converged and result.iterations <= 25


def test_waves():
    """Check negative reactions: closed form of a sine, random boxes compared with SciPy, and methods that refuse them."""
    n, k = 63, 31.0
    x = (np.arange(n) + 0.5) / n
    wave = np.sin(np.pi * x)[:, None] * np.sin(2 * np.pi * x)[None, :]
    box = isobar.Diffusion(np.ones((n, n)), spacing=1 / n, boundary=0.0, reaction=-(k**2))
    eigenvalue = 4 * n**2 * (np.sin(np.pi / (2 * n)) ** 2 + np.sin(np.pi / n) ** 2) - k**2
    result = isobar.Solver(box, tolerance=1e-11, device="cpu").solve(wave / n**2)
    assert result.converged
    np.testing.assert_allclose(result.x, wave / eigenvalue, atol=1e-10 * abs(1 / eigenvalue))
    rng = np.random.default_rng(4)
    for boundary in ["neumann", 0.0, "periodic", {"x": "periodic", "south": 0.0}]:
        kappa = np.broadcast_to(rng.uniform(0.5, 2.0, 7)[:, None, None], (7, 6, 10))
        problem = isobar.Diffusion(kappa, spacing=1.0, boundary=boundary, reaction=-rng.uniform(0.2, 3.0))
        b = rng.standard_normal((7, 6, 10))
        solver = isobar.Solver(problem, tolerance=1e-10, device="cpu")
        assert solver.method == "direct"
        expected = linalg.spsolve(sparse.csc_matrix(problem.to_scipy()), b.ravel())
        np.testing.assert_allclose(solver.solve(b).x.ravel(), expected, atol=1e-7 * abs(expected).max())
    # Negative diagonals, of conductances too.
    box = isobar.Diffusion(np.ones((2, 3)), spacing=1.0, reaction=-9.0)
    faces = isobar.Faces(np.ones((2, 2)), np.ones((1, 3)), shift=-9.0)
    for problem in [box, faces]:
        assert problem.to_scipy().diagonal().tolist() == [-7.0, -6.0, -7.0] * 2
        assert problem.rhs(1.0).tolist() == [[1.0] * 3] * 2
    rough = isobar.Diffusion(rng.uniform(1.0, 2.0, (7, 6, 10)), reaction=-1.0)
    with pytest.raises(ValueError, match=r"negative in cell \(i, j, k\) = \(0, 0, 0\).*direct"):
        isobar.Solver(rough, device="cpu")
    with pytest.raises(ValueError, match="eigenvalue that vanishes"):
        isobar.Solver(isobar.Diffusion(np.ones((6, 6)), spacing=1.0, boundary="periodic", reaction=-4.0), device="cpu")
