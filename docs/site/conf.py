"""How Sphinx builds the pages of isobar."""

import sys
from pathlib import Path

import isobar
from sphinx.addnodes import desc_addname

sys.path.insert(0, str(Path(__file__).parent / "reference"))
import fortran  # noqa: E402

project = "isobar"
author = "the developers of isobar"
release = version = isobar.__version__
html_title = f"isobar {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_made"]
nitpicky = False

autodoc_member_order = "bysource"
autodoc_mock_imports = ["jax", "torch"]
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = True
napoleon_google_docstring = False
default_role = "any"
suppress_warnings = ["ref.any"]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["isobar.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"


def sections(lines):
    """Headings for what follows a docstring's parameters, which Napoleon would take for more of these."""
    out, in_parameters = [], False
    for n, line in enumerate(lines):
        following = lines[n + 1] if n + 1 < len(lines) else ""
        if following.startswith("---"):
            in_parameters = line == "Parameters"
        elif in_parameters and line[:1].strip() and not following.startswith(" ") and not line.startswith("-"):
            heading = "Examples" if line.startswith(">>>") else "Notes"
            out += [heading, "-" * len(heading)]
            in_parameters = False
        out.append(line)
    return out


def setup(app):
    """Docstrings as Sphinx wants them, and the reference of Fortran. Bars in docstrings are norms and areas, not substitutions."""

    def prepare(app, what, name, obj, options, lines):
        lines[:] = sections([line.replace("|", "\\|") for line in lines])

    def shorten(app, doctree):
        # Classes that only results have are shown without their private module.
        for name in [node for node in doctree.findall(desc_addname) if "._" in node.astext()]:
            name.parent.remove(name)

    app.connect("source-read", fortran.fill)
    app.connect("doctree-read", shorten)
    app.connect("autodoc-process-docstring", prepare, priority=100)
