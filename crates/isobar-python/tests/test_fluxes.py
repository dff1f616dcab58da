"""Fluxes through faces and sides."""

import numpy as np
import oracle
import pytest

import isobar

SIDES = ("west", "east", "south", "north", "bottom", "top")


def outward(fluxes):
    """Return the outflow of every cell, from fluxes across x, y and z."""
    dims = len(fluxes)
    return sum(np.diff(flux, axis=dims - 1 - d) for d, flux in enumerate(fluxes))


@pytest.mark.parametrize("shape", [(17,), (1, 9), (11, 8), (5, 6, 7)])
@pytest.mark.parametrize("f", [0.0, 2.5])
def test_what_flows_in_flows_out(rng, shape, f):
    kappa = np.exp(2.0 * rng.standard_normal(shape))
    kappa[rng.random(shape) < 0.15] = 0.0
    kappa[(0,) * len(shape)] = 1.0
    spacing = tuple(rng.uniform(0.5, 2.0, n) for n in shape)
    boundary = {"west": 1.0, "east": {"neumann": 0.3}}
    if len(shape) > 1:
        boundary["y"] = "periodic"
    problem = isobar.Diffusion(kappa, spacing=spacing if len(shape) > 1 else spacing[0], boundary=boundary)
    solver = isobar.Solver(problem, tolerance=1e-13, device="cpu", compatibility="project")
    b = problem.rhs(f)
    x = solver.solve(b).x
    fluxes = solver.fluxes(x)
    assert isinstance(fluxes, tuple) and len(fluxes) == len(shape)
    for d, flux in enumerate(fluxes):
        assert flux.shape == tuple(n + (m == len(shape) - 1 - d) for m, n in enumerate(shape)) and flux.dtype == np.float64
    # The outflow of a cell equals its source, where a side fixes u.
    conditions = [(None, None)] * len(shape)
    conditions[-1] = (1.0, ("flux", 0.3))
    if len(shape) > 1:
        conditions[-2] = ("periodic", "periodic")
    A, b_oracle = oracle.assemble(kappa, spacing if len(shape) > 1 else (spacing[0],), conditions, f=f)
    _, b_sides = oracle.assemble(kappa, spacing if len(shape) > 1 else (spacing[0],), conditions)
    np.testing.assert_allclose(b, b_oracle, atol=1e-13)
    expected = (A @ x.ravel()).reshape(shape) - b_sides
    scale = max(abs(flux).max() for flux in fluxes)
    np.testing.assert_allclose(outward(fluxes), expected, atol=1e-12 * scale)
    # The sides' totals are the sums over their faces.
    for side in SIDES[: 2 * len(shape)]:
        axis, is_upper = SIDES.index(side) // 2, SIDES.index(side) % 2
        total = np.take(fluxes[axis], -1 if is_upper else 0, axis=len(shape) - 1 - axis).sum()
        assert solver.flux(x, side) == pytest.approx(total if is_upper else -total, abs=1e-12 * scale)
    total = sum(solver.flux(x, side) for side in ("west", "east"))
    assert total == pytest.approx((A @ x.ravel() - b_sides.ravel()).sum(), abs=1e-10 * scale)


def test_energy_is_the_power_between_two_sides(rng):
    kappa = rng.uniform(0.1, 10.0, (6, 5, 8))
    problem = isobar.Diffusion(kappa, spacing=0.5, boundary={"bottom": 3.0, "top": 1.0})
    solver = isobar.Solver(problem, tolerance=1e-12, device="cpu")
    x = solver.solve(problem.rhs()).x
    assert solver.energy(x) == pytest.approx(0.5 * 2.0 * solver.flux(x, "top"), rel=1e-9)
    assert solver.flux(x, "bottom") == pytest.approx(-solver.flux(x, "top"), rel=1e-9)
    assert solver.flux(x, "west") == 0.0


def test_arrays_of_other_types_and_orders():
    kappa = np.ones((4, 6))
    problem = isobar.Diffusion(kappa, spacing=1.0, boundary={"x": 1.0})
    solver = isobar.Solver(problem, device="cpu")
    x = np.arange(24.0).reshape(4, 6)
    expected = solver.fluxes(x)
    for other in (np.asfortranarray(x), x.astype(np.float32), x.tolist(), x[None]):
        for one, two in zip(solver.fluxes(other), expected):
            np.testing.assert_allclose(one, two, rtol=1e-6)
    assert solver.fluxes(x.astype(np.float32))[0].dtype == np.float32
    with pytest.raises(ValueError, match=r"x has shape \(3, 6\)"):
        solver.fluxes(x[:3])
    with pytest.raises(ValueError, match="side: 'bottom'; use west, east, south, north"):
        solver.flux(x, "bottom")
    torch = pytest.importorskip("torch")
    found = solver.fluxes(torch.from_numpy(x))
    assert isinstance(found[0], torch.Tensor) and np.allclose(found[0].numpy(), expected[0])


def test_fluxes_belong_to_cells():
    solver = isobar.Solver(isobar.Helmholtz.panel(8, 8, 4), device="cpu")
    with pytest.raises(ValueError, match="fluxes are computed for diffusion in cells and for conductances"):
        solver.fluxes(np.ones((4, 8, 8)))


def test_the_new_coefficients_count():
    make = lambda k: isobar.Diffusion(np.full(8, k), spacing=1.0, boundary={"west": 1.0, "east": 0.0})  # noqa: E731
    solver = isobar.Solver(make(1.0), tolerance=1e-12, device="cpu")
    solver.update(make(5.0))
    x = solver.solve(make(5.0).rhs()).x
    assert solver.flux(x, "east") == pytest.approx(5.0 / 8.0)


def test_a_case_has_fluxes(tmp_path):
    case = tmp_path / "case.toml"
    case.write_text('problem.kind = "diffusion"\ngrid = { nx = 4, ny = 1 }\n[diffusion.boundary]\nwest = { dirichlet = 2.0 }\neast = "dirichlet"\n')
    problem = isobar.Case(case)
    solver = isobar.Solver(problem, tolerance=1e-12, device="cpu")
    x = solver.solve(problem.rhs()).x
    assert solver.flux(x, "east") == pytest.approx(2.0)


def test_arrays_that_are_converted(rng):
    # A converted copy must live as long as the call that reads it.
    problem = isobar.Diffusion(np.exp(rng.standard_normal((5, 7, 9))), boundary={"x": 0.0}, spacing=1.0)
    solver = isobar.Solver(problem, device="cpu")
    whole = rng.integers(-9, 9, problem.shape)
    x = whole.astype(float)
    for given in (whole, x.astype(np.float16), whole.astype(">i4"), x.tolist()):
        assert solver.flux(given, "west") == solver.flux(x, "west")
        assert solver.energy(given) == solver.energy(x)
        np.testing.assert_array_equal(solver.fluxes(given)[0], solver.fluxes(x)[0])
