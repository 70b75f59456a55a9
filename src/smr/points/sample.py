"""Points spread evenly over a surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int32

from ..mesh.normals import face_areas
from ..records import Mesh


@dataclass(frozen=True)
class SurfaceSamples:
    """Points on a mesh."""

    points: Float[np.ndarray, "N 3"]
    """Positions in the mesh's frame; float64."""
    faces: Int32[np.ndarray, " N"]
    """The face that each lies on."""


def sample_surface(mesh: Mesh, count: int, *, seed: int = 0) -> SurfaceSamples:
    """Draw `count` points, as many on each face as its share of the area.

    Stratified: the faces are laid end to end by area and cut into `count` equal pieces, with one point in each; so a
    face gets its share to within one point, and faces without area get none.

    Raises:
        ValueError: No face has an area.
    """
    area = face_areas(mesh)
    total = np.cumsum(area)
    if not len(total) or not total[-1] > 0:
        raise ValueError("no face of the mesh has an area")
    rng = np.random.default_rng(seed)
    along = (np.arange(count) + rng.random(count)) / count * total[-1]
    face = np.minimum(np.searchsorted(total, along, side="right"), np.flatnonzero(area)[-1]).astype(np.int32)
    u, v = rng.random((2, count, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)  # fold the square onto the triangle
    a, b, c = (mesh.vertices[mesh.faces[face, k]].astype(np.float64) for k in range(3))
    return SurfaceSamples(a + u * (b - a) + v * (c - a), face)
