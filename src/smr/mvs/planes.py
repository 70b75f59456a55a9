"""Planes in inverse depth, (a, b, c): 1 / z = a at a pixel's centre, b and c its change per pixel right and down."""

from __future__ import annotations

from typing import no_type_check

import warp as wp

from .cost import Level

_FLATTEST = wp.constant(0.17)  # cosine of 80 degrees between the ray and the normal: flatter planes are not tried


@wp.func
@no_type_check
def normal_of(level: Level, x: float, y: float, plane: wp.vec3) -> wp.vec3:
    """Unit normal, away from the camera."""
    return wp.normalize(
        wp.vec3(
            plane[1] * level.fx,
            plane[2] * level.fy,
            plane[0] - plane[1] * (x - level.cx) - plane[2] * (y - level.cy),
        )
    )


@wp.func
@no_type_check
def ray_of(level: Level, x: float, y: float) -> wp.vec3:
    """Direction of a pixel, 1 long along z."""
    return wp.vec3((x - level.cx) / level.fx, (y - level.cy) / level.fy, 1.0)


@wp.func
@no_type_check
def plane_of(level: Level, x: float, y: float, near: float, normal: wp.vec3) -> wp.vec3:
    """The plane with inverse depth `near` at a pixel and a normal that looks away from the camera."""
    scale = near / wp.dot(normal, ray_of(level, x, y))
    return wp.vec3(near, normal[0] * scale / level.fx, normal[1] * scale / level.fy)


@wp.func
@no_type_check
def is_sound(level: Level, x: float, y: float, plane: wp.vec3) -> bool:
    """Whether the depth is in range and the plane not seen at too flat an angle."""
    ray = ray_of(level, x, y)
    facing = wp.dot(normal_of(level, x, y, plane), ray)
    return plane[0] >= level.low and plane[0] <= level.high and facing > _FLATTEST * wp.length(ray)
