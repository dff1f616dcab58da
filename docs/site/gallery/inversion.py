"""The conductivity of the ground between twenty wells, from the heads in them."""

import isobar
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

n, wells = 64, 20
rng = np.random.default_rng(4)


def smoothed(noise, length):
    """Noise as a field that varies over so many cells, with the standard deviation 1."""
    waves = np.fft.fftfreq(n)
    decay = np.exp(-2 * (np.pi * length) ** 2 * (waves[:, None] ** 2 + waves**2))
    return np.fft.ifft2(np.fft.fft2(noise) * decay).real / np.sqrt(np.mean(decay**2))


# ln κ is noise that has been smoothed, in the truth and in the estimate: noise of size 1 a cell is what is known of it beforehand.
truth = smoothed(rng.standard_normal((n, n)), 5)
j, i = rng.integers(3, n - 3, (2, wells))
ground = isobar.Diffusion(np.ones((n, n)), boundary={"west": 1.0, "east": 0.0})
solver = isobar.Solver(ground, tolerance=1e-9)
rain = 2.0


def heads(log_kappa):
    problem = ground.replace(np.exp(log_kappa))
    solver.update(problem)
    return solver.solve(problem.rhs(rain))


measured = heads(truth).x[j, i] + 0.003 * rng.standard_normal(wells)


def misfit(noise):
    """Half the squares of what is left of the measured heads and of the noise, and its derivatives by the noise."""
    noise = noise.reshape(n, n)
    log_kappa = smoothed(noise, 5)
    result = heads(log_kappa)
    left = (result.x[j, i] - measured) / 0.003
    xbar = np.zeros((n, n))
    np.add.at(xbar, (j, i), left / 0.003)
    by_log_kappa = result.gradient(xbar).kappa * np.exp(log_kappa)
    history.append(0.5 * (left @ left + np.vdot(noise, noise)))
    # Smoothing is symmetric, so that it is its own adjoint.
    return history[-1], (smoothed(by_log_kappa, 5) + noise).ravel()


history = []
found = minimize(misfit, np.zeros(n * n), jac=True, method="L-BFGS-B", options={"maxiter": 100})
estimate = smoothed(found.x.reshape(n, n), 5)
left = heads(estimate).x[j, i] - measured
print(f"{found.nit} steps, {found.nfev} solves with their adjoints; the misfit fell from {history[0]:.0f} to {found.fun:.0f}")
print(f"heads in the wells are met to {np.sqrt(np.mean(left**2)):.4f}; ln κ correlates with the truth by {np.corrcoef(truth.ravel(), estimate.ravel())[0, 1]:.2f}")

figure, (first, second, third) = plt.subplots(1, 3, figsize=(11, 3.6))
for axes, field, title in ((first, truth, "ln κ, the truth"), (second, estimate, "ln κ from 20 heads")):
    image = axes.imshow(field, vmin=-2.5, vmax=2.5, cmap="RdBu_r", origin="lower")
    axes.plot(i, j, "o", markersize=4, markerfacecolor="w", markeredgecolor="k")
    axes.set(title=title, xticks=[], yticks=[])
figure.colorbar(image, ax=(first, second), shrink=0.8)
third.semilogy(history)
third.set(title="misfit", xlabel="solve with its adjoint")
figure.savefig("inversion.png")
