"""Depth images as small planes: one per pixel, with its slope, its trust, and the blocks that it touches."""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float32

from .blocks import pack

wp.set_module_options({"enable_backward": False})

TILE = 8
"""Side of a tile of pixels; a kernel item is a tile."""
TILE_PIXELS = TILE * TILE

_TILE = wp.constant(TILE)
_STEEP = wp.constant(8.0)  # tan 83°: a steeper step between pixels is a jump, not a surface
_NINTH = wp.constant(1.0 / 9.0)
_TWELFTH = wp.constant(1.0 / 12.0)
_GRAZING = wp.constant(0.15)  # cosine; a surface seen at a flatter angle is not measured well enough


@wp.func
@no_type_check
def _slope(before: float, here: float, after: float, limit: float) -> wp.vec3:
    """(slope to both sides together, sides that continue the surface, 1 where a side jumps nearer)."""
    slope = float(0.0)
    sides = float(0.0)
    nearer = float(0.0)
    if wp.abs(here - before) < limit:
        slope += here - before
        sides += 1.0
    elif before > 0.0 and before < here:
        nearer = 1.0
    if wp.abs(after - here) < limit:
        slope += after - here
        sides += 1.0
    elif after > 0.0 and after < here:
        nearer = 1.0
    if sides > 1.0:
        slope *= 0.5
    return wp.vec3(slope, sides, nearer)


@wp.func
@no_type_check
def _ring(depth: wp.array(dtype=wp.float32), i: int, u: int, v: int, far: int, width: int, height: int) -> wp.vec4:
    """Depth `far` pixels left, right, above and below pixel i at (u, v); 0, none, beyond the image's border."""
    ring = wp.vec4(0.0, 0.0, 0.0, 0.0)
    if u >= far:
        ring[0] = depth[i - far]
    if u + far < width:
        ring[1] = depth[i + far]
    if v >= far:
        ring[2] = depth[i - far * width]
    if v + far < height:
        ring[3] = depth[i + far * width]
    return ring


@wp.func
@no_type_check
def _slopes(z: float, ring: wp.vec4, limit_u: float, limit_v: float) -> wp.vec4:
    """Slopes along u and v, sides that continue the surface, and 0, 1 beside a nearer surface, 2 for a flying pixel.

    `ring` holds the pixels left, right, above and below. Across a jump in depth only the own side counts. A pixel
    with a nearer surface on one side and none of its own on the other is flying; a ridge before a background is not.
    """
    along_u = _slope(ring[0], z, ring[1], limit_u)
    along_v = _slope(ring[2], z, ring[3], limit_v)
    state = wp.max(along_u[2], along_v[2])
    if along_u[1] == 0.0 and along_u[2] > 0.0:
        state = 2.0
    if along_v[1] == 0.0 and along_v[2] > 0.0:
        state = 2.0
    return wp.vec4(along_u[0], along_v[0], along_u[1] + along_v[1], state)


@wp.func
@no_type_check
def _smooth(z: float, ring: wp.vec4, corners: wp.vec4, limit: float, trust: float) -> wp.vec4:
    """(z, dz/du, dz/dv, 1) of the least-squares plane through nine pixels two apart; the 1 is 0 if they are not one.

    The depth moves only as far as noise can explain, so that curvature stays: `trust` is 1 / (2 standard deviations).
    """
    a = corners[0] - z
    b = corners[1] - z
    c = corners[2] - z
    d = corners[3] - z
    plane = wp.vec4(0.0, 0.0, 0.0, 0.0)
    if wp.abs(a) < limit and wp.abs(b) < limit and wp.abs(c) < limit and wp.abs(d) < limit:
        shift = (a + b + c + d + ring[0] + ring[1] + ring[2] + ring[3] - 4.0 * z) * _NINTH
        part = wp.clamp(2.0 - wp.abs(shift) * trust, 0.0, 1.0)
        slope_u = (b - a + d - c + ring[1] - ring[0]) * _TWELFTH
        slope_v = (c - a + d - b + ring[3] - ring[2]) * _TWELFTH
        plane = wp.vec4(z + part * shift, slope_u, slope_v, 1.0)
    return plane


@wp.func
@no_type_check
def _normal(slope_u: float, slope_v: float, near: float, x: float, y: float, camera: wp.vec4) -> wp.vec3:
    """Direction away from the camera, at right angles to the plane; its length is 1 / facing. `near` is 1 / z."""
    qu = camera[0] * slope_u * near
    qv = camera[1] * slope_v * near
    return wp.vec3(-qu, -qv, 1.0 + qu * x + qv * y)


@wp.func
@no_type_check
def _direction(away: wp.vec3) -> float:
    """Which of the six directions -x, +x, -y, +y, -z, +z a surface looks to most; `away` points into it."""
    y_most = wp.abs(away[1]) > wp.abs(away[0])
    most = wp.where(y_most, away[1], away[0])
    direction = wp.where(y_most, 2.0, 0.0)
    z_most = wp.abs(away[2]) > wp.abs(most)
    most = wp.where(z_most, away[2], most)
    direction = wp.where(z_most, 4.0, direction)
    return direction + wp.where(most < 0.0, 1.0, 0.0)


@wp.kernel(enable_backward=False)
@no_type_check
def make_planes(
    base: int,
    depth: wp.array(dtype=wp.float32),
    weights: wp.array(dtype=wp.float32),
    width: int,
    height: int,
    step: int,
    cameras: wp.array(dtype=wp.vec4),
    world_from_camera: wp.array(dtype=wp.mat44),
    noise: float,
    low: float,
    high: float,
    behind: float,
    planes: wp.array(dtype=wp.vec4),
    farthest: wp.array(dtype=wp.float32),
):
    """A plane for each pixel, or each 2×2, and per tile the largest depth at which a voxel can still lie in the band.

    `width` and `height` are those of the depth images, `cameras` are of the images of planes, which have `step` times
    fewer pixels along each side; slopes are per pixel of these.

    A plane is (z, dz/du, dz/dv, facing + 2 direction + 16 doubt); z is 0 where there is none: no depth in range, a
    flying pixel, a single stray one, or a surface seen at too flat an angle. Pixels beyond the border have no depth.
    `facing`, below 2, is n · (x/z, y/z, 1) for the unit normal n: metres of distance to the plane per metre of depth.
    `direction` is the one of six that the surface looks to. `doubt` is the number of sixteenths that the pixel's weight
    lacks; none without `weights`. The sum is negative beside a nearer surface, where the pixel must not carve.
    """
    item = base + wp.tid()
    planes_u = (width + step - 1) // step
    planes_v = (height + step - 1) // step
    tiles_u = (planes_u + _TILE - 1) // _TILE
    tiles = tiles_u * ((planes_v + _TILE - 1) // _TILE)
    frame = item // tiles
    tile = item - frame * tiles
    u0 = (tile % tiles_u) * _TILE
    v0 = (tile // tiles_u) * _TILE
    camera = cameras[frame]
    pose = world_from_camera[frame]
    turn = wp.mat33(
        pose[0, 0], pose[0, 1], pose[0, 2], pose[1, 0], pose[1, 1], pose[1, 2], pose[2, 0], pose[2, 1], pose[2, 2]
    )
    inverse_fx = 1.0 / camera[0]
    inverse_fy = 1.0 / camera[1]
    scale = float(step)
    shift = 0.5 * (scale - 1.0)  # from the centre of the pixel that is looked at to the plane's, in pixels of depth
    limit = wp.vec2(_STEEP * inverse_fx / scale, _STEEP * inverse_fy / scale)
    trust = 0.5 / (noise + 1.0e-9)
    far = float(0.0)
    for pv in range(v0, wp.min(v0 + _TILE, planes_v)):
        y = (float(pv) + 0.5 - camera[3]) * inverse_fy
        v = pv * step
        out = (frame * planes_v + pv) * planes_u + u0
        i = (frame * height + v) * width + u0 * step
        for pu in range(u0, wp.min(u0 + _TILE, planes_u)):
            u = pu * step
            plane = wp.vec4(0.0, 0.0, 0.0, 0.0)
            z = depth[i]
            if z >= low and z <= high:
                x = (float(pu) + 0.5 - camera[2]) * inverse_fx
                near = 1.0 / z
                limit_u = limit[0] * z
                limit_v = limit[1] * z
                ring = _ring(depth, i, u, v, 2, width, height)
                slopes = _slopes(z, ring, 2.0 * limit_u, 2.0 * limit_v)
                found = wp.vec4(z, 0.5 * slopes[0], 0.5 * slopes[1], 1.0)
                if slopes[2] == 4.0:
                    above = i - 2 * width
                    below = i + 2 * width
                    corners = wp.vec4(depth[above - 2], depth[above + 2], depth[below - 2], depth[below + 2])
                    smooth = _smooth(z, ring, corners, 2.0 * (limit_u + limit_v), trust * near * near)
                    if smooth[3] > 0.0:
                        found = smooth
                elif slopes[2] == 0.0:  # thin, or stray: look at the pixels beside it
                    ring = _ring(depth, i, u, v, 1, width, height)
                    slopes = _slopes(z, ring, limit_u, limit_v)
                    found = wp.vec4(z, slopes[0], slopes[1], 1.0)
                center = found[0] + shift * (found[1] + found[2])
                slope_u = scale * found[1]
                slope_v = scale * found[2]
                away = _normal(slope_u, slope_v, near, x, y, camera)
                stretch = wp.length_sq(away)
                grazing = _GRAZING * _GRAZING * (1.0 + x * x + y * y) * stretch > 1.0
                if slopes[2] > 0.0 and slopes[3] < 2.0 and not grazing:
                    length = wp.sqrt(stretch)
                    facing = wp.min(1.0 / length, 1.99) + 2.0 * _direction(turn * away)
                    if weights.shape[0] > 0:
                        facing += 16.0 * wp.clamp(wp.floor(16.5 - 16.0 * weights[i]), 0.0, 15.0)
                    far = wp.max(far, center + behind * length)
                    if slopes[3] > 0.0:
                        facing = -facing
                    plane = wp.vec4(center, slope_u, slope_v, facing)
            planes[out] = plane
            out += 1
            i += step
    farthest[item] = far


@wp.func
@no_type_check
def _remember(lists: wp.array(dtype=wp.int64), start: int, count: int, point: wp.vec3) -> int:
    """Add the block of a point (in blocks) to a list that does not hold it yet; return the new length."""
    key = pack(int(wp.floor(point[0])), int(wp.floor(point[1])), int(wp.floor(point[2])))
    place = start + count - 1
    while place >= start:
        if lists[place] == key:
            return count
        place -= 1
    lists[start + count] = key
    return count + 1


@wp.kernel(enable_backward=False)
@no_type_check
def touch_blocks(
    base: int,
    planes: wp.array(dtype=wp.vec4),
    cameras: wp.array(dtype=wp.vec4),
    block_from_camera: wp.array(dtype=wp.mat44),
    width: int,
    height: int,
    stride: int,
    reach: float,
    length: int,
    counts: wp.array(dtype=wp.int32),
    lists: wp.array(dtype=wp.int64),
):
    """Keys of the blocks that each tile's planes touch, or come as near to as `reach`, which is in blocks."""
    item = base + wp.tid()
    tiles_u = (width + _TILE - 1) // _TILE
    tiles = tiles_u * ((height + _TILE - 1) // _TILE)
    frame = item // tiles
    tile = item - frame * tiles
    u0 = (tile % tiles_u) * _TILE
    v0 = (tile // tiles_u) * _TILE
    camera = cameras[frame]
    pose = block_from_camera[frame]
    count = int(0)
    for v in range(v0, wp.min(v0 + _TILE, height), stride):
        y = (float(v) + 0.5 - camera[3]) / camera[1]
        for u in range(u0, wp.min(u0 + _TILE, width), stride):
            plane = planes[(frame * height + v) * width + u]
            z = plane[0]
            if z > 0.0:
                x = (float(u) + 0.5 - camera[2]) / camera[0]
                point = wp.transform_point(pose, wp.vec3(x * z, y * z, z))
                away = wp.transform_vector(pose, _normal(plane[1], plane[2], 1.0 / z, x, y, camera))
                away = away * (reach / wp.length(away))
                count = _remember(lists, item * length, count, point - away)
                count = _remember(lists, item * length, count, point)
                count = _remember(lists, item * length, count, point + away)
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
