"""Solves that JAX differentiates."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import isobar

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
check_grads = pytest.importorskip("jax.test_util").check_grads


@pytest.fixture(autouse=True)
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def problems():
    mask = np.ones((3, 4), bool)
    mask[1, 2] = False
    return {
        "1D": isobar.Diffusion(np.ones(5), boundary={"west": 2.0}),
        "2D": isobar.Diffusion(np.ones((3, 4)), boundary={"west": 1.0, "south": {"neumann": 0.5}, "north": 0.0}),
        "masked": isobar.Diffusion(np.ones((3, 4)), boundary={"x": 1.0}, active=mask),
        "3D, periodic": isobar.Diffusion(np.ones((2, 3, 3)), boundary={"x": "periodic", "bottom": 1.0}),
        "Robin": isobar.Diffusion(np.ones((3, 4)), boundary={"west": {"robin": {"coefficient": np.array([1.0, 0.0, 2.0]), "value": 2.0}}, "north": 1.0}),
        "points": isobar.Diffusion(
            np.ones((2, 3, 3)),
            ([1.0, 2.0], 0.5, [1.0, 2.0, 1.5]),
            sources=[{"i": 1, "j": 2, "rate": 3.0}],
            wells=[{"i": 0, "j": 1, "value": 2.0, "radius": 0.01}],
        ),
    }


def solver_of(problem, device="cpu"):
    return jax.jit(lambda *given: isobar.jax.solve(problem, *given, tolerance=1e-13, device=device))


@pytest.mark.parametrize("name", problems())
def test_gradients_are_those_of_differences(rng, name):
    problem = problems()[name]
    kappa, f, reaction = (jnp.asarray(values) for values in rng.uniform(0.5, 2.0, (3, *problem.shape)))
    check_grads(solver_of(problem), (kappa, f, reaction), order=2, modes=["fwd", "rev"], eps=1e-4, atol=1e-5, rtol=1e-5)
    expected = isobar.Solver(problem.replace(np.asarray(kappa), np.asarray(reaction)), tolerance=1e-13, device="cpu")
    b = problem.replace(np.asarray(kappa)).rhs(np.asarray(f))
    np.testing.assert_allclose(solver_of(problem)(kappa, f, reaction), expected.solve(b).x, rtol=1e-9)


def test_several_coefficients(rng):
    problem = isobar.Diffusion(np.ones((2, 3, 2)), boundary={"x": 1.0, "top": 0.0})
    fields = [jnp.asarray(rng.uniform(0.5, 2.0, problem.shape)) for _ in range(3)]
    for count in (2, 3):
        solve = lambda *kappa: solver_of(problem)(kappa, 1.0)
        check_grads(solve, fields[:count], order=1, modes=["fwd", "rev"], eps=1e-5, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_derivatives_of_what_has_a_free_constant(rng, device):
    problem = isobar.Diffusion(np.ones((3, 4)), boundary={"x": "periodic"})
    kappa, f = jnp.asarray(rng.uniform(0.5, 2.0, (3, 4))), jnp.asarray(rng.standard_normal((3, 4)))
    balanced = lambda kappa, f: solver_of(problem, device)(kappa, f - f.mean())
    check_grads(balanced, (kappa, f), order=2, modes=["fwd", "rev"], eps=1e-4, atol=1e-5, rtol=1e-5)


def test_second_derivatives(rng):
    problem = problems()["2D"]
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, problem.shape))
    loss = lambda kappa: (solver_of(problem)(kappa, 1.0) ** 2).sum()
    slope = jax.grad(loss)
    np.testing.assert_allclose(jax.jacfwd(loss)(kappa), slope(kappa), rtol=1e-10)
    hessian = np.asarray(jax.hessian(loss)(kappa)).reshape(12, 12)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-11 * abs(hessian).max())
    step = 1e-5 * np.eye(12).reshape(12, *problem.shape)
    differences = np.array([(slope(kappa + h) - slope(kappa - h)).ravel() / 2e-5 for h in step])
    np.testing.assert_allclose(hessian, differences, atol=1e-7 * abs(hessian).max())
    # A linear map, which can be transposed.
    value, push = jax.linearize(lambda kappa: solver_of(problem)(kappa, 1.0), kappa)
    v, w = (jnp.asarray(rng.standard_normal(problem.shape)) for _ in range(2))
    _, pull = jax.vjp(lambda kappa: solver_of(problem)(kappa, 1.0), kappa)
    assert float(jnp.vdot(push(v), w)) == pytest.approx(float(jnp.vdot(v, pull(w)[0])), rel=1e-10)


def with_sides():
    """Return a problem, and arguments of `Diffusion` with other numbers on its sides and other widths."""
    boundary = lambda film, outside, value, flux: {"west": {"robin": {"coefficient": film, "value": outside}}, "north": value, "south": {"neumann": flux}, "east": 0.5}
    problem = isobar.Diffusion(np.ones((3, 4)), boundary=boundary(np.array([1.0, 0.5, 2.0]), 2.0, 1.0, 0.5))
    return problem, lambda film, outside, value, flux, height, widths: {"boundary": boundary(film, outside, value, flux), "spacing": (height, widths)}


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_numbers_on_sides_and_widths(rng, device):
    problem, changed = with_sides()
    kappa, f, w = rng.uniform(0.5, 2.0, (3, 3, 4))
    given = [rng.uniform(0.5, 2.0, shape) for shape in (3, (), 4, (), (), 4)]
    solve = lambda kappa, f, *given: isobar.jax.solve(problem, kappa, f, **changed(*given), tolerance=1e-13, device=device)
    # Twice, so that the solver has other numbers first.
    jax.jit(solve)(kappa, f, *[2 * each for each in given])
    made = isobar.Diffusion(kappa, **changed(*given))
    result = isobar.Solver(made, tolerance=1e-13, device="cpu").solve(made.rhs(f))
    np.testing.assert_allclose(jax.jit(solve)(kappa, f, *given), result.x, rtol=1e-9)
    gradient = result.gradient(w)
    by_height, by_widths = gradient.spacing(f)
    west = gradient.side("west")
    expected = [west.coefficient.ravel(), west.value.sum(), gradient.side("north").value.ravel(), gradient.side("south").value.sum(), by_height.sum(), by_widths]
    found = jax.grad(lambda *given: (solve(kappa, f, *given) * w).sum(), range(6))(*map(jnp.asarray, given))
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, atol=1e-9)
    # A film without conductance has a derivative.
    closed = [np.array([1.0, 0.0, 2.0]), *given[1:]]
    made = isobar.Diffusion(kappa, **changed(*closed))
    expected = isobar.Solver(made, tolerance=1e-13, device="cpu").solve(made.rhs(f)).gradient(w).side("west").coefficient
    found = jax.grad(lambda film: (solve(kappa, f, film, *given[1:]) * w).sum())(jnp.asarray(closed[0]))
    np.testing.assert_allclose(found, expected.ravel(), atol=1e-9)
    fluxes = jnp.asarray([0.3, 0.4])
    several = jax.vmap(lambda flux: solve(kappa, f, *given[:3], flux, *given[4:]))(fluxes)
    np.testing.assert_allclose(several, [solve(kappa, f, *given[:3], flux, *given[4:]) for flux in fluxes], rtol=1e-9)


def test_gradients_by_sides_and_widths_are_those_of_differences(rng):
    problem, changed = with_sides()
    kappa, f = rng.uniform(0.5, 2.0, (2, 3, 4))
    given = [jnp.asarray(rng.uniform(0.5, 2.0, shape)) for shape in (3, (), 4, (), (), 4)]
    solve = jax.jit(lambda kappa, *given: isobar.jax.solve(problem, kappa, f, **changed(*given), tolerance=1e-13, device="cpu"))
    check_grads(solve, (jnp.asarray(kappa), *given), order=1, modes=["fwd", "rev"], eps=1e-4, atol=1e-5, rtol=1e-5)


def test_numbers_on_a_few_sides(rng):
    # In three dimensions, beside periodic sides, points, and what stays as it is.
    problem = problems()["points"]
    kappa = rng.uniform(0.5, 2.0, problem.shape)
    options = {"sources": [{"i": 1, "j": 2, "rate": 3.0}], "wells": [{"i": 0, "j": 1, "value": 2.0, "radius": 0.01}]}
    spacing = ([0.5, 1.5], 0.7, [1.0, 1.0, 2.0])
    made = isobar.Diffusion(kappa, spacing, {"x": {"neumann": rng.standard_normal((2, 3))}, "top": {"neumann": 0.1}}, **options)
    boundary = {"x": {"neumann": jnp.asarray(made._residual.numbers[0][0][1].reshape(2, 3))}, "top": {"neumann": 0.1}}
    expected = isobar.Solver(made, tolerance=1e-12, device="cpu").solve(made.rhs(1.0)).x
    x = isobar.jax.solve(problem, kappa, 1.0, boundary=boundary, spacing=spacing, tolerance=1e-12)
    np.testing.assert_allclose(x, expected, rtol=1e-9)
    ring = problems()["3D, periodic"]
    x = isobar.jax.solve(ring, jnp.ones(ring.shape), 1.0, boundary={"bottom": 3.0}, tolerance=1e-12)
    np.testing.assert_allclose(x, isobar.jax.solve(ring, jnp.ones(ring.shape), 1.0, tolerance=1e-12) + 2.0, rtol=1e-9)
    line = problems()["1D"]
    x = isobar.jax.solve(line, jnp.ones(5), spacing=jnp.ones(5), boundary={"west": 4.0})
    np.testing.assert_allclose(x, 4.0, rtol=1e-9)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="JAX has no GPU")
@pytest.mark.parametrize("failure", ["raise", "nan"])
@pytest.mark.parametrize("name", problems())
def test_arrays_on_a_gpu(rng, name, failure):
    # Some are solved where they are, others pass through the host, as all do with device="cpu".
    problem = problems()[name]
    kappa, f, reaction = (jnp.asarray(values) for values in rng.uniform(0.5, 2.0, (3, *problem.shape)))
    value = lambda **options: lambda *given: (isobar.jax.solve(problem, *given, tolerance=1e-13, **options) ** 2).sum()
    expected = jax.value_and_grad(value(device="cpu"), (0, 1, 2))(kappa, f, reaction)
    for scale in (2.0, 1.0):
        found = jax.value_and_grad(value(failure=failure), (0, 1, 2))(scale * kappa, f, reaction)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, atol=1e-9 * float(abs(b).max()))
    stay = [call.native.stays_on_gpu for call in problem._calls.values()]
    assert stay == [False, failure == "raise"]


def test_work_before_and_after_is_in_order(rng):
    # Steps of backward Euler with a κ that depends on u, on JAX's own device, beside steps one by one.
    problem = isobar.Diffusion(np.ones((24, 32)), boundary={"x": 0.0})
    u = jnp.asarray(rng.uniform(0.5, 2.0, problem.shape))
    step = lambda u: 3 * isobar.jax.solve(problem, 1 + jnp.sort(u, axis=0) ** 2, 1e3 * jnp.cumsum(u, axis=1) / 32, 1e3, tolerance=1e-12)
    found = jax.jit(lambda u: jax.lax.fori_loop(0, 20, lambda _, u: step(u) / jnp.linalg.norm(u), u))(u)
    for _ in range(20):
        u = jax.block_until_ready(step(u) / jnp.linalg.norm(u))
    np.testing.assert_allclose(found, u, rtol=1e-8)


def test_jit_grad_and_vmap(rng):
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0, "south": 1.0})
    many = jnp.asarray(rng.uniform(0.5, 2.0, (3, 4, 5)))
    solve = solver_of(problem)
    energy = lambda kappa, f: (solve(kappa, f) ** 2).sum()
    plain = [jax.grad(energy, (0, 1))(kappa, 2.0) for kappa in many]
    compiled = jax.jit(jax.grad(energy, (0, 1)))
    for kappa, (by_kappa, by_f) in zip(many, plain):
        found = compiled(kappa, 2.0)
        np.testing.assert_allclose(found[0], by_kappa, rtol=1e-8)
        np.testing.assert_allclose(found[1], by_f, rtol=1e-8)
    batch = jax.jit(jax.vmap(jax.grad(energy), in_axes=(0, None)))(many, 2.0)
    np.testing.assert_allclose(batch, [by_kappa for by_kappa, _ in plain], rtol=1e-8)
    np.testing.assert_allclose(jax.vmap(solve, in_axes=(0, None))(many, 2.0), [solve(kappa, 2.0) for kappa in many], rtol=1e-8)
    (call,) = problem._calls.values()
    assert call.native.counts[0] == 1


def test_systems_of_one_matrix_are_solved_together(rng):
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0}, reaction=np.ones((4, 5)))
    kappas, sources = (jnp.asarray(rng.uniform(0.5, 2.0, (n, 4, 5))) for n in (2, 3))
    solve = lambda kappa, f: isobar.jax.solve(problem, kappa, f)
    plain = np.array([[solve(kappa, f) for f in sources] for kappa in kappas])
    (call,) = problem._calls.values()
    updates = call.native.counts[1]
    by_f = jax.vmap(solve, in_axes=(None, 0))
    np.testing.assert_allclose(by_f(kappas[0], sources), plain[0], rtol=1e-9)
    assert call.native.counts[1] == updates + 1
    np.testing.assert_allclose(jax.vmap(by_f, in_axes=(0, None))(kappas, sources), plain, rtol=1e-9)
    # Arrays in host memory are compared with the coefficients that the solver has; a solver on a GPU is always given them.
    assert call.native.counts[1] == updates + (2 if jax.default_backend() == "cpu" else 3)
    np.testing.assert_allclose(jax.jit(jax.vmap(solve, in_axes=(0, 0)))(kappas, sources[:2]), plain[[0, 1], [0, 1]], rtol=1e-9)
    mean = lambda kappa, f: solve(kappa, f).mean()
    expected = [[jax.grad(mean)(kappa, f) for f in sources] for kappa in kappas]
    np.testing.assert_allclose(jax.vmap(lambda kappa: jax.vmap(lambda f: jax.grad(mean)(kappa, f))(sources))(kappas), expected, rtol=1e-7)


def test_single_precision(rng):
    jax.config.update("jax_enable_x64", False)
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, (6, 7)), jnp.float32)
    x, pull = jax.vjp(lambda kappa: isobar.jax.solve(problem, kappa, 1.0), kappa)
    (by_kappa,) = pull(jnp.ones((6, 7)))
    assert x.dtype == by_kappa.dtype == jnp.float32 and bool(jnp.isfinite(by_kappa).all())
    new = problem.replace(np.asarray(kappa, np.float64))
    expected = isobar.Solver(new, tolerance=1e-10, device="cpu").solve(new.rhs(1.0)).x
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    half = isobar.jax.solve(problem, kappa.astype(jnp.bfloat16), 1.0)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype(float), expected, rtol=3e-2)


def test_solvers_are_kept_between_calls_and_shapes(rng):
    problems = [isobar.Diffusion(np.ones(shape), boundary={"x": 0.0}) for shape in ((4, 5), (3, 2, 6))]
    both = jax.jit(lambda a, b: [isobar.jax.solve(problem, kappa, 1.0, tolerance=1e-12, device="cpu") for problem, kappa in zip(problems, (a, b))])
    for _ in range(3):
        kappas = [rng.uniform(0.5, 2.0, problem.shape) for problem in problems]
        for problem, kappa, x in zip(problems, kappas, both(*map(jnp.asarray, kappas))):
            new = problem.replace(kappa)
            np.testing.assert_allclose(x, isobar.Solver(new, tolerance=1e-12, device="cpu").solve(new.rhs(1.0)).x, rtol=1e-9)
    for problem in problems:
        (call,) = problem._calls.values()
        assert call.native.counts == [1, 2]


def test_tolerance_of_derivatives(rng):
    problem = isobar.Diffusion(np.ones((14, 15, 16)), boundary={"x": 0.0})
    kappa = jnp.asarray(np.exp(rng.standard_normal(problem.shape)))
    options = {"tolerance": 1e-12, "device": "cpu", "method": "cg"}
    square = lambda kappa, **more: (isobar.jax.solve(problem, kappa, 1.0, **options, **more) ** 2).sum()
    exact, rough = jax.grad(square)(kappa), jax.grad(lambda kappa: square(kappa, derivative_tolerance=1e-3))(kappa)
    assert 1e-8 < float(jnp.linalg.norm(rough - exact) / jnp.linalg.norm(exact)) < 0.1
    assert square(kappa, derivative_tolerance=1e-3) == square(kappa)
    with pytest.raises(ValueError, match="derivative_tolerance: 0"):
        square(kappa, derivative_tolerance=0.0)


def test_calls_of_several_threads(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary=0.0)
    solve = jax.jit(lambda kappa: isobar.jax.solve(problem, kappa, 1.0, tolerance=1e-12, device="cpu", threads=1))
    kappas = [jnp.asarray(kappa) for kappa in rng.uniform(0.5, 2.0, (12, 6, 7))]
    expected = [np.asarray(solve(kappa)) for kappa in kappas]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda kappa: np.asarray(solve(kappa)), kappas))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_compiled_function_keeps_what_it_calls(rng):
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, (4, 5)))
    # The problem is a local variable of what is traced.
    solve = jax.jit(lambda kappa: isobar.jax.solve(isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0}), kappa, 1.0, device="cpu"))
    first = np.asarray(solve(kappa))
    gc.collect()
    np.testing.assert_array_equal(solve(kappa), first)


def test_solvers_go_with_their_problem(rng):
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0})
    solve = isobar.jax.solve(problem, jnp.asarray(rng.uniform(0.5, 2.0, (4, 5))), 1.0)
    (call,) = problem._calls.values()
    assert solve.shape == (4, 5) and call.native.counts == [1, 0]
    del problem
    gc.collect()
    assert call.native.counts == [0, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="signals of Linux")
def test_ctrl_c_stops_a_solve():
    code = """
import os, signal, threading, time
import numpy as np, jax, jax.numpy as jnp, isobar.jax
problem = isobar.Diffusion(np.ones((32, 32, 32)), boundary={"x": 0.0})
kappa = jnp.asarray(np.exp(3 * np.random.default_rng(1).standard_normal(problem.shape)))
options = dict(method="jacobi", max_iterations=10**7, tolerance=1e-14, device="cpu")
# A shell may have set it to be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=lambda: (time.sleep(1), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
try:
    jax.jit(lambda kappa: isobar.jax.solve(problem, kappa, 1.0, **options))(kappa).block_until_ready()
except BaseException:
    print("stopped")
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "stopped\n" or "KeyboardInterrupt" in error


def test_programs_of_other_processes_fail():
    # As XLA would call one that was stored on disk.
    assert isobar.jax.solve
    like = jax.ShapeDtypeStruct((1, 4, 5), jnp.float64)
    attributes = {"function": np.int64(1), "has_reaction": np.int64(0), "has_geometry": np.int64(0), "driven": np.int64(1)}
    with pytest.raises(jax.errors.JaxRuntimeError, match="its problem does not exist any more"):
        jax.ffi.ffi_call("isobar_solve", like)(*[jnp.ones((1, 4, 5))] * 2, **attributes).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match='no integer "function"'):
        jax.ffi.ffi_call("isobar_solve", like)(*[jnp.ones((1, 4, 5))] * 2).block_until_ready()


def test_misuse(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, (6, 7)))
    with pytest.raises(ValueError, match=r"kappa has shape \(7, 6\); the problem's is \(6, 7\)"):
        isobar.jax.solve(problem, kappa.T, 1.0)
    with pytest.raises(ValueError, match="kappa: a tuple of two means .*which needs 3-D arrays, not 2-D ones"):
        isobar.jax.solve(problem, (kappa, kappa), 1.0)
    with pytest.raises(TypeError, match="isobar.Diffusion"):
        isobar.jax.solve("problem", kappa)
    options = dict(method="cg", preconditioner={"kind": "none"}, max_iterations=2)
    with pytest.raises(jax.errors.JaxRuntimeError, match="FAILED_PRECONDITION: the solve was not converged: max iterations after 2 iterations"):
        isobar.jax.solve(problem, kappa, 1.0, **options).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"INVALID_ARGUMENT: kappa: .*\(i, j, k\) = \(3, 2, 0\)"):
        isobar.jax.solve(problem, kappa.at[2, 3].set(jnp.nan), 1.0).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT: .*inf"):
        isobar.jax.solve(problem, kappa, jnp.full((6, 7), jnp.inf)).block_until_ready()
    # It still works, and so does what is compiled.
    assert bool(jnp.isfinite(isobar.jax.solve(problem, kappa, 1.0)).all())
    with pytest.raises(ValueError, match="failure 'none'"):
        isobar.jax.solve(problem, kappa, 1.0, failure="none")
    with pytest.raises(TypeError, match="device: 0"):
        isobar.jax.solve(problem, kappa, 1.0, device=0)
    with pytest.raises(ValueError, match='boundary: west is of kind "neumann" here and "dirichlet" in the problem'):
        isobar.jax.solve(problem, kappa, boundary={"x": {"neumann": 1.0}})
    with pytest.raises(ValueError, match=r"boundary: west: an array of shape \(7,\), but the side has faces of shape \(6,\)"):
        isobar.jax.solve(problem, kappa, boundary={"west": jnp.ones(7)})
    with pytest.raises(ValueError, match="boundary: unknown side 'left'"):
        isobar.jax.solve(problem, kappa, boundary={"left": 1.0})
    with pytest.raises(ValueError, match=r"spacing: widths of shape \(7,\) for 6 cells"):
        isobar.jax.solve(problem, kappa, spacing=(jnp.ones(7), 1.0))
    with pytest.raises(ValueError, match="spacing has 3 entries"):
        isobar.jax.solve(problem, kappa, spacing=(1.0, 1.0, 1.0))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"spacing \([xyz]\)"):
        isobar.jax.solve(problem, kappa, spacing=-1.0).block_until_ready()
    with pytest.raises(ValueError, match='unknown option "sparkle"'):
        isobar.jax.solve(problem, kappa, 1.0, sparkle=1)


def test_failures_that_become_nan(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, (6, 7)))
    options = dict(method="cg", preconditioner={"kind": "none"}, max_iterations=2, failure="nan")
    solve = lambda kappa, f: isobar.jax.solve(problem, kappa, f, **options)
    found = jax.grad(lambda kappa: solve(kappa, 1.0).sum())(kappa)
    assert bool(jnp.isnan(found).all())
    _, push = jax.jvp(lambda kappa: solve(kappa, 1.0), (kappa,), (kappa,))
    assert bool(jnp.isnan(push).all())
    # Of several systems, those that converge are solved: that of f = 0 here.
    several = jax.vmap(lambda f: solve(kappa, f))(jnp.stack([jnp.ones((6, 7)), jnp.zeros((6, 7))]))
    assert bool(jnp.isnan(several[0]).all()) and bool((several[1] == 0).all())
