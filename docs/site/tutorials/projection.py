"""Incompressible flow in a lid-driven cavity: a pressure projection in every time step, on a staggered grid."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

n, reynolds, end = 64, 100.0, 15.0
h = 1 / n
dt = 0.2 * h * h * reynolds  # below h² Re / 4, where explicit friction is stable

# Velocities on faces: u[j, i] on the western face of cell (j, i), v[j, i] on its southern face. Walls are faces, too.
u, v, p = np.zeros((n, n + 1)), np.zeros((n + 1, n)), np.zeros((n, n))

# −∇·∇p = b with no flow through the walls: made once, used in every step.
problem = isobar.Diffusion(np.ones((n, n)), spacing=h)
solver = isobar.Solver(problem, tolerance=1e-8)


def change():
    """du/dt and dv/dt by advection and friction, on the faces inside."""
    # Velocities beyond the walls, such that the mean with those inside is the wall's: 1 at the lid, 0 elsewhere.
    ue = np.vstack((-u[:1], u, 2 - u[-1:]))
    ve = np.hstack((-v[:, :1], v, -v[:, -1:]))
    uc, vc = (u[:, 1:] + u[:, :-1]) / 2, (v[1:] + v[:-1]) / 2  # in centres of cells
    un, vn = (ue[1:] + ue[:-1]) / 2, (ve[:, 1:] + ve[:, :-1]) / 2  # in corners
    laplace_u = ue[2:, 1:-1] + ue[:-2, 1:-1] + u[:, 2:] + u[:, :-2] - 4 * u[:, 1:-1]
    laplace_v = ve[1:-1, 2:] + ve[1:-1, :-2] + v[2:] + v[:-2] - 4 * v[1:-1]
    uv = un * vn
    du = laplace_u / h**2 / reynolds - np.diff(uc**2, axis=1) / h - np.diff(uv[:, 1:-1], axis=0) / h
    dv = laplace_v / h**2 / reynolds - np.diff(vc**2, axis=0) / h - np.diff(uv[1:-1], axis=1) / h
    return du, dv


steps = int(end / dt)
iterations = 0
for step in range(steps):
    du, dv = change()
    u[:, 1:-1] += dt * du
    v[1:-1] += dt * dv
    # The divergence that this has left is what the pressure takes out: ∇·∇p = ∇·u / dt, of which b is minus the integral over a cell.
    outflow = h * (np.diff(u, axis=1) + np.diff(v, axis=0))
    result = solver.solve(-outflow / dt, x0=p)
    iterations += result.iterations
    p = result.x
    u[:, 1:-1] -= dt * np.diff(p, axis=1) / h
    v[1:-1] -= dt * np.diff(p, axis=0) / h

divergence = (np.diff(u, axis=1) + np.diff(v, axis=0)) / h
print(f"{steps} steps, {iterations / steps:.2f} iterations a step, largest divergence {np.abs(divergence).max():.1e}")
middle_u, middle_v = u[:, n // 2], v[n // 2]
print(f"u on the vertical centre line: least {middle_u.min():.4f}   (Botella and Peyret, 1998: -0.2140)")
print(f"v on the horizontal one: least {middle_v.min():.4f}, largest {middle_v.max():.4f}   (-0.2538, 0.1796)")
assert abs(middle_u.min() + 0.2140) < 0.003 and abs(middle_v.min() + 0.2538) < 0.003

x = (np.arange(n) + 0.5) * h
uc, vc = (u[:, 1:] + u[:, :-1]) / 2, (v[1:] + v[:-1]) / 2
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
image = left.pcolormesh(x, x, np.hypot(uc, vc), cmap="magma", shading="gouraud")
left.streamplot(x, x, uc, vc, color="w", linewidth=0.6, density=1.3, arrowsize=0.6)
left.set(title="speed and streamlines", aspect="equal", xticks=(), yticks=(), xlim=(x[0], x[-1]), ylim=(x[0], x[-1]))
figure.colorbar(image, ax=left)
levels = np.linspace(-1, 1, 31) * np.percentile(np.abs(p), 98)
image = right.contourf(x, x, p, levels=levels, cmap="RdBu_r", extend="both")
right.set(title="pressure", aspect="equal", xticks=(), yticks=())
figure.colorbar(image, ax=right, ticks=(-0.2, -0.1, 0, 0.1, 0.2))
figure.savefig("projection.png")
