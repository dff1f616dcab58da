"""Times solves in JAX and PyTorch: python validation/derivatives.py [--device cuda] [--sizes 8 32 64].

A row has milliseconds, medians, of a solve of the library, of the framework's call, of their difference, of the call with derivatives with respect to
κ and f, of that over the call, and of a call with other coefficients than before. With --cg, JAX's own conjugate gradients with the diagonal as the
preconditioner solve the same systems, and the two solutions are compared.
"""

import argparse
import importlib.util
import time

import numpy as np

import isobar


def milliseconds(work, least=7):
    """Return the median time of a function that waits for its result."""
    work()
    times, began = [], time.perf_counter()
    while len(times) < least or (len(times) < 200 and time.perf_counter() - began < 1.0):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def on_gpu(array):
    """Return a copy of an array on the GPU, of CuPy or else of PyTorch."""
    if importlib.util.find_spec("cupy"):
        import cupy

        return cupy.array(array)
    import torch

    return torch.from_numpy(array).cuda()


def lognormal(n):
    return np.exp(np.random.default_rng(7).standard_normal((n, n, n)))


def in_jax(problem, kappa, options):
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    import isobar.jax

    kappa, f = jnp.asarray(kappa), jnp.ones(problem.shape)
    solve = lambda kappa, f: isobar.jax.solve(problem, kappa, f, **options)
    value = lambda kappa, f: (solve(kappa, f) ** 2).sum()
    forward, both = jax.jit(solve), jax.jit(jax.value_and_grad(value, (0, 1)))
    other = [kappa, 1.5 * kappa]

    def new_coefficients():
        other.reverse()
        forward(other[0], f).block_until_ready()

    return (lambda: forward(kappa, f).block_until_ready()), (lambda: jax.block_until_ready(both(kappa, f))), new_coefficients


def by_jax_alone(kappa, rhs):
    """Return a function that solves A x = b by JAX's conjugate gradients with the diagonal, for x = 0 on the sides in x."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.sparse.linalg import cg

    kappa, b, width = jnp.asarray(kappa), jnp.asarray(rhs), 1.0 / len(kappa)

    def faces(axis):
        count = kappa.shape[axis]
        a, b = (jax.lax.slice_in_dim(kappa, first, first + count - 1, axis=axis) for first in (0, 1))
        inner = width * 2 * a * b / (a + b)
        ends = [(1, 1) if d == axis else (0, 0) for d in range(3)]
        return jnp.pad(inner, ends)

    conductances = [faces(axis) for axis in range(3)]
    fixed = jnp.zeros_like(kappa).at[..., 0].add(2 * width * kappa[..., 0]).at[..., -1].add(2 * width * kappa[..., -1])
    both = lambda face, axis: [jax.lax.slice_in_dim(face, first, first + kappa.shape[axis], axis=axis) for first in (0, 1)]
    diagonal = fixed + sum(sum(both(face, axis)) for axis, face in enumerate(conductances))

    def product(x):
        result = fixed * x
        for axis, face in enumerate(conductances):
            flow = face * jnp.diff(jnp.pad(x, [(1, 1) if d == axis else (0, 0) for d in range(3)], mode="edge"), axis=axis)
            result = result - jnp.diff(flow, axis=axis)
        return result

    solve = jax.jit(lambda b: cg(product, b, tol=1e-8, maxiter=100000, M=lambda r: r / diagonal)[0])
    return lambda: solve(b).block_until_ready()


def in_torch(problem, kappa, options, device):
    import torch

    import isobar.torch

    where = "cpu" if device == "cpu" else "cuda"
    kappa = torch.tensor(kappa, device=where, requires_grad=True)
    f = torch.ones(problem.shape, dtype=torch.float64, device=where, requires_grad=True)
    wait = torch.cuda.synchronize if where == "cuda" else lambda: None
    other = [kappa.detach(), 1.5 * kappa.detach()]

    def forward():
        with torch.no_grad():
            isobar.torch.solve(problem, kappa, f, **options)
        wait()

    def both():
        kappa.grad = f.grad = None
        (isobar.torch.solve(problem, kappa, f, **options) ** 2).sum().backward()
        wait()

    def new_coefficients():
        other.reverse()
        isobar.torch.solve(problem, other[0], f.detach(), **options)
        wait()

    return forward, both, new_coefficients


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cg", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 32, 64, 128, 256])
    given = parser.parse_args()
    options = {"tolerance": 1e-8, "device": given.device}
    print(f"{'':14}{'solve':>10}{'call':>10}{'beside it':>12}{'value, ∂κ, ∂f':>16}{'/ call':>8}{'call, new κ':>14}")
    for n in given.sizes:
        kappa = lognormal(n)
        problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
        rhs = problem.rhs(np.ones(problem.shape))
        place = np.array if given.device == "cpu" else on_gpu
        solver, rhs, out = isobar.Solver(problem, **options), place(rhs), place(rhs)
        solve = milliseconds(lambda: solver.solve(rhs, out=out))
        for name, made in (("jax", in_jax), ("torch", lambda *args: in_torch(*args, given.device))):
            if importlib.util.find_spec(name) is None:
                continue
            call, both, new = (milliseconds(work) for work in made(problem, kappa, options))
            if name == "jax" and given.cg:
                host = problem.rhs(np.ones(problem.shape))
                alone = by_jax_alone(kappa, host)
                x, ours = np.asarray(alone()), isobar.Solver(problem, tolerance=1e-10, device="cpu").solve(host).x
                theirs, off = milliseconds(alone, 3), np.abs(x - ours).max() / np.abs(ours).max()
                print(f"{n:4}³ JAX's cg {theirs:9.3f} ms, {theirs / call:.1f} times the call; solutions differ by {off:.0e}")
            print(f"{n:4}³ {name:8}{solve:10.3f}{call:10.3f}{call - solve:12.3f}{both:16.3f}{both / call:8.2f}{new:14.3f}", flush=True)


if __name__ == "__main__":
    main()
