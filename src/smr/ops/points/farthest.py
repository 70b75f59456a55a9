"""Farthest-point sampling: exact, the same on every device."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import no_type_check

import torch
import warp as wp

from ..tensors import launch, use_warp
from ..trees import box_distance, leaf_start, plant
from .farthest_gpu import BLOCK, MOST_BUCKETS, pick_on_gpu
from .neighbors import check_clouds

_BUCKET = {"cpu": 64, "cuda": 32}
"""Points of a bucket."""
_TAKEN = -2.0
_LAST = -1.0
"""Distances of points that were chosen, and of those that are chosen only when no other is left."""


def sample_farthest_points(points: torch.Tensor, count: int, *, start: int | None = None) -> torch.Tensor:
    """Indices of `count` points, each the farthest from all that were chosen before it: int64 (B, count) or (count,).

    Points lie in buckets along a space-filling curve; a bucket whose box is farther from the new point than its own
    points are from the chosen ones is left alone, so that a point is looked at about log(count) times and not `count`
    times. Of several points at one distance the first is chosen. Memory: about 100 bytes a point.

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64.
        count: From 0 to N.
        start: The first point; None takes the one farthest from the mean.

    Raises:
        TypeError: Not a floating tensor.
        ValueError: Another shape, a value that is not finite, or `count` or `start` out of range.
    """
    check_clouds(points=points)
    if not 0 <= count <= points.shape[-2]:
        raise ValueError(f"count is {count}; it must be from 0 to the {points.shape[-2]} points")
    if start is not None and not 0 <= start < points.shape[-2]:
        raise ValueError(f"start is {start}; it must be an index into {points.shape[-2]} points")
    return pick_farthest(points, count, start=start)


def pick_farthest(points: torch.Tensor, count: int, *, start: int | None = None) -> torch.Tensor:
    """`sample_farthest_points` without checks; points that are not finite are chosen last."""
    clouds = points.detach().reshape(-1, *points.shape[-2:])
    if count == 0 or clouds.numel() == 0:
        return torch.empty(*points.shape[:-2], count, dtype=torch.int64, device=points.device)
    finite = clouds.isfinite().all(dim=-1, keepdim=True)
    exact = torch.where(finite, clouds, 0).double()
    middle = exact.sum(dim=1, keepdim=True) / finite.sum(dim=1, keepdim=True).clamp(min=1)
    if start is None:
        away = (exact - middle).square().sum(dim=-1)
        first = torch.where(finite[..., 0], away, _LAST).max(dim=1).indices
    else:
        first = torch.full((len(clouds),), start, device=points.device)
    distances = torch.where(finite[..., 0], torch.inf, _LAST).double()
    places = torch.where(finite, clouds, middle.to(clouds.dtype))
    pick = _pick_by_buckets if use_warp() else _pick_plainly
    return pick(places, distances, first, count).reshape(*points.shape[:-2], count)


def _pick_plainly(places: torch.Tensor, distances: torch.Tensor, first: torch.Tensor, count: int) -> torch.Tensor:
    """The plain way: all distances anew for every point."""
    rows = torch.arange(len(places), device=places.device)
    exact = places.double()
    chosen = [first]
    for _ in range(count - 1):
        latest = chosen[-1]
        away = (exact - exact[rows, latest][:, None]).square().sum(dim=-1)
        usable = (distances >= 0) & (distances[rows, latest][:, None] >= 0)
        distances = torch.where(usable, torch.minimum(distances, away), distances)
        distances[rows, latest] = _TAKEN
        best = distances.max(dim=1, keepdim=True).values
        chosen.append((distances == best).int().argmax(dim=1))
    return torch.stack(chosen, dim=1)


def _pick_by_buckets(places: torch.Tensor, distances: torch.Tensor, first: torch.Tensor, count: int) -> torch.Tensor:
    clouds, total = places.shape[:2]
    on_gpu = places.is_cuda
    most = MOST_BUCKETS if on_gpu else total
    forest = plant(places[:, :, None], leaf_size=max(_BUCKET[places.device.type], -(-total // most)))
    order = forest.order.long()
    numbers = torch.arange(total, dtype=torch.int32, device=places.device).expand_as(order)
    place_of = torch.empty_like(forest.order).scatter_(1, order, numbers)
    distances = distances.gather(1, order)
    chosen = torch.empty((clouds, count), dtype=torch.int32, device=places.device)
    chosen[:, 0] = first
    if on_gpu:
        inputs = [place_of.gather(1, first[:, None]), *forest.as_inputs()]
        launch(pick_on_gpu, clouds * int(BLOCK), inputs, outputs=[distances, chosen], like=places, block_dim=int(BLOCK))
        return chosen.long()
    tops = torch.empty((clouds, 1 << forest.depth), dtype=torch.float64, device=places.device)
    champions = torch.empty((clouds, 1 << forest.depth), dtype=torch.int32, device=places.device)
    outputs = [distances, tops, champions, chosen]
    launch(_pick, clouds, [place_of, *forest.as_inputs()], outputs=outputs, like=places)
    return chosen.long()


@wp.kernel(enable_backward=False)
@no_type_check
def _pick(
    base: int,
    place_of: wp.array2d(dtype=int),
    places: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    distances: wp.array(dtype=wp.float64),
    tops: wp.array2d(dtype=wp.float64),
    champions: wp.array2d(dtype=int),
    chosen: wp.array2d(dtype=int),
):
    """A thread for a cloud; the first step looks into all buckets."""
    cloud = base + wp.tid()
    leaves = 1 << depth
    root = cloud * 2 * leaves + leaves
    first = cloud * count
    latest = int(chosen[cloud, 0])
    usable = bool(distances[first + place_of[cloud, latest]] >= wp.float64(0.0))
    for step in range(1, chosen.shape[1]):
        taken = place_of[cloud, latest]
        p = places[first + taken, 0]
        local = p - origin[cloud]
        holder = int((wp.int64(taken + 1) * wp.int64(leaves) - wp.int64(1)) / wp.int64(count))
        best = wp.float64(-4.0)
        best_point = int(2147483647)
        for leaf in range(leaves):
            top = tops[cloud, leaf]
            if leaf == holder or step == 1 or (usable and box_distance(boxes, root + leaf, local) < top):
                top = wp.float64(-4.0)
                champion = int(2147483647)
                for k in range(leaf_start(leaf, count, depth), leaf_start(leaf + 1, count, depth)):
                    distance = distances[first + k]
                    if usable and distance > wp.float64(0.0):
                        away = places[first + k, 0] - p
                        distance = wp.min(distance, wp.dot(away, away))
                    if k == taken:
                        distance = wp.float64(-2.0)
                    distances[first + k] = distance
                    if distance >= top:
                        point = order[first + k]
                        if distance > top or point < champion:
                            top = distance
                            champion = point
                tops[cloud, leaf] = top
                champions[cloud, leaf] = champion
            if top >= best:
                point = champions[cloud, leaf]
                if top > best or point < best_point:
                    best = top
                    best_point = point
        latest = best_point
        usable = best >= wp.float64(0.0)
        chosen[cloud, step] = latest
