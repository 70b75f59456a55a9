"""How many views stand behind each vertex of a surface."""

# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Int32

from .arrays import cpu_threads, launch_chunked
from .captures import Decoder, decode_usable
from .mesh.normals import vertex_normals
from .progress import Track, untracked
from .records import Capture, DepthMap, Mesh
from .transforms import rigid_inverse

wp.set_module_options({"enable_backward": False})

TOLERANCE = 0.01
"""Relative difference of depth up to which a view agrees."""
_STRIDE = 8
_REVIEW = 8
"""Views after which those vertices are looked up that are not done."""


@wp.func
@no_type_check
def _measured(depth: wp.array2d(dtype=wp.float32), u: int, v: int, z: float, tolerance: float):
    """Whether one of the nine pixels around a place has about this depth."""
    found = wp.bool(False)
    for j in range(wp.max(v - 1, 0), wp.min(v + 2, depth.shape[0])):
        for i in range(wp.max(u - 1, 0), wp.min(u + 2, depth.shape[1])):
            if depth[j, i] > 0.0 and wp.abs(depth[j, i] - z) < tolerance:
                found = True
    return found


@wp.kernel(enable_backward=False)
@no_type_check
def _count(
    base: int,
    chosen: wp.array(dtype=wp.int32),
    vertices: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
    pose: wp.mat44,
    centre: wp.vec3,
    camera: wp.vec4,
    depth: wp.array2d(dtype=wp.float32),
    tolerance: float,
    gap: float,
    surface: wp.uint64,
    enough: int,
    counts: wp.array(dtype=wp.int32),
):
    item = chosen[base + wp.tid()]
    away = centre - vertices[item]
    if counts[item] >= enough or wp.dot(normals[item], away) <= 0.0:
        return
    p = wp.transform_point(pose, vertices[item])
    if not (p[2] > 0.0):
        return
    u = camera[0] * p[0] / p[2] + camera[2]
    v = camera[1] * p[1] / p[2] + camera[3]
    if not (u >= -1.0 and v >= -1.0 and u < float(depth.shape[1]) + 1.0 and v < float(depth.shape[0]) + 1.0):
        return
    reach = tolerance * p[2] + gap
    if not _measured(depth, int(wp.floor(u)), int(wp.floor(v)), p[2], reach):
        return
    if gap > 0.0:  # further in front there is nothing that was measured
        ray = wp.normalize(away)
        if wp.mesh_query_ray_anyhit(surface, vertices[item] + gap * ray, ray, 2.0 * reach):
            return
    counts[item] = counts[item] + 1


def support(
    mesh: Mesh,
    capture: Capture,
    *,
    tolerance: float = TOLERANCE,
    gap: float = 0.0,
    enough: int | None = None,
    name: str = "Counting views",
    device: str,
    track: Track = untracked,
) -> Int32[np.ndarray, " V"]:
    """For each vertex, in how many of the capture's depth maps the surface is found where the mesh has it.

    A view counts when it looks at the vertex from outside and one of the nine pixels around it has the vertex's depth.

    Args:
        mesh: A surface in the capture's world frame.
        capture: Frames with depth maps; those without a pose, or whose files cannot be decoded, are passed over.
        tolerance: Relative difference of depth up to which a view agrees.
        gap: Metres that are added to it. With a gap, another layer of the mesh before the vertex, further than the
            gap and within twice the difference up to which a view agrees, hides it.
        enough: Views after which a vertex is not looked at again; all are counted when left out.
        name: What the progress says.
        device: A Warp device.
        track: Progress.

    Raises:
        SmrError: More than half of the depth maps cannot be decoded.
        ValueError: The tolerance is not positive, or the gap negative.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, not {tolerance}")
    if not gap >= 0:
        raise ValueError(f"gap must not be negative, but it is {gap}")
    count = len(mesh.vertices)
    normals = vertex_normals(mesh) if mesh.normals is None else mesh.normals
    center = mesh.vertices.mean(axis=0, dtype=np.float64) if count else np.zeros(3)
    vertices = wp.array((mesh.vertices - center).astype(np.float32), dtype=wp.vec3, device=device)
    directions = wp.array(normals.astype(np.float32), dtype=wp.vec3, device=device)
    corners = wp.array(mesh.faces.ravel(), dtype=wp.int32, device=device)
    layers = wp.Mesh(vertices, corners) if gap > 0 and len(mesh.faces) else None
    gap = gap if layers is not None else 0.0
    counts = wp.zeros(count, dtype=wp.int32, device=device)
    most = 2**31 - 1 if enough is None else enough
    maps = _spread([f.depth for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None])
    decoded = decode_usable(maps, Decoder().depth, threads=cpu_threads())
    for number, (depth_map, (depth, camera)) in enumerate(track(decoded, name, len(maps))):
        if number == 0 or (enough is not None and number % _REVIEW == 0):
            left = np.flatnonzero(counts.numpy() < most).astype(np.int32)
            chosen = wp.array(left, dtype=wp.int32, device=device)
        assert depth_map.world_from_camera is not None
        pose = np.array(depth_map.world_from_camera, np.float64)
        pose[:3, 3] -= center
        image = wp.array(depth, dtype=wp.float32, device=device)
        intrinsics = wp.vec4(camera.fx, camera.fy, camera.cx, camera.cy)
        inputs = [chosen, vertices, directions, wp.mat44(rigid_inverse(pose)), wp.vec3(*pose[:3, 3]), intrinsics]
        inputs += [image, tolerance, gap, layers.id if layers is not None else 0, most]
        launch_chunked(_count, len(chosen), inputs, outputs=[counts], device=device)
    found: np.ndarray = counts.numpy()
    return found


def _spread(maps: list[DepthMap]) -> list[DepthMap]:
    """Far ones first, so that most of a surface has been seen early."""
    return [maps[i] for start in range(_STRIDE) for i in range(start, len(maps), _STRIDE)]
