"""Mistakes raise the exceptions that Python users expect."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import isobar

SHAPE = (4, 6, 8)


@pytest.fixture(scope="module")
def solver():
    return isobar.Solver(isobar.Diffusion(np.ones(SHAPE), boundary={"x": 0.0}), device="cpu", threads=1)


@pytest.mark.parametrize(
    "b, kind, words",
    [
        (np.ones((3, 6, 8)), ValueError, r"b has shape \(3, 6, 8\); the problem's is \(4, 6, 8\)"),
        (np.ones((6, 8)), ValueError, "shape"),
        (np.ones((1, 1, *SHAPE)), ValueError, "dimensions"),
        (np.float64(1.0), ValueError, "dimensions|shape"),
        (1.0, ValueError, "dimensions|shape"),
        (np.ones(SHAPE, complex), TypeError, "complex"),
        (np.full(SHAPE, "one"), TypeError, "dtype"),
        (np.ma.masked_array(np.ones(SHAPE), np.zeros(SHAPE)), TypeError, "masked"),
        (np.full(SHAPE, None), TypeError, "dtype"),
        ("ones", TypeError, "not an array"),
        (None, TypeError, "b"),
        (np.where(np.arange(192).reshape(SHAPE) == 77, np.nan, 1.0), ValueError, r"NaN at \(i, j, k\) = \(5, 3, 1\)"),
        (np.full(SHAPE, np.inf), ValueError, "inf"),
    ],
)
def test_right_hand_sides(solver, b, kind, words):
    with pytest.raises(kind, match=words):
        solver.solve(b)
    # The solver is unchanged.
    assert solver.solve(np.ones(SHAPE)).converged


def test_out(solver):
    b = np.ones(SHAPE)
    for out, kind in [(np.ones((4, 6, 7)), ValueError), (np.ones(SHAPE, int), TypeError), ([1.0], TypeError)]:
        with pytest.raises(kind):
            solver.solve(b, out=out)
    with pytest.raises(ValueError, match="x0 has shape"):
        solver.solve(b, x0=np.ones(3))
    with pytest.raises(ValueError):
        solver.solve(b, x0=np.full(SHAPE, np.nan))
    with pytest.raises(TypeError, match="x0: str is not an array"):
        solver.solve(b, x0="zero")


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ({"kappa": -np.ones(SHAPE)}, ValueError, r"^kappa: -1 in cell .*negative"),
        ({"kappa": np.full(SHAPE, np.nan)}, ValueError, "NaN"),
        ({"kappa": np.zeros(SHAPE)}, ValueError, "^active: none of"),
        ({"kappa": np.ones((0, 4))}, ValueError, r"kappa has shape \(0, 4\); at least one cell"),
        ({"kappa": 1.0}, ValueError, "dimensions"),
        ({"kappa": (np.ones(SHAPE), np.ones((3, 6, 8)))}, ValueError, r"kappa has shape \(3, 6, 8\)"),
        ({"kappa": (np.ones((6, 7)), np.ones((6, 7)))}, ValueError, r"^kappa: a tuple of two means \(horizontal, vertical\), which needs 3-D arrays, not 2-D ones; use one array, or"),
        ({"kappa": (np.ones(4),) * 3}, ValueError, r"^kappa: a tuple of three means \(kx, ky, kz\), which needs 3-D arrays, not 1-D ones;"),
        ({"kappa": (np.ones((6, 7)),) * 4}, ValueError, r"^kappa: a tuple of 4; use one array, \(horizontal, vertical\) or \(kx, ky, kz\)"),
        ({"kappa": [np.ones((6, 7))] * 4}, TypeError, r"^kappa: a list of arrays; use a tuple .*, or numpy.stack\(kappa\)"),
        ({"boundary": {"left": 0.0}}, ValueError, "unknown side 'left'; use west"),
        ({"kappa": np.ones((4, 5)), "boundary": {"top": 0.0}}, ValueError, "does not exist in 2 dimensions; use west"),
        ({"boundary": {"west": "robin"}}, ValueError, "west = 'robin'"),
        ({"boundary": {"west": "periodic"}}, ValueError, "^boundary: one side .* is periodic"),
        ({"boundary": {"west": np.nan}}, ValueError, "NaN"),
        ({"boundary": {"west": True}}, ValueError, "west"),
        ({"boundary": {"west": {"robin": 1.0}}}, ValueError, "west = .*coefficient"),
        ({"boundary": {"west": {"robin": {"coefficient": -2.0, "value": 1.0}}}}, ValueError, "west: the coefficient is -2; use"),
        ({"boundary": {"west": {"robin": {"coefficient": np.inf, "value": 1.0}}}}, ValueError, "the coefficient is inf"),
        ({"boundary": {"west": np.ones((4, 8))}}, ValueError, r"west: an array of shape \(4, 8\), but .* shape \(4, 6\)"),
        ({"boundary": {"x": np.ones(6)}}, ValueError, r"west: an array of shape \(6,\)"),
        ({"boundary": {"all": np.ones((4, 6))}}, ValueError, r"south: an array of shape \(4, 6\)"),
        ({"boundary": {"west": {"neumann": "much"}}}, ValueError, "west: 'much' is neither a number"),
        ({"boundary": {"top": np.where(np.arange(48) == 19, np.nan, 0.0).reshape(6, 8)}}, ValueError, "top: the value is NaN on .*cell 3 in x and 2 in y"),
        ({"spacing": (1.0, 1.0)}, ValueError, "2 entries"),
        ({"spacing": (1.0,)}, ValueError, "^spacing has 1 entry; give"),
        ({"spacing": -1.0}, ValueError, r"^spacing \(x\): .*positive"),
        ({"spacing": "wide"}, TypeError, "width"),
        ({"spacing": "1"}, TypeError, "width"),
        ({"spacing": (1.0, 1.0, [1.0, 2.0])}, ValueError, r"widths of shape \(2,\) for 8 cells in x; the order is \(dz, dy, dx\)"),
        ({"active": np.zeros(SHAPE, bool)}, ValueError, "active"),
        ({"active": np.full(SHAPE, np.nan)}, ValueError, "^active: it holds NaN"),
        ({"active": np.array([[-1] * 8] + [[1] * 8] * (SHAPE[-2] - 1)) * np.ones(SHAPE, int)}, ValueError, "it holds negative numbers; use 0 for inactive"),
        ({"active": "a"}, TypeError, "^active: 'a'; use a number"),
        ({"reaction": np.ones(3)}, ValueError, "reaction has shape"),
        ({"reaction": "x"}, TypeError, "^reaction: 'x'; use a number"),
        ({"reaction": 1j}, TypeError, "^reaction: 1j; use a number"),
        ({"spacing": 1e-300}, ValueError, "^spacing: widths of 1e-300, 1e-300 and 1e-300 in x, y and z multiply coefficients by 0; use other units"),
        ({"kappa": np.ones((4, 5)), "spacing": 1e300}, ValueError, "^spacing: widths of 1e300, 1e300 and 1 in x, y and z multiply coefficients by inf"),
        ({"sources": 3}, TypeError, "^sources: 3; use a list of dictionaries with the keys i, j, k, rate"),
        ({"wells": "all"}, TypeError, "^wells: 'all'; use a list of dictionaries"),
        ({"reaction": np.nan}, ValueError, "NaN in cell"),
        ({"sources": [{"i": 1, "j": 2}]}, ValueError, "^sources: entry 0 is .*, without rate; its keys are i, j, k, rate"),
        ({"sources": [{"i": 1, "rate": 1.0}]}, ValueError, "^sources: entry 0 is .*, without j;"),
        ({"kappa": np.ones((4, 5)), "wells": [{"i": 1, "value": 0.0, "radius": 1e-3}]}, ValueError, "^wells: entry 0 is .*, without j;"),
        ({"sources": {"i": 1, "rate": 1.0}}, ValueError, "^sources: entry 0 is 'i'; use a list of dictionaries"),
        ({"wells": [{"i": 1, "j": 2}]}, ValueError, "^wells: entry 0 is .*, without value and radius;"),
        ({"wells": [{"i": 1, "j": 2, "value": 1.0, "radius": 1e-3, "rate": 3.0}]}, ValueError, "^wells: entry 0 has the unknown key 'rate'"),
        ({"wells": [{"i": 1, "j": 0, "value": 1.0, "radius": 10.0}]}, ValueError, "^wells: entry 0 at .* has the radius 10"),
        ({"sources": [{"i": 100, "j": 0, "rate": 1.0}]}, ValueError, "^sources: entry 0 .*outside the grid"),
        ({"sources": [{"i": -1, "j": 0, "rate": 1.0}]}, ValueError, "entry 0 is .*counted from 0"),
        ({"sources": [{"i": 1, "j": 0, "k": [5, 2], "rate": 1.0}]}, ValueError, r"entry 0 has the layers k = \(5, 2\), which are reversed"),
        ({"sources": [{"i": 1, "j": 0, "k": [0, 2, 4], "rate": 1.0}]}, TypeError, r"^sources: entry 0: k = \[0, 2, 4\]; use a layer, or \[first, last\]"),
        ({"wells": [{"i": 1, "j": 0, "k": [2], "value": 0.0, "radius": 1e-3}]}, TypeError, r"^wells: entry 0: k = \[2\]; use a layer"),
        ({"sources": [{"i": 1, "j": 0, "k": [], "rate": 1.0}]}, TypeError, r"^sources: entry 0: k = \[\]; use a layer"),
        ({"sources": [{"i": 1.5, "j": 0, "rate": 1.0}]}, TypeError, "entry 0: .*integer"),
        ({"wells": [{"i": 1, "j": 0, "value": "a", "radius": 1e-3}]}, TypeError, "entry 0: .*float"),
    ],
)
def test_problems(arguments, kind, words):
    with pytest.raises(kind, match=words):
        isobar.Solver(isobar.Diffusion(**{"kappa": np.ones(SHAPE), **arguments}))


def test_directions_of_kappa():
    flat = np.ones((6, 7))
    for make in (isobar.Diffusion, isobar.Heat, isobar.Diffusion(flat).replace):
        with pytest.raises(ValueError, match="kappa: a tuple of two means .*, not 2-D ones"):
            make((flat, 100 * flat))
        with pytest.raises(TypeError, match="kappa: a list of arrays"):
            make([flat, flat])
    # κ in x and y, as the message says.
    layer = isobar.Diffusion((flat[None], 100 * flat[None], flat[None]), spacing=1.0, boundary={"x": 0.0})
    assert layer.to_scipy()[0, 7] == -100 and layer.to_scipy()[0, 1] == -1
    # Nested sequences of numbers are one array.
    assert isobar.Diffusion([[1.0, 2.0]] * 4).shape == (4, 2) and isobar.Diffusion((1.0, 2.0)).shape == (2,)
    assert isobar.Diffusion((flat,)).shape == (6, 7)


@pytest.mark.parametrize(
    "options, kind, words",
    [
        ({"tolerence": 1.0}, ValueError, r'^unknown option "tolerence"; did you mean "tolerance"\? options: method, tolerance'),
        ({"multigrid": {"smother": 1}}, ValueError, r'^unknown option "smother" in multigrid; did you mean "smoother"\? keys of multigrid: '),
        ({"multigrid": 3}, ValueError, "^multigrid must be a dictionary, not the whole number 3"),
        ({"tolerance": 0.0}, ValueError, "^tolerance: 0 is not between"),
        ({"tolerance": "small"}, ValueError, "must be a number"),
        ({"tolerance": np.nan}, ValueError, "^tolerance: nan; use a finite number"),
        ({"multigrid": {"relaxation": np.inf}}, ValueError, "^multigrid.relaxation: inf; use a finite number"),
        ({"jacobi": {"tile": [4, np.inf]}}, ValueError, r"^jacobi.tile: \[4, inf\]; use a finite number"),
        ({"method": "multgrid"}, ValueError, 'did you mean "multigrid"'),
        ({"multigrid": {"precision": "f16"}}, ValueError, '^multigrid.precision = "f16" is not a known choice; available: auto, f32, f64$'),
        ({"method": "modes"}, ValueError, '^method: "modes" is not .* use "auto" or "multigrid"'),
        ({"preconditioner": {"kind": "magic"}}, ValueError, "magic"),
        ({"preconditioner": object()}, TypeError, "options"),
        ({"device": "gpu"}, ValueError, "use auto, cpu, cuda"),
        ({"device": 0}, TypeError, "device"),
        ({"device": "cuda:1000"}, RuntimeError, "cuda"),
        ({"threads": 0}, ValueError, "threads"),
        ({"threads": 10**6}, ValueError, "threads"),
        ({"threads": "two"}, ValueError, "threads: 'two'; use a whole number"),
    ],
)
def test_options(options, kind, words):
    with pytest.raises(kind, match=words):
        isobar.Solver(isobar.Diffusion(np.ones(SHAPE), boundary={"x": 0.0}), **options)


def test_notes_speak_of_arguments():
    problem = isobar.Diffusion(np.ones(SHAPE), boundary={"x": 0.0})
    notes = isobar.Solver(problem, precision="f32", device="cpu").notes
    assert "precision is for iterations; without it this would be solved directly" in notes
    direct = isobar.Solver(problem, "direct", precision="f32", device="cpu").notes
    assert 'the precision "f32" is not used by the method "direct", which computes in double precision' in direct
    for method, note in (("cg", 'deflation is not used by the method "cg"; use "deflated-cg" with it'), ("deflated-cg", None)):
        notes = isobar.Solver(problem, method, deflation={"stripes": "half-rows"}, device="cpu").notes
        assert [each for each in notes if "deflation" in each] == ([] if note is None else [note])


def test_problems_that_are_none():
    for kind in (isobar.Problem, isobar.Helmholtz):
        with pytest.raises(TypeError, match="is made by"):
            kind("text")
    with pytest.raises(TypeError):
        isobar.Diffusion(np.ones(4)).rhs("one")
    with pytest.raises(TypeError, match="ndarray is not a linear system; use Diffusion, Faces, Helmholtz, TensorProduct or Case"):
        isobar.Solver(np.ones(SHAPE))
    with pytest.raises(TypeError, match="steps()"):
        isobar.Solver(isobar.Heat(np.ones(SHAPE)))


def test_cases(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        isobar.solve(tmp_path / "none.toml")
    path = tmp_path / "heat.toml"
    path.write_text("problem.kind = 'heat'\nheat = {dt = 0.1, end_time = 0.1}\ngrid = {nx = 4, ny = 4, nz = 4}\n")
    with pytest.raises(ValueError, match=r"is a sequence of time steps, not one linear system; use isobar.solve\('.*heat.toml'\)$"):
        isobar.Case(path)
    assert len(isobar.solve(path).steps) == 1
    with pytest.raises(TypeError, match=r"case: Diffusion; use the path of a case file, or Solver\(problem\)"):
        isobar.solve(isobar.Diffusion(np.ones(4)))
    path = tmp_path / "case.toml"
    path.write_text("[problem]\nkind = 'poisson'\n")
    with pytest.raises(ValueError, match=r'did you mean "nx"'):
        isobar.solve(path, grid={"nxx": 3})
    with pytest.raises(TypeError, match="object is not a value of a case"):
        isobar.solve(path, grid={"nx": object()})


def test_sources_that_no_solution_gives():
    problem = isobar.Diffusion(np.ones(SHAPE))
    solver = isobar.Solver(problem)
    with pytest.raises(ValueError, match="balance|mean|sum"):
        solver.solve(np.ones(SHAPE))
    assert isobar.Solver(problem, compatibility="project").solve(np.ones(SHAPE)).converged


def test_rounding_of_sources_in_closed_pockets_is_none():
    # The last cell is closed off; its sources are rounding of the others.
    problem = isobar.Diffusion(np.array([1.0, 1.0, 1.0, 0.0, 1.0]), spacing=1.0, boundary={"west": 0.0, "east": {"neumann": 0.3}})
    solver = isobar.Solver(problem, tolerance=1e-10)
    assert solver.solve(problem.rhs(np.array([1.0, 1.0, 1.0, 1.0, -(0.1 + 0.2)]))).converged
    with pytest.raises(ValueError, match="it has no solution"):
        solver.solve(problem.rhs(np.array([1.0, 1.0, 1.0, 1.0, -0.3001])))


def test_masks_and_complex_numbers_are_refused():
    masked = np.ma.masked_greater(np.array([[1.0, 1.0, 1e6, 1.0]]), 100)
    labels = np.ma.masked_array(np.ones((3, 3), np.uint8), mask=np.eye(3))
    for take in (
        lambda: isobar.effective(labels, {1: 1.0}),
        lambda: isobar.Diffusion(labels, coefficients={1: 1.0}),
        lambda: isobar.Heat(masked),
        lambda: isobar.TensorProduct(masked[0], *np.zeros((3, 4)), np.ones((2, 2)), np.ones((2, 3)), np.ones((3, 2))),
        lambda: isobar.Heat(np.ones((1, 4)), reaction=masked),
        lambda: isobar.Diffusion(np.ones((1, 4)), spacing=(1.0, masked[0])),
    ):
        with pytest.raises(TypeError, match="a masked array"):
            take()
    for kappa in (np.ones((3, 4)) * 1j, np.full((3, 4), "1")):
        with pytest.raises(TypeError, match="dtype"):
            isobar.Heat(kappa)


def test_active_cells_without_conductances():
    conductances, shift = np.array([1.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 0.0, 1.0])
    alone = isobar.Solver(isobar.Faces(conductances, shift=shift, active=np.ones(5, bool)), tolerance=1e-10)
    with pytest.raises(ValueError, match=r"it has no solution: the active cell \(i, j, k\) = \(2, 0, 0\) has no conductance and no shift"):
        alone.solve(np.ones(5))
    np.testing.assert_allclose(alone.solve(np.array([1.0, 1, 0, 1, 1])).x, [2, 3, 0, 3, 2], rtol=1e-9)
    for active, kept in ((np.ones(5, bool), 1.0), (None, 0.0)):
        assert isobar.Faces(conductances, shift=shift, active=active).rhs(1.0)[2] == kept


def test_updates():
    problem = isobar.Diffusion(np.ones((6, 8)), boundary={"x": 0.0})
    solver = isobar.Solver(problem)
    with pytest.raises(TypeError, match=r"problem: ndarray is not a linear system; .*problem.replace\(kappa\)"):
        solver.update(np.ones((6, 8)))
    with pytest.raises(ValueError, match=r"problem has shape \(7, 8\), and the solver's is \(6, 8\); make a new solver"):
        solver.update(isobar.Diffusion(np.ones((7, 8)), boundary={"x": 0.0}))
    with pytest.raises(ValueError, match="^the new operator: it has conductances of faces, and the solver coefficients of cells; make a new solver"):
        solver.update(isobar.Faces(np.ones((6, 7)), np.ones((5, 8)), shift=np.ones((6, 8))))
    assert solver.solve(problem.rhs(1.0)).converged


def test_not_converging_warns(solver):
    problem = isobar.Diffusion(np.ones(SHAPE), boundary={"x": 0.0})
    weak = isobar.Solver(problem, "cg", tolerance=1e-12, max_iterations=2, preconditioner={"kind": "none"})
    with pytest.warns(isobar.NotConvergedWarning, match="max iterations after 2 iterations") as caught:
        result = weak.solve(np.random.default_rng(1).standard_normal(SHAPE))
    assert caught[0].filename == __file__
    assert not result.converged and result.stop == "max_iterations" and "NOT converged" in repr(result)
    # Options are arguments, not keys of a case.
    assert "raise max_iterations" in result.advice and "solver." not in result.advice
    with pytest.warns(isobar.NotConvergedWarning, match="interrupted after 1 iteration, "):
        weak.solve(np.ones(SHAPE), progress=lambda iteration, residual: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver.solve(np.ones(SHAPE))


def test_pickling_says_no(solver):
    problem = isobar.Diffusion(np.ones(SHAPE))
    for thing in [solver, problem, isobar.Heat(np.ones(SHAPE))]:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)
    result, several = solver.solve(np.ones(SHAPE)), solver.solve(np.ones((2, *SHAPE)))
    heat = isobar.Heat(np.ones(SHAPE)).solve(dt=1.0, end_time=1.0)
    for thing in (result, several, heat):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="isobar.Results? cannot be pickled or copied: .*; keep .*x,? and .*report"):
                copied(thing)
    # What the message says to keep.
    for kept in (result, heat, *several.results):
        x, report = pickle.loads(pickle.dumps((kept.x, kept.report)))
        assert (x == kept.x).all() and report == kept.report


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((0, 4, 4), "^nx: 0 cells; use 1 or more$"),
        ((4, 4, 4, {"courant": -1.0}), "^courant: -1 is out of range; use 0 to 1e12$"),
        ((4, 4, 4, {"omega": np.nan}), "^omega = nan is not a finite number"),
        ((4, 4, 4, {"lam": 1e300}), "^lam"),
        ((4, 4, 4, {"geometry": "sphere"}), "^geometry = \"sphere\" is not a known choice"),
    ],
)
def test_helmholtz(arguments, words):
    *cells, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(ValueError, match=words) as raised:
        isobar.Helmholtz.panel(*cells, **options)
    assert "arrays" not in str(raised.value) and "|" not in str(raised.value)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({}, "no conductances"),
        ({"tx": np.ones((4, 5)), "ty": np.ones((4, 6))}, r"ty has shape \(4, 6\); tx implies a grid of \(4, 6\) cells, so ty must have shape \(3, 6\)"),
        ({"tx": np.ones(5), "tz": np.ones((1, 1, 6))}, "tx has 1 dimension, but tz is given"),
        ({"tx": np.where(np.arange(20) == 7, -1.5, 1.0).reshape(4, 5)}, r"x: -1.5 between the cells .* = \(2, 1, 0\) and \(3, 1, 0\)"),
        ({"ty": np.full((3, 6), np.nan)}, r"y: NaN between the cells .* = \(0, 0, 0\) and \(0, 1, 0\)"),
        ({"tx": np.ones((4, 5)), "shift": np.ones((4, 5))}, "shift has shape"),
        ({"tx": np.ones((4, 5)), "shift": np.inf}, "^shift: inf in cell"),
        ({"tx": np.ones((4, 5)), "active": np.zeros((4, 6), bool)}, "^active: none of the 24 cells is active"),
        ({"tx": np.zeros((4, 5)), "active": np.ones((4, 6), bool)}, "^conductances: none of the active cells has one"),
        (
            {"tx": np.where(np.arange(20) == 7, np.nan, 1.0).reshape(4, 5), "active": np.arange(24).reshape(4, 6) != 8},
            "x: NaN between .*; the mask closes this face, but it needs a number: set 0 beside",
        ),
        ({"tx": np.ones((0, 5))}, "one cell or more"),
        ({"tx": np.ones((2, 2, 2, 2))}, "4 dimensions"),
        ({"tx": np.ones((4, 5)), "ty": np.ones((4, 6)), "periodic": "x"}, r"ty has shape \(4, 6\); tx implies a grid of \(4, 5\) cells \(tx has a face for each cell in x, which is periodic\), so ty must have shape \(3, 5\)"),
        ({"tx": np.where(np.arange(20) == 9, -2.0, 1.0).reshape(4, 5), "periodic": "x"}, r"-2 between the cells .* = \(4, 1, 0\) and \(0, 1, 0\)"),
        ({"tx": np.ones((4, 5)), "periodic": "z"}, "periodic: 'z', but tx has 2 dimensions"),
        ({"tx": np.ones((4, 5)), "periodic": ["west"]}, "periodic: 'west'; use"),
    ],
)
def test_faces(arguments, words):
    with pytest.raises(ValueError, match=words):
        isobar.Faces(**arguments)
