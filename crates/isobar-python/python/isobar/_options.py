"""Options as the text of a case file's ``[solver]``."""

from __future__ import annotations

import json
import math
import os

import numpy as np


def plain(value):
    """Convert NumPy numbers and arrays, paths and tuples in a value to JSON types."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def to_json(options: dict) -> str:
    """Convert options to JSON, omitting those that are None."""
    given = plain({key: value for key, value in options.items() if value is not None})
    try:
        return json.dumps(given, allow_nan=False)
    except TypeError as error:
        raise TypeError(f"options: {error}; use numbers, strings, lists and dictionaries") from None
    except ValueError:
        key, value = next(_not_finite(given), ("options", given))
        raise ValueError(f"{key}: {value}; use a finite number") from None


def _not_finite(options: dict, prefix: str = ""):
    """Yield the names and values of options that are not finite."""
    for key, value in options.items():
        if isinstance(value, dict):
            yield from _not_finite(value, f"{prefix}{key}.")
        elif any(isinstance(each, float) and not math.isfinite(each) for each in (value if isinstance(value, list) else [value])):
            yield prefix + key, value


def number(value, what: str) -> float:
    """Convert an argument to a float."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{what}: {value!r}; use a number") from None


def whole(value, what: str) -> int:
    """Convert an argument, a whole number of 1 or more, to an int."""
    try:
        is_whole = not isinstance(value, (bool, str)) and bool(int(value) == value and value >= 1)
    except (TypeError, ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{what}: {value!r}; use a whole number, 1 or more")
    if value >= 2**63:
        raise ValueError(f"{what}: {value!r} is beyond 64 bits; use a smaller number")
    return int(value)


def to_toml(value) -> str:
    """Format a value as TOML."""
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {to_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    if isinstance(value, str):
        # A control character that JSON does not escape.
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{type(value).__name__} is not a value of a case; use numbers, strings, lists and dictionaries")


def overrides(changes: dict, prefix: str = "") -> list[tuple[str, str]]:
    """Convert keyword arguments to dotted keys: ``grid={"nx": 8}``, ``grid__nx`` and ``**{"grid.nx": 8}`` all set grid.nx."""
    found = []
    for key, value in changes.items():
        key = prefix + str(key).replace("__", ".")
        # Only top-level dictionaries are sections; deeper ones may be values, such as { file = "kappa.npy" }.
        if isinstance(value, dict) and not prefix:
            found += overrides(value, key + ".")
        elif value is not None:
            found.append((key, to_toml(value)))
    return found
