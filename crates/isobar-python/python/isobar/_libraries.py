"""The operations of NumPy, CuPy, PyTorch and JAX in which problems with coefficients on a GPU, and derivatives, are written."""

from __future__ import annotations

import contextlib
import sys

import numpy as np


class Operations:
    """Operations on arrays of NumPy, and those that all libraries share. Constants are copied to a device once."""

    def __init__(self, module):
        self.where, self.log = module.where, module.log
        self._module, self._known = module, {}

    def like(self, values, beside):
        """Return a constant of NumPy as an array with the type and device of another one; arrays of the library as they are."""
        if not isinstance(values, (np.ndarray, np.generic)):
            return values
        # The entry keeps the constant alive, so that no other one gets its number.
        key = id(values), beside.dtype, str(getattr(beside, "device", ""))
        if key not in self._known:
            self._known[key] = values, self._made(values, beside)
        return self._known[key][1]

    def spread(self, values, shape, beside):
        """Return a number or an array in another shape, with the type of a third one."""
        return self._module.broadcast_to(self._module.asarray(values, beside.dtype), tuple(shape))

    def concatenate(self, arrays):
        return self._module.concatenate(arrays)

    def on(self, array):
        """Return a context in which new arrays are on the device of another one."""
        return contextlib.nullcontext()

    def copy(self, array):
        """Return a copy without strides, with elements of type float64 or float32."""
        array = array if array.dtype in ("float32", "float64") else array.astype("float64")
        return self._module.array(array, order="C")

    def _made(self, values, beside):
        return self._module.asarray(values, dtype=beside.dtype)


class _CuPy(Operations):
    def on(self, array):
        return array.device


class _Torch(Operations):
    def copy(self, array):
        torch, array = self._module, array.detach()
        array = array if array.dtype in (torch.float32, torch.float64) else array.double()
        return array.clone(memory_format=torch.contiguous_format)

    def spread(self, values, shape, beside):
        torch = self._module
        if isinstance(values, np.ndarray):
            values = self.like(values, beside)
        elif not isinstance(values, torch.Tensor):
            values = torch.full((), float(values), dtype=beside.dtype, device=beside.device) if np.ndim(values) == 0 else torch.as_tensor(np.asarray(values))
        return values.to(beside.device, beside.dtype).expand(tuple(shape))

    def _made(self, values, beside):
        return self._module.as_tensor(values, dtype=beside.dtype, device=beside.device)


class _Jax(Operations):
    def __init__(self, jax):
        super().__init__(jax.numpy)

    def like(self, values, beside):
        if not isinstance(values, (np.ndarray, np.generic)):
            return values
        # While JAX traces, a constant belongs to one trace.
        return self._module.asarray(values, beside.dtype)

    def copy(self, array):
        return array if array.dtype in ("float32", "float64") else array.astype(float)


def operations(library: str) -> Operations | None:
    """Return the operations of a library of arrays, which must have been imported; None if they are not known."""
    kind = {"numpy": Operations, "cupy": _CuPy, "torch": _Torch, "jax": _Jax}.get(library)
    return kind and kind(sys.modules[library])
