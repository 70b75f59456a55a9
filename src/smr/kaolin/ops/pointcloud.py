"""`kaolin.ops.pointcloud`: centring, farthest-point sampling."""

from __future__ import annotations

import torch

from ...ops.points import center
from ...ops.points.farthest import pick_farthest

__all__ = ["center_points", "farthest_point_sampling"]


def center_points(points: torch.Tensor, normalize: bool = False, eps: float = 1e-6) -> torch.Tensor:
    """Move the middle of each cloud's box (B, N, 3) to 0; with `normalize` its longest side becomes 1."""
    return center.center_points(points, normalize=normalize, eps=eps)


def farthest_point_sampling(points: torch.Tensor, k: int) -> torch.Tensor:
    """Indices (B, k) of points (B, N, 3), each the farthest from those before; the first is farthest from the mean.

    Points that are not finite are chosen when no others are left. int64, on the device of the points, CPU or CUDA.
    """
    if points.dim() != 3 or points.shape[-1] != 3:
        raise ValueError(f"points must have the shape (B, N, 3), not {tuple(points.shape)}")
    assert k <= points.shape[1], f"k (={k}) must be <= num_points (={points.shape[1]})"
    return pick_farthest(points, k)
