"""Texture look-ups with filtering, and their gradients."""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

from ..exact_sums import contribute
from ..launches import launchers

WRAPS = {"repeat": 0, "clamp": 1, "mirror": 2, "zero": 3}
"""What lies outside of the image."""
_REPEAT: Any = wp.constant(0)
_CLAMP: Any = wp.constant(1)
_MIRROR: Any = wp.constant(2)
_ZERO: Any = wp.constant(3)


class _TextureFields:
    """Sizes of an image and of its mipmaps, which follow each other, each half as wide and high as the one before."""

    width: int
    height: int
    levels: int
    texels: int
    """Of an image with all its levels."""
    channels: int
    per_image: int
    """Samples of an image; 0 where all share one image."""
    wrap: int
    nearest: int


Texture: Any = wp.struct(_TextureFields)


@wp.func
@no_type_check
def _wrapped(i: int, size: int, wrap: int):
    """Index of a texel, -1 for none; `i` is at most twice the size away."""
    if wrap == _CLAMP:
        return wp.clamp(i, 0, size - 1)
    if wrap == _ZERO:
        if i < 0 or i >= size:
            return -1
        return i
    if wrap == _MIRROR:
        j = (i + 4 * size) % (2 * size)
        return wp.min(j, 2 * size - 1 - j)
    return (i + 4 * size) % size


@wp.func
@no_type_check
def _brought_near(u: Any, wrap: int):
    """The same place nearer to the image, so that whole numbers can hold it."""
    one = type(u)(1.0)
    if wrap == _MIRROR:
        return u - type(u)(2.0) * wp.floor(u / type(u)(2.0))
    if wrap != _REPEAT:
        return wp.clamp(u, -one, type(u)(2.0))
    return u - wp.floor(u)


@wp.func
@no_type_check
def _tap(x0: int, y0: int, which: int, width: int, height: int, wrap: int):
    """Index of one of the four texels around a place; -1 for none."""
    x = _wrapped(x0 + which % 2, width, wrap)
    y = _wrapped(y0 + which / 2, height, wrap)
    if x < 0 or y < 0:
        return -1
    return y * width + x


@wp.func
@no_type_check
def _level_of(t: Texture, derivatives: wp.array(dtype=Any), sample: int, zero: Any):
    """The level of detail: 0 is the image itself; log2 of the longer side of the pixel's footprint in texels."""
    if derivatives.shape[0] == 0:
        return zero
    w = type(zero)(t.width)
    h = type(zero)(t.height)
    ux = derivatives[4 * sample] * w
    uy = derivatives[4 * sample + 1] * w
    vx = derivatives[4 * sample + 2] * h
    vy = derivatives[4 * sample + 3] * h
    longest = wp.max(ux * ux + vx * vx, uy * uy + vy * vy)
    if not longest > type(zero)(1.0):
        return zero
    return wp.min(type(zero)(0.5) * wp.log2(longest), type(zero)(t.levels - 1))


@wp.func
@no_type_check
def _size_of(size: int, level: int):
    return wp.max(size >> level, 1)


@wp.func
@no_type_check
def _start_of(t: Texture, sample: int, level: int):
    start = wp.int32(0)
    if t.per_image > 0:
        start = sample / t.per_image * t.texels
    for k in range(level):
        start += _size_of(t.width, k) * _size_of(t.height, k)
    return start


@wp.func
@no_type_check
def _weight(which: int, a: Any, b: Any):
    one = type(a)(1.0)
    x = one - a
    if which % 2 == 1:
        x = a
    if which / 2 == 1:
        return x * b
    return x * (one - b)


@wp.func
@no_type_check
def _corner(size: int, coordinate: Any, nearest: int):
    """First of the two texels around a place along an axis, and the share of the second."""
    if nearest != 0:
        return wp.int32(wp.floor(coordinate * type(coordinate)(size))), type(coordinate)(0.0)
    x = coordinate * type(coordinate)(size) - type(coordinate)(0.5)
    low = wp.floor(x)
    return wp.int32(low), x - low


@wp.kernel(enable_backward=False)
@no_type_check
def _look_up(
    base: int,
    t: Texture,
    uv: wp.array(dtype=Any),
    derivatives: wp.array(dtype=Any),
    texels: wp.array(dtype=Any),
    result: wp.array(dtype=Any),
):
    sample = base + wp.tid()
    u = uv[2 * sample]
    v = type(u)(1.0) - uv[2 * sample + 1]
    zero = type(u)(0.0)
    out = sample * t.channels
    if not (wp.isfinite(u) and wp.isfinite(v)):
        for c in range(t.channels):
            result[out + c] = type(u)(wp.nan)
        return
    for c in range(t.channels):
        result[out + c] = zero
    u = _brought_near(u, t.wrap)
    v = _brought_near(v, t.wrap)
    detail = _level_of(t, derivatives, sample, zero)
    first = wp.int32(wp.floor(detail))
    for level in range(first, wp.min(first + 2, t.levels)):
        share = type(u)(1.0) - wp.abs(detail - type(u)(level))
        if share > zero:
            width = _size_of(t.width, level)
            height = _size_of(t.height, level)
            start = _start_of(t, sample, level)
            x0, a = _corner(width, u, t.nearest)
            y0, b = _corner(height, v, t.nearest)
            for which in range(4):
                w = share * _weight(which, a, b)
                texel = _tap(x0, y0, which, width, height, t.wrap)
                if w != zero and texel >= 0:
                    place = (start + texel) * t.channels
                    for c in range(t.channels):
                        result[out + c] += w * texels[place + c]


@wp.kernel(enable_backward=False)
@no_type_check
def _to_uv(
    base: int,
    t: Texture,
    uv: wp.array(dtype=Any),
    derivatives: wp.array(dtype=Any),
    texels: wp.array(dtype=Any),
    grad: wp.array(dtype=Any),
    grad_uv: wp.array(dtype=Any),
):
    """The level of detail counts as fixed."""
    sample = base + wp.tid()
    u = uv[2 * sample]
    one = type(u)(1.0)
    v = one - uv[2 * sample + 1]
    du = type(u)(0.0)
    dv = type(u)(0.0)
    if wp.isfinite(u) and wp.isfinite(v) and t.nearest == 0:
        u = _brought_near(u, t.wrap)
        v = _brought_near(v, t.wrap)
        detail = _level_of(t, derivatives, sample, type(u)(0.0))
        first = wp.int32(wp.floor(detail))
        for level in range(first, wp.min(first + 2, t.levels)):
            share = one - wp.abs(detail - type(u)(level))
            width = _size_of(t.width, level)
            height = _size_of(t.height, level)
            start = _start_of(t, sample, level)
            x0, a = _corner(width, u, t.nearest)
            y0, b = _corner(height, v, t.nearest)
            for which in range(4):
                texel = _tap(x0, y0, which, width, height, t.wrap)
                if share > type(u)(0.0) and texel >= 0:
                    g = type(u)(0.0)
                    for c in range(t.channels):
                        g += grad[sample * t.channels + c] * texels[(start + texel) * t.channels + c]
                    wx = one - b
                    if which / 2 == 1:
                        wx = b
                    wy = one - a
                    if which % 2 == 1:
                        wy = a
                        du += g * share * wx * type(u)(width)
                    else:
                        du -= g * share * wx * type(u)(width)
                    if which / 2 == 1:
                        dv -= g * share * wy * type(u)(height)
                    else:
                        dv += g * share * wy * type(u)(height)
    grad_uv[2 * sample] = du
    grad_uv[2 * sample + 1] = dv


@wp.kernel(enable_backward=False)
@no_type_check
def _to_texels(
    base: int,
    adding: int,
    t: Texture,
    uv: wp.array(dtype=Any),
    derivatives: wp.array(dtype=Any),
    grad: wp.array(dtype=Any),
    count_bits: int,
    bounds: wp.array(dtype=int),
    sums: wp.array(dtype=wp.int64),
):
    sample = base + wp.tid()
    u = uv[2 * sample]
    v = type(u)(1.0) - uv[2 * sample + 1]
    zero = type(u)(0.0)
    if not (wp.isfinite(u) and wp.isfinite(v)):
        return
    u = _brought_near(u, t.wrap)
    v = _brought_near(v, t.wrap)
    detail = _level_of(t, derivatives, sample, zero)
    first = wp.int32(wp.floor(detail))
    for level in range(first, wp.min(first + 2, t.levels)):
        share = type(u)(1.0) - wp.abs(detail - type(u)(level))
        if share > zero:
            width = _size_of(t.width, level)
            height = _size_of(t.height, level)
            start = _start_of(t, sample, level)
            x0, a = _corner(width, u, t.nearest)
            y0, b = _corner(height, v, t.nearest)
            for which in range(4):
                w = share * _weight(which, a, b)
                texel = _tap(x0, y0, which, width, height, t.wrap)
                if w != zero and texel >= 0:
                    for c in range(t.channels):
                        value = wp.float64(w * grad[sample * t.channels + c])
                        contribute(adding, value, start + texel, c, t.channels, count_bits, bounds, sums)


LOOK_UP = launchers(_look_up, scalars=("uv", "derivatives", "texels", "result"))
TO_UV = launchers(_to_uv, scalars=("uv", "derivatives", "texels", "grad", "grad_uv"))
TO_TEXELS = launchers(_to_texels, scalars=("uv", "derivatives", "grad"), disjoint=False)
