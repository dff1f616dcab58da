"""The public items of the crate isobar, read from the pages that rustdoc has made of it."""

import re
from html.parser import HTMLParser
from pathlib import Path

KINDS = ("struct", "enum", "trait", "fn", "type", "constant", "mod")
VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}


class Node:
    """An element of a page, with its attributes and children; texts are children that are strings."""

    def __init__(self, tag, attributes=()):
        self.tag, self.attributes, self.children = tag, dict(attributes), []

    def has(self, class_):
        return class_ in (self.attributes.get("class") or "").split()

    def walk(self):
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def find(self, tag, class_=None):
        return next((node for node in self.walk() if node.tag == tag and (class_ is None or node.has(class_))), None)

    def text(self, mark=""):
        """Returns the text, without summaries of what is folded and signs of remarks; `mark` surrounds code."""
        parts = []
        for child in self.children:
            if isinstance(child, str):
                parts.append(child)
            elif child.tag not in ("summary", "button") and not child.has("tooltip"):
                inner = child.text(mark)
                parts.append(f"{mark}{inner}{mark}" if child.tag == "code" else inner)
                parts.append("\n" if child.has("code-attribute") else "")
        return "".join(parts)


class Tree(HTMLParser):
    """Builds the tree of a page."""

    def __init__(self, text):
        super().__init__()
        self.open = [Node("page")]
        self.feed(text)
        self.root = self.open[0]

    def handle_starttag(self, tag, attributes):
        node = Node(tag, attributes)
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        if any(node.tag == tag for node in self.open[1:]):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data):
        self.open[-1].children.append(data)


def sentence(docs, mark="`"):
    """Returns the first sentence of a documentation block; it may go on in a formula of the next paragraph."""
    text = ""
    for block in (node for node in docs.walk() if node.tag == "p") if docs else ():
        text = f"{text} {' '.join(block.text(mark).split())}".strip()
        first, *more = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text)
        if more or text.endswith((".", "!", "?", "`")):
            return first
    return text.removesuffix(":")


class Item:
    """A public item: its first sentence, declaration, and inherent methods."""

    def __init__(self, path, kind, file):
        self.path, self.kind, self.file = path, kind, file
        main = next(node for node in Tree(file.read_text()).root.walk() if node.attributes.get("id") == "main-content")
        top = main.find("details", "top-doc")
        self.summary = sentence(top and top.find("div", "docblock"))
        declared = main.find("pre", "item-decl")
        self.declared = declared.text().strip() if declared else ""
        self.about, self.methods = {}, {}
        self._members(main)

    def _members(self, main):
        """Reads the first sentences of fields, variants and methods, by their anchors, and the signatures of methods."""
        last = owner = None
        wanted = re.compile(r"(structfield|variant|tymethod|method)\.")
        for node in main.walk():
            anchor = node.attributes.get("id", "")
            if anchor in ("trait-implementations", "foreign-impls", "implementors", "aliased-type",
                          "synthetic-implementations", "blanket-implementations"):
                return
            if node.tag == "section" and node.has("impl"):
                owner, last = node.find("h3", "code-header").text(), None
            elif wanted.match(anchor) and node.tag in ("section", "span"):
                last = anchor
                if owner and node.has("method"):
                    self.methods.setdefault(owner, []).append((anchor, node.find("h4", "code-header").text().rstrip(",")))
            elif node.tag == "div" and node.has("docblock") and last:
                self.about[last] = sentence(node)
                last = None

    def code(self):
        """Returns the declaration with the first sentence of each member above it, then the methods."""
        lines, variant = [], None
        for line in self.declared.splitlines():
            found = re.match(r"( {4}| {8})(?:pub )?(?:(?:unsafe |const )*fn )?(\w+)", line)
            if found:
                indent, name = found.groups()
                if len(indent) == 4:
                    members = {"struct": ("structfield",), "enum": ("variant",)}.get(self.kind, ("tymethod", "method"))
                    variant, keys = name, [f"{of}.{name}" for of in members]
                else:
                    keys = [f"variant.{variant}.field.{name}"]
                lines += [f"{indent}/// {self.about[key]}" for key in keys if self.about.get(key)]
            lines.append(line)
        for owner, methods in self.methods.items():
            lines += ["", f"{owner} {{"]
            for anchor, signed in sorted(methods, key=lambda method: "unsafe fn" in method[1]):
                lines += [f"    /// {self.about[anchor]}"] if self.about.get(anchor) else []
                lines += [f"    {line}" for line in f"{signed};".splitlines()]
            lines.append("}")
        # rustdoc breaks lines at `where` by its style sheet.
        text = re.sub(r"^( *)(.*\S)where$", r"\1\2\n\1where", "\n".join(lines), flags=re.MULTILINE)
        return re.sub(r"^( +\w.*,) ?\{$", r"\1\n{", text, flags=re.MULTILINE).splitlines()


class Crate:
    """The crate's items by path: `Solver`, `problem::Boundary`, `problem::materials::noise`."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.items = {}
        self._module("", self.folder)

    def _module(self, path, folder):
        listed = Tree((folder / "index.html").read_text()).root
        before = set(self.items)
        for link in (node.find("a") for node in listed.walk() if node.tag == "dt"):
            kind = link and next((kind for kind in KINDS if link.has(kind)), None)
            if kind is None:
                continue
            name, file = link.text(), folder / link.attributes["href"]
            # What is at the top of the crate is listed there.
            if path and name in self.items and file.is_file() and kind != "mod":
                continue
            self.items[f"{path}{name}"] = (kind, file)
        for name, (kind, file) in [item for item in self.items.items() if item[0] not in before]:
            # Other modules within modules have the parts of what is listed; internals are for builders of solvers.
            if kind == "mod" and (name.endswith(("::materials", "::matrix_market")) or not path and name != "internals"):
                self._module(f"{name}::", file.parent)

    def listed(self, names):
        """Returns the items of a list, in which `module::*` stands for those of a module."""
        out = []
        for name in names:
            if name.endswith("::*"):
                module = name.removesuffix("*")
                found = [item for item in self.items if item.startswith(module) and "::" not in item.removeprefix(module)]
                found.sort(key=lambda item: self.items[item][0] == "mod")
            else:
                found = [name] if name in self.items else []
            if not found:
                raise LookupError(f"the crate isobar has no {name}")
            out += found
        return out

    def entry(self, path):
        """Returns the Markdown of an item."""
        kind, file = self.items[path]
        item = Item(path, kind, file)
        link = f'<a href="../rust/isobar/{file.relative_to(self.folder).as_posix()}">rustdoc</a>'
        if kind == "mod":
            return [f"`{path}`", f": {escaped(item.summary)} ({link})", ""]
        # Names such as Bubbles and bubbles differ in case only, which anchors do not.
        lines = [f"(rust-{path.replace('::', '.')}-{kind})=", f"### {path}", "", f"{escaped(item.summary)} ({link})", ""]
        return lines + ["```rust", *item.code(), "```", ""]


def escaped(text):
    """Escapes what Markdown would read as markup, except code."""
    return "`".join(part if n % 2 else re.sub(r"([\\*_<\[\]$|])", r"\\\1", part) for n, part in enumerate(text.split("`")))
