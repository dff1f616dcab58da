"""Prints iterations and milliseconds of solves on a GPU by how often each grid is visited, for fields on n³ cells made with CuPy.

    python validation/cuda/visits.py 128,192,256,320,384 bubbles,waves,closed,contrast
"""

import sys

import cupy as cp
import isobar
import numpy as np

VISITS = [[1], [1, 1, 2], [1, 1, 3], [1, 2], [1, 3], [1, 1, 1, 2]]


def bubbles(n: int, rng: np.random.Generator) -> cp.ndarray:
    """Returns 20 bubbles of contrast 1000."""
    kappa, at = cp.ones((n, n, n)), (cp.arange(n) + 0.5) / n
    for _ in range(20):
        (z, y, x), radius = rng.random(3).tolist(), 0.06 + 0.08 * rng.random()
        squares = (at[:, None, None] - z) ** 2 + (at[None, :, None] - y) ** 2 + (at[None, None, :] - x) ** 2
        kappa[squares < radius**2] = 1000.0
    return kappa


def waves(n: int, rng: np.random.Generator) -> cp.ndarray:
    """Returns 24 plane waves of at least 16 cells with a deviation of 1."""
    sum_of_waves, at = cp.zeros((n, n, n)), cp.arange(n) / n * 2 * np.pi
    for _ in range(24):
        z, y, x = rng.integers(-n // 16, n // 16 + 1, size=3).tolist()
        phase = 6.28 * rng.random()
        sum_of_waves += cp.cos(z * at[:, None, None] + y * at[None, :, None] + x * at[None, None, :] + phase)
    return sum_of_waves / sum_of_waves.std()


FIELDS = {
    "bubbles": bubbles,
    "waves": lambda n, rng: 10 ** (0.8 * waves(n, rng)),
    "closed": lambda n, rng: cp.where(waves(n, rng) > -0.2, 1.0, 0.0),
    "contrast": lambda n, rng: cp.where(waves(n, rng) > 0.3, 1e4, 1.0),
}

for n in map(int, sys.argv[1].split(",")):
    for name in sys.argv[2].split(","):
        kappa = FIELDS[name](n, np.random.default_rng(3))
        problem = isobar.Diffusion(kappa, boundary={} if name == "bubbles" else {"z": 0.0})
        b = problem.rhs(cp.random.default_rng(3).standard_normal(kappa.shape) * (kappa > 0))
        for visits in VISITS:
            solver = isobar.Solver(problem, tolerance=1e-8, compatibility="project", multigrid={"visits": visits})
            results = [solver.solve(b) for _ in range(3)]
            fastest = min(result.seconds for result in results)
            print(f"{n}³ {name:9} {visits!s:15} {results[0].iterations:3} {1e3 * fastest:8.2f} ms", flush=True)
