"""Problems with coefficients on a GPU: the way there with arrays of NumPy, and everything with arrays of three libraries, if there is a GPU."""

import importlib

import numpy as np
import pytest

import isobar
from isobar._gradient import SIDES, pulled_back, side_gradient
from isobar._libraries import operations
from isobar._on_gpu import Affine, Coefficients
from isobar._problems import Problem
from test_cuda import on_card

needs_gpu = pytest.mark.skipif(not on_card(), reason="no NVIDIA GPU")


def cases():
    """Yield names, and arguments of `Diffusion`, of all kinds of sides, widths and numbers of κ."""
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
    yield "plane", (kappa[0][0],), {"boundary": {"y": "periodic", "west": 3.0}}
    yield "line", (kappa[0][0, 0],), {"boundary": {"west": 3.0}}


CASES = {name: given for name, *given in cases()}


@pytest.mark.parametrize("name", CASES)
def test_coefficients_make_the_problem_that_they_are_of(name):
    (kappa,), options = CASES[name]
    problem = isobar.Diffusion(kappa, **options)
    fields = kappa if isinstance(kappa, tuple) else (kappa,)
    coefficients = Coefficients(fields, options.get("reaction"), None, problem._residual)
    f = np.random.default_rng(3).standard_normal(problem.shape)
    for body in (None, 2.0, f):
        np.testing.assert_allclose(coefficients.rhs(body, problem.shape), problem.rhs(body), rtol=1e-13, atol=1e-15)
    x = np.random.default_rng(4).standard_normal(problem.shape)
    apply = lambda problem: isobar.Solver(problem, device="cpu").apply(x)
    np.testing.assert_allclose(apply(Problem(coefficients.system(), problem._dimensions)), apply(problem), rtol=1e-12, atol=1e-13)
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


def test_what_is_known_without_the_host_is_true():
    for kappa, options in CASES.values():
        (kappa,) = kappa
        problem = isobar.Diffusion(kappa, **options)
        fields = kappa if isinstance(kappa, tuple) else (kappa,)
        known = Coefficients(fields, options.get("reaction"), None, problem._residual).is_regular()
        assert known is None or problem._is_regular()


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
    coefficients = Coefficients((kappa,), reaction, active, problem._residual)
    kappa *= 7
    reaction *= 7
    active[:] = 0
    x = np.random.default_rng(4).standard_normal(problem.shape)
    for found in (coefficients, coefficients.replaced((np.full((4, 5, 6), 2.0),))):
        apply = lambda problem: isobar.Solver(problem, device="cpu").apply(x)
        np.testing.assert_allclose(apply(Problem(found.system(), 3)), apply(problem), rtol=1e-13)


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
    there = {**options, "reaction": to(options["reaction"])} if np.ndim(options.get("reaction")) else options
    return to, back, moved, isobar.Diffusion(kappa, **options), isobar.Diffusion(moved(kappa), **there)


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
    if name in ("fixed", "uneven", "two", "plane", "line"):
        assert "_system" not in problem.__dict__
    with pytest.raises(ValueError, match="side"):
        found.side("middle")
    # What is not on the GPU is computed on the host.
    by_host = result.gradient(xbar)
    assert isinstance(by_host.f, np.ndarray)


@needs_gpu
def test_what_needs_the_host():
    cupy = pytest.importorskip("cupy")
    kappa = np.random.default_rng(7).uniform(1.0, 9.0, (5, 7, 9))
    there = cupy.asarray(kappa)
    for options in ({"boundary": {"x": "periodic", "bottom": 0.0}}, {"active": kappa > 2.0, "boundary": {"x": 0.0}}, {"reaction": -0.1, "boundary": {"x": 0.0}}):
        host, problem = isobar.Diffusion(kappa, **options), isobar.Diffusion(there, **options)
        assert not problem._on_gpu.suits_gpu
        f = np.random.default_rng(3).standard_normal(kappa.shape)
        np.testing.assert_allclose(cupy.asnumpy(problem.rhs(cupy.asarray(f))), host.rhs(f), rtol=1e-12, atol=1e-13)
        if options.get("reaction", 1.0) < 0:
            continue
        x = np.random.default_rng(4).standard_normal(kappa.shape)
        np.testing.assert_allclose(isobar.Solver(problem, device="cpu", method="cg").apply(x), isobar.Solver(host, device="cpu", method="cg").apply(x), rtol=1e-13)
    constant = isobar.Diffusion(cupy.full((8, 8, 8), 2.0), boundary={"x": 0.0})
    solver = isobar.Solver(constant)
    assert solver.method == "direct" and isobar.Solver(constant, device="cpu").device.startswith("cpu")
    solver.solve(constant.rhs(1.0))
    problem = isobar.Diffusion(there, boundary={"x": 0.0})
    assert len(problem.coordinates[0]) == 5 and problem.to_scipy().shape == (315, 315)
    # A change after the problem was made is none of it.
    there *= 3
    np.testing.assert_allclose(isobar.Solver(problem).apply(kappa), isobar.Solver(isobar.Diffusion(kappa, boundary={"x": 0.0}), device="cpu").apply(kappa), rtol=1e-12)


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
        with pytest.raises(ValueError, match="coefficient"):
            isobar.Solver(isobar.Diffusion(values, boundary={"x": 0.0}))
    assert isobar.Diffusion(cupy.ones((4, 6, 8), dtype=cupy.int32), boundary={"x": 0.0}).rhs(1.0).dtype == cupy.float64
