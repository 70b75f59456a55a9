"""Distances between clouds: one-sided, Chamfer, F-score."""

from __future__ import annotations

import torch

from ..tensors import check_number, use_warp
from .neighbors import Neighbors, as_batch, check_clouds, find_nearest, plant_points, squared_distances


def sided_distance(points: torch.Tensor, targets: torch.Tensor) -> Neighbors:
    """Squared distance of each point to the nearest target, and which it is; see `nearest_neighbors`."""
    check_pair(points=points, targets=targets)
    indices = find_nearest(as_batch(points), as_batch(targets))[..., 0].reshape(points.shape[:-1])
    return Neighbors(squared_distances(points, targets, indices), indices)


def chamfer_distance(
    first: torch.Tensor, second: torch.Tensor, *, weights: tuple[float, float] = (1.0, 1.0), squared: bool = True
) -> torch.Tensor:
    """Mean distance from the first cloud to the second, plus the mean of the other way: (B,) or a scalar.

    Differentiable with respect to both clouds. O((N + M) log(N + M)) time, about 200 bytes a point.

    Args:
        first: (B, N, 3) or (N, 3), float32 or float64.
        second: (B, M, 3) or (M, 3), of the same type.
        weights: Of the two means.
        squared: Squared distances; else plain ones, whose gradient at distance 0 is taken as 0.

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, two devices, no points, or a value that is not finite.
    """
    check_pair(first=first, second=second)
    distances = [d if squared else root(d) for d in both_ways(first, second)]
    means = [d.mean(dim=-1) for d in distances]
    return weights[0] * means[0] + weights[1] * means[1]


def f_score(truth: torch.Tensor, points: torch.Tensor, distance: float, *, eps: float = 1e-8) -> torch.Tensor:
    """Harmonic mean of the shares of both clouds that lie within a distance of the other: (B,) or a scalar.

    Not differentiable.

    Args:
        truth: (B, N, 3) or (N, 3), float32 or float64.
        points: (B, M, 3) or (M, 3), of the same type.
        distance: Up to where a point counts, in the unit of the points.
        eps: Added to the sum that is divided by, so that clouds without any match score 0.

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, two devices, no points, a value that is not finite, or a negative distance.
    """
    check_pair(truth=truth, points=points)
    distance = check_number("distance", distance)
    if not distance >= 0:
        raise ValueError(f"distance is {distance}; it must not be negative")
    missed, wrong = both_ways(truth.detach(), points.detach())
    recall = (root(missed) <= distance).to(points.dtype).mean(dim=-1)
    precision = (root(wrong) <= distance).to(points.dtype).mean(dim=-1)
    return 2 * precision * recall / (precision + recall + eps)


def both_ways(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared distances of each point to the other cloud's nearest; unchecked."""
    a, b = as_batch(first), as_batch(second)
    if use_warp() and a.is_cuda:  # a tree's own order serves as that of its points in the other tree
        trees = plant_points(a), plant_points(b)
        onto = find_nearest(a, b, forest=trees[1], order=trees[0].order)
        back = find_nearest(b, a, forest=trees[0], order=trees[1].order)
    else:
        onto, back = find_nearest(a, b), find_nearest(b, a)
    return (
        squared_distances(first, second, onto[..., 0].reshape(first.shape[:-1])),
        squared_distances(second, first, back[..., 0].reshape(second.shape[:-1])),
    )


def root(squared: torch.Tensor) -> torch.Tensor:
    """Square root whose gradient at 0 is 0 and not infinite."""
    away = squared > 0
    return torch.where(away, torch.where(away, squared, 1).sqrt(), 0)


def check_pair(**clouds: torch.Tensor) -> None:
    """Refuse two clouds between which there is no distance."""
    check_clouds(**clouds)
    for name, cloud in clouds.items():
        if cloud.shape[-2] == 0:
            raise ValueError(f"the {name} cloud has no points; a distance needs at least one in each")
