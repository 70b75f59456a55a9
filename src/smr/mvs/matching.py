"""PatchMatch over the planes of one reference image, at one scale.

Hypotheses come from a sweep of planes, then spread over a red-black grid: each pixel tries the best of eight regions
around it, weighs the sources by how those fare in them (Xu and Tao 2019, ACMH), and tries changes of what it has. The
weights are used as they are, not sampled, so that the result depends on the seed through the changes only.
"""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

from .cost import INVALID, MAX_SOURCES, Level, Source, view_cost
from .planes import is_sound, normal_of, plane_of

wp.set_module_options({"enable_backward": False})

CANDIDATES = 8
NO_PLANE = 2.0
"""Cost of a pixel that has no plane."""

_MAX_SOURCES = wp.constant(MAX_SOURCES)
_CANDIDATES = wp.constant(CANDIDATES)
_INVALID = wp.constant(INVALID)
_BAD = wp.constant(1.2)  # a source in which a hypothesis costs more does not see it
_GAIN = wp.constant(0.002)  # a hypothesis must be better by this, lest planes drift where nothing tells them apart
_UNSEEN = wp.constant(0.02)  # sources with a smaller share of the weight are not asked about changes

_CostTable: Any = wp.types.matrix(shape=(CANDIDATES, MAX_SOURCES), dtype=wp.float32)
_PlaneTable: Any = wp.types.matrix(shape=(CANDIDATES, 3), dtype=wp.float32)
_PerSource: Any = wp.types.vector(length=MAX_SOURCES, dtype=wp.float32)


@wp.kernel(enable_backward=False)
@no_type_check
def sweep(
    base: int,
    level: Level,
    sources: wp.array(dtype=Source),
    images: wp.array(dtype=wp.vec4),
    masks: wp.array(dtype=wp.uint8),
    maps: wp.array(dtype=wp.vec3),
    patches: wp.array(dtype=wp.vec2),
    contrasts: wp.array(dtype=wp.float32),
    usable: wp.array(dtype=wp.uint8),
    depths: int,
    used: int,
    planes: wp.array(dtype=wp.vec3),
    costs: wp.array(dtype=wp.float32),
    chosen: wp.array(dtype=wp.int32),
):
    """The best of `depths` planes that face the camera, by the mean cost in the best `used` sources."""
    item = base + wp.tid()
    x = float(item % level.width) + 0.5
    y = float(item // level.width) + 0.5
    best = float(1.0e9)
    plane = wp.vec3(0.0, 0.0, 0.0)
    if usable[item] != wp.uint8(0):
        step = (level.high - level.low) / float(depths - 1)
        for k in range(depths):
            trial = wp.vec3(level.low + float(k) * step, 0.0, 0.0)
            lowest = _PerSource()
            for s in range(level.sources):
                cost = view_cost(level, sources[s], images, masks, maps, patches, contrasts[item], item, x, y, trial)
                place = s
                while place > 0 and lowest[wp.max(place - 1, 0)] > cost:
                    lowest[place] = lowest[place - 1]
                    place -= 1
                lowest[place] = cost
            total = float(0.0)
            for s in range(used):
                total += lowest[s]
            if total < best:
                best = total
                plane = trial
    planes[item] = plane
    costs[item] = wp.where(plane[0] > 0.0, best / float(used), _INVALID)
    chosen[item] = 0


@wp.func
@no_type_check
def _better(costs: wp.array(dtype=wp.float32), width: int, height: int, column: int, row: int, best: int) -> int:
    """`best`, or the pixel at (column, row) if it lies in the image and costs less."""
    found = best
    if column >= 0 and row >= 0 and column < width and row < height:
        at = row * width + column
        if best < 0 or costs[at] < costs[wp.max(best, 0)]:
            found = at
    return found


@wp.func
@no_type_check
def _region(costs: wp.array(dtype=wp.float32), width: int, height: int, column: int, row: int, region: int) -> int:
    """The pixel of least cost in a region, all of the other colour; -1 where the image ends.

    Regions 0 to 3 are wedges above, below, left and right; 4 to 7 are lines of eleven pixels farther out.
    """
    direction = region & 3
    sign = wp.where(direction == 0 or direction == 2, -1, 1)
    upright = direction < 2
    best = int(-1)
    if region < 4:
        for k in range(1, 5):
            for side in range(2):
                aside = (k - 1) * (2 * side - 1)
                along = sign * k
                if upright:
                    best = _better(costs, width, height, column + aside, row + along, best)
                else:
                    best = _better(costs, width, height, column + along, row + aside, best)
    else:
        for k in range(11):
            along = sign * (3 + 2 * k)
            if upright:
                best = _better(costs, width, height, column, row + along, best)
            else:
                best = _better(costs, width, height, column + along, row, best)
    return best


@wp.func
@no_type_check
def _source_weights(
    level: Level, table: _CostTable, found: int, chosen: wp.array(dtype=wp.int32), at: wp.vec4i, tau: float
):
    """Weight of each source here: how the candidates fare in it, times how many of the four neighbours chose it."""
    weights = _PerSource()
    for s in range(level.sources):
        good = float(0.0)
        bad = float(0.0)
        total = float(0.0)
        for k in range(found):
            cost = table[k, s]
            if cost < tau:
                good += 1.0
                total += wp.exp(-cost * cost / 0.18)
            elif cost > _BAD:
                bad += 1.0
        weight = float(0.0)
        if bad < 3.0:
            weight = wp.exp(-tau * tau / 0.32)
            if good > 2.0:
                weight = total / good
        prior = float(0.1)
        for k in range(4):
            if at[k] >= 0 and ((chosen[wp.max(at[k], 0)] >> s) & 1) == 1:
                prior += 0.225
        weights[s] = weight * prior
    return weights


@wp.kernel(enable_backward=False)
@no_type_check
def propagate(
    base: int,
    level: Level,
    sources: wp.array(dtype=Source),
    images: wp.array(dtype=wp.vec4),
    masks: wp.array(dtype=wp.uint8),
    maps: wp.array(dtype=wp.vec3),
    patches: wp.array(dtype=wp.vec2),
    contrasts: wp.array(dtype=wp.float32),
    usable: wp.array(dtype=wp.uint8),
    color: int,
    regions: int,
    changes: int,
    reach: float,
    iteration: int,
    seed: int,
    planes: wp.array(dtype=wp.vec3),
    costs: wp.array(dtype=wp.float32),
    chosen: wp.array(dtype=wp.int32),
):
    """Try the candidates and the changes at the pixels of one colour.

    `regions` is 8, or 4 to take for each direction the better of the near and the far region; `changes` of the plane
    are tried, which move the pixel's place in the sources by up to `reach` pixels.
    """
    item = base + wp.tid()
    half = (level.width + 1) // 2
    row = item // half
    column = 2 * (item - row * half) + ((row + color) & 1)
    if column >= level.width:
        return
    at = row * level.width + column
    if usable[at] == wp.uint8(0):
        return
    x = float(column) + 0.5
    y = float(row) + 0.5
    contrast = contrasts[at]

    table = _CostTable()
    trials = _PlaneTable()
    found = int(0)
    for region in range(regions):
        place = _region(costs, level.width, level.height, column, row, region)
        if regions == 4:
            far = _region(costs, level.width, level.height, column, row, region + 4)
            if far >= 0 and (place < 0 or costs[wp.max(far, 0)] < costs[wp.max(place, 0)]):
                place = far
        if place >= 0:
            its = planes[place]
            dx = float(column - place % level.width)
            dy = float(row - place // level.width)
            trial = wp.vec3(its[0] + its[1] * dx + its[2] * dy, its[1], its[2])
            if is_sound(level, x, y, trial):
                for s in range(level.sources):
                    table[found, s] = view_cost(
                        level, sources[s], images, masks, maps, patches, contrast, at, x, y, trial
                    )
                trials[found, 0] = trial[0]
                trials[found, 1] = trial[1]
                trials[found, 2] = trial[2]
                found += 1

    above = wp.where(row > 0, at - level.width, -1)
    below = wp.where(row + 1 < level.height, at + level.width, -1)
    left = wp.where(column > 0, at - 1, -1)
    right = wp.where(column + 1 < level.width, at + 1, -1)
    tau = 0.8 * wp.exp(-float(iteration * iteration) / 90.0)
    weights = _source_weights(level, table, found, chosen, wp.vec4i(above, below, left, right), tau)
    total = float(0.0)
    strongest = int(0)
    for s in range(level.sources):
        total += weights[s]
        if weights[s] > weights[strongest]:
            strongest = s
    if total <= 0.0:  # no source is trusted: all are asked
        for s in range(level.sources):
            weights[s] = 1.0
        total = float(level.sources)

    plane = planes[at]
    cost = float(0.0)
    for s in range(level.sources):
        if weights[s] > _UNSEEN * total:
            cost += weights[s] * view_cost(level, sources[s], images, masks, maps, patches, contrast, at, x, y, plane)
        else:
            total -= weights[s]
            weights[s] = 0.0
    for k in range(found):
        trial_cost = float(0.0)
        for s in range(level.sources):
            trial_cost += weights[s] * table[k, s]
        if trial_cost < cost - _GAIN * total:
            cost = trial_cost
            plane = wp.vec3(trials[k, 0], trials[k, 1], trials[k, 2])

    random = wp.rand_init(seed + iteration * 7919, at)
    m = sources[strongest].shift
    q = sources[strongest].turn * wp.vec3(x, y, 1.0) + plane[0] * m
    slide = wp.length(wp.vec2(m[0] * q[2] - q[0] * m[2], m[1] * q[2] - q[1] * m[2])) / wp.max(q[2] * q[2], 1e-12)
    unit = 1.0 / wp.max(slide, 1e-12)  # change of inverse depth that moves the strongest source's pixel by one
    for k in range(changes):
        near = plane[0]
        normal = normal_of(level, x, y, plane)
        if k != 1:
            near += unit * reach * wp.randf(random, -1.0, 1.0)
        if k > 0:
            turn = wp.where(k < 3, 0.3 * reach, 1.5)
            side = turn * wp.randf(random, -1.0, 1.0)
            up = turn * wp.randf(random, -1.0, 1.0)
            normal = wp.normalize(normal + wp.vec3(side, up, turn * wp.randf(random, -1.0, 1.0)))
        near = wp.clamp(near, level.low, level.high)
        trial = plane_of(level, x, y, near, normal)
        if is_sound(level, x, y, trial):
            trial_cost = float(0.0)
            bound = cost - _GAIN * total
            for s in range(level.sources):
                if weights[s] > 0.0 and trial_cost < bound:
                    trial_cost += weights[s] * view_cost(
                        level, sources[s], images, masks, maps, patches, contrast, at, x, y, trial
                    )
            if trial_cost < bound:
                cost = trial_cost
                plane = trial

    mask = int(0)
    for s in range(level.sources):
        if weights[s] > 0.2 * weights[strongest]:
            mask |= 1 << s
    planes[at] = plane
    costs[at] = cost / total
    chosen[at] = mask


@wp.kernel(enable_backward=False)
@no_type_check
def enlarge(
    base: int,
    coarse: wp.array(dtype=wp.vec3),
    coarse_costs: wp.array(dtype=wp.float32),
    coarse_chosen: wp.array(dtype=wp.int32),
    coarse_image: wp.array(dtype=wp.float16),
    coarse_width: int,
    coarse_height: int,
    image: wp.array(dtype=wp.float16),
    width: int,
    height: int,
    planes: wp.array(dtype=wp.vec3),
    costs: wp.array(dtype=wp.float32),
    chosen: wp.array(dtype=wp.int32),
):
    """Each pixel takes the plane of the one of four coarse pixels around it that is likest in colour."""
    item = base + wp.tid()
    scale_x = float(coarse_width) / float(width)
    scale_y = float(coarse_height) / float(height)
    x = (float(item % width) + 0.5) * scale_x
    y = (float(item // width) + 0.5) * scale_y
    grey = float(image[item])
    best = float(1.0e9)
    place = int(0)
    for k in range(4):
        i = wp.clamp(int(wp.floor(x - 0.5)) + (k & 1), 0, coarse_width - 1)
        j = wp.clamp(int(wp.floor(y - 0.5)) + (k >> 1), 0, coarse_height - 1)
        at = j * coarse_width + i
        away = wp.abs(float(i) + 0.5 - x) + wp.abs(float(j) + 0.5 - y)
        badness = wp.abs(float(coarse_image[at]) - grey) / 12.0 + away
        if coarse[at][0] > 0.0 and badness < best:
            best = badness
            place = at
    plane = coarse[place]
    dx = x - (float(place % coarse_width) + 0.5)
    dy = y - (float(place // coarse_width) + 0.5)
    planes[item] = wp.vec3(plane[0] + plane[1] * dx + plane[2] * dy, plane[1] * scale_x, plane[2] * scale_y)
    costs[item] = coarse_costs[place]
    chosen[item] = coarse_chosen[place]
