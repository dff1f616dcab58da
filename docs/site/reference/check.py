"""Checks the built site: every public name of C, Fortran and Python is on its reference page, with a text that Napoleon has not torn, and no link
within the site is broken.

    python check.py PAGES

Names are looked for in the sources in another way than that which makes the pages.
"""

import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import isobar

CRATES = Path(__file__).resolve().parents[3] / "crates"
LINK = re.compile(r'<(?:a|img|link)\b[^>]*?\b(?:href|src)="([^"]*)"')
ANCHOR = re.compile(r'\b(?:id|name)="([^"]*)"')


def names_in_c():
    return set(re.findall(r"\b(?:isobar|ISOBAR)_\w+", (CRATES / "isobar-c/include/isobar.h").read_text()))


def names_in_fortran():
    """Returns public names, and those of type-bound procedures as type.name."""
    text = re.sub(r"!.*", "", (CRATES / "isobar-c/fortran/isobar.f90").read_text().split("\ncontains\n")[0])
    text = re.sub(r"&\s*", "", text)
    names = set()
    for line in re.findall(r"\bpublic ::(.*)", text):
        names |= set(re.findall(r"\bisobar_\w+", line))
    for name, body in re.findall(r"\n  type :: (\w+)(.*?)end type", text, re.DOTALL):
        names |= {f"{name}.{bound}" for bound in re.findall(r"(?:procedure|generic) :: (\w+)", body)}
    return names


def names_in_python():
    """Returns public names, and those of members of public classes as class.name."""
    names = {name for name in isobar.__all__ if not name.startswith("_")}
    of_classes = {name: vars(getattr(isobar, name)) for name in names if isinstance(getattr(isobar, name), type)}
    members = {f"{name}.{member}" for name, found in of_classes.items() for member in found if not member.startswith("_")}
    return names | members | {"jax.solve", "torch.solve"}


class Pages:
    def __init__(self, folder):
        self.folder, self.read = folder, {}

    def text(self, path):
        if path not in self.read:
            self.read[path] = path.read_text()
        return self.read[path]

    def anchors(self, path):
        return {unescape(found) for found in ANCHOR.findall(self.text(path))}

    def broken(self):
        """Yields (page, link) for each link within the site without a target. Of rustdoc's pages, its files alone are looked for."""
        for page in sorted(self.folder.rglob("*.html")):
            of_rustdoc = self.folder / "rust" in page.parents
            for link in set(map(unescape, LINK.findall(self.text(page)))):
                # Addresses elsewhere, and those that a script completes.
                if re.match(r"[a-z]+:|//", link) or "${" in link:
                    continue
                place, _, anchor = link.partition("#")
                target = (page.parent / unquote(place.partition("?")[0])).resolve() if place else page
                is_missing = not target.is_file()
                if not is_missing and anchor and not of_rustdoc and target.suffix == ".html":
                    is_missing = unquote(anchor) not in self.anchors(target)
                if is_missing:
                    yield page.relative_to(self.folder), link

    def missing(self):
        """Yields (page, name) for each public name without a place."""

        def anchored(name):
            return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

        header = self.text(self.folder / "c-header.html")
        yield from (("c-header", name) for name in names_in_c() if not re.search(rf"\b{name}\b", header))
        page = self.folder / "reference/fortran.html"
        anchors, shown = self.anchors(page), unescape(re.sub(r"<[^>]*>", "", self.text(page)))
        for name in names_in_fortran():
            if anchored(f"fortran-{name}") not in anchors and not re.search(rf":: {name} = -?\d", shown):
                yield "reference/fortran", name
        page = self.text(self.folder / "python-api.html")
        yield from (("python-api", name) for name in names_in_python() if f'id="isobar.{name}"' not in page)

    def torn(self):
        """Yields the member before each field "Type", for which Napoleon takes what precedes a colon in the first line of a docstring."""
        page = self.text(self.folder / "python-api.html")
        yield from (ANCHOR.findall(page[: found.start()])[-1] for found in re.finditer(r"<dt[^>]*>Type<", page))


def main():
    pages = Pages(Path(sys.argv[1]))
    found = [len(names()) for names in (names_in_c, names_in_fortran, names_in_python)]
    faults = [f"{page}: {name} is missing" for page, name in sorted(pages.missing())]
    faults += [f"python-api: {name}: its docstring's first line has a colon" for name in pages.torn()]
    faults += [f"{page}: the link {link} is broken" for page, link in pages.broken()]
    print("\n".join(faults) or "reference: {} names of C, {} of Fortran, {} of Python; {} pages".format(*found, len(pages.read)))
    sys.exit(1 if faults or min(found) == 0 else 0)


if __name__ == "__main__":
    main()
