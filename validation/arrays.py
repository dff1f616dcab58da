"""Times everything between a user's arrays and the answer: python validation/arrays.py [--device cuda] [--cells 256] [--image rock.npy].

A row has milliseconds of making a problem from an array of coefficients, of its right-hand side, of a solver's setup, of a solve to 1e-8, and of an
update with other coefficients (problem and update), each the best of five, with NumPy arrays and, on a GPU, with CuPy arrays. Further lines give
the time of 16 right-hand sides over that of one, and, of an image of labels 0 and more, the three effective conductivities.
"""

import argparse
import time

import numpy as np

import isobar

SOLVED = {"tolerance": 1e-8}


def bubbles(n, contrast=1e3, count=20, seed=1):
    """Return κ = 1 with spheres of 1 / contrast."""
    random = np.random.default_rng(seed)
    axis = (np.arange(n) + 0.5) / n
    kappa = np.ones((n, n, n))
    for x, y, z in random.random((count, 3)):
        near = (axis - x) ** 2 + ((axis - y) ** 2)[:, None] + ((axis - z) ** 2)[:, None, None] < 0.1**2
        kappa[near] = 1 / contrast
    return kappa


def lognormal(n, seed=2):
    return np.exp(1.5 * np.random.default_rng(seed).standard_normal((n, n, n)))


class Clock:
    """Keeps the least seconds of each step."""

    def __init__(self, synchronize):
        self.least, self._synchronize = {}, synchronize

    def time(self, step, function):
        self._synchronize()
        start = time.perf_counter()
        result = function()
        self._synchronize()
        self.least[step] = min(self.least.get(step, np.inf), 1e3 * (time.perf_counter() - start))
        return result


def row(name, kappa, other, library, device, synchronize, repeats=5):
    clock = Clock(synchronize)
    kappa, other = library(kappa), library(other)
    boundary = {side: 0.0 for side in ("x", "y", "z")}
    for repeat in range(repeats + 1):
        if repeat == 1:
            clock.least.clear()
        problem = clock.time("problem", lambda: isobar.Diffusion(kappa, boundary=boundary))
        b = clock.time("rhs", lambda: problem.rhs(1.0))
        b = library(b)
        solver = clock.time("setup", lambda: isobar.Solver(problem, device=device, **SOLVED))
        result = clock.time("solve", lambda: solver.solve(b))
        changed = clock.time("new", lambda: isobar.Diffusion(other, boundary=boundary))
        clock.time("update", lambda: solver.update(changed))
        solver.solve(b)
        assert result.converged
        del solver, problem, changed
    print(f"{name:28}" + "".join(f"{step:>9} {ms:8.2f}" for step, ms in clock.least.items()) + f"   {result.iterations} it", flush=True)


def several(n, library, device, synchronize, count=16):
    """Time `count` right-hand sides and one."""
    problem = isobar.Diffusion(bubbles(n), boundary={"x": 0.0, "y": 0.0, "z": 0.0})
    solver = isobar.Solver(problem, device=device, **SOLVED)
    random = np.random.default_rng(3)
    stack = library(np.stack([problem.rhs(random.standard_normal(problem.shape)) for _ in range(count)]))
    clock = Clock(synchronize)
    for _ in range(4):
        clock.time("one", lambda: solver.solve(stack[0]))
        clock.time("all", lambda: solver.solve(stack))
    one, whole = clock.least["one"], clock.least["all"]
    print(f"{count} right-hand sides, {n}³    one {one:.2f} ms, all {whole:.2f} ms, {whole / one:.2f} times", flush=True)


def effective(path, device, synchronize):
    image = np.load(path)
    clock = Clock(synchronize)
    labels, counts = np.unique(image, return_counts=True)
    table = {int(label): float(n == counts.min()) for label, n in zip(labels, counts)}
    for _ in range(3):
        found = clock.time("all", lambda: isobar.effective(image, table, tolerance=1e-4, device=device))
    values = ", ".join(f"{axis} {each.tortuosity:.5f} ({each.iterations})" for axis, each in found.items())
    print(f"image {image.shape}: {clock.least['all']:.0f} ms for tortuosities {values}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cells", type=int, default=256, help="cells in each direction")
    parser.add_argument("--image", help="an image of labels, .npy")
    given = parser.parse_args()
    libraries, synchronize = {"NumPy": np.asarray}, lambda: None
    if given.device.startswith("cuda"):
        import cupy

        libraries["CuPy"], synchronize = cupy.asarray, cupy.cuda.runtime.deviceSynchronize
    n = given.cells
    problems = {"bubbles": (bubbles(n), bubbles(n, seed=5)), "lognormal": (lognormal(n), lognormal(n, 7)), "constant": (np.ones((n, n, n)), np.full((n, n, n), 2.0))}
    for library, convert in libraries.items():
        for name, (kappa, other) in problems.items():
            row(f"{name} {n}³, {library}", kappa, other, convert, given.device, synchronize)
    for cells in (n // 4, n // 2):
        several(cells, list(libraries.values())[-1], given.device, synchronize)
    if given.image:
        effective(given.image, given.device, synchronize)


if __name__ == "__main__":
    main()
