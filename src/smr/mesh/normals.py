"""Areas and normals."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float

from ..arrays import launch_chunked
from ..records import Mesh


def face_crosses(mesh: Mesh) -> Float[np.ndarray, "F 3"]:
    """Normals of the faces, twice as long as their areas, in double precision."""
    crosses = wp.empty(len(mesh.faces), dtype=wp.vec3d, device="cpu")
    launch_chunked(_cross, len(mesh.faces), _device_mesh(mesh), outputs=[crosses], device="cpu")
    return crosses.numpy()


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
    summed = wp.zeros(len(mesh.vertices), dtype=wp.vec3d, device="cpu")
    wp.launch(_sum_crosses, 1, inputs=_device_mesh(mesh), outputs=[summed], device="cpu")
    return _unit(summed.numpy()).astype(np.float32)


def _device_mesh(mesh: Mesh) -> list[wp.array]:
    faces = np.ascontiguousarray(mesh.faces)
    return [
        wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu"),
        wp.array(faces, dtype=wp.vec3i, device="cpu", copy=False),
    ]


def _unit(vectors: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    unit: np.ndarray = vectors / np.where(length > 0, length, 1)
    return unit


@wp.func
@no_type_check
def _face_cross(vertices: wp.array(dtype=wp.vec3d), face: wp.vec3i):
    # Differences first: they are exact enough at any distance from the origin.
    p = vertices[face[0]]
    return wp.cross(vertices[face[1]] - p, vertices[face[2]] - p)


@wp.kernel(enable_backward=False)
@no_type_check
def _cross(
    base: int, vertices: wp.array(dtype=wp.vec3d), faces: wp.array(dtype=wp.vec3i), crosses: wp.array(dtype=wp.vec3d)
):
    f = base + wp.tid()
    crosses[f] = _face_cross(vertices, faces[f])


@wp.kernel(enable_backward=False)
@no_type_check
def _sum_crosses(vertices: wp.array(dtype=wp.vec3d), faces: wp.array(dtype=wp.vec3i), summed: wp.array(dtype=wp.vec3d)):
    # A serial program: launch with dim=1.
    for f in range(faces.shape[0]):
        n = _face_cross(vertices, faces[f])
        for k in range(3):
            summed[faces[f][k]] = summed[faces[f][k]] + n
