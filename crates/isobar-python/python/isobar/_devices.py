"""Devices of this machine."""

from __future__ import annotations

from typing import NamedTuple

from isobar import _isobar


class Device(NamedTuple):
    """A device that solvers can run on."""

    device: str
    """Its name for `Solver`, such as ``"cpu"`` or ``"cuda:0"``."""
    name: str
    """Its model."""
    memory: float | None
    """Memory in bytes, all of a GPU's, or what is available to the processor without swapping."""
    threads: int | None
    """Threads of the processor that a solver uses by default."""
    capability: tuple[int, int] | None
    """Compute capability of a GPU."""
    bandwidth: float | None
    """Bandwidth of a copy of a vector in bytes per second, if measured."""
    problem: str | None
    """Why it cannot be used; None if it can."""


def devices(measure: bool = False) -> list[Device]:
    """List the devices of this machine, the processor first, as the command's ``isobar devices`` does.

    With `measure`, the bandwidth of each is measured by copying vectors of 128 MiB; it limits the speed of every solver.

    >>> isobar.devices()[0].device
    'cpu'
    """
    return [Device(*facts) for facts in _isobar.devices(bool(measure))]
