"""From the image of a porous rock to its conductivity, along both directions of the image."""

import isobar
import matplotlib.pyplot as plt
import numpy as np

# The image: grains, drawn here so that nothing has to be downloaded. Your own: plt.imread("rock.png"), or a .npy file.
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

porosity = is_pore.mean()
kappa = np.where(is_pore, 1.0, 0.0)  # conductivity of the fluid; a grain does not conduct, and takes no part
print(f"porosity {porosity:.3f}")

for direction, length, (first, last) in (("x", nx, ("west", "east")), ("y", ny, ("south", "north"))):
    problem = isobar.Diffusion(kappa, spacing=1.0, boundary={first: 1.0, last: 0.0})
    result = isobar.Solver(problem, tolerance=1e-8).solve(problem.rhs())
    u = result.x
    # The flow through a side with u = 1: κ (1 − u) over half a cell, for every cell there.
    inflow = np.sum(2 * kappa[:, 0] * (1 - u[:, 0])) if direction == "x" else np.sum(2 * kappa[0] * (1 - u[0]))
    outflow = np.sum(2 * kappa[:, -1] * u[:, -1]) if direction == "x" else np.sum(2 * kappa[-1] * u[-1])
    assert abs(inflow - outflow) < 1e-5 * inflow  # what enters leaves
    area = ny if direction == "x" else nx
    conductivity = inflow * length / area  # over a difference of 1
    print(f"along {direction}: conductivity {conductivity:.4f}, tortuosity factor {porosity / conductivity:.3f}, {result}")
    if direction == "x":
        along_x = u

# Flow between neighbouring pixels, averaged to the middle of pixels, for streamlines.
flow_x, flow_y = np.zeros((ny, nx + 1)), np.zeros((ny + 1, nx))
flow_x[:, 1:-1] = np.where(is_pore[:, 1:] & is_pore[:, :-1], along_x[:, :-1] - along_x[:, 1:], 0)
flow_x[:, 0], flow_x[:, -1] = 2 * kappa[:, 0] * (1 - along_x[:, 0]), 2 * kappa[:, -1] * along_x[:, -1]
flow_y[1:-1] = np.where(is_pore[1:] & is_pore[:-1], along_x[:-1] - along_x[1:], 0)
vx, vy = (flow_x[:, 1:] + flow_x[:, :-1]) / 2, (flow_y[1:] + flow_y[:-1]) / 2
speed = np.hypot(vx, vy)

figure, axes = plt.subplots(figsize=(9, 4.6))
image = axes.imshow(np.where(is_pore, along_x, np.nan), extent=(0, nx, 0, ny), cmap="viridis", vmin=0, vmax=1)
axes.imshow(np.where(is_pore, np.nan, 0.0), extent=(0, nx, 0, ny), cmap="gray", vmin=0, vmax=3)
still = ~is_pore | (speed < 1e-7)
axes.streamplot(
    x[0], y[:, 0], np.ma.masked_array(vx, still), np.ma.masked_array(vy, still),
    color="w", density=(4, 2), linewidth=0.3 + 1.2 * np.clip(speed / np.percentile(speed[is_pore], 99), 0, 1), arrowsize=0.5,
)
axes.set(xlim=(0, nx), ylim=(0, ny), xticks=(), yticks=(), title="potential in the pores, and where the current flows")
figure.colorbar(image, ax=axes, label="u", shrink=0.75)
figure.savefig("pores.png")
