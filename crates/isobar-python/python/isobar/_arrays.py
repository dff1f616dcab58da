"""Arrays of any library, described for the native part by (address, shape, strides, type, device, stream, owner)."""

from __future__ import annotations

import math
import sys

import numpy as np

from isobar import _isobar

_KINDS = {"<f8": "f8", "=f8": "f8", "<f4": "f4", "=f4": "f4"}
_CPU, _CUDA = (1, 3), (2, 13)
# CUDA's legacy default stream, with which work of every library can be ordered, as DLPack calls it; the native part calls it so if what it writes is for other
# streams too.
_DEFAULT_STREAM, _FOR_ALL_STREAMS = 1, 0


class Handle:
    """An array, kept alive, with its description for the native part, which keeps it alive too: it may be a copy that nothing else refers to."""

    __slots__ = ("array", "parts", "shape", "_kept")

    def __init__(self, array, parts, kept=None):
        self.array = array
        self.parts = (*parts[:6], (array, kept))
        self.shape = parts[1]
        self._kept = kept


def is_numpy(array) -> bool:
    return isinstance(array, np.ndarray)


def readable(value, what: str, most: int = 3) -> Handle:
    """Return a handle of anything that can be read as an array of numbers with at most `most` dimensions."""
    if is_numpy(value):
        return _numpy(value, what, most=most)
    if hasattr(value, "__dlpack__") and not np.isscalar(value):
        return _dlpack(value, what, most)
    if value is None:
        raise TypeError(f"{what}: None is not an array of numbers")
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what}: {type(value).__name__} is not an array of numbers: {error}") from None
    return _numpy(array, what, most=most)


def writable(value, what: str, most: int = 3) -> Handle:
    """Return a handle of an output array, which is never converted."""
    if is_numpy(value):
        if not value.flags.writeable:
            raise ValueError(f"{what}: the array is read-only; pass a writable array, or None")
        handle = _numpy(value, what, copy=False, most=most)
    elif hasattr(value, "__dlpack__"):
        if library_of(value) == "jax":
            raise TypeError(f"{what}: arrays of JAX are read-only; pass None and use the result's x")
        if library_of(value) == "torch" and value.is_neg():
            raise ValueError(f"{what}: a tensor that is negated lazily cannot be written; pass its resolve_neg()")
        handle = _dlpack(value, what, most)
        if handle._kept.is_read_only():
            raise ValueError(f"{what}: the array is read-only; pass a writable array, or None")
    else:
        raise TypeError(f"{what}: {type(value).__name__} is not a writable array")
    return handle


def like(handle: Handle, shape) -> Handle:
    """Return a new array with the library, type and device of another one."""
    array, most = handle.array, 4
    if is_numpy(array):
        return _numpy(np.empty(shape, dtype=np.float32 if handle.parts[3] == "f4" else np.float64), "x", most=most)
    library = library_of(array)
    if library == "torch":
        import torch

        return _dlpack(torch.empty(tuple(shape), dtype=array.dtype, device=array.device), "x", most)
    if library == "cupy":
        import cupy

        with cupy.cuda.Device(array.device.id):
            return _dlpack(cupy.empty(shape, dtype=array.dtype), "x", most)
    if handle.parts[4] is None:
        return like(Handle(np.empty(0), handle.parts), shape)
    if library == "jax":
        import jax

        # A new buffer, which nothing else refers to: it may be written until it is returned.
        with jax.default_device(next(iter(array.devices()))):
            return _dlpack(jax.numpy.zeros(tuple(shape), array.dtype).block_until_ready(), "x", most)
    namespace = array.__array_namespace__()
    return _dlpack(namespace.empty(tuple(shape), dtype=array.dtype, device=array.device), "x", most)


def native(handle: Handle, beside: Handle):
    """Return the array of a handle from `like`, converted to the library of another one."""
    if is_numpy(handle.array) and library_of(beside.array) == "jax":
        import jax

        return jax.numpy.asarray(handle.array)
    return handle.array


def on_host(array) -> np.ndarray:
    """Return an array of any library as a NumPy array."""
    if hasattr(array, "get") and not is_numpy(array):
        return array.get()
    if hasattr(array, "cpu"):
        return array.detach().cpu().numpy()
    return np.asarray(array)


def check_unmasked(values, what: str) -> None:
    """Raise for an array of NumPy with a mask."""
    # NumPy loads `numpy.ma` when it is first used, and an array with a mask has used it.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked and isinstance(values, masked):
        raise TypeError(f"{what}: a masked array; fill it, and pass its inverted mask to the problem as active")


def check_real(values, what: str) -> None:
    """Raise for an array of any library with a mask, with complex numbers, or without numbers."""
    check_unmasked(values, what)
    dtype = getattr(values, "dtype", None)
    kind = getattr(dtype, "kind", "f")
    if kind == "c" or getattr(dtype, "is_complex", False):
        # The parts of u are coupled where the matrix is complex.
        parts = ": solve for the real and imaginary parts separately" if what in ("b", "f", "x", "x0", "xbar") else " only"
        raise TypeError(f"{what}: dtype {values.dtype}; isobar solves real systems{parts}")
    if kind not in "fiubV":
        raise TypeError(f"{what}: dtype {values.dtype}; use float64 or float32")


def like_library(values: np.ndarray, beside):
    """Convert values to an array with the library, type and device of another one."""
    library = library_of(beside)
    if library == "torch":
        import torch

        return torch.from_numpy(values).to(beside)
    if library == "cupy":
        import cupy

        with cupy.cuda.Device(beside.device.id):
            return cupy.asarray(values, dtype=beside.dtype)
    if library == "jax":
        import jax

        return jax.device_put(values.astype(beside.dtype), next(iter(beside.devices())))
    return values


def readable_on_host(value, what: str) -> Handle:
    """Return a handle of anything that can be read as an array of numbers, copied to host memory if necessary."""
    is_there = hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in _CUDA
    return readable(on_host(value) if is_there else value, what)


def labels(value, what: str) -> np.ndarray:
    """Return an image of labels in host memory, as an aligned integer array in C order that keeps its type."""
    check_unmasked(value, what)
    image = on_host(value)
    if image.dtype.kind not in "iub":
        raise TypeError(f"{what}: dtype {image.dtype}; labels must be integers: use its astype(numpy.uint8), or omit coefficients")
    if not 1 <= image.ndim <= 3 or image.size == 0:
        raise ValueError(f"{what} has shape {image.shape}; use one to three dimensions, (nz, ny, nx), none of them 0")
    return np.require(image, dtype=image.dtype.newbyteorder("="), requirements=["C", "A"])


def fitted(handle: Handle, shape, what: str):
    """Return the description of an array after checking its shape; leading dimensions of length 1 may be missing."""
    pointer, found, strides, *rest = handle.parts
    if tuple(found) != tuple(shape):
        # (ny, nx) where nz is 1, (nx,) where ny is 1 too.
        short = tuple(shape)[3 - len(found) :] if 0 < len(found) <= 3 else None
        leading = tuple(shape)[: 3 - len(found)] if short is not None else ()
        if short != tuple(found) or any(n != 1 for n in leading):
            wanted = ", or ".join(str(s) for s in _shapes(shape))
            raise ValueError(f"{what} has shape {tuple(found)}; the problem's is {wanted}")
    return (pointer, found, strides, *rest)


def systems(handle: Handle, shape, what: str) -> list:
    """Return the descriptions of the arrays of several systems, stacked along the first axis."""
    pointer, found, strides, *rest = handle.parts
    if tuple(found[1:]) != tuple(shape):
        wanted = ", ".join(str(n) for n in shape)
        raise ValueError(f"{what} has shape {tuple(found)}; the problem's is {tuple(shape)}, and that of k systems (k, {wanted})")
    if found[0] == 0:
        raise ValueError(f"{what} has shape {tuple(found)} and contains no system; pass one or more")
    step, strides = (_bytes(found[1:], rest[0]), None) if strides is None else (strides[0], strides[1:])
    return [(pointer + n * step, found[1:], strides, *rest) for n in range(found[0])]


def overlap(a: Handle, b: Handle) -> bool:
    """Return whether two arrays may share memory."""
    if a.parts[4] != b.parts[4]:
        return False
    (a_first, a_end), (b_first, b_end) = _reach(a), _reach(b)
    return a_first < b_end and b_first < a_end


def copied(source: Handle, target: Handle) -> None:
    """Copy the values of an array to another one with the same number of elements."""
    if is_numpy(target.array):
        np.copyto(target.array, np.asarray(source.array).reshape(target.array.shape), casting="same_kind")
    elif hasattr(target.array, "copy_"):
        target.array.copy_(source.array)
    else:
        target.array[...] = source.array


def _bytes(shape, kind: str) -> int:
    return math.prod(shape) * int(kind[1])


def _reach(handle: Handle):
    """Return the addresses of the first byte of an array and of the byte after its last."""
    pointer, shape, strides, kind, *_ = handle.parts
    if strides is None:
        return pointer, pointer + _bytes(shape, kind)
    far = [(n - 1) * stride for n, stride in zip(shape, strides)]
    return pointer + sum(min(0, d) for d in far), pointer + sum(max(0, d) for d in far) + int(kind[1])


def _shapes(shape):
    shape = tuple(shape)
    found = [shape]
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
        found.append(shape)
    return found


def library_of(array) -> str:
    name = type(array).__module__.split(".")[0]
    return "jax" if name in ("jax", "jaxlib") else name


def _counted(shape, what: str, most: int) -> None:
    """Check the number of dimensions of an array."""
    if not 1 <= len(shape) <= most:
        several = "" if most == 3 else ", and one axis before them for several systems"
        raise ValueError(f"{what} has {len(shape)} dimensions; use one to three, (nz, ny, nx){several}")


def _numpy(array: np.ndarray, what: str, copy: bool = True, most: int = 3) -> Handle:
    check_real(array, what)
    interface = array.__array_interface__
    kind = _KINDS.get(interface["typestr"])
    strides = interface["strides"]
    pointer = interface["data"][0]
    size = array.dtype.itemsize
    aligned = kind is not None and pointer % size == 0 and (strides is None or all(s % size == 0 for s in strides))
    if not aligned:
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{what}: dtype {array.dtype}; use float64 or float32")
        if not copy:
            raise TypeError(f"{what}: dtype {array.dtype}{'' if kind is None else ', not aligned'}; use float64 or float32")
        # Integers, half precision, other byte orders, fields of packed records.
        same = np.float32 if array.dtype.kind == "f" and array.dtype.itemsize == 4 else np.float64
        return _numpy(np.array(array, dtype=same, order="C", ndmin=1), what, most=most)
    shape = interface["shape"]
    _counted(shape, what, most)
    return Handle(array, (pointer, shape, strides, kind, None, None))


def _dlpack(array, what: str, most: int = 3) -> Handle:
    source = array
    if library_of(array) == "torch":
        # A tensor that requires a gradient cannot be exported; one that is negated lazily would be exported without its sign.
        check_real(array, what)
        source = (array.detach() if array.requires_grad else array).resolve_neg()
    kind, _ = source.__dlpack_device__()
    if kind not in _CPU + _CUDA:
        raise TypeError(f"{what}: DLPack device type {int(kind)}; use the CPU or CUDA")
    stream, own_stream = (_DEFAULT_STREAM, _FOR_ALL_STREAMS) if kind in _CUDA else (None, None)
    try:
        capsule = source.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        # Before version 1 of the protocol.
        capsule = source.__dlpack__(stream=stream) if stream else source.__dlpack__()
    borrowed = _isobar.Borrowed(capsule)
    try:
        pointer, shape, strides, dtype, device = borrowed.parts()
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    _counted(shape, what, most)
    return Handle(array, (pointer, tuple(shape), strides, dtype, device, own_stream), borrowed)
