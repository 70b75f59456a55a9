"""`kaolin.metrics.tetmesh`."""

from __future__ import annotations

import torch

from ...ops.mesh import tetrahedra as ops
from ..ops.mesh.tetmesh import _validate_tetrahedrons

__all__ = ["amips", "equivolume", "tetrahedron_volume"]


def tetrahedron_volume(tet_vertices: torch.Tensor) -> torch.Tensor:
    """Signed volumes, negative for (0, 0, 0) and the unit vectors: (B, T, 4, 3) to (B, T)."""
    _validate_tetrahedrons(tet_vertices)
    return -ops.tetrahedron_volumes(tet_vertices)


def equivolume(tet_vertices: torch.Tensor, tetrahedrons_mean: torch.Tensor | None = None, pow: int = 4) -> torch.Tensor:
    """How unequal the volumes of tetrahedra are: (B, T, 4, 3) to (B, 1)."""
    _validate_tetrahedrons(tet_vertices)
    return ops.equal_volume_loss(tet_vertices, tetrahedrons_mean, pow)


def amips(tet_vertices: torch.Tensor, inverse_offset_matrix: torch.Tensor) -> torch.Tensor:
    """How distorted tetrahedra are against their rest shapes: (B, T, 4, 3) and (B, T, 3, 3) to (B, 1)."""
    _validate_tetrahedrons(tet_vertices)
    return ops.amips_loss(tet_vertices, inverse_offset_matrix)
