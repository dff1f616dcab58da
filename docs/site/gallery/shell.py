"""Poisson's equation in a spherical shell, in longitude, latitude and radius, against a known solution.

In these coordinates r² cos φ ∇·∇u = ∂_r(r² cos φ ∂_r u) + ∂_φ(cos φ ∂_φ u) + ∂_λ(∂_λ u / cos φ): diffusion on a box, periodic
in λ, with coefficients of its own in each direction. The sides at the poles have no area: no flow is what holds there.
"""

import isobar
import matplotlib.pyplot as plt
import numpy as np

inner, outer = 0.55, 1.0


def solve(nr, nphi, nlambda):
    """u with −∇²u = f and u = 0 on both spheres, and the largest error."""
    dr, dphi, dlambda = (outer - inner) / nr, np.pi / nphi, 2 * np.pi / nlambda
    r = (inner + dr * (np.arange(nr) + 0.5))[:, None, None]
    phi = (-np.pi / 2 + dphi * (np.arange(nphi) + 0.5))[None, :, None]
    lam = (dlambda * (np.arange(nlambda) + 0.5))[None, None, :]
    full = np.ones((nr, nphi, nlambda))

    # u = sin(π (r − inner)/d)/r times a spherical harmonic of degree 4 and order 3.
    d, degree = outer - inner, 4
    harmonic = np.cos(phi) ** 3 * np.sin(phi) * np.cos(3 * lam)
    exact = np.sin(np.pi * (r - inner) / d) / r * harmonic
    f = (np.pi**2 / d**2 + degree * (degree + 1) / r**2) * exact

    problem = isobar.Diffusion(
        (full / np.cos(phi), full * np.cos(phi), full * r**2 * np.cos(phi)),  # of λ, φ and r
        spacing=(dr, dphi, dlambda),
        boundary={"x": "periodic", "z": 0.0},
    )
    result = isobar.Solver(problem, tolerance=1e-9).solve(problem.rhs(f * r**2 * np.cos(phi)))
    error = np.abs(result.x - exact).max() / np.abs(exact).max()
    print(f"{nlambda}×{nphi}×{nr}: {result}, error {error:.1e}")
    return r.ravel(), phi.ravel(), lam.ravel(), result.x, error


errors = [solve(n, 3 * n, 6 * n)[-1] for n in (6, 12)]
r, phi, lam, u, error = solve(24, 72, 144)
errors.append(error)
print("order", np.log2(np.divide(errors[:-1], errors[1:])).round(2))

figure = plt.figure()
globe = figure.add_subplot(1, 2, 1, projection="3d")
p, l = np.meshgrid(np.linspace(-np.pi / 2, np.pi / 2, 73), np.linspace(0, 2 * np.pi, 145), indexing="ij")
middle = u[len(r) // 2]
colours = plt.get_cmap("RdBu_r")(0.5 + 0.5 * middle / np.abs(u).max())
globe.plot_surface(
    np.cos(p) * np.cos(l), np.cos(p) * np.sin(l), np.sin(p),
    facecolors=colours, rstride=1, cstride=1, shade=False, linewidth=0, antialiased=False,
)
globe.set_box_aspect((1, 1, 1), zoom=1.3)
globe.set_axis_off()
globe.set_title("u in the middle of the shell")
section = figure.add_subplot(1, 2, 2)
half = len(lam) // 2
for column, side in ((0, 1), (half, -1)):
    section.pcolormesh(
        side * np.outer(r, np.cos(phi)), np.outer(r, np.sin(phi)), u[:, :, column],
        cmap="RdBu_r", vmin=-np.abs(u).max(), vmax=np.abs(u).max(), shading="gouraud",
    )
section.set(title="a section through both poles", aspect="equal")
section.set_axis_off()
figure.savefig("shell.png")
