"""Where in its face the ray of a pixel meets it. Generic in the type of the numbers (single or double)."""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp


@wp.func
@no_type_check
def offset(corner: Any, k: wp.array(dtype=Any), first: int, px: Any, py: Any, perspective: int):
    """How far a corner is from the pixel's ray: in pixels, times its depth for a perspective view."""
    w = type(px)(1.0)
    if perspective != 0:
        w = corner[2]
    x = k[first] * corner[0] + k[first + 1] * corner[1] + (k[first + 2] - px) * w
    y = k[first + 3] * corner[0] + k[first + 4] * corner[1] + (k[first + 5] - py) * w
    return x, y


@wp.func
@no_type_check
def areas(ax: Any, ay: Any, bx: Any, by: Any, cx: Any, cy: Any):
    """Weights of the corners, up to one factor, from their offsets; those outside of the face become 0.

    Offsets are exact where the ray is near, so small faces far away keep their digits. The returned sign is that of
    the face's orientation.
    """
    n0 = bx * cy - by * cx
    n1 = cx * ay - cy * ax
    n2 = ax * by - ay * bx
    zero = type(ax)(0.0)
    sign = type(ax)(1.0)
    if n0 + n1 + n2 < zero:
        sign = -sign
    return wp.max(n0 * sign, zero), wp.max(n1 * sign, zero), wp.max(n2 * sign, zero), sign
