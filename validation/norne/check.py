#!/usr/bin/env python3
"""Compares isobar's answer to cases/norne.toml with a sparse direct solve.

    isobar solve cases/norne.toml --output /tmp/norne.npy
    python3 validation/norne/check.py /tmp/norne.npy

Assembles the matrix anew from the data files, sharing no code with isobar, and solves with SciPy's
SuperLU. Exits with status 1 if the two differ by more than 1e-6 of the largest pressure.
Needs NumPy and SciPy (pip install numpy scipy) and Python 3.11.
"""

import sys
import tomllib
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph
import scipy.sparse.linalg as spla

CASES = Path(__file__).resolve().parents[2] / "cases"


def harmonic(a, b):
    """Transmissibility of a face between half cells a and b; 0 where either is closed."""
    total = a + b
    return np.divide(a * b, total, out=np.zeros_like(total), where=(a > 0) & (b > 0))


def main(answer_file):
    case = tomllib.loads((CASES / "norne.toml").read_text())
    load = lambda name: np.load(CASES / "norne" / name).astype(float)
    active = load("actnum.npy") > 0
    permeability = np.where(active, load("permx.npy"), 0.0)
    horizontal = permeability * load("ntg.npy")
    vertical = permeability * load("kv_over_kh.npy")[:, None, None]
    dx, dy, dz = case["grid"]["spacing"]
    number = np.arange(active.size).reshape(active.shape)

    rows, columns, values = [], [], []
    for axis, kappa, area_over_width in [
        (2, horizontal, dy * dz / dx),
        (1, horizontal, dx * dz / dy),
        (0, vertical, dx * dy / dz),
    ]:
        half = 2 * area_over_width * kappa
        lower = [slice(None)] * 3
        upper = [slice(None)] * 3
        lower[axis], upper[axis] = slice(None, -1), slice(1, None)
        t = harmonic(half[tuple(lower)], half[tuple(upper)]).ravel()
        a, b = number[tuple(lower)].ravel(), number[tuple(upper)].ravel()
        rows += [a, b, a, b]
        columns += [b, a, a, b]
        values += [-t, -t, t, t]
    matrix = sp.coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(active.size,) * 2
    ).tocsr()
    matrix.eliminate_zeros()

    rhs = np.zeros(active.size)
    for source in case["diffusion"]["sources"]:
        first, last = source["k"]
        cells = number[first : last + 1, source["j"], source["i"]]
        weight = horizontal.ravel()[cells] * dz
        rhs[cells] += source["rate"] * weight / weight.sum()

    # Every connected part is determined up to a constant: fix its first cell, then take out the mean.
    _, part = csgraph.connected_components(matrix, directed=False)
    exact = np.zeros(active.size)
    sizes = np.bincount(part)
    large = np.flatnonzero(sizes > 1)
    for label in large:
        cells = np.flatnonzero(part == label)
        block = matrix[cells][:, cells].tocsc()
        solution = np.zeros(len(cells))
        solution[1:] = spla.spsolve(block[1:, 1:], rhs[cells[1:]])
        exact[cells] = solution - solution.mean()

    answer = np.nan_to_num(np.load(answer_file)).ravel()
    scale = np.abs(exact).max()
    difference = np.abs(answer - exact).max() / scale
    residual = np.linalg.norm(rhs - matrix @ answer) / np.linalg.norm(rhs)
    print(f"{len(large)} connected parts, the largest of {sizes.max()} cells; pressures up to {scale:.4g}")
    print(f"largest difference from the direct solve: {difference:.2e} of that; residual of isobar's answer {residual:.2e}")
    return 0 if difference <= 1e-6 else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
