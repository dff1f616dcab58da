"""Tensor products of vertical and horizontal factors, such as the pressure equation of an atmosphere model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from isobar import _isobar
from isobar._arrays import check_unmasked, readable_on_host
from isobar._options import to_toml
from isobar._problems import Problem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class TensorProduct(Problem):
    """A matrix with entries that are products of vertical vectors and horizontal fields:

    (A u)_{T,k} = |T| [(a_k − b_k − c_k) u_k + b_k u_{k+1} + c_k u_{k−1}] + d_k Σ α_{TT'} (u_{T',k} − u_{T,k})

    Parameters
    ----------
    a, b, c, d
        nz numbers each: a is the mass, b the coupling to the layer above (the last is 0), c the coupling to the layer below (the first is 0),
        d the factor of the horizontal couplings. b, c and d are not positive.
    area
        |T|, shape ``(ny, nx)``.
    x_faces
        α of the faces between cells in x, shape ``(ny, nx + 1)``; 0 on an outermost face means Neumann, other values mean Dirichlet.
    y_faces
        α of the faces between cells in y, shape ``(ny + 1, nx)``.

    The vector b is given as it is, without `rhs`. There are no periodic sides. If a = 0 and all sides are closed, u has mean 0 in the whole grid; several closed basins are not
    found, and need `Faces`, with which u has mean 0 in each.

    >>> n = 8
    >>> column = isobar.TensorProduct(np.ones(3), np.zeros(3), np.zeros(3), -np.ones(3), np.ones((n, n)), np.ones((n, n + 1)), np.ones((n + 1, n)))
    >>> column.shape
    (3, 8, 8)
    """

    def __init__(
        self,
        a: ArrayLike,
        b: ArrayLike,
        c: ArrayLike,
        d: ArrayLike,
        area: ArrayLike,
        x_faces: ArrayLike,
        y_faces: ArrayLike,
    ):
        given = {"area": area, "x_faces": x_faces, "y_faces": y_faces}
        areas, across_x, across_y = (readable_on_host(field, what) for what, field in given.items())
        if len(areas.shape) != 2:
            raise ValueError(f"area has shape {tuple(areas.shape)}; it must be (ny, nx)")
        ny, nx = areas.shape
        for what, handle, wanted in (("x_faces", across_x, (ny, nx + 1)), ("y_faces", across_y, (ny + 1, nx))):
            if tuple(handle.shape) != wanted:
                raise ValueError(f"{what} has shape {tuple(handle.shape)}; with an area of shape {(ny, nx)} it must be {wanted}")
        vertical = []
        for what, profile in (("a", a), ("b", b), ("c", c), ("d", d)):
            check_unmasked(profile, what)
            values = np.asarray(profile, dtype=np.float64)
            if values.ndim != 1:
                raise ValueError(f"{what} has shape {values.shape}; it must be (nz,)")
            vertical.append(values.tolist())
        super().__init__(_isobar.System.tensor_product(vertical, [ny, nx], areas.parts, across_x.parts, across_y.parts))

    def _is_active(self) -> np.ndarray:
        return np.ones(self.shape, bool)


class Helmholtz(Problem):
    """The pressure correction of an atmosphere model: −ω²(∇²u + λ² r⁻² ∂_r(r² ∂_r u)) + u = f.

    There is no flow through bottom and top, and u = 0 on the other sides. Made by `panel` or `box`. Arrays have shape ``(nz, ny, nx)``. Lengths in
    the equation are in radii of the Earth; `coordinates` are heights in m, and y and x from −1 to 1 on the cube's face, 0 to 1 in the box.
    """

    def __init__(self, *system: Any, **options: Any):
        if len(system) != 1 or options:
            raise TypeError("use Helmholtz.panel(nx, ny, nz, ...) or Helmholtz.box(nx, ny, nz, ...)")
        super().__init__(system[0])

    @classmethod
    def panel(
        cls,
        nx: int = 128,
        ny: int = 128,
        nz: int = 128,
        *,
        depth: float = 50e3,
        grading: str = "quadratic",
        courant: float | None = None,
        omega: float | None = None,
        lam: float = 1.0,
        geometry: str = "panel",
    ) -> Helmholtz:
        """Make the problem on one panel of the cubed sphere, in gnomonic or (``geometry="equiangular-panel"``) equiangular coordinates.

        ``depth`` is the depth of the atmosphere in m, ``grading`` is ``"quadratic"`` (thin layers at the ground) or ``"uniform"``, ``courant`` is ν,
        the horizontal Courant number of sound, 8.4 by default: ω = ν h / 2, h the spacing, unless ``omega`` is given. ``lam`` is λ.

        >>> isobar.Helmholtz.panel(16, 16, 8).shape
        (8, 16, 16)
        """
        return cls(_helmholtz(geometry, nx, ny, nz, depth, grading, courant, omega, lam))

    @classmethod
    def box(
        cls,
        nx: int = 128,
        ny: int = 128,
        nz: int = 128,
        *,
        depth: float = 50e3,
        grading: str = "quadratic",
        courant: float | None = None,
        omega: float | None = None,
        lam: float = 1.0,
    ) -> Helmholtz:
        """Make the problem in a flat box, one radius of the Earth long and wide, with the arguments of `panel`."""
        return cls(_helmholtz("box", nx, ny, nz, depth, grading, courant, omega, lam))


def _helmholtz(geometry, nx, ny, nz, depth, grading, courant, omega, lam):
    if omega is not None and courant is not None:
        raise ValueError("omega: courant is given too; use one of them")
    keys = {
        "problem.courant": courant,
        "problem.lambda": lam,
        "problem.omega": omega,
        "grid.geometry": geometry,
        "grid.nx": nx,
        "grid.ny": ny,
        "grid.nz": nz,
        "grid.depth": depth,
        "grid.grading": grading,
    }
    lines = [f"{key} = {to_toml(value)}" for key, value in keys.items() if value is not None]
    return _isobar.System.from_text("arrays", "\n".join(['problem.kind = "helmholtz"', *lines, ""]))
