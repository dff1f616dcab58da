"""Is what a solve claims true of the array that it hands back?

    python validation/claims.py [COUNT] [FIRST] [DEVICE]          needs the isobar package and NumPy

Random problems of diffusion in one to three dimensions (contrast up to 1e12, widths that grow, closed cells, periodic directions of any length, every method and
preconditioner, all precisions, right-hand sides and solutions in float64 and float32), each solved with a tolerance that is 1.02 to 3 times the residual
that can be reached. The residual of what comes back is computed in long double, face by face, from the coefficients. Prints every false claim, and ends
with status 1 if there was one.
"""

import sys
import warnings

import numpy as np

import isobar

LONG = np.longdouble
PRECONDITIONERS = ["ic", "mic", "ssor-ai", "line", "jacobi", "multigrid", "amg", "neumann"]


def at(axis, index, dimensions):
    """An index of one layer along an axis."""
    return tuple(index if d == axis else slice(None) for d in range(dimensions))


def apply(kappa, reaction, sides, widths, active, u):
    """A u in long double: harmonic means at faces, Dirichlet sides at half a cell."""
    kappa, u = np.where(active, kappa, 0).astype(LONG), u.astype(LONG)
    across = [width.astype(LONG).reshape([-1 if d == axis else 1 for d in range(u.ndim)]) for axis, width in enumerate(widths)]
    volume = np.prod(np.broadcast_arrays(*across), axis=0)
    v = LONG(reaction) * volume * u
    for axis, side in enumerate(sides):
        half = 2 * kappa * volume / across[axis] ** 2
        there = np.roll(half, -1, axis)
        total = half + there
        face = np.where(total > 0, half * there / np.where(total > 0, total, 1), 0)
        flow = face * (u - np.roll(u, -1, axis))
        first, last = at(axis, 0, u.ndim), at(axis, -1, u.ndim)
        if side != "periodic" or u.shape[axis] == 1:
            flow[last] = 0
        v += flow - np.roll(flow, 1, axis)
        if side == 0.0:
            for end in (first, last):
                v[end] += half[end] * u[end]
    return np.where(active, v, 0)


def drawn(number):
    """A problem: coefficients, reaction, sides, active cells, right-hand side, method and options."""
    rng = np.random.default_rng(number)
    d = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(2, [200, 40, 14][d - 1], size=d))
    if d == 3 and rng.random() < 0.4:
        # A plane across any direction.
        plane = [int(n) for n in rng.integers(2, 70, size=2)]
        plane.insert(int(rng.integers(3)), 1)
        shape = tuple(plane)
    contrast = 10 ** rng.uniform(0, 12)
    kappa = [
        lambda: np.exp(rng.standard_normal(shape) * np.log(contrast) / 4),
        lambda: np.where(rng.random(shape) < 0.5, 1.0, contrast),
        lambda: np.full(shape, contrast),
        lambda: np.where(np.add.reduce(np.indices(shape) // 4) % 2 == 0, 1.0, contrast),
    ][rng.integers(4)]()
    sides = [[0.0, "neumann", "periodic", "periodic"][rng.integers(4)] for _ in shape]
    sides = ["neumann" if side == "periodic" and n <= 2 else side for side, n in zip(sides, shape)]
    reaction = 0.0 if 0.0 in sides and rng.random() < 0.4 else 10 ** rng.uniform(-6, 0)
    # Widths that grow from both ends to the middle, in some directions.
    most = 10 ** rng.uniform(0, 3)
    widths = [np.ones(n) if rng.random() < 0.6 else most ** (1 - abs(np.linspace(-1, 1, n))) for n in shape]
    active = np.ones(shape, bool)
    if rng.random() < 0.3:
        active = rng.random(shape) > rng.choice([0.1, 0.5])
        active.flat[0] = True
    b = rng.standard_normal(shape) * active
    method = str(rng.choice(["auto", "auto", "auto", "cg", "multigrid", "bicgstab", "jacobi"]))
    options = {"compatibility": "project", "max_iterations": 3000, "threads": int(rng.integers(1, 3))}
    if method == "cg":
        options["preconditioner"] = {"kind": str(rng.choice(PRECONDITIONERS))}
    chance = rng.random()
    if chance < 0.2 and method in ("auto", "multigrid"):
        options["precision"] = "mixed"
    elif chance < 0.3:
        options["precision"] = "f32"
    if rng.random() < 0.3:
        b = b.astype(np.float32)
    return kappa, reaction, sides, widths, active, b, method, options, rng.uniform(1.02, 3)


def main(count="1000", first="0", device="cpu"):
    warnings.simplefilter("ignore")
    tried = converged = false = 0
    for number in range(int(first), int(first) + int(count)):
        kappa, reaction, sides, widths, active, b, method, options, times = drawn(number)
        if device != "cpu":
            del options["threads"]
        names = ["x", "y", "z"][: b.ndim][::-1]
        problem = isobar.Diffusion(
            kappa,
            spacing=widths,
            boundary=dict(zip(names, sides)),
            active=active,
            reaction=np.full(b.shape, reaction) if reaction else None,
        )
        size = np.linalg.norm(b.astype(np.float64))

        def solved(tolerance):
            result = isobar.Solver(problem, method, device, tolerance, **options).solve(b)
            x = np.where(active, np.nan_to_num(result.x.astype(np.float64)), 0)
            true = np.linalg.norm((b.astype(LONG) - apply(kappa, reaction, sides, widths, active, x)).astype(np.float64)) / size
            return result, true

        floor, _ = solved(1e-15)
        # Of pieces that nothing fixes the right-hand side was changed.
        if floor.report["outcome"].get("projected") or not 0 < floor.residual < 0.3:
            continue
        tolerance = times * max(floor.residual, 1e-16)
        result, true = solved(tolerance)
        tried, converged = tried + 1, converged + result.converged
        # A residual that is computed in double precision has a rounding error of its own.
        if result.converged and true > 1.05 * tolerance + 1e-16 or abs(result.residual - true) > 0.3 * true + 1e-15:
            false += 1
            print(f"FALSE: {number} {method} {options} {b.dtype} {b.shape} {sides}: {result.stop}, says {result.residual:.2e},", end=" ")
            print(f"is {true:.2e}, tolerance {tolerance:.2e}", flush=True)
    print(f"{tried} problems, {converged} converged, {false} false claims")
    return 1 if false or not tried else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
