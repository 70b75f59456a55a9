"""Exact closest points on a triangle mesh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, Float32, Float64, Int32

from ..arrays import launch_chunked
from ..records import Mesh
from .normals import face_areas, face_normals


@dataclass(frozen=True)
class Nearest:
    """For each query point the closest point of a surface."""

    points: Float[np.ndarray, "N 3"]
    """Positions on the surface, in the frame of the queries; float64."""
    distances: Float64[np.ndarray, " N"]
    faces: Int32[np.ndarray, " N"]
    """Index of the face that holds it."""
    barycentric: Float64[np.ndarray, "N 3"]
    """Weights of the face's corners."""


@dataclass(frozen=True)
class SurfaceIndex:
    """A mesh with a bounding volume hierarchy over its faces, on one device; made by `index_surface`."""

    mesh: wp.Mesh
    vertices: wp.array
    """The same vertices as the tree's in float64."""
    origin: Float[np.ndarray, "3"]
    """Subtracted from all positions before they are rounded to float32."""
    face_ids: Int32[np.ndarray, " K"]
    """The mesh's faces that have an area; the others are left out."""
    surface: Mesh
    """The mesh itself, relative to `origin`."""
    device: str

    @cached_property
    def normals(self) -> Float32[np.ndarray, "F 3"]:
        """Unit normals of all faces; zero where there is no area."""
        return face_normals(self.surface).astype(np.float32)

    def nearest(self, points: Float[np.ndarray, "N 3"]) -> Nearest:
        """Closest point of the surface to each of `points`."""
        count = len(points)
        queries = wp.array(points - self.origin, dtype=wp.vec3d, device=self.device)
        found = wp.empty(count, dtype=wp.vec3d, device=self.device)
        weights = wp.empty(count, dtype=wp.vec3d, device=self.device)
        faces = wp.empty(count, dtype=int, device=self.device)
        inputs = [self.mesh.id, self.mesh.indices, self.vertices, queries]
        launch_chunked(_nearest, count, inputs, outputs=[found, weights, faces], device=self.device)
        surface = found.numpy()
        distances: np.ndarray = np.linalg.norm(surface - queries.numpy(), axis=1)
        return Nearest(surface + self.origin, distances, self.face_ids[faces.numpy()], weights.numpy())


def index_surface(mesh: Mesh, *, device: str = "cpu") -> SurfaceIndex:
    """Prepare a mesh for closest-point queries.

    The nearest face is looked for in float32, relative to the middle of the mesh, so a mesh far from the origin loses
    nothing; the closest point on it is found in float64.

    Raises:
        ValueError: No face has an area.
    """
    origin = 0.5 * (mesh.vertices.min(axis=0).astype(np.float64) + mesh.vertices.max(axis=0))
    local = replace(mesh, vertices=mesh.vertices - origin)
    kept = np.flatnonzero(face_areas(local) > 0).astype(np.int32)
    if len(kept) == 0:
        raise ValueError("no face of the mesh has an area")
    points = wp.array(local.vertices.astype(np.float32), dtype=wp.vec3, device=device)
    tree = wp.Mesh(points, wp.array(mesh.faces[kept].ravel(), dtype=int, device=device))
    vertices = wp.array(local.vertices, dtype=wp.vec3d, device=device)
    return SurfaceIndex(tree, vertices, origin, kept, local, device)


@wp.func
@no_type_check
def _closest_weights(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """Barycentric weights of the triangle's point closest to p (Ericson 2005, Real-Time Collision Detection, 5.1.5)."""
    zero = wp.float64(0.0)
    one = wp.float64(1.0)
    ab = b - a
    ac = c - a
    d1 = wp.dot(ab, p - a)
    d2 = wp.dot(ac, p - a)
    if d1 <= zero and d2 <= zero:
        return wp.vec3d(one, zero, zero)
    d3 = wp.dot(ab, p - b)
    d4 = wp.dot(ac, p - b)
    if d3 >= zero and d4 <= d3:
        return wp.vec3d(zero, one, zero)
    vc = d1 * d4 - d3 * d2
    if vc <= zero and d1 >= zero and d3 <= zero:
        v = d1 / (d1 - d3)
        return wp.vec3d(one - v, v, zero)
    d5 = wp.dot(ab, p - c)
    d6 = wp.dot(ac, p - c)
    if d6 >= zero and d5 <= d6:
        return wp.vec3d(zero, zero, one)
    vb = d5 * d2 - d1 * d6
    if vb <= zero and d2 >= zero and d6 <= zero:
        w = d2 / (d2 - d6)
        return wp.vec3d(one - w, zero, w)
    va = d3 * d6 - d5 * d4
    if va <= zero and d4 >= d3 and d5 >= d6:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return wp.vec3d(zero, one - w, w)
    total = va + vb + vc
    return wp.vec3d(va / total, vb / total, vc / total)


@wp.kernel(enable_backward=False)
@no_type_check
def _nearest(
    base: int,
    mesh: wp.uint64,
    corners: wp.array(dtype=int),
    vertices: wp.array(dtype=wp.vec3d),
    queries: wp.array(dtype=wp.vec3d),
    points: wp.array(dtype=wp.vec3d),
    weights: wp.array(dtype=wp.vec3d),
    faces: wp.array(dtype=int),
):
    i = base + wp.tid()
    p = queries[i]
    query = wp.mesh_query_point_no_sign(mesh, wp.vec3(float(p[0]), float(p[1]), float(p[2])), 1.0e30)
    a = vertices[corners[3 * query.face]]
    b = vertices[corners[3 * query.face + 1]]
    c = vertices[corners[3 * query.face + 2]]
    weight = _closest_weights(p, a, b, c)
    points[i] = weight[0] * a + weight[1] * b + weight[2] * c
    weights[i] = weight
    faces[i] = query.face
