"""Coefficients of diffusion problems in the memory of a GPU."""

from __future__ import annotations

import numpy as np

from isobar import _isobar
from isobar._arrays import Handle, fitted, library_of, like, like_library, on_host, readable
from isobar._libraries import operations
from isobar._options import number
from isobar._residual import Residual


def on_gpu(value) -> bool:
    """Return whether a value is an array on a GPU of a library whose operations are known."""
    if not hasattr(value, "__dlpack__") or np.ndim(value) == 0 or operations(library_of(value)) is None:
        return False
    return int(value.__dlpack_device__()[0]) == 2


def readable_on_gpu(array, what: str) -> Handle:
    """Return a handle of an array on a GPU, converted there if its elements are not float64 or float32."""
    is_real = str(array.dtype).endswith(("float32", "float64"))
    return readable(array if is_real else operations(library_of(array)).copy(array), what)


class Coefficients:
    """Copies of κ and c on a GPU, both 0 in inactive cells, and everything else of the problem that they belong to."""

    def __init__(self, kappa, reaction, active, residual: Residual):
        self.library = library_of(kappa[0])
        self.xp = residual.operations(self.library)
        self.residual, self._active, self._system = residual, None, None
        kind, number = kappa[0].__dlpack_device__()
        # Without a number, as in tests, everything is on the host.
        self.device = int(number) if int(kind) == 2 else None
        with self.xp.on(kappa[0]):
            # Callers may change their arrays later.
            self.kappa = [self.xp.copy(field).reshape(residual.shape) for field in kappa]
            self.reaction = None if reaction is None else self.xp.copy(self._field(reaction))
            if active is not None:
                self._active = self._field(active) != 0
                closed = lambda field: None if field is None else self.xp.where(self._active, field, 0.0)
                *self.kappa, self.reaction = map(closed, (*self.kappa, self.reaction))

    def replaced(self, kappa, reaction=None) -> Coefficients:
        """Return other coefficients of the same problem."""
        return Coefficients(kappa, self.reaction if reaction is None else reaction, self._active, self.residual)

    def on_host(self):
        """Return handles of the mask, c, None where there is none, and each κ on the host."""
        fields = {"active": self._active, "reaction": self.reaction}
        handle = lambda field, what: None if field is None else readable(on_host(field), what)
        return {what: handle(field, what) for what, field in fields.items()}, [handle(field, "kappa") for field in self.kappa]

    def system(self):
        """Return the native system, which reads the arrays when a solver is made or updated."""
        if self._system is None:
            kappa, reaction = self._handles()
            form = self.residual.form(self.device)
            # A solver reads the handles' arrays.
            self._system = form.system([field.parts for field in kappa], reaction and reaction.parts), kappa, reaction
        return self._system[0]

    def takes(self, *arrays):
        """Return whether derivatives are computed on this GPU from these arrays."""
        return all(on_gpu(array) and library_of(array) == self.library and int(array.__dlpack_device__()[1]) == self.device for array in arrays)

    def pulled_back(self, x, adjoint, fixed_b, shape):
        """Return derivatives with respect to each κ, arrays like the adjoint."""
        given, kappa, pair = self._given(x, adjoint)
        found = [self._like(adjoint, shape) for _ in kappa]
        outs = [fitted(handle, self.residual.shape, "kappa") for handle in found]
        self.residual.form(self.device).gradient(kappa, pair, not fixed_b, outs, (None, None))
        return [handle.array for handle in found]

    def by_density(self, x, adjoint, shape, *, of_reaction):
        """Return derivatives with respect to c, or to f, an array like the adjoint."""
        given, kappa, pair = self._given(x, adjoint)
        found = self._like(adjoint, shape)
        out = fitted(found, self.residual.shape, "f")
        self.residual.form(self.device).gradient(kappa, pair, True, [], (out, None) if of_reaction else (None, out))
        return found.array

    def by_side(self, x, adjoint, axis, upper, fixed_b, faces):
        """Return derivatives with respect to the value and the coefficient of each face of a side, arrays like the adjoint."""
        given, kappa, pair = self._given(x, adjoint)
        across = list(self.residual.shape)
        across[2 - axis] = 1
        found = [self._like(adjoint, across) for _ in range(2)]
        self.residual.form(self.device).side_gradient(kappa, pair, (axis, upper), not fixed_b, [handle.parts for handle in found])
        return [handle.array.reshape(faces) for handle in found]

    def _given(self, x, adjoint):
        """Return handles that must stay alive, and the descriptions of κ and of x and its adjoint."""
        (kappa, _), pair = self._handles(), [readable(x, "x"), readable(adjoint, "b")]
        return (kappa, pair), [handle.parts for handle in kappa], [fitted(handle, self.residual.shape, "x") for handle in pair]

    def _like(self, array, shape):
        """Return a handle of a new array."""
        return like(readable(array, "b"), shape)

    def rhs(self, f, shape):
        """Return the right-hand side of a number or an array of the same library on the GPU, or of f = 0 if it is None."""
        kappa, _ = self._handles()
        with self.xp.on(self.kappa[0]):
            body = None if f is None else readable(self._field(f), "f")
        out = like(body or kappa[0], shape)
        self.residual.form(self.device).rhs([field.parts for field in kappa], body and body.parts, fitted(out, self.residual.shape, "out"))
        return out.array

    def _handles(self):
        """Return handles of κ and of c, None if there is none."""
        return [readable(field, "kappa") for field in self.kappa], None if self.reaction is None else readable(self.reaction, "reaction")

    def _field(self, values):
        """Return a number or an array as an array on the GPU."""
        if np.ndim(values) == 0:
            return 0 * self.kappa[0] + float(values)
        if not self.takes(values):
            values = like_library(np.asarray(on_host(values), np.float64), self.kappa[0])
        return (values.detach() if hasattr(values, "detach") else values).reshape(self.residual.shape)


class FacesOnGpu:
    """Conductances on a GPU."""

    def __init__(self, system, array):
        self._system, self.library = system, library_of(array)
        self.device = int(array.__dlpack_device__()[1])
        # Of its library, type and device, without its memory.
        self._beside = like(readable(array, "conductances"), (1,)).array

    @classmethod
    def of(cls, shape, array, faces, is_periodic, shift, active):
        """Return a copy of conductances, shifts and a mask; None if their numbers need a look on the host."""
        xp = operations(library_of(array))

        def of_cells(values, what):
            if values is None:
                return None
            if np.ndim(values) == 0:
                values = xp.copy(xp.spread(number(values, what), shape, array))
            elif not on_gpu(values) or library_of(values) != library_of(array):
                values = like_library(np.asarray(on_host(values), np.float64), array)
            fitted(Handle(values, (0, tuple(np.shape(values)), None, None, None, None)), shape, what)
            # A mask has numbers other than 0.
            return readable(xp.copy(values if what == "shift" else values != 0), what)

        with xp.on(array):
            others = [of_cells(shift, "shift"), of_cells(active, "active")]
            system = _isobar.System.faces_on_gpu(shape, faces, is_periodic, *(handle and fitted(handle, shape, "shift") for handle in others))
        return system and cls(system, array)

    def system(self):
        """Return the native system."""
        return self._system

    def takes(self, *arrays):
        """Return whether derivatives are computed on this GPU from these arrays."""
        return False

    def rhs(self, f, shape):
        """Return the right-hand side of a number or an array of the same library on the GPU, or of f = 0 if it is None."""
        xp, cells = operations(self.library), self._system.shape
        with xp.on(self._beside):
            if f is not None and np.ndim(f) == 0:
                f = xp.copy(xp.spread(float(f), shape, self._beside))
            body = None if f is None else readable(f, "f")
        out = like(body or readable(self._beside, "f"), shape)
        self._system.rhs(body and fitted(body, cells, "f"), fitted(out, cells, "out"))
        return out.array


class Affine:
    """The right-hand side b = D f + b₀ of any problem, for arrays f on a GPU."""

    def __init__(self, problem):
        # A power of two so large that b₀ takes no digits of D.
        scale = 2.0**400
        zero, large = (problem._rhs_on_host(number) for number in (0.0, scale))
        volumes = (large - zero) / scale
        self._volumes = float(volumes.flat[0]) if volumes.size and (volumes == volumes.flat[0]).all() else volumes
        self._rest = zero if zero.any() else None
        self._xp = {}

    def rhs(self, f):
        """Return b, of f's library, type and device."""
        xp = self._xp.setdefault(library_of(f), operations(library_of(f)))
        f = f.detach() if hasattr(f, "detach") else f
        with xp.on(f):
            if isinstance(self._volumes, float):
                b = f * self._volumes
            else:
                volumes = xp.like(self._volumes, f)
                b = xp.where(volumes != 0, f * volumes, 0.0)
            return b if self._rest is None else b + xp.like(self._rest, f)
