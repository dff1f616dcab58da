"""Examples in docstrings."""

import doctest
import importlib
import re
import types
from pathlib import Path

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


def test_default_tolerances_are_documented():
    problem = isobar.Diffusion(np.ones(8), boundary=0.0)
    default = isobar.Solver(problem).solve(problem.rhs(1.0)).tolerance
    assert default == isobar.Heat(np.ones(8)).solve(dt=1.0, end_time=1.0).tolerance == 1e-8
    assert "1e-8 by default" in isobar.Solver.__doc__ and "1e-8 by default" in (PAGES / "start/python.md").read_text()


CRATES = Path(__file__).parents[2]
PAGES = CRATES.parent / "docs/site"


def listed(page, language):
    """Returns the names in a page's lists, which the build of the site replaces by what the sources say of them."""
    text = (PAGES / page).read_text()
    return set(" ".join(re.findall(rf"^```{{{language}}}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).split())


def test_the_fortran_page_lists_all_public_names():
    text = (CRATES / "isobar-c/fortran/isobar.f90").read_text().split("\ncontains\n")[0]
    text = re.sub(r"&\s*", "", re.sub(r"!.*", "", text))
    public = set(re.findall(r"\bisobar_\w+", " ".join(re.findall(r"\bpublic ::(.*)", text))))
    assert len(public) > 20
    assert public == listed("reference/fortran.md", "fortran")


def test_the_rust_page_lists_all_public_names():
    text = (CRATES / "isobar/src/lib.rs").read_text().split("pub mod internals")[0]
    public = {"internals"}
    for used in re.findall(r"^pub use ([^;]+);", text, re.MULTILINE):
        names = re.findall(r"\w+", used.partition("{")[2]) or [used.split("::")[-1]]
        # The items of modules are written there as module::*.
        public |= {f"{name}::*" if used.startswith("isobar_core::{") else name for name in names}
    assert len(public) > 30
    assert not public - listed("reference/rust.md", "rust")


def test_the_c_page_has_the_whole_header():
    include = re.search(r"^```{literalinclude} (\S+)\n(.*?)^```$", (PAGES / "c-header.md").read_text(), re.MULTILINE | re.DOTALL)
    assert (PAGES / include[1]).samefile(CRATES / "isobar-c/include/isobar.h")
    assert include[2] == ":language: c\n"
