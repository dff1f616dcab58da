"""−∇·(κ∇u) + c u by finite volumes, assembled independently with SciPy, for comparison."""

import itertools

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla


def widths(shape, spacing):
    """Return the widths of cells in every direction, in the order of the shape."""
    if spacing is None:
        spacing = [1.0 / n for n in shape]
    elif not isinstance(spacing, tuple):
        spacing = [spacing] * len(shape)
    return [np.broadcast_to(np.asarray(w, float), (n,)) for n, w in zip(shape, spacing)]


def assemble(kappa, spacing=None, boundary=None, reaction=0.0, active=None, f=0.0):
    """Return A and b; `boundary` has a (lower, upper) pair for each direction: a number, None (closed), "periodic", ("flux", q) or ("robin", h, v);
    numbers may be arrays with one for each face of the side."""
    shape = kappa.shape
    dims = len(shape)
    w = widths(shape, spacing)
    boundary = boundary or [(None, None)] * dims
    is_active = (kappa > 0) if active is None else (kappa > 0) & active
    number = np.arange(kappa.size).reshape(shape)
    volume = np.ones(shape)
    for d in range(dims):
        volume = volume * w[d].reshape([-1 if e == d else 1 for e in range(dims)])
    rows, columns, values = [], [], []
    b = np.where(is_active, np.broadcast_to(f, shape) * volume, 0.0)
    diagonal = np.where(is_active, np.broadcast_to(reaction, shape) * volume, 0.0)
    for at in itertools.product(*map(range, shape)):
        if not is_active[at]:
            continue
        for d in range(dims):
            area = volume[at] / w[d][at[d]]
            for step, side in ((-1, 0), (1, 1)):
                other = list(at)
                other[d] += step
                if not 0 <= other[d] < shape[d]:
                    given = boundary[d][side]
                    if given is None:
                        continue
                    faces, face = shape[:d] + shape[d + 1 :], at[:d] + at[d + 1 :]
                    if not isinstance(given, str):
                        kind, *numbers = given if isinstance(given, tuple) else ("value", given)
                        numbers = [np.broadcast_to(np.reshape(n, faces) if np.size(n) > 1 else n, faces)[face] for n in numbers]
                        if kind == "flux":
                            b[at] += numbers[0] * area
                            continue
                        half = 2 * kappa[at] * area / w[d][at[d]]
                        if kind == "robin":
                            # Two conductances in series.
                            half = 1 / (1 / half + 1 / (numbers[0] * area)) if numbers[0] else 0.0
                        diagonal[at] += half
                        b[at] += half * numbers[-1]
                        continue
                    other[d] %= shape[d]
                other = tuple(other)
                if other == at or not is_active[other]:
                    continue
                resistance = w[d][at[d]] / (2 * kappa[at]) + w[d][other[d]] / (2 * kappa[other])
                transmissibility = area / resistance
                diagonal[at] += transmissibility
                rows.append(number[at])
                columns.append(number[other])
                values.append(-transmissibility)
    size = kappa.size
    A = sp.coo_matrix((values, (rows, columns)), shape=(size, size)).tocsr() + sp.diags(diagonal.ravel())
    return A, b


def solve(A, b):
    """Solve with SciPy's sparse direct solver; inactive cells are 0, and in singular problems the mean is 0."""
    flat = b.ravel().copy()
    part = np.flatnonzero(A.diagonal() != 0)
    inner = A[part][:, part].tocsc()
    if np.allclose(inner @ np.ones(len(part)), 0.0, atol=1e-12 * abs(inner).max()):
        x = np.zeros(len(part))
        x[1:] = sla.spsolve(inner[1:, 1:], flat[part][1:])
        x -= x.mean()
    else:
        x = sla.spsolve(inner, flat[part])
    found = np.zeros(len(flat))
    found[part] = x
    return found.reshape(b.shape)


def differences(function, values, step):
    """Return the central differences of a function of an array."""
    found = np.zeros(values.shape)
    for at in np.ndindex(values.shape):
        both = []
        for sign in (1, -1):
            other = values.copy()
            other[at] += sign * step
            both.append(function(other))
        found[at] = (both[0] - both[1]) / (2 * step)
    return found
