"""Axes of cameras and worlds by name: which way x, y and z point.

A pose in one convention becomes one in another by `change_axes`, points in a camera's frame by `change_point_axes`.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ..tensors import check_tensor

Axes = Literal["opencv", "colmap", "opengl", "blender", "arkit", "kaolin", "pytorch3d", "openni"]

AXES: dict[str, tuple[float, float, float]] = {
    "opencv": (1.0, 1.0, 1.0),
    "colmap": (1.0, 1.0, 1.0),
    "opengl": (1.0, -1.0, -1.0),
    "blender": (1.0, -1.0, -1.0),
    "arkit": (1.0, -1.0, -1.0),
    "kaolin": (1.0, -1.0, -1.0),
    "pytorch3d": (-1.0, -1.0, 1.0),
    "openni": (1.0, -1.0, 1.0),
}
"""Camera axes of each convention as signs of OpenCV's (x right, y down, z forward). `openni` is left-handed."""


def change_axes(world_from_camera: Float[Tensor, "... 4 4"], source: Axes, target: Axes) -> Float[Tensor, "... 4 4"]:
    """A pose whose camera axes are those of `source`, with the camera axes of `target`.

    The world stays, except where one of the two is left-handed (`openni`): a rotation cannot mirror, so the world's y
    is mirrored too, as the capture readers do.

    Args:
        world_from_camera: Camera to world.
        source: Convention of the camera axes that it has.
        target: Convention that it shall have.

    Raises:
        TypeError: Not float32 or float64.
        ValueError: Another shape, or axes that are not known.
    """
    check_tensor("world_from_camera", world_from_camera, (4, 4), batched=True)
    signs = _signs(source, world_from_camera) * _signs(target, world_from_camera)
    turned = world_from_camera * torch.nn.functional.pad(signs, (0, 1), value=1.0)
    if not changes_handedness(source, target):
        return turned
    mirror = torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=signs.dtype, device=signs.device)
    return mirror[:, None] * turned


def change_point_axes(points: Float[Tensor, "... 3"], source: Axes, target: Axes) -> Float[Tensor, "... 3"]:
    """Points in the axes of one convention, in those of another.

    From OpenNI (x right, y up, z forward) to OpenGL (x right, y up, z backward) this negates z: the two differ in
    handedness, which no rotation changes. Faces of a mesh must be turned over where the handedness changes
    (`changes_handedness`).

    Raises:
        TypeError: Not float32 or float64.
        ValueError: Another shape, or axes that are not known.
    """
    check_tensor("points", points, (3,), batched=True)
    return points * (_signs(source, points) * _signs(target, points))


def changes_handedness(source: Axes, target: Axes) -> bool:
    """Whether one of the two conventions is left-handed and the other right-handed."""
    product = 1.0
    for name in (source, target):
        for sign in _named(name):
            product *= sign
    return product < 0


def _named(name: str) -> tuple[float, float, float]:
    if name not in AXES:
        raise ValueError(f"source and target: axes {name!r} are not known; they are one of {', '.join(AXES)}")
    return AXES[name]


def _signs(name: str, like: Tensor) -> Tensor:
    return torch.tensor(_named(name), dtype=like.dtype, device=like.device)
