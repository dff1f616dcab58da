"""Images of labels, and effective conductivities."""

import numpy as np
import oracle
import pytest
import scipy.ndimage

import isobar

INTEGERS = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]


@pytest.mark.parametrize("kind", [*INTEGERS, ">u2", ">i4"])
def test_labels_are_coefficients(rng, kind):
    image = rng.integers(0, 4, (5, 6, 7)).astype(kind)
    table = {0: 0.0, 1: 1.0, 2: 30.0, 3: 0.25}
    kappa = np.vectorize(table.get)(image)
    b = rng.standard_normal(image.shape) * (kappa > 0)
    boundary = {"all": 0.0}
    expected = isobar.Solver(isobar.Diffusion(kappa, boundary=boundary), tolerance=1e-12, device="cpu").apply(b)
    for given in (image, np.asfortranarray(image), np.repeat(image, 2, axis=2)[:, :, ::2]):
        problem = isobar.Diffusion(given, boundary=boundary, coefficients=table)
        assert problem.shape == image.shape
        np.testing.assert_array_equal(isobar.Solver(problem, device="cpu").apply(b), expected)


@pytest.mark.parametrize("much", [1e3, 1e6, 1e9, 1e12])
def test_a_wall_between_good_conductors(much):
    # The residual is small beside the large right-hand side long before the flow through the wall is known.
    kappa = np.full((100, 100), much)
    kappa[:, 50] = 1.0
    kappa[2, 2] = much / 2
    found = isobar.effective(kappa, axis="x", device="cpu")["x"]
    assert found.converged
    assert found.conductivity == pytest.approx(100 / (99 / much + 1), rel=2e-5)


def test_conductors_that_rounding_loses():
    # Metal squares in an insulator: their potential is lost in rows of 10¹⁵, unless some reach a side or connect both.
    squares = np.zeros((24, 24), np.uint8)
    for j, i in np.ndindex(4, 4):
        squares[6 * j : 6 * j + 4, 6 * i : 6 * i + 4] = 1
    expected = isobar.effective(squares, {0: 1.0, 1: 1e10}, axis="x", tolerance=1e-8, device="cpu")["x"]
    assert expected.converged
    with pytest.warns(isobar.NotConvergedWarning, match="differ by more than 10¹³"):
        lost = isobar.effective(squares, {0: 1e-12, 1: 1e3}, axis="x", tolerance=1e-8, device="cpu")["x"]
    assert not lost.converged
    for table in ({0: 1e-10, 1: 1.0}, {0: 1e-6, 1: 1e3}):
        found = isobar.effective(squares, table, axis="x", tolerance=1e-8, device="cpu")["x"]
        assert found.converged and found.conductivity / table[0] == pytest.approx(expected.conductivity, rel=1e-6)
    squares[3] = 1
    found = isobar.effective(squares, {0: 1e-12, 1: 1e3}, axis="x", tolerance=1e-8, device="cpu")["x"]
    plain = isobar.effective(squares, {0: 0.0, 1: 1e3}, axis="x", tolerance=1e-8, device="cpu")["x"]
    assert found.converged and found.conductivity == pytest.approx(plain.conductivity, rel=1e-6)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5, 1e-8])
def test_regions_that_hardly_couple(tolerance):
    # Thin cells, some of them closed: a small residual hides the error of regions that couple by their short faces alone.
    kappa = np.array([
        [0.9, 0.0, 0.0, 0.0, 0.5],
        [1.7, 1.1, 1.6, 0.0, 0.6],
        [0.0, 1.2, 1.7, 0.9, 0.0],
        [0.8, 1.8, 1.2, 1.2, 0.7],
        [0.0, 1.3, 1.6, 0.9, 0.7],
    ])
    found = isobar.effective(kappa, spacing=(1.0, 1000.0), tolerance=tolerance, axis="y", device="cpu")["y"]
    # The flow through a dense solve.
    assert found.converged and found.conductivity == pytest.approx(1.33570712e-06, rel=max(tolerance, 1e-8))


def test_estimates_know_regions_that_hardly_couple(rng):
    for seed in range(40):
        r = np.random.default_rng(seed)
        kappa = 10.0 ** r.uniform(-0.3, 0.3, (10, 10)) * (r.random((10, 10)) > 0.1)
        problem = isobar.Diffusion(kappa, spacing=(1000.0, 1.0), boundary={"east": 1.0})
        connected, _ = scipy.ndimage.label(kappa)
        known = np.isin(connected, connected[:, -1][kappa[:, -1] > 0]) & (kappa > 0)
        for options in ({}, {"method": "cg", "preconditioner": "direct"}, {"method": "cg", "preconditioner": "jacobi"}):
            result = isobar.Solver(problem, tolerance=1e-5, device="cpu", **options).solve(problem.rhs())
            if result.converged and result.error_estimate is not None:
                error = np.linalg.norm((result.x - 1)[known]) / np.linalg.norm(result.x)
                assert error <= max(1.05 * result.error_estimate, 1e-9), (seed, options)


def test_a_maze_takes_its_iterations():
    n = 121
    maze = np.ones((n, n), np.uint8)
    for count, y in enumerate(range(1, n - 1, 2)):
        maze[y] = 0
        maze[y, -1 if count % 2 == 0 else 0] = 1
    found = isobar.effective(maze, {0: 0.0, 1: 1.0}, axis="y", device="cpu")["y"]
    assert found.converged
    # A channel one pixel wide: n pixels in each of its rows, and the doors between them.
    length = n * (n + 1) // 2 + (n - 1) // 2
    assert found.conductivity * length == pytest.approx(n / n, rel=0.2)


@pytest.mark.parametrize("precision", ["f64", "mixed", "f32"])
def test_few_cells_around_a_ring(precision):
    problem = isobar.Diffusion(np.ones((5, 1, 1)), boundary={"z": "periodic"})
    solver = isobar.Solver(problem, precision=precision, compatibility="project", tolerance=1e-5, device="cpu")
    assert solver.solve(np.arange(5.0).reshape(5, 1, 1)).converged


def test_truth_values_and_keys_of_numpy():
    image = np.array([[True, False, True, True]])
    problem = isobar.Diffusion(image, spacing=1.0, boundary={"x": 0.0}, coefficients={np.uint8(1): 2, False: 0})
    found = isobar.Solver(problem, device="cpu").apply(np.ones((1, 4)))
    np.testing.assert_allclose(found, [[4.0, 0.0, 0.0, 4.0]])


def test_what_is_wrong_with_labels():
    image = np.array([[0, 1], [5, 5]], np.uint8)
    with pytest.raises(ValueError, match=r"coefficients: no entry for label 5, which 2 cells have, the first at \(i, j, k\) = \(0, 1, 0\)"):
        isobar.Diffusion(image, coefficients={0: 1.0, 1: 2.0})
    for wrong in (np.nan, -1.0, np.inf):
        with pytest.raises(ValueError, match="coefficients: .* for label 1; it must be finite and not negative"):
            isobar.Diffusion(image, coefficients={0: 1.0, 1: wrong, 5: 1.0})
    with pytest.raises(ValueError, match="a table without labels"):
        isobar.Diffusion(image, coefficients={})
    with pytest.raises(TypeError, match="^kappa: dtype float64; labels must be integers"):
        isobar.Diffusion(image.astype(float), coefficients={0: 1.0})
    for table in ([0.0, 1.0], 3):
        with pytest.raises(TypeError, match="use a dictionary of labels"):
            isobar.Diffusion(image, coefficients=table)
    for table in ({"a": 1.0}, {0.5: 1.0}, {0: "a"}, {0: None}):
        with pytest.raises(TypeError, match="use integers as labels"):
            isobar.Diffusion(image, coefficients=table)
    with pytest.raises(ValueError, match="beyond 64 bits"):
        isobar.Diffusion(image, coefficients={2**64: 1.0})
    with pytest.raises(TypeError, match="one image of labels"):
        isobar.Diffusion((image, image), coefficients={0: 1.0})
    with pytest.raises(ValueError, match="use one to three dimensions"):
        isobar.Diffusion(np.zeros((0, 4), np.uint8), coefficients={0: 1.0})
    with pytest.raises(ValueError, match="none of the 4 cells is active"):
        isobar.Diffusion(image, coefficients={0: 0.0, 1: 0.0, 5: 0.0})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_laminates(axis):
    layers = np.array([1, 2, 2, 0, 1, 0, 2, 1], np.uint8)
    table = {0: 0.5, 1: 1.0, 2: 8.0}
    values = np.vectorize(table.get)(layers)
    shape = [4, 5, 6]
    shape[axis] = len(layers)
    image = np.broadcast_to(layers.reshape([-1 if d == axis else 1 for d in range(3)]), shape)
    found = isobar.effective(image, table, tolerance=1e-11, device="cpu")
    series, parallel = 1 / np.mean(1 / values), values.mean()
    assert list(found) == ["x", "y", "z"]
    for name, result in found.items():
        expected = series if "zyx"[axis] == name else parallel
        assert result.axis == name and result.converged
        assert result.conductivity == pytest.approx(expected, rel=1e-9)
        assert result.bounds == pytest.approx((series, parallel), rel=1e-12)
        assert result.tortuosity == pytest.approx(parallel / expected, rel=1e-9)
        assert result.porosity == result.connected == 1.0 and result.imbalance < 1e-8


def test_checkerboards_tend_to_the_geometric_mean():
    errors = []
    for n in (8, 16, 32):
        board = np.kron([[1, 2], [2, 1]], np.ones((n, n), int))
        found = isobar.effective(board, {1: 1.0, 2: 4.0}, tolerance=1e-10, device="cpu")
        assert found["x"].conductivity == pytest.approx(found["y"].conductivity, rel=1e-8)
        errors.append(abs(found["x"].conductivity / 2.0 - 1.0))
    assert errors[2] < 0.01 and errors[0] > 1.5 * errors[1] > 2.25 * errors[2]


def reference(pores, axis, spacing):
    """Solve with SciPy's direct solver for the pores that connect both sides."""
    labels, _ = scipy.ndimage.label(pores)
    ends = [set(np.unique(np.take(labels, end, axis=axis))) - {0} for end in (0, -1)]
    through = np.isin(labels, list(ends[0] & ends[1]))
    if not through.any():
        return 0.0, 0.0
    sides = [(None, None)] * pores.ndim
    sides[axis] = (1.0, 0.0)
    A, b = oracle.assemble(through.astype(float), spacing, sides)
    u = oracle.solve(A, b)
    first = np.take(u, 0, axis=axis)[np.take(through, 0, axis=axis)]
    area = np.prod([spacing[d] for d in range(pores.ndim) if d != axis])
    flow = (2 * area / spacing[axis] * (1 - first)).sum()
    size = np.prod([n * s for n, s in zip(pores.shape, spacing)])
    return flow * (pores.shape[axis] * spacing[axis]) ** 2 / size, through.sum() / pores.sum()


@pytest.mark.parametrize("shape, spacing", [((40, 60), (1.0, 1.0)), ((14, 16, 18), (1.0, 0.5, 2.0))])
def test_blobs_against_scipy(rng, shape, spacing):
    smooth = scipy.ndimage.gaussian_filter(rng.standard_normal(shape), 1.5)
    pores = smooth > np.quantile(smooth, 0.4)
    found = isobar.effective(pores.astype(np.uint8) * 255, {0: 0.0, 255: 1.0}, tolerance=1e-8, spacing=spacing, device="cpu")
    for axis, name in enumerate("zyx"[3 - len(shape) :]):
        expected, connected = reference(pores, axis, spacing)
        result = found[name]
        assert expected > 0 and connected <= 1
        assert result.conductivity == pytest.approx(expected, rel=1e-7)
        assert result.porosity == pytest.approx(pores.mean(), rel=1e-12)
        assert result.connected == pytest.approx(connected, rel=1e-12)
        assert result.tortuosity == pytest.approx(pores.mean() / expected, rel=1e-7)
        assert result.bounds == (0.0, pytest.approx(pores.mean()))
        assert 0 < result.iterations < 40
    # The same from κ, to a loose tolerance.
    loose = isobar.effective(pores.astype(float), tolerance=1e-4, axis="x", spacing=spacing, device="cpu")
    assert list(loose) == ["x"] and loose["x"].conductivity == pytest.approx(found["x"].conductivity, rel=1e-4)


def test_no_way_through_is_no_solve():
    image = np.ones((6, 8), np.uint8)
    image[:, 3] = 0
    found = isobar.effective(image, {0: 0.0, 1: 1.0}, device="cpu")
    x = found["x"]
    assert (x.conductivity, x.tortuosity, x.connected, x.iterations, x.imbalance) == (0.0, np.inf, 0.0, 0, 0.0)
    assert x.converged and found["y"].conductivity == pytest.approx(7 / 8)
    closed = isobar.effective(np.zeros((3, 3), bool), {0: 0.0}, device="cpu")
    assert closed["y"].porosity == closed["y"].conductivity == 0.0


def test_what_is_wrong():
    with pytest.raises(ValueError, match="axis: 'z'; use x, y or all"):
        isobar.effective(np.ones((3, 3)), axis="z")
    with pytest.raises(TypeError, match="^image_or_kappa: dtype complex128; isobar solves real systems only"):
        isobar.effective(np.ones((4, 4), complex))
    with pytest.raises(ValueError, match="holds labels"):
        isobar.effective(np.full((3, 3), 255, np.uint8))
    with pytest.raises(ValueError, match="axis: 0; use x, y or all"):
        isobar.effective(np.ones((3, 3)), axis=0)
    with pytest.raises(ValueError, match="tolerance: .*between 0 and 1"):
        isobar.effective(np.ones((3, 3)), tolerance=2.0)
    with pytest.raises(ValueError, match="must be finite and not negative"):
        isobar.effective(np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="label 2"):
        isobar.effective(np.array([1, 2]), {1: 1.0})
    assert list(isobar.effective(np.ones((3, 1)), device="cpu")) == ["y"]
    assert isobar.effective(np.ones((1,)), axis=["x"], device="cpu")["x"].conductivity == pytest.approx(1.0)
    assert "tortuosity factor 1" in repr(isobar.effective(np.ones(4), device="cpu")["x"])


def test_spsolve_is_the_oracle():
    # A check of the oracle: a straight channel.
    pores = np.zeros((3, 5), bool)
    pores[1] = True
    assert reference(pores, 1, (1.0, 1.0)) == (pytest.approx(1 / 3), 1.0)


def test_the_potential_is_that_of_the_solve_between_the_sides():
    rng = np.random.default_rng(4)
    for shape in ((7, 9, 11), (12, 13), (9,)):
        kappa = np.where(rng.random(shape) < 0.8, rng.uniform(0.5, 2.0, shape), 0.0)
        kappa[..., 1:3] = 1.0
        if kappa.ndim == 1:
            kappa[:] = 2.0
        found = isobar.effective(kappa, axis="x", tolerance=1e-10, device="cpu", potential=True)["x"]
        assert isobar.effective(kappa, axis="x", device="cpu")["x"].potential is None
        u, flows = found.potential, np.isfinite(found.potential)
        assert u.shape == shape and not flows[kappa == 0].any()
        if found.conductivity == 0:
            assert not flows.any()
            continue
        problem = isobar.Diffusion(kappa, spacing=1.0, active=flows, boundary={"west": 1.0, "east": 0.0})
        expected = isobar.Solver(problem, tolerance=1e-12, device="cpu").solve(problem.rhs()).x
        assert np.abs(u - expected)[flows].max() < 1e-6
        assert u[flows].min() > 0 and u[flows].max() < 1
