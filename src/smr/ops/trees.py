"""Bounding-volume trees over points or triangles: what nearest, inside and radius queries walk through.

Items are sorted along a Hilbert curve and halved until a leaf holds a few; the tree is complete, so that a node's
children are 2 n and 2 n + 1 (the root is 1) and nothing but boxes is stored. A batch has one tree a cloud, all of one
shape, in one array. Building sorts once and reads each item once: O(N log N) time, 40 to 60 bytes an item.
"""

# ruff: noqa: UP018
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import torch
import warp as wp

from .tensors import as_warp, launch

_BITS = 20
"""Bits of a coordinate on the Hilbert curve."""


@dataclass(frozen=True)
class Forest:
    """One tree for each of B clouds of N items."""

    order: torch.Tensor
    """int32 (B, N), items of a cloud along the curve."""
    boxes: torch.Tensor
    """float32 (B * 2 * leaves, 2, 3), lowest and highest corner of each node, relative to `origin`."""
    origin: torch.Tensor
    """float64 (B, 3), what boxes are relative to; 0 where the items are float32."""
    frame: torch.Tensor
    """float64 (B, 4), corner and side of the cube that the curve fills."""
    leaves: int
    """Leaves of a tree, a power of two."""

    @property
    def count(self) -> int:
        """Items of a cloud."""
        return self.order.shape[1]

    def as_inputs(self) -> list[wp.array | int]:
        """What a kernel needs to walk: order, boxes, origin, items and leaves of a tree."""
        return [
            as_warp(self.order.reshape(-1)),
            as_warp(self.boxes, wp.vec3),
            as_warp(self.origin, wp.vec3d),
            self.count,
            self.leaves,
        ]


def plant(low: torch.Tensor, high: torch.Tensor, *, leaf_size: int) -> Forest:
    """Build trees over boxes, each given by its two corners, (B, N, 3) with N at least 1.

    Boxes are kept in float32, rounded outwards. float32 items keep their own values, so that bounds are exact;
    float64 items are taken relative to the middle of their cloud first.
    """
    clouds, count = low.shape[:2]
    first, last = low.amin(dim=1).double(), high.amax(dim=1).double()
    origin = torch.zeros_like(first) if low.dtype == torch.float32 else (0.5 * (first + last)).float().double()
    side = (last - first).amax(dim=1, keepdim=True)
    frame = torch.cat([first, side], dim=1)
    leaves = 1
    while leaves * leaf_size < count:
        leaves *= 2
    exact = low.double(), high.double()
    middle = exact[0] if low is high else 0.5 * (exact[0] + exact[1])
    order = _along_curve(middle, frame)
    boxes = torch.empty(clouds * 2 * leaves, 2, 3, dtype=torch.float32, device=low.device)
    corners = [as_warp(part.reshape(-1, 3), wp.vec3d) for part in exact]
    inputs = [*corners, as_warp(order.reshape(-1)), as_warp(origin, wp.vec3d), count, leaves]
    out = [as_warp(boxes, wp.vec3)]
    launch(_bound_leaves, clouds * leaves, inputs, outputs=out, like=low)
    width = leaves
    while width > 1:  # three levels a launch
        rise = min(3, width.bit_length() - 1)
        width >>= rise
        launch(_bound_nodes, clouds * width, [width, rise, leaves], outputs=out, like=low)
    return Forest(order, boxes, origin, frame, leaves)


def curve_order(points: torch.Tensor, forest: Forest) -> torch.Tensor:
    """Order of float64 points (B, M, 3) along the curve of each cloud's tree: int32 (B, M).

    Neighbours in this order walk through the same nodes, which keeps a GPU's threads together and a CPU's cache warm.
    """
    return _along_curve(points, forest.frame)


def _along_curve(points: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
    codes = torch.empty(points.shape[:2], dtype=torch.int64, device=points.device)
    inputs = [as_warp(points.reshape(-1, 3), wp.vec3d), as_warp(frame, wp.vec4d), points.shape[1]]
    launch(_hilbert, codes.numel(), inputs, outputs=[as_warp(codes.reshape(-1))], like=points)
    return torch.sort(codes, dim=1, stable=True).indices.int()


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
    bit = wp.int64(1 << (_BITS - 1))
    none = wp.int64(0)
    while bit > wp.int64(1):
        below = bit - wp.int64(1)
        if x & bit != none:
            x = x ^ below
        if y & bit != none:
            x = x ^ below
        else:
            t = (x ^ y) & below
            x = x ^ t
            y = y ^ t
        if z & bit != none:
            x = x ^ below
        else:
            t = (x ^ z) & below
            x = x ^ t
            z = z ^ t
        bit = bit >> wp.int64(1)
    y = y ^ x
    z = z ^ y
    flip = wp.int64(0)
    bit = wp.int64(1 << (_BITS - 1))
    while bit > wp.int64(1):
        if z & bit != none:
            flip = flip ^ (bit - wp.int64(1))
        bit = bit >> wp.int64(1)
    codes[i] = (_spread(x ^ flip) << wp.int64(2)) | (_spread(y ^ flip) << wp.int64(1)) | _spread(z ^ flip)


@wp.func
@no_type_check
def leaf_start(leaf: int, count: int, leaves: int):
    """Place in the order where a leaf's items begin."""
    return int(wp.int64(leaf) * wp.int64(count) / wp.int64(leaves))


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
    low: wp.array(dtype=wp.vec3d),
    high: wp.array(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    leaves: int,
    boxes: wp.array2d(dtype=wp.vec3),
):
    i = base + wp.tid()
    cloud = i / leaves
    leaf = i - cloud * leaves
    start = leaf_start(leaf, count, leaves)
    stop = leaf_start(leaf + 1, count, leaves)
    first = cloud * count
    a = wp.vec3d(wp.float64(1.0e300))
    b = wp.vec3d(wp.float64(-1.0e300))
    for k in range(start, stop):
        item = first + order[first + k]
        a = wp.min(a, low[item])
        b = wp.max(b, high[item])
    node = cloud * 2 * leaves + leaves + leaf
    if stop > start:
        a = a - origin[cloud]
        b = origin[cloud] - b
        boxes[node, 0] = wp.vec3(_below(a[0]), _below(a[1]), _below(a[2]))
        boxes[node, 1] = -wp.vec3(_below(b[0]), _below(b[1]), _below(b[2]))
    else:
        boxes[node, 0] = wp.vec3(float(1.0e38))
        boxes[node, 1] = wp.vec3(float(-1.0e38))


@wp.kernel(enable_backward=False)
@no_type_check
def _bound_nodes(base: int, width: int, rise: int, leaves: int, boxes: wp.array2d(dtype=wp.vec3)):
    """Boxes of all nodes up to `rise` levels above the known ones, under one node of the level of `width` nodes."""
    i = base + wp.tid()
    cloud = i / width
    root = cloud * 2 * leaves
    top = width + i - cloud * width
    level = rise - 1
    while level >= 0:
        for k in range(1 << level):
            node = (top << level) + k
            child = root + 2 * node
            boxes[root + node, 0] = wp.min(boxes[child, 0], boxes[child + 1, 0])
            boxes[root + node, 1] = wp.max(boxes[child, 1], boxes[child + 1, 1])
        level -= 1


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
