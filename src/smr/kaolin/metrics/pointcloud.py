"""`kaolin.metrics.pointcloud`: distances between point clouds.

Exact nearest neighbours through trees in place of all pairs; works on CPU and CUDA tensors of any number type.
"""

from __future__ import annotations

import torch

from ...ops.points import distance as ops
from ...ops.points.neighbors import compare_all, squared_distances

__all__ = ["chamfer_distance", "f_score", "sided_distance"]


def sided_distance(p1: torch.Tensor, p2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared distance of each point of p1 (B, N, 3) to its nearest in p2 (B, M, 3), and which it is: (B, N) each."""
    _check(p1, p2)
    found = ops.sided_distance(_widened(p1), _widened(p2))
    return found.squared_distances.to(p1.dtype), found.indices


def chamfer_distance(
    p1: torch.Tensor, p2: torch.Tensor, w1: float = 1.0, w2: float = 1.0, squared: bool = True
) -> torch.Tensor:
    """w1 times the mean distance from p1 (B, N, 3) to p2 (B, M, 3), plus w2 times the other way: (B,)."""
    _check(p1, p2)
    found = ops.chamfer_distance(_widened(p1), _widened(p2), weights=(w1, w2), squared=squared)
    return found.to(p1.dtype)


def f_score(
    gt_points: torch.Tensor, pred_points: torch.Tensor, radius: float = 0.01, eps: float = 1e-8
) -> torch.Tensor:
    """Harmonic mean of the shares of points that have a partner within the radius: (B, N, 3), (B, M, 3) to (B,)."""
    _check(gt_points, pred_points)
    return ops.f_score(_widened(gt_points), _widened(pred_points), radius, eps=eps).to(gt_points.dtype)


def _sided_distance(p1: torch.Tensor, p2: torch.Tensor) -> torch.Tensor:
    """Squared distances by comparing all pairs."""
    first, second = _widened(p1), _widened(p2)
    indices = compare_all(first.detach(), second.detach(), 1)[..., 0]
    return squared_distances(first, second, indices).to(p1.dtype)


def _widened(points: torch.Tensor) -> torch.Tensor:
    """float32 and float64 as they are; half precision and integers as float32, whose distances are rounded once."""
    return points if points.dtype in (torch.float32, torch.float64) else points.float()


def _check(p1: torch.Tensor, p2: torch.Tensor) -> None:
    for number, name, points in ((1, "p1", p1), (2, "p2", p2)):
        where = f"for argument #{number} '{name}' (while checking arguments for sided_distance_forward_cuda)"
        if points.dim() != 3:
            raise RuntimeError(f"Expected 3-dimensional tensor, but got {points.dim()}-dimensional tensor {where}")
        expected = [p1.shape[0], points.shape[1], 3]
        if list(points.shape) != expected:
            raise RuntimeError(
                f"Expected tensor of size {expected}, but got tensor of size {list(points.shape)} {where}"
            )
