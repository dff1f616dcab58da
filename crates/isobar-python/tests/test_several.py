"""Several right-hand sides at once, compared with SciPy and with single solves."""

import numpy as np
import oracle
import pytest

import isobar


def systems(rng, shape, count, **options):
    """Return a solver, right-hand sides, and SciPy's solutions."""
    kappa = rng.uniform(0.5, 2.0, shape)
    sides = [(0.0, None)] * len(shape)
    problem = isobar.Diffusion(kappa, boundary={"west": 0.0, **dict([("south", 0.0), ("bottom", 0.0)][: len(shape) - 1])})
    A, _ = oracle.assemble(kappa, boundary=sides)
    b = rng.standard_normal((count, *shape))
    expected = np.stack([oracle.solve(A, each) for each in b])
    return isobar.Solver(problem, **{"device": "cpu", "threads": 1, "tolerance": 1e-11, **options}), b, expected


@pytest.mark.parametrize("shape", [(7,), (5, 6), (1, 9), (4, 5, 6), (1, 4, 3)])
@pytest.mark.parametrize("count", [1, 3])
def test_every_dimension(rng, shape, count):
    solver, b, expected = systems(rng, shape, count)
    several = solver.solve(b)
    assert several.converged and several.x.shape == b.shape and len(several.results) == count
    np.testing.assert_allclose(several.x, expected, atol=1e-9 * abs(expected).max())
    for n, result in enumerate(several.results):
        alone = solver.solve(b[n])
        # Equal solves give equal bits.
        np.testing.assert_array_equal(result.x, alone.x)
        assert result.iterations == alone.iterations == several.iterations[n]
        assert result.residual == alone.residual == several.residual[n] <= 1e-11
    assert several.seconds >= max(result.seconds for result in several.results)
    assert f"{count} system" in repr(several) and "all converged" in repr(several)


@pytest.mark.parametrize("method", ["direct", "multigrid", "cg"])
def test_methods(rng, method):
    problem = isobar.Diffusion(np.ones((6, 8, 8)), boundary={"all": 0.0})
    A, _ = oracle.assemble(np.ones((6, 8, 8)), boundary=[(0.0, 0.0)] * 3)
    b = rng.standard_normal((4, 6, 8, 8))
    several = isobar.Solver(problem, method, device="cpu", tolerance=1e-11).solve(b)
    np.testing.assert_allclose(several.x, [oracle.solve(A, each) for each in b], atol=1e-10)


def test_arrays_of_every_kind(rng):
    solver, b, expected = systems(rng, (4, 5, 6), 3)
    scale = abs(expected).max()
    for layout in (np.asfortranarray(b), np.moveaxis(np.moveaxis(b, 0, -1).copy(), -1, 0), b[::-1].copy()[::-1], np.repeat(b, 2, axis=3)[..., ::2]):
        np.testing.assert_allclose(solver.solve(layout).x, expected, atol=1e-9 * scale)
    np.testing.assert_allclose(solver.solve(b.tolist()).x, expected, atol=1e-9 * scale)
    np.testing.assert_allclose(solver.solve(np.broadcast_to(b[1], b.shape)).x[2], expected[1], atol=1e-9 * scale)
    loose, *_ = systems(np.random.default_rng(7), (4, 5, 6), 3, tolerance=1e-5)
    single = loose.solve(b.astype(np.float32))
    assert single.converged and single.x.dtype == np.float32
    np.testing.assert_allclose(single.x, expected, atol=1e-4 * scale)
    whole = solver.solve(np.arange(360).reshape(3, 4, 5, 6) % 5)
    assert whole.converged and whole.x.dtype == np.float64


def test_where_solutions_go(rng):
    solver, b, expected = systems(rng, (4, 5, 6), 3)
    close = dict(atol=1e-9 * abs(expected).max())
    out = np.full_like(b, np.nan)
    several = solver.solve(b, out=out)
    assert several.x is out and np.shares_memory(several.results[2].x, out)
    np.testing.assert_allclose(out, expected, **close)
    # In place, shifted by a system: no system reads another's solution.
    inside = b.copy()
    np.testing.assert_allclose(solver.solve(inside, out=inside).x, expected, **close)
    room = np.concatenate([b, np.zeros_like(b[:1])])
    np.testing.assert_allclose(solver.solve(room[:3], out=room[1:]).x, expected, **close)
    backwards = b.copy()
    np.testing.assert_allclose(solver.solve(backwards, out=backwards[::-1]).x, expected, **close)
    between = np.stack([b, b], axis=-1)
    np.testing.assert_allclose(solver.solve(between[..., 0], out=between[..., 1]).x, expected, **close)
    # First guesses.
    guessed = solver.solve(b, x0=expected)
    assert guessed.converged and guessed.iterations.max() == 0
    np.testing.assert_array_equal(guessed.x, expected)
    np.testing.assert_allclose(solver.solve(b, x0=1.0).x, expected, **close)
    inside = b.copy()
    np.testing.assert_allclose(solver.solve(inside, x0=expected, out=inside).x, expected, **close)
    again = expected.copy()
    assert solver.solve(b, x0=again, out=again).iterations.tolist() == [0, 0, 0]


def test_a_bad_first_guess_is_left_out_by_every_thread(rng):
    kappa = np.exp(2 * rng.normal(size=(20, 20)))
    problem = isobar.Diffusion(kappa, boundary={"west": 1.0, "east": 0.0})
    b, guess = rng.normal(size=(6, 20, 20)), 1e12 * rng.normal(size=(6, 20, 20))
    one, two = (isobar.Solver(problem, threads=threads, device="cpu").solve(b, x0=guess) for threads in (1, 2))
    np.testing.assert_array_equal(one.x, two.x)
    assert all(any("began from 0" in note for note in result.notes) for result in [*one.results, *two.results])


def test_each_is_judged_by_itself(rng):
    solver, b, expected = systems(rng, (6, 8, 8), 4, method="cg", preconditioner={"kind": "jacobi"}, max_iterations=3)
    b[2] = 0.0
    with pytest.warns(isobar.NotConvergedWarning, match=r"3 of 4 systems not converged \(0, 1, 3\); system 0: not converged: max iterations after 3"):
        several = solver.solve(b)
    assert not several.converged and [result.converged for result in several.results] == [False, False, True, False]
    assert (several.x[2] == 0).all() and "3 NOT converged" in repr(several)
    assert [result.stop for result in several.results][1:3] == ["max_iterations", "converged"]
    for n in (0, 1, 3):
        residual = np.linalg.norm(b[n] - solver.apply(several.x[n])) / np.linalg.norm(b[n])
        assert several.residual[n] == pytest.approx(residual, rel=1e-9)
        assert several.results[n].history[-1] > 1e-11 and several.results[n].advice
    assert several.results[1].report["outcome"]["stop"] == "max_iterations"


def test_singular(rng):
    problem = isobar.Diffusion(rng.uniform(0.5, 2.0, (4, 5, 6)))
    solver = isobar.Solver(problem, tolerance=1e-10, device="cpu")
    b = rng.standard_normal((3, 4, 5, 6))
    b -= b.mean(axis=(1, 2, 3), keepdims=True)
    several = solver.solve(b)
    assert several.converged
    np.testing.assert_allclose(several.x.mean(axis=(1, 2, 3)), 0, atol=1e-12)
    for n in range(3):
        np.testing.assert_allclose(solver.apply(several.x[n]), b[n], atol=1e-9)
    b[1] += 1.0
    with pytest.raises(ValueError, match="system 1: the right-hand side: it has no solution"):
        solver.solve(b)


def test_misuse(rng):
    solver, b, _ = systems(rng, (4, 5, 6), 3)
    with pytest.raises(ValueError, match=r"b has shape \(0, 4, 5, 6\) and contains no system; pass one or more"):
        solver.solve(b[:0])
    with pytest.raises(ValueError, match=r"b has shape \(3, 4, 6, 5\); the problem's is \(4, 5, 6\), and that of k systems \(k, 4, 5, 6\)"):
        solver.solve(np.ones((3, 4, 6, 5)))
    with pytest.raises(ValueError, match=r"out has shape \(2, 4, 5, 6\), but b has shape \(3, 4, 5, 6\)"):
        solver.solve(b, out=np.ones((2, 4, 5, 6)))
    for wrong in (np.ones((4, 5, 6)), np.ones((2, 4, 5, 6))):
        with pytest.raises(ValueError, match=r"x0 has shape .*, but b has shape \(3, 4, 5, 6\); x0 needs the shape of b"):
            solver.solve(b, x0=wrong)
    with pytest.raises(ValueError, match="out"):
        solver.solve(b, out=np.ones((4, 5, 6)))
    with pytest.raises(ValueError, match="share memory"):
        solver.solve(b, out=np.lib.stride_tricks.as_strided(np.ones((4, 5, 6)), b.shape, (960, 0, 48, 8)))
    with pytest.raises(ValueError, match="u of system 0 shares memory with u of system 1"):
        solver.solve(b, out=np.lib.stride_tricks.as_strided(np.ones((4, 5, 6)), b.shape, (0, 240, 48, 8)))
    b[2, 1, 3, 5] = np.nan
    with pytest.raises(ValueError, match=r"system 2: the right-hand side is NaN at \(i, j, k\) = \(5, 3, 1\)"):
        solver.solve(b)
    with pytest.raises(ValueError, match="dimensions"):
        solver.solve(b[None])
    with pytest.raises(ValueError, match="shape"):
        isobar.Solver(isobar.Diffusion(np.ones(4), boundary=0.0)).solve(np.ones((2, 5)))


def test_an_end_that_is_asked_for(rng):
    solver, b, expected = systems(rng, (6, 8, 8), 4, method="cg", preconditioner={"kind": "jacobi"})
    calls = []

    def end_the_second(iteration, residual):
        calls.append(iteration)
        # The iterations of the first solve end at its last one.
        return calls.count(1) < 2

    with pytest.warns(isobar.NotConvergedWarning, match=r"1 of 4 systems not converged \(1\), 2 not started; system 1: .*interrupted"):
        several = solver.solve(b, progress=end_the_second)
    assert [result.stop for result in several.results] == ["converged", "interrupted"] and not several.converged
    np.testing.assert_allclose(several.x[0], expected[0], atol=1e-9 * abs(expected).max())
    assert (several.x[2:] == 0).all()


def test_gradients_of_each(rng):
    solver, b, _ = systems(rng, (4, 5, 6), 2)
    several = solver.solve(b)
    xbar = rng.standard_normal((4, 5, 6))
    for n, result in enumerate(several.results):
        np.testing.assert_allclose(result.gradient(xbar).kappa, solver.solve(b[n]).gradient(xbar).kappa, rtol=1e-9, atol=1e-12)


def test_a_trial_is_watched_in_each(rng):
    """Conjugate gradients that are tried, and suit the first system by chance, give way in the others."""
    kappa = np.ones((64, 64))
    kappa[20:30, 5:30] = 0.3
    reaction = 8 * 64**2 / 28
    solver = isobar.Solver(isobar.Diffusion(kappa, reaction=reaction, boundary=0.0), device="cpu", threads=2, tolerance=1e-8)
    b = reaction * rng.standard_normal((5, 64, 64))
    b[0] = 0.0
    several = solver.solve(b)
    assert several.converged and "continued with multigrid" in " ".join(note for result in several.results for note in result.notes)
    assert max(result.iterations for result in several.results[2:]) < 20


def test_torch(rng):
    torch = pytest.importorskip("torch")
    solver, b, expected = systems(rng, (4, 5, 6), 3)
    several = solver.solve(torch.from_numpy(b))
    assert isinstance(several.x, torch.Tensor)
    np.testing.assert_allclose(several.x.numpy(), expected, atol=1e-9 * abs(expected).max())
