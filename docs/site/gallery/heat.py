"""A plate warmed from one side through a wall with gaps: 120 steps of backward Euler, as a movie."""

import isobar
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import PillowWriter

ny, nx = 64, 128
kappa = np.ones((ny, nx))
kappa[:, 46:50] = 1e-3  # the wall
kappa[12:18, 46:50] = kappa[42:48, 46:50] = 1.0  # its gaps
heat = isobar.Heat(kappa, spacing=1 / 64, boundary={"west": 1.0})
steps = heat.steps(0.0, dt=0.01, end_time=1.2, scheme="backward-euler", tolerance=1e-8)

figure, axes = plt.subplots(figsize=(6, 2.8))
image = axes.imshow(steps.u, extent=(0, 2, 0, 1), vmin=0, vmax=1, cmap="inferno", origin="lower")
axes.contour(kappa, levels=(0.5,), extent=(0, 2, 0, 1), colors="c", linewidths=0.8)
figure.colorbar(image, ax=axes, label="temperature")
figure.draw_without_rendering()
figure.set_layout_engine("none")  # found once, not for every frame
movie = PillowWriter(fps=12)
with movie.saving(figure, "heat.gif", dpi=70):
    for step in steps:
        if step.number % 3 == 0:
            image.set_data(steps.u)
            axes.set_title(f"t = {step.time:.3f}, {step.iterations} iterations")
            movie.grab_frame()
print(f"{step.number} steps, {steps.u.mean():.4f} on average at the end")
