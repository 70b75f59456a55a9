"""Planes where stereo fails for want of texture: those of the like-coloured surface all around (Xu and Tao 2020, ACMP).

Nothing of this is believed until other maps have the same surface there.
"""

# ruff: noqa: UP018, RUF046, SIM102
# Warp: a name that changes in a loop must start as int(0), not as a constant; `and` evaluates both sides.

from __future__ import annotations

from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float32
from scipy import ndimage

from ..arrays import launch_chunked
from .cost import Level
from .planes import is_sound

wp.set_module_options({"enable_backward": False})

COST = 0.65
"""Cost of a pixel whose plane is its neighbours': it is confirmed like others, and weighs little."""
REACH = 0.1
"""Share of the image's longer side up to which neighbours are looked for."""
ISLAND = 1.5e-4
"""Share of the image; smaller pieces of a depth map that hang together with nothing are dropped."""
BACKDROP = 1e-3
"""Share of the image; smaller holes of a depth map are no backdrop."""
_JUMP = 0.02
"""Relative difference of depth at which two neighbouring pixels do not hang together."""

_RAYS = wp.constant(16)
_LEAST_RAYS = wp.constant(10)
_WIDEST_GAP = wp.constant(5)  # rays one after the other without a neighbour: beyond, a plane would be extrapolated
_RUN = wp.constant(4)  # confirmed pixels that a ray must cross; fewer are the fringe of something else
_STEP = wp.constant(10.0)  # grey levels from one pixel of a ray to the next
_SPAN = wp.constant(24.0)  # grey levels from a ray's start
_NEAR = wp.constant(0.005)  # relative difference of inverse depth
_AGREEING = wp.constant(0.75)
_FRINGE = wp.constant(4)  # pixels; half of the smallest patch, and one
_EDGE = wp.constant(25.0)  # grey levels

_Slots: Any = wp.types.vector(length=16, dtype=wp.float32)


@wp.kernel(enable_backward=False)
@no_type_check
def _complete(
    base: int,
    level: Level,
    image: wp.array(dtype=wp.float16),
    usable: wp.array(dtype=wp.uint8),
    planes: wp.array(dtype=wp.vec3),
    costs: wp.array(dtype=wp.float32),
    sure: wp.array(dtype=wp.float32),
    reach: int,
    new_cost: float,
    new_planes: wp.array(dtype=wp.vec3),
    new_costs: wp.array(dtype=wp.float32),
):
    """Give pixels that are not `sure` the plane through the sure pixels that rays in like colours find around them."""
    item = base + wp.tid()
    new_planes[item] = planes[item]
    new_costs[item] = costs[item]
    if sure[item] > 0.0 or usable[item] == wp.uint8(0):
        return
    row = item // level.width
    column = item - row * level.width
    start = float(image[item])
    us = _Slots()
    vs = _Slots()
    nears = _Slots()
    weights = _Slots()
    found = int(0)
    gap = int(0)
    widest = int(0)
    leading = int(0)
    for k in range(_RAYS):
        angle = float(k) * 6.2831853 / float(_RAYS)
        along_u = wp.cos(angle)
        along_v = wp.sin(angle)
        before = start
        run = int(0)
        t = int(1)
        while t <= reach and run < _RUN:
            i = int(wp.floor(float(column) + 0.5 + float(t) * along_u))
            j = int(wp.floor(float(row) + 0.5 + float(t) * along_v))
            stop = i < 0 or j < 0 or i >= level.width or j >= level.height
            if not stop:
                at = j * level.width + i
                grey = float(image[at])
                if wp.abs(grey - before) > _STEP or wp.abs(grey - start) > _SPAN or usable[at] == wp.uint8(0):
                    stop = True
                elif sure[at] > 0.0:
                    run += 1
                    if run == _RUN:
                        us[found] = float(i - column)
                        vs[found] = float(j - row)
                        nears[found] = planes[at][0]
                        weights[found] = 1.0
                before = grey
            t = wp.where(stop, reach + 1, t + 1)
        if run == _RUN:
            if found == 0:
                leading = gap
            widest = wp.max(widest, gap)
            gap = int(0)
            found += 1
        else:
            gap += 1
    if found < _LEAST_RAYS or wp.max(widest, gap + leading) > _WIDEST_GAP:
        return

    plane = wp.vec3(0.0, 0.0, 0.0)
    agreeing = int(0)
    for _round in range(4):
        square = wp.mat33(0.0)
        right = wp.vec3(0.0, 0.0, 0.0)
        for k in range(found):
            place = wp.vec3(1.0, us[k] / float(reach), vs[k] / float(reach))
            weight = weights[k] / (1.0 + wp.length(place))
            square += weight * wp.outer(place, place)
            right += weight * nears[k] * place
        if wp.determinant(square) < 1e-9:
            return
        plane = wp.inverse(square) * right
        agreeing = int(0)
        for k in range(found):
            error = plane[0] + (plane[1] * us[k] + plane[2] * vs[k]) / float(reach) - nears[k]
            relative = error / (_NEAR * nears[k])
            weights[k] = 1.0 / ((1.0 + relative * relative) * (1.0 + relative * relative))
            if wp.abs(relative) < 1.0:
                agreeing += 1
    plane = wp.vec3(plane[0], plane[1] / float(reach), plane[2] / float(reach))
    x = float(column) + 0.5
    y = float(row) + 0.5
    if float(agreeing) >= _AGREEING * float(found) and is_sound(level, x, y, plane):
        new_planes[item] = plane
        new_costs[item] = new_cost


def complete(level: Any, image: Any, usable: Any, found: tuple[Any, Any], sure: Any, device: str) -> tuple[Any, Any]:
    """Planes and costs, with planes from around at pixels that other maps do not confirm.

    Args:
        level: `Level`, the reference at the size of its map.
        image: wp.array(float16), its grey levels.
        usable: wp.array(uint8), 0 where it may not be used.
        found: Its planes and costs.
        sure: wp.array(float32), depth where other maps confirm it, else 0.
        device: A Warp device.
    """
    pixels = level.width * level.height
    planes, costs = wp.empty(pixels, dtype=wp.vec3, device=device), wp.empty(pixels, dtype=wp.float32, device=device)
    reach = max(4, round(REACH * max(level.width, level.height)))
    inputs = [level, image, usable, *found, sure, reach, COST]
    launch_chunked(_complete, pixels, inputs, outputs=[planes, costs], device=device)
    return planes, costs


def without_islands(depth: Float32[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Where a depth map is part of a piece of some size; pieces end where depth jumps."""
    known = depth > 0
    beside = _linked(depth[:, :-1], depth[:, 1:])
    below = _linked(depth[:-1], depth[1:])
    inner = known.copy()  # without one side of each jump, which parts the pieces
    inner[:, :-1] &= beside | ~known[:, 1:]
    inner[:-1] &= below | ~known[1:]
    labels, count = ndimage.label(inner)
    large = np.bincount(labels.ravel(), minlength=count + 1) >= ISLAND * depth.size
    large[0] = False
    kept: np.ndarray = large[labels]
    core = kept.copy()
    kept[:, :-1] |= core[:, 1:] & beside
    kept[:, 1:] |= core[:, :-1] & beside
    kept[:-1] |= core[1:] & below
    kept[1:] |= core[:-1] & below
    return kept


def _linked(first: Float32[np.ndarray, "h w"], second: Float32[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Whether neighbouring pixels have depths that hang together."""
    return (first > 0) & (second > 0) & (np.abs(first - second) <= _JUMP * np.minimum(first, second))


@wp.kernel(enable_backward=False)
@no_type_check
def _trim(
    base: int,
    image: wp.array2d(dtype=wp.float32),
    depth: wp.array2d(dtype=wp.float32),
    backdrop: wp.array2d(dtype=wp.uint8),
    kept: wp.array2d(dtype=wp.uint8),
):
    """Mark the pixels that are not fringe: see `without_fringe`."""
    item = base + wp.tid()
    row = item // depth.shape[1]
    column = item - row * depth.shape[1]
    kept[row, column] = wp.uint8(1)
    if depth[row, column] <= 0.0:
        kept[row, column] = wp.uint8(0)
        return
    grey = image[row, column]
    for direction in range(8):
        du = wp.where(direction % 4 == 0, 1, wp.where(direction % 4 == 2, 0, 1))
        dv = wp.where(direction % 4 == 0, 0, wp.where(direction % 4 == 3, -1, 1))
        sign = wp.where(direction < 4, 1, -1)
        outside = int(0)
        edge = int(0)
        going = int(1)
        for t in range(1, _FRINGE + 1):
            i = column + sign * t * du
            j = row + sign * t * dv
            if going == 1 and i >= 0 and j >= 0 and i < depth.shape[1] and j < depth.shape[0]:
                if wp.abs(image[j, i] - grey) > _STEP:
                    going = 0
                elif backdrop[j, i] != wp.uint8(0):
                    outside = 1
            i = column - sign * t * du
            j = row - sign * t * dv
            if i >= 0 and j >= 0 and i < depth.shape[1] and j < depth.shape[0]:
                if depth[j, i] > 0.0 and wp.abs(image[j, i] - grey) > _EDGE:
                    edge = 1
        if outside == 1 and edge == 1:
            kept[row, column] = wp.uint8(0)


def without_fringe(
    depth: Float32[np.ndarray, "h w"], image: Float32[np.ndarray, "h w"], device: str
) -> Bool[np.ndarray, "h w"]:
    """Where a depth map is more than the fringe of something.

    Patches at an outline show its edge, so that a strip of backdrop gets the depth of what is before it. A pixel is
    fringe if it has the grey level of a backdrop without depth on one side, and there is an edge close by on the other.
    """
    labels, count = ndimage.label(depth <= 0)
    large = np.bincount(labels.ravel(), minlength=count + 1) >= BACKDROP * depth.size
    large[0] = False
    kept = wp.empty(depth.shape, dtype=wp.uint8, device=device)
    arrays = [wp.array(np.ascontiguousarray(one), dtype=wp.float32, device=device) for one in (image, depth)]
    arrays.append(wp.array(large[labels].astype(np.uint8), dtype=wp.uint8, device=device))
    launch_chunked(_trim, depth.size, arrays, outputs=[kept], device=device)
    found: np.ndarray = kept.numpy()
    return found > 0
