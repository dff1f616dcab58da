"""Threads, progress, Ctrl-C, memory, the command."""

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import isobar

CASES = pathlib.Path(__file__).parents[3] / "cases"
SHAPE = (8, 16, 16)


def slow(**options):
    """Make a solver that takes many iterations, and a right-hand side."""
    problem = isobar.Diffusion(np.ones((24, 64, 64)), boundary={"bottom": 0.0})
    options = {"tolerance": 1e-13, "max_iterations": 100_000, "preconditioner": {"kind": "none"}, **options}
    return isobar.Solver(problem, "cg", device="cpu", threads=1, **options), np.random.default_rng(0).standard_normal((24, 64, 64))


def test_solvers_of_many_threads(rng):
    problem = isobar.Diffusion(np.ones(SHAPE), boundary={"x": 0.0})
    rhs = [problem.rhs(rng.standard_normal(SHAPE)) for _ in range(8)]
    shared = isobar.Solver(problem, threads=1, device="cpu")
    expected = [shared.solve(b).x for b in rhs]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda b: shared.solve(b).x, rhs))
        own = list(pool.map(lambda b: isobar.Solver(problem, threads=1, device="cpu").solve(b).x, rhs))
    for x, y, z in zip(expected, found, own):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(x, z)


def test_the_interpreter_is_let_go():
    solver, b = slow()
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(1e-4)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    solver.solve(b)
    during = counted[0] - before
    done.set()
    thread.join()
    assert during > 3


def test_progress():
    solver, b = slow()
    seen = []
    with pytest.warns(isobar.NotConvergedWarning):
        result = solver.solve(b, progress=lambda n, residual: seen.append((n, residual)) or n < 7)
    assert [n for n, _ in seen] == list(range(1, 8)) and result.stop == "interrupted"
    np.testing.assert_allclose([residual for _, residual in seen], result.history[1:8], rtol=1e-12)

    def fail(n, residual):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        solver.solve(b, progress=fail)
    with pytest.raises(RuntimeError, match="own progress function"):
        solver.solve(b, progress=lambda n, residual: solver.apply(b))
    with pytest.raises(TypeError, match="progress"):
        solver.solve(b, progress="yes")
    # Solvers still work.
    assert isobar.Solver(isobar.Diffusion(np.ones(4), boundary={"x": 0.0})).solve(np.ones(4), progress=True).converged


# A solve may reach the limit of double precision before the signal arrives: then the next one is interrupted.
@pytest.mark.filterwarnings("ignore::isobar.NotConvergedWarning")
@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_ctrl_c_ends_a_solve():
    # Python's initial handler, which a shell may have set to ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    solver, b = slow(tolerance=1e-15, compatibility="project")
    started = threading.Event()
    timer = threading.Thread(target=lambda: (started.wait(), time.sleep(0.02), os.kill(os.getpid(), signal.SIGINT)))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        started.set()
        while True:
            solver.solve(b)
    timer.join()
    # Python's handler is restored.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_a_signals_handler_runs_during_a_solve():
    # Without a signal these solves take many times longer than the time limit.
    problem = isobar.Diffusion(np.random.default_rng(0).lognormal(sigma=4, size=(40, 60, 60)), boundary={"bottom": 0.0})
    options = {"tolerance": 1e-30, "max_iterations": 10**6, "preconditioner": {"kind": "none"}}
    solver, b = isobar.Solver(problem, "cg", device="cpu", threads=1, **options), problem.rhs(1.0)

    def expire(number, frame):
        raise TimeoutError("a time limit")

    before = signal.signal(signal.SIGALRM, expire)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match="a time limit"):
            solver.solve(b)
        assert time.monotonic() - begun < 2
        # A handler that raises nothing runs, and the solve goes on; it cannot use the same solver.
        seen = []

        def note(number, frame):
            with pytest.raises(RuntimeError, match="in use"):
                solver.apply(b)
            seen.append(number)

        signal.signal(signal.SIGALRM, note)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.warns(isobar.NotConvergedWarning, match="interrupted"):
            solver.solve(b, progress=lambda n, residual: not seen)
        assert seen == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_devices():
    first, *cards = isobar.devices()
    assert first.device == "cpu" and first.threads >= 1 and first.name and first.bandwidth is None and first.problem is None
    assert first.memory is None or first.memory > 1e6
    assert all(card.device.startswith("cuda:") and card.capability for card in cards)
    for device in isobar.devices():
        if device.problem is None:
            problem = isobar.Diffusion(np.ones(4), boundary={"x": 0.0})
            assert isobar.Solver(problem, device=device.device).solve(problem.rhs(1.0)).converged
    assert isobar.devices(measure=True)[0].bandwidth > 1e8


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_nothing_leaks():
    kappa = np.ones((8, 24, 24))

    def use(count):
        for _ in range(count):
            problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
            solver = isobar.Solver(problem, device="cpu", threads=1)
            result = solver.solve(problem.rhs(1.0))
            assert result.report["outcome"]["stop"] == "converged"
            with pytest.raises(ValueError):
                solver.solve(np.ones(3))

    use(40)
    before = resident()
    use(200)
    # A solver of this size holds nearly a MiB.
    assert resident() - before < 16 << 20


def run(*arguments, **options):
    command = [sys.executable, "-m", "isobar", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_the_command(tmp_path):
    done = run("--version")
    assert done.returncode == 0 and done.stdout.startswith(f"isobar {isobar.__version__}\n")
    tiny = [f"--set=grid.{n}=8" for n in ("nx", "ny", "nz")]
    done = run("solve", CASES / "panel.toml", *tiny, "--device", "cpu", "--output", tmp_path / "u.npy")
    assert done.returncode == 0 and "converged" in done.stdout
    same = isobar.solve(CASES / "panel.toml", device="cpu", grid={"nx": 8, "ny": 8, "nz": 8})
    np.testing.assert_array_equal(np.load(tmp_path / "u.npy"), same.x)
    done = run("solve", "none.toml")
    assert done.returncode == 1 and "no such file" in done.stderr
    assert run("solv").returncode == 1


@pytest.mark.skipif(os.name == "nt", reason="signals are other ones there")
def test_an_interrupted_command_has_its_own_status(tmp_path):
    case = tmp_path / "long.toml"
    grid = "".join(f"n{axis} = 24\n" for axis in "xyz")
    case.write_text(f"[problem]\nkind = 'heat'\n[grid]\n{grid}[heat]\ndt = 1e-6\nend_time = 1.0\n")
    command = [sys.executable, "-m", "isobar", "solve", case, "--device", "cpu", "--output", tmp_path / "u.npy"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The summary precedes the first step.
    running.stdout.readline()
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    printed = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in printed[1], printed
    assert np.load(tmp_path / "u.npy").shape == (24, 24, 24)


def test_import_asks_for_little():
    code = "import sys, isobar; print([m for m in ('scipy', 'matplotlib', 'tqdm', 'torch', 'cupy', 'jax') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
# JAX warns of any fork once it has been imported, as other tests do.
@pytest.mark.filterwarnings("ignore:os.fork")
class TestFork:
    """A forked process can make new solvers, but cannot call old ones."""

    kappa = np.ones((6, 7, 8))

    @staticmethod
    def in_child(work):
        """Return the result of `work`, or the text of its exception, in a forked process."""
        context = multiprocessing.get_context("fork")
        here, there = context.Pipe(duplex=False)

        def run():
            try:
                there.send(work())
            except Exception as error:
                there.send(f"{type(error).__name__}: {error}")

        child = context.Process(target=run)
        child.start()
        try:
            assert here.poll(30), "the child hangs"
            answer = here.recv()
            child.join(30)
            assert child.exitcode == 0
            return answer
        finally:
            child.kill()

    def problem(self, kappa=kappa):
        return isobar.Diffusion(kappa, boundary={"x": 0.0})

    def test_old_solvers(self):
        problem = self.problem()
        solver = isobar.Solver(problem, device="cpu", threads=1)
        b = problem.rhs(1.0)
        x = solver.solve(b).x
        said = f"RuntimeError: the solver: made by process {os.getpid()} before fork()"
        for call in [lambda: solver.solve(b).x, lambda: solver.apply(x), lambda: solver.update(problem)]:
            assert self.in_child(call).startswith(said)
        assert not np.isnan(solver.solve(b).x).any()

    def test_old_solvers_in_use(self):
        solver, b = slow()
        thread = threading.Thread(target=solver.solve, args=(b,))
        thread.start()
        time.sleep(0.01)
        assert self.in_child(lambda: solver.solve(b).x).startswith("RuntimeError: the solver: made by process")
        thread.join()

    def test_old_steppers(self):
        steps = isobar.Heat(self.kappa, boundary={"x": 0.0}).steps(1.0, dt=0.1, end_time=1.0, device="cpu", threads=1)
        next(steps)
        for call in [lambda: next(steps), lambda: steps.u, lambda: steps.time, lambda: steps.energy]:
            assert self.in_child(call).startswith("RuntimeError: the time stepper: made by process")

    def test_new_solvers(self):
        problem = self.problem()
        b = problem.rhs(1.0)
        old = isobar.Solver(problem, device="cpu")
        x = old.solve(b).x
        np.testing.assert_array_equal(self.in_child(lambda: problem.rhs(1.0)), b)
        for options in [{"threads": 1}, {"threads": 2}, {}]:
            new = self.in_child(lambda: isobar.Solver(problem, device="cpu", **options).solve(b).x)  # noqa: B023
            np.testing.assert_array_equal(new, x)
        big = np.ones((40, 40, 40))
        isobar.Solver(self.problem(big), device="cpu").solve(big)
        found = self.in_child(lambda: float(isobar.Solver(self.problem(big), device="cpu").solve(big).x.sum()))
        assert found == isobar.Solver(self.problem(big), device="cpu").solve(big).x.sum()
        heat = lambda: isobar.Heat(self.kappa, boundary={"x": 0.0}).solve(1.0, dt=0.1, end_time=1.0, device="cpu").x  # noqa: E731
        np.testing.assert_array_equal(self.in_child(heat), heat())

    def test_old_solvers_can_go(self):
        solvers = [isobar.Solver(self.problem(), device="cpu", threads=2) for _ in range(4)]
        solvers[0].solve(np.ones_like(self.kappa))
        assert self.in_child(lambda: solvers.clear() or "done") == "done"
