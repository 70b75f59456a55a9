"""Outliers of a cloud, by the distances to neighbours."""

from __future__ import annotations

import torch

from ..tensors import check_number, check_whole
from .distance import root
from .neighbors import as_batch, check_clouds, count_within, find_nearest, squared_distances


def statistical_inliers(points: torch.Tensor, *, neighbors: int = 16, ratio: float = 2.0) -> torch.Tensor:
    """Points whose mean distance to their neighbours is not unusual: bool, (N,) or (B, N).

    Unusual is more than the mean of all points' mean distances plus `ratio` of their standard deviations (Rusu et
    al. 2008). O(N log N) time for each neighbour.

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64.
        neighbors: Neighbours of a point that count, itself not among them; fewer where there are fewer points.
        ratio: Standard deviations above the mean.

    Raises:
        TypeError: Not a floating tensor.
        ValueError: Another shape, a value that is not finite, or a setting below its least.
    """
    check_clouds(points=points)
    neighbors = check_whole("neighbors", neighbors, least=-1)
    ratio = check_number("ratio", ratio)
    if neighbors < 1 or not ratio >= 0:
        raise ValueError(f"neighbors is {neighbors} and ratio {ratio}; they must be at least 1 and 0")
    cloud = as_batch(points.detach())
    k = min(neighbors + 1, cloud.shape[1])
    if k < 2:
        return torch.ones(points.shape[:-1], dtype=torch.bool, device=points.device)
    found = find_nearest(cloud, cloud, k)
    spacing = root(squared_distances(cloud, cloud, found).double()).sum(dim=-1) / (k - 1)
    limit = spacing.mean(dim=1, keepdim=True) + ratio * spacing.std(dim=1, keepdim=True)
    return (spacing <= limit).reshape(points.shape[:-1])


def radius_inliers(points: torch.Tensor, radius: float, *, neighbors: int = 2) -> torch.Tensor:
    """Points with at least so many others within a radius: bool, (N,) or (B, N).

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64.
        radius: In the unit of the points.
        neighbors: Other points that a point needs.

    Raises:
        TypeError: Not a floating tensor.
        ValueError: Another shape, a value that is not finite, or a setting below 0.
    """
    check_clouds(points=points)
    neighbors = check_whole("neighbors", neighbors, least=-1, most=2**31 - 2)
    radius = check_number("radius", radius)
    if neighbors < 0 or not radius >= 0:
        raise ValueError(f"neighbors is {neighbors} and radius {radius}; they must not be negative")
    cloud = as_batch(points.detach())
    return (count_within(cloud, cloud, radius, neighbors + 1) > neighbors).reshape(points.shape[:-1])
