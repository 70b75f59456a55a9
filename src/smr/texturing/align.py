"""Small corrections of the photos' poses, so that they agree on the surface's brightness.

Points on the surface take the mean brightness of the photos that see them; each photo is then moved by Gauss-Newton
steps until what it shows at the points agrees with that, and again (Zhou and Koltun 2014, six degrees of freedom). A
prior holds the poses near where they were: correct ones stay.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float32, Float64, Int32
from scipy.spatial.transform import Rotation

from ..arrays import cpu_threads, launch_chunked
from ..mesh.normals import face_areas, face_normals
from ..progress import Track
from ..records import Camera, Mesh
from .shots import Shot, Shots
from .visibility import look, visible_points

logger = logging.getLogger(__name__)

_POINTS = 120_000
_POINTS_PER_PHOTO = 8_000
_FEWEST_POINTS = 300
_PIXELS = 400_000
_LEVELS = (2, 2, 1, 1, 1, 0, 0)
"""Halvings of the photo in each round."""
_STEPS = 2
_PIECES = 32
_ROBUST = 12.0
"""Differences in grey levels beyond which a point counts little."""
_SCALES = (100.0, 60.0, 40.0, 25.0, 16.0, 12.0)
"""The same while the photos' gains are still being found."""
_NOISE = 8.0
_SHARED = 8.0
"""Neighbouring points err alike: so many count as one."""
_SHIFT, _TURN = 0.01, 0.005
"""Standard deviation of the poses before, part of the median depth, and radians."""
_LARGEST_SHIFT, _LARGEST_TURN = 0.05, 0.03


@dataclass
class _Watcher:
    """One photo while its pose is corrected."""

    camera: Camera
    gray: tuple[Any, ...]
    """wp.array(float32) a level, the first the largest."""
    sizes: tuple[tuple[int, int], ...]
    """Width and height of each level."""
    points: Any
    """wp.array(int32): the points that it sees."""
    numbers: Int32[np.ndarray, " n"]
    """The same on the host."""
    depth: float
    camera_from_world: Float64[np.ndarray, "4 4"]
    start: Float64[np.ndarray, "4 4"]
    moved: Float64[np.ndarray, "6"]
    """Rotation vector and shift since the start."""
    gain: float = 1.0


@wp.func
@no_type_check
def _gray(image: wp.array(dtype=float), width: int, height: int, x: float, y: float):
    fx = wp.clamp(x - 0.5, 0.0, float(width) - 1.001)
    fy = wp.clamp(y - 0.5, 0.0, float(height) - 1.001)
    i = int(fx)
    j = int(fy)
    a = fx - float(i)
    b = fy - float(j)
    k = j * width + i
    return (image[k] * (1.0 - a) + image[k + 1] * a) * (1.0 - b) + (
        image[k + width] * (1.0 - a) + image[k + width + 1] * a
    ) * b


@wp.kernel(enable_backward=False)
@no_type_check
def _sample_points(
    base: int,
    camera_from_world: wp.mat44,
    focal: wp.vec4,
    image: wp.array(dtype=float),
    width: int,
    height: int,
    listed: wp.array(dtype=int),
    points: wp.array(dtype=wp.vec3),
    value: wp.array(dtype=float),
):
    i = base + wp.tid()
    p = wp.transform_point(camera_from_world, points[listed[i]])
    x = focal[0] * p[0] / p[2] + focal[2]
    y = focal[1] * p[1] / p[2] + focal[3]
    value[i] = -1.0
    if p[2] > 0.0 and x >= 1.0 and y >= 1.0 and x <= float(width) - 1.0 and y <= float(height) - 1.0:
        value[i] = _gray(image, width, height, x, y)


@wp.kernel(enable_backward=False)
@no_type_check
def _sum_equations(
    pieces: int,
    camera_from_world: wp.mat44,
    focal: wp.vec4,
    gain: float,
    robust: float,
    image: wp.array(dtype=float),
    width: int,
    height: int,
    listed: wp.array(dtype=int),
    points: wp.array(dtype=wp.vec3),
    brightness: wp.array(dtype=float),
    sums: wp.array2d(dtype=float),
):
    """The normal equations of every `pieces`-th point: 21 sums of J J^T, 6 of J r."""
    piece = wp.tid()
    count = listed.shape[0]
    for s in range(27):
        sums[piece, s] = 0.0
    for i in range(piece, count, pieces):
        target = brightness[listed[i]]
        p = wp.transform_point(camera_from_world, points[listed[i]])
        x = focal[0] * p[0] / p[2] + focal[2]
        y = focal[1] * p[1] / p[2] + focal[3]
        inside = x >= 2.0 and y >= 2.0 and x <= float(width) - 2.0 and y <= float(height) - 2.0
        if target >= 0.0 and p[2] > 0.0 and inside:
            r = target - gain * _gray(image, width, height, x, y)
            gx = 0.5 * gain * (_gray(image, width, height, x + 1.0, y) - _gray(image, width, height, x - 1.0, y))
            gy = 0.5 * gain * (_gray(image, width, height, x, y + 1.0) - _gray(image, width, height, x, y - 1.0))
            a = gx * focal[0] / p[2]
            b = gy * focal[1] / p[2]
            g = wp.vec3(a, b, -(a * p[0] + b * p[1]) / p[2])
            turn = wp.cross(p, g)
            weight = 1.0 / (1.0 + (r / robust) * (r / robust))
            weight = weight * weight
            jacobian = wp.spatial_vector(turn, g)
            s = wp.int32(0)
            for row in range(6):
                for column in range(row, 6):
                    sums[piece, s] = sums[piece, s] + weight * jacobian[row] * jacobian[column]
                    s += 1
            for row in range(6):
                sums[piece, 21 + row] = sums[piece, 21 + row] + weight * jacobian[row] * r


def align(
    mesh: Mesh, shots: Shots, vertices: Any, faces: Any, *, device: str, track: Track
) -> Float64[np.ndarray, "views 4 4"]:
    """Correct the poses of all photos.

    Args:
        mesh: The surface.
        shots: Photos and their poses.
        vertices: The mesh's vertices on the device.
        faces: Its faces.
        device: Where they are.
        track: Progress.

    Returns:
        `world_from_camera` of each photo. Photos that see too little, or would move too far, keep their pose.
    """
    points, normals = _spread_points(mesh)
    on_device = wp.array(points, dtype=wp.vec3, device=device)
    normals_on_device = wp.array(normals, dtype=wp.vec3, device=device)
    watchers: dict[int, _Watcher] = {}
    for i, shot in shots.decode(range(len(shots)), track, "Aligning: looking"):
        seen = look(shot.pixels, shot.mask, shot.camera, shots.poses[i], vertices, faces, device=device)
        numbers = visible_points(seen, on_device, normals_on_device, device=device)
        if len(numbers) >= _FEWEST_POINTS:
            watchers[i] = _watch(shot, shots.poses[i], numbers, points, device)
    poses = shots.poses.copy()
    if len(watchers) < 2:
        return poses
    for level in track(_LEVELS, "Aligning photos", len(_LEVELS)):
        brightness = wp.array(_mean_brightness(watchers, on_device, level), dtype=float, device=device)
        # a thread a photo: the launches are too small to be cut up
        with ThreadPoolExecutor(cpu_threads() if device == "cpu" else 1) as pool:
            list(pool.map(partial(_improve, on_device, brightness, level, device), watchers.values()))
    for i, watcher in watchers.items():
        if _is_small(watcher):
            poses[i] = np.linalg.inv(watcher.camera_from_world)
    return poses


def _spread_points(mesh: Mesh) -> tuple[Float32[np.ndarray, "N 3"], Float32[np.ndarray, "N 3"]]:
    """Points evenly spread by area: a low-discrepancy sequence along the faces and inside them."""
    total = np.cumsum(face_areas(mesh).astype(np.float64))
    face = np.searchsorted(total, (np.arange(_POINTS) + 0.5) / _POINTS * total[-1])
    steps = np.arange(1, _POINTS + 1)
    u, v = np.sqrt((steps * 0.7548776662466927) % 1.0), (steps * 0.5698402909980532) % 1.0
    weights = np.stack([1 - u, u * (1 - v), u * v], axis=1)
    points = np.einsum("nc,ncd->nd", weights, np.asarray(mesh.vertices, np.float64)[mesh.faces[face]])
    return points.astype(np.float32), np.asarray(face_normals(mesh), np.float32)[face]


def _watch(shot: Shot, pose: np.ndarray, numbers: np.ndarray, points: np.ndarray, device: str) -> _Watcher:
    gray = shot.pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    while gray.size > _PIXELS:
        gray = _halve(gray)
    levels = [gray]
    for _ in range(max(_LEVELS)):
        levels.append(_halve(levels[-1]) if min(levels[-1].shape) >= 16 else levels[-1])
    numbers = numbers[:: -(-len(numbers) // _POINTS_PER_PHOTO)].astype(np.int32)
    camera_from_world = np.linalg.inv(pose)
    depth = points[numbers].astype(np.float64) @ camera_from_world[2, :3] + camera_from_world[2, 3]
    return _Watcher(
        shot.camera,
        tuple(wp.array(np.ascontiguousarray(level).ravel(), dtype=float, device=device) for level in levels),
        tuple((level.shape[1], level.shape[0]) for level in levels),
        wp.array(numbers, dtype=int, device=device),
        numbers,
        float(np.median(depth)),
        camera_from_world,
        camera_from_world,
        np.zeros(6),
    )


def _halve(image: Float32[np.ndarray, "h w"]) -> Float32[np.ndarray, "H W"]:
    even = image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]
    half: np.ndarray = 0.25 * (even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2])
    return half


def _focal(watcher: _Watcher, level: int) -> Any:
    width, height = watcher.sizes[level]
    x, y = width / watcher.camera.width, height / watcher.camera.height
    camera = watcher.camera
    return wp.vec4(camera.fx * x, camera.fy * y, camera.cx * x, camera.cy * y)


def _matrix(watcher: _Watcher) -> Any:
    return wp.mat44(watcher.camera_from_world.astype(np.float32))


def _mean_brightness(watchers: dict[int, _Watcher], points: Any, level: int) -> Float32[np.ndarray, " N"]:
    """What the photos show of each point, on average without outliers; -1 where fewer than two photos see it."""
    values = [_values(watcher, points, level) for watcher in watchers.values()]
    owner = np.repeat(np.arange(len(values)), [len(v) for v in values])
    numbers = np.concatenate([watcher.numbers for watcher in watchers.values()])
    value = np.concatenate(values).astype(np.float64)
    gains = np.array([watcher.gain for watcher in watchers.values()])
    seen = value >= 0
    owner, numbers, value = owner[seen], numbers[seen], value[seen]
    weight, mean = np.ones(len(value)), np.zeros(len(points))
    total: np.ndarray = np.zeros(len(points))
    for robust in _SCALES:
        lit = value * gains[owner]
        total = np.bincount(numbers, weight, len(points))
        mean = np.bincount(numbers, weight * lit, len(points)) / np.maximum(total, 1e-9)
        residual = lit - mean[numbers]
        weight = 1.0 / (1.0 + (residual / robust) ** 2) ** 2
        above = np.bincount(owner, weight * mean[numbers], len(gains))
        below = np.bincount(owner, weight * value, len(gains))
        gains = np.where(below > 0, above / np.maximum(below, 1e-9), gains)
        gains /= np.exp(np.log(np.maximum(gains, 1e-3)).mean())
    for watcher, gain in zip(watchers.values(), gains, strict=True):
        watcher.gain = float(gain)
    count = np.bincount(numbers, minlength=len(points))
    return np.where((count >= 2) & (total > 0.5), mean, -1.0).astype(np.float32)


def _values(watcher: _Watcher, points: Any, level: int) -> Float32[np.ndarray, " n"]:
    device = str(points.device)
    value = wp.empty(len(watcher.points), dtype=float, device=device)
    inputs = [_matrix(watcher), _focal(watcher, level), watcher.gray[level], *watcher.sizes[level], watcher.points]
    launch_chunked(_sample_points, len(watcher.points), [*inputs, points], outputs=[value], device=device, chunks=1)
    return value.numpy()


def _improve(points: Any, brightness: Any, level: int, device: str, watcher: _Watcher) -> None:
    prior = np.repeat([1.0 / _TURN**2, 1.0 / (_SHIFT * watcher.depth) ** 2], 3)
    for _ in range(_STEPS):
        sums = wp.empty((_PIECES, 27), dtype=float, device=device)
        inputs = [_PIECES, _matrix(watcher), _focal(watcher, level), watcher.gain, _ROBUST, watcher.gray[level]]
        inputs += [*watcher.sizes[level], watcher.points, points, brightness]
        wp.launch(_sum_equations, _PIECES, inputs, outputs=[sums], device=device)
        total = sums.numpy().astype(np.float64).sum(0) / (_NOISE**2 * _SHARED)
        hessian = np.zeros((6, 6))
        hessian[np.triu_indices(6)] = total[:21]
        hessian = hessian + np.triu(hessian, 1).T + np.diag(prior)
        step = np.linalg.solve(hessian, total[21:] - prior * watcher.moved)
        watcher.moved = watcher.moved + step
        change = np.eye(4)
        change[:3, :3] = Rotation.from_rotvec(step[:3]).as_matrix()
        change[:3, 3] = step[3:]
        watcher.camera_from_world = change @ watcher.camera_from_world


def _is_small(watcher: _Watcher) -> bool:
    turn, shift = np.linalg.norm(watcher.moved[:3]), np.linalg.norm(watcher.moved[3:])
    return bool(turn < _LARGEST_TURN and shift < _LARGEST_SHIFT * watcher.depth)
