"""Examples in docstrings."""

import doctest
import importlib
import types

import numpy as np
import pytest

import isobar


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
