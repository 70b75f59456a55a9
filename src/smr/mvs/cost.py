"""What a hypothesis costs: how little a patch of the reference resembles the source image that it predicts.

A hypothesis is a plane in inverse depth: 1 / z = a + b (u - u0) + c (v - v0) around a pixel. In these terms a pixel's
place in a source is linear, q = A (u, v, 1) + m / z, so a patch is warped by its linear part at the centre, without a
division for each sample. The likeness is the bilaterally weighted normalised cross-correlation of Schönberger 2016;
the weights depend on the reference alone and are made once for each level.
"""

# ruff: noqa: UP018, SIM102
# Warp: a name that changes in a loop must start as int(0), not as a constant; `and` evaluates both sides.

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

from ..arrays import launch_chunked

wp.set_module_options({"enable_backward": False})

MAX_SOURCES = 8
INVALID = 2.0
"""Cost where a patch leaves the source or lies in what its mask hides; the largest that there is."""
ERROR_CAP = 3.0
"""Pixels at which the forward-backward error stops to grow (Xu and Tao 2019)."""

_INVALID = wp.constant(INVALID)
_CAP = wp.constant(ERROR_CAP)
_NOISE = wp.constant(1.0)  # variance of a grey level's noise: a patch with less contrast resembles nothing
_TINY = wp.constant(1e-12)


class _SourceFields:
    """A source image as seen from the reference, and the depth that was found for it before."""

    turn: wp.mat33
    """A of q = A (u, v, 1) + m / z, to pixels of the source image."""
    shift: wp.vec3
    """m of the same."""
    first: int
    """Index of the first pixel in the stack of images and masks."""
    width: int
    height: int
    map_turn: wp.mat33
    """The same, to pixels of the source's depth map."""
    map_shift: wp.vec3
    map_first: int
    map_width: int
    map_height: int
    back_turn: wp.mat33
    """From pixels of the source's depth map to pixels of the reference."""
    back_shift: wp.vec3


class _LevelFields:
    """The reference at one scale."""

    width: int
    height: int
    side: int
    """Samples along a side of a patch, two pixels apart."""
    pixel_step: int
    """Distance in `patches` from one pixel to the next."""
    sample_step: int
    """Distance in `patches` from one sample to the next."""
    sources: int
    fx: float
    fy: float
    cx: float
    cy: float
    low: float
    """Smallest inverse depth."""
    high: float
    """Largest inverse depth."""
    geometric: float
    """Cost of a pixel of forward-backward error."""


# Not as decorators: checkers of annotations cannot take what wp.struct returns.
Source: Any = wp.struct(_SourceFields)
Level: Any = wp.struct(_LevelFields)


@wp.func
@no_type_check
def _resemblance(
    level: Level,
    source: Source,
    images: wp.array(dtype=wp.vec4),
    patches: wp.array(dtype=wp.vec2),
    contrast: float,
    item: int,
    u: float,
    v: float,
    across: wp.vec2,
    down: wp.vec2,
) -> float:
    """1 - NCC of the reference's patch and the source around (u, v), which is an index; steps are for one pixel."""
    reach = float(level.side - 1)
    reach_u = (wp.abs(across[0]) + wp.abs(down[0])) * reach
    reach_v = (wp.abs(across[1]) + wp.abs(down[1])) * reach
    cost = float(_INVALID)
    if (
        u - reach_u >= 0.0
        and v - reach_v >= 0.0
        and u + reach_u < float(source.width - 1)
        and v + reach_v < float(source.height - 1)
    ):
        sum_s = float(0.0)
        sum_ss = float(0.0)
        sum_rs = float(0.0)
        row_u = u - reach * (across[0] + down[0])
        row_v = v - reach * (across[1] + down[1])
        at = item * level.pixel_step
        for _row in range(level.side):
            x = row_u
            y = row_v
            for _column in range(level.side):
                i = int(x)
                j = int(y)
                p = x - float(i)
                q = y - float(j)
                near = images[source.first + j * source.width + i]
                top = near[0] + p * (near[1] - near[0])
                bottom = near[2] + p * (near[3] - near[2])
                s = top + q * (bottom - top)
                weight = patches[at]
                ws = weight[0] * s
                sum_s += ws
                sum_ss += ws * s
                sum_rs += weight[1] * s
                x += 2.0 * across[0]
                y += 2.0 * across[1]
                at += level.sample_step
            row_u += 2.0 * down[0]
            row_v += 2.0 * down[1]
        variance = wp.max(sum_ss - sum_s * sum_s, 0.0) + _NOISE
        cost = 1.0 - sum_rs / (contrast * wp.sqrt(variance))
    return cost


@wp.func
@no_type_check
def _inconsistency(source: Source, maps: wp.array(dtype=wp.vec3), x: float, y: float, near: float) -> float:
    """Pixels between where we are and where the source's own depth brings us back to, at most the cap."""
    error = float(_CAP)
    q = source.map_turn * wp.vec3(x, y, 1.0) + near * source.map_shift
    if q[2] > _TINY:
        u = q[0] / q[2]
        v = q[1] / q[2]
        if u >= 0.0 and v >= 0.0 and u < float(source.map_width) and v < float(source.map_height):
            i = int(u)
            j = int(v)
            its = maps[source.map_first + j * source.map_width + i]
            depth = its[0] + its[1] * (u - float(i) - 0.5) + its[2] * (v - float(j) - 0.5)
            if its[0] > 0.0 and depth > 0.0:
                r = source.back_turn * wp.vec3(u, v, 1.0) + depth * source.back_shift
                if r[2] > _TINY:
                    error = wp.min(error, wp.length(wp.vec2(r[0] / r[2] - x, r[1] / r[2] - y)))
    return error


@wp.func
@no_type_check
def view_cost(
    level: Level,
    source: Source,
    images: wp.array(dtype=wp.vec4),
    masks: wp.array(dtype=wp.uint8),
    maps: wp.array(dtype=wp.vec3),
    patches: wp.array(dtype=wp.vec2),
    contrast: float,
    item: int,
    x: float,
    y: float,
    plane: wp.vec3,
) -> float:
    """Cost of a plane at pixel `item`, whose centre is (x, y), in one source."""
    cost = float(_INVALID)
    q = source.turn * wp.vec3(x, y, 1.0) + plane[0] * source.shift
    if q[2] > _TINY:
        near = 1.0 / q[2]
        u = q[0] * near
        v = q[1] * near
        if u >= 0.0 and v >= 0.0 and u < float(source.width) and v < float(source.height):
            if masks[source.first + int(v) * source.width + int(u)] != wp.uint8(0):
                m = source.shift
                a = source.turn
                au = a[2, 0] + plane[1] * m[2]
                av = a[2, 1] + plane[2] * m[2]
                across = wp.vec2(a[0, 0] + plane[1] * m[0] - u * au, a[1, 0] + plane[1] * m[1] - v * au) * near
                down = wp.vec2(a[0, 1] + plane[2] * m[0] - u * av, a[1, 1] + plane[2] * m[1] - v * av) * near
                cost = _resemblance(level, source, images, patches, contrast, item, u - 0.5, v - 0.5, across, down)
                if level.geometric > 0.0:
                    cost += level.geometric * _inconsistency(source, maps, x, y, plane[0])
    return cost


@wp.kernel(enable_backward=False)
@no_type_check
def _pack(
    base: int,
    image: wp.array(dtype=wp.float16),
    width: int,
    height: int,
    first: int,
    images: wp.array(dtype=wp.vec4),
):
    """Each pixel with its right, lower and lower right neighbour: one load then serves a bilinear sample."""
    item = base + wp.tid()
    row = item // width
    column = item - row * width
    right = wp.where(column + 1 < width, 1, 0)
    below = wp.where(row + 1 < height, width, 0)
    images[first + item] = wp.vec4(
        float(image[item]), float(image[item + right]), float(image[item + below]), float(image[item + right + below])
    )


@wp.kernel(enable_backward=False)
@no_type_check
def _weigh(
    base: int,
    level: Level,
    image: wp.array(dtype=wp.float16),
    color_falloff: float,
    patches: wp.array(dtype=wp.vec2),
    contrasts: wp.array(dtype=wp.float32),
):
    """Bilateral weights of each pixel's patch, times one and times the grey level less its mean."""
    item = base + wp.tid()
    row = item // level.width
    column = item - row * level.width
    center = float(image[item])
    reach = level.side - 1
    spread = float(level.side)
    falloff = 0.5 / (spread * spread)
    at = item * level.pixel_step
    total = float(0.0)
    mean = float(0.0)
    square = float(0.0)
    for j in range(level.side):
        y = row + 2 * j - reach
        for i in range(level.side):
            x = column + 2 * i - reach
            weight = float(0.0)
            grey = float(0.0)
            if x >= 0 and y >= 0 and x < level.width and y < level.height:
                grey = float(image[y * level.width + x])
                away = float((x - column) * (x - column) + (y - row) * (y - row))
                weight = wp.exp(-wp.abs(grey - center) * color_falloff - away * falloff)
            total += weight
            mean += weight * grey
            square += weight * grey * grey
            patches[at] = wp.vec2(weight, grey)
            at += level.sample_step
    mean /= total
    at = item * level.pixel_step
    for _k in range(level.side * level.side):
        weight = patches[at][0] / total
        patches[at] = wp.vec2(weight, weight * (patches[at][1] - mean))
        at += level.sample_step
    contrasts[item] = wp.sqrt(wp.max(square / total - mean * mean, 0.0) + _NOISE)


def pack(image: wp.array, width: int, height: int, first: int, images: wp.array, device: str) -> None:
    """Put an image of float16 grey levels into a stack of packed images, from index `first` on."""
    launch_chunked(_pack, width * height, [image, width, height, first], outputs=[images], device=device)


def weigh(level: Any, image: wp.array, patches: wp.array, contrasts: wp.array, device: str) -> None:
    """Make the weights of all patches of the reference."""
    outputs = [patches, contrasts]
    launch_chunked(_weigh, level.width * level.height, [level, image, 1.0 / 12.0], outputs=outputs, device=device)
