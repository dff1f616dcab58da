"""What there is to compute on."""

from __future__ import annotations

from typing import NamedTuple

from isobar import _isobar


class Device(NamedTuple):
    """A device that solvers can run on."""

    device: str
    """What `Solver` takes: ``"cpu"``, ``"cuda:0"``."""
    name: str
    """Its model."""
    memory: float | None
    """Bytes: all of a GPU's, and of the processor's what can be had without swapping."""
    threads: int | None
    """Threads of the processor that a solver uses by default."""
    capability: tuple[int, int] | None
    """Compute capability of a GPU."""
    bandwidth: float | None
    """Bytes a second that a copy of a vector moves, where that was measured."""
    problem: str | None
    """Why it cannot be used; None where it can."""


def devices(measure: bool = False) -> list[Device]:
    """List the devices of this machine, the processor first, as the command's ``isobar devices`` does.

    With `measure` each copies vectors of 128 MiB, as its speed limits that of every solver there.

    >>> isobar.devices()[0].device
    'cpu'
    """
    return [Device(*facts) for facts in _isobar.devices(bool(measure))]
