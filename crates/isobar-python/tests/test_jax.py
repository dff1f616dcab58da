"""Solves that JAX differentiates."""

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


def test_derivatives_of_what_has_a_free_constant(rng):
    problem = isobar.Diffusion(np.ones((3, 4)), boundary={"x": "periodic"})
    kappa, f = jnp.asarray(rng.uniform(0.5, 2.0, (3, 4))), jnp.asarray(rng.standard_normal((3, 4)))
    balanced = lambda kappa, f: solver_of(problem)(kappa, f - f.mean())
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


@pytest.mark.parametrize("name", problems())
def test_cells_by_the_library_are_those_of_the_problem(rng, name, monkeypatch):
    # The path of arrays on a GPU, here on the host.
    problem, same = problems()[name], problems()[name]
    if isobar.jax.buffer_callback is None:
        pytest.skip("this JAX has no buffer_callback")
    kappa, f, reaction = (jnp.asarray(values) for values in rng.uniform(0.5, 2.0, (3, *problem.shape)))
    value = lambda problem, device: lambda *given: (solver_of(problem, device)(*given) ** 2).sum()
    expected = jax.value_and_grad(value(problem, "cpu"), (0, 1, 2))(kappa, f, reaction)
    # Or on the GPU, if that is where JAX has them.
    device = "cpu" if jax.default_backend() == "cpu" else "auto"
    if device == "cpu":
        monkeypatch.setattr(isobar.jax, "_stays_on_device", lambda call: True)
    for scale in (2.0, 1.0):
        found = jax.value_and_grad(value(same, device), (0, 1, 2))(scale * kappa, f, reaction)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, atol=1e-9 * float(abs(b).max()))


def test_the_callback_for_other_devices(rng, monkeypatch):
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0})
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, (4, 5)))
    expected = jax.grad(lambda kappa: solver_of(problem)(kappa, 1.0).sum())(kappa)
    monkeypatch.setattr(isobar.jax, "buffer_callback", None)
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0})
    np.testing.assert_allclose(jax.grad(lambda kappa: solver_of(problem)(kappa, 1.0).sum())(kappa), expected, rtol=1e-9)


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
    assert len(problem._solvers) == 1


@pytest.mark.parametrize("on_device", [False, True])
def test_systems_of_one_matrix_are_solved_together(rng, monkeypatch, on_device):
    if on_device and isobar.jax.buffer_callback is None:
        pytest.skip("this JAX has no buffer_callback")
    monkeypatch.setattr(isobar.jax, "_stays_on_device", lambda call: on_device)
    problem = isobar.Diffusion(np.ones((4, 5)), boundary={"x": 0.0}, reaction=np.ones((4, 5)))
    kappas, sources = (jnp.asarray(rng.uniform(0.5, 2.0, (n, 4, 5))) for n in (2, 3))
    solve = lambda kappa, f: isobar.jax.solve(problem, kappa, f)
    plain = np.array([[solve(kappa, f) for f in sources] for kappa in kappas])
    updates, update = [], isobar.Solver.update
    monkeypatch.setattr(isobar.Solver, "update", lambda solver, given: (updates.append(given), update(solver, given))[1])
    by_f = jax.vmap(solve, in_axes=(None, 0))
    np.testing.assert_allclose(by_f(kappas[0], sources), plain[0], rtol=1e-9)
    assert len(updates) == 1
    np.testing.assert_allclose(jax.vmap(by_f, in_axes=(0, None))(kappas, sources), plain, rtol=1e-9)
    # Arrays in host memory are compared with the coefficients that the solver has.
    assert len(updates) == (3 if on_device else 2)
    np.testing.assert_allclose(jax.jit(jax.vmap(solve, in_axes=(0, 0)))(kappas, sources[:2]), plain[[0, 1], [0, 1]], rtol=1e-9)
    mean = lambda kappa, f: solve(kappa, f).mean()
    expected = [[jax.grad(mean)(kappa, f) for f in sources] for kappa in kappas]
    np.testing.assert_allclose(jax.vmap(lambda kappa: jax.vmap(lambda f: jax.grad(mean)(kappa, f))(sources))(kappas), expected, rtol=1e-7)


@pytest.mark.parametrize("on_device", [False, True])
def test_single_precision(monkeypatch, on_device):
    if on_device and isobar.jax.buffer_callback is None:
        pytest.skip("this JAX has no buffer_callback")
    jax.config.update("jax_enable_x64", False)
    monkeypatch.setattr(isobar.jax, "_stays_on_device", lambda call: on_device)
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    x, pull = jax.vjp(lambda kappa: isobar.jax.solve(problem, kappa, 1.0), jnp.ones((6, 7)))
    (by_kappa,) = pull(jnp.ones((6, 7)))
    assert x.dtype == by_kappa.dtype == jnp.float32 and bool(jnp.isfinite(by_kappa).all())


def test_misuse(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = jnp.asarray(rng.uniform(0.5, 2.0, (6, 7)))
    with pytest.raises(ValueError, match=r"kappa has shape \(7, 6\); the problem's is \(6, 7\)"):
        isobar.jax.solve(problem, kappa.T, 1.0)
    with pytest.raises(TypeError, match="isobar.Diffusion"):
        isobar.jax.solve("problem", kappa)
    options = dict(method="cg", preconditioner={"kind": "none"}, max_iterations=2)
    with pytest.raises(Exception, match="the solve was not converged"):
        isobar.jax.solve(problem, kappa, 1.0, **options).block_until_ready()
    found = jax.grad(lambda kappa: isobar.jax.solve(problem, kappa, 1.0, failure="nan", **options).sum())(kappa)
    assert bool(jnp.isnan(found).all())
    _, push = jax.jvp(lambda kappa: isobar.jax.solve(problem, kappa, 1.0, failure="nan", **options), (kappa,), (kappa,))
    assert bool(jnp.isnan(push).all())
