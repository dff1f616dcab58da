"""Problems with coefficients on a GPU: the way there with arrays of NumPy, and everything with arrays of three libraries, if there is a GPU."""

import importlib

import numpy as np
import pytest

import isobar
from isobar._gradient import SIDES, pulled_back, side_gradient
from isobar._libraries import operations
from isobar._on_gpu import Affine
from isobar._problems import Problem
from test_cuda import on_card

needs_gpu = pytest.mark.skipif(not on_card(), reason="no NVIDIA GPU")


def cases():
    """Yield names, and arguments of `Diffusion`, of all kinds of sides, widths, masks, points and numbers of κ."""
    rng = np.random.default_rng(11)
    shape = (4, 6, 8)
    uneven = tuple(rng.uniform(0.5, 2.0, n) for n in shape)
    robin = {"robin": {"coefficient": rng.uniform(0.0, 3.0, shape[:2]), "value": rng.standard_normal(shape[:2])}}
    sides = {"west": robin, "east": 2.0, "south": {"neumann": rng.standard_normal((4, 8))}, "top": rng.standard_normal((6, 8))}
    kappa = [rng.uniform(0.5, 3.0, shape) for _ in range(3)]
    some = kappa[0] * (rng.random(shape) < 0.8)
    yield "closed", (kappa[0],), {"reaction": 0.5}
    yield "fixed", (kappa[0],), {"boundary": {"x": 0.0, "y": 1.0}, "spacing": 0.25}
    yield "uneven", (tuple(kappa),), {"boundary": sides, "spacing": uneven, "reaction": rng.uniform(0.0, 2.0, shape)}
    yield "two", (tuple(kappa[:2]),), {"boundary": {"x": "periodic", "bottom": 1.0}, "spacing": (0.5, 1.0, 2.0)}
    yield "holes", (some,), {"boundary": {"all": 1.0}, "reaction": 0.1}
    points = {"sources": [{"i": 1, "j": 2, "rate": 3.0}], "wells": [{"i": 5, "j": 4, "k": [1, 2], "value": 2.0, "radius": 0.01}]}
    active = rng.random(shape) < 0.8
    active[:, 2, 1] = active[1, 4, 5] = True
    yield "masked", (some + 0.1,), {"boundary": {"west": 1.0, "top": robin_of(rng, shape[1:])}, "active": active}
    yield "points", (kappa[0],), {"boundary": {"y": "periodic"}, **points}
    yield "points, masked", (tuple(kappa),), {"spacing": uneven, "active": active, "reaction": rng.uniform(0.0, 2.0, shape), **points}
    yield "plane", (kappa[0][0],), {"boundary": {"y": "periodic", "west": 3.0}}
    yield "line", (kappa[0][0, 0],), {"boundary": {"west": 3.0}}
    odd = rng.uniform(0.5, 3.0, (3, 5, 7))
    yield "odd", (odd,), {"boundary": {"x": "periodic", "y": "periodic", "top": 2.0}, "reaction": rng.uniform(0.0, 2.0, odd.shape)}
    yield "odd, uneven", ((odd, 2 * odd),), {"boundary": {"y": "periodic", "west": 1.0}, "spacing": tuple(rng.uniform(0.5, 2.0, n) for n in odd.shape)}
    yield "odd plane", (odd[0],), {"boundary": {"x": "periodic", "y": "periodic"}, "reaction": 0.5}


def robin_of(rng, faces):
    return {"robin": {"coefficient": rng.uniform(0.5, 3.0, faces), "value": 2.0}}


def there(kappa, spacing=None, boundary=None, active=None, reaction=None, sources=(), wells=()):
    """Return the problem that arrays on a GPU make, made of arrays of NumPy."""
    problem = object.__new__(isobar.Diffusion)
    problem._make_on_gpu(kappa if isinstance(kappa, tuple) else (kappa,), spacing, boundary, active, reaction, sources, wells)
    return problem


def applied(problem, x):
    return isobar.Solver(problem, device="cpu").apply(x)


CASES = {name: given for name, *given in cases()}


@pytest.mark.parametrize("name", CASES)
def test_coefficients_make_the_problem_that_they_are_of(name):
    (kappa,), options = CASES[name]
    problem, same = isobar.Diffusion(kappa, **options), there(kappa, **options)
    coefficients = same._on_gpu
    assert same.shape == problem.shape
    f = np.random.default_rng(3).standard_normal(problem.shape)
    for body in (None, 2.0, f):
        np.testing.assert_allclose(coefficients.rhs(body, problem.shape), problem.rhs(body), rtol=1e-13, atol=1e-15)
    x = np.random.default_rng(4).standard_normal(problem.shape)
    expected = applied(problem, x)
    assert "_system" not in same.__dict__
    for made in (Problem(coefficients.system(), problem._dimensions), same, same.replace(kappa)):
        np.testing.assert_allclose(applied(made, x), expected, rtol=1e-12, atol=1e-13)
    (reaction, active), (wanted, mask) = same._own_fields(), problem._own_fields()
    assert np.array_equal(active, mask) and np.array_equal(reaction, wanted if mask is None or wanted is None else np.where(mask, wanted, 0.0))
    np.testing.assert_allclose(Affine(problem).rhs(f), problem.rhs(f), rtol=1e-13, atol=1e-13)
    adjoint = np.random.default_rng(5).standard_normal(problem.shape)
    for fixed_b in (False, True):
        for found, expected in zip(coefficients.pulled_back(x, adjoint, fixed_b, problem.shape), pulled_back(problem, x, adjoint, fixed_b)):
            np.testing.assert_array_equal(found, expected)
        for d, upper in ((0, False), (0, True)):
            faces = problem.shape[:-1]
            expected = side_gradient(problem, x, adjoint, SIDES[2 * d + upper], fixed_b)
            for found, wanted in zip(coefficients.by_side(x, adjoint, d, upper, fixed_b, faces), expected):
                np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(coefficients.by_density(x, adjoint, problem.shape, of_reaction=True), -problem._volumes() * adjoint * x, rtol=1e-14)
    np.testing.assert_allclose(coefficients.by_density(x, adjoint, problem.shape, of_reaction=False), problem._volumes() * adjoint, rtol=1e-14)


def test_numbers_in_inactive_cells_do_not_matter():
    (kappa,), options = CASES["points, masked"]
    closed = lambda field: np.where(options["active"], field, np.nan)
    same = there(tuple(map(closed, kappa)), **{**options, "reaction": closed(options["reaction"])})
    x = np.random.default_rng(4).standard_normal(same.shape)
    np.testing.assert_array_equal(applied(same, x), applied(isobar.Diffusion(kappa, **options), x))
    below = there(kappa, **{**options, "reaction": np.where(options["active"], 0.5, -1.0)})
    np.testing.assert_array_equal(applied(below, x), applied(isobar.Diffusion(kappa, **{**options, "reaction": 0.5}), x))


def test_misuse_of_points():
    kappa = np.ones((4, 6, 8))
    for points, words in (
        ({"sources": [{"i": 8, "j": 0, "rate": 1.0}]}, "outside the grid"),
        ({"sources": [{"i": 1, "j": 2, "rate": float("nan")}]}, "finite"),
        ({"wells": [{"i": 1, "j": 2, "value": 1.0, "radius": 0.0}]}, "positive radius"),
    ):
        with pytest.raises(ValueError, match=words):
            there(kappa, **points)
    kappa[:, 2, 1] = 0.0
    for points, words in (
        ({"sources": [{"i": 1, "j": 2, "rate": 1.0}]}, "inactive cells only"),
        ({"wells": [{"i": 3, "j": 3, "value": 1.0, "radius": 0.1}]}, "only reaches"),
    ):
        with pytest.raises(ValueError, match=words):
            there(kappa, **points)._on_gpu.system()


def test_residual_is_that_of_the_matrix():
    (kappa,), options = CASES["uneven"]
    problem = isobar.Diffusion(kappa, sources=[{"i": 1, "j": 2, "rate": 3.0}], wells=[{"i": 5, "j": 4, "value": 2.0, "radius": 0.01}], **options)
    residual, xp = problem._residual, problem._residual.operations("numpy")
    f, x, w = np.random.default_rng(5).standard_normal((3, *problem.shape))
    expected = problem.rhs(f) - isobar.Solver(problem, device="cpu").apply(x)
    found = residual.tested(xp, kappa, options["reaction"], f, x, w)
    assert found == pytest.approx((w * expected).sum(), rel=1e-12)


def test_large_values_on_sides_take_no_digits_of_sources():
    problem = isobar.Diffusion(np.ones((4, 5, 6)), boundary={"west": 1e14, "top": 3.0}, spacing=1e-3)
    f = np.random.default_rng(6).standard_normal(problem.shape) * 1e9
    affine = Affine(problem)
    assert affine._volumes == pytest.approx(1e-9, rel=1e-15)
    np.testing.assert_allclose(affine.rhs(f), problem.rhs(f), rtol=1e-15)


def test_coefficients_are_copies():
    kappa, reaction, active = np.full((4, 5, 6), 2.0), np.full((4, 5, 6), 0.5), np.ones((4, 5, 6))
    problem = isobar.Diffusion(kappa, reaction=reaction)
    coefficients = there(kappa, active=active, reaction=reaction)._on_gpu
    kappa *= 7
    reaction *= 7
    active[:] = 0
    x = np.random.default_rng(4).standard_normal(problem.shape)
    for found in (coefficients, coefficients.replaced((np.full((4, 5, 6), 2.0),))):
        np.testing.assert_allclose(applied(Problem(found.system(), 3), x), applied(problem, x), rtol=1e-13)


def test_arrays_on_the_host_have_no_operations_on_a_gpu():
    problem = isobar.Diffusion(np.ones(4), boundary={"x": 1.0})
    assert problem._on_gpu is None and operations("dask") is None
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        problem.other


def to_gpu(library):
    xp = importlib.import_module({"jax": "jax.numpy"}.get(library, library))
    if library == "jax":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    to = {"cupy": lambda a: xp.asarray(a), "torch": lambda a: xp.from_numpy(np.array(a)).cuda(), "jax": lambda a: xp.asarray(a)}[library]
    back = {"cupy": lambda a: xp.asnumpy(a), "torch": lambda a: a.cpu().numpy(), "jax": np.asarray}[library]
    return to, back


def on_both(library, name):
    """Return the ways to the GPU and back, that of one or several kappa, and a case on the host and on the GPU."""
    pytest.importorskip(library)
    to, back = to_gpu(library)
    (kappa,), options = CASES[name]
    moved = lambda kappa: tuple(map(to, kappa)) if isinstance(kappa, tuple) else to(kappa)
    of_cells = {name: to(options[name]) for name in ("reaction", "active") if np.ndim(options.get(name))}
    return to, back, moved, isobar.Diffusion(kappa, **options), isobar.Diffusion(moved(kappa), **{**options, **of_cells})


@needs_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
@pytest.mark.parametrize("name", CASES)
def test_problems_on_a_gpu(library, name):
    to, back, moved, host, problem = on_both(library, name)
    (kappa,), options = CASES[name]
    assert problem._on_gpu is not None and problem.shape == host.shape
    f = np.random.default_rng(3).standard_normal(host.shape)
    b = problem.rhs(to(f))
    assert type(b) is type(to(f)) and type(problem.rhs(2.0)) is type(b) and "_system" not in problem.__dict__
    np.testing.assert_allclose(back(b), host.rhs(f), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(problem.rhs(f), host.rhs(f))
    np.testing.assert_allclose(back(problem.rhs()), host.rhs(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(back(host.rhs(to(f))), host.rhs(f), rtol=1e-12, atol=1e-13)
    solver = isobar.Solver(problem, tolerance=1e-10)
    assert solver.device.startswith("cuda")
    x = solver.solve(b).x
    assert type(x) is type(b)
    expected = isobar.Solver(host, device="cpu", tolerance=1e-12).solve(host.rhs(f)).x
    np.testing.assert_allclose(back(x), expected, atol=1e-6 * abs(expected).max())
    # The solver's coefficients change to others on the GPU, and to some on the host.
    again = isobar.Solver(host, tolerance=1e-10, device="cuda")
    again.update(problem)
    np.testing.assert_allclose(back(again.solve(b).x), expected, atol=1e-6 * abs(expected).max())
    doubled = tuple(2 * each for each in kappa) if isinstance(kappa, tuple) else 2 * kappa
    for other, given in ((doubled, moved(doubled)), (kappa, kappa)):
        solver.update(problem.replace(given))
        expected = isobar.Solver(isobar.Diffusion(other, **options), device="cpu").apply(f)
        np.testing.assert_allclose(back(solver.apply(to(f))), expected, rtol=1e-9, atol=1e-10)


@needs_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_on_a_gpu(library, name):
    to, back, _, host, problem = on_both(library, name)
    f, xbar = np.random.default_rng(3).standard_normal((2, *host.shape))
    result = isobar.Solver(problem, tolerance=1e-10).solve(problem.rhs(to(f)))
    of_host = isobar.Solver(host, device="cpu", tolerance=1e-12).solve(host.rhs(f))
    names = SIDES[: 2 * len(host.shape)]
    for fixed_b in (False, True):
        found, expected = result.gradient(to(xbar), fixed_b=fixed_b), of_host.gradient(xbar, fixed_b=fixed_b)
        several = lambda gradient: gradient.kappa if isinstance(gradient.kappa, tuple) else (gradient.kappa,)
        sides = lambda gradient: [each for name in names for each in gradient.side(name)]
        pairs = [*zip(several(found), several(expected)), (found.reaction, expected.reaction), (found.f, expected.f), *zip(sides(found), sides(expected))]
        for here, there in pairs:
            assert type(here) is type(result.x) and tuple(here.shape) == there.shape
            np.testing.assert_allclose(back(here), there, atol=1e-6 * max(abs(there).max(), 1e-30))
        # From the same x and adjoint, to the last digits.
        pulled = pulled_back(host, back(result.x), back(found.b), fixed_b)
        for here, there in zip(several(found), pulled):
            np.testing.assert_allclose(back(here), there, atol=1e-12 * abs(there).max())
    assert "_system" not in problem.__dict__
    with pytest.raises(ValueError, match="side"):
        found.side("middle")
    # What is not on the GPU is computed on the host.
    by_host = result.gradient(xbar)
    assert isinstance(by_host.f, np.ndarray)


@needs_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_free_constants_on_a_gpu(library):
    pytest.importorskip(library)
    to, back = to_gpu(library)
    rng = np.random.default_rng(8)
    kappa, f, xbar = rng.uniform(0.5, 2.0, (3, 6, 8, 10))
    # Two pockets, and a mask on the host.
    active = np.ones(kappa.shape, bool)
    active[:, :, 4] = False
    for pocket in (f[:, :, :4], f[:, :, 5:]):
        pocket -= pocket.mean()
    host, problem = isobar.Diffusion(kappa, active=active), isobar.Diffusion(to(kappa), active=active)
    result = isobar.Solver(problem, tolerance=1e-10).solve(problem.rhs(to(f)))
    of_host = isobar.Solver(host, device="cpu", tolerance=1e-12).solve(host.rhs(f))
    found, expected = result.gradient(to(xbar)), of_host.gradient(xbar)
    assert "_system" not in problem.__dict__
    for here, wanted in ((result.x, of_host.x), (found.b, expected.b), (found.kappa, expected.kappa), (found.f, expected.f)):
        np.testing.assert_allclose(back(here), wanted, atol=1e-6 * abs(wanted).max())
    assert not back(result.x)[:, :, 4].any() and not back(found.b)[:, :, 4].any()
    with pytest.raises(ValueError, match="has no solution"):
        isobar.Solver(problem).solve(problem.rhs(1.0))


def shifts():
    """Yield κ, arguments of `Diffusion` and the method that suits them."""
    shape = (5, 8, 9)
    even, film = np.full(shape, 2.0), {"robin": {"coefficient": 3.0, "value": 1.0}}
    layers, rough = np.linspace(0.0, 1.0, 5)[:, None, None] * np.ones(shape), np.random.default_rng(7).uniform(1.0, 9.0, shape)
    yield even, {"reaction": 0.5, "boundary": {"x": "periodic", "top": 1.0}}, "direct"
    yield even, {"reaction": layers, "boundary": {"y": film}}, "direct"
    yield even, {"reaction": -130.0, "boundary": {"x": 0.0}}, "direct"
    yield 1.0 + layers, {"reaction": -130.0, "boundary": {"x": 0.0}}, "direct"
    yield even, {"reaction": rough, "boundary": {"x": 0.0}}, None
    yield even, {"wells": [{"i": 5, "j": 4, "value": 2.0, "radius": 0.001}]}, None


@needs_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
@pytest.mark.parametrize("n", range(6))
def test_shifts_on_a_gpu(library, n):
    pytest.importorskip(library)
    to, back = to_gpu(library)
    kappa, options, method = list(shifts())[n]
    host, problem = isobar.Diffusion(kappa, **options), isobar.Diffusion(to(kappa), **{name: to(given) if isinstance(given, np.ndarray) else given for name, given in options.items()})
    f = np.random.default_rng(3).standard_normal(kappa.shape)
    solver, expected = isobar.Solver(problem, tolerance=1e-10), isobar.Solver(host, device="cuda", tolerance=1e-10)
    assert (solver.method == "direct") == (expected.method == "direct") == (method == "direct")
    x, wanted = back(solver.solve(problem.rhs(to(f))).x), expected.solve(host.rhs(f)).x
    np.testing.assert_allclose(x, wanted, atol=1e-6 * abs(wanted).max())
    assert "_system" not in problem.__dict__


@needs_gpu
def test_what_needs_the_host():
    cupy = pytest.importorskip("cupy")
    kappa = np.random.default_rng(7).uniform(1.0, 9.0, (5, 7, 9))
    there = cupy.asarray(kappa)
    wave = isobar.Diffusion(there, reaction=-0.1, boundary={"x": 0.0})
    with pytest.raises(ValueError, match=r"negative in cell \(i, j, k\) = \(0, 0, 0\)"):
        isobar.Solver(wave)
    assert "_system" not in wave.__dict__
    x = np.random.default_rng(4).standard_normal(kappa.shape)
    ring = {"boundary": {"x": "periodic", "bottom": 0.0}}
    on_cpu = lambda kappa: isobar.Solver(isobar.Diffusion(kappa, **ring), device="cpu", method="cg").apply(x)
    np.testing.assert_allclose(on_cpu(there), on_cpu(kappa), rtol=1e-13)
    constant = isobar.Diffusion(cupy.full((8, 8, 8), 2.0), boundary={"x": 0.0})
    solver = isobar.Solver(constant)
    assert solver.method == "direct" and isobar.Solver(constant, device="cpu").device.startswith("cpu")
    solver.solve(constant.rhs(1.0))
    masked = isobar.Diffusion(there, active=kappa > 2.0, boundary={"x": 0.0})
    x = isobar.Solver(masked).solve(masked.rhs(1.0)).x
    expected = isobar.Solver(isobar.Diffusion(kappa, active=kappa > 2.0, boundary={"x": 0.0}), tolerance=1e-10)
    np.testing.assert_allclose([isobar.Solver(masked).flux(x, "west")], [expected.flux(expected.solve(expected._problem.rhs(1.0)).x, "west")], rtol=1e-5)
    problem = isobar.Diffusion(there, boundary={"x": 0.0})
    assert len(problem.coordinates[0]) == 5 and problem.to_scipy().shape == (315, 315)
    # A change after the problem was made is none of it.
    there *= 3
    np.testing.assert_allclose(isobar.Solver(problem).apply(kappa), isobar.Solver(isobar.Diffusion(kappa, boundary={"x": 0.0}), device="cpu").apply(kappa), rtol=1e-12)


def conductances(shape, periodic, seed):
    """Return tx, ty, tz, shifts and a mask, in which no cell is without a neighbour."""
    rng, faces = np.random.default_rng(seed), []
    for name, axis in (("x", 2), ("y", 1), ("z", 0)):
        wanted = [*shape]
        wanted[axis] -= name not in periodic
        faces.append(np.exp(2 * rng.standard_normal(wanted)))
    active = np.ones(shape, bool)
    active[:2, 1:3, 2:5] = False
    return faces, rng.uniform(0.5, 1.0, shape), active


@needs_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
@pytest.mark.parametrize("periodic", ["", "x", "yz"])
@pytest.mark.parametrize("masked", [False, True])
def test_conductances_on_a_gpu(library, periodic, masked):
    pytest.importorskip(library)
    to, back = to_gpu(library)
    shape = (9, 10, 11)
    faces, shift, active = conductances(shape, periodic, 1)
    others = {"shift": shift, "active": active} if masked else {}
    host = isobar.Faces(*faces, **others, periodic=periodic)
    problem = isobar.Faces(*map(to, faces), **{name: to(given) for name, given in others.items()}, periodic=periodic)
    assert problem._on_gpu is not None and problem.shape == host.shape and problem.size == host.size
    f = np.random.default_rng(3).standard_normal(shape)
    f[1, 4, 5] -= f.sum()
    b = problem.rhs(to(f))
    assert type(b) is type(to(f)) and type(problem.rhs(2.0)) is type(b)
    np.testing.assert_array_equal(back(b), host.rhs(f))
    np.testing.assert_array_equal(back(problem.rhs(2.0)), host.rhs(2.0))
    np.testing.assert_array_equal(back(problem.rhs()), host.rhs())
    solver = isobar.Solver(problem, tolerance=1e-10)
    assert solver.device.startswith("cuda")
    x, expected = solver.solve(b).x, isobar.Solver(host, device="cpu", tolerance=1e-12).solve(host.rhs(f)).x
    assert type(x) is type(b) and "_system" not in problem.__dict__
    np.testing.assert_allclose(back(x), expected, atol=1e-6 * abs(expected).max())
    # Its coefficients change to others, on the GPU and on the host, and those of a solver of the host to those of the GPU.
    for other in ([2 * each for each in faces], faces):
        for there in (to, np.asarray):
            solver.update(isobar.Faces(*map(there, other), **others, periodic=periodic))
            wanted = isobar.Solver(isobar.Faces(*other, **others, periodic=periodic), device="cpu").apply(f)
            np.testing.assert_allclose(back(solver.apply(to(f))), wanted, rtol=1e-9, atol=1e-10)
    again = isobar.Solver(host, device="cuda", tolerance=1e-10)
    again.update(problem)
    np.testing.assert_allclose(back(again.solve(b).x), expected, atol=1e-6 * abs(expected).max())
    # What is computed on the host, and a solver there.
    on_host = isobar.Solver(problem, device="cpu", tolerance=1e-12)
    np.testing.assert_allclose(on_host.solve(host.rhs(f)).x, expected, atol=1e-8 * abs(expected).max())
    for found, wanted in zip(solver.fluxes(x), on_host.fluxes(expected)):
        np.testing.assert_allclose(back(found), wanted, atol=1e-6 * abs(wanted).max())
    assert abs(problem.to_scipy() - host.to_scipy()).max() == 0.0


@needs_gpu
@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_conductances_that_need_the_host(library):
    pytest.importorskip(library)
    to, back = to_gpu(library)
    faces, shift, active = conductances((4, 6, 8), "", 2)
    there = [*map(to, faces)]
    with pytest.raises(ValueError, match=r"z: -1 between the cells .* = \(3, 2, 1\) and \(3, 2, 2\)"):
        tz = faces[2].copy()
        tz[1, 2, 3] = -1.0
        isobar.Faces(there[0], there[1], to(tz))
    with pytest.raises(ValueError, match="none of the 192 cells"):
        isobar.Faces(*(to(0 * each) for each in faces))
    with pytest.raises(ValueError, match="shift has shape"):
        isobar.Faces(*there, shift=to(shift[0]))
    with pytest.raises(ValueError, match="ty must have shape"):
        isobar.Faces(there[0], there[0])
    # A rounding error of row sums is no shift, and another negative one needs a direct solve.
    almost = 0 * shift
    almost[1, 2, 3] = -1e-16
    assert isobar.Solver(isobar.Faces(*there, shift=to(almost)), device="cuda").solve(to(shift - shift.mean())).converged
    with pytest.raises(ValueError, match="shift: negative in cell"):
        isobar.Solver(isobar.Faces(*there, shift=-1.0), device="cuda")
    # An active cell without neighbours.
    alone = np.zeros(shift.shape, bool)
    alone[0, 0, 0] = alone[2:, 2:, 2:] = True
    with pytest.raises(ValueError, match="neither|has no solution|coupl"):
        isobar.Solver(isobar.Faces(*there, active=to(alone)), device="cuda").solve(to(np.where(alone, 1.0, 0.0)))
    # Integers, single precision, a plane, a line and a mixture of places.
    small = [to((1 + 100 * each).astype(int)) for each in faces]
    x = np.random.default_rng(4).standard_normal((4, 6, 8))
    wanted = isobar.Solver(isobar.Faces(*((1 + 100 * each).astype(int) for each in faces)), device="cpu").apply(x)
    np.testing.assert_allclose(back(isobar.Solver(isobar.Faces(*small)).apply(to(x))), wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())
    single = [each.astype(np.float32) for each in faces]
    wanted = isobar.Solver(isobar.Faces(*single, shift=2.0), device="cpu").apply(x)
    np.testing.assert_allclose(back(isobar.Solver(isobar.Faces(*map(to, single), shift=2.0)).apply(to(x))), wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())
    plane = [faces[0][0], faces[1][0]]
    wanted = isobar.Solver(isobar.Faces(*plane), device="cpu").apply(x[0])
    np.testing.assert_allclose(back(isobar.Solver(isobar.Faces(*map(to, plane))).apply(to(x[0]))), wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())
    wanted = isobar.Solver(isobar.Faces(faces[0][0, 0], shift=1.0), device="cpu", tolerance=1e-12).solve(x[0, 0]).x
    np.testing.assert_allclose(back(isobar.Solver(isobar.Faces(to(faces[0][0, 0]), shift=1.0), tolerance=1e-12).solve(to(x[0, 0])).x), wanted, rtol=1e-8)
    assert isobar.Faces(there[0], faces[1], there[2])._on_gpu is None


@needs_gpu
def test_misuse_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    there = cupy.ones((4, 6, 8))
    with pytest.raises(ValueError, match="shape"):
        isobar.Diffusion((there, there[1:]))
    with pytest.raises(ValueError, match="reaction"):
        isobar.Diffusion(there, reaction=there[0])
    with pytest.raises(ValueError, match="width"):
        isobar.Diffusion(there, spacing=(-1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="boundary"):
        isobar.Diffusion(there, boundary={"west": float("nan")})
    problem = isobar.Diffusion(there, boundary={"x": 0.0})
    with pytest.raises(ValueError, match="f has shape"):
        problem.rhs(there[1:])
    for bad in (float("nan"), -1.0):
        values = cupy.random.default_rng(1).uniform(1.0, 2.0, (4, 6, 8))
        values[1, 2, 3] = bad
        with pytest.raises(ValueError, match="kappa"):
            isobar.Solver(isobar.Diffusion(values, boundary={"x": 0.0}))
    for points, words in ({"sources": [{"i": 1, "j": 2, "rate": 1.0}]}, "inactive cells only"), ({"wells": [{"i": 3, "j": 3, "value": 1.0, "radius": 0.1}]}, "only reaches"):
        values = cupy.random.default_rng(1).uniform(1.0, 2.0, (4, 6, 8))
        values[:, 2, 1] = 0.0
        with pytest.raises(ValueError, match=words):
            isobar.Solver(isobar.Diffusion(values, boundary={"x": 0.0}, **points))
    assert isobar.Diffusion(cupy.ones((4, 6, 8), dtype=cupy.int32), boundary={"x": 0.0}).rhs(1.0).dtype == cupy.float64
