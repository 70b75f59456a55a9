"""Paths of a camera through key cameras."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as endless

import torch
from torch import Tensor

from ....ops.cameras import quat_wxyz_from_rotation, rotation_from_quat_wxyz
from .camera import Camera
from .extrinsics import CameraExtrinsics
from .intrinsics import CameraIntrinsics
from .intrinsics_pinhole import PinholeIntrinsics

__all__ = ["camera_path_generator", "loop_camera_path_generator"]

_LEAST = {"polynomial": 2, "catmull_rom": 4}


@dataclass(frozen=True)
class _Key:
    """What is interpolated of a key camera, float64."""

    quat_wxyz: Tensor
    numbers: Tensor
    """Translation; width, height, near, far; the lens: fields of view in degrees, or its parameters as they are."""


def camera_path_generator(
    trajectory: list[Camera], frames_between_cameras: int = 60, interpolation: str = "catmull_rom"
) -> Iterator[Camera]:
    """Cameras along a path through each key camera, from the first to the last.

    Args:
        trajectory: Key cameras, single ones of one lens class.
        frames_between_cameras: How many come between two of them.
        interpolation: `catmull_rom`, a smooth curve through four or more; `polynomial`, straight from key to key,
            starting and stopping softly at each, through two or more.

    Raises:
        ValueError: Another interpolation, too few cameras, or cameras of several lens classes.
    """
    _check(trajectory, interpolation)
    keys = _keys(trajectory)
    last = len(keys) - 1

    def path() -> Iterator[Camera]:
        for segment in range(last):
            around = [keys[max(segment - 1, 0)], keys[segment], keys[segment + 1], keys[min(segment + 2, last)]]
            for frame in range(frames_between_cameras + 1):
                yield _between(around, frame / (frames_between_cameras + 1), interpolation, trajectory[0])
        yield _camera(keys[last].quat_wxyz, keys[last].numbers, trajectory[0])

    return path()


def loop_camera_path_generator(
    trajectory: list[Camera],
    frames_between_cameras: int = 60,
    interpolation: str = "polynomial",
    repeat: int | None = None,
) -> Iterator[Camera]:
    """Cameras along a closed path through each key camera, again and again.

    Args:
        trajectory: Key cameras, single ones of one lens class.
        frames_between_cameras: How many come between two of them.
        interpolation: As in `camera_path_generator`.
        repeat: How many rounds; None: endless.
    """
    _check(trajectory, interpolation)
    keys = _keys(trajectory)
    keys.append(_aligned(keys[0], keys[-1]))
    size = len(trajectory)

    def path() -> Iterator[Camera]:
        for _ in endless() if repeat is None else range(repeat):
            for segment in range(size):
                around = [keys[(segment - 1) % size], keys[segment], keys[segment + 1], keys[(segment + 2) % size]]
                for frame in range(frames_between_cameras + 1):
                    yield _between(around, frame / (frames_between_cameras + 1), interpolation, trajectory[0])
        yield _camera(keys[0].quat_wxyz, keys[0].numbers, trajectory[0])

    return path()


def _check(trajectory: Sequence[Camera], interpolation: str) -> None:
    if interpolation not in _LEAST:
        raise ValueError("Unknown interpolation function specified.")
    least = _LEAST[interpolation]
    if len(trajectory) < least:
        raise ValueError(f"For {interpolation} interpolation, cameras trajectory must have at least {least} cameras.")
    first = trajectory[0]
    for i, camera in enumerate(trajectory):
        if len(camera) != 1:
            raise ValueError(f"trajectory[{i}] is a batch of {len(camera)} cameras; key cameras are single ones")
        if type(camera.intrinsics) is not type(first.intrinsics):
            raise ValueError(f"trajectory[{i}] is {camera.lens_type} and trajectory[0] {first.lens_type}")
        if camera.device != first.device:
            raise RuntimeError(
                f"Expected all tensors to be on the same device: trajectory[{i}] is on {camera.device}, "
                f"trajectory[0] on {first.device}"
            )


def _keys(trajectory: Sequence[Camera]) -> list[_Key]:
    keys: list[_Key] = []
    for camera in trajectory:
        view = camera.extrinsics.view_matrix()[0].double()
        key = _Key(quat_wxyz_from_rotation(view[:3, :3]), torch.cat([view[:3, 3], _numbers(camera.intrinsics)]))
        keys.append(_aligned(key, keys[-1]) if keys else key)
    return keys


def _aligned(key: _Key, before: _Key) -> _Key:
    """The key with that of its two quaternions that is nearer to the one before."""
    nearer = (key.quat_wxyz * before.quat_wxyz).sum() >= 0
    return _Key(torch.where(nearer, key.quat_wxyz, -key.quat_wxyz), key.numbers)


def _numbers(lens: CameraIntrinsics) -> Tensor:
    sizes = torch.tensor([lens.width, lens.height, lens.near, lens.far], dtype=torch.float64, device=lens.device)
    params = lens.params[0].double()
    if isinstance(lens, PinholeIntrinsics):
        # fields of view, not focal lengths, change evenly
        half_sizes = params.new_tensor([lens.width, lens.height]) / 2
        params = torch.cat([params[:2], (half_sizes / params[2:]).atan()])
    return torch.cat([sizes, params])


def _between(around: Sequence[_Key], t: float, interpolation: str, like: Camera) -> Camera:
    soft = t * t * (3 - 2 * t)
    quat = _slerp(around[1].quat_wxyz, around[2].quat_wxyz, soft)
    if interpolation == "catmull_rom":
        p0, p1, p2, p3 = (key.numbers for key in around)
        square = 2 * p0 - 5 * p1 + 4 * p2 - p3
        numbers = 0.5 * (2 * p1 + t * (p2 - p0 + t * (square + t * (3 * p1 - p0 - 3 * p2 + p3))))
    else:
        numbers = torch.lerp(around[1].numbers, around[2].numbers, soft)
    return _camera(quat, numbers, like)


def _slerp(one: Tensor, two: Tensor, t: float) -> Tensor:
    """Between two unit quaternions along the great arc."""
    two = torch.where((one * two).sum() >= 0, two, -two)
    # twice the arc tangent of half the chords is accurate for small angles too
    angle = 2 * torch.atan2((one - two).norm(), (one + two).norm())
    small = angle < 1e-7
    sine = torch.where(small, 1.0, angle.sin())
    first = torch.where(small, 1.0 - t, ((1 - t) * angle).sin() / sine)
    second = torch.where(small, t, (t * angle).sin() / sine)
    return first * one + second * two


def _camera(quat_wxyz: Tensor, numbers: Tensor, like: Camera) -> Camera:
    view = torch.eye(4, dtype=torch.float64, device=like.device)
    view[:3, :3] = rotation_from_quat_wxyz(quat_wxyz)
    view[:3, 3] = numbers[:3]
    width, height, near, far = numbers[3:7].tolist()
    width, height = max(1, round(width)), max(1, round(height))
    params = numbers[7:]
    if isinstance(like.intrinsics, PinholeIntrinsics):
        half_sizes = params.new_tensor([numbers[3], numbers[4]]) / 2
        params = torch.cat([params[:2], half_sizes / params[2:].tan()])
    lens = type(like.intrinsics)(width, height, params.unsqueeze(0).to(like.intrinsics.dtype), near, far)
    return Camera(CameraExtrinsics.from_view_matrix(view, dtype=like.dtype), lens)
