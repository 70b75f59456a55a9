"""A face on its way to pixels: projected, cut where it must be, snapped to 1/256 of a pixel; whole-number edges.

Vertices are projected once each. A face whose three corners lie in front of the near plane and within 2^21 pixels of
the image is used as it is; any other is cut at the near plane and at those four borders (Sutherland and Hodgman 1974)
in homogeneous coordinates of the image, in double precision. A cut goes from the inside to the outside, so two faces
that share an edge cut it at the same point.
"""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

SUBPIXELS: Any = wp.constant(256)
MOST_PIECES: Any = wp.constant(6)
"""Triangles that a face can be cut into."""
_GUARD: Any = wp.constant(wp.float64(2**21 - 1))
_MAX_SNAPPED: Any = wp.constant(wp.float64(2**29))
_NOT_SNAPPED: Any = wp.constant(-(2**31))
_PLANES: Any = wp.constant(5)

Polygon: Any = wp.types.matrix(shape=(9, 3), dtype=wp.float64)


class _ViewFields:
    """An image and its near plane."""

    width: int
    height: int
    near: float
    perspective: int


class _TriangleFields:
    """Snapped corners, turned so that the doubled area is positive; it is 0 where there is nothing to draw."""

    x0: wp.int64
    y0: wp.int64
    x1: wp.int64
    y1: wp.int64
    x2: wp.int64
    y2: wp.int64
    area: wp.int64
    w0: float
    w1: float
    w2: float
    left: int
    right: int
    top: int
    bottom: int


# applied by hand: the shape checker of the tests decorates classes and cannot take what wp.struct returns
View: Any = wp.struct(_ViewFields)
Triangle: Any = wp.struct(_TriangleFields)


@wp.func
@no_type_check
def _divisor(view: View, point: wp.vec3d):
    if view.perspective != 0:
        return point[2]
    return wp.float64(1.0)


@wp.func
@no_type_check
def _snapped(view: View, point: wp.vec3d):
    """Whole 1/256 pixels, and the bits of what orders surfaces, linear in the image: 1 / depth, or -depth."""
    w = _divisor(view, point)
    scale = wp.float64(SUBPIXELS) / w
    key = wp.float32(-point[2])
    if view.perspective != 0:
        key = wp.float32(wp.float64(1.0) / w)
    x = wp.clamp(wp.round(point[0] * scale), -_MAX_SNAPPED, _MAX_SNAPPED)
    y = wp.clamp(wp.round(point[1] * scale), -_MAX_SNAPPED, _MAX_SNAPPED)
    return wp.vec3i(wp.int32(x), wp.int32(y), wp.cast(key, wp.int32))


@wp.func
@no_type_check
def snap(view: View, point: wp.vec3d):
    """What `triangle` needs of a vertex in homogeneous coordinates of the image."""
    w = _divisor(view, point)
    inside = point[2] >= wp.float64(view.near) and w > wp.float64(0.0)
    if inside and wp.abs(point[0]) <= _GUARD * w and wp.abs(point[1]) <= _GUARD * w:
        return _snapped(view, point)
    return wp.vec3i(_NOT_SNAPPED, 0, 0)


@wp.func
@no_type_check
def _set_up(view: View, a: wp.vec3i, b: wp.vec3i, c: wp.vec3i):
    t = Triangle()
    t.x0 = wp.int64(a[0])
    t.y0 = wp.int64(a[1])
    t.w0 = wp.cast(a[2], wp.float32)
    t.x1 = wp.int64(b[0])
    t.y1 = wp.int64(b[1])
    t.w1 = wp.cast(b[2], wp.float32)
    t.x2 = wp.int64(c[0])
    t.y2 = wp.int64(c[1])
    t.w2 = wp.cast(c[2], wp.float32)
    t.area = (t.x1 - t.x0) * (t.y2 - t.y0) - (t.x2 - t.x0) * (t.y1 - t.y0)
    if t.area < wp.int64(0):
        x = t.x1
        t.x1 = t.x2
        t.x2 = x
        y = t.y1
        t.y1 = t.y2
        t.y2 = y
        w = t.w1
        t.w1 = t.w2
        t.w2 = w
        t.area = -t.area
    # a pixel's centre is at 256 i + 128: the first one at or after the edge, the last one at or before it
    half = wp.int64(SUBPIXELS / 2)
    shift = wp.int64(8)
    t.left = wp.max(0, int((wp.min(t.x0, wp.min(t.x1, t.x2)) + half - wp.int64(1)) >> shift))
    t.right = wp.min(view.width - 1, int((wp.max(t.x0, wp.max(t.x1, t.x2)) - half) >> shift))
    t.top = wp.max(0, int((wp.min(t.y0, wp.min(t.y1, t.y2)) + half - wp.int64(1)) >> shift))
    t.bottom = wp.min(view.height - 1, int((wp.max(t.y0, wp.max(t.y1, t.y2)) - half) >> shift))
    if t.left > t.right or t.top > t.bottom:
        t.area = wp.int64(0)
    return t


@wp.func
@no_type_check
def _row(polygon: Polygon, i: int):
    return wp.vec3d(polygon[i, 0], polygon[i, 1], polygon[i, 2])


@wp.func
@no_type_check
def _inside_by(view: View, plane: int, point: wp.vec3d):
    """Positive inside of the near plane (0) and of the borders right, left, bottom, top (1 to 4)."""
    if plane == 0:
        return point[2] - wp.float64(view.near)
    reach = _GUARD * _divisor(view, point)
    if plane == 1:
        return reach - point[0]
    if plane == 2:
        return reach + point[0]
    if plane == 3:
        return reach - point[1]
    return reach + point[1]


@wp.func
@no_type_check
def _cut(view: View, plane: int, inside: wp.vec3d, outside: wp.vec3d):
    d = _inside_by(view, plane, inside)
    t = d / (d - _inside_by(view, plane, outside))
    point = inside + t * (outside - inside)
    if plane == 0:
        point[2] = wp.float64(view.near)
    return point


@wp.func
@no_type_check
def _clipped(view: View, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """The part of a triangle inside of all planes: a polygon and the number of its corners."""
    polygon = Polygon()
    for k in range(3):
        polygon[0, k] = a[k]
        polygon[1, k] = b[k]
        polygon[2, k] = c[k]
    count = wp.int32(3)
    if not (wp.isfinite(wp.dot(a, a)) and wp.isfinite(wp.dot(b, b)) and wp.isfinite(wp.dot(c, c))):
        count = wp.int32(0)
    plane = wp.int32(0)
    while plane < _PLANES:
        rest = Polygon()
        kept = wp.int32(0)
        i = wp.int32(0)
        while i < count:
            p = _row(polygon, i)
            q = _row(polygon, (i + 1) % count)
            p_inside = _inside_by(view, plane, p) >= wp.float64(0.0)
            q_inside = _inside_by(view, plane, q) >= wp.float64(0.0)
            if p_inside:
                for k in range(3):
                    rest[kept, k] = p[k]
                kept += 1
            if p_inside != q_inside:
                m = _cut(view, plane, p, q)
                if q_inside:
                    m = _cut(view, plane, q, p)
                for k in range(3):
                    rest[kept, k] = m[k]
                kept += 1
            i += 1
        polygon = rest
        count = kept
        plane += 1
    return polygon, count


@wp.func
@no_type_check
def pieces(snapped: wp.array(dtype=wp.vec3i), corners: wp.vec3i):
    """How many pieces of a face to ask `triangle` for; some may be empty."""
    if corners[0] < 0:
        return 0
    for k in range(3):
        if snapped[corners[k]][0] == _NOT_SNAPPED:
            return MOST_PIECES
    return 1


@wp.func
@no_type_check
def whole_triangle(view: View, snapped: wp.array(dtype=wp.vec3i), corners: wp.vec3i):
    """A face that `pieces` says is one piece."""
    return _set_up(view, snapped[corners[0]], snapped[corners[1]], snapped[corners[2]])


@wp.func
@no_type_check
def triangle(
    view: View,
    snapped: wp.array(dtype=wp.vec3i),
    points: wp.array(dtype=wp.vec3d),
    corners: wp.vec3i,
    piece: int,
    count: int,
):
    """Piece 0 to `count` - 1 of a face; `count` is what `pieces` said."""
    if count == 1:
        return whole_triangle(view, snapped, corners)
    polygon, sides = _clipped(view, points[corners[0]], points[corners[1]], points[corners[2]])
    if piece + 2 >= sides:
        return Triangle()
    a = _snapped(view, _row(polygon, 0))
    b = _snapped(view, _row(polygon, piece + 1))
    c = _snapped(view, _row(polygon, piece + 2))
    return _set_up(view, a, b, c)


@wp.func
@no_type_check
def owned(dx: wp.int64, dy: wp.int64):
    """0 for a left or a top edge, whose points belong to the triangle; -1 for the others."""
    zero = wp.int64(0)
    if dy < zero or (dy == zero and dx > zero):
        return zero
    return wp.int64(-1)


@wp.func
@no_type_check
def edge(ax: wp.int64, ay: wp.int64, bx: wp.int64, by: wp.int64, px: wp.int64, py: wp.int64):
    """Twice the area of a, b, p; positive where p is inside of the edge a b."""
    return (bx - ax) * (py - ay) - (by - ay) * (px - ax)
