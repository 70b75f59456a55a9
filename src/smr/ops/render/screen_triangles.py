"""Triangles in normalised device coordinates: which pixels they cover, and where in the triangle a point lies.

The image spans -1..1 in both directions, x to the right and y UP: the centre of the pixel in column i and row j of a
W x H image is ((2 i + 1 - W) / W, (H - 2 j - 1) / H). Kernels that use these functions are compiled without fused
multiply-add, so that they decide exactly as the same formulas in plain torch do.
"""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

PIXEL_MARGIN: Any = wp.constant(0.02)
"""Bounds of a triangle are widened by this part of a pixel before pixels are tested one by one."""


@wp.func
@no_type_check
def edge(ax: Any, ay: Any, bx: Any, by: Any, px: Any, py: Any):
    """Twice the signed area of a, b, p; exactly the opposite of b, a, p, so that neighbours agree on their edge."""
    if ax < bx or (ax == bx and ay < by):
        return (bx - ax) * (py - ay) - (by - ay) * (px - ax)
    return -((ax - bx) * (py - by) - (ay - by) * (px - bx))


@wp.func
@no_type_check
def with_sign(total: Any, eps: Any):
    """`total` moved away from 0 by eps."""
    if total < type(total)(0.0):
        return total - eps
    return total + eps


@wp.func
@no_type_check
def least(a: Any, b: Any, c: Any):
    """The smallest of three."""
    return wp.min(a, wp.min(b, c))


@wp.func
@no_type_check
def most(a: Any, b: Any, c: Any):
    """The largest of three."""
    return wp.max(a, wp.max(b, c))


@wp.func
@no_type_check
def column_centre(column: int, width: int, like: Any):
    """Where the centres of a column of pixels are, in the type of `like`."""
    return type(like)(2 * column + 1 - width) / type(like)(width)


@wp.func
@no_type_check
def row_centre(row: int, height: int, like: Any):
    """Where the centres of a row of pixels are; rows count from the top."""
    return type(like)(height - 2 * row - 1) / type(like)(height)


@wp.func
@no_type_check
def columns_between(low: Any, high: Any, width: int):
    """First and last column whose centres may lie in low..high; first > last where there are none (or NaN)."""
    size = type(low)(width)
    one = type(low)(1.0)
    half = type(low)(0.5)
    margin = type(low)(PIXEL_MARGIN)
    if not (low <= one and high >= -one):
        return 1, 0
    first = (low * size + size - one) * half - margin
    last = (high * size + size - one) * half + margin
    return int(wp.ceil(wp.max(first, type(low)(0.0)))), int(wp.floor(wp.min(last, size - one)))


@wp.func
@no_type_check
def rows_between(low: Any, high: Any, height: int):
    """First and last row (from the top) whose centres may lie in low..high; first > last where there are none."""
    first, last = columns_between(-high, -low, height)
    return first, last
