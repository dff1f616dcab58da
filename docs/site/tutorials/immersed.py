"""Bodies that do not follow the grid: one that holds u at a value, and one that nothing flows through."""

import isobar
import matplotlib.pyplot as plt
import numpy as np


def centres(n, length):
    x = (np.arange(n) + 0.5) * length / n
    return np.meshgrid(x, x, indexing="xy")


# A cylinder of radius a at u = 1 inside a ring of radius R at u = 0, both held by a reaction: c (u − value) with a large c.
a, ring, length = 0.2, 0.45, 1.0


def held(n):
    x, y = centres(n, length)
    r = np.hypot(x - 0.5, y - 0.5)
    body, outside = r < a, r > ring
    penalty = 1e4 * (n / length) ** 2  # κ = 1
    c = np.where(body | outside, penalty, 0.0)
    problem = isobar.Diffusion(np.ones((n, n)), reaction=c, boundary=0.0)
    solver = isobar.Solver(problem, tolerance=1e-10)
    result = solver.solve(problem.rhs(np.where(body, penalty, 0.0)))
    # The heat that leaves the body: the flow out of each of its cells, where that between two of them cancels.
    flow_x, flow_y = solver.fluxes(result.x)
    heat = np.sum((np.diff(flow_x, axis=1) + np.diff(flow_y, axis=0))[body])
    return r, result, heat


exact = 2 * np.pi / np.log(ring / a)
for n in (50, 100, 200, 400):
    r, result, heat = held(n)
    print(f"{n:3} cells: heat {heat:.4f}, exact {exact:.4f}, off by {abs(heat / exact - 1):.1%}, {result.iterations} iterations")
assert abs(heat / exact - 1) < 0.01
temperature = result.x

# A square array of cylinders that do not conduct: their cells take no part. One cell of the array is enough, by symmetry.
fraction = 0.5  # of the area
radius = np.sqrt(fraction / np.pi)
f = fraction
perrins = 1 - 2 * f / (1 + f - 0.305827 * f**4 / (1 - 1.402958 * f**8) - 0.013362 * f**8)
for n in (50, 100, 200, 400):
    x, y = centres(n, 1.0)
    active = np.hypot(x - 0.5, y - 0.5) > radius
    problem = isobar.Diffusion(np.ones((n, n)), active=active, boundary={"west": 1.0, "east": 0.0})
    result = isobar.Solver(problem, tolerance=1e-10).solve(problem.rhs())
    u = np.where(active, result.x, np.nan)
    conductivity = np.sum(2 * (1 - u[:, 0])[active[:, 0]])  # κ (1 − u) over half a cell, times the height of a cell
    print(f"{n:3} cells: conductivity {conductivity:.4f}, series {perrins:.4f}, off by {abs(conductivity / perrins - 1):.1%}")
assert abs(conductivity / perrins - 1) < 0.01

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9))
image = left.imshow(np.where(r < ring, temperature, np.nan), extent=(0, 1, 0, 1), origin="lower", cmap="inferno", vmin=0, vmax=1)
left.set(title="a body that holds u at 1", xticks=(), yticks=())
figure.colorbar(image, ax=left)
right.imshow(np.where(active, np.nan, 0.5), extent=(0, 1, 0, 1), origin="lower", cmap="gray", vmin=0, vmax=1)
image = right.imshow(u, extent=(0, 1, 0, 1), origin="lower", cmap="viridis", vmin=0, vmax=1)
right.contour(x, y, u, levels=np.linspace(0.05, 0.95, 19), colors="w", linewidths=0.6)
right.set(title="a body that nothing flows through", xticks=(), yticks=())
figure.colorbar(image, ax=right)
figure.savefig("immersed.png")
