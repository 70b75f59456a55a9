"""The demo's colours: a procedural glaze and table pattern, and the light that falls on them."""

from __future__ import annotations

from typing import no_type_check

import warp as wp

from .teapot import bead_distance, distance, letter_distance

TABLE_RADIUS = 0.210
"""Radius of the round table, metres."""
_CREAM = wp.constant(wp.vec3(0.86, 0.80, 0.66))
_COBALT = wp.constant(wp.vec3(0.016, 0.043, 0.230))
_CORAL = wp.constant(wp.vec3(0.680, 0.100, 0.042))
_TEAL = wp.constant(wp.vec3(0.020, 0.230, 0.225))
_MUSTARD = wp.constant(wp.vec3(0.800, 0.360, 0.026))
_WALNUT = wp.constant(wp.vec3(0.120, 0.052, 0.022))
_OAK = wp.constant(wp.vec3(0.560, 0.345, 0.165))


@wp.func
@no_type_check
def _over(below: wp.vec3, above: wp.vec3, cover: float):
    return below + cover * (above - below)


@wp.func
@no_type_check
def _line(x: float, middle: float, half: float, soft: float):
    """1 within `half` of `middle`, 0 outside, a soft edge between."""
    return wp.smoothstep(half + soft, half - soft, wp.abs(x - middle))


@wp.func
@no_type_check
def _alternate(x: float):
    """0 and 1 by turns for whole numbers."""
    i = wp.floor(x)
    return i - 2.0 * wp.floor(i * 0.5)


@wp.func
@no_type_check
def _rosette(x: float, y: float, size: float, color: wp.vec3):
    """A flower of eight petals about the origin."""
    r = wp.sqrt(x * x + y * y) / size
    edge = 0.72 + 0.28 * wp.cos(8.0 * wp.atan2(y, x))
    c = _over(color, _COBALT, wp.smoothstep(edge - 0.03, edge + 0.03, r))
    c = _over(c, _CREAM, wp.smoothstep(edge + 0.14, edge + 0.20, r))
    return _over(_MUSTARD, c, wp.smoothstep(0.26, 0.32, r))


@wp.func
@no_type_check
def _belly(p: wp.vec3, angle: float):
    soft = 0.0002
    color = _CREAM
    sector = wp.pi / 6.0
    k = wp.round(angle / sector)
    from_side = wp.abs(wp.abs(angle) - 0.5 * wp.pi)
    flower = _CORAL
    if _alternate(k) > 0.5:
        flower = _TEAL
    if from_side > 0.60:
        color = _rosette((angle - k * sector) * 0.092, p[2] - 0.077, 0.0185, flower)
    if from_side < 0.58:
        panel = wp.max(from_side * 0.092 - 0.048, wp.abs(p[2] - 0.079) - 0.0205)
        color = _over(color, _MUSTARD, _line(panel, 0.0, 0.0009, soft))
        color = _over(color, _COBALT, wp.smoothstep(0.0028, 0.0024, letter_distance(p)))
    return color


@wp.func
@no_type_check
def _bands(color: wp.vec3, p: wp.vec3, angle: float):
    """The painted rings above and below the belly's pictures."""
    soft = 0.0002
    z = p[2]
    turn = angle / (2.0 * wp.pi)
    if z < 0.046:
        lobe = wp.floor(turn * 18.0 + 9.5)
        lobe -= 3.0 * wp.floor(lobe / 3.0)
        color = _CORAL
        if lobe > 0.5:
            color = _CREAM
        if lobe > 1.5:
            color = _TEAL
        color = _over(color, _COBALT, wp.smoothstep(0.0225, 0.0220, z))
        color = _over(color, _MUSTARD, _line(z, 0.0240, 0.0009, soft))
    color = _over(color, _COBALT, _line(z, 0.047, 0.0020, soft))
    color = _over(color, _CORAL, _line(z, 0.1020, 0.0012, soft))
    if z > 0.1043:
        wave = z - 0.1105 - 0.0022 * wp.sin(16.0 * angle)
        color = _over(_TEAL, _CREAM, _line(wave, 0.0, 0.0019, soft))
    if z > 0.1175:
        color = _over(_MUSTARD, _COBALT, wp.smoothstep(0.0004, 0.0008, bead_distance(p)))
        color = _over(color, _CREAM, _line(z, 0.1180, 0.0008, soft))
    if z > 0.1345:
        color = _CREAM
        if _alternate(turn * 48.0) + _alternate(z * 400.0 + 0.3) == 1.0:
            color = _COBALT
    return color


@wp.func
@no_type_check
def _glaze(p: wp.vec3):
    """Colour of the teapot before light."""
    radius = wp.length(wp.vec2(p[0], p[1]))
    angle = wp.atan2(p[1], p[0])
    z = p[2]
    color = _bands(_belly(p, angle), p, angle)
    if radius > 0.0985 and p[0] > 0.0:  # spout: rings along its axis
        along = 0.62 * p[0] + 0.78 * z
        color = _CREAM
        if _alternate(along / 0.0075) > 0.5:
            color = _COBALT
        if along > 0.187:
            color = _CORAL
        if z > 0.1545:
            color = _MUSTARD
    upper_root = z > 0.1215 and radius > 0.0765 and wp.abs(p[1]) < 0.013
    if p[0] < 0.0 and (radius > 0.0985 or upper_root):  # handle: a twisted stripe
        turn = wp.atan2(z - 0.088, p[0] + 0.104) * 26.0 / (2.0 * wp.pi)
        color = _CORAL
        if _alternate(turn + wp.atan2(p[1], radius - 0.145) / wp.pi) > 0.5:
            color = _MUSTARD
    if z > 0.1405 and radius < 0.0540:  # lid
        stripe = wp.cos(14.0 * angle)
        color = _over(_CREAM, _COBALT, wp.smoothstep(-0.06, 0.06, stripe))
        color = _over(color, _CORAL, _line(radius, 0.0415, 0.0022, 0.0002))
        color = _over(_TEAL, color, wp.smoothstep(0.0205, 0.0210, radius))
    if radius > 0.0508 and z > 0.1385 and radius < 0.07:
        color = _MUSTARD
    if z > 0.1745:  # knob
        color = _CORAL
        if _alternate(angle * 5.0 / wp.pi + (z - 0.19) * 60.0) > 0.5:
            color = _CREAM
        color = _over(color, _MUSTARD, wp.smoothstep(0.2040, 0.2045, z))
    return color


@wp.func
@no_type_check
def _tabletop(p: wp.vec3, seed: wp.uint32):
    """Colour of the table before light: oak with an inlaid star, a ring of checks, a walnut rim."""
    radius = wp.length(wp.vec2(p[0], p[1]))
    angle = wp.atan2(p[1], p[0])
    turn = angle / (2.0 * wp.pi)
    grain = wp.noise(seed, wp.vec2(p[0] * 14.0, p[1] * 160.0)) + 0.5 * wp.noise(
        seed, wp.vec2(p[0] * 60.0, p[1] * 700.0)
    )
    color = _OAK * (1.0 + 0.30 * grain)
    ray = wp.abs(turn * 16.0 - wp.round(turn * 16.0)) * 2.0  # 0 on a point of the star, 1 between two
    reach = 0.9 * (1.0 - wp.abs(radius - 0.140) / 0.032)
    if ray < reach:
        color = _TEAL
        if _alternate(wp.round(turn * 16.0)) > 0.5:
            color = _CORAL
    if ray < reach - 0.30:
        color = _CREAM
    if ray < reach - 0.55:
        color = _MUSTARD
    if radius > 0.176 and radius < 0.198:
        color = _CREAM
        if _alternate(turn * 72.0) + _alternate((radius - 0.176) / 0.011) == 1.0:
            color = _COBALT
    color = _over(color, _WALNUT, _line(radius, 0.1755, 0.0012, 0.0002))
    color = _over(color, _WALNUT, wp.smoothstep(0.1975, 0.1980, radius))
    color = _over(color, _COBALT, _line(radius, 0.105, 0.0012, 0.0002))
    return color * (1.0 + 0.10 * grain)


@wp.func
@no_type_check
def albedo(p: wp.vec3, on_table: bool, seed: wp.uint32):
    """Linear RGB of the surface at a point, before light."""
    if on_table:
        return _tabletop(p, seed)
    speckle = wp.noise(seed, p * 900.0)
    cloud = wp.noise(seed, p * 120.0)
    color = _glaze(p) * (1.0 + 0.10 * cloud + 0.08 * speckle)
    return color * (1.0 - 0.55 * wp.smoothstep(0.42, 0.55, speckle))


@wp.func
@no_type_check
def _scene(p: wp.vec3):
    return wp.min(distance(p), wp.max(p[2], wp.length(wp.vec2(p[0], p[1])) - TABLE_RADIUS))


@wp.kernel(enable_backward=False)
@no_type_check
def light(
    base: int,
    points: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
    irradiance: wp.array(dtype=wp.vec3),
):
    """What falls on each point: sky with ambient occlusion, a lamp with a soft shadow, light back from the table."""
    i = base + wp.tid()
    p = points[i]
    n = normals[i]
    open_sky = wp.float32(1.0)
    for step in range(1, 6):
        reach = 0.006 * float(step * step) * 0.5
        open_sky -= wp.max(reach - _scene(p + reach * n), 0.0) / reach * 0.5 * wp.pow(0.62, float(step - 1))
    open_sky = wp.clamp(open_sky, 0.08, 1.0)
    lamp = wp.normalize(wp.vec3(0.35, -0.55, 0.90))
    lit = wp.float32(1.0)
    far = wp.float32(0.004)
    for _step in range(28):
        if far < 0.35 and lit > 0.0:
            gap = _scene(p + 0.0015 * n + far * lamp)
            lit = wp.min(lit, 9.0 * gap / far)
            far += wp.clamp(gap, 0.004, 0.03)
    lit = wp.smoothstep(0.0, 1.0, wp.max(lit, 0.0)) * wp.max(wp.dot(n, lamp), 0.0)
    up = 0.5 + 0.5 * n[2]
    sky = wp.vec3(0.60, 0.66, 0.75) * (0.35 + 0.65 * up) + wp.vec3(0.16, 0.11, 0.06) * (1.0 - up)
    irradiance[i] = open_sky * sky + wp.vec3(0.62, 0.56, 0.48) * lit
