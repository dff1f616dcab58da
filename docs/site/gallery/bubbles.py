"""Pressure in water with air bubbles: a coefficient that jumps by a factor of 1000, and what it does to iterations."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

n = 192
centre = (np.arange(n) + 0.5) / n
y, x = np.meshgrid(centre, centre, indexing="ij")
rng = np.random.default_rng(3)
air = np.zeros((n, n), bool)
for bx, by in rng.uniform(0.1, 0.9, (14, 2)):
    air |= (x - bx) ** 2 + (y - by) ** 2 < 0.06**2
beta = np.where(air, 1000.0, 1.0)  # 1/density

problem = isobar.Diffusion(beta, boundary={"west": 1.0, "east": 0.0})
b = problem.rhs()
methods = {
    "cg, diagonal": dict(method="cg", preconditioner="jacobi"),
    "cg, Neumann series": dict(method="cg", preconditioner="neumann"),
    "deflated cg, Neumann series": dict(
        method="deflated-cg", preconditioner="neumann", deflation={"stripes": "bodies"}
    ),
    "default: cg, multigrid": {},
}
figure, (left, right) = plt.subplots(1, 2, width_ratios=(1, 1.2))
for name, options in methods.items():
    result = isobar.Solver(problem, tolerance=1e-8, max_iterations=3000, **options).solve(b)
    print(f"{name:28} {result}")
    right.semilogy(result.history, label=f"{name}: {result.iterations}")
left.contourf(x, y, air, levels=(0.5, 1), colors="0.8")
left.contour(x, y, result.x, levels=24, cmap="viridis", linewidths=1)
left.set(title="isobars around bubbles", xticks=(), yticks=(), aspect="equal")
right.set(title="relative residual", xlabel="iteration", ylim=(1e-13, 3), xscale="log")
right.legend(loc="lower left")
figure.savefig("bubbles.png")
