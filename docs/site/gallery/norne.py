"""Pressure between an injector and a producer in the rock of the Norne field."""

from pathlib import Path

import isobar
import matplotlib.pyplot as plt
import numpy as np

cases = Path(__file__).resolve().parents[3] / "cases"
result = isobar.solve(cases / "norne.toml")
print(result)

permeability = np.load(cases / "norne" / "permx.npy")
active = np.load(cases / "norne" / "actnum.npy") > 0
pressure = np.where(active, result.x, np.nan)
layer = 10
largest = np.nanpercentile(np.abs(pressure[layer]), 99.5)
extent = (0, 46 * 80e-3, 0, 112 * 80e-3)  # km

figure, (left, right) = plt.subplots(1, 2, figsize=(7.8, 6))
rock = np.where(active, permeability, np.nan)[layer]
image = left.imshow(np.log10(rock), extent=extent, cmap="cividis", origin="lower")
figure.colorbar(image, ax=left, label="log₁₀ of the permeability (mD)")
image = right.imshow(pressure[layer], extent=extent, cmap="RdBu_r", vmin=-largest, vmax=largest, origin="lower")
figure.colorbar(image, ax=right, label="pressure (bar)")
for j, name in ((15, "injector"), (70, "producer")):
    right.plot(10.5 * 80e-3, (j + 0.5) * 80e-3, "k^", markersize=5)
    right.annotate(name, (10.5 * 80e-3, (j + 0.5) * 80e-3), xytext=(5, 4), textcoords="offset points")
left.set(title=f"rock, layer {layer}", xlabel="km", ylabel="km")
right.set(title=f"pressure, layer {layer}", xlabel="km")
figure.savefig("norne.png")
