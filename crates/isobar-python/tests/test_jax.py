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
    }


def solver_of(problem):
    return lambda *given: isobar.jax.solve(problem, *given, tolerance=1e-13, device="cpu")


@pytest.mark.parametrize("name", problems())
def test_gradients_are_those_of_differences(rng, name):
    problem = problems()[name]
    kappa, f, reaction = (jnp.asarray(values) for values in rng.uniform(0.5, 2.0, (3, *problem.shape)))
    check_grads(solver_of(problem), (kappa, f, reaction), order=1, modes=["rev"], eps=1e-5, atol=1e-6, rtol=1e-5)
    expected = isobar.Solver(problem.replace(np.asarray(kappa), np.asarray(reaction)), tolerance=1e-13, device="cpu")
    b = problem.replace(np.asarray(kappa)).rhs(np.asarray(f))
    np.testing.assert_allclose(solver_of(problem)(kappa, f, reaction), expected.solve(b).x, rtol=1e-9)


def test_several_coefficients(rng):
    problem = isobar.Diffusion(np.ones((2, 3, 2)), boundary={"x": 1.0, "top": 0.0})
    fields = [jnp.asarray(rng.uniform(0.5, 2.0, problem.shape)) for _ in range(3)]
    for count in (2, 3):
        solve = lambda *kappa: solver_of(problem)(kappa, 1.0)
        check_grads(solve, fields[:count], order=1, modes=["rev"], eps=1e-5, atol=1e-6, rtol=1e-5)


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


def test_single_precision(rng):
    jax.config.update("jax_enable_x64", False)
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
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda kappa: isobar.jax.solve(problem, kappa, 1.0), (kappa,), (kappa,))
    options = dict(method="cg", preconditioner={"kind": "none"}, max_iterations=2)
    with pytest.raises(Exception, match="the solve was not converged"):
        isobar.jax.solve(problem, kappa, 1.0, **options).block_until_ready()
    found = jax.grad(lambda kappa: isobar.jax.solve(problem, kappa, 1.0, failure="nan", **options).sum())(kappa)
    assert bool(jnp.isnan(found).all())
