"""Whether points lie inside a mesh, and how far from its surface."""

from __future__ import annotations

import logging

import numpy as np
from jaxtyping import Bool, Float, Float64

from ..records import Mesh
from .distance import index_surface
from .winding import check_query, winding_number

logger = logging.getLogger(__name__)


def is_inside(mesh: Mesh, points: Float[np.ndarray, "N 3"], *, device: str = "cpu") -> Bool[np.ndarray, " N"]:
    """Whether each point lies inside: whether its winding number is above one half.

    Exact for closed meshes, whatever lies in line with a point, down to the rounding of double precision at the
    surface itself (a point exactly on it may get either answer). A body in a body is inside; a body whose faces look
    inward is a cavity where another one holds it, and outside (with a warning in the log) where none does. An open
    mesh is taken as if smooth caps closed its holes.

    Args:
        mesh: Faces counter-clockwise seen from outside.
        points: Positions in the mesh's frame.
        device: A Warp device: `cpu` or `cuda:N`.

    Raises:
        ValueError: The mesh has no face or names vertices that are not there, or a coordinate is not finite.
    """
    numbers = winding_number(mesh, points, device=device)
    inverted = int((numbers < -0.5).sum())
    if inverted:
        logger.warning(
            "%d of %d points lie in a body whose faces look inward, and count as outside; flip its faces (smr clean) "
            "or take abs(winding_number(...)) > 0.5",
            inverted,
            len(points),
        )
    return numbers > 0.5


def signed_distance(mesh: Mesh, points: Float[np.ndarray, "N 3"], *, device: str = "cpu") -> Float64[np.ndarray, " N"]:
    """Distance of each point to the surface, metres; negative where `is_inside`.

    Args:
        mesh: Faces counter-clockwise seen from outside; faces without area are left out.
        points: Positions in the mesh's frame.
        device: A Warp device: `cpu` or `cuda:N`.

    Raises:
        ValueError: As `is_inside`, and where no face of the mesh has an area.
    """
    check_query(mesh, points)
    distance = index_surface(mesh, device=device).nearest(points).distances
    return np.where(is_inside(mesh, points, device=device), -distance, distance)
