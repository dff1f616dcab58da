"""Arrays in the memory of a GPU, of three libraries. Skipped without a GPU."""

import numpy as np
import pytest

import isobar

SHAPE = (8, 24, 32)


def on_card():
    try:
        return isobar.Solver(isobar.Diffusion(np.ones(4), boundary={"x": 0.0}), device="cuda").device.startswith("cuda")
    except RuntimeError:
        return False


pytestmark = pytest.mark.skipif(not on_card(), reason="no NVIDIA GPU")


@pytest.fixture(scope="module")
def system():
    problem = isobar.Diffusion(np.random.default_rng(5).uniform(1.0, 9.0, SHAPE), boundary={"x": 0.0})
    b = problem.rhs(np.random.default_rng(6).standard_normal(SHAPE))
    solver = isobar.Solver(problem, device="cuda", tolerance=1e-10)
    expected = isobar.Solver(problem, device="cpu", tolerance=1e-12).solve(b).x
    return solver, b, expected


def close(x, expected):
    np.testing.assert_allclose(x, expected, atol=1e-7 * abs(expected).max())


def test_host_arrays(system):
    solver, b, expected = system
    close(solver.solve(b).x, expected)
    close(solver.solve(np.asfortranarray(b)[::-1][::-1]).x, expected)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_arrays_that_can_be_written(system, library):
    xp = pytest.importorskip(library)
    solver, host, expected = system
    to = {"cupy": lambda a: xp.asarray(a), "torch": lambda a: xp.from_numpy(np.ascontiguousarray(a)).cuda()}[library]
    back = {"cupy": lambda a: xp.asnumpy(a), "torch": lambda a: a.cpu().numpy()}[library]
    b = to(host)
    result = solver.solve(b)
    assert type(result.x) is type(b) and result.x.device == b.device and result.converged
    close(back(result.x), expected)
    # Other orders, in place, a first guess, single precision.
    turned = to(host.transpose(2, 0, 1).copy())
    turned = turned.transpose(1, 2, 0) if library == "cupy" else turned.permute(1, 2, 0)
    assert solver.solve(turned, out=turned).x is turned
    close(back(turned), expected)
    again = solver.solve(b, x0=result.x)
    assert again.iterations == 0
    with pytest.warns(isobar.NotConvergedWarning, match="single precision"):
        single = solver.solve(to(host.astype(np.float32)))
    assert single.x.dtype == xp.float32
    np.testing.assert_allclose(back(single.x), expected, atol=1e-5 * abs(expected).max())
    close(back(solver.apply(result.x)), host)
    with pytest.raises(ValueError, match="shape"):
        solver.solve(b[1:])
    with pytest.raises(ValueError, match="copy it to host memory"):
        isobar.Solver(solver._problem, device="cpu").solve(b)
    with pytest.raises(ValueError, match="NaN"):
        solver.solve(b * float("nan"))


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_problems_of_arrays_on_the_gpu(library):
    xp = pytest.importorskip("jax.numpy" if library == "jax" else library)
    to = {"cupy": lambda a: xp.asarray(a), "torch": lambda a: xp.from_numpy(a).cuda(), "jax": lambda a: xp.asarray(a, dtype="float32")}[library]
    rng = np.random.default_rng(8)
    kappa, reaction = rng.uniform(1.0, 9.0, SHAPE).astype(np.float32).astype(np.float64), np.full(SHAPE, 0.5)
    active, side = (rng.random(SHAPE) < 0.9).astype(np.float64), np.full(SHAPE[:2], 2.0)
    of = lambda f: isobar.Diffusion(f(kappa), reaction=f(reaction), active=f(active), boundary={"west": f(side), "east": 0.0})
    problem, expected = of(to), of(np.asarray)
    f = np.full(SHAPE, 3.0)
    b = problem.rhs(to(f))
    assert type(b) is type(to(f))
    np.testing.assert_allclose(np.asarray(b.get() if library == "cupy" else b.cpu() if library == "torch" else b), expected.rhs(f), rtol=1e-6)
    x = isobar.Solver(problem, device="cuda", tolerance=1e-10).solve(problem.rhs(f)).x
    close(x, isobar.Solver(expected, device="cpu", tolerance=1e-12).solve(expected.rhs(f)).x)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_streams_are_waited_for(system, library):
    xp = pytest.importorskip(library)
    solver, host, expected = system
    stream = xp.cuda.Stream(non_blocking=True) if library == "cupy" else xp.cuda.Stream()
    back = xp.asnumpy if library == "cupy" else lambda a: a.cpu().numpy()
    large = xp.ones((4096, 4096), dtype=xp.float64) if library == "cupy" else xp.ones((4096, 4096), dtype=xp.float64, device="cuda")
    source = xp.asarray(host) if library == "cupy" else xp.from_numpy(host).cuda()
    for _ in range(5):
        with stream if library == "cupy" else xp.cuda.stream(stream):
            # Slow work on which b depends.
            late = (large @ large)[0, 0] / 4096
            b = source * late
            x = solver.solve(b).x
            doubled = 2 * x
        stream.synchronize()
        close(back(doubled), 2 * expected)


def test_jax(system):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    cupy = pytest.importorskip("cupy")
    solver, host, expected = system
    b = jax.numpy.asarray(host)
    if b.devices().pop().platform != "gpu":
        close(np.asarray(solver.solve(b).x), expected)
        return
    out = cupy.empty(SHAPE)
    close(cupy.asnumpy(solver.solve(b, out=out).x), expected)
    result = solver.solve(b)
    assert type(result.x) is type(b) and result.converged
    close(np.asarray(result.x), expected)
    # Nothing else shares the memory of x.
    np.testing.assert_array_equal(np.asarray(jax.numpy.zeros(SHAPE)), 0.0)
    np.testing.assert_array_equal(np.asarray(b), host)


def test_heat_and_operators(system):
    cupy = pytest.importorskip("cupy")
    heat = isobar.Heat(np.ones((8, 8, 8)), boundary=0.0)
    run = heat.steps(cupy.ones((8, 8, 8)), dt=1e-3, end_time=5e-3, device="cuda")
    assert len(list(run)) == 5
    state = cupy.empty((8, 8, 8))
    close(cupy.asnumpy(run.read(state)), heat.solve(1.0, dt=1e-3, end_time=5e-3, device="cpu").x)


@pytest.mark.parametrize("shape", [(21, 15, 17), (1, 40, 33), (9, 1, 1)])
@pytest.mark.parametrize("closed", [-1.0, 0.3, 0.65, 1.0])
def test_effective_conductivities(shape, closed):
    rng = np.random.default_rng(7)
    image = np.where(rng.random(shape) < closed, 0, rng.integers(1, 3, shape)).astype(np.uint8)
    table = {0: 0.0, 1: 2.0, 2: 0.3}
    kappa = np.array([0.0, 2.0, 0.3])[image]
    expected = isobar.effective(kappa, tolerance=1e-11, device="cpu")
    for given in ({"image_or_kappa": image, "coefficients": table}, {"image_or_kappa": kappa}):
        found = isobar.effective(**given, tolerance=1e-11, device="cuda")
        assert found.keys() == expected.keys()
        for axis, one in found.items():
            for name in ("conductivity", "tortuosity", "porosity", "connected", "bounds"):
                np.testing.assert_allclose(getattr(one, name), getattr(expected[axis], name), rtol=1e-9)
            assert one.converged and one.imbalance < 1e-7
