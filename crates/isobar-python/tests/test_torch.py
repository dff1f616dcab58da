"""Solves that PyTorch differentiates."""

import numpy as np
import pytest

import isobar

torch = pytest.importorskip("torch")


def tensor(values, **options):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True, **options)


def problems():
    rng = np.random.default_rng(2)
    shape = (3, 4)
    mask = np.ones(shape, bool)
    mask[1, 2] = False
    return {
        "1D": isobar.Diffusion(np.ones(5), boundary={"west": 2.0}),
        "2D": isobar.Diffusion(np.ones(shape), boundary={"west": 1.0, "south": {"neumann": 0.5}, "north": 0.0}),
        "masked": isobar.Diffusion(np.ones(shape), boundary={"x": 1.0}, active=mask),
        "stretched, periodic": isobar.Diffusion(np.ones(shape), ([1.0, 2.0, 1.5], 0.5), boundary={"x": "periodic", "south": 3.0}),
        "3D": isobar.Diffusion(rng.uniform(1.0, 2.0, (2, 3, 2)), boundary={"bottom": 1.0}),
        "Robin": isobar.Diffusion(np.ones(shape), boundary={"west": {"robin": {"coefficient": np.array([1.0, 0.0, 2.0]), "value": 2.0}}, "north": 1.0}),
        "points": isobar.Diffusion(
            np.ones((2, 3, 3)),
            ([1.0, 2.0], 0.5, [1.0, 2.0, 1.5]),
            sources=[{"i": 1, "j": 2, "rate": 3.0}],
            wells=[{"i": 0, "j": 1, "value": 2.0, "radius": 0.01}],
        ),
    }


@pytest.mark.parametrize("name", problems())
def test_gradients_are_those_of_differences(rng, name):
    problem = problems()[name]
    kappa, f, reaction = (tensor(rng.uniform(0.5, 2.0, problem.shape)) for _ in range(3))

    def solve(kappa, f, reaction):
        return isobar.torch.solve(problem, kappa, f, reaction, tolerance=1e-13, device="cpu")

    x = solve(kappa, f, reaction)
    expected = isobar.Solver(problem.replace(kappa.detach().numpy(), reaction.detach().numpy()), tolerance=1e-13, device="cpu")
    np.testing.assert_allclose(x.detach().numpy(), expected.solve(problem.replace(kappa.detach().numpy()).rhs(f.detach().numpy())).x, rtol=1e-9)
    assert torch.autograd.gradcheck(solve, (kappa, f, reaction), eps=1e-5, atol=1e-6, rtol=1e-5)
    assert torch.autograd.gradgradcheck(solve, (kappa, f, reaction), eps=1e-5, atol=1e-6, rtol=1e-5)


PLACES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU"))]


@pytest.mark.parametrize("place", PLACES)
def test_derivatives_of_what_has_a_free_constant(rng, place):
    problem = isobar.Diffusion(np.ones((3, 4)), boundary={"x": "periodic"})
    kappa, f = tensor(rng.uniform(0.5, 2.0, (3, 4)), device=place), tensor(rng.standard_normal((3, 4)), device=place)
    balanced = lambda kappa, f: isobar.torch.solve(problem, kappa, f - f.mean(), tolerance=1e-13, threads=1)
    assert torch.autograd.gradcheck(balanced, (kappa, f), eps=1e-5, atol=1e-6, rtol=1e-5)
    assert torch.autograd.gradgradcheck(balanced, (kappa, f), eps=1e-5, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("place", PLACES)
def test_right_hand_sides_are_in_double_precision(rng, place):
    # What flows in through the west leaves everywhere, which no right-hand side in single precision adds up to 0 for.
    problem = isobar.Diffusion(np.ones((5, 6, 7)), spacing=(0.3, 0.1, 0.7), boundary={"west": {"neumann": 4.9}})
    kappa = torch.tensor(rng.uniform(0.5, 2.0, problem.shape), dtype=torch.float32, device=place)
    x = isobar.torch.solve(problem, kappa, -1.0)
    assert x.dtype == torch.float32 and abs(float(x.mean())) < 1e-5


@pytest.mark.parametrize("place", PLACES)
def test_a_negative_reaction(rng, place):
    # The direct solver needs it on the host.
    problem = isobar.Diffusion(np.ones((4, 5, 6)), spacing=0.3)
    f = tensor(rng.standard_normal(problem.shape), device=place)
    found = isobar.torch.solve(problem, torch.ones_like(f), f, -0.7, tolerance=1e-12)
    expected = isobar.Diffusion(np.ones(f.shape), spacing=0.3, reaction=-0.7)
    expected = isobar.Solver(expected, tolerance=1e-12, device="cpu").solve(expected.rhs(f.detach().cpu().numpy())).x
    np.testing.assert_allclose(found.detach().cpu(), expected, atol=1e-9 * abs(expected).max())
    (by_f,) = torch.autograd.grad(found.square().sum(), f)
    assert by_f.isfinite().all()


@pytest.mark.parametrize("name", problems())
def test_both_ways_of_a_backward_pass_agree(rng, name):
    # Once on the host, and as a function that is differentiated again.
    problem = problems()[name]
    kappa, f, reaction = (tensor(rng.uniform(0.5, 2.0, problem.shape)) for _ in range(3))
    value = isobar.torch.solve(problem, kappa, f, reaction, tolerance=1e-13, device="cpu").square().sum()
    once = torch.autograd.grad(value, (kappa, f, reaction), retain_graph=True)
    again = torch.autograd.grad(value, (kappa, f, reaction), create_graph=True)
    for a, b in zip(once, again):
        np.testing.assert_allclose(a, b.detach(), atol=1e-10 * float(abs(a).max()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU")
@pytest.mark.parametrize("failure", ["raise", "nan"])
@pytest.mark.parametrize("name", problems())
def test_tensors_on_a_gpu(rng, name, failure):
    # Some are solved where they are, others pass through the host, as all do with device="cpu".
    problem = problems()[name]
    given = rng.uniform(0.5, 2.0, (3, *problem.shape))

    def value(scale, stream, **options):
        tensors = [tensor(values, device="cuda") for values in given]
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.default_stream())
            x = isobar.torch.solve(problem, scale * tensors[0], *tensors[1:], tolerance=1e-13, **options)
            value = x.square().sum()
            found = value, *torch.autograd.grad(value, tensors)
        torch.cuda.synchronize()
        return [each.detach().cpu().numpy() for each in found]

    expected = value(1.0, torch.cuda.default_stream(), device="cpu")
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        value(2.0, stream, failure=failure)
        for a, b in zip(value(1.0, stream, failure=failure), expected):
            np.testing.assert_allclose(a, b, atol=1e-9 * abs(b).max())
    stay = [call.native.stays_on_gpu for call in problem._calls.values()]
    assert stay == [False, failure == "raise"]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_compile_leaves_it_alone(rng):
    if not hasattr(torch, "compile"):
        pytest.skip("PyTorch before 2.0 compiles nothing")
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = tensor(rng.uniform(0.5, 2.0, (6, 7)))
    loss = lambda kappa: (2 * isobar.torch.solve(problem, kappa.exp(), 1.0, tolerance=1e-12, device="cpu")).square().sum()
    (expected,) = torch.autograd.grad(loss(kappa), kappa)
    (found,) = torch.autograd.grad(torch.compile(loss, backend="eager")(kappa), kappa)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_several_coefficients(rng):
    problem = isobar.Diffusion(np.ones((2, 3, 2)), boundary={"x": 1.0, "top": 0.0})
    fields = [tensor(rng.uniform(0.5, 2.0, problem.shape)) for _ in range(3)]
    for count in (2, 3):
        solve = lambda *kappa: isobar.torch.solve(problem, kappa, 1.0, tolerance=1e-13, device="cpu")
        assert torch.autograd.gradcheck(solve, fields[:count], eps=1e-5, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("place", PLACES)
def test_numbers_on_sides_and_widths(rng, place):
    sides = lambda film, value: {"west": {"robin": {"coefficient": film, "value": 2.0}}, "north": value, "bottom": {"neumann": 0.3}}
    shape = (2, 3, 4)
    problem = isobar.Diffusion(np.ones(shape), boundary=sides(1.0, 0.0))
    kappa, f = rng.uniform(0.5, 2.0, (2, *shape))
    given = rng.uniform(0.5, 2.0, (2, 3)), rng.uniform(0.5, 2.0, (2, 4)), 0.7, rng.uniform(0.5, 2.0, 4)
    solve = lambda kappa, film, value, height, widths: isobar.torch.solve(
        problem, kappa, torch.as_tensor(f, device=place), boundary=sides(film, value), spacing=(height, 0.5, widths), tolerance=1e-13, threads=1
    )
    tensors = [tensor(values, device=place) for values in (kappa, *given)]
    x = solve(*tensors)
    made = isobar.Diffusion(kappa, (given[2], 0.5, given[3]), sides(*given[:2]))
    result = isobar.Solver(made, tolerance=1e-13, device="cpu").solve(made.rhs(f))
    np.testing.assert_allclose(x.detach().cpu(), result.x, rtol=1e-9)
    w = rng.standard_normal(shape)
    gradient = result.gradient(w)
    by_height, _, by_widths = gradient.spacing(f)
    expected = gradient.kappa, gradient.side("west").coefficient, gradient.side("north").value, by_height.sum(), by_widths
    for a, b in zip(torch.autograd.grad((x * torch.as_tensor(w, device=place)).sum(), tensors), expected):
        np.testing.assert_allclose(a.cpu(), b, atol=1e-9)
    if place == "cpu":
        assert torch.autograd.gradcheck(solve, tensors, eps=1e-5, atol=1e-6, rtol=1e-5)
        assert torch.autograd.gradgradcheck(solve, tensors, eps=1e-5, atol=1e-6, rtol=1e-5)


def test_numbers_are_of_all_cells(rng):
    problem = isobar.Diffusion(np.ones((4, 5)), boundary=0.0)
    kappa, f = tensor(2.0), tensor(3.0)
    x = isobar.torch.solve(problem, kappa, f, tolerance=1e-12)
    x.sum().backward()
    # x is proportional to f/κ.
    assert float(f.grad) == pytest.approx(float(x.detach().sum()) / 3.0) and float(kappa.grad) == pytest.approx(-float(x.detach().sum()) / 2.0)


def test_one_graph_may_have_several_solves(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = tensor(rng.uniform(0.5, 2.0, problem.shape))
    both = lambda kappa: isobar.torch.solve(problem, 1.0 + isobar.torch.solve(problem, kappa, 1.0, tolerance=1e-12), 1.0, tolerance=1e-12)
    both(kappa).sum().backward()
    (call,) = problem._calls.values()
    assert call.native.counts[0] == 1
    step, direction = 1e-5, torch.tensor(rng.standard_normal(problem.shape))
    with torch.no_grad():
        high, low = (both(kappa + sign * step * direction).sum() for sign in (1, -1))
    assert float((high - low) / (2 * step)) == pytest.approx(float((kappa.grad * direction).sum()), rel=1e-6)


def test_solvers_are_kept(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    for kappa in rng.uniform(0.5, 2.0, (3, 6, 7)):
        isobar.torch.solve(problem, torch.tensor(kappa), 1.0)
        isobar.torch.solve(problem, torch.tensor(kappa), 2.0)
    (call,) = problem._calls.values()
    assert call.native.counts == [1, 2]
    isobar.torch.solve(problem, torch.tensor(kappa), 1.0, method="cg")
    assert len(problem._calls) == 2


def test_tolerance_of_derivatives(rng):
    problem = isobar.Diffusion(np.ones((14, 15, 16)), boundary={"x": 0.0})
    kappa, f = (torch.tensor(np.exp(rng.standard_normal(problem.shape)), requires_grad=True) for _ in range(2))
    gradients = {}
    for tolerance in (1e-12, 1e-3, None):
        x = isobar.torch.solve(problem, kappa, f, tolerance=1e-12, derivative_tolerance=tolerance, device="cpu", method="cg")
        (gradients[tolerance],) = torch.autograd.grad(x.square().sum(), kappa)
        # The next solve has its own tolerance again.
        again = isobar.torch.solve(problem, kappa, f, tolerance=1e-12, derivative_tolerance=tolerance, device="cpu", method="cg")
        assert (again == x).all()
    off = float((gradients[1e-3] - gradients[1e-12]).norm() / gradients[1e-12].norm())
    assert 1e-8 < off < 0.1
    assert (gradients[None] == gradients[1e-12]).all()
    with pytest.raises(ValueError, match="derivative_tolerance: 2"):
        isobar.torch.solve(problem, kappa, f, derivative_tolerance=2.0)


def test_types(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = torch.ones(6, 7, requires_grad=True)
    x = isobar.torch.solve(problem, kappa, 1.0)
    x.sum().backward()
    assert x.dtype == kappa.grad.dtype == torch.float32
    transposed = torch.tensor(rng.uniform(0.5, 2.0, (7, 6))).T
    assert not transposed.is_contiguous()
    np.testing.assert_array_equal(isobar.torch.solve(problem, transposed, 1.0), isobar.torch.solve(problem, transposed.contiguous(), 1.0))
    half = torch.ones(6, 7, dtype=torch.bfloat16, requires_grad=True)
    x = isobar.torch.solve(problem, half, 1.0)
    x.sum().backward()
    assert x.dtype == half.grad.dtype == torch.bfloat16
    np.testing.assert_allclose(x.detach().float(), isobar.torch.solve(problem, half.detach().float(), 1.0), rtol=1e-2)


def test_negated_views(rng):
    problem = isobar.Diffusion(np.ones((6, 8)), boundary={"x": 0.0})
    kappa = torch.ones(6, 8, dtype=torch.float64)
    f = torch.complex(torch.zeros(6, 8, dtype=torch.float64), -kappa).conj().imag
    assert f.is_neg() and f[0, 0] == 1
    assert torch.equal(isobar.torch.solve(problem, kappa, f), isobar.torch.solve(problem, kappa, f.clone()))
    np.testing.assert_array_equal(problem.rhs(f), problem.rhs(f.clone()))
    with pytest.raises(ValueError, match="negated lazily cannot be written"):
        isobar.Solver(problem, device="cpu").solve(f.clone(), out=f)
    with pytest.raises(TypeError, match="complex128; isobar solves real systems"):
        isobar.torch.solve(problem, kappa, kappa * 1j)


def test_coefficients_without_effect():
    problem = isobar.Diffusion((np.ones((1, 4, 5)),) * 3, boundary={"west": 1.0, "east": 0.0})
    kappa, value = tensor(np.ones((1, 4, 5))), tensor(1.0)
    square = lambda **how: isobar.torch.solve(problem, (kappa, kappa, kappa), 1.0, **how).square().sum()
    (plain,) = torch.autograd.grad(square(), kappa)
    (differentiable,) = torch.autograd.grad(square(), kappa, create_graph=True)
    torch.testing.assert_close(plain, differentiable)
    square(boundary={"west": value}).backward()
    assert value.grad > 0


def test_misuse(rng):
    problem = isobar.Diffusion(np.ones((6, 7)), boundary={"x": 0.0})
    kappa = tensor(rng.uniform(0.5, 2.0, (6, 7)))
    with pytest.raises(ValueError, match=r"kappa has shape \(7, 6\); the problem's is \(6, 7\)"):
        isobar.torch.solve(problem, kappa.T, 1.0)
    with pytest.raises(ValueError, match="kappa: a tuple of two means .*which needs 3-D arrays, not 2-D ones"):
        isobar.torch.solve(problem, (kappa, kappa), 1.0)
    with pytest.raises(ValueError, match="f has shape"):
        isobar.torch.solve(problem, kappa, torch.ones(7))
    with pytest.raises(TypeError, match="int64"):
        isobar.torch.solve(problem, torch.ones(6, 7, dtype=torch.int64))
    with pytest.raises(TypeError, match="isobar.Diffusion"):
        isobar.torch.solve(isobar.Helmholtz.panel(4, 4, 4), kappa)
    with pytest.raises(ValueError, match="kappa"):
        isobar.torch.solve(problem, -kappa)
    # It still works.
    assert torch.isfinite(isobar.torch.solve(problem, kappa, 1.0)).all()
    options = dict(method="cg", preconditioner={"kind": "none"}, max_iterations=2)
    with pytest.raises(isobar.NotConvergedError, match="the solve was not converged"):
        isobar.torch.solve(problem, kappa, 1.0, **options)
    x = isobar.torch.solve(problem, kappa, 1.0, failure="nan", **options)
    x.sum().backward()
    assert torch.isnan(x).all() and torch.isnan(kappa.grad).all()
    # Second derivatives through such a solve are missing too.
    kappa.grad = None
    (first,) = torch.autograd.grad(isobar.torch.solve(problem, kappa, 1.0, failure="nan", **options).sum(), kappa, create_graph=True)
    first.sum().backward()
    assert torch.isnan(kappa.grad).all()
