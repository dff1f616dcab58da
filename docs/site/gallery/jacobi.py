"""Jacobi's method, plain and with tiles that are relaxed several times before they exchange values."""

import warnings

import isobar
import matplotlib.pyplot as plt
import numpy as np

n = 96
problem = isobar.Diffusion(np.ones((n, n)), boundary=0.0)
b = problem.rhs(1.0)
figure, (left, right) = plt.subplots(1, 2)
for name, options in {
    "plain": dict(sub_iterations=1),
    "8 in tiles of 32×32": dict(sub_iterations=8, overlap=4, tile=[32, 32]),
    "32 in tiles of 32×32": dict(sub_iterations=32, overlap=4, tile=[32, 32]),
}.items():
    solver = isobar.Solver(problem, "jacobi", tolerance=1e-4, max_iterations=100_000, jacobi=options)
    result = solver.solve(b)
    print(f"{name:22} {result}  {result.seconds:.2f} s")
    left.loglog(result.history, label=f"{name}: {result.iterations}")
    if options["sub_iterations"] == 32:
        early = isobar.Solver(problem, "jacobi", tolerance=1e-4, max_iterations=3, jacobi=options)
left.set(title="relative residual", xlabel="passes over memory")
left.legend(loc="lower left")

# After three cycles the tiles still show.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", isobar.NotConvergedWarning)
    u = early.solve(b).x
right.imshow(u, cmap="magma", origin="lower")
right.set(title="u after 3 cycles of 32", xticks=(), yticks=())
figure.savefig("jacobi.png")
