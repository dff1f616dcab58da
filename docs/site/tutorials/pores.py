"""From the image of a porous rock to its conductivity, along both directions of the image."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

# The image: grains, drawn here so that nothing has to be downloaded. Your own: np.asarray(PIL.Image.open("rock.png").convert("L")) > 128, or np.load("rock.npy").
ny, nx = 300, 600
rng = np.random.default_rng(11)
y, x = np.mgrid[:ny, :nx] + 0.5
is_pore = np.ones((ny, nx), bool)
for radius, count in ((34, 18), (22, 45), (12, 120), (7, 160)):
    for _ in range(count):
        cx, cy = rng.uniform(0, nx), rng.uniform(0, ny)
        near = np.hypot(x - cx, y - cy)
        if is_pore[near < radius + 3].all():  # grains leave a throat of three pixels between each other
            is_pore &= near >= radius

image = np.where(is_pore, 255, 0).astype(np.uint8)

# The fluid conducts 1; grains do not conduct, and take no part.
found = isobar.effective(image, coefficients={0: 0.0, 255: 1.0}, tolerance=1e-6)
for axis, sample in found.items():
    print(f"along {axis}: conductivity {sample.conductivity:.4f}, tortuosity factor {sample.tortuosity:.3f}, "
          f"porosity {sample.porosity:.3f}, connected {sample.connected:.1%}, {sample.iterations} iterations")
    assert sample.imbalance < 1e-3  # what enters leaves

# The picture: the potential, and the flow averaged from the faces to the middle of pixels.
problem = isobar.Diffusion(image, coefficients={0: 0.0, 255: 1.0}, spacing=1.0, boundary={"west": 1.0, "east": 0.0})
solver = isobar.Solver(problem, tolerance=1e-8)
along_x = solver.solve(problem.rhs()).x
assert np.isclose(solver.flux(along_x, "east") * nx / ny, found["x"].conductivity, rtol=1e-4)
flow_x, flow_y = solver.fluxes(along_x)
vx, vy = (flow_x[:, 1:] + flow_x[:, :-1]) / 2, (flow_y[1:] + flow_y[:-1]) / 2
speed = np.hypot(vx, vy)

figure, axes = plt.subplots(figsize=(9, 4.6))
shown = axes.imshow(np.where(is_pore, along_x, np.nan), extent=(0, nx, 0, ny), origin="lower", cmap="viridis", vmin=0, vmax=1)
axes.imshow(np.where(is_pore, np.nan, 0.0), extent=(0, nx, 0, ny), origin="lower", cmap="gray", vmin=0, vmax=3)
still = ~is_pore | (speed < 1e-7)
axes.streamplot(
    x[0], y[:, 0], np.ma.masked_array(vx, still), np.ma.masked_array(vy, still),
    color="w", density=(4, 2), linewidth=0.3 + 1.2 * np.clip(speed / np.percentile(speed[is_pore], 99), 0, 1), arrowsize=0.5,
)
axes.set(xlim=(0, nx), ylim=(0, ny), xticks=(), yticks=(), title="potential in the pores, and where the current flows")
figure.colorbar(shown, ax=axes, label="u", shrink=0.75)
figure.savefig("pores.png")
