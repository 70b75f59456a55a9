"""Bounding-volume trees over points or triangles: what nearest, inside and radius queries walk through.

Items are sorted along a Hilbert curve and halved until a leaf holds a few; the tree is complete, so that a node's
children are 2 n and 2 n + 1 (the root is 1) and nothing but boxes is stored. A batch has one tree a cloud, all of one
shape, in one array. Building sorts once and reads each item once: O(N log N) time, about 60 bytes a
point and 110 a triangle.
"""

# ruff: noqa: UP018
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import torch
import warp as wp

from .tensors import launch

_BITS = 20
"""Bits of a coordinate on the Hilbert curve."""
_MOST = 2**30
"""Items or points of a batch, whose numbers, and twice those of nodes, are 32-bit integers."""


@dataclass(frozen=True)
class Forest:
    """One tree for each of B clouds of N items."""

    items: torch.Tensor
    """float64 (B, N, corners, 3), the points or triangles themselves, along the curve."""
    order: torch.Tensor
    """int32 (B, N), their numbers before they were sorted."""
    boxes: torch.Tensor
    """float32 (B * 2 * leaves, 2, 3), lowest and highest corner of each node, relative to `origin`."""
    origin: torch.Tensor
    """float64 (B, 3), what boxes are relative to; 0 where the items came in float32."""
    frame: torch.Tensor
    """float64 (B, 4), corner and side of the cube that the curve fills."""
    depth: int
    """Levels below the root; a tree has 2^depth leaves."""

    @property
    def count(self) -> int:
        """Items of a cloud."""
        return self.order.shape[1]

    def as_inputs(self) -> list[torch.Tensor | int]:
        """What a kernel needs to walk: items, their numbers, boxes, origin, items and levels of a tree."""
        items = self.items.reshape(-1, *self.items.shape[2:])
        return [items, self.order, self.boxes, self.origin, self.count, self.depth]


def plant(items: torch.Tensor, *, leaf_size: int) -> Forest:
    """Build trees over points (B, N, 1, 3) or triangles (B, N, 3, 3), N at least 1.

    Boxes are kept in float32, rounded outwards. float32 items keep their own values, so that bounds are exact;
    float64 items are taken relative to the middle of their cloud first.
    """
    items = items.detach()
    clouds, count, corners = items.shape[:3]
    _refuse_more(clouds * count)
    low, high = torch.aminmax(items.reshape(clouds, count * corners, 3), dim=1)
    low, high = low.double(), high.double()
    origin = torch.zeros_like(low) if items.dtype == torch.float32 else (0.5 * (low + high)).float().double()
    frame = torch.cat([low, (high - low).amax(dim=1, keepdim=True)], dim=1)
    depth = max(0, -(-count // leaf_size) - 1).bit_length()
    exact = items.double()
    order = _along_curve(exact[:, :, 0] if corners == 1 else exact.mean(dim=2), frame)
    rows = order.long() + count * torch.arange(clouds, device=items.device)[:, None]
    along = exact.reshape(clouds * count, corners * 3).index_select(0, rows.reshape(-1))
    along = along.reshape(clouds, count, corners, 3)
    boxes = torch.empty(clouds * 2 << depth, 2, 3, dtype=torch.float32, device=items.device)
    inputs = [along.reshape(-1, corners, 3), origin, count, depth]
    launch(_bound_leaves, clouds << depth, inputs, outputs=[boxes], like=items)
    level = depth
    while level > 0:  # three levels a launch
        rise = min(3, level)
        level -= rise
        launch(_bound_nodes, clouds << level, [level, rise, depth], outputs=[boxes], like=items)
    return Forest(along, order, boxes, origin, frame, depth)


def curve_order(points: torch.Tensor, forest: Forest) -> torch.Tensor:
    """Order of float64 points (B, M, 3) along the curve of each cloud's tree: int32 (B, M).

    Neighbours in this order walk through the same nodes, which keeps a GPU's threads together and a CPU's cache warm.
    """
    return _along_curve(points, forest.frame)


def curve_through(points: torch.Tensor) -> torch.Tensor:
    """Order of points (B, N, 3) along a curve through their own boxes: int32 (B, N)."""
    low, high = torch.aminmax(points, dim=1)
    frame = torch.cat([low, (high - low).amax(dim=1, keepdim=True)], dim=1).double()
    return _along_curve(points.double(), frame)


def _along_curve(points: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
    _refuse_more(points.shape[0] * points.shape[1])
    codes = torch.empty(points.shape[:2], dtype=torch.int64, device=points.device)
    launch(_hilbert, codes.numel(), [points.contiguous(), frame, points.shape[1]], outputs=[codes], like=points)
    if codes.device.type == "cpu":  # NumPy sorts several times as fast as torch here
        return torch.from_numpy(codes.numpy().argsort(axis=1, kind="stable").astype(np.int32))
    return torch.sort(codes, dim=1, stable=True).indices.int()


def _refuse_more(count: int) -> None:
    if count > _MOST:
        raise ValueError(f"{count} points or faces in a batch are too many for one call; at most {_MOST} are possible")


@wp.func
@no_type_check
def _cell(value: wp.float64):
    """A share of the cube's side as an integer; outside the cube its border, and 0 for NaN."""
    if not value > wp.float64(0.0):
        return wp.int64(0)
    return wp.int64(wp.min(value, wp.float64(1.0)) * wp.float64((1 << _BITS) - 1))


@wp.func
@no_type_check
def _spread(x: wp.int64):
    """Bit k of 20 to bit 3 k."""
    x = (x | (x << wp.int64(32))) & wp.int64(0x1F00000000FFFF)
    x = (x | (x << wp.int64(16))) & wp.int64(0x1F0000FF0000FF)
    x = (x | (x << wp.int64(8))) & wp.int64(0x100F00F00F00F00F)
    x = (x | (x << wp.int64(4))) & wp.int64(0x10C30C30C30C30C3)
    return (x | (x << wp.int64(2))) & wp.int64(0x1249249249249249)


@wp.kernel(enable_backward=False)
@no_type_check
def _hilbert(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    frame: wp.array(dtype=wp.vec4d),
    count: int,
    codes: wp.array(dtype=wp.int64),
):
    # Skilling 2004, Programming the Hilbert curve: from coordinates to the transposed index.
    i = base + wp.tid()
    cube = frame[i / count]
    scale = wp.float64(0.0)
    if cube[3] > wp.float64(0.0):
        scale = wp.float64(1.0) / cube[3]
    p = points[i]
    x = _cell((p[0] - cube[0]) * scale)
    y = _cell((p[1] - cube[1]) * scale)
    z = _cell((p[2] - cube[2]) * scale)
    one = wp.int64(1)
    level = wp.int64(_BITS - 1)
    while level > wp.int64(0):  # without branches, which would be guessed wrong half of the time
        below = (one << level) - one
        x = x ^ (below & -((x >> level) & one))
        mask = -((y >> level) & one)
        t = (x ^ y) & below & ~mask
        x = x ^ t ^ (below & mask)
        y = y ^ t
        mask = -((z >> level) & one)
        t = (x ^ z) & below & ~mask
        x = x ^ t ^ (below & mask)
        z = z ^ t
        level = level - one
    y = y ^ x
    z = z ^ y
    flip = wp.int64(0)
    level = wp.int64(_BITS - 1)
    while level > wp.int64(0):
        flip = flip ^ (((one << level) - one) & -((z >> level) & one))
        level = level - one
    codes[i] = (_spread(x ^ flip) << wp.int64(2)) | (_spread(y ^ flip) << wp.int64(1)) | _spread(z ^ flip)


@wp.func
@no_type_check
def leaf_start(leaf: int, count: int, depth: int):
    """Place along the curve where a leaf's items begin."""
    return int((wp.int64(leaf) * wp.int64(count)) >> wp.int64(depth))


@wp.func
@no_type_check
def _below(value: wp.float64):
    """The largest float32 that is at most the value, or the one below it."""
    near = wp.float32(value)
    if wp.float64(near) > value:
        near = near - wp.abs(near) * float(1.2e-7) - float(1.0e-37)
    return near


@wp.kernel(enable_backward=False)
@no_type_check
def _bound_leaves(
    base: int,
    items: wp.array2d(dtype=wp.vec3d),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    boxes: wp.array2d(dtype=wp.vec3),
):
    i = base + wp.tid()
    cloud = i >> depth
    leaf = i - (cloud << depth)
    start = cloud * count + leaf_start(leaf, count, depth)
    stop = cloud * count + leaf_start(leaf + 1, count, depth)
    low = wp.vec3d(wp.float64(1.0e300))
    high = wp.vec3d(wp.float64(-1.0e300))
    for k in range(start, stop):
        for corner in range(items.shape[1]):
            low = wp.min(low, items[k, corner])
            high = wp.max(high, items[k, corner])
    node = (cloud << (depth + 1)) + (1 << depth) + leaf
    if stop > start:
        low = low - origin[cloud]
        high = origin[cloud] - high
        boxes[node, 0] = wp.vec3(_below(low[0]), _below(low[1]), _below(low[2]))
        boxes[node, 1] = -wp.vec3(_below(high[0]), _below(high[1]), _below(high[2]))
    else:
        boxes[node, 0] = wp.vec3(float(1.0e38))
        boxes[node, 1] = wp.vec3(float(-1.0e38))


@wp.kernel(enable_backward=False)
@no_type_check
def _bound_nodes(base: int, level: int, rise: int, depth: int, boxes: wp.array2d(dtype=wp.vec3)):
    """Boxes of the `rise` levels above the known ones, under and with one node of that level."""
    i = base + wp.tid()
    cloud = i >> level
    root = cloud << (depth + 1)
    top = (1 << level) + i - (cloud << level)
    step = rise - 1
    while step >= 0:
        for k in range(1 << step):
            node = (top << step) + k
            child = root + 2 * node
            boxes[root + node, 0] = wp.min(boxes[child, 0], boxes[child + 1, 0])
            boxes[root + node, 1] = wp.max(boxes[child, 1], boxes[child + 1, 1])
        step -= 1


@wp.func
@no_type_check
def box_distance(boxes: wp.array2d(dtype=wp.vec3), node: int, p: wp.vec3d):
    """Squared distance of a point, relative to the origin, to a node's box; a lower bound for all of its items.

    Rounding keeps the order of numbers, so the bound holds for distances computed alike, to the last bit.
    """
    low = boxes[node, 0]
    high = boxes[node, 1]
    zero = wp.float64(0.0)
    x = wp.max(wp.max(wp.float64(low[0]) - p[0], p[0] - wp.float64(high[0])), zero)
    y = wp.max(wp.max(wp.float64(low[1]) - p[1], p[1] - wp.float64(high[1])), zero)
    z = wp.max(wp.max(wp.float64(low[2]) - p[2], p[2] - wp.float64(high[2])), zero)
    return x * x + y * y + z * z


@wp.func
@no_type_check
def next_pending(node: int, trail: wp.uint32):
    """The next node to look at after a node is done, and the trail there; node 0 at the end.

    The trail has, under a leading 1, one bit a level: whether the sibling of the node there is still to be seen.
    """
    one = wp.uint32(1)
    while (trail & one) == wp.uint32(0):
        trail = trail >> one
        node = node >> 1
    if trail == one:
        return 0, trail
    return node ^ 1, trail ^ one
