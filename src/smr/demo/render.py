"""The demo's renderer: rays against the truth mesh, colour with four samples a pixel, exact depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float, UInt8

from ..arrays import launch_chunked
from ..records import Camera
from .paint import albedo, light

_BACKGROUND = wp.constant(wp.vec3(0.55, 0.58, 0.62))


@dataclass(frozen=True)
class Stage:
    """The scene on the device, ready to be looked at."""

    mesh: wp.Mesh
    irradiance: wp.array
    teapot_faces: int
    """The first faces are the teapot's, the rest the table's."""
    seed: int
    device: str


@dataclass(frozen=True)
class View:
    """What a perfect camera sees."""

    color: Float[np.ndarray, "h w 3"]
    """sRGB, 0 to 255, not rounded."""
    depth: Float[np.ndarray, "h w"]
    """Metres along the camera's z axis at each pixel's centre; 0 where nothing is hit."""
    facing: Float[np.ndarray, "h w"]
    """Cosine between the ray and the surface's normal."""


@wp.func
@no_type_check
def _ray(x: float, y: float, intrinsics: wp.vec4):
    """Direction with z = 1 in camera axes, so that distances along it are depths."""
    return wp.vec3((x - intrinsics[2]) / intrinsics[0], (y - intrinsics[3]) / intrinsics[1], 1.0)


@wp.kernel(enable_backward=False)
@no_type_check
def _cast(
    base: int,
    mesh: wp.uint64,
    world_from_camera: wp.mat44,
    intrinsics: wp.vec4,
    width: int,
    depth: wp.array(dtype=float),
    facing: wp.array(dtype=float),
    face: wp.array(dtype=int),
):
    i = base + wp.tid()
    ray = _ray(float(i % width) + 0.5, float(i // width) + 0.5, intrinsics)
    length = wp.length(ray)
    eye = wp.transform_point(world_from_camera, wp.vec3(0.0))
    direction = wp.transform_vector(world_from_camera, ray / length)
    hit = wp.mesh_query_ray(mesh, eye, direction, 10.0)
    face[i] = -1
    depth[i] = 0.0
    facing[i] = 0.0
    if hit.result:
        face[i] = hit.face
        depth[i] = hit.t / length
        facing[i] = wp.abs(wp.dot(hit.normal, direction))


@wp.func
@no_type_check
def _lit(
    mesh: wp.uint64, p: wp.vec3, face: int, teapot_faces: int, irradiance: wp.array(dtype=wp.vec3), seed: wp.uint32
):
    """Linear colour of a point on a face."""
    i = wp.mesh_get_index(mesh, face * 3)
    j = wp.mesh_get_index(mesh, face * 3 + 1)
    k = wp.mesh_get_index(mesh, face * 3 + 2)
    a = wp.mesh_get_point(mesh, face * 3)
    ab = wp.mesh_get_point(mesh, face * 3 + 1) - a
    ac = wp.mesh_get_point(mesh, face * 3 + 2) - a
    n = wp.cross(ab, ac)
    area = wp.dot(n, n)
    v = wp.clamp(wp.dot(wp.cross(p - a, ac), n) / area, -1.0, 2.0)
    w = wp.clamp(wp.dot(wp.cross(ab, p - a), n) / area, -1.0, 2.0)
    arriving = (1.0 - v - w) * irradiance[i] + v * irradiance[j] + w * irradiance[k]
    return wp.cw_mul(albedo(p, face >= teapot_faces, seed), arriving)


@wp.func
@no_type_check
def _encode(linear: float):
    x = wp.clamp(linear, 0.0, 1.0)
    if x < 0.0031308:
        return 255.0 * 12.92 * x
    return 255.0 * (1.055 * wp.pow(x, 1.0 / 2.4) - 0.055)


@wp.kernel(enable_backward=False)
@no_type_check
def _shade(
    base: int,
    mesh: wp.uint64,
    world_from_camera: wp.mat44,
    intrinsics: wp.vec4,
    size: wp.vec2i,
    teapot_faces: int,
    seed: wp.uint32,
    irradiance: wp.array(dtype=wp.vec3),
    depth: wp.array(dtype=float),
    face: wp.array(dtype=int),
    color: wp.array(dtype=wp.vec3),
):
    i = base + wp.tid()
    width = size[0]
    x = i % width
    y = i // width
    eye = wp.transform_point(world_from_camera, wp.vec3(0.0))
    # At a jump of depth each of the four samples casts its own ray; elsewhere it meets the centre's plane.
    low = depth[i]
    high = depth[i]
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            j = wp.clamp(y + dy, 0, size[1] - 1) * width + wp.clamp(x + dx, 0, width - 1)
            low = wp.min(low, depth[j])
            high = wp.max(high, depth[j])
    jump = high - low > 0.006 + 6.0 * high / intrinsics[0]
    total = wp.vec3(0.0)
    if high == 0.0:
        total = 4.0 * _BACKGROUND
    else:
        for s in range(4):
            # A rotated grid: no two samples share a row or a column.
            u = float(x) + 0.125 + 0.25 * float(s)
            v = float(y) + 0.125 + 0.25 * float(2 - 2 * s + 5 * (s // 2))
            ray = _ray(u, v, intrinsics)
            direction = wp.transform_vector(world_from_camera, ray)
            if jump:
                length = wp.length(ray)
                hit = wp.mesh_query_ray(mesh, eye, direction / length, 10.0)
                if hit.result:
                    p = eye + hit.t / length * direction
                    total += _lit(mesh, p, hit.face, teapot_faces, irradiance, seed)
                else:
                    total += _BACKGROUND
            else:
                n = wp.mesh_eval_face_normal(mesh, face[i])
                p = eye + wp.dot(wp.mesh_get_point(mesh, face[i] * 3) - eye, n) / wp.dot(direction, n) * direction
                total += _lit(mesh, p, face[i], teapot_faces, irradiance, seed)
    total *= 0.25
    color[i] = wp.vec3(_encode(total[0]), _encode(total[1]), _encode(total[2]))


@wp.kernel(enable_backward=False)
@no_type_check
def _paint_vertices(
    base: int,
    points: wp.array(dtype=wp.vec3),
    teapot_vertices: int,
    seed: wp.uint32,
    irradiance: wp.array(dtype=wp.vec3),
    color: wp.array(dtype=wp.vec3),
):
    i = base + wp.tid()
    linear = wp.cw_mul(albedo(points[i], i >= teapot_vertices, seed), irradiance[i])
    color[i] = wp.vec3(_encode(linear[0]), _encode(linear[1]), _encode(linear[2]))


def set_stage(
    vertices: Float[np.ndarray, "V 3"],
    normals: Float[np.ndarray, "V 3"],
    faces: np.ndarray,
    teapot: tuple[int, int],
    *,
    seed: int,
    device: str,
) -> tuple[Stage, UInt8[np.ndarray, "V 3"]]:
    """Build the ray-cast structure, light the vertices and paint them; `teapot` counts its vertices and faces."""
    points = wp.array(vertices, dtype=wp.vec3, device=device)
    irradiance = wp.empty(len(vertices), dtype=wp.vec3, device=device)
    outward = wp.array(normals, dtype=wp.vec3, device=device)
    launch_chunked(light, len(vertices), [points, outward], outputs=[irradiance], device=device)
    color = wp.empty(len(vertices), dtype=wp.vec3, device=device)
    inputs = [points, teapot[0], seed, irradiance]
    launch_chunked(_paint_vertices, len(vertices), inputs, outputs=[color], device=device)
    mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))
    return Stage(mesh, irradiance, teapot[1], seed, device), np.round(color.numpy()).astype(np.uint8)


def render(stage: Stage, camera: Camera, world_from_camera: Float[np.ndarray, "4 4"]) -> View:
    """What the camera would see without noise."""
    count = camera.width * camera.height
    device = stage.device
    depth, facing = (wp.empty(count, dtype=float, device=device) for _ in range(2))
    face = wp.empty(count, dtype=int, device=device)
    color = wp.empty(count, dtype=wp.vec3, device=device)
    transform = wp.mat44(world_from_camera.astype(np.float32))
    intrinsics = wp.vec4(camera.fx, camera.fy, camera.cx, camera.cy)
    inputs = [stage.mesh.id, transform, intrinsics]
    launch_chunked(_cast, count, [*inputs, camera.width], outputs=[depth, facing, face], device=device)
    inputs += [wp.vec2i(camera.width, camera.height), stage.teapot_faces, stage.seed, stage.irradiance, depth, face]
    launch_chunked(_shade, count, inputs, outputs=[color], device=device)
    shape = (camera.height, camera.width)
    return View(color.numpy().reshape(*shape, 3), depth.numpy().reshape(shape), facing.numpy().reshape(shape))
