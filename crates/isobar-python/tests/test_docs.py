"""Examples in docstrings."""

import doctest
import importlib
import types
from pathlib import Path

import numpy as np
import pytest

import isobar

PAGES = Path(__file__).parents[3] / "docs/site"


@pytest.mark.parametrize("name", ["", "._adjoint", "._problems", "._pressure", "._solvers", "._results", "._gradient", "._devices", "._effective", "._time", "._arrays", "._options"])
def test_examples(name):
    module = importlib.import_module(f"isobar{name}")
    found = doctest.testmod(module, extraglobs={"isobar": isobar, "np": np})
    assert found.failed == 0


def test_everything_public_is_documented():
    for name in isobar.__all__:
        thing = getattr(isobar, name)
        assert name == "__version__" or thing.__doc__
        for member in vars(thing) if isinstance(thing, type) else ():
            if not member.startswith("_") and name not in ("Step",):
                attribute = getattr(thing, member)
                slot = isinstance(attribute, types.MemberDescriptorType) and thing.__slots__[member]
                assert slot or attribute.__doc__, f"{name}.{member}"


def test_default_tolerances_are_documented():
    problem = isobar.Diffusion(np.ones(8), boundary=0.0)
    default = isobar.Solver(problem).solve(problem.rhs(1.0)).tolerance
    assert default == isobar.Heat(np.ones(8)).solve(dt=1.0, end_time=1.0).tolerance == 1e-8
    assert "1e-8 by default" in isobar.Solver.__doc__ and "1e-8 by default" in (PAGES / "start/python.md").read_text()
