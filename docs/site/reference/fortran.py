"""Fills the reference page of Fortran: its lists of names become what the module's source declares and describes.

    ```{fortran}
    isobar_problem isobar_side
    ```

A page that leaves out a public name, or has one that does not exist, is an error.
"""

import re
import textwrap
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "crates/isobar-c/fortran/isobar.f90"

PROCEDURE = re.compile(r"(?:pure |impure |elemental |recursive )*(subroutine|function) (\w+)\((.*?)\)(?: result\((\w+)\))?$")
DECLARATION = re.compile(r"(.+?) :: (.+)$")
LIST = re.compile(r"^```\{fortran\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def statements(text):
    """Yields (comments, statement) for each statement: the lines of `!>` before it, and it with its continuation lines joined.

    A continued statement with comments in it, such as a list of constants, is given piece by piece.
    """
    comments, parts, head = [], [], None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("!>"):
            if parts and parts[-1].endswith("::"):
                head, parts = " ".join(parts), []
            comments.append(line[2:].strip())
        elif line.startswith("!") or not line:
            if not parts:
                comments = []
        else:
            parts.append(line.removeprefix("&").removesuffix("&").strip())
            piece = head is not None and parts[-1].endswith(",")
            if piece or not line.endswith("&"):
                statement = " ".join(parts).rstrip(",")
                yield comments, f"{head} {statement}" if head else statement
                comments, parts = [], []
                head = head if line.endswith("&") else None


def split(text):
    """Splits a list at its commas, except those in parentheses or brackets."""
    return [part.strip() for part in re.split(r",(?![^(\[]*[)\]])", text) if part.strip()]


def name_of(entity):
    return re.match(r"\w+", entity)[0]


class Module:
    """What a module's source declares: `public` names, `types`, `constants` and `procedures`, each with its comments."""

    def __init__(self, text=None):
        text = SOURCE.read_text() if text is None else text
        head, _, body = text.partition("\ncontains\n")
        self.intro = [line[2:].strip() for line in text.split("\nmodule ")[0].splitlines() if line.startswith("!>")]
        self.public, self.types, self.constants, self.procedures = [], {}, {}, {}
        self._declarations(head)
        self._procedures(body)

    def _declarations(self, text):
        inside, foreign = None, False
        for comments, statement in statements(text):
            if re.match(r"(end )?interface\b", statement):
                foreign = statement == "interface"
            elif foreign:
                continue
            elif found := re.match(r"type(, [^:]+)? :: (\w+)$", statement):
                inside = {"comments": comments, "components": [], "bindings": {}, "private": False, "bound": False}
                self.types[found[2]] = inside
            elif statement.startswith("end type"):
                inside = None
            elif inside is not None:
                self._member(inside, comments, statement)
            elif found := re.match(r"public :: (.+)", statement):
                self.public += split(found[1])
            elif found := re.match(r"(.+), parameter, public :: (.+)", statement):
                for entity in split(found[2]):
                    self.public.append(name_of(entity))
                    self.constants[name_of(entity)] = (comments, f"{found[1]}, parameter :: {entity}")

    def _member(self, inside, comments, statement):
        if statement == "private":
            inside["private"] = True
        elif statement == "contains":
            inside["bound"] = True
        elif not inside["bound"]:
            inside["components"].append((comments, statement))
        elif found := re.match(r"(?:procedure|generic) :: (\w+)(?: => (.+))?", statement):
            binding = inside["bindings"].setdefault(found[1], ([], []))
            binding[0].append(comments)
            binding[1].extend(split(found[2] or found[1]))

    def _procedures(self, text):
        current = None
        for comments, statement in statements(text):
            if found := PROCEDURE.match(statement):
                kind, name, arguments, result = found.groups()
                if current is None:
                    dummies = split(arguments)
                    current = {"kind": kind, "arguments": dummies, "result": result, "comments": comments, "declared": []}
                    current["wanted"] = {*dummies, result} - {None}
                    self.procedures[name] = current
                    depth = 0
                else:
                    depth += 1
            elif re.match(r"end (subroutine|function)\b", statement):
                if depth == 0:
                    current = None
                else:
                    depth -= 1
            elif current is not None and depth == 0 and (found := DECLARATION.match(statement)):
                entities = [entity for entity in split(found[2]) if name_of(entity) in current["wanted"]]
                current["wanted"] -= set(map(name_of, entities))
                if entities:
                    current["declared"].append((found[1], entities))

    def undocumented(self):
        """Returns the public entities, components and type-bound procedures without a comment."""
        out = []
        for name in self.public:
            if name in self.types:
                of = self.types[name]
                out += [] if of["comments"] else [name]
                if not of["private"]:
                    out += [f"{name}%{statement}" for comments, statement in of["components"] if not comments]
                for bound, (groups, _) in of["bindings"].items():
                    out += [] if all(groups) else [f"{name}%{bound}"]
            else:
                comments = self.constants[name][0] if name in self.constants else self.procedures[name]["comments"]
                out += [] if comments else [name]
        return out

    def entry(self, name):
        """Returns the Markdown of a public entity."""
        if name in self.constants:
            comments, declaration = self.constants[name]
            return [f"`{declaration}`", f": {' '.join(comments)}", ""]
        lines = [f"(fortran-{name})=", f"### {name}", ""]
        if name in self.types:
            return lines + self._type(name)
        return lines + self._procedure(name, [name], [])

    def _type(self, name):
        of = self.types[name]
        lines = [prose(of["comments"]), ""]
        if not of["private"]:
            members = []
            for comments, statement in of["components"]:
                members += [f"   ! {comment}" for comment in comments] + [f"   {statement}"]
            lines += code([f"type :: {name}", *members, f"end type {name}"])
        for bound, (groups, specifics) in of["bindings"].items():
            lines += [f"(fortran-{name}.{bound})=", f"#### {bound}", ""]
            lines += self._procedure(bound, specifics, groups)
        return lines

    def _procedure(self, name, specifics, groups):
        """Shows the interface of the first specific procedure; of the others what differs, the types and ranks of arrays."""
        procedures = [self.procedures[specific] for specific in specifics]
        first, *others = procedures
        head = f"{first['kind']} {name}({', '.join(first['arguments'])})"
        head += f" result({first['result']})" if first["result"] else ""
        head = " &\n".join(textwrap.wrap(head, 110, subsequent_indent=" " * 7))
        body = [f"  {type_} :: {', '.join(entities)}" for type_, entities in first["declared"]]
        groups = [group for group in [*groups, *(procedure["comments"] for procedure in procedures)] if group]
        lines = [*(line for group in groups for line in (prose(group), "")), *code([head, *body])]
        if others:
            lines += ["The other arrays that it takes:", ""]
            for other in others:
                differing = [declared for declared in other["declared"] if declared not in first["declared"]]
                shown = [f"`{type_.split(', ')[0]} :: {', '.join(entities)}`" for type_, entities in differing]
                absent = [f"no `{name}`" for name in first["arguments"] if name not in other["arguments"]]
                lines.append(f"* {', '.join(shown + absent)}")
            lines.append("")
        return lines


def prose(comments):
    """Joins lines of comments, with the module's names set as code."""
    text = "\n".join(comments)
    return "`".join(
        part if n % 2 else re.sub(r"(?<!\w)(isobar_\w+|MPI_\w+)", r"`\1`", part) for n, part in enumerate(text.split("`"))
    )


def code(lines):
    return ["```fortran", *lines, "```", ""]


def fill(app, page, text):
    """Fills the page as Sphinx reads it."""
    if page != "reference/fortran":
        return
    module = Module()
    if bare := module.undocumented():
        raise LookupError(f"{', '.join(bare)}: add a comment in isobar.f90")
    listed, public = Counter(" ".join(LIST.findall(text[0])).split()), Counter(module.public)
    if wrong := listed - public:
        raise LookupError(f"not public in the module isobar, or listed twice: {', '.join(wrong)}")
    if missing := public - listed:
        raise LookupError(f"not on the reference page: {', '.join(missing)}")
    text[0] = LIST.sub(lambda found: "\n".join(line for name in found[1].split() for line in module.entry(name)), text[0])
