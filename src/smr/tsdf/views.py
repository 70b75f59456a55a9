"""Decoded frames, their batches, and their cameras on the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from jaxtyping import Float

from ..errors import SmrError
from ..records import Camera
from ..transforms import rigid_inverse
from .blocks import REACH
from .planes import TILE
from .volume import BLOCK

BATCH_LIMIT = 32  # frames; one bit each
COARSE = 2.1  # voxels that two pixels may measure at the largest depth for 2×2 of them to share a plane
BATCH_PIXELS = {"cpu": 8 * 640 * 480, "cuda": 32 * 640 * 480}


@dataclass(frozen=True)
class DepthImage:
    """A decoded frame: depth, and colour where there is a photo; NumPy arrays, or Warp arrays on the device."""

    depth: Any
    """h×w float32, metres along the camera's z axis; 0: no measurement."""
    camera: Camera
    """Pinhole."""
    world_from_camera: Float[np.ndarray, "4 4"]
    color: Any = None
    """h×w×3 uint8, or None. May have another size than the depth."""
    color_camera: Camera | None = None
    """Pinhole; None: the depth camera's."""
    world_from_color: Float[np.ndarray, "4 4"] | None = None
    """Pose of the colour camera; None: the depth camera's."""
    weight: Any = None
    """h×w float32, 0 to 1: how much each pixel counts, kept to a sixteenth; None: all count in full."""


@dataclass(frozen=True)
class Views:
    """Cameras of a batch, relative to the volume's origin; each array has one item a frame, on the device."""

    frames: int
    step: int
    """Depth pixels along each side of one plane: 2 where the voxels are too coarse for more, else 1."""
    width: int
    """Of the images of planes; `cameras` and `image_from_local` are for these."""
    height: int
    tiles: int
    """Tiles of planes in a frame."""
    cameras: wp.array
    """vec4: fx, fy, cx, cy."""
    block_from_camera: wp.array
    """mat44, to units of blocks; a block spans from half a voxel before its first voxel's centre."""
    camera_from_local: wp.array
    """mat44."""
    image_from_local: wp.array
    """mat44, to (u z, v z, z)."""
    color_from_local: wp.array
    """mat44, to (u z, v z, z) of the colour camera."""
    apart: bool
    """Whether the colour camera of some frame stands elsewhere than its depth camera."""
    shortest_focal: float
    """The least of all fx and fy."""


def batches(frames: Iterable[DepthImage], device: str) -> Iterator[list[DepthImage]]:
    """Consecutive frames of equal sizes, as many as a batch may hold."""
    batch: list[DepthImage] = []
    for frame in frames:
        pixels = frame.depth.shape[0] * frame.depth.shape[1]
        limit = max(1, min(BATCH_LIMIT, BATCH_PIXELS[device.split(":")[0]] // pixels))
        if batch and (len(batch) >= limit or _sizes(frame) != _sizes(batch[0])):
            yield batch
            batch = []
        batch.append(frame)
    if batch:
        yield batch


def _sizes(frame: DepthImage) -> tuple[Any, Any]:
    return frame.depth.shape, None if frame.color is None else frame.color.shape


def place_views(
    batch: list[DepthImage], origin: Float[np.ndarray, "3"], voxel: float, depth_max: float, device: str
) -> Views:
    """Cameras of a batch for the kernels.

    Raises:
        SmrError: A camera is out of the grid's reach.
    """

    def local(poses: list[Any]) -> Float[np.ndarray, "n 4 4"]:
        moved = np.stack([np.asarray(pose, dtype=np.float64) for pose in poses])
        moved[:, :3, 3] -= origin
        return moved

    def upload(values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(np.ascontiguousarray(values, dtype=np.float32), dtype=dtype, device=device)

    def projections(cameras: list[Camera], inverse: np.ndarray, step: int = 1) -> wp.array:
        matrices = np.tile(np.eye(4), (len(cameras), 1, 1))
        matrices[:, :3, :3] = [camera.K for camera in cameras]
        matrices[:, :2] /= step
        return upload(matrices @ inverse, wp.mat44)

    poses = local([frame.world_from_camera for frame in batch])
    color_poses = poses
    if any(frame.world_from_color is not None for frame in batch):
        color_poses = local([f.world_from_camera if f.world_from_color is None else f.world_from_color for f in batch])
    _check_reach(poses, voxel, depth_max)
    block_from_local = np.diag([1 / (BLOCK * voxel)] * 3 + [1.0])
    block_from_local[:3, 3] = 0.5 / BLOCK
    intrinsics = np.array([[f.camera.fx, f.camera.fy, f.camera.cx, f.camera.cy] for f in batch])
    step = 2 if 2 * depth_max / intrinsics[:, :2].min() < COARSE * voxel else 1
    intrinsics /= step
    inverse = rigid_inverse(poses)
    height, width = (-(-side // step) for side in batch[0].depth.shape)
    return Views(
        frames=len(batch),
        step=step,
        width=width,
        height=height,
        tiles=-(-width // TILE) * -(-height // TILE),
        cameras=upload(intrinsics, wp.vec4),
        block_from_camera=upload(block_from_local @ poses, wp.mat44),
        camera_from_local=upload(inverse, wp.mat44),
        image_from_local=projections([f.camera for f in batch], inverse, step),
        color_from_local=projections([f.color_camera or f.camera for f in batch], rigid_inverse(color_poses)),
        apart=bool(np.abs(color_poses[:, :3, 3] - poses[:, :3, 3]).max() > 1e-3),
        shortest_focal=float(intrinsics[:, :2].min()),
    )


def _check_reach(poses: Float[np.ndarray, "n 4 4"], voxel: float, depth_max: float) -> None:
    farthest = float(np.abs(poses[:, :3, 3]).max()) + 2 * depth_max
    reach = REACH * BLOCK * voxel
    if not farthest < reach:
        raise SmrError(
            f"A camera is {farthest:.3g} m away from the first one; a voxel size of {voxel:g} m reaches {reach:.3g} m.",
            "Check the poses and their unit (metres), or use a larger --voxel-size.",
        )


class Buffers:
    """Arrays of one batch, kept for the next one: fresh memory costs as much as the work in it."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.arrays: dict[str, wp.array] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: Any) -> wp.array:
        """An array with any content."""
        size = int(np.prod(shape))
        held = self.arrays.get(name)
        if held is None or held.shape[0] < size:
            held = wp.empty(size, dtype=dtype, device=self.device)
            self.arrays[name] = held
        return held[:size].reshape(shape)

    def stack(self, name: str, images: list[Any], dtype: Any) -> wp.array:
        """Equal images, each from NumPy or from a device, as one array."""
        stacked = self.get(name, (len(images), *images[0].shape), dtype)
        for i, image in enumerate(images):
            if isinstance(image, np.ndarray):
                image = wp.array(np.ascontiguousarray(image), dtype=dtype, device="cpu", copy=False)
            wp.copy(stacked[i], image)
        return stacked
