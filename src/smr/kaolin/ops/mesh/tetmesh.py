"""`kaolin.ops.mesh.tetmesh`."""

from __future__ import annotations

import torch

from ....ops import mesh as ops

__all__ = ["inverse_vertices_offset", "subdivide_tetmesh"]


def _validate_tetrahedrons(tet_vertices: torch.Tensor) -> None:
    """Raise where corners of tetrahedra have not the shape (B, T, 4, 3)."""
    if tet_vertices.dim() != 4 or tet_vertices.shape[2:] != (4, 3):
        raise ValueError(f"tet_vertices must have the shape (B, T, 4, 3), not {tuple(tet_vertices.shape)}")


def inverse_vertices_offset(tet_vertices: torch.Tensor) -> torch.Tensor:
    """Inverse of the edges from corner 0 to the others, as rows: (B, T, 4, 3) to (B, T, 3, 3)."""
    _validate_tetrahedrons(tet_vertices)
    return ops.inverse_offsets(tet_vertices)


def subdivide_tetmesh(
    vertices: torch.Tensor, tetrahedrons: torch.Tensor, features: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """Cut every tetrahedron into eight: new vertices, tetrahedra and, if given, features."""
    new_vertices, new_tetrahedra, new_features = ops.subdivide_tetrahedra(vertices, tetrahedrons, features)
    return (new_vertices, new_tetrahedra) if new_features is None else (new_vertices, new_tetrahedra, new_features)
