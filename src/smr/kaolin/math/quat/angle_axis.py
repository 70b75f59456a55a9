"""Rotations as an angle and an axis."""

from __future__ import annotations

import torch

from .quaternion import quat_from_rot33, quat_positive
from .util import vector_normalize


def angle_axis_from_quat(quat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Angles (..., 1) in radians, from 0 to pi, and unit axes (..., 3) of quaternions (..., 4).

    A rotation that changes nothing has no axis; it gets x.
    """
    quat = quat_positive(quat)
    imaginary = quat[..., :3]
    squared = (imaginary * imaginary).sum(dim=-1, keepdim=True)
    is_zero = squared == 0
    length = torch.where(is_zero, 0, torch.sqrt(torch.where(is_zero, 1, squared)))
    angle = 2 * torch.atan2(length, quat[..., 3:])
    x = torch.zeros_like(imaginary)
    x[..., 0] = 1
    return angle, torch.where(is_zero, x, vector_normalize(imaginary))


def angle_axis_from_rot33(mat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Angles (..., 1) in radians, from 0 to pi, and unit axes (..., 3) of rotation matrices (..., 3, 3)."""
    return angle_axis_from_quat(quat_from_rot33(mat))
