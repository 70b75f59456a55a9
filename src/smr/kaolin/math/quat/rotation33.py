"""Rotation matrices."""

from __future__ import annotations

import torch

from ..._devices import default_device
from .quaternion import quat_from_angle_axis, quat_unit


def is_rot33_valid(rot33: torch.Tensor, atol: float = 1e-6) -> bool:
    """Whether all matrices (..., 3, 3) are rotations: orthogonal, without a reflection.

    Args:
        rot33: Matrices.
        atol: How far the entries of R Rᵀ may be from the identity's.
    """
    identity = torch.eye(3, dtype=rot33.dtype, device=rot33.device).expand_as(rot33)
    orthogonal = torch.isclose(rot33 @ rot33.transpose(-1, -2), identity, atol=atol).all()
    return bool(orthogonal & (torch.linalg.det(rot33) > 0).all())


def rot33_identity(batch_size: int = 1, device: torch.device | str | None = None) -> torch.Tensor:
    """Identity matrices (B, 3, 3); on the GPU where there is one, unless `device` is given."""
    return torch.eye(3, device=default_device(device)).repeat(batch_size, 1, 1)


def translation_identity(batch_size: int = 1, device: torch.device | str | None = None) -> torch.Tensor:
    """Translations (B, 3) by nothing; on the GPU where there is one, unless `device` is given."""
    return torch.zeros(batch_size, 3, device=default_device(device))


def rot33_inverse(mat: torch.Tensor) -> torch.Tensor:
    """Inverse rotations: the transposed matrices."""
    return mat.transpose(-1, -2)


def rot33_rotate(point: torch.Tensor, mat: torch.Tensor) -> torch.Tensor:
    """Points (..., 3) turned by matrices (..., 3, 3)."""
    return (mat @ point.unsqueeze(-1)).squeeze(-1)


def rot33_from_quat(quat: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3) of quaternions (..., 4) of any norm but zero."""
    x, y, z, w = torch.unbind(quat_unit(quat), dim=-1)
    entries = [
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(entries, dim=-1).unflatten(-1, (3, 3))


def rot33_from_angle_axis(angle: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3) of turns by an angle (radians) about an axis; see `quat_from_angle_axis`."""
    return rot33_from_quat(quat_from_angle_axis(angle, axis))
