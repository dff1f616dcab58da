"""A sparse matrix, and the arrays of a groundwater model, as isobar's conductances between neighbours."""

import isobar
import numpy as np
import scipy.sparse as sp
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
    shift = np.asarray(A.sum(axis=1)).reshape(shape)       # row sums
    return isobar.Faces(tx, ty, tz, shift=np.maximum(shift, 0.0))   # rounding makes some of them negative


problem = faces(A, (nz, ny, nx))                           # (1, ny, nx) in two dimensions
assert abs(problem.to_scipy() - A).max() < 1e-12 * abs(A).max()
u = isobar.Solver(problem).solve(b.reshape(shape)).x.ravel()
# end matrix
assert abs(faces(sp.csr_matrix(A), shape).to_scipy() - A).max() < 1e-12 * abs(A).max()
assert np.abs(u - sla.spsolve(A.tocsc(), b.ravel())).max() < 1e-6 * u.max()

k, k33, idomain = rng.lognormal(size=shape), np.full(shape, 0.1), (rng.random(shape) > 0.1).astype(int)
k[idomain == 0] = rng.choice([0.0, 1.0, np.nan], size=(idomain == 0).sum())
delr, delc, top = rng.uniform(50, 100, nx), rng.uniform(50, 100, ny), np.zeros((ny, nx))
botm = top - np.cumsum(rng.uniform(5, 10, shape), axis=0)
recharge, wells = np.full((ny, nx), 1e-3), np.zeros(shape)
river, stage = np.zeros(shape), np.full(shape, 3.0)
river[0, :, -1] = 2.0
fixed, level = np.zeros(shape, bool), np.full(shape, 5.0)
fixed[:, :, 0] = True

# begin modflow
thick = -np.diff(np.concatenate([top[None], botm]), axis=0)  # k, k33, idomain, …: (nlay, nrow, ncol)
dx, dy = delr, delc[:, None]


def series(h, axis):
    """Conductances between neighbours from those of the halves of both cells."""
    h, g = np.delete(h, -1, axis), np.delete(h, 0, axis)
    return np.divide(h * g, h + g, out=np.zeros_like(h), where=(h > 0) & (g > 0))  # 0 beside 0 and NaN


tx = series(2 * k * thick * dy / dx, axis=2)
ty = series(2 * k * thick * dx / dy, axis=1)
tz = series(2 * k33 * dx * dy / thick, axis=0)
shift, b = river.copy(), river * stage + wells               # RIV, GHB: a conductance to a level; WEL: inflow
b[0] += recharge * dx * dy
active = (idomain > 0) & ~fixed
for t, axis in ((tx, 2), (ty, 1), (tz, 0)):                  # CHD: fixed cells are left out, their conductances kept
    t, s, q, held, h = (np.moveaxis(v, axis, 0) for v in (t, shift, b, fixed & (idomain > 0), level))
    for here, there in ((np.s_[:-1], np.s_[1:]), (np.s_[1:], np.s_[:-1])):
        s[here] += t * held[there]
        q[here] += t * held[there] * h[there]
problem = isobar.Faces(tx, ty, tz, shift=shift, active=active)
head = isobar.Solver(problem).solve(np.where(active, b, 0.0)).x
head = np.where(fixed, level, np.where(active, head, np.nan))
# end modflow
whole = isobar.Faces(tx, ty, tz, shift=river, active=idomain > 0).to_scipy().tocsr()
known, free = np.where(fixed, level, 0.0).ravel(), active.ravel()
inflow = river * stage
inflow[0] += recharge * dx * dy
exact = sla.spsolve(whole[free][:, free].tocsc(), inflow.ravel()[free] - (whole @ known)[free])
assert np.abs(head.ravel()[free] - exact).max() < 1e-5
print(f"matrix: largest u {u.max():.4f}; groundwater: heads {np.nanmin(head):.3f} to {np.nanmax(head):.3f}")
