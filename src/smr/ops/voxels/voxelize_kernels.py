"""Kernels that walk over the rows of voxels below triangles, in double precision.

A triangle is looked at along one axis (the largest of its normal; z for solids). A row is a line of voxel columns along
the axis after it, cyclically; rows of all triangles are numbered one after the other, so that large triangles are
shared by many items.
"""

# ruff: noqa: UP018, RUF046, SIM102
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

wp.set_module_options({"enable_backward": False})

_HALF = wp.constant(wp.float64(0.5))
_ZERO = wp.constant(wp.float64(0.0))


@wp.func
@no_type_check
def _voxel(x: wp.float64) -> int:
    """The voxel of a coordinate: halves belong to the voxel below."""
    return int(wp.ceil(x - _HALF))


class _SpanFields:
    """The columns of a triangle: (u, v) across the axis w."""

    a: wp.vec3d
    b: wp.vec3d
    c: wp.vec3d
    normal: wp.vec3d
    w: int
    low_u: int
    high_u: int
    low_v: int
    high_v: int
    low_w: int
    high_w: int


_Span: Any = wp.struct(_SpanFields)  # not as a decorator: checkers of annotations take its class for a function


@wp.func
@no_type_check
def _span(points: wp.array(dtype=wp.vec3d), face: int, shape: wp.vec3i, solid: bool) -> _Span:
    s = _Span()
    s.a = points[3 * face]
    s.b = points[3 * face + 1]
    s.c = points[3 * face + 2]
    s.normal = wp.cross(s.b - s.a, s.c - s.a)
    size = wp.vec3d(wp.abs(s.normal[0]), wp.abs(s.normal[1]), wp.abs(s.normal[2]))
    s.w = int(2)
    if not solid:
        if size[0] > size[2]:
            s.w = int(0)
        if size[1] > wp.max(size[0], size[2]):
            s.w = int(1)
    u = (s.w + 1) % 3
    v = (s.w + 2) % 3
    low = wp.min(wp.min(s.a, s.b), s.c)
    high = wp.max(wp.max(s.a, s.b), s.c)
    s.low_u = wp.max(_voxel(low[u]), 0)
    s.high_u = wp.min(_voxel(high[u]), shape[u] - 1)
    s.low_v = wp.max(_voxel(low[v]), 0)
    s.high_v = wp.min(_voxel(high[v]), shape[v] - 1)
    s.low_w = wp.max(_voxel(low[s.w]), 0)
    s.high_w = wp.min(_voxel(high[s.w]), shape[s.w] - 1)
    return s


@wp.kernel(enable_backward=False)
@no_type_check
def count_rows(
    base: int, points: wp.array(dtype=wp.vec3d), shape: wp.vec3i, solid: bool, counts: wp.array(dtype=wp.int32)
):
    """Rows of each triangle; none where it lies beside the grid."""
    face = base + wp.tid()
    s = _span(points, face, shape, solid)
    rows = int(0)
    if s.high_v >= s.low_v and s.high_u >= s.low_u and (solid or s.high_w >= s.low_w):
        rows = s.high_u - s.low_u + 1
    counts[face] = rows


@wp.func
@no_type_check
def _owner(ends: wp.array(dtype=wp.int64), row: wp.int64) -> int:
    """The triangle that has a row."""
    low = int(0)
    high = ends.shape[0] - 1
    while low < high:
        middle = (low + high) / 2
        if ends[middle] > row:
            high = middle
        else:
            low = middle + 1
    return low


@wp.func
@no_type_check
def _apart(axis: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> bool:
    """Whether a plane across the axis parts a triangle from the voxel at 0, without its lower sides.

    Seen as the limit of boxes whose lower sides move up: where intervals touch in one point, they are apart if that
    point of the box is on a side that moves.
    """
    ra = wp.dot(axis, a)
    rb = wp.dot(axis, b)
    rc = wp.dot(axis, c)
    low = wp.min(wp.min(ra, rb), rc)
    high = wp.max(wp.max(ra, rb), rc)
    reach = _HALF * (wp.abs(axis[0]) + wp.abs(axis[1]) + wp.abs(axis[2]))
    falls = axis[0] < _ZERO or axis[1] < _ZERO or axis[2] < _ZERO
    rises = axis[0] > _ZERO or axis[1] > _ZERO or axis[2] > _ZERO
    return low > reach or high < -reach or (low == reach and falls) or (high == -reach and rises)


@wp.func
@no_type_check
def _touches(s: _Span, centre: wp.vec3d) -> bool:
    """Separating axes (Akenine-Möller 2001): the sides of the voxel, the plane, sides times edges."""
    a = s.a - centre
    b = s.b - centre
    c = s.c - centre
    apart = _apart(s.normal, a, b, c)
    for k in range(3):
        side = wp.vec3d(_ZERO, _ZERO, _ZERO)
        side[k] = wp.float64(1.0)
        if not apart:
            apart = _apart(side, a, b, c)
        if not apart:
            apart = _apart(wp.cross(side, b - a), a, b, c)
        if not apart:
            apart = _apart(wp.cross(side, c - b), a, b, c)
        if not apart:
            apart = _apart(wp.cross(side, a - c), a, b, c)
    return not apart


@wp.kernel(enable_backward=False)
@no_type_check
def mark(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    ends: wp.array(dtype=wp.int64),
    faces: int,
    shape: wp.vec3i,
    items: int,
    grid: wp.array(dtype=wp.bool),
):
    """Set the voxels that triangles touch: the rows `item`, `item + items`, ..."""
    row = wp.int64(base + wp.tid())
    total = ends[ends.shape[0] - 1]
    while row < total:
        face = _owner(ends, row)
        s = _span(points, face, shape, False)
        w = s.w
        u = (w + 1) % 3
        v = (w + 2) % 3
        i = s.high_u - int(ends[face] - row - wp.int64(1))
        place = wp.vec3i(0, 0, 0)
        place[u] = i
        for j in range(s.low_v, s.high_v + 1):
            low = s.low_w
            high = s.high_w
            if s.normal[w] != _ZERO:  # where the plane is above the column, and half its fall across a voxel
                across = s.normal[u] * (wp.float64(i) - s.a[u]) + s.normal[v] * (wp.float64(j) - s.a[v])
                middle = s.a[w] - across / s.normal[w]
                fall = _HALF * (wp.abs(s.normal[u]) + wp.abs(s.normal[v])) / wp.abs(s.normal[w])
                low = wp.max(low, _voxel(middle - fall - wp.float64(1.0e-6)))
                high = wp.min(high, _voxel(middle + fall + wp.float64(1.0e-6)))
            place[v] = j
            for k in range(low, high + 1):
                place[w] = k
                centre = wp.vec3d(wp.float64(place[0]), wp.float64(place[1]), wp.float64(place[2]))
                number = ((face / faces * shape[0] + place[0]) * shape[1] + place[1]) * shape[2] + place[2]
                if not grid[number]:
                    if _touches(s, centre):
                        grid[number] = True
        row += wp.int64(items)


@wp.func
@no_type_check
def _left(a: wp.vec3d, b: wp.vec3d, x: wp.float64, y: wp.float64) -> int:
    """1 where (x, y) is left of the way from a to b, -1 right of it; exactly opposite for b to a.

    On the line it counts as if it had moved a little along y and, by less, along -x.
    """
    p = a
    q = b
    sign = int(1)
    if b[0] < a[0] or (b[0] == a[0] and b[1] < a[1]):
        p = b
        q = a
        sign = int(-1)
    area = (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])
    side = int(-1)
    if area >= _ZERO:
        side = int(1)
    return side * sign


@wp.kernel(enable_backward=False)
@no_type_check
def cross(
    base: int,
    points: wp.array(dtype=wp.vec3d),
    ends: wp.array(dtype=wp.int64),
    faces: int,
    shape: wp.vec3i,
    items: int,
    steps: wp.array(dtype=wp.int32),
):
    """Where columns through the centres of voxels enter (+1) and leave (-1) the surface; whole numbers."""
    row = wp.int64(base + wp.tid())
    total = ends[ends.shape[0] - 1]
    while row < total:
        face = _owner(ends, row)
        s = _span(points, face, shape, True)
        i = s.high_u - int(ends[face] - row - wp.int64(1))
        x = wp.float64(i)
        for j in range(s.low_v, s.high_v + 1):
            y = wp.float64(j)
            side = _left(s.a, s.b, x, y)
            if side == _left(s.b, s.c, x, y) and side == _left(s.c, s.a, x, y) and s.normal[2] != _ZERO:
                across = s.normal[0] * (x - s.a[0]) + s.normal[1] * (y - s.a[1])
                z = s.a[2] - across / s.normal[2]
                z = wp.clamp(z, wp.min(wp.min(s.a[2], s.b[2]), s.c[2]), wp.max(wp.max(s.a[2], s.b[2]), s.c[2]))
                k = wp.clamp(int(wp.ceil(z)), 0, shape[2])
                number = ((face / faces * shape[0] + i) * shape[1] + j) * (shape[2] + 1) + k
                wp.atomic_sub(steps, number, side)
        row += wp.int64(items)
