"""Fills the reference pages: lists of names become what the sources and rustdoc say of them.

    ```{fortran}
    isobar_problem isobar_side
    ```

A page that leaves out a public name, or has one that does not exist, is an error.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fortran import Module  # noqa: E402
from rust import Crate  # noqa: E402

LIST = re.compile(r"^```\{(fortran|rust)\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUSTDOC = Path(__file__).parents[1] / "_made/rustdoc/doc/isobar"


def names_on(text):
    """Returns the names that a page lists."""
    return [name for _, names in LIST.findall(text) for name in names.split()]


def filled(text, source, public):
    """Returns a page with the entries of its lists, which name each of `public`."""
    shown = []

    def entries(found):
        listed = source.listed(found[2].split())
        # A later `module::*` leaves out what an earlier list names.
        listed = [name for name in listed if name not in shown]
        shown.extend(listed)
        return "\n".join(line for name in listed for line in source.entry(name))

    explicit = [name for name in names_on(text) if "*" not in name]
    wholes = {name.removesuffix("::*") for name in names_on(text)}
    out = LIST.sub(entries, text)
    if missing := [name for name in public if name not in shown and name not in wholes]:
        raise LookupError(f"not on the reference page: {', '.join(missing)}")
    if len(set(explicit)) < len(explicit):
        raise LookupError("the reference page lists a name twice")
    return out


def fill(app, page, text):
    """Fills a page as Sphinx reads it."""
    if page == "reference/fortran":
        module = Module()
        if bare := module.undocumented():
            raise LookupError(f"{', '.join(bare)}: add a comment in isobar.f90")
        text[0] = filled(text[0], module, module.public)
    elif page == "reference/rust":
        crate = Crate(RUSTDOC)
        text[0] = filled(text[0], crate, crate.items)
