"""Heat that flows around obstacles in a plate whose conductivity depends on the temperature, through time and at its end."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

boundary = {"west": 1.0, "east": 0.0}  # no flow through the others


def kappa(u):
    """Conductivity at temperature u: 21 times as large at 1 as at 0."""
    return 0.1 + 2 * u**2


def plate(n):
    """Which of n × n cells conduct: all but three walls."""
    active = np.ones((n, n), bool)
    active[: 2 * n // 3, n // 4 : n // 4 + n // 24] = False
    active[n // 3 :, n // 2 : n // 2 + n // 24] = False
    active[: 2 * n // 3, 3 * n // 4 : 3 * n // 4 + n // 24] = False
    return active


# Through time: κ is that of the state before, so that each step is a linear solve.
n = 72
active = plate(n)
heat = isobar.Heat(kappa(np.zeros((n, n))), boundary=boundary, active=active)
run = heat.steps(0.0, dt=2e-2, end_time=2.0, scheme="backward-euler", preconditioner="multigrid")
shown = {0.1: None, 0.5: None, 2.0: None}
for step in run:
    u = run.u
    for time in shown:
        if abs(step.time - time) < 1e-9:
            shown[time] = u
    run.update(isobar.Heat(kappa(u), boundary=boundary, active=active))
states = {time: np.where(active, state, np.nan) for time, state in shown.items()}
print(f"{step.number} steps")


# At the end: solve with the κ of the iterate before (Picard's iteration) until nothing changes.
def steady(active):
    u = np.zeros(active.shape)
    problem = isobar.Diffusion(kappa(u), boundary=boundary, active=active)
    solver = isobar.Solver(problem, tolerance=1e-10)
    for iteration in range(1, 100):
        before, u = u, solver.solve(problem.rhs(), x0=u).x
        if np.abs(u - before).max() < 1e-8:
            return u, iteration
        problem = isobar.Diffusion(kappa(u), boundary=boundary, active=active)
        solver.update(problem)


# Kirchhoff's transform: K(u) = ∫κ du = 0.1 u + 2/3 u³ obeys Laplace's equation, which takes one solve.
for n in (48, 96):
    active = plate(n)
    u, iterations = steady(active)
    problem = isobar.Diffusion(np.ones((n, n)), boundary={"west": 0.1 + 2 / 3, "east": 0.0}, active=active)
    transformed = isobar.Solver(problem, tolerance=1e-10).solve(problem.rhs()).x
    difference = np.abs(0.1 * u + 2 / 3 * u**3 - transformed)[active].mean()
    print(f"{n:3} × {n}: {iterations} linear solves; K(u) differs from the transform by {difference:.1e} on average")
assert difference < 1e-3

figure, axes = plt.subplots(1, 3, sharey=True, figsize=(9, 3.2))
for ax, (time, state) in zip(axes, states.items()):
    image = ax.imshow(state, extent=(0, 1, 0, 1), cmap="inferno", vmin=0, vmax=1, origin="lower")
    ax.contour(state, levels=np.linspace(0.1, 0.9, 9), extent=(0, 1, 0, 1), colors="w", linewidths=0.5)
    ax.set(title=f"t = {time}", xticks=(), yticks=())
figure.colorbar(image, ax=axes, label="temperature")
figure.savefig("nonlinear.png")
