"""`kaolin.ops.mesh.mesh`: polygons of any size, vertices and what the faces around give them."""

from __future__ import annotations

import torch

from ....errors import SmrError
from ....ops import mesh as ops

__all__ = [
    "adjacency_matrix",
    "average_face_vertex_features",
    "compute_vertex_normals",
    "index_vertices_by_faces",
    "uniform_laplacian",
    "unindex_vertices_by_faces",
]

LARGEST_DENSE = 20_000
"""Vertices up to which a dense matrix is made: 1.6 GB."""


def index_vertices_by_faces(vertices_features: torch.Tensor, faces: torch.Tensor) -> torch.Tensor:
    """Features of the corners of faces: (B, V, C) and (F, S) to (B, F, S, C)."""
    return ops.index_vertices_by_faces(vertices_features, faces)


def unindex_vertices_by_faces(face_vertex_features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A vertex for each corner: ([B,] F, S, C) to ([B,] F * S, C) and faces (F, S)."""
    return ops.unindex_vertices_by_faces(face_vertex_features)


def adjacency_matrix(num_vertices: int, faces: torch.Tensor, sparse: bool = True) -> torch.Tensor:
    """V×V matrix with a one for every pair of neighbours, float32, sparse COO or dense.

    Raises:
        SmrError: Dense, and more than 20 000 vertices.
    """
    if not sparse:
        _check_dense("adjacency_matrix", num_vertices, "Leave sparse=True.")
    matrix = ops.adjacency_matrix(faces, num_vertices)
    return matrix if sparse else matrix.to_dense()


def uniform_laplacian(num_vertices: int, faces: torch.Tensor) -> torch.Tensor:
    """Dense V×V Laplacian: -1 on the diagonal, one over the number of neighbours beside it.

    Raises:
        SmrError: More than 20 000 vertices.
    """
    _check_dense(
        "uniform_laplacian", num_vertices, "Use smr.ops.mesh.uniform_laplacian(faces, num_vertices), which is sparse."
    )
    return ops.uniform_laplacian(faces, num_vertices).to_dense()


def _check_dense(name: str, num_vertices: int, cure: str) -> None:
    if num_vertices > LARGEST_DENSE:
        size = num_vertices**2 * 4 / 1e9
        raise SmrError(f"{name} of {num_vertices} vertices as a dense matrix would take {size:.0f} GB.", cure)


def average_face_vertex_features(
    faces: torch.Tensor, face_features: torch.Tensor, num_vertices: int | None = None
) -> torch.Tensor:
    """Mean at each vertex of the features that its corners of faces have: (B, F, S, C) to (B, V, C)."""
    count = (int(faces.max()) + 1 if faces.numel() else 0) if num_vertices is None else num_vertices
    return ops.average_at_vertices(faces, face_features, count)


def compute_vertex_normals(
    faces: torch.Tensor, face_normals: torch.Tensor, num_vertices: int | None = None
) -> torch.Tensor:
    """Mean at each vertex of the normals that its corners of faces have: (B, F, S, 3) to (B, V, 3); not normalised."""
    return average_face_vertex_features(faces, face_normals, num_vertices)
