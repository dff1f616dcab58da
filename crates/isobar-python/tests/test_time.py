"""The heat equation."""

import pathlib
import sys
import types

import numpy as np
import oracle
import pytest

import isobar

CASES = pathlib.Path(__file__).parents[3] / "cases"


@pytest.mark.parametrize("scheme, theta", [("crank-nicolson", 0.5), ("backward-euler", 1.0)])
def test_steps_are_those_of_a_direct_solver(rng, scheme, theta):
    kappa = rng.uniform(0.5, 2.0, (3, 6, 8))
    K, s = oracle.assemble(kappa, boundary=[(None, None), (1.0, None), ("periodic", "periodic")], f=3.0)
    V = 1.0 / kappa.size
    u = rng.standard_normal(kappa.shape)
    heat = isobar.Heat(kappa, boundary={"south": 1.0, "x": "periodic"}, source=3.0)
    run = heat.steps(u, dt=1e-2, end_time=0.05, scheme=scheme, tolerance=1e-12, device="cpu")
    kappa[...] = np.nan  # its own copy
    assert heat.shape == (3, 6, 8) and not run.finished
    eye = np.eye(u.size)
    step = np.linalg.inv(theta * K.toarray() + eye * (V / 1e-2))
    for found in run:
        right = (eye * (V / 1e-2) - (1 - theta) * K.toarray()) @ u.ravel() + s.ravel()
        u = (step @ right).reshape(u.shape)
        np.testing.assert_allclose(run.u, u, atol=1e-8)
        assert found.number == round(found.time / 1e-2) and found.iterations > 0
    assert run.finished and run.time == 0.05


def test_coefficients_and_states_change_between_steps(rng):
    fields = [rng.uniform(0.5, 2.0, (5, 6, 7)) for _ in range(3)]
    u = rng.standard_normal(fields[0].shape)
    V, eye = 1.0 / u.size, np.eye(u.size)
    heats = [isobar.Heat(kappa, boundary={"west": n}, source=None if n == 0 else n) for n, kappa in enumerate(fields)]
    run = heats[0].steps(u, dt=1e-2, end_time=0.03, scheme="backward-euler", tolerance=1e-12, device="cpu")
    for n, kappa in enumerate(fields):
        if n > 0:
            run.update(heats[n])
        if n == 2:
            u = rng.standard_normal(u.shape)
            run.u = u
        K, s = oracle.assemble(kappa, boundary=[(None, None), (None, None), (n, None)], f=float(n))
        u = np.linalg.solve(K.toarray() + eye * (V / 1e-2), u.ravel() * (V / 1e-2) + s.ravel()).reshape(u.shape)
        assert next(run).number == n + 1
        np.testing.assert_allclose(run.u, u, atol=1e-9)
    assert run.finished
    with pytest.raises(TypeError, match="update takes an isobar.Heat, not ndarray"):
        run.update(fields[0])
    with pytest.raises(ValueError, match="(?i)grid|shape|cells"):
        run.update(isobar.Heat(np.ones((5, 6, 8)), boundary={"west": 0.0}))


def test_whole_runs(rng):
    heat = isobar.Heat(np.ones((8, 8)), boundary=0.0)
    result = heat.solve(1.0, dt=1e-3, end_time=0.01)
    assert len(result.steps) == 10 and result.converged and result.x.shape == (8, 8)
    assert [step["time"] for step in result.report["steps"]] == pytest.approx(np.arange(1, 11) * 1e-3)
    chosen = heat.solve(1.0, dt=1e-5, end_time=0.01, step_tolerance=1e-3)
    assert len({round(step.dt, 9) for step in chosen.steps}) > 1 and all(step.error <= 1e-3 for step in chosen.steps)
    np.testing.assert_allclose(chosen.x, result.x, atol=2e-2)
    out = np.zeros((8, 8), order="F")
    run = heat.steps(1.0, dt=1e-3, end_time=0.01)
    energies = [run.energy for _ in run]
    assert all(later <= earlier for earlier, later in zip(energies[1:], energies[2:]))
    np.testing.assert_array_equal(run.read(out), run.u)
    stopped = heat.steps(1.0, dt=1e-3, end_time=0.01).run(progress=lambda number, time: number < 3)
    assert len(stopped.steps) == 3


def test_a_case_of_heat():
    tiny = {"grid": {"nx": 8, "ny": 8, "nz": 8}, "heat": {"end_time": 0.005}}
    result = isobar.solve(CASES / "heat.toml", device="cpu", **tiny)
    assert result.x.shape == (8, 8, 8) and len(result.steps) == 5
    z, y, x = np.meshgrid(*[np.arange(1, 9) / 9] * 3, indexing="ij")
    exact = 3 * np.sin(np.pi * x) * np.sin(np.pi * y) * np.sin(np.pi * z) * np.exp(-3 * np.pi**2 * 0.005)
    np.testing.assert_allclose(result.x, exact, rtol=5e-3)
    assert result.tolerance == 1e-8
    for key, value in (("checkpoint", "run.ckpt"), ("output_every", 3)):
        with pytest.raises(ValueError, match=f"^heat.{key}: isobar.solve writes no files"):
            isobar.solve(CASES / "heat.toml", heat={key: value})
    with pytest.raises(ValueError, match="^threads: -1; use a whole number, 1 or more"):
        isobar.solve(CASES / "heat.toml", threads=-1)
    for given in ({"solver": {"tolerance": 1e-4}}, {"solver.tolerance": 1e-4}):
        assert isobar.solve(CASES / "heat.toml", device="cpu", **tiny, **given).tolerance == 1e-4


def test_results_of_a_case_of_heat_have_coordinates():
    pytest.importorskip("xarray")
    array = isobar.solve(CASES / "heat.toml", device="cpu", grid={"nx": 8, "ny": 6, "nz": 4}, heat={"end_time": 0.001}).to_xarray()
    for name, n in (("x", 8), ("y", 6), ("z", 4)):
        np.testing.assert_allclose(array.coords[name], np.arange(1, n + 1) / (n + 1))


def test_the_initial_state_may_be_nan_in_inactive_cells():
    active = np.ones((6, 8), bool)
    active[2:4, 3:5] = False
    heat = isobar.Heat(np.ones(active.shape), boundary=0.0, active=active)
    expected = heat.solve(np.where(active, 2.0, 0.0), dt=0.01, end_time=0.02).x
    np.testing.assert_array_equal(heat.solve(np.where(active, 2.0, np.nan), dt=0.01, end_time=0.02).x, expected)
    with pytest.raises(ValueError, match=r"^initial is NaN at \(i, j, k\) = \(0, 0, 0\)"):
        heat.solve(np.where(active, np.nan, 2.0), dt=0.01, end_time=0.02)
    # Lists and states that are set are like arrays.
    given = np.where(active, 2.0, np.nan)
    np.testing.assert_array_equal(heat.solve(given.tolist(), dt=0.01, end_time=0.02).x, expected)
    run = heat.steps(1.0, dt=0.01, end_time=0.02)
    for state in (given, given.tolist(), given.astype(np.float32), given[None]):
        run.u = state
        np.testing.assert_array_equal(run.u, np.where(active, 2.0, 0.0))
    with pytest.raises(ValueError, match=r"^u is NaN at \(i, j, k\) = \(0, 0, 0\)"):
        run.u = np.where(active, np.nan, 2.0)
    with pytest.raises(ValueError, match=r"^u has shape \(3,\)"):
        run.u = np.full(3, np.nan)


def test_misuse():
    heat = isobar.Heat(np.ones(8))
    for options, words in [
        ({"dt": 0.0, "end_time": 1.0}, "^dt: must be positive and finite, not 0"),
        ({"dt": 1.0, "end_time": 1.0, "scheme": "leapfrog"}, "crank-nicolson"),
        ({"dt": 1.0, "end_time": 1.0, "scheme": None}, "^scheme: None; use \"crank-nicolson\""),
        ({"dt": 1.0, "end_time": 1.0, "threads": -1}, "^threads: -1; use a whole number, 1 or more"),
        ({"dt": 1.0, "end_time": 1.0, "threads": np.inf}, "^threads: inf"),
        ({"dt": 1.0, "end_time": 1.0, "threads": 2**70}, "^threads: .* beyond 64 bits"),
        ({"dt": 1.0, "end_time": 1.0, "first_guess": "ones"}, "previous"),
        ({"dt": 1.0, "end_time": 1.0, "initial": np.ones(3)}, "initial has shape"),
        ({"dt": 1.0, "end_time": 1.0, "initial": np.nan}, "NaN"),
        ({"dt": 1.0, "end_time": 1.0, "tolerence": 1e-3}, "tolerance"),
    ]:
        with pytest.raises(ValueError, match=words):
            heat.steps(**options)
    with pytest.raises(TypeError, match="dt: 'auto'; use a number, and step_tolerance"):
        isobar.Heat(np.ones(4)).steps(dt="auto", end_time=1.0)
    with pytest.raises(ValueError, match="threads: 'two'"):
        isobar.Heat(np.ones(4)).steps(dt=1.0, end_time=1.0, threads="two")
    with pytest.raises(ValueError, match="source has shape"):
        isobar.Heat(np.ones(8), source=np.ones(3))
    for options, words in [
        ({"dt": None, "end_time": 1.0}, "^dt: None; use a number"),
        ({"dt": 1.0, "end_time": "late"}, "^end_time: 'late'; use a number"),
        ({"dt": 1.0, "end_time": 1.0, "step_tolerance": "small"}, "^step_tolerance: 'small'; use a number"),
        ({"dt": 1.0, "end_time": 1.0, "initial": "sine"}, "^initial: 'sine'; use a number"),
    ]:
        with pytest.raises(TypeError, match=words):
            heat.steps(**options)
        with pytest.raises(TypeError, match=words):
            heat.gradient(np.ones(8), **options)
    # NaN in inactive cells is ignored, as elsewhere.
    f = np.array([1.0, np.nan, 1.0, 1.0])
    assert isobar.Heat(np.ones(4), source=f, active=np.isfinite(f)).solve(dt=0.1, end_time=0.1).converged
    for source, words in [(np.nan, r"source: nan at \(0,\)"), (f, r"source: nan at \(1,\)")]:
        with pytest.raises(ValueError, match=words):
            isobar.Heat(np.ones(4), source=source)


def test_warnings_point_at_the_caller(rng, tmp_path):
    state = rng.standard_normal((6, 7, 8))
    heat = isobar.Heat(rng.uniform(0.5, 2.0, state.shape), boundary=0.0)
    weak = {"method": "cg", "max_iterations": 1, "tolerance": 1e-12, "preconditioner": {"kind": "none"}}
    run = lambda: heat.steps(state, dt=1.0, end_time=1.0, **weak)
    path = tmp_path / "case.toml"
    path.write_text("problem.kind = 'diffusion'\ngrid = {nx = 8, ny = 8, nz = 8}\ndiffusion.boundary.west.dirichlet = 1.0\n")
    for call in (
        lambda: heat.solve(state, dt=1.0, end_time=1.0, **weak),
        lambda: run().run(),
        lambda: list(run()),
        lambda: isobar.solve(path, solver=weak),
        lambda: isobar.solve(CASES / "heat-2d.toml", solver=weak, heat={"dt": 1.0, "end_time": 1.0}, grid={"nx": 8, "ny": 8}),
    ):
        with pytest.warns(isobar.NotConvergedWarning) as caught:
            call()
        assert caught[0].filename == __file__


def test_progress_shows_steps_and_times(capsys, monkeypatch):
    heat = isobar.Heat(np.ones(8), boundary=0.0)
    # A line without tqdm.
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    heat.solve(1.0, dt=0.01, end_time=0.03, progress=True)
    shown = capsys.readouterr().err
    assert "step    3   time 3.000e-02" in shown and "residual" not in shown
    bars = []

    class Bar:
        def __init__(self, unit):
            self.unit, self.n = unit, 0
            bars.append(self)

        def set_postfix_str(self, text):
            self.text = text

        def close(self):
            pass

    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    heat.solve(1.0, dt=0.01, end_time=0.03, progress=True)
    assert (bars[0].unit, bars[0].n, bars[0].text) == ("step", 3, "time 3.0e-02")
    with pytest.raises(TypeError, match="progress: str; use True, or a function of the step and the time"):
        heat.solve(1.0, dt=0.01, end_time=0.03, progress="yes")


@pytest.mark.parametrize("decades", [1, 4, 6])
def test_rough_states_are_solved_for_to_the_tolerance(decades):
    # The first residual of a rough state is up to 10⁸ times b, so that the tolerance cannot be relative to it.
    rng = np.random.default_rng(decades)
    n, dt = 20, 1.0
    kappa, u = 10 ** (decades * (rng.random((n, n)) - 0.5)), rng.normal(size=(n, n))
    heat = isobar.Heat(kappa, boundary=0.0)
    found = heat.solve(u, dt=dt, end_time=dt, scheme="backward-euler", tolerance=1e-6, device="cpu")
    assert found.converged
    problem = isobar.Diffusion(kappa, boundary=0.0, reaction=1 / dt)
    expected = isobar.Solver(problem, tolerance=1e-13, norm="rhs", device="cpu").solve(problem.rhs(u / dt)).x
    assert np.linalg.norm(found.x - expected) < 1e-5 * np.linalg.norm(expected)


def test_steps_that_fail_are_no_rounding():
    rng = np.random.default_rng(3)
    kappa, u = 10 ** (14 * (rng.random((24, 24)) - 0.5)), rng.normal(size=(24, 24))
    few = {"precision": "f32", "max_iterations": 1}, {"preconditioner": "none", "max_iterations": 3}, {"method": "multigrid", "precision": "f32"}
    for options in few:
        with pytest.warns(isobar.NotConvergedWarning, match="step 1 not converged"):
            found = isobar.Heat(kappa, boundary=0.0).solve(u, dt=1.0, end_time=1.0, scheme="backward-euler", device="cpu", **options)
        assert not found.converged and found.iterations > 0 and np.array_equal(found.x, u)


def test_a_change_of_the_preconditioner_is_noted():
    """Long steps take multigrid, and the step in which that happens says so."""
    kappa = np.exp(np.random.default_rng(1).standard_normal((60, 60)))
    run = isobar.Heat(kappa, boundary=0.0).steps(1.0, dt=1e-2, end_time=2e-2)
    first, second = run
    assert "continued with multigrid" in " ".join(first.notes)
    assert second.notes == ()
    short = isobar.Heat(kappa, boundary=0.0).solve(1.0, dt=1e-6, end_time=2e-6)
    assert short.steps[0].notes == () and short.report["solver"]["preconditioner"] is None
    long = isobar.Heat(kappa, boundary=0.0).solve(1.0, dt=1e-2, end_time=2e-2)
    assert long.report["solver"]["preconditioner"] == "multigrid"
