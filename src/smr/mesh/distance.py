"""Exact closest points on a triangle mesh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Float32, Int32

from ..arrays import launch_chunked
from ..records import Mesh
from .normals import face_areas, face_normals


@dataclass(frozen=True)
class Nearest:
    """For each query point the closest point of a surface."""

    points: Float[np.ndarray, "N 3"]
    """Positions on the surface, in the frame of the queries; float64."""
    distances: Float32[np.ndarray, " N"]
    faces: Int32[np.ndarray, " N"]
    """Index of the face that holds it."""
    barycentric: Float32[np.ndarray, "N 3"]
    """Weights of the face's corners."""


@dataclass(frozen=True)
class SurfaceIndex:
    """A mesh with a bounding volume hierarchy over its faces, on one device; made by `index_surface`."""

    mesh: wp.Mesh
    origin: Float[np.ndarray, "3"]
    """Subtracted from all positions before they are rounded to float32."""
    face_ids: Int32[np.ndarray, " K"]
    """The mesh's faces that have an area; the others are left out."""
    normals: Float32[np.ndarray, "F 3"]
    """Unit normals of all faces; zero where there is no area."""
    device: str

    def nearest(self, points: Float[np.ndarray, "N 3"]) -> Nearest:
        """Closest point of the surface to each of `points`."""
        count = len(points)
        queries = wp.array((points - self.origin).astype(np.float32), dtype=wp.vec3, device=self.device)
        found = wp.empty(count, dtype=wp.vec3, device=self.device)
        weights = wp.empty(count, dtype=wp.vec3, device=self.device)
        faces = wp.empty(count, dtype=int, device=self.device)
        outputs = [found, weights, faces]
        launch_chunked(_nearest, count, [self.mesh.id, queries], outputs=outputs, device=self.device)
        surface, asked = found.numpy(), queries.numpy()
        distances = np.linalg.norm(surface.astype(np.float64) - asked, axis=1).astype(np.float32)
        return Nearest(surface + self.origin, distances, self.face_ids[faces.numpy()], weights.numpy())


def index_surface(mesh: Mesh, *, device: str = "cpu") -> SurfaceIndex:
    """Prepare a mesh for closest-point queries.

    Positions are taken relative to the middle of the mesh in float64, so a mesh far from the origin loses nothing.

    Raises:
        ValueError: No face has an area.
    """
    origin = 0.5 * (mesh.vertices.min(axis=0).astype(np.float64) + mesh.vertices.max(axis=0))
    local = replace(mesh, vertices=(mesh.vertices - origin).astype(np.float32))
    kept = np.flatnonzero(face_areas(local) > 0).astype(np.int32)
    if len(kept) == 0:
        raise ValueError("no face of the mesh has an area")
    points = wp.array(local.vertices, dtype=wp.vec3, device=device)
    tree = wp.Mesh(points, wp.array(mesh.faces[kept].ravel(), dtype=int, device=device))
    return SurfaceIndex(tree, origin, kept, face_normals(local).astype(np.float32), device)


@wp.kernel(enable_backward=False)
@no_type_check
def _nearest(
    base: int,
    mesh: wp.uint64,
    queries: wp.array(dtype=wp.vec3),
    points: wp.array(dtype=wp.vec3),
    weights: wp.array(dtype=wp.vec3),
    faces: wp.array(dtype=int),
):
    i = base + wp.tid()
    query = wp.mesh_query_point_no_sign(mesh, queries[i], 1.0e30)
    points[i] = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
    weights[i] = wp.vec3(query.u, query.v, 1.0 - query.u - query.v)
    faces[i] = query.face
