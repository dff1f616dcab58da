"""A sparse matrix, and the arrays of a groundwater model, as isobar's conductances between neighbours."""

import isobar
import numpy as np
import scipy.sparse.linalg as sla

rng = np.random.default_rng(2)
nz, ny, nx = shape = (6, 20, 30)
given = isobar.Diffusion(rng.lognormal(size=shape), boundary={"west": 1.0, "east": 0.0})
A, b = given.to_scipy(), given.rhs(1.0)

# begin matrix
def faces(A, shape):
    """A symmetric matrix with at most 7 entries a row, none positive beside the diagonal; x runs fastest."""
    nz, ny, nx = shape
    between = lambda k: np.append(-A.diagonal(k), np.zeros(k)).reshape(shape)
    tx, ty, tz = between(1)[:, :, :-1], between(nx)[:, :-1], between(nx * ny)[:-1]
    shift = np.maximum(A.sum(axis=1), 0.0)                 # row sums; rounding makes some of them negative
    return isobar.Faces(tx, ty, tz, shift=shift.reshape(shape))


problem = faces(A, (nz, ny, nx))                           # (1, ny, nx) in two dimensions
assert abs(problem.to_scipy() - A).max() < 1e-12 * abs(A).max()
u = isobar.Solver(problem).solve(b.reshape(shape)).x.ravel()
# end matrix
assert np.abs(u - sla.spsolve(A.tocsc(), b.ravel())).max() < 1e-6 * u.max()

k, k33, idomain = rng.lognormal(size=shape), 0.1, rng.random(shape) > 0.1
delr, delc, top = rng.uniform(50, 100, nx), rng.uniform(50, 100, ny), np.zeros((ny, nx))
botm = top - np.cumsum(rng.uniform(5, 10, shape), axis=0)
inflow, conductance, stage = np.full((ny, nx), 1e-3), np.zeros(shape), 0.0
conductance[0] = 2.0

# begin modflow
thick = -np.diff(np.concatenate([top[None], botm]), axis=0)  # k, k33, idomain: (nlay, nrow, ncol)
dx, dy = delr, delc[:, None]


def series(h, axis):
    """The conductance between neighbours from those of the halves of both cells."""
    h, g = np.delete(h, -1, axis), np.delete(h, 0, axis)
    return h * g / (h + g)


tx = series(2 * k * thick * dy / dx, axis=2)
ty = series(2 * k * thick * dx / dy, axis=1)
tz = series(2 * k33 * dx * dy / thick, axis=0)
problem = isobar.Faces(tx, ty, tz, shift=conductance, active=idomain > 0)   # GHB, RIV; CHD: a large conductance
b = conductance * stage                                      # and recharge · area, wells: inflow into each cell
b[0] += inflow * dx * dy
b = np.where(idomain > 0, b, 0.0)
head = isobar.Solver(problem).solve(b).x                     # rows from north to south, layers from the top, as in k
# end modflow
print(f"matrix: largest u {u.max():.4f}; groundwater: heads {head[idomain].min():.3f} to {head[idomain].max():.3f}")
