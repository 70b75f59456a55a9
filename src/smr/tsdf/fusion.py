"""Fusion of depth images into a sparse truncated signed distance field.

Curless and Levoy 1996, over hashed blocks (Nießner et al. 2013), weighted as Bylow et al. 2013 found best. Frames come
in batches: a kernel item, a column of 8 voxels, runs over all frames of the batch that see its block, with the voxel
in registers, and reads and writes the volume once.
"""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float

from ..arrays import cpu_threads, launch_chunked
from ..captures import Decoder, decode_ahead
from ..config import FusionConfig
from ..errors import SmrError
from ..progress import Track, untracked
from ..records import Camera, Capture, Frame
from ..transforms import rigid_inverse
from .blocks import REACH, BlockTable, unpack
from .planes import TILE, TILE_PIXELS, estimate_noise, make_planes, touch_blocks
from .volume import BLOCK, BLOCK_VOXELS, Volume, free_bytes, volume_bytes

wp.set_module_options({"enable_backward": False})

BATCH_LIMIT = 32  # frames; one bit each
BATCH_PIXELS = {"cpu": 8 * 640 * 480, "cuda": 32 * 640 * 480}
REACH_VOXELS = 3.0
"""Blocks are made up to here before and behind a surface: beyond the square root of 3, so that no cell is cut off."""
FIRST_BLOCKS = 16384
"""Room that is made at first; on the CPU it costs memory only as it fills."""
BEHIND = 2.0
"""Voxels behind the surface up to which a frame has a say; a cell's corners lie within the square root of 3."""

_CARVE = wp.constant(0.1)  # weight of seeing that a voxel is free, against measuring a surface near it
_COLOR_BAND = wp.constant(1.5)  # voxels


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
def _observed(state: wp.uint16, bit: int) -> wp.uint16:
    """Set a direction's bit and count one more observation, up to 15."""
    bits = int(state) | (1 << bit)
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
            for k in range(depth_of_column):
                along = float(k)
                pz = start[2] + along * step[2]
                near = 1.0 / pz
                u = (start[0] + along * step[0]) * near
                v = (start[1] + along * step[1]) * near
                if pz > 0.0 and u >= 0.0 and v >= 0.0 and u < float(width) and v < float(height):
                    pu = int(u)
                    pv = int(v)
                    plane = planes[first_pixel + pv * width + pu]
                    direction = int(0.5 * wp.abs(plane[3]))
                    facing = wp.abs(plane[3]) - 2.0 * float(direction)
                    z = plane[0] + plane[1] * (u - float(pu) - 0.5) + plane[2] * (v - float(pv) - 0.5)
                    d = (z - pz) * facing
                    if plane[0] > 0.0 and d > -behind:
                        place = block * 512 + column + 64 * k
                        fall = 1.0 - wp.abs(d) / behind
                        w = facing / (plane[0] * plane[0])
                        if d > 0.0:
                            seen = front[place]
                            near = wp.max(fall * wp.max(fall, 0.0), _CARVE) * w
                            if d < truncation:
                                front[place] = seen + wp.vec2f(near * d, near)
                                state[place] = _observed(state[place], direction)
                            elif plane[3] > 0.0:
                                front[place] = seen + wp.vec2f(near * truncation, near)
                        else:
                            w *= fall * fall
                            back[place] = back[place] + wp.vec2f(w * d, w)
                            state[place] = _observed(state[place], direction + 6)
                        total = front[place][1] + back[place][1]
                        if total > weight_limit:
                            front[place] = front[place] * (weight_limit / total)
                            back[place] = back[place] * (weight_limit / total)
                        if has_color and wp.abs(d) < _COLOR_BAND * voxel:
                            q = color_from_world[frame] * (origin + wp.vec4(0.0, 0.0, along * voxel, 0.0))
                            if q[2] > 0.0:
                                cu = int(wp.floor(q[0] / q[2]))
                                cv = int(wp.floor(q[1] / q[2]))
                                if cu >= 0 and cv >= 0 and cu < images.shape[2] and cv < images.shape[1]:
                                    w *= wp.min(1.0, facing * facing)
                                    color[place] = color[place] + w * wp.vec4f(
                                        float(images[frame, cv, cu, 0]),
                                        float(images[frame, cv, cu, 1]),
                                        float(images[frame, cv, cu, 2]),
                                        1.0,
                                    )
        mask = (mask >> 1) & 0x7FFFFFFF
        frame += 1


def fuse(capture: Capture, config: FusionConfig, *, device: str, track: Track = untracked) -> Volume:
    """Fuse a capture's depth maps, and the colours of its photos, into a signed distance field.

    Args:
        capture: Frames; those without a depth map or its pose are passed over.
        config: `voxel_size` and `depth_max` must be given.
        device: A Warp device: `cpu` or `cuda:N`.
        track: Progress.

    Raises:
        SmrError: No frame has depth and a pose, a file cannot be read, the volume does not fit into the memory, or a
            camera lies absurdly far from the first.
        ValueError: The configuration has no voxel size or no largest depth.
    """
    frames = [f for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None]
    if not frames:
        raise SmrError(
            f"No frame of {capture.source} has a depth map with a pose.",
            "Fusion needs RGB-D frames with known poses; `smr inspect` shows what the capture has.",
        )
    decoder = Decoder()
    images = decode_ahead(frames, lambda frame: _decode(frame, decoder), threads=cpu_threads())
    return fuse_images(images, config, device=device, track=track, total=len(frames))


def _decode(frame: Frame, decoder: Decoder) -> DepthImage:
    assert frame.depth is not None
    assert frame.depth.world_from_camera is not None
    depth, camera = decoder.depth(frame.depth)
    if frame.photo is None or frame.photo.world_from_camera is None:
        return DepthImage(depth, camera, frame.depth.world_from_camera)
    color, color_camera = decoder.photo(frame.photo)
    pose = frame.depth.world_from_camera
    return DepthImage(depth, camera, pose, color, color_camera, frame.photo.world_from_camera)


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
        SmrError: The volume does not fit into the memory, or a camera lies absurdly far from the first.
        ValueError: The configuration has no voxel size or no largest depth.
    """
    if total is None and isinstance(frames, Sized):
        total = len(frames)
    fusion: _Fusion | None = None
    for batch in _batches(track(frames, "Fusing", total), device):
        if fusion is None:
            fusion = _Fusion(batch[0], config, device, total)
        fusion.add(batch)
    if fusion is None:
        raise SmrError("There are no frames to fuse.", "Give at least one frame with depth and a pose.")
    return fusion.volume()


def _batches(frames: Iterable[DepthImage], device: str) -> Iterator[list[DepthImage]]:
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


class _Buffers:
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


class _Fusion:
    """A volume that grows while batches of frames are added."""

    def __init__(self, first: DepthImage, config: FusionConfig, device: str, total: int | None) -> None:
        if config.voxel_size is None or config.depth_max is None:
            raise ValueError("voxel_size and depth_max must be resolved before fusion")
        self.voxel = config.voxel_size
        self.depth_max = config.depth_max
        self.config = config
        self.device = device
        self.total = total
        self.frames = 0
        side = BLOCK * self.voxel
        self.origin = np.round(np.asarray(first.world_from_camera, np.float64)[:3, 3] / side) * side
        self.budget = int(config.memory * 1e9) if config.memory is not None else free_bytes(device) // 2
        self.buffers = _Buffers(device)
        self.table = BlockTable(device)
        self.noise = config.noise
        self.has_color = False
        self.capacity = 0
        self.front = wp.zeros(0, dtype=wp.vec2f, device=device)
        self.back = wp.zeros(0, dtype=wp.vec2f, device=device)
        self.state = wp.zeros(0, dtype=wp.uint16, device=device)
        self.color = wp.zeros(0, dtype=wp.vec4f, device=device)

    def add(self, batch: list[DepthImage]) -> None:
        """Fuse a batch of frames of equal sizes."""
        n = len(batch)
        height, width = batch[0].depth.shape
        tiles = -(-width // TILE) * -(-height // TILE)
        if batch[0].color is not None and not self.has_color:
            self.has_color = True
            self._resize(self.capacity, color_only=True)
        poses = np.stack([self._local_pose(frame.world_from_camera) for frame in batch])
        cameras = np.array([[f.camera.fx, f.camera.fy, f.camera.cx, f.camera.cy] for f in batch])
        cameras_d = self._upload(cameras, wp.vec4)
        poses_d = self._upload(self._block_from_world() @ poses, wp.mat44)
        inverse_d = self._upload(rigid_inverse(poses), wp.mat44)
        get = self.buffers.get
        depth = self.buffers.stack("depth", [frame.depth for frame in batch], wp.float32)
        planes = get("planes", (n * height * width,), wp.vec4)
        farthest = get("farthest", (n * tiles,), wp.float32)
        behind = BEHIND * self.voxel
        low, high = self.config.depth_min, self.depth_max
        inputs = [depth.flatten(), width, height, cameras_d, poses_d, self._noise(depth), low, high, behind]
        self._launch(make_planes, n * tiles, inputs, [planes, farthest])

        stride = 2 if 2 * self.depth_max / cameras[:, :2].min() < BLOCK / 2 * self.voxel else 1
        length = 3 * (TILE_PIXELS // stride**2)
        counts = get("counts", (n * tiles,), wp.int32)
        lists = get("lists", (n * tiles * length,), wp.int64)
        inputs = [planes, cameras_d, poses_d, width, height, stride, REACH_VOXELS / BLOCK, length]
        self._launch(touch_blocks, n * tiles, inputs, [counts, lists])
        self.table.insert(counts, lists, length, tiles, self.frames)
        self._reserve(self.frames + n)

        blocks = self.table.count
        if blocks:
            masks = get("masks", (blocks,), wp.int32)
            inputs = [self.table.keys, self.table.births, self.frames, n, self.voxel]
            inputs += [cameras_d, inverse_d, farthest, width, height]
            self._launch(_find_visible, blocks, inputs, [masks])
            self._update_voxels(batch, masks, planes, rigid_inverse(poses))
        self.frames += n

    def _block_from_world(self) -> np.ndarray:
        """From local metres to blocks; a block spans from half a voxel before its first voxel's centre."""
        matrix = np.diag([1 / (BLOCK * self.voxel)] * 3 + [1.0])
        matrix[:3, 3] = 0.5 / BLOCK
        return matrix

    def _noise(self, depth: wp.array) -> float:
        """The sensor's noise at 1 m: as configured, or found in the first frame with enough depth."""
        for i in range(depth.shape[0]):
            if self.noise is None:
                self.noise = estimate_noise(depth[i].numpy())
        return self.noise or 0.0

    def _update_voxels(self, batch: list[DepthImage], masks: wp.array, planes: wp.array, inverse: np.ndarray) -> None:
        height, width = batch[0].depth.shape
        active, active_count, most = self._active(masks)
        projections = np.stack([_projection(f.camera) for f in batch]) @ inverse
        if batch[0].color is not None:
            images = self.buffers.stack("color", [frame.color for frame in batch], wp.uint8)
            color_poses = [f.world_from_camera if f.world_from_color is None else f.world_from_color for f in batch]
            color_inverse = rigid_inverse(np.stack([self._local_pose(pose) for pose in color_poses]))
            color_projections = np.stack([_projection(f.color_camera or f.camera) for f in batch]) @ color_inverse
        else:
            images = wp.empty((0, 0, 0, 0), dtype=wp.uint8, device=self.device)
            color_projections = projections
        inputs = [active, active_count, self.table.keys, masks, self.voxel, self.config.truncation * self.voxel]
        inputs += [BEHIND * self.voxel, self.config.weight_limit, planes, width, height]
        inputs += [self._upload(projections, wp.mat44), images, self._upload(color_projections, wp.mat44)]
        self._launch(_update, most * 64, inputs, [self.front, self.back, self.state, self.color])

    def _active(self, masks: wp.array) -> tuple[wp.array, wp.array, int]:
        """Blocks that some frame of the batch sees, how many, and the most that there can be.

        A GPU keeps the number to itself: asking for it would stop the queue.
        """
        if self.device == "cpu":
            active = np.flatnonzero(masks.numpy()).astype(np.int32)
            return self._upload(active, wp.int32), self._upload(np.array([len(active)]), wp.int32), len(active)
        active_d = wp.empty_like(masks)
        count = wp.zeros(1, dtype=wp.int32, device=self.device)
        wp.launch(_compact, masks.shape[0], inputs=[masks], outputs=[active_d, count], device=self.device)
        return active_d, count, masks.shape[0]

    def volume(self) -> Volume:
        """The record of what was fused."""
        return Volume(
            voxel_size=self.voxel,
            origin=self.origin,
            blocks=self.table.count,
            keys=self.table.keys,
            front=self.front,
            back=self.back,
            state=self.state,
            color=self.color if self.has_color else None,
            device=self.device,
        )

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], outputs: list[Any]) -> None:
        launch_chunked(kernel, dim, inputs, outputs=outputs, device=self.device)

    def _upload(self, values: np.ndarray, dtype: Any) -> wp.array:
        scalar = np.int32 if dtype is wp.int32 else np.float32
        return wp.array(np.ascontiguousarray(values, dtype=scalar), dtype=dtype, device=self.device)

    def _local_pose(self, world_from_camera: np.ndarray) -> np.ndarray:
        """Pose relative to the volume's origin, float64."""
        pose = np.array(world_from_camera, dtype=np.float64)
        pose[:3, 3] -= self.origin
        farthest = float(np.abs(pose[:3, 3]).max()) + 2 * self.depth_max
        if not farthest < REACH * BLOCK * self.voxel:
            raise SmrError(
                f"A camera is {farthest:.3g} m away from the first one; a voxel size of {self.voxel:g} m reaches "
                f"{REACH * BLOCK * self.voxel:.3g} m.",
                "Check the poses and their unit (metres), or use a larger --fusion.voxel-size.",
            )
        return pose

    def _reserve(self, frames_after: int) -> None:
        """Make room for all blocks of the table, within the budget."""
        blocks = self.table.count
        if blocks <= self.capacity:
            return
        most = self.budget // volume_bytes(1, color=self.has_color)
        if blocks > most:
            self._refuse(blocks, most, frames_after)
        self._resize(min(most, max(2 * blocks, FIRST_BLOCKS)))

    def _refuse(self, blocks: int, most: int, frames: int) -> None:
        # The surface seen grows at most as the frames do, and its blocks as 1 / voxel size squared.
        total = max(self.total or frames, frames)
        fits = self.voxel * (1.1 * blocks / max(most, 1) * total / frames) ** 0.5
        needed = volume_bytes(blocks, color=self.has_color) / 1e9
        raise SmrError(
            f"The volume takes {needed:.3g} GB after {frames} of {total} frames at a voxel size of {self.voxel:g} m; "
            f"{self.budget / 1e9:.3g} GB may be used.",
            f"Use --fusion.voxel-size {_round_up(fits):g} or larger, a smaller --fusion.depth-max, "
            "or allow more with --fusion.memory.",
        )

    def _resize(self, capacity: int, *, color_only: bool = False) -> None:
        names = {"front": 1, "back": 1, "state": 1, "color": 1 if self.has_color else 0}
        for name, used in names.items():
            if color_only and name != "color":
                continue
            old = getattr(self, name)
            longer = _zeros(capacity * BLOCK_VOXELS * used, old.dtype, self.device)
            if old.shape[0]:
                wp.copy(longer, old, count=min(old.shape[0], longer.shape[0]))
            setattr(self, name, longer)
        self.capacity = capacity


def _zeros(size: int, dtype: Any, device: str) -> wp.array:
    """Zeros; on the CPU as memory that is taken only when it is written to."""
    if device != "cpu":
        return wp.zeros(size, dtype=dtype, device=device)
    if dtype is wp.uint16:
        values = np.zeros(size, np.uint16)
    else:
        values = np.zeros((size, wp.types.type_size_in_bytes(dtype) // 4), np.float32)
    array = wp.array(values, dtype=dtype, device="cpu", copy=False)
    assert array.shape == (size,)
    return array


def _round_up(value: float) -> float:
    """To two significant digits."""
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / step) * step)


def _projection(camera: Camera) -> Float[np.ndarray, "4 4"]:
    matrix = np.eye(4)
    matrix[:3, :3] = camera.K
    return matrix
