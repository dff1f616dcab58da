"""Flow around the letters of a picture: dark pixels take no part."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

# Any picture will do; this one is drawn here so that nothing has to be downloaded.
drawing = plt.figure(figsize=(6, 2))
drawing.text(0.5, 0.46, "isobar", ha="center", va="center", fontsize=110, weight="bold")
drawing.savefig("letters.png", dpi=100, bbox_inches=drawing.bbox_inches)

picture = plt.imread("letters.png")[::-1, :, :3].mean(axis=2)  # rows from the bottom up, 0 is black
active = picture > 0.5
ny, nx = active.shape
h = 1 / ny
problem = isobar.Diffusion(np.ones((ny, nx)), spacing=h, active=active, boundary={"west": 1.0, "east": 0.0})
result = isobar.Solver(problem, tolerance=1e-10).solve(problem.rhs())
print(result)

u = np.where(active, result.x, np.nan)
vy, vx = (-g for g in np.gradient(u, h))
y, x = (np.arange(n) * h + h / 2 for n in (ny, nx))
figure, axes = plt.subplots(figsize=(9, 3))
reached = np.abs(result.x) > 1e-6  # inside o, b and a nothing fixes u, and it is 0
image = axes.pcolormesh(x, y, np.where(reached, u, np.nan), cmap="viridis")
moves = np.hypot(vx, vy) > 1e-6  # nothing does inside the letters, up to the tolerance
axes.streamplot(x, y, *(np.ma.masked_array(v, ~moves) for v in (vx, vy)), color="w", linewidth=0.7, density=(2.4, 0.9), arrowsize=0.7)
axes.imshow(np.where(active, np.nan, 0.0), extent=(0, nx * h, 0, ny * h), cmap="gray", zorder=3, origin="lower")
axes.set(xticks=(), yticks=(), aspect="equal", title="potential and streamlines", ylim=(0, 1))
figure.colorbar(image, ax=axes, label="potential")
figure.savefig("mask.png")
