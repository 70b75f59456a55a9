"""`kaolin.ops.conversions.trianglemesh`."""

from __future__ import annotations

import torch

from ....ops import voxels as ops
from ..._absent import SPC, absent
from .pointcloud import as_grid, normalized

__all__ = ["trianglemeshes_to_voxelgrids", "unbatched_mesh_to_spc"]

unbatched_mesh_to_spc = absent("kaolin.ops.conversions.unbatched_mesh_to_spc", SPC)


def trianglemeshes_to_voxelgrids(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    resolution: int,
    origin: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    return_sparse: bool = False,
) -> torch.Tensor:
    """Voxels that hold a point of a triangle: (B, V, 3) and (F, 3) to (B, R, R, R), 1 where there is one.

    All such voxels are found; Kaolin finds those that hold one of the points it samples.

    Args:
        vertices: Positions.
        faces: The same for the whole batch.
        resolution: R; the centres of the first and the last voxel lie at `origin` and `origin + scale`.
        origin: (B, 3); None: the least coordinates.
        scale: (B,); None: the largest extent from the origin.
        return_sparse: Give a sparse COO tensor.
    """
    places = normalized(vertices, resolution, origin, scale)
    return as_grid(ops.voxelize_surface(places, faces, (resolution,) * 3), vertices.dtype, return_sparse)
