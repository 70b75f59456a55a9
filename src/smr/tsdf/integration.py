"""Depth and colour of a batch of frames into the voxels of the blocks that they see.

The signed distance of a voxel is that to the plane of the pixel it projects to (Bylow et al. 2013, point to plane).
"""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import Any, no_type_check

import numpy as np
import warp as wp

from ..arrays import launch_chunked
from .blocks import BlockTable, unpack
from .growth import GrowingVolume
from .views import Buffers, Views

wp.set_module_options({"enable_backward": False})

BEHIND = 2.0
"""Voxels behind the surface up to which a frame has a say; a cell's corners lie within the square root of 3."""

_CARVE = wp.constant(0.1)  # weight of seeing that a voxel is free, against measuring a surface near it
_COLOR_BAND = wp.constant(1.5)  # voxels
_CELL = wp.constant(8)  # pixels of a colour image along a cell's side


@wp.kernel(enable_backward=False)
@no_type_check
def _find_visible(
    base: int,
    keys: wp.array(dtype=wp.int64),
    births: wp.array(dtype=wp.int32),
    first_frame: int,
    frames: int,
    voxel: float,
    cameras: wp.array(dtype=wp.vec4),
    camera_from_world: wp.array(dtype=wp.mat44),
    farthest: wp.array(dtype=wp.float32),
    width: int,
    height: int,
    masks: wp.array(dtype=wp.int32),
):
    """Bit f: frame f may have something to say about the block. Never misses one that has."""
    block = base + wp.tid()
    index = unpack(keys[block])
    center = wp.vec3(float(index[0] * 8) + 3.5, float(index[1] * 8) + 3.5, float(index[2] * 8) + 3.5) * voxel
    radius = 6.1 * voxel  # half the diagonal between the centres of the outermost voxels
    tiles_u = (width + 7) // 8
    tiles_v = (height + 7) // 8
    mask = int(0)
    for frame in range(wp.max(0, births[block] - first_frame), frames):
        p = wp.transform_point(camera_from_world[frame], center)
        if p[2] + radius <= 0.0:
            continue
        u0 = int(0)
        v0 = int(0)
        u1 = tiles_u - 1
        v1 = tiles_v - 1
        if p[2] > 2.0 * radius:
            camera = cameras[frame]
            near = p[2] - radius
            # a ball's image, a little enlarged: the offset of its edge is at most radius (1 + |x| / z) / (z - radius)
            ru = camera[0] * radius * (1.0 + wp.abs(p[0]) / p[2]) / near
            rv = camera[1] * radius * (1.0 + wp.abs(p[1]) / p[2]) / near
            u = camera[0] * p[0] / p[2] + camera[2]
            v = camera[1] * p[1] / p[2] + camera[3]
            if u + ru < 0.0 or v + rv < 0.0 or u - ru > float(width) or v - rv > float(height):
                continue
            u0 = wp.max(0, int(u - ru) >> 3)
            v0 = wp.max(0, int(v - rv) >> 3)
            u1 = wp.min(u1, int(u + ru) >> 3)
            v1 = wp.min(v1, int(v + rv) >> 3)
        wanted = wp.max(p[2] - radius, 1.0e-6)
        seen = bool(False)
        for tv in range(v0, v1 + 1):
            for tu in range(u0, u1 + 1):
                if farthest[(frame * tiles_v + tv) * tiles_u + tu] >= wanted:
                    seen = True
                    break
            if seen:
                break
        if seen:
            mask |= 1 << frame
    masks[block] = mask


@wp.kernel(enable_backward=False)
@no_type_check
def _compact(masks: wp.array(dtype=wp.int32), active: wp.array(dtype=wp.int32), count: wp.array(dtype=wp.int32)):
    block = wp.tid()
    if masks[block] != 0:
        active[wp.atomic_add(count, 0, 1)] = block


@wp.func
@no_type_check
def _beside(a: wp.vec4, b: wp.vec4, width: float, height: float) -> bool:
    """Whether a line between two projected points (u z, v z, z) lies behind the camera or to one side of the image."""
    left = a[0] < 0.0 and b[0] < 0.0
    right = a[0] > width * a[2] and b[0] > width * b[2]
    above = a[1] < 0.0 and b[1] < 0.0
    below = a[1] > height * a[2] and b[1] > height * b[2]
    return left or right or above or below or (a[2] <= 0.0 and b[2] <= 0.0)


@wp.func
@no_type_check
def _observed(state: wp.uint16, direction: int, shift: int) -> wp.uint16:
    """Count one more observation, up to 15, and one more vote for a direction.

    The majority vote of Boyer and Moore: six bits hold a direction and its lead of 0 to 7 votes over all others.
    """
    bits = int(state)
    vote = (bits >> shift) & 63
    lead = vote >> 3
    if lead == 0:
        vote = direction | 8
    elif (vote & 7) != direction:
        vote -= 8
    elif lead < 7:
        vote += 8
    bits = (bits & ~(63 << shift)) | (vote << shift)
    if bits < 15 * 4096:
        bits += 4096
    return wp.uint16(bits)


@wp.kernel(enable_backward=False)
@no_type_check
def _update(
    base: int,
    active: wp.array(dtype=wp.int32),
    active_count: wp.array(dtype=wp.int32),
    keys: wp.array(dtype=wp.int64),
    masks: wp.array(dtype=wp.int32),
    voxel: float,
    truncation: float,
    behind: float,
    weight_limit: float,
    planes: wp.array(dtype=wp.vec4),
    width: int,
    height: int,
    image_from_world: wp.array(dtype=wp.mat44),
    images: wp.array4d(dtype=wp.uint8),
    color_from_world: wp.array(dtype=wp.mat44),
    nearest: wp.array3d(dtype=wp.float32),
    front: wp.array(dtype=wp.vec2f),
    back: wp.array(dtype=wp.vec2f),
    state: wp.array(dtype=wp.uint16),
    color: wp.array(dtype=wp.vec4f),
):
    """Add every frame's distance, weight and colour to the voxels of a column."""
    item = base + wp.tid()
    if item >= active_count[0] * 64:
        return
    block = active[item >> 6]
    column = item & 63
    index = unpack(keys[block])
    mask = masks[block]
    has_color = images.shape[0] > 0
    inverse_behind = 1.0 / behind
    depth_of_column = int(8)  # a variable, lest the loop over it is unrolled
    origin = wp.vec4(
        float(index[0] * 8 + (column & 7)) * voxel,
        float(index[1] * 8 + (column >> 3)) * voxel,
        float(index[2] * 8) * voxel,
        1.0,
    )
    frame = int(0)
    while mask != 0:
        if (mask & 1) != 0:
            matrix = image_from_world[frame]
            start = matrix * origin
            step = matrix * wp.vec4(0.0, 0.0, voxel, 0.0)
            first_pixel = frame * height * width
            end = start + 7.0 * step
            steps = depth_of_column
            if _beside(start, end, float(width), float(height)):
                steps = 0
            for k in range(steps):
                along = float(k)
                pz = start[2] + along * step[2]
                near = 1.0 / pz
                u = (start[0] + along * step[0]) * near
                v = (start[1] + along * step[1]) * near
                if pz > 0.0 and u >= 0.0 and v >= 0.0 and u < float(width) and v < float(height):
                    pu = int(u)
                    pv = int(v)
                    plane = planes[first_pixel + pv * width + pu]
                    code = int(0.5 * wp.abs(plane[3]))
                    facing = wp.abs(plane[3]) - 2.0 * float(code)
                    direction = code & 7
                    trust = 1.0 - 0.0625 * float(code >> 3)
                    z = plane[0] + plane[1] * (u - float(pu) - 0.5) + plane[2] * (v - float(pv) - 0.5)
                    d = (z - pz) * facing
                    if plane[0] > 0.0 and d > -behind:
                        place = block * 512 + column + 64 * k
                        fall = 1.0 - wp.abs(d) * inverse_behind
                        w = trust * facing * near * near
                        if d > 0.0:
                            seen = front[place]
                            w *= wp.max(fall * wp.max(fall, 0.0), _CARVE)
                            if d < truncation:
                                front[place] = seen + wp.vec2f(w * d, w)
                                state[place] = _observed(state[place], direction, 0)
                            elif plane[3] > 0.0:
                                front[place] = seen + wp.vec2f(w * truncation, w)
                        else:
                            w *= fall * fall
                            back[place] = back[place] + wp.vec2f(w * d, w)
                            state[place] = _observed(state[place], direction, 6)
                        total = front[place][1] + back[place][1]
                        if total > weight_limit:
                            front[place] = front[place] * (weight_limit / total)
                            back[place] = back[place] * (weight_limit / total)
                        if has_color and wp.abs(d) < _COLOR_BAND * voxel:
                            q = color_from_world[frame] * (origin + wp.vec4(0.0, 0.0, along * voxel, 0.0))
                            if q[2] > 0.0:
                                color_near = 1.0 / q[2]
                                cu = int(wp.floor(q[0] * color_near))
                                cv = int(wp.floor(q[1] * color_near))
                                if cu >= 0 and cv >= 0 and cu < images.shape[2] and cv < images.shape[1]:
                                    hidden = bool(False)
                                    if nearest.shape[0] > 0:
                                        first = nearest[frame, cv // _CELL, cu // _CELL]
                                        hidden = q[2] > 1.05 * first + 2.0 * truncation
                                    if not hidden:
                                        w *= wp.min(1.0, facing * facing)
                                        color[place] = color[place] + w * wp.vec4f(
                                            float(images[frame, cv, cu, 0]),
                                            float(images[frame, cv, cu, 1]),
                                            float(images[frame, cv, cu, 2]),
                                            1.0,
                                        )
        mask = (mask >> 1) & 0x7FFFFFFF
        frame += 1


@wp.kernel(enable_backward=False)
@no_type_check
def _find_nearest(
    planes: wp.array(dtype=wp.vec4),
    width: int,
    height: int,
    block_from_camera: wp.array(dtype=wp.mat44),
    cameras: wp.array(dtype=wp.vec4),
    voxel: float,
    color_from_world: wp.array(dtype=wp.mat44),
    nearest: wp.array3d(dtype=wp.float32),
):
    """Depth of the nearest surface in each cell of the colour images; a kernel item is a tile of 8×8 pixels."""
    item = wp.tid()
    tiles_u = (width + 7) // 8
    tiles = tiles_u * ((height + 7) // 8)
    frame = item // tiles
    tile = item - frame * tiles
    camera = cameras[frame]
    for k in range(4):
        u = (tile % tiles_u) * 8 + 2 + 4 * (k & 1)
        v = (tile // tiles_u) * 8 + 2 + 4 * (k >> 1)
        if u < width and v < height:
            z = planes[(frame * height + v) * width + u][0]
            if z > 0.0:
                x = (float(u) + 0.5 - camera[2]) / camera[0]
                y = (float(v) + 0.5 - camera[3]) / camera[1]
                p = wp.transform_point(block_from_camera[frame], wp.vec3(x * z, y * z, z)) * (8.0 * voxel)
                q = color_from_world[frame] * wp.vec4(p[0] - 0.5 * voxel, p[1] - 0.5 * voxel, p[2] - 0.5 * voxel, 1.0)
                if q[2] > 0.0:
                    cu = int(wp.floor(q[0] / q[2])) // _CELL
                    cv = int(wp.floor(q[1] / q[2])) // _CELL
                    if q[0] >= 0.0 and q[1] >= 0.0 and cu < nearest.shape[2] and cv < nearest.shape[1]:
                        wp.atomic_min(nearest, frame, cv, cu, q[2])


def find_visible(
    table: BlockTable, views: Views, first_frame: int, voxel: float, farthest: wp.array, buffers: Buffers, device: str
) -> wp.array:
    """For each block, a bit for each frame of the batch that may have something to say about it."""
    masks = buffers.get("masks", (table.count,), wp.int32)
    inputs = [table.keys, table.births, first_frame, views.frames, voxel, views.cameras, views.camera_from_local]
    inputs += [farthest, views.width, views.height]
    launch_chunked(_find_visible, table.count, inputs, outputs=[masks], device=device)
    return masks


def update_voxels(
    volume: GrowingVolume,
    masks: wp.array,
    views: Views,
    planes: wp.array,
    images: wp.array | None,
    truncation: float,
    weight_limit: float,
    buffers: Buffers,
) -> None:
    """Add a batch to the voxels of the blocks that it sees.

    Args:
        volume: Is changed.
        masks: From `find_visible`.
        views: The cameras.
        planes: From `planes.make_planes`.
        images: n×h×w×3 uint8, or None.
        truncation: Metres; a voxel farther before the surface is just free.
        weight_limit: A voxel's largest weight.
        buffers: Memory.
    """
    device = volume.device
    active, active_count, most = _active(masks, device)
    nearest = wp.empty((0, 0, 0), dtype=wp.float32, device=device)
    if images is None:
        images = wp.empty((0, 0, 0, 0), dtype=wp.uint8, device=device)
    elif views.apart:
        shape = (views.frames, -(-images.shape[1] // 8), -(-images.shape[2] // 8))
        nearest = buffers.get("nearest", shape, wp.float32)
        nearest.fill_(1e30)
        inputs = [planes, views.width, views.height, views.block_from_camera, views.cameras, volume.voxel]
        # atomics: one launch, which on the CPU is one thread
        dim = views.frames * views.tiles
        wp.launch(_find_nearest, dim, inputs=[*inputs, views.color_from_local], outputs=[nearest], device=device)
    inputs = [active, active_count, volume.table.keys, masks, volume.voxel, truncation, BEHIND * volume.voxel]
    inputs += [weight_limit, planes, views.width, views.height, views.image_from_local]
    inputs += [images, views.color_from_local, nearest]
    outputs = [volume.front, volume.back, volume.state, volume.color]
    launch_chunked(_update, most * 64, inputs, outputs=outputs, device=device)


def _active(masks: wp.array, device: str) -> tuple[wp.array, wp.array, int]:
    """Blocks that some frame of the batch sees, how many, and the most that there can be.

    A GPU keeps the number to itself: asking for it would stop the queue.
    """
    if device == "cpu":
        active = np.flatnonzero(masks.numpy()).astype(np.int32)
        return _indices(active), _indices(np.array([len(active)], np.int32)), len(active)
    active_d = wp.empty_like(masks)
    count = wp.zeros(1, dtype=wp.int32, device=device)
    wp.launch(_compact, masks.shape[0], inputs=[masks], outputs=[active_d, count], device=device)
    return active_d, count, masks.shape[0]


def _indices(values: np.ndarray) -> Any:
    return wp.array(values, dtype=wp.int32, device="cpu")
