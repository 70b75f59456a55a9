"""Nearest points of another cloud: exact, through a tree, on the tensors' device."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import numpy as np
import torch
import warp as wp
from scipy.spatial import cKDTree

from ...arrays import cpu_threads
from ..segments import group_rows, segment_sum
from ..tensors import FLOATS, check_finite, check_same_device, check_tensor, check_whole, launch, use_warp
from ..trees import Forest, box_distance, curve_order, curve_through, leaf_start, next_pending, plant

_LEAF = 8
"""Points of a leaf."""
_PAIRS = 2**24
"""Pairs of points that the plain-torch way looks at together."""


class Neighbors(NamedTuple):
    """What `nearest_neighbors` finds; the shapes are those of the queries, with the last axis k where k was given."""

    squared_distances: torch.Tensor
    """In the type of the points; differentiable with respect to both clouds."""
    indices: torch.Tensor
    """int64, into the targets."""


def nearest_neighbors(points: torch.Tensor, targets: torch.Tensor, k: int | None = None) -> Neighbors:
    """The nearest targets of each point, by exact distance.

    O((N + M) log M) time, about 100 bytes a point. Which of several targets at one distance is found depends on where
    they lie and on the kind of device.

    Args:
        points: (B, N, 3) or (N, 3), float32 or float64.
        targets: (B, M, 3) or (M, 3), of the same type.
        k: How many targets a point gets, nearest first, in an axis of their own; None gives one, without that axis.

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, two devices, a value that is not finite, or fewer than k targets.
    """
    check_clouds(points=points, targets=targets)
    wanted = 1 if k is None else check_whole("k", k, least=-1)
    if not 1 <= wanted <= targets.shape[-2]:
        raise ValueError(f"k is {wanted}; it must be from 1 to the {targets.shape[-2]} targets")
    indices = find_nearest(as_batch(points), as_batch(targets), wanted).reshape(*points.shape[:-1], wanted)
    if k is None:
        indices = indices[..., 0]
    return Neighbors(squared_distances(points, targets, indices), indices)


def check_clouds(**clouds: torch.Tensor) -> None:
    """Refuse clouds that are not finite (B, N, 3) or (N, 3) tensors of one type, batch and device."""
    (first, reference), *others = clouds.items()
    for name, cloud in clouds.items():
        leading = (None,) * (cloud.dim() - 1) if isinstance(cloud, torch.Tensor) and cloud.dim() == 3 else (None,)
        check_tensor(name, cloud, (*leading, 3), FLOATS)
    for name, cloud in others:
        if cloud.dtype != reference.dtype:
            raise TypeError(f"{first} and {name} must be of one type, not {reference.dtype} and {cloud.dtype}")
        if cloud.shape[:-2] != reference.shape[:-2]:
            raise ValueError(
                f"{first} and {name} must be batches of one size, not {tuple(reference.shape)} and {tuple(cloud.shape)}"
            )
    check_same_device(**clouds)
    for name, cloud in clouds.items():
        check_finite(name, cloud)


def as_batch(points: torch.Tensor) -> torch.Tensor:
    """(N, 3) or (B, N, 3) as (B, N, 3)."""
    return points if points.dim() == 3 else points[None]


def squared_distances(points: torch.Tensor, targets: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """|points - targets[indices]|², differentiable; indices (..., N) or (..., N, k)."""
    found = take_points(targets, indices)
    own = points if indices.dim() == points.dim() - 1 else points.unsqueeze(-2)
    return (own - found).square().sum(dim=-1)


def take_points(targets: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Rows of each cloud: (..., M, C) at (..., N) or (..., N, k); its gradient adds up in one fixed order."""
    channels = targets.shape[-1]
    if targets.dim() == 2:
        rows = indices.reshape(-1)
    else:
        clouds = targets.shape[0]
        offset = torch.arange(clouds, device=indices.device).reshape(clouds, *(1,) * (indices.dim() - 1))
        rows = (indices + offset * targets.shape[1]).reshape(-1)
    return _TakeRows.apply(targets.reshape(-1, channels), rows).reshape(*indices.shape, channels)


class _TakeRows(torch.autograd.Function):
    """`segments.take_rows`, which sorts the rows only if a gradient asks for it."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(values)
        return values.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        return segment_sum(grads[0], group_rows(ctx.saved_tensors[0], ctx.count)), None


def plant_points(points: torch.Tensor) -> Forest:
    """A tree over each cloud of (B, N, 3)."""
    return plant(points[:, :, None], leaf_size=_LEAF)


def find_nearest(
    points: torch.Tensor,
    targets: torch.Tensor,
    k: int = 1,
    *,
    forest: Forest | None = None,
    order: torch.Tensor | None = None,
) -> torch.Tensor:
    """Indices (B, N, k) of the nearest targets, nearest first; nothing is checked.

    Args:
        points: (B, N, 3).
        targets: (B, M, 3).
        k: From 1 to M.
        forest: The targets' tree, where it is there already.
        order: int32 (B, N), the points along a curve, where it is known.
    """
    clouds, count = points.shape[:2]
    if clouds * count == 0:
        return torch.empty(clouds, count, k, dtype=torch.int64, device=points.device)
    if not use_warp():
        return compare_all(points.detach(), targets.detach(), k)
    if points.device.type == "cpu" and forest is None:
        return _search_kd_trees(points.detach(), targets.detach(), k)
    return walk_forest(points, k, forest or plant_points(targets), order)


def _search_kd_trees(points: torch.Tensor, targets: torch.Tensor, k: int) -> torch.Tensor:
    """SciPy's tree, on all cores: on a CPU faster than ours, twice so with the points along a curve."""
    found = np.empty((*points.shape[:2], k), dtype=np.int64)
    order = curve_through(points).numpy()
    for b, (cloud, target) in enumerate(zip(points.numpy(), targets.numpy(), strict=True)):
        nearest = cKDTree(target).query(cloud[order[b]], k, workers=cpu_threads())[1]
        found[b, order[b]] = nearest.reshape(len(cloud), k)
    return torch.from_numpy(found)


def walk_forest(points: torch.Tensor, k: int, forest: Forest, order: torch.Tensor | None = None) -> torch.Tensor:
    """`find_nearest` through a tree of the targets; there are points."""
    inputs, count = _queries(points, forest, order)
    found = torch.zeros((count, k), dtype=torch.int32, device=points.device)
    if k == 1:
        launch(_find_one, count, inputs, outputs=[found], like=points)
    else:
        distances = torch.full((count, k), torch.inf, dtype=torch.float64, device=points.device)
        launch(_find_k, count, inputs, outputs=[distances, found], like=points)
    return found.reshape(*points.shape[:2], k).long()


def count_within(points: torch.Tensor, targets: torch.Tensor, radius: float, most: int) -> torch.Tensor:
    """How many targets (B, M, 3) lie within a radius of each point, counted up to `most`: int64 (B, N); unchecked."""
    counts = torch.zeros(points.shape[:2], dtype=torch.int32, device=points.device)
    if counts.numel() == 0 or targets.shape[1] == 0:
        return counts.long()
    if use_warp():
        inputs, count = _queries(points, plant_points(targets), None)
        launch(_count, count, [*inputs, radius**2, most], outputs=[counts], like=points)
        return counts.long()
    exact = points.detach().double(), targets.detach().double()
    block = max(1, _PAIRS // (targets.shape[1] * len(points)))
    parts = [
        ((part[:, :, None] - exact[1][:, None]).square().sum(dim=-1) <= radius**2).sum(dim=-1)
        for part in exact[0].split(block, dim=1)
    ]
    return torch.cat(parts, dim=1).clamp(max=most)


def _queries(points: torch.Tensor, forest: Forest, order: torch.Tensor | None) -> tuple[list[Any], int]:
    """What all walks begin with, and the number of points."""
    exact = points.detach().double()
    order = curve_order(exact, forest) if order is None else order
    return [exact.contiguous(), order, points.shape[1], *forest.as_inputs()], order.numel()


def compare_all(points: torch.Tensor, targets: torch.Tensor, k: int) -> torch.Tensor:
    """The plain way to `find_nearest`: all pairs, a block of points at a time."""
    block = max(1, _PAIRS // (targets.shape[1] * len(points)))
    parts = []
    for part in points.double().split(block, dim=1):
        pairs = (part[:, :, None] - targets.double()[:, None]).square().sum(dim=-1)
        parts.append(pairs.sort(dim=-1, stable=True).indices[..., :k])
    return torch.cat(parts, dim=1)


@wp.func
@no_type_check
def _squared(a: wp.vec3d, b: wp.vec3d):
    # In the order of box_distance, so that its bound holds exactly.
    x = a[0] - b[0]
    y = a[1] - b[1]
    z = a[2] - b[2]
    return x * x + y * y + z * z


@wp.kernel(enable_backward=False)
@no_type_check
def _find_one(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    point_order: wp.array(dtype=int),
    point_count: int,
    targets: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    found: wp.array(dtype=int),
):
    i = base + wp.tid()
    cloud = i / point_count
    item = cloud * point_count + point_order[i]
    p = points[item]
    local = p - origin[cloud]
    leaves = 1 << depth
    root = cloud * 2 * leaves
    first = cloud * count
    best = wp.float64(1.0e300)
    best_target = int(0)
    node = int(1)
    trail = wp.uint32(1)
    while node > 0:
        if node >= leaves:
            leaf = node - leaves
            for k in range(first + leaf_start(leaf, count, depth), first + leaf_start(leaf + 1, count, depth)):
                distance = _squared(targets[k, 0], p)
                if distance < best:
                    best = distance
                    best_target = order[k]
        else:
            left = box_distance(boxes, root + 2 * node, local)
            right = box_distance(boxes, root + 2 * node + 1, local)
            if wp.min(left, right) < best:
                node = 2 * node
                if right < left:
                    node = node + 1
                trail = trail << wp.uint32(1)
                if wp.max(left, right) < best:
                    trail = trail | wp.uint32(1)
                continue
        node, trail = next_pending(node, trail)
        while node > 0 and box_distance(boxes, root + node, local) >= best:
            node, trail = next_pending(node, trail)
    found[item] = best_target


@wp.kernel(enable_backward=False)
@no_type_check
def _find_k(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    point_order: wp.array(dtype=int),
    point_count: int,
    targets: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    distances: wp.array2d(dtype=wp.float64),
    found: wp.array2d(dtype=int),
):
    i = base + wp.tid()
    cloud = i / point_count
    item = cloud * point_count + point_order[i]
    p = points[item]
    local = p - origin[cloud]
    leaves = 1 << depth
    root = cloud * 2 * leaves
    first = cloud * count
    last = found.shape[1] - 1
    worst = distances[item, last]
    node = int(1)
    trail = wp.uint32(1)
    while node > 0:
        if node >= leaves:
            leaf = node - leaves
            for k in range(first + leaf_start(leaf, count, depth), first + leaf_start(leaf + 1, count, depth)):
                distance = _squared(targets[k, 0], p)
                if distance < worst:
                    place = int(last)
                    while place > 0 and distances[item, wp.max(place - 1, 0)] > distance:
                        distances[item, place] = distances[item, place - 1]
                        found[item, place] = found[item, place - 1]
                        place -= 1
                    distances[item, place] = distance
                    found[item, place] = order[k]
                    worst = distances[item, last]
        else:
            left = box_distance(boxes, root + 2 * node, local)
            right = box_distance(boxes, root + 2 * node + 1, local)
            if wp.min(left, right) < worst:
                node = 2 * node
                if right < left:
                    node = node + 1
                trail = trail << wp.uint32(1)
                if wp.max(left, right) < worst:
                    trail = trail | wp.uint32(1)
                continue
        node, trail = next_pending(node, trail)
        while node > 0 and box_distance(boxes, root + node, local) >= worst:
            node, trail = next_pending(node, trail)


@wp.kernel(enable_backward=False)
@no_type_check
def _count(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    point_order: wp.array(dtype=int),
    point_count: int,
    targets: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    reach_sq: wp.float64,
    most: int,
    counts: wp.array(dtype=int),
):
    i = base + wp.tid()
    cloud = i / point_count
    item = cloud * point_count + point_order[i]
    p = points[item]
    local = p - origin[cloud]
    leaves = 1 << depth
    root = cloud * 2 * leaves
    first = cloud * count
    total = int(0)
    node = int(1)
    trail = wp.uint32(1)
    while node > 0 and total < most:
        if box_distance(boxes, root + node, local) <= reach_sq:
            if node < leaves:
                node = 2 * node
                trail = (trail << wp.uint32(1)) | wp.uint32(1)
                continue
            leaf = node - leaves
            for k in range(first + leaf_start(leaf, count, depth), first + leaf_start(leaf + 1, count, depth)):
                if _squared(targets[k, 0], p) <= reach_sq:
                    total += 1
        node, trail = next_pending(node, trail)
    counts[item] = wp.min(total, most)
