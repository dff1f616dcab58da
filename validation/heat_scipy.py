#!/usr/bin/env python3
"""Compares a step of the heat equation with SciPy's conjugate gradients: the answer, and the time.

    cargo build --release && python3 validation/heat_scipy.py target/release/isobar [--points 128] [--steps 5]

u_t = Δu in the unit box, u = 0 on its sides, Crank–Nicolson, dt = 1e-3, from a random state; a step is solved until the
residual is 1e-8 of the first. The matrix is assembled anew, sharing no code with isobar. SciPy's preconditioners are none,
those of PyAMG where it is installed (smoothed aggregation, Ruge–Stüben), and `spilu` of several fill factors, which takes
minutes (`--only REGEX` picks some); all that conjugate gradients need is made once, and not counted. isobar runs with one
thread and with two. Exits with status 1 if an answer differs from isobar's by more than 1e-6 of the largest entry. Needs
NumPy and SciPy (pip install numpy scipy pyamg) and a machine that does nothing else.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

try:
    import pyamg
except ImportError:
    pyamg = None

DT, TOLERANCE = 1e-3, 1e-8

CASE = """
[problem]
kind = "heat"
[grid]
nx = {n}
ny = {n}
nz = {n}
[heat]
dt = {dt}
end_time = {end}
initial = {{ file = "initial.npy" }}
[solver]
tolerance = {tolerance}
preconditioner = "mic"
"""


def isobar(program, folder, n, steps, threads):
    """The state after the steps, seconds of each, and iterations of each."""
    text = CASE.format(n=n, dt=DT, end=steps * DT, tolerance=TOLERANCE)
    (folder / "case.toml").write_text(text)
    command = [program, "solve", "case.toml", "--device", "cpu", "--threads", str(threads), "--quiet"]
    subprocess.run(command + ["--output", "u.npy", "--report", "report.json"], cwd=folder, check=True)
    report = json.loads((folder / "report.json").read_text())
    iterations = [step["iterations"] for step in report["steps"]]
    return np.load(folder / "u.npy"), report["seconds"]["solve"] / steps, iterations


def matrices(n):
    """A and B of A u' = B u."""
    e = DT / 2 * (n + 1) ** 2
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    unit = sp.eye_array(n)
    laplacian = sum(sp.kron(sp.kron(a, b), c) for a, b, c in [(line, unit, unit), (unit, line, unit), (unit, unit, line)])
    identity = sp.eye_array(n**3)
    return (identity + e * laplacian).tocsr(), (identity - e * laplacian).tocsr()


def preconditioners(matrix):
    """Names and what makes them."""
    yield "none", lambda: None
    if pyamg is not None:
        yield "PyAMG smoothed aggregation", lambda: pyamg.smoothed_aggregation_solver(matrix).aspreconditioner()
        yield "PyAMG Ruge-Stueben", lambda: pyamg.ruge_stuben_solver(matrix).aspreconditioner()
    # With other orders and with pivoting the factors are no good to conjugate gradients.
    for drop, fill in [(1e-2, 2), (1e-3, 4), (1e-3, 10)]:
        symmetric = dict(permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0, options=dict(SymmetricMode=True))
        options = dict(drop_tol=drop, fill_factor=fill, **symmetric)

        def factorise(options=options):
            return spla.LinearOperator(matrix.shape, spla.spilu(matrix.tocsc(), **options).solve)

        yield f"spilu, drop {drop:g}, fill {fill}", factorise


def step(matrix, rhs, u, preconditioner):
    """The next state and the iterations it took, None where those were too many."""
    count = [0]

    def note(_):
        count[0] += 1

    # For the change of u, so that the tolerance is relative to the first residual as isobar's is.
    residual = rhs - matrix @ u
    change, failed = spla.cg(matrix, residual, rtol=TOLERANCE, atol=0, M=preconditioner, callback=note, maxiter=200)
    return (None if failed else u + change), count[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("isobar")
    parser.add_argument("--points", type=int, default=128)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", default="", metavar="REGEX", help="preconditioners of SciPy whose names match")
    arguments = parser.parse_args()
    n, steps = arguments.points, arguments.steps
    program = str(Path(arguments.isobar).resolve())
    initial = np.random.default_rng(0).uniform(-1, 1, (n, n, n))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        np.save(folder / "initial.npy", initial)
        ours = {threads: isobar(program, folder, n, steps, threads) for threads in (1, 2)}
    print(f"{n}^3 points, {steps} steps of {DT:g} to {TOLERANCE:g} of the first residual; seconds a step")
    for threads, (_, seconds, iterations) in ours.items():
        print(f"isobar, mic, threads {threads}: {seconds:.4f}   iterations {iterations}")
    expected, fastest = ours[1][0].ravel(), min(seconds for _, seconds, _ in ours.values())
    same = np.array_equal(expected, ours[2][0].ravel())
    print(f"two threads are {ours[1][1] / ours[2][1]:.2f} times as fast as one; same answer to the bit: {same}")

    matrix, explicit = matrices(n)
    best, is_good = np.inf, same
    for name, make in preconditioners(matrix):
        if not re.search(arguments.only, name):
            continue
        clock = time.perf_counter()
        preconditioner = make()
        setup = time.perf_counter() - clock
        u, counts, clock = initial.ravel(), [], time.perf_counter()
        for _ in range(steps):
            u, count = step(matrix, explicit @ u, u, preconditioner)
            counts.append(count)
            if u is None:
                break
        if u is None:
            print(f"SciPy CG, {name}: not converged in {counts[-1]} iterations, setup {setup:.2f}", flush=True)
            continue
        seconds = (time.perf_counter() - clock) / steps
        difference = np.abs(u - expected).max() / np.abs(expected).max()
        best, is_good = min(best, seconds), is_good and difference <= 1e-6
        print(f"SciPy CG, {name}: {seconds:.4f}, setup {setup:.2f}   iterations {counts}   differs by {difference:.1e}", flush=True)
    if np.isfinite(best):
        print(f"isobar is {best / fastest:.1f} times as fast as the fastest of these")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
