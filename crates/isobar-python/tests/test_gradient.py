"""Derivatives of solutions, compared with differences of a model in SciPy."""

import threading
import weakref

import numpy as np
import oracle
import pytest

import isobar

STRETCHED = {n: np.linspace(1.0, 2.0, n) for n in range(3, 12)}


def cases():
    """Return kappa, and the inputs of `isobar.Diffusion` and of the model: (arguments, boundary of the model)."""
    rng = np.random.default_rng(5)
    kappa = np.exp(rng.standard_normal((4, 5, 6)))
    mask = rng.random(kappa.shape) > 0.2
    widths = tuple(STRETCHED[n] for n in kappa.shape)
    reaction = rng.uniform(0.1, 1.0, kappa.shape)
    return {
        "1D": (kappa[0, 0], {}, [(1.0, None)]),
        "1D, both sides, stretched": (kappa[0, 0], {"spacing": widths[2]}, [(2.0, -1.0)]),
        "2D, flux": (kappa[0], {"spacing": widths[1:]}, [(("flux", 0.5), 0.0), (3.0, None)]),
        "2D, periodic": (kappa[0], {"reaction": reaction[0]}, [(None, None), ("periodic", "periodic")]),
        "3D": (kappa, {}, [(1.0, 2.0), (None, -1.0), (0.0, None)]),
        "3D, stretched, masked": (kappa, {"spacing": widths, "active": mask, "reaction": reaction}, [(1.0, None), (None, None), (None, 2.0)]),
        "3D, periodic": (kappa, {}, [(0.0, 1.0), ("periodic",) * 2, ("periodic",) * 2]),
        "closed": (kappa, {}, None),
        "closed, masked": (kappa, {"active": mask}, None),
        "closed, periodic": (kappa[0], {}, [("periodic",) * 2, ("periodic",) * 2]),
    }


def boundary_of(model):
    """Return the model's sides in the form of `isobar.Diffusion`."""
    if model is None:
        return None
    names = [("bottom", "top"), ("south", "north"), ("west", "east")][3 - len(model) :]
    sides = {}
    for pair, given in zip(names, model):
        for name, value in zip(pair, given):
            sides[name] = "neumann" if value is None else {"neumann": value[1]} if isinstance(value, tuple) else value
    return sides


def modelled(kappa, arguments, boundary, f):
    """Return x of the model."""
    arguments = {"spacing": None, "active": None, "reaction": 0.0, **arguments}
    spacing = arguments["spacing"]
    spacing = (spacing,) if isinstance(spacing, np.ndarray) else spacing
    A, b = oracle.assemble(kappa, spacing, boundary, arguments["reaction"], arguments["active"], f)
    if boundary is None or all(side == ("periodic",) * 2 for side in boundary):
        # b must lie in the range of A.
        return pseudo_inverse(A) @ b.ravel()
    return oracle.solve(A, b).ravel()


def pseudo_inverse(A):
    return np.linalg.pinv(A.toarray(), rcond=1e-12, hermitian=True)


@pytest.mark.parametrize("name", cases())
def test_derivatives_are_those_of_the_model(rng, name):
    kappa, arguments, boundary = cases()[name]
    f = rng.standard_normal(kappa.shape)
    xbar = rng.standard_normal(kappa.shape)
    active = arguments.get("active", np.ones(kappa.shape, bool))
    problem = isobar.Diffusion(kappa, boundary=boundary_of(boundary), **arguments)
    b = problem.rhs(f)
    if "closed" in name:
        b = (problem.to_scipy() @ (pseudo_inverse(problem.to_scipy()) @ b.ravel())).reshape(b.shape)
    solver = isobar.Solver(problem, tolerance=1e-13, device="cpu")
    result = solver.solve(b)
    np.testing.assert_allclose(result.x.ravel(), modelled(kappa, arguments, boundary, f), atol=1e-10 * abs(result.x).max())
    gradient = result.gradient(xbar)
    assert gradient.adjoint.converged and gradient.b.shape == gradient.kappa.shape == kappa.shape

    def value(kappa=kappa, f=f, **other):
        return xbar.ravel() @ modelled(kappa, {**arguments, **other}, boundary, f)

    expected = oracle.differences(lambda other: value(kappa=other), kappa, 1e-5)
    expected[~active] = 0
    np.testing.assert_allclose(gradient.kappa, expected, atol=2e-7 * abs(expected).max())
    expected = oracle.differences(lambda other: value(f=other), f, 1e-2)
    np.testing.assert_allclose(gradient.f, expected, atol=1e-8 * abs(expected).max())
    if "reaction" in arguments:
        expected = oracle.differences(lambda other: value(reaction=other), arguments["reaction"], 1e-5)
        np.testing.assert_allclose(gradient.reaction, expected, atol=1e-7 * abs(expected).max())
    # The gradient by b itself, which the model lacks.
    inverse = pseudo_inverse(problem.to_scipy())
    np.testing.assert_allclose(gradient.b.ravel(), inverse @ xbar.ravel(), atol=1e-9 * abs(gradient.b).max())


def test_a_negative_reaction_leaves_no_constant_free(rng):
    f, xbar = rng.standard_normal((2, 6, 5))
    problem = isobar.Diffusion(np.ones(f.shape), spacing=0.3, reaction=-0.7)
    gradient = isobar.Solver(problem, tolerance=1e-12, device="cpu").solve(problem.rhs(f)).gradient(xbar)
    np.testing.assert_allclose(problem.to_scipy() @ gradient.b.ravel(), xbar.ravel(), atol=1e-10)


@pytest.mark.parametrize("count", [2, 3])
def test_several_coefficients_sources_and_wells(rng, count):
    shape = (3, 4, 5)
    fields = tuple(np.exp(rng.standard_normal(shape)) for _ in range(count))
    points = {"sources": [{"i": 1, "j": 2, "rate": 3.0}], "wells": [{"i": 3, "j": 1, "k": [0, 1], "value": 2.0, "radius": 0.005}]}
    options = {"boundary": {"east": 1.0}, "spacing": tuple(STRETCHED[n] for n in shape), **points}
    xbar = rng.standard_normal(shape)

    def value(fields, b=None):
        problem = isobar.Diffusion(fields, **options)
        A = problem.to_scipy().toarray()
        return xbar.ravel() @ np.linalg.solve(A, (problem.rhs(1.0) if b is None else b).ravel())

    problem = isobar.Diffusion(fields, **options)
    solver = isobar.Solver(problem, tolerance=1e-13, device="cpu")
    b = problem.rhs(1.0)
    result = solver.solve(b)
    for fixed in (None, b):
        found = result.gradient(xbar, fixed_b=fixed is not None).kappa
        assert isinstance(found, tuple) and len(found) == count
        for n, field in enumerate(found):
            expected = oracle.differences(lambda other: value((*fields[:n], other, *fields[n + 1 :]), fixed), fields[n], 1e-5)
            np.testing.assert_allclose(field, expected, atol=1e-6 * abs(expected).max())


def test_robin_sides_and_values_of_faces(rng):
    shape = (3, 4, 5)
    kappa = np.exp(rng.standard_normal(shape))
    film = {"robin": {"coefficient": rng.uniform(0.0, 3.0, (3, 4)), "value": 2.0}}
    options = {"boundary": {"west": film, "south": rng.standard_normal((3, 5)), "top": {"robin": {"coefficient": 0.5, "value": -1.0}}}}
    xbar = rng.standard_normal(shape)

    def value(kappa):
        problem = isobar.Diffusion(kappa, **options)
        return xbar.ravel() @ np.linalg.solve(problem.to_scipy().toarray(), problem.rhs(1.0).ravel())

    problem = isobar.Diffusion(np.ones(shape), **options).replace(kappa)
    result = isobar.Solver(problem, tolerance=1e-13, device="cpu").solve(problem.rhs(1.0))
    assert np.vdot(xbar, result.x) == pytest.approx(value(kappa), rel=1e-9)
    expected = oracle.differences(value, kappa, 1e-5)
    np.testing.assert_allclose(result.gradient(xbar).kappa, expected, atol=1e-7 * abs(expected).max())


def test_derivatives_by_sides_and_widths(rng):
    shape = (3, 4, 5)
    kappa, reaction, f, xbar = np.exp(rng.standard_normal((4, *shape)))
    widths = [rng.uniform(0.5, 1.5, n) for n in shape]
    numbers = {"west": rng.uniform(0.1, 3.0, (2, 3, 4)), "south": rng.standard_normal((3, 5)), "top": rng.standard_normal((4, 5))}

    def model(widths=widths, **changed):
        given = {**numbers, **changed}
        sides = [(None, ("flux", given["top"])), (given["south"], None), (("robin", *given["west"]), 2.0)]
        return xbar.ravel() @ oracle.solve(*oracle.assemble(kappa, tuple(widths), sides, reaction, None, f)).ravel()

    film = {"robin": {"coefficient": numbers["west"][0], "value": numbers["west"][1]}}
    sides = {"west": film, "east": 2.0, "south": numbers["south"], "top": {"neumann": numbers["top"]}}
    problem = isobar.Diffusion(kappa, tuple(widths), sides, reaction=reaction)
    gradient = isobar.Solver(problem, tolerance=1e-13, device="cpu").solve(problem.rhs(f)).gradient(xbar)
    for name in numbers:
        found = gradient.side(name)
        expected = oracle.differences(lambda other: model(**{name: other}), numbers[name], 1e-5)
        found = np.stack([found.coefficient, found.value]) if name == "west" else found.value
        np.testing.assert_allclose(found, expected, atol=1e-7 * abs(expected).max())
    assert not gradient.side("bottom").coefficient.any() and not gradient.side("top").coefficient.any()
    for d, found in enumerate(gradient.spacing(f)):
        expected = oracle.differences(lambda other: model([*widths[:d], other, *widths[d + 1 :]]), widths[d], 1e-5)
        np.testing.assert_allclose(found, expected, atol=1e-6 * abs(expected).max())
    with pytest.raises(ValueError, match="west, east"):
        gradient.side("left")
    with pytest.raises(ValueError, match=r"^f has shape \(3,\); the problem's is"):
        gradient.spacing(np.ones(3))
    with pytest.raises(TypeError, match="^f: 'one'; use a number"):
        gradient.spacing("one")
    with pytest.raises(ValueError, match="^xbar is NaN at"):
        isobar.Solver(problem).solve(problem.rhs(f)).gradient(np.full_like(xbar, np.nan))


def test_derivatives_in_a_direction_of_sides_and_widths(rng):
    # ⟨gradient, direction⟩ against a difference of whole solves.
    shape = (40, 48)
    kappa, xbar = np.exp(rng.standard_normal((2, *shape)))
    profile, direction, coefficient = rng.uniform(0.5, 1.5, (3, 40))
    widths, stretch = rng.uniform(0.5, 1.5, (2, 48))

    def solved(step):
        film = {"robin": {"coefficient": coefficient + step * direction, "value": profile}}
        problem = isobar.Diffusion(kappa, (1.0, widths + step * stretch), {"west": film, "east": profile + step * direction})
        return isobar.Solver(problem, tolerance=1e-13, device="cpu").solve(problem.rhs(1.0))

    gradient = solved(0.0).gradient(xbar)
    west, east = gradient.side("west"), gradient.side("east")
    slope = west.coefficient @ direction + east.value @ direction + gradient.spacing(1.0)[1] @ stretch
    values = [np.vdot(xbar, solved(step).x) for step in (1e-5, -1e-5)]
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("shape, periodic", [((5,), ""), ((5,), "x"), ((4, 5), ""), ((4, 5), "y"), ((3, 4, 5), ""), ((3, 4, 5), "xz")])
def test_derivatives_by_conductances(rng, shape, periodic):
    faces = []
    for axis in range(len(shape)):
        short = [*shape]
        short[len(shape) - 1 - axis] -= "xyz"[axis] not in periodic
        faces.append(rng.uniform(0.5, 2.0, short))
    shift, b, xbar = rng.uniform(0.1, 1.0, (3, *shape))

    def value(*given):
        *faces, shift = given
        return xbar.ravel() @ np.linalg.solve(isobar.Faces(*faces, shift=shift, periodic=periodic).to_scipy().toarray(), b.ravel())

    problem = isobar.Faces(*faces, shift=shift, periodic=periodic)
    found = isobar.Solver(problem, tolerance=1e-13, device="cpu").solve(b).gradient(xbar).faces
    given = [*faces, shift]
    for n, by in enumerate([each for each in found if each is not None]):
        expected = oracle.differences(lambda other: value(*given[:n], other, *given[n + 1 :]), given[n], 1e-4)
        np.testing.assert_allclose(by, expected, atol=1e-6 * abs(expected).max())
    assert [each is None for each in found] == [False, *(len(shape) < n for n in (2, 3)), False]
    with pytest.raises(ValueError, match="isobar.Faces"):
        dense = isobar.Diffusion(np.ones(4), boundary=0.0)
        isobar.Solver(dense).solve(dense.rhs(1.0)).gradient(np.ones(4)).faces


def test_conductances(rng):
    tx, ty = rng.uniform(0.5, 2.0, (4, 4)), rng.uniform(0.5, 2.0, (3, 5))
    shift, b, xbar = rng.uniform(0.1, 1.0, (3, 4, 5))
    problem = isobar.Faces(tx, ty, shift=shift)
    gradient = isobar.Solver(problem, tolerance=1e-13, device="cpu").solve(b).gradient(xbar)
    expected = np.linalg.solve(problem.to_scipy().toarray(), xbar.ravel())
    np.testing.assert_allclose(gradient.b.ravel(), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="isobar.Diffusion"):
        gradient.kappa


def test_derivatives_in_a_direction_of_many_unknowns(rng):
    shape = (24, 32, 40)
    kappa, direction = np.exp(rng.standard_normal(shape)), rng.standard_normal(shape)
    xbar = rng.standard_normal(shape)
    problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    solver = isobar.Solver(problem, tolerance=1e-12, device="cpu")
    result = solver.solve(problem.rhs(1.0))
    gradient = result.gradient(xbar)
    # ⟨x̄, A⁻¹ b⟩ = ⟨A⁻¹ x̄, b⟩
    b = problem.rhs(1.0)
    assert np.vdot(xbar, result.x) == pytest.approx(np.vdot(gradient.b, b), rel=1e-8)
    step = 1e-5
    values = []
    for sign in (1, -1):
        solver.update(problem.replace(kappa * np.exp(sign * step * direction)))
        values.append(np.vdot(xbar, solver.solve(b).x))
    slope = np.vdot(gradient.kappa, kappa * direction)
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope, rel=1e-5)


def test_other_problems(rng):
    problem = isobar.Helmholtz.panel(8, 8, 4)
    result = isobar.Solver(problem, tolerance=1e-10).solve(problem.rhs(1.0))
    xbar = rng.standard_normal(problem.shape)
    gradient = result.gradient(xbar)
    assert np.vdot(xbar, result.x) == pytest.approx(np.vdot(gradient.b, problem.rhs(1.0)), rel=1e-7)
    with pytest.raises(ValueError, match="isobar.Diffusion"):
        gradient.kappa
    ones = np.ones((3, 3))
    faces = np.ones((3, 4))
    skew = isobar.TensorProduct(2 * np.ones(2), [-1.0, 0.0], [0.0, -0.5], -np.ones(2), ones, faces, faces.T)
    result = isobar.Solver(skew).solve(np.ones((2, 3, 3)))
    with pytest.raises(ValueError, match="symmetric"):
        result.gradient(np.ones((2, 3, 3)))
    heat = isobar.Heat(np.ones(8), boundary=0.0).solve(1.0, dt=0.1, end_time=0.1)
    with pytest.raises(TypeError, match="time steps"):
        heat.gradient(np.ones(8))


def test_what_did_not_converge_has_no_derivatives(rng):
    kappa = np.exp(2 * rng.standard_normal((8, 8, 8)))
    problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    solver = isobar.Solver(problem, max_iterations=2, tolerance=1e-12, device="cpu")
    with pytest.warns(isobar.NotConvergedWarning):
        result = solver.solve(problem.rhs(1.0))
    with pytest.raises(isobar.NotConvergedError, match="the solve was not converged: max iterations after 2"):
        result.gradient(kappa)
    gradient = result.gradient(kappa, failure="nan")
    assert np.isnan(gradient.b).all() and np.isnan(gradient.kappa).all() and gradient.adjoint is None
    # The solve is trivial, and the adjoint one is not.
    result = solver.solve(np.zeros(kappa.shape))
    assert result.converged
    with pytest.raises(isobar.NotConvergedError, match="the adjoint solve"):
        result.gradient(kappa)
    assert np.isnan(result.gradient(kappa, failure="nan").kappa).all()
    with pytest.raises(ValueError, match="failure"):
        result.gradient(kappa, failure="ignore")
    with pytest.raises(ValueError, match="xbar has shape"):
        result.gradient(kappa[1:])
    with pytest.raises(ValueError, match="NaN|nan"):
        result.gradient(np.full(kappa.shape, np.nan))
    closed = isobar.Diffusion(kappa)
    wrong = np.where(np.arange(kappa.size).reshape(kappa.shape) == 9, np.inf, 1.0)
    with pytest.raises(ValueError, match=r"xbar is inf at \(i, j, k\) = \(1, 1, 0\)"):
        isobar.Solver(closed).solve(np.zeros(kappa.shape)).gradient(wrong)


def test_solvers_that_are_gone_or_have_been_updated(rng):
    kappa, xbar = rng.uniform(1.0, 2.0, (2, 6, 7))
    problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    solver = isobar.Solver(problem, "cg", tolerance=1e-11, device="cpu", preconditioner={"kind": "line"})
    result = solver.solve(problem.rhs(1.0))
    expected = result.gradient(xbar).kappa
    solver.update(problem.replace(2 * kappa))
    np.testing.assert_allclose(result.gradient(xbar).kappa, expected, atol=1e-9 * abs(expected).max())
    alive = weakref.ref(solver)
    del solver
    # A result keeps no solver with its memory.
    assert alive() is None
    again = result.gradient(xbar)
    np.testing.assert_allclose(again.kappa, expected, atol=1e-9 * abs(expected).max())
    assert "line" in str(again.adjoint.report)


def test_types_and_trivial_values(rng):
    kappa = rng.uniform(1.0, 2.0, (6, 7)).astype(np.float32)
    problem = isobar.Diffusion(kappa, boundary=0.0)
    result = isobar.Solver(problem, tolerance=1e-6).solve(problem.rhs(1.0).astype(np.float32))
    gradient = result.gradient(np.ones((6, 7), np.float32))
    assert gradient.b.dtype == np.float32 and gradient.kappa.dtype == np.float64
    nothing = result.gradient(np.zeros((6, 7)))
    assert not nothing.b.any() and not nothing.kappa.any()
    # A solution in double precision has an adjoint in double precision.
    double = isobar.Solver(problem, tolerance=1e-12).solve(problem.rhs(1.0).astype(np.float64))
    assert double.gradient(np.ones((6, 7), np.float32)).b.dtype == np.float64
    with pytest.raises(ValueError, match=r"^xbar is NaN at"):
        double.gradient(np.full((6, 7), np.nan))
    # Lists are arrays too.
    assert result.gradient(np.ones((6, 7)).tolist()).b.shape == (6, 7)
    assert repr(gradient) == "<isobar.Gradient (6, 7): b, kappa, reaction, f, side, spacing, faces>"


def test_replaced_coefficients(rng):
    kappa, other = rng.uniform(1.0, 2.0, (2, 4, 5))
    arguments = dict(spacing=(0.5, 0.25), boundary={"west": 2.0}, active=rng.random((4, 5)) > 0.2, wells=[{"i": 2, "j": 2, "value": 1.0, "radius": 0.01}])
    arguments["active"][2, 2] = True
    problem = isobar.Diffusion(kappa, reaction=1.0, **arguments)
    replaced, made = problem.replace(other), isobar.Diffusion(other, reaction=1.0, **arguments)
    assert replaced.shape == made.shape and abs(replaced.to_scipy() - made.to_scipy()).max() == 0
    np.testing.assert_array_equal(replaced.rhs(3.0), made.rhs(3.0))
    more = isobar.Diffusion(other, reaction=2.0, **arguments).to_scipy()
    assert abs(problem.replace(other, 2.0).to_scipy() - more).max() == 0
    with pytest.raises(ValueError, match=r"kappa has shape \(5, 4\)"):
        problem.replace(other.T)
    with pytest.raises(ValueError, match="kappa"):
        problem.replace(-other)


@pytest.mark.parametrize("shape", [(5,), (8, 8), (4000, 2), (30, 1, 700), (40, 50, 60)])
def test_solutions_that_have_changed(rng, shape):
    problem = isobar.Diffusion(np.ones(shape), boundary=0.0)
    solver = isobar.Solver(problem, tolerance=1e-9, device="cpu")
    b, data = problem.rhs(1.0), np.full(shape, 0.03)
    result = solver.solve(b)
    assert result._origin[3].size <= 2000 and result._origin[3].size >= min(result.x.size, 500)
    gradient = result.gradient(result.x - data)
    misfit = result.x
    misfit -= data
    with pytest.raises(ValueError, match=r"x has changed since the solve, .*result.x - data"):
        result.gradient(misfit)
    # Derivatives are computed on demand.
    with pytest.raises(ValueError, match="x has changed since the solve"):
        gradient.kappa
    assert gradient.f.shape == shape
    out = np.empty(shape)
    first = solver.solve(b, out=out)
    second = solver.solve(2 * b, out=out)
    with pytest.raises(ValueError, match="`out` of another solve"):
        first.gradient(data)
    assert second.gradient(data).kappa.shape == shape


def test_what_derivatives_are_computed_from_is_read_only(rng):
    problem = isobar.Diffusion(rng.uniform(0.5, 2.0, (6, 7)), boundary={"x": 0.0})
    gradient = isobar.Solver(problem, tolerance=1e-10, device="cpu").solve(problem.rhs(1.0)).gradient(np.ones((6, 7)))
    for values in (gradient.b, gradient.kappa):
        with pytest.raises(ValueError, match="read-only"):
            values *= 2
    gradient.f[:] = 0
    assert gradient.f.any()


def test_no_coefficient_beside_a_film():
    # κ_z = 0 in an open cell: the film alone limits the flow through the side for the first bit of κ_z.
    one, kz = np.ones((2, 1, 1)), np.array([[[1.0]], [[0.0]]])

    def mean(kz):
        problem = isobar.Diffusion((one, one, kz), boundary={"west": 0.0, "top": {"robin": {"coefficient": 3.0, "value": 1.0}}})
        return isobar.Solver(problem, tolerance=1e-13, device="cpu").solve(problem.rhs(1.0))

    result = mean(kz)
    difference = (mean(kz + 1e-7 * (kz == 0)).x.sum() - result.x.sum()) / 1e-7
    assert result.gradient(np.ones((2, 1, 1))).kappa[2][1, 0, 0] == pytest.approx(difference, rel=1e-5)


def test_updates_by_other_threads(rng):
    kappa = rng.lognormal(size=(12, 12, 12))
    problem = isobar.Diffusion(kappa, boundary={"x": 0.0})
    other, solver, b = problem.replace(2 * kappa), isobar.Solver(problem, tolerance=1e-10, threads=1), problem.rhs(1.0)
    x, ends = solver.solve(b).x, threading.Event()

    def updates():
        while not ends.is_set():
            solver.update(other)
            solver.update(problem)

    thread = threading.Thread(target=updates)
    thread.start()
    try:
        for _ in range(30):
            result = solver.solve(b)
            try:
                found = result.gradient(b).b
            except ValueError as error:
                assert "another thread has updated the solver" in str(error)
                continue
            np.testing.assert_allclose(found, x if np.allclose(result.x, x) else x / 2, rtol=1e-6)
    finally:
        ends.set()
        thread.join()


def test_solutions_of_several_systems_that_have_changed(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary=0.0)
    several = isobar.Solver(problem, tolerance=1e-10).solve(rng.standard_normal((3, 6, 7)))
    several.x[1] = 0.0
    for n in (0, 2):
        assert several.results[n].gradient(np.ones((6, 7))).kappa.any()
    with pytest.raises(ValueError, match="x has changed"):
        several.results[1].gradient(np.ones((6, 7)))
