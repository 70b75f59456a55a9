"""Thinning clouds on a grid."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..segments import Segments, group_rows, segment_sum
from ..tensors import FLOATS, check_finite, check_number, check_same_device, check_tensor

_MOST = 2**20
"""Voxels along an axis, so that a voxel's number fits into 64 bits."""


class Downsampled(NamedTuple):
    """One point for each voxel that holds any."""

    points: torch.Tensor
    """(V, 3), mean of the points in a voxel; differentiable."""
    features: torch.Tensor | None
    """(V, C), mean of their features, where there were any."""
    voxels: torch.Tensor
    """int64 (N,), which of the V a point went into."""
    counts: torch.Tensor
    """int64 (V,), how many went into each."""


def voxel_downsample(points: torch.Tensor, size: float, features: torch.Tensor | None = None) -> Downsampled:
    """Mean of the points of each voxel of a grid whose corner is the origin; O(N log N) time.

    Args:
        points: (N, 3), float32 or float64.
        size: Side of a voxel, in the unit of the points.
        features: (N, C), such as colours or normals, averaged alike.

    Raises:
        TypeError: Not floating tensors.
        ValueError: Other shapes, two devices, a value that is not finite, a size that is not above 0, or a grid of
            more than 2^20 voxels along an axis.
    """
    check_tensor("points", points, (None, 3), FLOATS)
    if features is not None:
        check_tensor("features", features, (len(points), None), FLOATS)
        check_same_device(points=points, features=features)
        check_finite("features", features)
    check_finite("points", points)
    groups = group_by_voxel(points.detach(), size)
    return Downsampled(
        segment_mean(points, groups),
        None if features is None else segment_mean(features, groups),
        groups.index,
        groups.sizes,
    )


def group_by_voxel(points: torch.Tensor, size: float) -> Segments:
    """Group (N, 3) points by the voxel that they lie in; voxels in the order of x, y, z."""
    size = check_number("size", size)
    if not 0 < size < float("inf"):
        raise ValueError(f"size is {size}; a voxel's side must be above 0 and finite")
    cells = (points.double() / size).floor()
    if len(points):
        cells = cells - cells.amin(dim=0)
        widest = float(cells.amax())
        if widest >= _MOST:
            raise ValueError(
                f"size is {size}, which makes {widest + 1:.0f} voxels along an axis; at most {_MOST} are possible"
            )
    cells = cells.long()
    keys = (cells[:, 0] * _MOST + cells[:, 1]) * _MOST + cells[:, 2]
    found, index = torch.unique(keys, return_inverse=True)
    return group_rows(index, len(found))


def segment_mean(values: torch.Tensor, groups: Segments) -> torch.Tensor:
    """Mean of each group's rows (N, C)."""
    return segment_sum(values, groups) / groups.sizes[:, None]


def keep_per_voxel(points: torch.Tensor, size: float, most: int) -> torch.Tensor:
    """Which of (N, 3) points remain, bool (N,), where a voxel keeps its first `most`."""
    if most < 1:
        raise ValueError(f"at least one point must be kept in a voxel, not {most}")
    groups = group_by_voxel(points, size)
    places = torch.arange(len(points), device=points.device)
    rank = torch.empty_like(places)
    rank[groups.order] = places - groups.offsets[groups.index[groups.order]]
    return rank < most
