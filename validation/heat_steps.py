"""Times steps of the heat equation with several preconditioners, from random numbers, by backward Euler.

    python validation/heat_steps.py [--cells 64] [--device cpu] [--steps 6] [--threads 1]

Lengths are z = Δt λ/2, λ the largest eigenvalue if κ were its largest value everywhere. Each entry has the milliseconds of all steps with the
setup, those of the median of the later half of the steps, and their iterations. Needs NumPy.
"""

import argparse
import time
import warnings

import numpy as np

import isobar

PRECONDITIONERS = ["auto", "none", "jacobi", "mic", "multigrid"]


def smooth(numbers, width=3.0):
    """Return the numbers convolved with a Gaussian of this width, in cells, periodically."""
    frequencies = np.meshgrid(*[2 * np.pi * np.fft.fftfreq(n) for n in numbers.shape], indexing="ij")
    damping = np.exp(-0.5 * width**2 * sum(f**2 for f in frequencies))
    return np.fft.ifftn(np.fft.fftn(numbers) * damping).real


def fields(n, rng):
    """Return coefficients of n³ cells by name."""
    shape = (n, n, n)
    noise = rng.standard_normal(shape)
    correlated = smooth(noise)
    correlated /= correlated.std()
    places = np.moveaxis(np.indices(shape), 0, -1) / n
    bubbles = np.ones(shape)
    for centre in rng.random((12, 3)):
        bubbles[((places - centre) ** 2).sum(-1) < 0.12**2] = 1e-3
    return {
        "correlated": np.exp(correlated),
        "noise, σ = 3": np.exp(3 * noise),
        "bubbles": bubbles,
        "two phases, 10⁶": np.where(rng.random(shape) < 0.3, 1.0, 1e6),
        "pores": np.where(rng.random(shape) < 0.3, 0.0, 1.0),
    }


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=64, help="along an axis")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(5)
    for name, kappa in fields(args.cells, rng).items():
        heat = isobar.Heat(kappa, boundary=0.0)
        initial = rng.standard_normal(kappa.shape)
        for z in [3, 30, 300, 1e4]:
            dt = 2 * z / (12 * kappa.max() * args.cells**2)
            row = []
            for preconditioner in PRECONDITIONERS:
                times, iterations = [], []
                last = time.perf_counter()
                run = heat.steps(
                    initial, dt=dt, end_time=dt * args.steps, scheme="backward-euler", tolerance=1e-8, device=args.device,
                    threads=args.threads, preconditioner=preconditioner,
                )
                for step in run:
                    now = time.perf_counter()
                    times.append(1e3 * (now - last))
                    iterations.append(step.iterations)
                    last = now
                if len(times) < args.steps:
                    row.append(f"{preconditioner} not converged")
                    continue
                later = slice(args.steps // 2, None)
                row.append(f"{preconditioner} {sum(times):.1f}, {np.median(times[later]):.2f} ({np.mean(iterations[later]):.0f})")
            print(f"{name}, z = {z:g}: " + "; ".join(row), flush=True)


if __name__ == "__main__":
    main()
