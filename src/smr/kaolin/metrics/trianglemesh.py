"""`kaolin.metrics.trianglemesh`: distances to meshes, edge lengths, smoothing."""

from __future__ import annotations

import torch

from ...ops.mesh.distance import compare_all, corner_types, point_to_triangle_distance
from ...ops.mesh.faces import index_vertices_by_faces
from ...ops.mesh.smoothing import laplacian_smooth
from ...ops.points.neighbors import take_points

__all__ = ["average_edge_length", "point_to_mesh_distance", "uniform_laplacian_smoothing"]

_Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def point_to_mesh_distance(pointclouds: torch.Tensor, face_vertices: torch.Tensor) -> _Found:
    """Squared distances of points (B, N, 3) to triangles (B, F, 3, 3), the nearest face, and where on it.

    Returns:
        (B, N) squared distances, differentiable; (B, N) int64 faces; (B, N) int32 types: 0 inside the face, 1 to 3 at a
        corner, 4 to 6 on an edge.
    """
    found = point_to_triangle_distance(pointclouds, face_vertices)
    return found.squared_distances, found.faces, found.types


class _UnbatchedTriangleDistanceCuda:
    """`point_to_mesh_distance` of one cloud and one mesh, under the name that Kaolin's tests call."""

    @staticmethod
    def apply(points: torch.Tensor, face_vertices: torch.Tensor) -> _Found:
        """(N, 3) and (F, 3, 3) to squared distances, faces and types, (N,) each."""
        return point_to_mesh_distance(points, face_vertices)


def _unbatched_naive_point_to_mesh_distance(points: torch.Tensor, face_vertices: torch.Tensor) -> _Found:
    """The same by comparing all pairs: (N, 3) and (F, 3, 3) to (N,) each."""
    _, faces, weights = (part[0] for part in compare_all(points[None], face_vertices[None]))
    faces = faces.long()
    corners = take_points(face_vertices.reshape(-1, 9), faces).reshape(-1, 3, 3).double()
    offset = (weights[..., None] * (points.double()[:, None] - corners)).sum(dim=1)
    return offset.square().sum(dim=-1).to(points.dtype), faces, corner_types(weights)


def average_edge_length(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Mean length of the sides of all faces: (B, V, 3) and (F, 3) to (B, 1)."""
    corners = index_vertices_by_faces(vertices, faces)
    sides = corners - corners.roll(-1, dims=2)
    return sides.norm(dim=-1).mean(dim=(1, 2))[:, None]


def uniform_laplacian_smoothing(vertices: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Mean of each vertex' neighbours: (B, V, 3) and (F, 3) to (B, V, 3); O(E) memory, not O(V²)."""
    return laplacian_smooth(vertices, faces, 1, 1.0, border="free")
