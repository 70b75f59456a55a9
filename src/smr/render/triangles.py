"""A face on its way to pixels: cut at the near plane, projected, snapped to 1/256 of a pixel; whole-number edges."""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

SUBPIXELS: Any = wp.constant(256)


class _ViewFields:
    """A pinhole camera and its near plane."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    near: float


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
def _cut(inside: wp.vec3, outside: wp.vec3, near: float):
    t = (inside[2] - near) / (inside[2] - outside[2])
    return wp.vec3(inside[0] + t * (outside[0] - inside[0]), inside[1] + t * (outside[1] - inside[1]), near)


@wp.func
@no_type_check
def _snap(value: float):
    return wp.int64(wp.round(wp.float64(value) * wp.float64(SUBPIXELS)))


@wp.func
@no_type_check
def _set_up(view: View, a: wp.vec3, b: wp.vec3, c: wp.vec3):
    """Project a triangle that lies in front of the near plane."""
    t = Triangle()
    t.w0 = 1.0 / a[2]
    t.w1 = 1.0 / b[2]
    t.w2 = 1.0 / c[2]
    t.x0 = _snap(view.fx * (a[0] * t.w0) + view.cx)
    t.y0 = _snap(view.fy * (a[1] * t.w0) + view.cy)
    t.x1 = _snap(view.fx * (b[0] * t.w1) + view.cx)
    t.y1 = _snap(view.fy * (b[1] * t.w1) + view.cy)
    t.x2 = _snap(view.fx * (c[0] * t.w2) + view.cx)
    t.y2 = _snap(view.fy * (c[1] * t.w2) + view.cy)
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
def triangle(view: View, vertices: wp.array(dtype=wp.vec3), faces: wp.array(dtype=wp.vec3i), slot: int):
    """Slot 2 f is face f, cut at the near plane; slot 2 f + 1 is the other half where the cut leaves a quadrangle."""
    face = faces[slot >> 1]
    second = slot & 1
    a = vertices[face[0]]
    b = vertices[face[1]]
    c = vertices[face[2]]
    front = int(a[2] >= view.near) + int(b[2] >= view.near) + int(c[2] >= view.near)
    nothing = Triangle()
    if front == 3:
        if second == 1:
            return nothing
        return _set_up(view, a, b, c)
    if front == 0 or (front == 1 and second == 1):
        return nothing
    # turn the corners until `a` is the one that differs from the two others
    alone = front == 1
    if (b[2] >= view.near) == alone and (a[2] >= view.near) != alone:
        d = a
        a = b
        b = c
        c = d
    elif (c[2] >= view.near) == alone and (a[2] >= view.near) != alone:
        d = c
        c = b
        b = a
        a = d
    if front == 1:
        return _set_up(view, a, _cut(a, b, view.near), _cut(a, c, view.near))
    ab = _cut(b, a, view.near)
    if second == 0:
        return _set_up(view, ab, b, c)
    return _set_up(view, ab, c, _cut(c, a, view.near))


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
