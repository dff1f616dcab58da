"""Sides of every kind, by numbers and by fields, and matrices of conductances, compared with SciPy."""

import numpy as np
import oracle
import pytest
import scipy.sparse as sp

import isobar

SHAPES = [(9,), (7, 6), (1, 8), (4, 5, 6), (3, 1, 5)]
PAIRS = [("west", "east"), ("south", "north"), ("bottom", "top")]


def condition(rng, faces):
    """Return conditions on sides, for isobar and for the oracle."""
    number = lambda: rng.standard_normal(faces) if faces and rng.integers(2) else float(rng.standard_normal())
    positive = lambda: abs(number()) if rng.integers(4) else 0.0
    match rng.integers(5):
        case 0:
            value = number()
            return value, value
        case 1:
            value = number()
            return {"dirichlet": value}, value
        case 2:
            flux = number()
            return {"neumann": flux}, ("flux", flux)
        case _:
            h, v = positive(), number()
            return {"robin": {"coefficient": h, "value": v}}, ("robin", h, v)


def setting(seed, shape):
    rng = np.random.default_rng(seed)
    kappa = np.exp(rng.standard_normal(shape))
    active = rng.uniform(size=shape) > 0.15
    active.flat[0] = True
    spacing = tuple(rng.uniform(0.2, 1.0, n) for n in shape)
    ours, theirs = {}, []
    for d in range(len(shape)):
        faces = shape[:d] + shape[d + 1 :]
        names = PAIRS[len(shape) - 1 - d]
        if rng.integers(5) == 0 and shape[d] > 2:
            ours[names[0]] = ours[names[1]] = "periodic"
            theirs.append(("periodic", "periodic"))
            continue
        pair = [condition(rng, faces) for _ in names]
        ours.update({name: mine for name, (mine, _) in zip(names, pair)})
        theirs.append(tuple(other for _, other in pair))
    return rng, kappa, active, spacing, ours, theirs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(8))
def test_every_kind_of_side(seed, shape):
    rng, kappa, active, spacing, ours, theirs = setting(seed, shape)
    f = rng.standard_normal(shape)
    # A reaction, so that no component floats.
    problem = isobar.Diffusion(kappa, spacing, ours, active=active, reaction=0.1)
    A, b = oracle.assemble(kappa, spacing, theirs, 0.1, active, f)
    np.testing.assert_allclose(problem.rhs(f), b, rtol=1e-12, atol=1e-12)
    solver = isobar.Solver(problem, tolerance=1e-12, device="cpu")
    u = rng.standard_normal(shape)
    np.testing.assert_allclose(solver.apply(u).ravel(), A @ u.ravel(), rtol=1e-11, atol=1e-11)
    result = solver.solve(problem.rhs(f))
    expected = oracle.solve(A, b)
    assert result.converged
    np.testing.assert_allclose(result.x, expected, atol=1e-8 * abs(expected).max())


@pytest.mark.parametrize("method", ["auto", "direct", "cg", "multigrid"])
@pytest.mark.parametrize("shape", [(16,), (12, 16), (6, 8, 10)])
def test_uniform_films_around_a_box(rng, method, shape):
    film = {"robin": {"coefficient": 3.0, "value": 2.0}}
    problem = isobar.Diffusion(np.full(shape, 0.7), boundary={"all": film, "west": {"robin": {"coefficient": 0.5, "value": -1.0}}})
    theirs = [(("robin", 3.0, 2.0),) * 2] * (len(shape) - 1) + [(("robin", 0.5, -1.0), ("robin", 3.0, 2.0))]
    f = rng.standard_normal(shape)
    A, b = oracle.assemble(np.full(shape, 0.7), boundary=theirs, f=f)
    solver = isobar.Solver(problem, method, tolerance=1e-12)
    if method == "auto" and len(shape) > 1:
        assert solver.method == "direct"
    np.testing.assert_allclose(solver.solve(problem.rhs(f)).x, oracle.solve(A, b), atol=1e-9)


def test_large_coefficients_take_as_many_iterations_as_given_values(rng):
    kappa = np.exp(rng.standard_normal((24, 24, 24)))
    counts = []
    for side in (2.0, {"robin": {"coefficient": 1e6, "value": 2.0}}, {"robin": {"coefficient": 1.0, "value": 2.0}}):
        problem = isobar.Diffusion(kappa, boundary=side)
        counts.append(isobar.Solver(problem, tolerance=1e-10, device="cpu").solve(problem.rhs(1.0)).iterations)
    assert max(counts[1:]) <= counts[0] + 6, counts


def test_solvers_go_on_with_other_coefficients_of_sides(rng):
    kappa = rng.uniform(1.0, 2.0, (5, 6))
    of = lambda h: isobar.Diffusion(kappa, boundary={"x": {"robin": {"coefficient": h, "value": 1.0}}})
    solver = isobar.Solver(of(0.0), tolerance=1e-11)
    for h in (2.0, rng.uniform(0.0, 1.0, 5)):
        solver.update(of(h))
        A, b = oracle.assemble(kappa, boundary=[(None, None), (("robin", h, 1.0),) * 2], f=1.0)
        np.testing.assert_allclose(solver.solve(of(h).rhs(1.0)).x, oracle.solve(A, b), rtol=1e-8)


def test_heat_through_films(rng):
    """Check backward Euler, step by step; the caller may change its arrays."""
    kappa, h, v = np.ones((4, 8)), rng.uniform(0.5, 2.0, 4), rng.standard_normal(4)
    given = h.copy()
    heat = isobar.Heat(kappa, boundary={"west": {"robin": {"coefficient": given, "value": v}}})
    given[:] = np.nan
    A, b = oracle.assemble(kappa, boundary=[(None, None), (("robin", h, v), None)])
    mass, u = sp.eye(32) / 32, np.zeros(32)
    for _ in range(3):
        u = sp.linalg.spsolve((mass / 0.1 + A).tocsc(), mass @ u / 0.1 + b.ravel())
    found = heat.solve(0.0, dt=0.1, end_time=0.3, scheme="backward-euler", tolerance=1e-12).x
    np.testing.assert_allclose(found.ravel(), u, atol=1e-9)


def laplacian(faces, shift, active):
    """Return Σ T (u_n − u_m) + s u, from differences."""
    shape = active.shape
    A = sp.diags(np.where(active, shift, 0.0).ravel())
    number = np.arange(active.size).reshape(shape)
    for axis, t in faces.items():
        lower, upper = np.delete(number, -1, axis).ravel(), np.delete(number, 0, axis).ravel()
        if t.size == number.size:
            lower, upper = number.ravel(), np.roll(number, -1, axis).ravel()
        t = np.where(active.ravel()[lower] & active.ravel()[upper], t.ravel(), 0.0)
        rows = np.arange(t.size)
        D = sp.coo_matrix((np.ones(t.size), (rows, upper)), (t.size, active.size)) - sp.coo_matrix(
            (np.ones(t.size), (rows, lower)), (t.size, active.size)
        )
        A = A + D.T @ sp.diags(t) @ D
    return A.tocsr()


@pytest.mark.parametrize("shape", [(9,), (7, 6), (1, 8), (4, 5, 6), (3, 1, 5), (6, 9, 12)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("periodic", ["", "x", "yz", "xyz"])
def test_conductances(rng, shape, masked, periodic):
    periodic = [name for name in periodic if "xyz".index(name) < len(shape)]
    faces = {}
    for d, n in enumerate(shape):
        wanted = [*shape]
        wanted[d] -= "xyz"[len(shape) - 1 - d] not in periodic
        faces[d] = np.exp(2 * rng.standard_normal(wanted)) * (rng.uniform(size=wanted) > 0.1)
    shift = rng.uniform(0.1, 1.0, shape)
    active = rng.uniform(size=shape) > 0.2 if masked else np.ones(shape, bool)
    active.flat[0] = True
    names = ["tx", "ty", "tz"]
    given = {names[len(shape) - 1 - d]: t for d, t in faces.items()}
    problem = isobar.Faces(**given, shift=shift, active=active if masked else None, periodic=periodic)
    assert problem.shape == shape
    A = laplacian(faces, shift, active)
    solver = isobar.Solver(problem, tolerance=1e-12, device="cpu")
    u = rng.standard_normal(shape)
    np.testing.assert_allclose(solver.apply(u).ravel(), A @ u.ravel(), rtol=1e-11, atol=1e-11)
    b = problem.rhs(rng.standard_normal(shape))
    assert (b[~active] == 0.0).all()
    expected = oracle.solve(A, b)
    for options in ({}, {"method": "cg"}, {"method": "bicgstab"}, {"method": "cg", "preconditioner": "line"}, {"method": "cg", "preconditioner": "ic"}):
        result = isobar.Solver(problem, **options, tolerance=1e-12, device="cpu").solve(b)
        assert result.converged, options
        np.testing.assert_allclose(result.x, expected, atol=1e-8 * abs(expected).max(), err_msg=str(options))
    # What flows out of a cell is what flows in, less what goes to the values that the shift ties it to.
    fluxes = solver.fluxes(u)
    outflow = sum(np.diff(q, axis=len(shape) - 1 - axis) for axis, q in enumerate(fluxes))
    np.testing.assert_allclose(outflow, (A @ u.ravel()).reshape(shape) - np.where(active, shift, 0.0) * u, atol=1e-11 * abs(outflow).max() + 1e-14)
    between = sum((t * np.where(active & np.roll(active, -1, d), u - np.roll(u, -1, d), 0.0)[tuple(map(slice, t.shape))] ** 2).sum() for d, t in faces.items())
    assert solver.energy(u) == pytest.approx(between / 2, rel=1e-12, abs=1e-14)
    with pytest.raises(ValueError, match="have no sides"):
        solver.flux(u, "west")


def test_conductances_without_a_shift(rng):
    """Check singular problems: the mean of u is 0; a direction may be closed."""
    tx, ty = rng.uniform(0.5, 2.0, (6, 7)), rng.uniform(0.5, 2.0, (5, 8))
    b = rng.standard_normal((6, 8))
    b -= b.mean()
    x = isobar.Solver(isobar.Faces(tx, ty), tolerance=1e-12).solve(b).x
    A = laplacian({1: tx, 0: ty}, 0.0, np.ones((6, 8), bool))
    np.testing.assert_allclose(x, oracle.solve(A, b), atol=1e-9)
    b -= b.mean(axis=1, keepdims=True)
    rows = isobar.Solver(isobar.Faces(tx), tolerance=1e-12).solve(b).x
    A = laplacian({1: tx}, 0.0, np.ones((6, 8), bool))
    np.testing.assert_allclose(A @ rows.ravel(), b.ravel(), atol=1e-9)
    np.testing.assert_allclose(rows.mean(axis=1), 0.0, atol=1e-9)
    assert repr(isobar.Faces(tx)).startswith("<isobar.Faces (6, 8)") and isobar.Faces(tx).coordinates is None


def test_a_problem_and_its_conductances(rng):
    kappa = rng.uniform(0.5, 2.0, (4, 5, 6))
    A, b = oracle.assemble(kappa, boundary=[(None, None), (None, None), (1.0, ("robin", 2.0, 3.0))], f=1.0)
    number = np.arange(kappa.size).reshape(kappa.shape)
    between = lambda axis: -np.asarray(A.tocsr()[np.delete(number, -1, axis).ravel(), np.delete(number, 0, axis).ravel()]).ravel()
    tx, ty, tz = (between(axis).reshape(np.delete(number, -1, axis).shape) for axis in (2, 1, 0))
    problem = isobar.Faces(tx, ty, tz, shift=np.asarray(A.sum(axis=1)).reshape(kappa.shape).clip(0.0))
    x = isobar.Solver(problem, tolerance=1e-12).solve(b).x
    np.testing.assert_allclose(x, oracle.solve(A, b), rtol=1e-9)


@pytest.mark.parametrize("method", ["auto", "direct", "cg", "multigrid"])
def test_equal_conductances_are_a_box(rng, method):
    tx, ty, shift = np.full((12, 15), 2.0), np.full((11, 16), 0.5), np.zeros((12, 16))
    shift[:, 0] += 4.0
    b = rng.standard_normal(shift.shape)
    A = laplacian({1: tx, 0: ty}, shift, np.ones(shift.shape, bool))
    x = isobar.Solver(isobar.Faces(tx, ty, shift=shift), method, tolerance=1e-12).solve(b).x
    np.testing.assert_allclose(x, oracle.solve(A, b), atol=1e-9)


def test_case_files_are_the_same(rng, tmp_path):
    kappa, west, h = rng.uniform(1.0, 2.0, (5, 6, 7)), rng.standard_normal((5, 6)), rng.uniform(0.0, 2.0, (6, 7))
    for name, array in (("kappa", kappa), ("west", west), ("h", h)):
        np.save(tmp_path / f"{name}.npy", array)
    path = tmp_path / "case.toml"
    path.write_text(
        """
        [problem]
        kind = "diffusion"
        [grid]
        nx = 7
        ny = 6
        nz = 5
        [diffusion]
        coefficient = { file = "kappa.npy" }
        [diffusion.boundary]
        all = 1.0
        y = "periodic"
        west = { file = "west.npy" }
        top = { robin = { coefficient = { file = "h.npy" }, value = -2 } }
        """
    )
    film = {"robin": {"coefficient": h, "value": -2.0}}
    ours = isobar.Diffusion(kappa, boundary={"all": 1.0, "y": "periodic", "west": west, "top": film})
    case = isobar.Case(path)
    np.testing.assert_array_equal(case.rhs(), ours.rhs())
    u = rng.standard_normal(kappa.shape)
    np.testing.assert_array_equal(isobar.Solver(case).apply(u), isobar.Solver(ours).apply(u))
    tx, tz, shift = rng.uniform(1.0, 2.0, (5, 1, 6)), rng.uniform(1.0, 2.0, (4, 1, 7)), rng.uniform(0.0, 1.0, (5, 1, 7))
    for name, array in (("tx", tx), ("tz", tz), ("s", shift), ("b", u[:, :1])):
        np.save(tmp_path / f"{name}.npy", array)
    path.write_text(
        """
        problem = { kind = "diffusion", rhs = { kind = "file", path = "b.npy" } }
        grid = { nx = 7, ny = 1, nz = 5 }
        faces = { x = "tx.npy", z = "tz.npy", shift = "s.npy" }
        """
    )
    case, ours = isobar.Case(path), isobar.Faces(tx, None, tz, shift)
    np.testing.assert_array_equal(case.rhs(), u[:, :1])
    np.testing.assert_array_equal(isobar.Solver(case).apply(u[:, :1]), isobar.Solver(ours).apply(u[:, :1]))
    result = isobar.Solver(case, tolerance=1e-11).solve(case.rhs())
    A = laplacian({2: tx, 0: tz}, shift, np.ones(shift.shape, bool))
    np.testing.assert_allclose(result.x, oracle.solve(A, u[:, :1]), rtol=1e-8)
