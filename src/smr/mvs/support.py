"""How many views stand behind each vertex of a surface."""

# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Int32

from ..arrays import cpu_threads, launch_chunked
from ..captures import Decoder, decode_usable
from ..mesh.normals import vertex_normals
from ..progress import Track, untracked
from ..records import Capture, Mesh
from ..transforms import rigid_inverse

wp.set_module_options({"enable_backward": False})

TOLERANCE = 0.01
"""Relative difference of depth up to which a view agrees."""


@wp.kernel(enable_backward=False)
@no_type_check
def _count(
    base: int,
    vertices: wp.array(dtype=wp.vec3),
    normals: wp.array(dtype=wp.vec3),
    pose: wp.mat44,
    camera: wp.vec4,
    depth: wp.array2d(dtype=wp.float32),
    tolerance: float,
    counts: wp.array(dtype=wp.int32),
):
    item = base + wp.tid()
    p = wp.transform_point(pose, vertices[item])
    if p[2] > 0.0 and wp.dot(wp.transform_vector(pose, normals[item]), p) < 0.0:
        u = int(wp.floor(camera[0] * p[0] / p[2] + camera[2]))
        v = int(wp.floor(camera[1] * p[1] / p[2] + camera[3]))
        seen = 0
        for dv in range(-1, 2):
            for du in range(-1, 2):
                i = u + du
                j = v + dv
                if i >= 0 and j >= 0 and i < depth.shape[1] and j < depth.shape[0]:
                    z = depth[j, i]
                    if z > 0.0 and wp.abs(z - p[2]) < tolerance * p[2]:
                        seen = 1
        counts[item] = counts[item] + seen


def support(
    mesh: Mesh, capture: Capture, *, tolerance: float = TOLERANCE, device: str, track: Track = untracked
) -> Int32[np.ndarray, " V"]:
    """For each vertex, in how many of the capture's depth maps the surface is found where the mesh has it.

    A view counts when it looks at the vertex from outside and one of the nine pixels around it has the vertex's depth.

    Args:
        mesh: A surface in the capture's world frame.
        capture: Frames with depth maps; those without a pose, or whose files cannot be decoded, are passed over.
        tolerance: Relative difference of depth up to which a view agrees.
        device: A Warp device.
        track: Progress.

    Raises:
        SmrError: More than half of the depth maps cannot be decoded.
        ValueError: The tolerance is not positive.
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, not {tolerance}")
    count = len(mesh.vertices)
    normals = vertex_normals(mesh) if mesh.normals is None else mesh.normals
    center = mesh.vertices.mean(axis=0, dtype=np.float64) if count else np.zeros(3)
    vertices = wp.array((mesh.vertices - center).astype(np.float32), dtype=wp.vec3, device=device)
    directions = wp.array(normals.astype(np.float32), dtype=wp.vec3, device=device)
    counts = wp.zeros(count, dtype=wp.int32, device=device)
    maps = [f.depth for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None]
    decoded = decode_usable(maps, Decoder().depth, threads=cpu_threads())
    for depth_map, (depth, camera) in track(decoded, "Counting views", len(maps)):
        assert depth_map.world_from_camera is not None
        pose = np.array(depth_map.world_from_camera, np.float64)
        pose[:3, 3] -= center
        image = wp.array(depth, dtype=wp.float32, device=device)
        intrinsics = wp.vec4(camera.fx, camera.fy, camera.cx, camera.cy)
        inputs = [vertices, directions, wp.mat44(rigid_inverse(pose)), intrinsics, image, tolerance]
        launch_chunked(_count, count, inputs, outputs=[counts], device=device)
    found: np.ndarray = counts.numpy()
    return found
