"""Times direct solves of boxes beside the same solve written with SciPy's transforms or NumPy's products, from arrays to arrays.

    python validation/boxes.py [threads [cells of an axis...]]
"""

import functools
import os
import sys
import time

threads, sizes = int((sys.argv[1:2] or ["2"])[0]), [int(n) for n in sys.argv[2:]] or [64, 128]
# NumPy's libraries read these when they are loaded.
os.environ |= dict.fromkeys(["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"], str(threads))

import isobar  # noqa: E402
import numpy as np  # noqa: E402
import scipy.fft  # noqa: E402


def least(f, times=11):
    """Return the least milliseconds of some calls, and the last result."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        result = f()
        taken.append(time.perf_counter() - began)
    return 1e3 * min(taken), result


def by_transforms(b, boundary):
    """Return a solve of −∇²u = b on unit cells by transforms along all axes."""
    n = b.shape[0]
    k = np.arange(n)
    if boundary == "periodic":
        waves, last = 2 - 2 * np.cos(2 * np.pi * k / n), slice(n // 2 + 1)
        forth, back = scipy.fft.rfftn, functools.partial(scipy.fft.irfftn, s=b.shape)
    else:
        is_closed = boundary == "neumann"
        waves, last = 2 - 2 * np.cos(np.pi * (k if is_closed else k + 1) / n), slice(n)
        forth, back = (scipy.fft.dctn, scipy.fft.idctn) if is_closed else (scipy.fft.dstn, scipy.fft.idstn)
    values = waves[:, None, None] + waves[:, None] + waves[last]
    if boundary != 0.0:
        values[0, 0, 0] = np.inf
    inverse = 1 / values
    return lambda: back(forth(b, workers=threads) * inverse, workers=threads)


def by_products(b, widths):
    """Return a solve with the matrix of −∇² on closed cells of these widths along all axes, by products with eigenvectors."""
    between = 2 / (widths[1:] + widths[:-1])
    matrix = np.diag(np.append(between, 0) + np.append(0, between)) - np.diag(between, 1) - np.diag(between, -1)
    root = np.sqrt(widths)
    values, vectors = np.linalg.eigh(matrix / np.outer(root, root))
    vectors, values = vectors / root[:, None], np.maximum(values, 0)
    sums = values[:, None, None] + values[:, None] + values
    sums[0, 0, 0] = np.inf
    inverse = 1 / sums

    def along_all(x, matrix):
        x = np.matmul(x, matrix)
        x = np.matmul(matrix.T, x)
        return np.matmul(matrix.T, x.reshape(len(x), -1)).reshape(x.shape)

    return lambda: along_all(along_all(b, vectors) * inverse, vectors.T)


rng = np.random.default_rng(0)
print(f"{threads} threads; milliseconds of construction + setup, of a solve; of a solve with SciPy or NumPy; difference")
for n in sizes:
    widths = np.geomspace(1, 100, n)
    kinds = [("closed", "neumann", 1.0), ("fixed", 0.0, 1.0), ("periodic", "periodic", 1.0), ("stretched", "neumann", (widths,) * 3)]
    for name, boundary, spacing in kinds:
        b = rng.normal(size=(n, n, n))
        b -= b.mean()

        def make():
            problem = isobar.Diffusion(np.ones(b.shape), spacing=spacing, boundary=boundary)
            return isobar.Solver(problem, device="cpu", threads=threads)

        setup, solver = least(make, 5)
        solve, result = least(lambda: solver.solve(b))
        peer, x = least(by_products(b, widths) if name == "stretched" else by_transforms(b, boundary))
        x = x - x.mean() if boundary != 0.0 else x
        off = np.abs(result.x - x).max() / np.abs(x).max()
        print(f"{n}^3 {name:9}  {setup:7.2f}  {solve:7.2f}  {peer:7.2f}  {off:.0e}", flush=True)
