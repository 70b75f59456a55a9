"""Fusion of depth images into a sparse truncated signed distance field.

Curless and Levoy 1996, over hashed blocks (Nießner et al. 2013), weighted as Bylow et al. 2013 found best. Frames come
in batches: a kernel item, a column of 8 voxels, runs over all frames of the batch that see its block. The result does
not depend on how the frames are batched: a frame counts for the blocks that it or an earlier frame touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized

import numpy as np
import warp as wp

from ..arrays import cpu_threads, launch_chunked
from ..captures import Decoder, decode_usable
from ..config import FusionConfig
from ..errors import SmrError
from ..progress import Track, untracked
from ..records import Capture, Frame
from .growth import GrowingVolume
from .integration import BEHIND, find_visible, update_voxels
from .planes import TILE_PIXELS, estimate_noise, make_planes, touch_blocks
from .views import Buffers, DepthImage, Views, batches, place_views
from .volume import BLOCK, Volume

REACH_VOXELS = 3.0
"""Blocks are made up to here before and behind a surface: beyond the square root of 3, so that no cell is cut off."""
MOST_TRUNCATION = 100
MOST_OBSERVATIONS = 15
"""A voxel counts its observations in four bits."""


def fuse(capture: Capture, config: FusionConfig, *, device: str, track: Track = untracked) -> Volume:
    """Fuse a capture's depth maps, and the colours of its photos, into a signed distance field.

    Args:
        capture: Frames; those without a depth map or its pose are passed over, and those whose files cannot be
            decoded, with a warning.
        config: `voxel_size` and `depth_max` must be given.
        device: A Warp device: `cpu` or `cuda:N`.
        track: Progress.

    Raises:
        SmrError: No frame has depth and a pose, more than half of the frames cannot be decoded, the volume does not
            fit into the memory, or a camera lies absurdly far from the first.
        ValueError: The configuration has no voxel size or no largest depth.
    """
    frames = [f for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None]
    if not frames:
        raise SmrError(
            f"No frame of {capture.source} has a depth map with a pose.",
            "Fusion needs RGB-D frames with known poses; `smr inspect` shows what the capture has.",
        )
    decoder = Decoder()
    decoded = decode_usable(frames, lambda frame: _decode(frame, decoder), threads=cpu_threads())
    return fuse_images((image for _, image in decoded), config, device=device, track=track, total=len(frames))


def check_settings(config: FusionConfig) -> None:
    """Refuse settings that mean nothing.

    Raises:
        SmrError: Names the option and its value.
    """
    for name in ("voxel_size", "depth_max", "memory", "weight_limit"):
        value = getattr(config, name)
        if value is not None and not 0 < value < np.inf:
            raise SmrError(f"--{name.replace('_', '-')} is {value:g}.", "Give a positive number, or leave it out.")
    for name in ("depth_min", "noise"):
        value = getattr(config, name)
        if value is not None and not 0 <= value < np.inf:
            raise SmrError(f"--{name.replace('_', '-')} is {value:g}.", "Give 0 or more, in metres, or leave it out.")
    if config.depth_max is not None and config.depth_max <= config.depth_min:
        raise SmrError(
            f"--depth-max is {config.depth_max:g} m and --depth-min {config.depth_min:g} m: no depth lies between.",
            "Give a larger --depth-max, or a smaller --depth-min.",
        )
    if not 1 <= config.truncation <= MOST_TRUNCATION:
        raise SmrError(
            f"--truncation is {config.truncation:g} voxels.", f"Give 1 to {MOST_TRUNCATION}; 3 to 5 suit most sensors."
        )
    if not 1 <= config.min_observations <= MOST_OBSERVATIONS:
        raise SmrError(
            f"--min-observations is {config.min_observations}.", f"Give 1 to {MOST_OBSERVATIONS}: no more are counted."
        )


def _decode(frame: Frame, decoder: Decoder) -> DepthImage:
    assert frame.depth is not None
    assert frame.depth.world_from_camera is not None
    depth, camera = decoder.depth(frame.depth)
    if frame.photo is None or frame.photo.world_from_camera is None:
        return DepthImage(depth, camera, frame.depth.world_from_camera, weight=decoder.weight(frame.depth))
    color, color_camera = decoder.photo(frame.photo)
    pose = frame.depth.world_from_camera
    if frame.photo.mask is not None and color_camera == camera and np.allclose(frame.photo.world_from_camera, pose):
        mask = decoder.mask(frame.photo)  # which tells nothing of another camera; None: all may be used
        depth = depth if mask is None else np.where(mask, depth, np.float32(0))
    weight = decoder.weight(frame.depth)
    return DepthImage(depth, camera, pose, color, color_camera, frame.photo.world_from_camera, weight)


def fuse_images(
    frames: Iterable[DepthImage],
    config: FusionConfig,
    *,
    device: str,
    track: Track = untracked,
    total: int | None = None,
) -> Volume:
    """Fuse decoded frames; see `fuse`.

    Args:
        frames: Decoded frames, read once, in order.
        config: `voxel_size` and `depth_max` must be given.
        device: A Warp device: `cpu` or `cuda:N`.
        track: Progress.
        total: Number of frames where `frames` has no length; for the progress and for estimates of memory.

    Raises:
        SmrError: A setting means nothing, the volume does not fit into the memory, or a camera lies absurdly far from
            the first.
        ValueError: The configuration has no voxel size or no largest depth.
    """
    check_settings(config)
    if total is None and isinstance(frames, Sized):
        total = len(frames)
    fusion: _Fusion | None = None
    for batch in batches(track(frames, "Fusing", total), device):
        if fusion is None:
            fusion = _Fusion(batch[0], config, device, total)
        fusion.add(batch)
    if fusion is None:
        raise SmrError("There are no frames to fuse.", "Give at least one frame with depth and a pose.")
    return fusion.volume.record()


class _Fusion:
    """A volume to which batches of frames are added."""

    def __init__(self, first: DepthImage, config: FusionConfig, device: str, total: int | None) -> None:
        if config.voxel_size is None or config.depth_max is None:
            raise ValueError("voxel_size and depth_max must be resolved before fusion")
        self.config = config
        self.depth_max = config.depth_max
        self.device = device
        self.total = total
        self.frames = 0
        self.noise = config.noise
        self.buffers = Buffers(device)
        side = BLOCK * config.voxel_size
        origin = np.round(np.asarray(first.world_from_camera, np.float64)[:3, 3] / side) * side
        self.volume = GrowingVolume(config.voxel_size, origin, config.memory, device)

    def add(self, batch: list[DepthImage]) -> None:
        """Fuse a batch of frames of equal sizes."""
        volume = self.volume
        views = place_views(batch, volume.origin, volume.voxel, self.depth_max, self.device)
        planes, farthest = self._planes(batch, views)
        images = None
        if batch[0].color is not None:
            volume.add_color()
            images = self.buffers.stack("color", [frame.color for frame in batch], wp.uint8)
        self._touch(planes, views)
        volume.reserve(self.frames + views.frames, self.total)
        if volume.table.count:
            masks = find_visible(volume.table, views, self.frames, volume.voxel, farthest, self.buffers, self.device)
            truncation = self.config.truncation * volume.voxel
            limit = self.config.weight_limit
            update_voxels(volume, masks, views, planes, images, truncation, limit, self.buffers)
        self.frames += views.frames

    def _planes(self, batch: list[DepthImage], views: Views) -> tuple[wp.array, wp.array]:
        depth = self.buffers.stack("depth", [frame.depth for frame in batch], wp.float32)
        planes = self.buffers.get("planes", (views.frames * views.height * views.width,), wp.vec4)
        farthest = self.buffers.get("farthest", (views.frames * views.tiles,), wp.float32)
        weights = wp.empty(0, dtype=wp.float32, device=self.device)
        if any(frame.weight is not None for frame in batch):
            full = np.ones(batch[0].depth.shape, np.float32)
            given = [full if frame.weight is None else frame.weight for frame in batch]
            weights = self.buffers.stack("weights", given, wp.float32).flatten()
        inputs = [depth.flatten(), weights, depth.shape[2], depth.shape[1], views.step, views.cameras]
        inputs += [views.block_from_camera]
        inputs += [self._noise(depth), self.config.depth_min, self.depth_max, BEHIND * self.volume.voxel]
        dim = views.frames * views.tiles
        launch_chunked(make_planes, dim, inputs, outputs=[planes, farthest], device=self.device)
        return planes, farthest

    def _noise(self, depth: wp.array) -> float:
        """The sensor's noise at 1 m: as configured, or found in the first frame with enough depth."""
        for i in range(depth.shape[0]):
            if self.noise is None:
                self.noise = estimate_noise(depth[i].numpy())
        return self.noise or 0.0

    def _touch(self, planes: wp.array, views: Views) -> None:
        """Make the blocks that the batch's surfaces lie in."""
        coarse = 2 * self.depth_max / views.shortest_focal < BLOCK / 2 * self.volume.voxel
        stride = 2 if coarse else 1
        length = 3 * (TILE_PIXELS // stride**2)
        dim = views.frames * views.tiles
        counts = self.buffers.get("counts", (dim,), wp.int32)
        lists = self.buffers.get("lists", (dim * length,), wp.int64)
        inputs = [planes, views.cameras, views.block_from_camera, views.width, views.height, stride]
        inputs += [REACH_VOXELS / BLOCK, length]
        launch_chunked(touch_blocks, dim, inputs, outputs=[counts, lists], device=self.device)
        self.volume.table.insert(counts, lists, length, views.tiles, self.frames)
