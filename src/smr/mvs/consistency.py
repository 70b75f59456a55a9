"""What of a depth map other depth maps confirm, and how much to trust it."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float32

from ..arrays import launch_chunked
from .cost import Level, Source
from .planes import normal_of, ray_of

wp.set_module_options({"enable_backward": False})

LARGEST_COST = 0.7
"""A pixel whose best plane costs more has no depth."""
LIKENESS = 0.87
"""Cosine of the largest angle between two maps' normals, 30 degrees: those of small patches are rough."""
_ERROR = wp.constant(2.0)  # pixels between here and where the other map brings us back to
_DEPTH = wp.constant(0.01)  # relative difference of depth
_NARROWEST = wp.constant(0.0262)  # sine of 1.5 degrees between the rays: below, they tell no depth
_GOOD_ANGLE = wp.constant(0.1737)  # sine of 10 degrees
_GOOD_COUNT = wp.constant(4.0)
_LEAST_WEIGHT = wp.constant(0.0625)


@wp.kernel(enable_backward=False)
@no_type_check
def _confirm(
    base: int,
    level: Level,
    sources: wp.array(dtype=Source),
    centers: wp.array(dtype=wp.vec3),
    turns: wp.array(dtype=wp.mat33),
    levels: wp.array(dtype=wp.vec4),
    planes: wp.array(dtype=wp.vec3),
    costs: wp.array(dtype=wp.float32),
    source_planes: wp.array(dtype=wp.vec3),
    source_costs: wp.array(dtype=wp.float32),
    least: int,
    largest_cost: float,
    likeness: float,
    depth: wp.array(dtype=wp.float32),
    weight: wp.array(dtype=wp.float32),
):
    """Keep a pixel if enough sources have the same surface there.

    `centers` are the sources' in the reference's camera frame, `turns` the rotations from its axes to theirs,
    `levels` their fx, fy, cx, cy.
    """
    item = base + wp.tid()
    depth[item] = 0.0
    weight[item] = 0.0
    plane = planes[item]
    if plane[0] <= 0.0 or costs[item] > largest_cost:
        return
    x = float(item % level.width) + 0.5
    y = float(item // level.width) + 0.5
    z = 1.0 / plane[0]
    ray = ray_of(level, x, y)
    point = z * ray
    normal = normal_of(level, x, y, plane)
    agreeing = int(0)
    widest = float(0.0)
    for s in range(level.sources):
        source = sources[s]
        q = source.map_turn * wp.vec3(x, y, 1.0) + plane[0] * source.map_shift
        if q[2] > 1e-12:
            u = q[0] / q[2]
            v = q[1] / q[2]
            if u >= 0.0 and v >= 0.0 and u < float(source.map_width) and v < float(source.map_height):
                i = int(u)
                j = int(v)
                at = source.map_first + j * source.map_width + i
                its = source_planes[at]
                near = its[0] + its[1] * (u - float(i) - 0.5) + its[2] * (v - float(j) - 0.5)
                if near > 0.0 and source_costs[at] <= largest_cost:
                    r = source.back_turn * wp.vec3(u, v, 1.0) + near * source.back_shift
                    if r[2] > 1e-12:
                        error = wp.length(wp.vec2(r[0] / r[2] - x, r[1] / r[2] - y))
                        its_z = r[2] / near  # depth in the reference of the source's point
                        camera = levels[s]
                        its_normal = wp.normalize(
                            wp.vec3(
                                its[1] * camera[0],
                                its[2] * camera[1],
                                near - its[1] * (u - camera[2]) - its[2] * (v - camera[3]),
                            )
                        )
                        same = wp.dot(turns[s] * normal, its_normal) > likeness
                        if error < _ERROR and wp.abs(its_z - z) < _DEPTH * z and same:
                            agreeing += 1
                            away = wp.normalize(point - centers[s])
                            widest = wp.max(widest, wp.length(wp.cross(away, wp.normalize(point))))
    if agreeing >= least and widest > _NARROWEST:
        depth[item] = z
        trust = wp.min(float(agreeing) / _GOOD_COUNT, 1.0) * wp.min(widest / _GOOD_ANGLE, 1.0)
        weight[item] = wp.max(trust * wp.clamp(1.0 - costs[item], 0.0, 1.0), _LEAST_WEIGHT)


def confirm(
    level: Any,
    sources: Any,
    geometry: tuple[np.ndarray, np.ndarray, np.ndarray],
    maps: tuple[Any, Any],
    source_maps: tuple[Any, Any],
    least: int,
    device: str,
) -> tuple[Float32[np.ndarray, "h w"], Float32[np.ndarray, "h w"]]:
    """Depth and weight of one map.

    Args:
        level: `Level`, the reference at the size of its map; `level.sources` sources are asked.
        sources: wp.array(Source) with the geometry of their maps.
        geometry: Centres, rotations and intrinsics of the sources, as `_confirm` has them.
        maps: Planes and costs of the reference.
        source_maps: The same of the sources, one after the other.
        least: Sources that must agree.
        device: A Warp device.
    """
    pixels = level.width * level.height
    depth, weight = (wp.empty(pixels, dtype=wp.float32, device=device) for _ in range(2))
    centers, turns, intrinsics = (
        wp.array(values.astype(np.float32), dtype=dtype, device=device)
        for values, dtype in zip(geometry, (wp.vec3, wp.mat33, wp.vec4), strict=True)
    )
    inputs = [level, sources, centers, turns, intrinsics, *maps, *source_maps, least, LARGEST_COST, LIKENESS]
    launch_chunked(_confirm, pixels, inputs, outputs=[depth, weight], device=device)
    shape = (level.height, level.width)
    return depth.numpy().reshape(shape), weight.numpy().reshape(shape)
