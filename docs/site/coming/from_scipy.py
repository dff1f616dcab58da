"""The same system by SciPy and by isobar, and both together."""

import isobar
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

n = 64
kappa = np.random.default_rng(1).lognormal(size=(n, n))
b = np.full(n * n, 1 / n**2)  # f = 1, times the area of a cell

# begin scipy
def diffusion_matrix(kappa):
    """−∇·(κ∇u), finite volumes, u = 0 on all sides."""
    rows = []
    number = np.arange(kappa.size).reshape(kappa.shape)
    diagonal = np.zeros(kappa.shape)
    for axis in (0, 1):
        k = np.moveaxis(kappa, axis, 0)
        m = np.moveaxis(number, axis, 0)
        d = np.moveaxis(diagonal, axis, 0)
        t = 2 * k[1:] * k[:-1] / (k[1:] + k[:-1])
        d[1:] += t
        d[:-1] += t
        d[0] += 2 * k[0]
        d[-1] += 2 * k[-1]
        rows.append((-t.ravel(), m[1:].ravel(), m[:-1].ravel()))
    t, i, j = map(np.concatenate, zip(*rows))
    lower = sp.coo_array((t, (i, j)), shape=2 * (kappa.size,))
    return (lower + lower.T + sp.diags_array(diagonal.ravel())).tocsr()


A = diffusion_matrix(kappa)
count = 0


def step(_):
    global count
    count += 1


x, info = sla.cg(A, b, rtol=1e-8, callback=step)
print(f"scipy cg: {count} iterations")
# end scipy

# begin isobar
problem = isobar.Diffusion(kappa, boundary=0.0)
solver = isobar.Solver(problem, tolerance=1e-8)
result = solver.solve(b.reshape(n, n))
print(f"isobar: {result.iterations} iterations")
# end isobar

# begin both
count = 0
y, info = sla.cg(A, b, rtol=1e-8, M=solver.as_preconditioner(), callback=step)
print(f"scipy cg, isobar's multigrid as M: {count} iterations")
# end both

assert info == 0
assert np.abs(result.x.ravel() - x).max() < 1e-6 * np.abs(x).max()
assert np.abs(y - x).max() < 1e-6 * np.abs(x).max()
