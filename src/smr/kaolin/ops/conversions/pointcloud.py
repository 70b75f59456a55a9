"""`kaolin.ops.conversions.pointcloud`."""

from __future__ import annotations

import torch

from ....ops import voxels as ops
from ..._absent import SPC, absent

__all__ = ["pointclouds_to_voxelgrids", "unbatched_pointcloud_to_spc"]

unbatched_pointcloud_to_spc = absent("kaolin.ops.conversions.unbatched_pointcloud_to_spc", SPC)


def pointclouds_to_voxelgrids(
    pointclouds: torch.Tensor,
    resolution: int,
    origin: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    return_sparse: bool = False,
) -> torch.Tensor:
    """Voxels that hold a point: (B, N, 3) to (B, R, R, R) of the points' type, 1 where there is one.

    Args:
        pointclouds: Positions.
        resolution: R; the centres of the first and the last voxel lie at `origin` and `origin + scale`.
        origin: (B, 3); None: the least coordinates.
        scale: (B,); None: the largest extent from the origin.
        return_sparse: Give a sparse COO tensor.
    """
    places = normalized(pointclouds, resolution, origin, scale)
    return as_grid(ops.voxelize_points(places, (resolution,) * 3), pointclouds.dtype, return_sparse)


def normalized(
    points: torch.Tensor, resolution: int, origin: torch.Tensor | None, scale: torch.Tensor | None
) -> torch.Tensor:
    """Positions (B, N, 3) in units of voxels."""
    if not isinstance(resolution, int):
        raise TypeError(f"Expected resolution to be int but got {type(resolution)}.")
    if resolution < 1:
        raise ValueError(f"resolution must be at least 1, not {resolution}")
    if points.dim() != 3 or points.shape[2] != 3:
        raise ValueError(f"expected positions of the shape (B, N, 3), not {tuple(points.shape)}")
    if not points.shape[1]:
        return points
    if origin is None:
        origin = points.amin(dim=1)
    moved = points - origin[:, None]
    if scale is None:
        scale = moved.amax(dim=(1, 2))
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))  # all in one place
    return moved / scale[:, None, None] * (resolution - 1)


def as_grid(filled: torch.Tensor, dtype: torch.dtype, sparse: bool) -> torch.Tensor:
    """Ones and zeros of a type, dense or as a sparse COO tensor."""
    if not sparse:
        return filled.to(dtype)
    index = filled.nonzero().T
    ones = torch.ones(index.shape[1], dtype=dtype, device=filled.device)
    return torch.sparse_coo_tensor(index, ones, filled.shape, check_invariants=False).coalesce()
