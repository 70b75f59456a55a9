"""Cameras from and to OpenCV and COLMAP.

Both have our camera axes and store world to camera. OpenCV puts the first pixel's centre at (0, 0), COLMAP at
(0.5, 0.5) as we do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..tensors import check_finite, check_same_device, check_tensor, checks_values
from .base import Camera, check_camera
from .models import Equirectangular, Fisheye, Pinhole

HALF = 0.5
"""Added to pixels of OpenCV, whose first pixel has its centre at (0, 0)."""

COLMAP_PARAMETERS = {
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fx fy cx cy",
    "SIMPLE_RADIAL": "f cx cy k1",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fx fy cx cy k1 k2 p1 p2",
    "FULL_OPENCV": "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6",
    "SIMPLE_FISHEYE": "f cx cy",
    "FISHEYE": "fx fy cx cy",
    "SIMPLE_RADIAL_FISHEYE": "f cx cy k1",
    "RADIAL_FISHEYE": "f cx cy k1 k2",
    "OPENCV_FISHEYE": "fx fy cx cy k1 k2 k3 k4",
    "EQUIRECTANGULAR": "w h",
}
"""COLMAP's models that map exactly, with their parameters in order."""
_PINHOLE_KEYS = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
_FISHEYE_KEYS = ("k1", "k2", "k3", "k4")


class OpenCVCamera(NamedTuple):
    """What OpenCV's functions take, for one camera or a batch."""

    K: Float[Tensor, "... 3 3"]
    """The first pixel's centre is (0, 0)."""
    distortion: Float[Tensor, "... n"]
    """Pinhole: k1 k2 p1 p2 k3 k4 k5 k6; fisheye (for `cv2.fisheye`): k1 k2 k3 k4."""
    R: Float[Tensor, "... 3 3"]
    """Camera from world; `cv2.Rodrigues` makes a vector of it."""
    t: Float[Tensor, "... 3"]
    """Camera from world, metres."""


class ColmapCamera(NamedTuple):
    """A line of cameras.txt and the pose of a line of images.txt."""

    model: str
    parameters: list[float]
    quat_wxyz: Float[Tensor, "4"]
    """Camera from world; w is not negative."""
    translation: Float[Tensor, "3"]
    """Camera from world, metres."""


def from_opencv(
    K: Float[Tensor, "... 3 3"],
    distortion: Float[Tensor, "... n"] | None = None,
    R: Float[Tensor, "... 3 3"] | None = None,
    t: Float[Tensor, "... 3"] | None = None,
    *,
    width: int,
    height: int,
    fisheye: bool = False,
) -> Pinhole | Fisheye:
    """A camera of OpenCV's `K`, distortion and pose (camera from world).

    Args:
        K: First pixel's centre at (0, 0).
        distortion: 4, 5 or 8 coefficients (`cv2.calibrateCamera`); 4 for `cv2.fisheye`.
        R: Camera from world; None with `t`: the world is the camera frame.
        t: Camera from world.
        width: Pixels.
        height: Pixels.
        fisheye: Whether `cv2.fisheye` made them.

    Raises:
        TypeError: Not tensors of one floating type.
        ValueError: Other shapes, two devices, values that are not finite, skew, or coefficients that
            have no counterpart here (12 and 14: thin prism, tilt).
    """
    check_tensor("K", K, (3, 3), batched=True)
    if distortion is not None:
        check_tensor("distortion", distortion, (None,), (K.dtype,), batched=True)
    if bool((K[..., 0, 1] != 0).any()):
        raise ValueError("K has skew (K[0, 1] is not 0), which no camera model here has")
    focal = torch.stack([K[..., 0, 0], K[..., 1, 1]], -1)
    center = K[..., :2, 2] + HALF
    pose = None if R is None and t is None else _pose_of(R, t, K)
    given = 0 if distortion is None else distortion.shape[-1]
    counts = (0, 4) if fisheye else (0, 4, 5, 8)
    if given not in counts:
        known = " or ".join(map(str, counts[1:]))
        raise ValueError(f"distortion has {given} coefficients; a camera here has {known}")
    size = 4 if fisheye else 8
    whole = None if distortion is None or given == 0 else torch.nn.functional.pad(distortion, (0, size - given))
    return (Fisheye if fisheye else Pinhole)(width, height, focal, center, pose, whole)


def to_opencv(camera: Pinhole | Fisheye) -> OpenCVCamera:
    """What OpenCV's functions (for `Fisheye` those of `cv2.fisheye`) take; the pixels that they give need + 0.5."""
    check_camera(camera)
    if not isinstance(camera, (Pinhole, Fisheye)):
        raise ValueError(f"OpenCV has no {type(camera).__name__} camera")
    focal, center = torch.broadcast_tensors(camera.focal, camera.center - HALF)
    one = torch.ones_like(focal[..., 0])
    zero = torch.zeros_like(one)
    rows = [
        torch.stack([focal[..., 0], zero, center[..., 0]], -1),
        torch.stack([zero, focal[..., 1], center[..., 1]], -1),
        torch.stack([zero, zero, one], -1),
    ]
    size = 4 if isinstance(camera, Fisheye) else 8
    k = camera.distortion
    k = torch.zeros(size, dtype=camera.dtype, device=camera.device) if k is None else k
    view = camera.camera_from_world
    return OpenCVCamera(torch.stack(rows, -2), k, view[..., :3, :3], view[..., :3, 3])


def from_colmap(
    model: str,
    parameters: Sequence[float],
    width: int,
    height: int,
    quat_wxyz: Float[Tensor, "... 4"] | None = None,
    translation: Float[Tensor, "... 3"] | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Pinhole | Fisheye | Equirectangular:
    """A camera of COLMAP's model name and parameters, and one pose or many (camera from world) that share it.

    Raises:
        ValueError: The model has no exact counterpart here (FOV, thin prism, division, EUCM), or has another number
            of parameters.
    """
    if model not in COLMAP_PARAMETERS:
        raise ValueError(f"COLMAP's {model} has no exact counterpart; these have: {', '.join(COLMAP_PARAMETERS)}")
    names = COLMAP_PARAMETERS[model].split()
    if isinstance(parameters, str) or not isinstance(parameters, Sequence | Tensor | np.ndarray):
        raise TypeError(f"parameters must be a list of numbers, not {type(parameters).__name__}")
    if len(parameters) != len(names):
        raise ValueError(f"{model} has the parameters {' '.join(names)}; {len(parameters)} were given")
    values = dict(zip(names, map(float, parameters), strict=True))
    pose = None
    if quat_wxyz is not None or translation is not None:
        for name, tensor, size in (("quat_wxyz", quat_wxyz, 4), ("translation", translation, 3)):
            if tensor is not None:
                check_tensor(name, tensor, (size,), batched=True)
                check_finite(name, tensor)
        rotation = None if quat_wxyz is None else rotation_from_quat_wxyz(quat_wxyz.to(device, dtype))
        pose = _pose_of(rotation, None if translation is None else translation.to(device, dtype), None)
    if model == "EQUIRECTANGULAR":
        sizes = torch.tensor([values["w"], values["h"]], dtype=dtype, device=device)
        radians = torch.tensor([2 * math.pi, math.pi], dtype=dtype, device=device)
        return Equirectangular(width, height, sizes / radians, sizes / 2, pose)
    f = values.get("f", 0.0)
    focal = torch.tensor([values.get("fx", f), values.get("fy", f)], dtype=dtype, device=device)
    center = torch.tensor([values["cx"], values["cy"]], dtype=dtype, device=device)
    fisheye = "FISHEYE" in model
    k = [values.get(key, 0.0) for key in (_FISHEYE_KEYS if fisheye else _PINHOLE_KEYS)]
    distortion = torch.tensor(k, dtype=dtype, device=device) if any(key[0] in "kp" for key in names) else None
    return (Fisheye if fisheye else Pinhole)(width, height, focal, center, pose, distortion)


def to_colmap(camera: Camera) -> ColmapCamera:
    """The smallest of COLMAP's models that holds a single camera, its parameters and its pose.

    Raises:
        ValueError: It is a batch, orthographic, or a panorama that is not the whole sphere.
    """
    check_camera(camera)
    if camera.batch_shape:
        raise ValueError(f"this is a batch of {tuple(camera.batch_shape)} cameras: index it first")
    fx, fy, cx, cy = torch.cat([camera.focal, camera.center]).tolist()
    model, parameters = "PINHOLE", [fx, fy, cx, cy]
    if isinstance(camera, Equirectangular):
        whole = Equirectangular.whole_sphere(camera.width, camera.height, like=camera.focal)
        if not torch.allclose(torch.cat([whole.focal, whole.center]), torch.cat([camera.focal, camera.center])):
            raise ValueError("COLMAP's EQUIRECTANGULAR is the whole sphere; this camera shows a part of it")
        model, parameters = "EQUIRECTANGULAR", [float(camera.width), float(camera.height)]
    elif isinstance(camera, Fisheye):
        k = [0.0] * 4 if camera.distortion is None else camera.distortion.tolist()
        model, parameters = "OPENCV_FISHEYE", [fx, fy, cx, cy, *k]
    elif isinstance(camera, Pinhole):
        k = [0.0] * 8 if camera.distortion is None else camera.distortion.tolist()
        if any(k[4:]):
            model, parameters = "FULL_OPENCV", [fx, fy, cx, cy, *k]
        elif any(k):
            model, parameters = "OPENCV", [fx, fy, cx, cy, *k[:4]]
    else:
        raise ValueError(f"COLMAP has no {type(camera).__name__} camera")
    view = camera.camera_from_world.detach()
    return ColmapCamera(model, parameters, quat_wxyz_from_rotation(view[:3, :3]), view[:3, 3])


def rotation_from_quat_wxyz(quat_wxyz: Float[Tensor, "... 4"]) -> Float[Tensor, "... 3 3"]:
    """Rotation matrices of quaternions, which need not have unit length.

    Raises:
        TypeError: Not float32 or float64.
        ValueError: Another shape, or a quaternion of length zero.
    """
    check_tensor("quat_wxyz", quat_wxyz, (4,), batched=True)
    if checks_values() and bool((zero := (quat_wxyz == 0).all(dim=-1)).any()):
        raise ValueError(f"quat_wxyz{zero.nonzero()[0].tolist()} is zero, which is no rotation")
    w, x, y, z = torch.nn.functional.normalize(quat_wxyz, dim=-1).unbind(-1)
    entries = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(entries, -1).unflatten(-1, (3, 3))


def quat_wxyz_from_rotation(rotation: Float[Tensor, "... 3 3"]) -> Float[Tensor, "... 4"]:
    """Unit quaternions of rotation matrices, w not negative.

    Of the four rows of the matrix 4 q qᵀ the one with the largest diagonal is taken (Shepperd 1978).

    Raises:
        TypeError: Not float32 or float64.
        ValueError: Another shape.
    """
    check_tensor("rotation", rotation, (3, 3), batched=True)
    r = rotation
    xx, yy, zz = r[..., 0, 0], r[..., 1, 1], r[..., 2, 2]
    wx, wy, wz = r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]
    xy, xz, yz = r[..., 0, 1] + r[..., 1, 0], r[..., 0, 2] + r[..., 2, 0], r[..., 1, 2] + r[..., 2, 1]
    outer = torch.stack(
        [
            torch.stack([1 + xx + yy + zz, wx, wy, wz], -1),
            torch.stack([wx, 1 + xx - yy - zz, xy, xz], -1),
            torch.stack([wy, xy, 1 - xx + yy - zz, yz], -1),
            torch.stack([wz, xz, yz, 1 - xx - yy + zz], -1),
        ],
        -2,
    )
    best = outer.diagonal(dim1=-2, dim2=-1).argmax(-1)
    row = outer.gather(-2, best[..., None, None].expand(*best.shape, 1, 4)).squeeze(-2)
    unit = torch.nn.functional.normalize(row, dim=-1)
    return torch.where(unit[..., :1] < 0, -unit, unit)


def _pose_of(R: Tensor | None, t: Tensor | None, like: Tensor | None) -> Tensor:
    """`world_from_camera` of a camera-from-world rotation and translation, either of which may be left out."""
    like = like if like is not None else R if R is not None else t
    assert like is not None
    for name, part, sizes in (("R", R, (3, 3)), ("t", t, (3,))):
        if part is not None:
            check_tensor(name, part, sizes, (like.dtype,), batched=True)
            check_same_device(**{name: part, "the others": like})
            check_finite(name, part)
    R = torch.eye(3, dtype=like.dtype, device=like.device) if R is None else R
    t = torch.zeros(3, dtype=like.dtype, device=like.device) if t is None else t
    batch = torch.broadcast_shapes(R.shape[:-2], t.shape[:-1])
    R, t = R.expand(*batch, 3, 3), t.expand(*batch, 3)
    top = torch.cat([R.mT, -R.mT @ t[..., None]], -1)
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=top.dtype, device=top.device).expand(*batch, 1, 4)
    return torch.cat([top, last], -2)
