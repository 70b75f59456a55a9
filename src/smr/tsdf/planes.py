"""Depth images as small planes: one per pixel, with its slope, its trust, and the blocks that it touches."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float32

from .blocks import pack

TILE = 8
"""Side of a tile of pixels; a kernel item is a tile."""
TILE_PIXELS = TILE * TILE

_TILE = wp.constant(TILE)
_STEEP = wp.constant(5.67)  # tan 80°: a steeper step between pixels is a jump, not a surface
_GRAZING = wp.constant(0.15)  # cosine; a surface seen at a flatter angle is not measured well enough


@wp.func
@no_type_check
def _depth(depth: wp.array3d(dtype=wp.float32), frame: int, u: int, v: int, low: float, high: float) -> float:
    """Depth in range, else 0."""
    z = float(0.0)
    if u >= 0 and v >= 0 and u < depth.shape[2] and v < depth.shape[1]:
        z = depth[frame, v, u]
        if not (z >= low and z <= high):
            z = 0.0
    return z


@wp.func
@no_type_check
def _slope(before: float, here: float, after: float, limit: float) -> wp.vec3:
    """(slope to both sides together, sides that continue the surface, 1 where a side jumps nearer)."""
    slope = float(0.0)
    sides = float(0.0)
    nearer = float(0.0)
    if before > 0.0:
        if wp.abs(here - before) < limit:
            slope += here - before
            sides += 1.0
        elif before < here:
            nearer = 1.0
    if after > 0.0:
        if wp.abs(after - here) < limit:
            slope += after - here
            sides += 1.0
        elif after < here:
            nearer = 1.0
    if sides > 1.0:
        slope *= 0.5
    return wp.vec3(slope, sides, nearer)


@wp.func
@no_type_check
def _smooth(
    depth: wp.array3d(dtype=wp.float32),
    frame: int,
    u: int,
    v: int,
    raw: wp.vec3,
    ring: wp.vec4,
    limit: float,
    noise: float,
    low: float,
    high: float,
) -> wp.vec3:
    """(z, dz/du, dz/dv) of the least-squares plane through nine pixels two apart, if they are one surface.

    `ring` holds the pixels left, right, above and below; `raw` is the answer without the corners. The depth itself
    moves only as far as noise can explain, so that curvature stays.
    """
    a = _depth(depth, frame, u - 2, v - 2, low, high)
    b = _depth(depth, frame, u + 2, v - 2, low, high)
    c = _depth(depth, frame, u - 2, v + 2, low, high)
    d = _depth(depth, frame, u + 2, v + 2, low, high)
    nearest = wp.min(wp.min(a, b), wp.min(c, d))
    farthest = wp.max(wp.max(a, b), wp.max(c, d))
    z = raw[0]
    if nearest < z - limit or farthest > z + limit:
        return raw
    gu = (b - a + d - c + ring[1] - ring[0]) / 12.0
    gv = (c - a + d - b + ring[3] - ring[2]) / 12.0
    shift = (a + b + c + d + ring[0] + ring[1] + ring[2] + ring[3] - 8.0 * z) / 9.0
    part = wp.clamp(2.0 - wp.abs(shift) / (2.0 * noise * z * z + 1.0e-9), 0.0, 1.0)
    return wp.vec3(z + part * shift, gu, gv)


@wp.func
@no_type_check
def pixel_plane(
    depth: wp.array3d(dtype=wp.float32),
    frame: int,
    u: int,
    v: int,
    camera: wp.vec4,
    noise: float,
    low: float,
    high: float,
) -> wp.vec4:
    """Plane of a pixel: (z, dz/du, dz/dv, facing); z is 0 where there is none.

    Slopes come from the pixels two to each side that continue the surface; across a jump in depth only the own side
    counts. A pixel between a nearer and a farther surface (a flying pixel) and a single stray one are dropped; a ridge
    before a background (a wire) is kept. `facing` is n · (x/z, y/z, 1) for the unit normal n: metres of distance to
    the plane per metre of depth; negative beside a nearer surface, where the pixel must not carve.
    """
    none = wp.vec4(0.0, 0.0, 0.0, 0.0)
    z = _depth(depth, frame, u, v, low, high)
    if z == 0.0:
        return none
    limit_u = _STEEP * z / camera[0]
    limit_v = _STEEP * z / camera[1]
    ring = wp.vec4(
        _depth(depth, frame, u - 2, v, low, high),
        _depth(depth, frame, u + 2, v, low, high),
        _depth(depth, frame, u, v - 2, low, high),
        _depth(depth, frame, u, v + 2, low, high),
    )
    along_u = _slope(ring[0], z, ring[1], 2.0 * limit_u)
    along_v = _slope(ring[2], z, ring[3], 2.0 * limit_v)
    plane = wp.vec3(z, 0.5 * along_u[0], 0.5 * along_v[0])
    sides = along_u[1] + along_v[1]
    if sides == 4.0:
        plane = _smooth(depth, frame, u, v, plane, ring, 2.0 * (limit_u + limit_v), noise, low, high)
    elif sides == 0.0:  # thin, or stray: look at the pixels beside it
        a = _depth(depth, frame, u - 1, v, low, high)
        b = _depth(depth, frame, u + 1, v, low, high)
        along_u = _slope(a, z, b, limit_u)
        a = _depth(depth, frame, u, v - 1, low, high)
        b = _depth(depth, frame, u, v + 1, low, high)
        along_v = _slope(a, z, b, limit_v)
        plane = wp.vec3(z, along_u[0], along_v[0])
        if along_u[1] + along_v[1] == 0.0:
            return none
    if (along_u[1] == 0.0 and along_u[2] > 0.0) or (along_v[1] == 0.0 and along_v[2] > 0.0):
        return none
    x = (float(u) + 0.5 - camera[2]) / camera[0]
    y = (float(v) + 0.5 - camera[3]) / camera[1]
    qu = camera[0] * plane[1] / plane[0]
    qv = camera[1] * plane[2] / plane[0]
    facing = 1.0 / wp.length(wp.vec3(-qu, -qv, 1.0 + qu * x + qv * y))
    if facing < _GRAZING * wp.sqrt(1.0 + x * x + y * y):
        return none
    if along_u[2] + along_v[2] > 0.0:
        facing = -facing
    return wp.vec4(plane[0], plane[1], plane[2], facing)


@wp.kernel(enable_backward=False)
@no_type_check
def make_planes(
    base: int,
    depth: wp.array3d(dtype=wp.float32),
    cameras: wp.array(dtype=wp.vec4),
    noise: float,
    low: float,
    high: float,
    behind: float,
    planes: wp.array(dtype=wp.vec4),
    farthest: wp.array(dtype=wp.float32),
):
    """Planes of all pixels, and per tile the largest depth at which a voxel can still lie in the band."""
    item = base + wp.tid()
    height = depth.shape[1]
    width = depth.shape[2]
    tiles_u = (width + _TILE - 1) // _TILE
    tiles = tiles_u * ((height + _TILE - 1) // _TILE)
    frame = item // tiles
    tile = item - frame * tiles
    u0 = (tile % tiles_u) * _TILE
    v0 = (tile // tiles_u) * _TILE
    camera = cameras[frame]
    far = float(0.0)
    for v in range(v0, wp.min(v0 + _TILE, height)):
        for u in range(u0, wp.min(u0 + _TILE, width)):
            plane = pixel_plane(depth, frame, u, v, camera, noise, low, high)
            planes[(frame * height + v) * width + u] = plane
            if plane[0] > 0.0:
                far = wp.max(far, plane[0] + behind / wp.abs(plane[3]))
    farthest[item] = far


@wp.func
@no_type_check
def _remember(lists: wp.array(dtype=wp.int64), start: int, count: int, point: wp.vec3, side: float) -> int:
    """Add the block of a point to a list that does not hold it yet; return the new length."""
    key = pack(int(wp.floor(point[0] / side)), int(wp.floor(point[1] / side)), int(wp.floor(point[2] / side)))
    for k in range(count):
        if lists[start + count - 1 - k] == key:
            return count
    lists[start + count] = key
    return count + 1


@wp.kernel(enable_backward=False)
@no_type_check
def touch_blocks(
    base: int,
    planes: wp.array(dtype=wp.vec4),
    cameras: wp.array(dtype=wp.vec4),
    world_from_camera: wp.array(dtype=wp.mat44),
    width: int,
    height: int,
    stride: int,
    front: float,
    behind: float,
    half_voxel: float,
    length: int,
    counts: wp.array(dtype=wp.int32),
    lists: wp.array(dtype=wp.int64),
):
    """Keys of the blocks that each tile's planes reach from `front` before them to `behind` behind them."""
    item = base + wp.tid()
    tiles_u = (width + _TILE - 1) // _TILE
    tiles = tiles_u * ((height + _TILE - 1) // _TILE)
    frame = item // tiles
    tile = item - frame * tiles
    u0 = (tile % tiles_u) * _TILE
    v0 = (tile // tiles_u) * _TILE
    camera = cameras[frame]
    pose = world_from_camera[frame]
    side = half_voxel * 16.0
    shift = wp.vec3(half_voxel, half_voxel, half_voxel)  # a block spans from half a voxel before its first centre
    count = int(0)
    for i in range(0, _TILE, stride):
        v = v0 + i
        for j in range(0, _TILE, stride):
            u = u0 + j
            if u < width and v < height:
                plane = planes[(frame * height + v) * width + u]
                z = plane[0]
                if z > 0.0:
                    x = (float(u) + 0.5 - camera[2]) / camera[0]
                    y = (float(v) + 0.5 - camera[3]) / camera[1]
                    qu = camera[0] * plane[1] / z
                    qv = camera[1] * plane[2] / z
                    away = wp.normalize(wp.vec3(-qu, -qv, 1.0 + qu * x + qv * y))
                    away = wp.transform_vector(pose, away)
                    point = wp.transform_point(pose, wp.vec3(x * z, y * z, z)) + shift
                    count = _remember(lists, item * length, count, point - front * away, side)
                    count = _remember(lists, item * length, count, point, side)
                    count = _remember(lists, item * length, count, point + behind * away, side)
    counts[item] = count


def estimate_noise(depth: Float32[np.ndarray, "h w"]) -> float | None:
    """Standard deviation of depth at 1 m, metres, taking it to grow with the square of depth; None: too few pixels.

    From second differences along rows and columns, which a smooth surface leaves near zero. The 70 % quantile is
    above the steps of a coarsely quantised sensor and below the edges of objects.
    """
    found = []
    for image in (depth[::3], depth.T[::3]):
        a, b, c = image[:, 0:-4:3], image[:, 2:-2:3], image[:, 4::3]
        known = (a > 0) & (b > 0) & (c > 0)
        a, b, c = a[known], b[known], c[known]
        found.append(np.abs(b - 0.5 * (a + c)) / b**2)
    second = np.concatenate(found)
    if len(second) < 500:
        return None
    return float(np.quantile(second, 0.7) / (1.0364 * 1.5**0.5))
