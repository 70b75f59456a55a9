"""Rigid motions as homogeneous 4x4 matrices."""

from __future__ import annotations

import torch

from ..._devices import default_device
from .matrix44 import rot44_from_quat, translation_to_mat44
from .rotation33 import is_rot33_valid
from .util import pad_mat33_to_mat44


def euclidean_identity(batch_size: int, device: torch.device | str | None = None) -> torch.Tensor:
    """Identity matrices (B, 4, 4); on the GPU where there is one, unless `device` is given."""
    return torch.eye(4, device=default_device(device)).repeat(batch_size, 1, 1)


def euclidean_from_rotation_translation(r: torch.Tensor | None = None, t: torch.Tensor | None = None) -> torch.Tensor:
    """Transforms (..., 4, 4) that turn and then move.

    Args:
        r: Quaternions (..., 4) or rotation matrices (..., 3, 3); None turns nothing.
        t: Translations (..., 3); None moves nothing.

    Raises:
        ValueError: Neither is given.
    """
    if r is None:
        if t is None:
            raise ValueError("give a rotation, a translation or both")
        return translation_to_mat44(t)
    turned = pad_mat33_to_mat44(r) if r.shape[-1] == 3 else rot44_from_quat(r)
    return turned if t is None else translation_to_mat44(t.to(turned)) @ turned


def euclidean_rotation_matrix(x: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (..., 3, 3) of transforms (..., 4, 4)."""
    return x[..., :3, :3]


def euclidean_translation_vector(x: torch.Tensor) -> torch.Tensor:
    """Translations (..., 3) of transforms (..., 4, 4)."""
    return x[..., :3, 3]


def is_euclidean_valid(x: torch.Tensor, throw: bool = False) -> bool:
    """Whether all matrices (..., 4, 4) are rigid motions.

    Args:
        x: Matrices.
        throw: Raise instead of returning False.

    Raises:
        ValueError: One is not, and `throw` is set.
    """
    fault = None
    if x.shape[-2:] != (4, 4):
        fault = f"the shape must end in (4, 4), not {tuple(x.shape)}"
    elif not torch.equal(x[..., 3, :], x.new_tensor([0, 0, 0, 1]).expand_as(x[..., 3, :])):
        fault = "the last row must be 0 0 0 1"
    elif not is_rot33_valid(euclidean_rotation_matrix(x)):
        fault = "the upper left 3x3 must be a rotation"
    if fault and throw:
        raise ValueError(f"not a rigid motion: {fault}")
    return fault is None


def euclidean_inverse(x: torch.Tensor) -> torch.Tensor:
    """Inverse motions (..., 4, 4)."""
    rotation = euclidean_rotation_matrix(x).transpose(-1, -2)
    translation = -(rotation @ x[..., :3, 3:]).squeeze(-1)
    return euclidean_from_rotation_translation(rotation, translation)
