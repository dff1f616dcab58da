"""Pressure correction of an atmosphere model on one panel of the cubed sphere."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

nz, ny, nx = 64, 128, 128
problem = isobar.Helmholtz.panel(nx, ny, nz)  # 50 km deep, layers that grow thicker upwards
height, y, x = problem.coordinates  # y and x of the plane that touches the panel in its middle

# Air that converges near the ground in one place and diverges in another.
z, y2, x2 = height[:, None, None], y[None, :, None], x[None, None, :]
source = np.exp(-(((x2 + 0.4) / 0.1) ** 2) - ((y2 + 0.3) / 0.1) ** 2 - (z / 8e3) ** 2)
source -= np.exp(-(((x2 - 0.4) / 0.2) ** 2) - ((y2 - 0.3) / 0.1) ** 2 - (z / 12e3) ** 2)
# A front: a step across which it changes sign.
source += 0.4 * np.tanh((y2 - x2) / 0.02) * np.exp(-(((x2 + y2) / 0.5) ** 2) - (z / 5e3) ** 2)

solver = isobar.Solver(problem, tolerance=1e-8)
result = solver.solve(problem.rhs(source))
print(solver, result, sep="\n")
p = result.x / np.abs(result.x).max()

longitude = np.degrees(np.arctan(x))[None, :] + 0 * y[:, None]
latitude = np.degrees(np.arctan(y[:, None] / np.sqrt(1 + x**2)))
figure, (left, right) = plt.subplots(1, 2, sharey=True)
options = dict(cmap="RdBu_r", vmin=-1, vmax=1, shading="gouraud")
left.pcolormesh(longitude, latitude, source[0], **options)
left.set(title="source at the ground", xlabel="longitude (°)", ylabel="latitude (°)", aspect="equal")
image = right.pcolormesh(longitude, latitude, p[0], **options)
right.set(title="p at the ground, relative to its largest value", xlabel="longitude (°)", aspect="equal")
figure.colorbar(image, ax=(left, right), label="source, and p, relative")
figure.savefig("panel.png")
