"""The visual hull (Laurentini 1994): the largest shape whose silhouettes are the masks.

It fills in where stereo finds nothing. Silhouettes are taken as signed distances, in pixels and then, at the depth of
the point, in units of the world, so that the hull is smooth between the points of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Float32
from scipy.ndimage import distance_transform_edt

from ..arrays import launch_chunked
from ..errors import SmrError
from ..progress import Track, untracked
from ..records import Camera, Mesh
from ..transforms import rigid_inverse
from ..tsdf.blocks import pack_keys
from ..tsdf.marching_cubes import BlockGrid, polygonize
from ..tsdf.volume import BLOCK

wp.set_module_options({"enable_backward": False})

_ROUGH = 48
"""Points along a side of the grid that finds the hull's box."""
_ROUNDS = 3


@dataclass(frozen=True)
class Silhouette:
    """What a mask says about the shape."""

    inside: Bool[np.ndarray, "h w"]
    camera: Camera
    """Pinhole."""
    world_from_camera: Float[np.ndarray, "4 4"]


@wp.kernel(enable_backward=False)
@no_type_check
def _carve(
    base: int,
    points: wp.array(dtype=wp.vec3),
    pose: wp.mat44,
    camera: wp.vec4,
    whole: int,
    distance: wp.array2d(dtype=wp.float32),
    values: wp.array(dtype=wp.float32),
):
    """Raise each point's value to its distance outside this silhouette.

    Where the mask does not reach the image's border, the image shows all of the shape, and what lies beside it is
    outside; else that is not known.
    """
    item = base + wp.tid()
    p = wp.transform_point(pose, points[item])
    if p[2] > 0.0:
        u = camera[0] * p[0] / p[2] + camera[2] - 0.5
        v = camera[1] * p[1] / p[2] + camera[3] - 0.5
        inner_u = wp.clamp(u, 0.0, float(distance.shape[1] - 1) - 0.001)
        inner_v = wp.clamp(v, 0.0, float(distance.shape[0] - 1) - 0.001)
        beside = wp.abs(u - inner_u) + wp.abs(v - inner_v)
        if beside < 0.5 or whole == 1:
            i = int(inner_u)
            j = int(inner_v)
            a = inner_u - float(i)
            b = inner_v - float(j)
            top = distance[j, i] + a * (distance[j, i + 1] - distance[j, i])
            bottom = distance[j + 1, i] + a * (distance[j + 1, i + 1] - distance[j + 1, i])
            values[item] = wp.max(values[item], (top + b * (bottom - top) + beside) * p[2] / camera[0])
    elif whole == 1:
        values[item] = wp.max(values[item], wp.length(p))


def visual_hull(
    silhouettes: Sequence[Silhouette], *, resolution: int = 160, device: str, track: Track = untracked
) -> Mesh:
    """The surface of the largest shape that fits into all silhouettes.

    Args:
        silhouettes: Masks with cameras and poses; each image shows the whole object, or what lies outside it is not
            judged by it.
        resolution: Points of the grid along the longest side of the hull's box.
        device: A Warp device.
        track: Progress.

    Raises:
        SmrError: There are fewer than two silhouettes, or nothing lies in all of them.
        ValueError: The resolution is below 8.
    """
    if resolution < 8:
        raise ValueError(f"resolution must be at least 8, not {resolution}")
    if len(silhouettes) < 2:
        raise SmrError(
            f"There is a mask for {len(silhouettes)} photo{'' if len(silhouettes) == 1 else 's'}; a hull needs two.",
            "Give masks for more photos, or leave them out.",
        )
    shapes = [_Shape(one) for one in silhouettes]
    low, high = _first_box(silhouettes)
    for _ in range(_ROUNDS):
        spacing = float((high - low).max()) / _ROUGH
        points = _grid(low, high, spacing)
        values = _values(points.reshape(-1, 3), shapes, device)
        inside = points.reshape(-1, 3)[values < spacing]
        if len(inside) == 0:
            raise SmrError(
                "No place lies inside all masks.",
                "Check that the masks are white where the object is, and that they belong to these poses.",
            )
        low, high = inside.min(axis=0) - spacing, inside.max(axis=0) + spacing
    spacing = float((high - low).max()) / resolution
    return _surface(low, high, spacing, shapes, device, track)


class _Shape:
    """A silhouette as signed distances, negative inside."""

    def __init__(self, silhouette: Silhouette) -> None:
        inside = silhouette.inside
        padded = np.pad(inside, 1, mode="edge")
        away = distance_transform_edt(~padded) if not padded.all() else np.zeros(padded.shape)
        within = distance_transform_edt(padded) if not (~padded).all() else np.zeros(padded.shape)
        signed = np.where(padded, 0.5 - within, away - 0.5)[1:-1, 1:-1]
        border = (inside[0], inside[-1], inside[:, 0], inside[:, -1])
        self.whole = not any(edge.any() for edge in border)
        self.distance = np.ascontiguousarray(signed, np.float32)
        self.camera, self.pose = silhouette.camera, silhouette.world_from_camera


def _first_box(silhouettes: Sequence[Silhouette]) -> tuple[np.ndarray, np.ndarray]:
    """A box around the place that is nearest to the rays through the masks' middles, as large as the masks can be."""
    matrix, right = np.zeros((3, 3)), np.zeros(3)
    for one in silhouettes:
        rows, columns = np.nonzero(one.inside) if one.inside.any() else (np.zeros(1), np.zeros(1))
        u, v = columns.mean() + 0.5, rows.mean() + 0.5
        ray = np.array([(u - one.camera.cx) / one.camera.fx, (v - one.camera.cy) / one.camera.fy, 1.0])
        ray = one.world_from_camera[:3, :3] @ (ray / np.linalg.norm(ray))
        across = np.eye(3) - np.outer(ray, ray)
        matrix += across
        right += across @ one.world_from_camera[:3, 3]
    center = np.linalg.lstsq(matrix, right, rcond=None)[0]
    size = 0.0
    for one in silhouettes:
        away = float(np.linalg.norm(one.world_from_camera[:3, 3] - center))
        size = max(size, away * max(one.camera.width / one.camera.fx, one.camera.height / one.camera.fy))
    return center - 0.75 * size, center + 0.75 * size


def _grid(low: np.ndarray, high: np.ndarray, spacing: float) -> Float[np.ndarray, "a b c 3"]:
    axes = [np.arange(low[k], high[k] + spacing, spacing) for k in range(3)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def _values(points: Float[np.ndarray, "N 3"], shapes: Sequence[_Shape], device: str) -> Float32[np.ndarray, " N"]:
    """Distance of points outside the hull, negative inside."""
    center = points.mean(axis=0)
    places = wp.array((points - center).astype(np.float32), dtype=wp.vec3, device=device)
    values = wp.full(len(points), -1e6, dtype=wp.float32, device=device)
    for shape in shapes:
        pose = np.array(shape.pose, np.float64)
        pose[:3, 3] -= center
        camera = wp.vec4(shape.camera.fx, shape.camera.fy, shape.camera.cx, shape.camera.cy)
        distance = wp.array(shape.distance, dtype=wp.float32, device=device)
        inputs = [places, wp.mat44(rigid_inverse(pose)), camera, int(shape.whole), distance]
        launch_chunked(_carve, len(points), inputs, outputs=[values], device=device)
    found: np.ndarray = values.numpy()
    return np.where(found <= -1e6, np.float32(1e6), found)  # seen by none


def _surface(
    low: np.ndarray, high: np.ndarray, spacing: float, shapes: Sequence[_Shape], device: str, track: Track
) -> Mesh:
    """Marching cubes over the blocks of a grid that the hull's surface may cross."""
    counts = np.maximum(np.ceil((high - low) / (spacing * BLOCK)).astype(int) + 1, 1)
    blocks = np.stack(np.meshgrid(*(np.arange(count) for count in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    half = (BLOCK - 1) / 2
    middles = low + (blocks * BLOCK + half) * spacing
    near = np.abs(_values(middles, shapes, device)) < (half + 2) * spacing * 1.8
    blocks = blocks[near]
    keys = pack_keys(blocks)
    order = np.argsort(keys)
    keys, blocks = keys[order], blocks[order]
    inner = np.stack(np.meshgrid(*(np.arange(BLOCK),) * 3, indexing="ij"), axis=-1)
    inner = inner.transpose(2, 1, 0, 3).reshape(-1, 3)  # x fastest
    values = np.empty((len(blocks), BLOCK**3), np.float32)
    batch = max(1, 2_000_000 // BLOCK**3)
    for start in track(range(0, len(blocks), batch), "Carving the hull"):
        some = blocks[start : start + batch]
        points = low + (some[:, None] * BLOCK + inner[None]) * spacing
        values[start : start + batch] = _values(points.reshape(-1, 3), shapes, device).reshape(len(some), -1)
    grid = BlockGrid(
        wp.array(keys, dtype=wp.int64, device=device), wp.array(values.ravel(), dtype=wp.float32, device=device)
    )
    return polygonize(grid, np.asarray(low, np.float64), np.full(3, spacing), device=device)
