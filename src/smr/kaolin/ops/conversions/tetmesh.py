"""`kaolin.ops.conversions.tetmesh`."""

from __future__ import annotations

import torch

from ....ops import voxels as ops

__all__ = ["marching_tetrahedra"]


def marching_tetrahedra(
    vertices: torch.Tensor, tets: torch.Tensor, sdf: torch.Tensor, return_tet_idx: bool = False
) -> tuple[list[torch.Tensor], ...]:
    """The zero level of an SDF on tetrahedra: (B, V, 3), (T, 4), (B, V) to lists of vertices, faces[, tetrahedra]."""
    found = [ops.marching_tetrahedra(places, tets, values) for places, values in zip(vertices, sdf, strict=True)]
    lists = tuple(map(list, zip(*found, strict=True))) if found else ([], [], [])
    return lists if return_tet_idx else lists[:2]
