"""Arrays of every order, stride and type, and of other libraries."""

import numpy as np
import pytest

import isobar

SHAPE = (4, 6, 8)


@pytest.fixture(scope="module")
def problem():
    return isobar.Diffusion(np.random.default_rng(3).uniform(1.0, 2.0, SHAPE), boundary={"x": 0.0})


@pytest.fixture(scope="module")
def solver(problem):
    return isobar.Solver(problem, tolerance=1e-10, device="cpu")


def layouts(values):
    """Return equal values in every kind of memory."""
    yield "C", values.copy()
    yield "Fortran", np.asfortranarray(values)
    for axes in [(1, 0, 2), (2, 0, 1), (0, 2, 1)]:
        yield f"axes {axes}", np.ascontiguousarray(values.transpose(axes)).transpose(np.argsort(axes))
    halo = np.full([n + 3 for n in values.shape], np.nan, dtype=values.dtype)
    halo[1:-2, 2:-1, 1:-2] = values
    yield "halo", halo[1:-2, 2:-1, 1:-2]
    spread = np.full([2 * n for n in values.shape], np.nan, dtype=values.dtype)
    spread[::2, 1::2, ::2] = values
    yield "every other", spread[::2, 1::2, ::2]
    for index in [np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-1, ::-1]]:
        yield f"reversed {index}", np.ascontiguousarray(values[index])[index]
    record = np.zeros(values.shape, dtype=[("a", "u1"), ("b", values.dtype)])
    record["b"] = values
    yield "packed record", record["b"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_layout_gives_the_same(problem, solver, rng, dtype):
    if dtype == np.float32:
        # The accuracy of single precision.
        solver = isobar.Solver(problem, tolerance=1e-5, device="cpu")
    b = problem.rhs(rng.standard_normal(SHAPE)).astype(dtype)
    expected = solver.solve(b).x
    assert expected.dtype == dtype
    for name, array in layouts(b):
        before = array.copy()
        np.testing.assert_array_equal(solver.solve(array).x, expected, err_msg=name)
        np.testing.assert_array_equal(solver.apply(array), solver.apply(b), err_msg=name)
        np.testing.assert_array_equal(array, before, err_msg=name)
        if name == "packed record":
            with pytest.raises(TypeError, match="not aligned|dtype"):
                solver.solve(b, out=array)
            continue
        result = solver.solve(b, out=array)
        assert result.x is array
        np.testing.assert_array_equal(array, expected, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(41, 37, 53), (1, 1, 70001), (70001, 1, 1), (2, 1, 3), (1, 1, 1)])
def test_problems_and_right_hand_sides_of_every_layout(rng, dtype, shape):
    kappa, f = rng.uniform(1.0, 2.0, shape).astype(dtype), rng.standard_normal(shape).astype(dtype)
    problem = isobar.Diffusion(kappa, spacing=0.5, boundary={"x": 3.0, "top": {"neumann": 2.0}})
    area, wide = 0.25, kappa.astype(np.float64)
    expected = f.astype(np.float64) * 0.125
    expected[:, :, 0] += 2 * wide[:, :, 0] * area / 0.5 * 3.0
    expected[:, :, -1] += 2 * wide[:, :, -1] * area / 0.5 * 3.0
    expected[-1] += 2.0 * area
    b = problem.rhs(f)
    np.testing.assert_allclose(b, expected, rtol=1e-14, atol=1e-15)
    probe = isobar.Solver(problem, method="cg", preconditioner="jacobi", device="cpu")
    product = probe.apply(b)
    for name, array in layouts(f):
        np.testing.assert_array_equal(problem.rhs(array), b, err_msg=name)
        if array.dtype == np.float64 and name != "packed record" and not np.shares_memory(array, f):
            assert problem.rhs(array, out=array) is array
            np.testing.assert_array_equal(array, b, err_msg=name)
    for name, array in layouts(kappa):
        same = isobar.Diffusion(array, spacing=0.5, boundary={"x": 3.0, "top": {"neumann": 2.0}})
        np.testing.assert_array_equal(same.rhs(f), b, err_msg=name)
        probe.update(problem.replace(array))
        np.testing.assert_array_equal(probe.apply(b), product, err_msg=name)
    number = problem.rhs(1.5)
    np.testing.assert_array_equal(number, problem.rhs(np.full(shape, 1.5)))
    single = np.empty(shape, np.float32)
    problem.rhs(1.5, out=single)
    np.testing.assert_array_equal(single, number.astype(np.float32))
    every_other = np.full((*shape[:2], 2 * shape[2]), np.nan)[:, :, ::2]
    np.testing.assert_array_equal(problem.rhs(1.5, out=every_other), number)


def test_masks_of_every_layout(rng):
    kappa = rng.uniform(1.0, 2.0, (37, 41, 53))
    mask = rng.random(kappa.shape) < 0.7
    expected = np.where(mask, 1.0 / kappa.size, 0.0)
    for name, array in layouts(mask.astype(np.float32)):
        np.testing.assert_allclose(isobar.Diffusion(kappa, active=array).rhs(1.0), expected, rtol=1e-14, err_msg=name)
    closed = np.where(mask, kappa, 0.0)
    np.testing.assert_array_equal(isobar.Diffusion(closed).rhs(1.0), isobar.Diffusion(kappa, active=mask).rhs(1.0))


def test_halos_are_left_alone(problem, solver):
    halo = np.full([n + 2 for n in SHAPE], -7.0)
    inside = halo[1:-1, 1:-1, 1:-1]
    problem.rhs(1.0, out=inside)
    solver.solve(inside, out=inside)
    inside[...] = -7.0
    assert (halo == -7.0).all()


def test_other_types_are_converted(problem, solver):
    ones = np.ones(SHAPE)
    expected = solver.solve(ones).x
    for same in [ones.astype(int), ones.astype(bool), ones.astype(">f8"), ones.astype(np.float16), ones.tolist(),
                 np.broadcast_to(1.0, SHAPE)]:
        result = solver.solve(same)
        assert result.x.dtype == np.float64
        np.testing.assert_array_equal(result.x, expected)
    mixed = np.empty(SHAPE, np.float32)
    internal = isobar.Solver(problem, tolerance=1e-10, judge="internal", device="cpu")
    result = internal.solve(ones, out=mixed)
    assert result.converged
    np.testing.assert_allclose(result.x, expected, rtol=1e-6)


def test_single_precision_is_judged_as_it_is_handed_back(problem, solver):
    b = problem.rhs(1.0)
    out = np.empty(SHAPE, np.float32)
    with pytest.warns(isobar.NotConvergedWarning, match="single precision.*judge"):
        result = solver.solve(b, out=out)
    found = np.linalg.norm(b - solver.apply(out.astype(np.float64))) / np.linalg.norm(b)
    assert result.stop == "stagnated" and result.residual == pytest.approx(found, rel=1e-6) and found > 1e-8
    assert isobar.Solver(problem, tolerance=1e-4, device="cpu").solve(b, out=out).converged
    # The same with b in single precision, for which x is too.
    with pytest.warns(isobar.NotConvergedWarning):
        single = solver.solve(b.astype(np.float32))
    assert single.x.dtype == np.float32 and not single.converged


def test_read_only_arrays_can_be_read(solver):
    b = np.ones(SHAPE)
    b.flags.writeable = False
    assert solver.solve(b).converged
    with pytest.raises(ValueError, match="read-only"):
        solver.solve(np.ones(SHAPE), out=b)
    with pytest.raises(ValueError, match="read-only"):
        solver.solve(np.ones(SHAPE), out=np.broadcast_to(1.0, SHAPE))


class ByDlpack:
    """An array of another library that only offers DLPack."""

    def __init__(self, array, old=False):
        self._array, self._old = array, old
        self.dtype, self.shape = array.dtype, array.shape

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options):
        if self._old:
            if "max_version" in options:
                raise TypeError("unexpected keyword argument 'max_version'")
            return self._array.__dlpack__()
        return self._array.__dlpack__(**options)


@pytest.mark.parametrize("old", [False, True])
def test_dlpack(problem, solver, rng, old):
    b = problem.rhs(rng.standard_normal(SHAPE))
    expected = solver.solve(b).x
    for array in [b, np.asfortranarray(b)]:
        np.testing.assert_array_equal(solver.solve(ByDlpack(array, old)).x, expected)
    out = np.zeros(SHAPE)
    wrapped = ByDlpack(out, old)
    assert solver.solve(b, out=wrapped).x is wrapped
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(TypeError, match="float64 or float32"):
        solver.solve(ByDlpack(np.ones(SHAPE, np.int32), old))
    with pytest.raises(ValueError, match="shape"):
        solver.solve(ByDlpack(np.ones((2, 3)), old))


def test_dlpack_says_what_is_read_only(solver):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy before 2.1 hands over no arrays that are read-only")
    b = np.ones(SHAPE)
    b.flags.writeable = False
    assert solver.solve(ByDlpack(b)).converged
    with pytest.raises(ValueError, match="read-only"):
        solver.solve(np.ones(SHAPE), out=ByDlpack(b))


def test_dlpack_gives_back_what_it_borrows(solver):
    import sys

    b = np.ones(SHAPE)
    before = sys.getrefcount(b)
    for old in (False, True):
        solver.solve(ByDlpack(b, old))
    assert sys.getrefcount(b) == before


def test_torch(problem, solver, rng):
    torch = pytest.importorskip("torch")
    b = torch.from_numpy(problem.rhs(rng.standard_normal(SHAPE)))
    expected = solver.solve(b.numpy()).x
    for tensor in [b, b.permute(2, 0, 1).contiguous().permute(1, 2, 0), b.clone().requires_grad_()]:
        x = solver.solve(tensor).x
        assert isinstance(x, torch.Tensor)
        np.testing.assert_array_equal(x.numpy(), expected)
    with pytest.warns(isobar.NotConvergedWarning, match="single precision"):
        assert solver.solve(b.float()).x.dtype == torch.float32
    out = torch.zeros(SHAPE, dtype=torch.float64)
    assert solver.solve(b, x0=b, out=out).x is out
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
