"""From and to the cameras of captures (`smr.records.Camera`, NumPy, one at a time)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ... import records
from .base import Camera, check_camera
from .models import Equirectangular, Fisheye, Pinhole


def from_record(
    camera: records.Camera,
    world_from_camera: Float[np.ndarray, "4 4"] | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Pinhole | Fisheye | Equirectangular:
    """The camera of a photo or depth map, on tensors; without a batch (`stack` makes one).

    Raises:
        ValueError: An unknown lens model or a wrong number of coefficients.
    """
    if not isinstance(camera, records.Camera):
        raise TypeError(f"camera must be a smr.records.Camera, not {type(camera).__name__}")
    shape = (camera.width, camera.height)
    focal = torch.tensor([camera.fx, camera.fy], dtype=dtype, device=device)
    center = torch.tensor([camera.cx, camera.cy], dtype=dtype, device=device)
    pose = None if world_from_camera is None else torch.tensor(world_from_camera, dtype=dtype, device=device)
    given = tuple(camera.distortion)
    if camera.model == "equirectangular":
        _check_count(camera, 0)
        return Equirectangular(*shape, focal, center, pose)
    if camera.model == "opencv_fisheye":
        _check_count(camera, 4)
        k = torch.tensor((*given, *(0.0,) * (4 - len(given))), dtype=dtype, device=device)
        return Fisheye(*shape, focal, center, pose, k)
    if camera.model == "pinhole":
        _check_count(camera, 0)
        return Pinhole(*shape, focal, center, pose)
    if camera.model == "opencv":
        _check_count(camera, 8)
        k = torch.tensor((*given, *(0.0,) * (8 - len(given))), dtype=dtype, device=device)
        return Pinhole(*shape, focal, center, pose, k)
    raise ValueError(f"the camera model {camera.model!r} is not known")


def to_record(camera: Camera) -> tuple[records.Camera, Float[np.ndarray, "4 4"]]:
    """The record of a single camera, and its `world_from_camera`.

    Raises:
        ValueError: It is a batch, or orthographic, which no photo is.
    """
    check_camera(camera)
    if camera.batch_shape:
        raise ValueError(f"one camera has one record; this is a batch of {tuple(camera.batch_shape)}: index it first")
    fx, fy, cx, cy = torch.cat([camera.focal, camera.center]).tolist()
    shape = (camera.width, camera.height, fx, fy, cx, cy)
    if isinstance(camera, Fisheye):
        k = (0.0,) * 4 if camera.distortion is None else tuple(camera.distortion.tolist())
        record = records.Camera(*shape, "opencv_fisheye", k)
    elif isinstance(camera, Equirectangular):
        record = records.Camera(*shape, "equirectangular")
    elif isinstance(camera, Pinhole):
        k = () if camera.distortion is None else tuple(camera.distortion.tolist())
        record = records.Camera(*shape, "opencv", k) if any(k) else records.Camera(*shape)
    else:
        raise ValueError(f"a camera {type(camera).__name__} has no counterpart among the cameras of photos")
    pose = np.eye(4) if camera.world_from_camera is None else camera.world_from_camera.detach().double().cpu().numpy()
    return record, pose


def stack(cameras: Sequence[Camera]) -> Camera:
    """Cameras of one class and one image size as a batch, on a new first axis.

    Raises:
        ValueError: There is none, or they differ in class, size or batch.
    """
    if not cameras:
        raise ValueError("stack needs at least one camera")
    first = cameras[0]
    check_camera(first, "cameras[0]")
    for i, camera in enumerate(cameras):
        if type(camera) is not type(first) or (camera.width, camera.height) != (first.width, first.height):
            raise ValueError(
                f"cameras[{i}] is {type(camera).__name__} of {camera.width} x {camera.height} pixels and cameras[0] "
                f"{type(first).__name__} of {first.width} x {first.height}; a batch has one of each"
            )
        if camera.batch_shape != first.batch_shape:
            raise ValueError(
                f"cameras[{i}] has the batch {tuple(camera.batch_shape)} and cameras[0] {tuple(first.batch_shape)}"
            )
    tensors = {name: _column(name, cameras) for name in ("focal", "center", "world_from_camera")}
    if isinstance(first, (Pinhole, Fisheye)):
        tensors["distortion"] = _column("distortion", cameras)
    return type(first)(first.width, first.height, **tensors)  # type: ignore[arg-type]


def _column(name: str, cameras: Sequence[Camera]) -> Tensor | None:
    """One tensor of all cameras; where only some have it, the others have what its absence means."""
    given = [getattr(camera, name) for camera in cameras]
    present = [tensor for tensor in given if tensor is not None]
    if not present:
        return None
    like = present[0]
    core = 2 if name == "world_from_camera" else 1
    absent = torch.eye(4).to(like) if core == 2 else torch.zeros_like(like)
    whole = [absent if tensor is None else tensor for tensor in given]
    batch = cameras[0].batch_shape
    return torch.stack([tensor.expand(*batch, *tensor.shape[tensor.dim() - core :]) for tensor in whole])


def _check_count(camera: records.Camera, most: int) -> None:
    if len(camera.distortion) > most:
        raise ValueError(
            f"a camera {camera.model} has at most {most} distortion coefficients, not {len(camera.distortion)}"
        )
