"""Derivatives of runs through time, compared with differences of a model in SciPy."""

import numpy as np
import oracle
import pytest

import isobar

SHAPES = {"1D": (5,), "2D": (3, 4), "3D": (2, 3, 3)}


def stepped(kappa, initial, lengths, theta, spacing, boundary, reaction, active, f):
    """Return the last state of the θ scheme with steps of these lengths."""
    K, s = oracle.assemble(kappa, spacing, boundary, reaction, active, f)
    widths = oracle.widths(kappa.shape, spacing)
    volume = np.ones(kappa.shape)
    for d, w in enumerate(widths):
        volume = volume * w.reshape([-1 if e == d else 1 for e in range(kappa.ndim)])
    part = ((kappa > 0) if active is None else (kappa > 0) & active).ravel()
    K, M, s = K.toarray()[part][:, part], np.diag(volume.ravel()[part]), s.ravel()[part]
    u = initial.ravel()[part]
    for length in lengths:
        u = np.linalg.solve(M / length + theta * K, (M / length - (1 - theta) * K) @ u + s)
    found = np.zeros(kappa.size)
    found[part] = u
    return found.reshape(kappa.shape)


@pytest.mark.parametrize("scheme", ["crank-nicolson", "backward-euler"])
@pytest.mark.parametrize("name", SHAPES)
def test_derivatives_are_those_of_the_model(rng, name, scheme):
    shape = SHAPES[name]
    theta = {"crank-nicolson": 0.5, "backward-euler": 1.0}[scheme]
    kappa, initial, reaction, f, xbar = rng.uniform(0.5, 2.0, (5, *shape))
    active = np.ones(shape, bool)
    active[(1,) * len(shape)] = name == "1D"
    spacing = tuple(rng.uniform(0.5, 1.5, n) for n in shape)
    spacing = spacing[0] if name == "1D" else spacing
    west = rng.uniform(0.5, 2.0, shape[:-1])
    # 7 steps and a shorter one, or as long as an error allows.
    dt, end = 0.1, 0.73
    lengths = [dt] * 7 + [end - 7 * dt]

    def model(**changed):
        given = {"kappa": kappa, "initial": initial, "reaction": reaction, "f": f, "west": west, **changed}
        sides = [(None, None)] * (len(shape) - 1) + [(given["west"] if len(shape) > 1 else float(given["west"]), ("flux", 0.5))]
        found = stepped(given["kappa"], given["initial"], lengths, theta, spacing, sides, given["reaction"], active, given["f"])
        return (xbar * found**2).sum()

    boundary = {"west": west if len(shape) > 1 else float(west), "east": {"neumann": 0.5}}
    heat = isobar.Heat(kappa, spacing, boundary, active, reaction, f)
    for checkpoints, step_tolerance in ((None, None), (1, None), (8, None), (None, 2e-3)):
        options = dict(dt=dt, end_time=end, scheme=scheme, step_tolerance=step_tolerance, tolerance=1e-13, device="cpu")
        if step_tolerance is not None:
            lengths = [step.dt for step in heat.steps(np.where(active, initial, 0.0), **options)]
            assert len(set(lengths)) > 2
        found = heat.gradient(lambda u: 2 * xbar * u, initial, checkpoints=checkpoints, **options)
        np.testing.assert_allclose(found.u, heat.solve(np.where(active, initial, 0.0), **options).x, rtol=1e-9)
        for key, by in {"kappa": found.kappa, "initial": found.initial, "reaction": found.reaction, "f": found.source}.items():
            expected = oracle.differences(lambda other: model(**{key: other}), {"kappa": kappa, "initial": initial, "reaction": reaction, "f": f}[key], 1e-5)
            np.testing.assert_allclose(by, np.where(active, expected, 0.0), atol=1e-7 * abs(expected).max(), err_msg=key)
        expected = oracle.differences(lambda other: model(west=other), west, 1e-5)
        np.testing.assert_allclose(found.side("west").value, expected, atol=1e-7 * abs(expected).max())


def test_a_direction_of_many_unknowns(rng):
    shape = (24, 32)
    kappa, initial, xbar = np.exp(rng.standard_normal((3, *shape)))
    direction, change = rng.standard_normal((2, *shape))
    options = dict(dt=1e-3, end_time=0.02, tolerance=1e-12, device="cpu")
    found = isobar.Heat(kappa, boundary={"x": 1.0}).gradient(xbar, initial, **options)
    values = []
    for sign in (1e-5, -1e-5):
        heat = isobar.Heat(kappa + sign * kappa * direction, boundary={"x": 1.0})
        values.append(np.vdot(xbar, heat.solve(initial + sign * change, **options).x))
    slope = np.vdot(found.kappa, kappa * direction) + np.vdot(found.initial, change)
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-5)


def test_several_coefficients_wells_and_closed_boxes(rng):
    shape = (2, 3, 4)
    fields = tuple(rng.uniform(0.5, 2.0, (2, *shape)))
    initial, xbar = rng.standard_normal((2, *shape))
    options = dict(dt=0.05, end_time=0.2, tolerance=1e-13, device="cpu")
    for more in ({}, {"wells": [{"i": 1, "j": 1, "value": 2.0, "radius": 0.01}]}):
        found = isobar.Heat(fields, **more).gradient(xbar, initial, **options)
        for n in range(2):
            value = lambda other: np.vdot(xbar, isobar.Heat((*fields[:n], other, *fields[n + 1 :]), **more).solve(initial, **options).x)
            expected = oracle.differences(value, fields[n], 1e-4)
            np.testing.assert_allclose(found.kappa[n], expected, atol=1e-6 * abs(expected).max())
    # A closed box keeps its content.
    closed = isobar.Heat(fields).gradient(np.ones(shape), initial, **options)
    np.testing.assert_allclose(closed.initial, 1.0, rtol=1e-9)


def test_misuse(rng):
    heat = isobar.Heat(np.ones((6, 7)), boundary=0.0)
    with pytest.raises(ValueError, match=r"ubar has shape \(7, 6\)"):
        heat.gradient(np.ones((7, 6)), dt=0.1, end_time=0.1)
    with pytest.raises(ValueError, match=r"initial has shape \(3,\)"):
        heat.gradient(np.ones((6, 7)), np.ones(3), dt=0.1, end_time=0.1)
    with pytest.raises(ValueError, match=r"ubar: nan at \(0, 0\)"):
        heat.gradient(np.full((6, 7), np.nan), dt=0.1, end_time=0.1)
    with pytest.raises(ValueError, match="scheme"):
        heat.gradient(np.ones((6, 7)), dt=0.1, end_time=0.1, scheme="euler")
    for checkpoints in (0, np.inf, "all", 1.5):
        with pytest.raises(ValueError, match=f"^checkpoints: {checkpoints!r}; use a whole number, 1 or more"):
            heat.gradient(np.ones((6, 7)), dt=0.1, end_time=0.1, checkpoints=checkpoints)
    with pytest.raises(TypeError, match="dt: 'auto'; use a number, and step_tolerance"):
        heat.gradient(np.ones((6, 7)), dt="auto", end_time=0.1)
    with pytest.raises(ValueError, match="^reaction: a negative reaction is not supported by these time steps"):
        isobar.Heat(np.ones(4), boundary=0.0, reaction=-1.0).gradient(np.ones(4), dt=0.1, end_time=0.1)
    with pytest.raises(ValueError, match="dt = -1"):
        heat.gradient(np.ones((6, 7)), dt=-1, end_time=0.1)
    rough = isobar.Heat(np.exp(2 * rng.standard_normal((8, 8, 8))), boundary=0.0)
    options = dict(method="cg", preconditioner={"kind": "none"}, max_iterations=2)
    with pytest.raises(isobar.NotConvergedError, match="no gradient: step 1 not converged"):
        rough.gradient(np.ones((8, 8, 8)), 1.0, dt=1.0, end_time=1.0, step_tolerance=1e-3, **options)
    with pytest.raises(ValueError, match="step_tolerance"):
        rough.gradient(np.ones((8, 8, 8)), 1.0, dt=1.0, end_time=1.0, step_tolerance=2.0)
    with pytest.raises(isobar.NotConvergedError, match="a step was not converged"):
        rough.gradient(np.ones((8, 8, 8)), 1.0, dt=1.0, end_time=1.0, **options)


def test_inactive_cells_may_hold_anything():
    active = np.ones((4, 5), bool)
    active[0] = False
    data = np.where(active, 0.5, np.nan)
    heat = isobar.Heat(np.ones((4, 5)), boundary={"x": 0.0}, active=active)
    found = heat.gradient(lambda u: u - data, data, dt=0.1, end_time=0.3)
    assert np.isfinite(found.initial).all() and found.initial[1:].all()
    with pytest.raises(ValueError, match=r"initial: nan at \(1, 2\); every entry must be finite"):
        heat.gradient(np.ones((4, 5)), np.where(np.arange(20).reshape(4, 5) == 7, np.nan, 0.5), dt=0.1, end_time=0.3)
