"""Areas and normals."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from ..records import Mesh


def face_crosses(mesh: Mesh) -> Float[np.ndarray, "F 3"]:
    """Normals of the faces, twice as long as their areas, in double precision."""
    # Differences first: they are exact enough at any distance from the origin.
    corners = mesh.vertices[mesh.faces]
    first = (corners[:, 1] - corners[:, 0]).astype(np.float64)
    second = (corners[:, 2] - corners[:, 0]).astype(np.float64)
    return np.cross(first, second)


def face_areas(mesh: Mesh) -> Float[np.ndarray, " F"]:
    """Areas of the faces, square metres."""
    areas: np.ndarray = 0.5 * np.linalg.norm(face_crosses(mesh), axis=1)
    return areas


def face_normals(mesh: Mesh) -> Float[np.ndarray, "F 3"]:
    """Unit normals of the faces, outwards; zero for a face without area."""
    return _unit(face_crosses(mesh))


def vertex_normals(mesh: Mesh) -> Float[np.ndarray, "V 3"]:
    """Unit normals of the vertices: the mean of the faces around, weighted by area.

    float32. Zero for a vertex without a face.
    """
    crosses = face_crosses(mesh)
    count = len(mesh.vertices)
    corners = mesh.faces.ravel()
    summed = np.stack([np.bincount(corners, np.repeat(crosses[:, i], 3), count) for i in range(3)], axis=1)
    return _unit(summed).astype(np.float32)


def _unit(vectors: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = vectors / np.where(length > 0, length, 1)
    return unit
