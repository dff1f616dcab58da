"""Groundwater in layers of sand and clay whose conductivities span six orders of magnitude."""

from pathlib import Path

import isobar
import matplotlib.pyplot as plt
import numpy as np

case = isobar.Case(Path(__file__).resolve().parents[3] / "cases" / "aquifer.toml")
result = isobar.Solver(case).solve(case.rhs())
print(result)
z, y, x = case.coordinates

figure, (left, right) = plt.subplots(1, 2)
head = result.x
levels = np.linspace(-6, 14, 41)
left.contourf(x, y, head[20], levels=levels, cmap="viridis", extend="both")
left.contour(x, y, head[20], levels=levels, colors="k", linewidths=0.3)
left.set(title="head in layer 20", xlabel="x (m)", ylabel="y (m)", aspect="equal")
image = right.contourf(x, z, head[:, 50], levels=levels, cmap="viridis", extend="both")
right.contour(x, z, head[:, 50], levels=levels, colors="k", linewidths=0.3)
right.axvline(x[60], color="w", linewidth=1)
right.set(title="a section through the well", xlabel="x (m)", ylabel="z (m)")
figure.colorbar(image, ax=right, label="head (m)")
figure.savefig("aquifer.png")
