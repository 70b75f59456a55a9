"""Rigid motions as seven numbers: a quaternion x y z w and a translation."""

from __future__ import annotations

import torch

from ..._devices import default_device
from .euclidean import euclidean_rotation_matrix, euclidean_translation_vector
from .quaternion import quat_conjugate, quat_from_rot33, quat_identity, quat_mul, quat_rotate, quat_unit_positive


def transform_from_rotation_translation(
    rotation: torch.Tensor | None = None, translation: torch.Tensor | None = None
) -> torch.Tensor:
    """Transforms (..., 7) that turn and then move.

    Args:
        rotation: Quaternions (..., 4); None turns nothing.
        translation: (..., 3); None moves nothing.

    Raises:
        ValueError: Neither is given.
    """
    if rotation is None and translation is None:
        raise ValueError("give a rotation, a translation or both")
    if rotation is None:
        assert translation is not None
        rotation = quat_identity(list(translation.shape[:-1]), device=translation.device).to(translation.dtype)
    if translation is None:
        translation = torch.zeros_like(rotation[..., :3])
    return torch.cat([rotation, translation], dim=-1)


def transform_from_euclidean(euclidean: torch.Tensor) -> torch.Tensor:
    """Transforms (..., 7) of rigid 4x4 matrices (..., 4, 4)."""
    rotation = quat_from_rot33(euclidean_rotation_matrix(euclidean))
    return torch.cat([rotation, euclidean_translation_vector(euclidean)], dim=-1)


def transform_identity(shape: list[int], device: torch.device | str | None = None) -> torch.Tensor:
    """Transforms (*shape, 7) that change nothing; on the GPU where there is one, unless `device` is given."""
    return transform_from_rotation_translation(quat_identity(shape, device=default_device(device)))


def transform_rotation(x: torch.Tensor) -> torch.Tensor:
    """Quaternions (..., 4) of transforms (..., 7)."""
    return x[..., :4]


def transform_translation(x: torch.Tensor) -> torch.Tensor:
    """Translations (..., 3) of transforms (..., 7)."""
    return x[..., 4:]


def transform_inverse(x: torch.Tensor) -> torch.Tensor:
    """Inverse motions (..., 7) of transforms whose quaternions have norm one."""
    inverse = quat_conjugate(transform_rotation(x))
    return torch.cat([inverse, -quat_rotate(inverse, transform_translation(x))], dim=-1)


def transform_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The motion y, then x; its quaternion has norm one and a real part that is not negative."""
    rotation = quat_unit_positive(quat_mul(transform_rotation(x), transform_rotation(y)))
    return torch.cat([rotation, transform_apply(x, transform_translation(y))], dim=-1)


def transform_apply(transform: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    """Points (..., 3) turned and moved by transforms (..., 7)."""
    return quat_rotate(transform_rotation(transform), point) + transform_translation(transform)
