"""Solutions, compared with SciPy's direct solver."""

import json
import pathlib

import numpy as np
import oracle
import pytest

import isobar

CASES = pathlib.Path(__file__).parents[3] / "cases"

SIDES = {
    "dirichlet": ({"x": 1.0, "y": 2.0}, [(None, None), (2.0, 2.0), (1.0, 1.0)]),
    "one dirichlet": ({"top": -1.0}, [(None, -1.0), (None, None), (None, None)]),
    "periodic": ({"x": "periodic", "bottom": 0.0}, [(0.0, None), (None, None), ("periodic", "periodic")]),
    "zero": (0.0, [(0.0, 0.0)] * 3),
    "all periodic": ("periodic", [("periodic", "periodic")] * 3),
    "closed": (None, None),
    "flux": (
        {"west": {"neumann": 0.5}, "east": {"dirichlet": 1.0}, "north": "dirichlet"},
        [(None, None), (None, 0.0), (("flux", 0.5), 1.0)],
    ),
    "overridden": ({"all": 1.0, "z": "neumann", "west": 3.0}, [(None, None), (1.0, 1.0), (3.0, 1.0)]),
}


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("reaction", [None, 2.0])
def test_every_boundary(rng, sides, reaction):
    ours, theirs = SIDES[sides]
    kappa = rng.uniform(0.1, 10.0, (5, 6, 8))
    f = rng.standard_normal(kappa.shape)
    spacing = (0.5, np.linspace(0.3, 0.8, 6), 0.25)
    problem = isobar.Diffusion(kappa, spacing=spacing, boundary=ours, reaction=reaction)
    A, b = oracle.assemble(kappa, spacing, theirs, reaction or 0.0, f=f)
    if reaction is None and sides in ("closed", "all periodic"):
        f -= b.sum() / (b / f).sum()
        A, b = oracle.assemble(kappa, spacing, theirs, f=f)
    np.testing.assert_allclose(problem.rhs(f), b, rtol=1e-12, atol=1e-12)
    result = isobar.Solver(problem, tolerance=1e-11, device="cpu").solve(problem.rhs(f))
    assert result.converged and result.residual <= 1e-11
    expected = oracle.solve(A, b)
    np.testing.assert_allclose(result.x, expected, atol=1e-8 * abs(expected).max())


@pytest.mark.parametrize("shape", [(7,), (5, 6), (1, 4), (3, 1, 5), (2, 3, 4), (1,), (1, 1, 1)])
def test_every_dimension(rng, shape):
    kappa = rng.uniform(1.0, 2.0, shape)
    problem = isobar.Diffusion(kappa, boundary=1.5)
    A, b = oracle.assemble(kappa, boundary=[(1.5, 1.5)] * len(shape), f=1.0)
    # Directions that are left out have no sides.
    assert problem.shape == shape and problem.size == kappa.size
    result = isobar.Solver(problem, tolerance=1e-12).solve(problem.rhs(1.0))
    assert result.x.shape == shape
    np.testing.assert_allclose(result.x, oracle.solve(A, b), rtol=1e-9)


def test_widths_in_every_form():
    widths = [0.1, 0.2, 0.3]
    centres = [0.05, 0.2, 0.45]
    for spacing in (widths, tuple(widths), np.array(widths), (widths,), [np.array(widths)]):
        np.testing.assert_allclose(isobar.Diffusion(np.ones(3), spacing=spacing).coordinates[0], centres)
    for spacing in (0.5, np.float32(0.5), (0.5,), [0.5], np.array(0.5), np.array([0.5])):
        np.testing.assert_allclose(isobar.Diffusion(np.ones(3), spacing=spacing).coordinates[0], [0.25, 0.75, 1.25])
    np.testing.assert_allclose(isobar.Diffusion(np.ones((2, 3)), spacing=(2.0, widths)).coordinates[1], centres)


def test_masks_and_anisotropy(rng):
    kappa = rng.uniform(1.0, 2.0, (4, 6, 6))
    active = rng.uniform(size=kappa.shape) > 0.2
    f = rng.standard_normal(kappa.shape)
    problem = isobar.Diffusion(kappa, active=active, reaction=1.0, boundary={"z": 0.0})
    A, b = oracle.assemble(kappa, boundary=[(0.0, 0.0), (None, None), (None, None)], reaction=1.0, active=active, f=f)
    x = isobar.Solver(problem, tolerance=1e-11).solve(problem.rhs(f)).x
    np.testing.assert_allclose(x, oracle.solve(A, b), atol=1e-10)
    # κ_h, κ_z in a tuple; layers with κ_h = 0 would be columns of their own.
    layered = isobar.Diffusion((kappa, 100 * kappa), boundary={"bottom": 0.0})
    same = isobar.Diffusion((kappa, kappa, 100 * kappa), boundary={"bottom": 0.0})
    u = rng.standard_normal(kappa.shape)
    np.testing.assert_allclose(isobar.Solver(layered).apply(u), isobar.Solver(same).apply(u), rtol=1e-12)


def test_apply_is_the_matrix(rng):
    kappa = rng.uniform(0.1, 10.0, (3, 4, 6))
    A, _ = oracle.assemble(kappa, boundary=[(0.0, None), (None, None), ("periodic", "periodic")])
    solver = isobar.Solver(isobar.Diffusion(kappa, boundary={"bottom": 0.0, "x": "periodic"}))
    u = rng.standard_normal(kappa.shape)
    np.testing.assert_allclose(solver.apply(u).ravel(), A @ u.ravel(), rtol=1e-12, atol=1e-12)


def test_wells_and_sources():
    kappa = np.ones((2, 9, 9))
    problem = isobar.Diffusion(
        kappa,
        spacing=1.0,
        sources=[{"i": 4, "j": 4, "rate": 1.0}],
        wells=[{"i": 0, "j": 0, "k": 1, "value": 0.0, "radius": 0.01}],
    )
    b = problem.rhs()
    assert b[:, 4, 4].sum() == pytest.approx(1.0)
    x = isobar.Solver(problem, tolerance=1e-10).solve(b).x
    assert x.max() == x[:, 4, 4].max() and x.min() == x[1, 0, 0] > 0


def test_tensor_product(rng):
    nz, ny, nx = 5, 6, 8
    h = rng.uniform(1.0, 2.0, nz)
    stiffness = -2.0 / (h[1:] + h[:-1])
    b, c = np.append(stiffness, 0.0), np.append(0.0, stiffness)
    x_faces, y_faces = rng.uniform(0.5, 1.0, (ny, nx + 1)), rng.uniform(0.5, 1.0, (ny + 1, nx))
    area = rng.uniform(1.0, 2.0, (ny, nx))
    problem = isobar.TensorProduct(h, b, c, -h, area, x_faces, y_faces)
    rhs = rng.standard_normal(problem.shape)
    solver = isobar.Solver(problem, tolerance=1e-11)
    x = solver.solve(rhs).x
    # (A u)_{T,k}, row by row.
    up, down = np.zeros_like(x), np.zeros_like(x)
    up[:-1], down[1:] = x[1:], x[:-1]
    v = area * ((h - b - c)[:, None, None] * x + b[:, None, None] * up + c[:, None, None] * down)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    around = x_faces[:, :-1] * (padded[:, 1:-1, :-2] - x) + x_faces[:, 1:] * (padded[:, 1:-1, 2:] - x)
    around += y_faces[:-1] * (padded[:, :-2, 1:-1] - x) + y_faces[1:] * (padded[:, 2:, 1:-1] - x)
    v += -h[:, None, None] * around
    np.testing.assert_allclose(solver.apply(x), v, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(v, rhs, atol=1e-9)
    with pytest.raises(ValueError, match="has no sources or boundary values"):
        problem.rhs(1.0)


@pytest.mark.parametrize("method", ["auto", "multigrid", "modes"])
def test_tensor_products_without_a_mass(rng, method):
    nz, ny, nx = 5, 6, 7
    b = np.append(-rng.uniform(0.5, 1.0, nz - 1), 0.0)
    x_faces, y_faces = rng.uniform(0.5, 1.0, (ny, nx + 1)), rng.uniform(0.5, 1.0, (ny + 1, nx))
    problem = isobar.TensorProduct(np.zeros(nz), b, np.roll(b, 1), -np.ones(nz), np.ones((ny, nx)), x_faces, y_faces)
    rhs = rng.standard_normal(problem.shape)
    x = isobar.Solver(problem, method, device="cpu", tolerance=1e-10).solve(rhs).x
    np.testing.assert_allclose(problem.to_scipy() @ x.ravel(), rhs.ravel(), atol=1e-7)


def test_helmholtz_is_that_of_the_command():
    problem = isobar.Helmholtz.panel(16, 12, 8, courant=4.0)
    assert problem.shape == (8, 12, 16) and len(problem.coordinates) == 3
    result = isobar.Solver(problem, "multigrid", tolerance=1e-6).solve(problem.rhs())
    changes = {"grid": {"nx": 16, "ny": 12, "nz": 8}, "problem": {"courant": 4.0, "rhs": {"weighting": "volume"}}}
    case = isobar.solve(CASES / "panel.toml", solver={"method": "multigrid", "tolerance": 1e-6}, **changes)
    np.testing.assert_array_equal(result.x, case.x)
    assert isobar.Helmholtz.box(8, 8, 4, omega=0.1).shape == (4, 8, 8)
    with pytest.raises(ValueError, match="^omega: courant is given too; use one of them"):
        isobar.Helmholtz.panel(8, 8, 4, courant=2.0, omega=0.1)


def test_norne_in_a_few_lines():
    result = isobar.solve(CASES / "norne.toml", device="cpu", **{"solver.tolerance": 1e-8})
    assert result.converged and result.x.shape == (22, 112, 46)
    assert result.report["case"].endswith("norne.toml") and result.report["problem"]["kind"] == "diffusion"
    assert result.report["checks"]["norm2"] == pytest.approx(np.linalg.norm(result.x))
    json.dumps(result.report)


def test_lines_of_a_batch_by_themselves():
    result = isobar.solve(CASES / "jacobi-batch.toml", device="cpu", **{"grid.nx": 40, "grid.ny": 36})
    assert result.batch.iterations.shape == (36,) and result.batch.iterations.max() == result.iterations
    assert 0 < result.batch.worst <= result.tolerance
    assert result.batch.iterations.tolist() == result.report["outcome"]["batch"]["iterations"]
    assert isobar.Solver(isobar.Diffusion(np.ones((4, 4)), boundary={"x": 0.0})).solve(np.ones((4, 4))).batch is None


def test_cases_keep_what_they_say(tmp_path):
    path = tmp_path / "case.toml"
    path.write_text('[problem]\nkind = "poisson"\n[grid]\nnx = 8\nny = 8\n[diffusion]\nboundary.west = "dirichlet"\n'
                    '[solver]\ntolerance = 1e-3\npreconditioner.kind = "line"\n')
    case = isobar.Case(path, grid={"nx": 16})
    assert case.shape == (1, 8, 16)
    assert isobar.Solver(case).preconditioner == "line"
    assert isobar.Solver(case, tolerance=1e-9).preconditioner == "line"
    assert isobar.Solver(case, tolerance=1e-9).solve(case.rhs()).residual <= 1e-9
    assert isobar.Solver(case, preconditioner={"kind": "jacobi"}).preconditioner == "jacobi"
    assert isobar.solve(path, **{"grid.ny": 4}).x.shape == (1, 4, 8)


def test_updates_and_first_guesses(rng):
    kappa = rng.uniform(1.0, 2.0, (6, 8, 8))
    solver = isobar.Solver(isobar.Diffusion(kappa, boundary={"x": 0.0}), tolerance=1e-10)
    other = isobar.Diffusion(kappa[::-1], boundary={"x": 0.0})
    solver.update(other)
    b = other.rhs(1.0)
    expected = isobar.Solver(other, tolerance=1e-10).solve(b).x
    x = solver.solve(b).x
    np.testing.assert_allclose(x, expected, rtol=1e-7)
    again = solver.solve(b, x0=x)
    assert again.iterations == 0 and again.x is not x
    np.testing.assert_array_equal(again.x, x)
    guess = np.zeros_like(x)
    assert solver.solve(b, x0=guess, out=guess).x is guess
    np.testing.assert_allclose(guess, x, rtol=1e-7)
    rhs = b.copy()
    solver.solve(rhs, x0=x, out=rhs)
    np.testing.assert_allclose(rhs, x, rtol=1e-7)
    with pytest.raises(ValueError):
        solver.update(isobar.Diffusion(np.ones((6, 8, 4)), boundary={"x": 0.0}))


def test_inactive_cells_may_hold_anything(rng):
    active = rng.random((9, 12)) < 0.7
    solver = isobar.Solver(isobar.Diffusion(rng.lognormal(size=active.shape), active=active, boundary=0.0))
    b, first = rng.normal(size=(2, *active.shape))
    expected = solver.solve(np.where(active, b, 0.0), x0=np.where(active, first, 0.0))
    for anything in (np.nan, np.inf, -np.inf, 1e155, -1e300):
        given = solver.solve(np.where(active, b, anything), x0=np.where(active, first, anything))
        assert given.converged and given.history.tolist() == expected.history.tolist()
        np.testing.assert_array_equal(given.x, expected.x)
        several = solver.solve(np.stack([np.where(active, b, anything)] * 2))
        np.testing.assert_array_equal(several.x[0], several.x[1])
        assert several.converged and abs(several.x[0] - expected.x).max() < 1e-5 * abs(expected.x).max()
        # A product, and derivatives.
        np.testing.assert_array_equal(solver.apply(np.where(active, first, anything)), solver.apply(np.where(active, first, 0.0)))
        xbar = np.where(active, first, anything)
        np.testing.assert_array_equal(given.gradient(xbar).kappa, expected.gradient(np.where(active, first, 0.0)).kappa)
    with pytest.raises(ValueError, match="^x0 is NaN"):
        solver.solve(b, x0=np.where(active, np.nan, first))


def test_results_of_xarray(rng):
    pytest.importorskip("xarray")
    problem = isobar.Diffusion(rng.uniform(1.0, 2.0, (4, 6)), spacing=(0.5, np.linspace(1.0, 2.0, 6)), boundary={"x": 0.0})
    result = isobar.Solver(problem).solve(problem.rhs(1.0))
    array = result.to_xarray("head")
    assert array.dims == ("y", "x") and array.name == "head" and array.attrs["stop"] == "converged"
    np.testing.assert_array_equal(array.values, result.x)
    for name, centres in zip("yx", problem.coordinates):
        np.testing.assert_array_equal(array.coords[name], centres)
    # Without data of the cells.
    ones = np.ones((3, 3))
    column = isobar.TensorProduct(np.ones(2), np.zeros(2), np.zeros(2), -np.ones(2), ones, np.ones((3, 4)), np.ones((4, 3)))
    array = isobar.Solver(column).solve(np.ones((2, 3, 3))).to_xarray()
    assert array.dims == ("z", "y", "x") and not array.coords


def test_results_read_well(rng):
    problem = isobar.Diffusion(rng.uniform(1.0, 2.0, (4, 6, 8)), boundary={"x": 0.0})
    solver = isobar.Solver(problem, device="cpu", threads=1)
    result = solver.solve(problem.rhs(1.0))
    assert repr(result).startswith("<isobar.Result: converged in ") and repr(result).endswith("x (4, 6, 8)>")
    assert repr(solver).startswith("<isobar.Solver: cg with multigrid in f64 on (4, 6, 8), cpu")
    assert repr(problem) == "<isobar.Diffusion (4, 6, 8), 192 cells>"
    assert result.history[0] == 1.0 and len(result.history) == result.iterations + 1
    assert result.stop == "converged" and result.advice is None and result.seconds > 0
    assert result.report["device"]["threads"] == 1


def test_error_estimates():
    held = np.zeros((24, 24))
    held[8:12, 8:12] = 1e8
    problem = isobar.Diffusion(np.ones(held.shape), spacing=1.0, boundary=0.0, reaction=held)
    b = problem.rhs(held)
    exact = oracle.solve(problem.to_scipy(), b)
    for tolerance, is_shown in ((1e-8, True), (1e-14, False)):
        result = isobar.Solver(problem, "cg", "cpu", tolerance).solve(b)
        error = np.linalg.norm(result.x - exact) / np.linalg.norm(exact)
        assert result.converged and result.error_estimate >= error
        assert (error > 0.05) == is_shown == ("estimated error" in repr(result))
        assert result.error_estimate == result.report["outcome"]["error_estimate"]
    assert isobar.Solver(problem, "multigrid", "cpu").solve(b).error_estimate is None


def test_plot(rng):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    for shape in [(8,), (6, 8), (4, 6, 8)]:
        problem = isobar.Diffusion(np.ones(shape), boundary={"x": 0.0})
        figure = isobar.Solver(problem).solve(problem.rhs(1.0)).plot()
        figure.canvas.draw()
        plt.close(figure)


def test_inactive_cells_are_blank_in_plots():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    active = np.ones((6, 8), bool)
    active[2:4, 3:5] = False
    options = {"boundary": {"west": 5.0, "east": 3.0}, "active": active}
    problem = isobar.Diffusion(np.ones(active.shape), **options)
    faces = isobar.Faces(np.ones((6, 7)), np.ones((5, 8)), shift=1.0, active=active)
    heat = isobar.Heat(np.ones(active.shape), **options)
    for result in (
        isobar.Solver(problem).solve(problem.rhs()),
        isobar.Solver(faces).solve(np.where(active, np.linspace(4.0, 5.0, 8), 0.0)),
        heat.solve(4.0, dt=0.1, end_time=0.2),
    ):
        figure = result.plot()
        image = figure.axes[1].images[0]
        shown = np.ma.filled(image.get_array(), np.nan)
        np.testing.assert_array_equal(np.isnan(shown), ~active)
        assert image.get_clim() == (np.nanmin(shown), np.nanmax(shown)) and image.get_clim()[0] > 2.9
        np.testing.assert_array_equal(result.x[~active], 0.0)
        plt.close(figure)
    column = isobar.TensorProduct(np.ones(3), np.zeros(3), np.zeros(3), -np.ones(3), np.ones((4, 4)), np.ones((4, 5)), np.ones((5, 4)))
    plt.close(isobar.Solver(column).solve(np.ones(column.shape)).plot())


@pytest.mark.parametrize("method", ["auto", "direct", "modes", "multigrid", "cg"])
def test_a_closed_tensor_product_without_mass_has_a_free_constant(method):
    n, nz = 8, 3
    x_faces, y_faces = np.ones((n, n + 1)), np.ones((n + 1, n))
    x_faces[:, [0, -1]], y_faces[[0, -1]] = 0.0, 0.0
    below, above = np.array([-1.0, -2.0, 0.0]), np.array([0.0, -1.0, -2.0])
    closed = isobar.TensorProduct(np.zeros(nz), below, above, -np.ones(nz), np.ones((n, n)), x_faces, y_faces)
    b = np.random.default_rng(0).normal(size=(nz, n, n)) + 0.3
    solver = isobar.Solver(closed, method=method, tolerance=1e-8, device="cpu")
    with pytest.raises(ValueError, match="must add up to 0"):
        solver.solve(b)
    found = solver.solve(b - b.mean(), 1e6)
    assert found.converged and abs(found.x.mean()) < 1e-9
    gradient = found.gradient(np.ones(closed.shape) + b).b
    assert abs(gradient.mean()) < 1e-9 and np.abs(gradient).max() > 0.1
    project = isobar.Solver(closed, method=method, tolerance=1e-8, compatibility="project", device="cpu")
    projected = project.solve(b)
    assert projected.converged and np.abs(projected.x - found.x).max() < 1e-6
    # An update adds mass, and takes it away.
    heavy = isobar.TensorProduct(np.ones(nz), below, above, -np.ones(nz), np.ones((n, n)), x_faces, y_faces)
    for problem, is_free in ((heavy, False), (closed, True)):
        solver.update(problem)
        x = solver.solve(b - b.mean()).x
        assert np.abs(problem.to_scipy() @ x.ravel() - (b - b.mean()).ravel()).max() < 1e-5
        if is_free:
            assert abs(x.mean()) < 1e-9
