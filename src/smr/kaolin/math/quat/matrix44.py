"""Homogeneous 4x4 matrices of one kind of motion each."""

from __future__ import annotations

import torch

from .rotation33 import rot33_from_quat
from .util import pad_mat33_to_mat44


def rot44_from_quat(quat: torch.Tensor) -> torch.Tensor:
    """Transforms (..., 4, 4) that turn by quaternions (..., 4)."""
    return pad_mat33_to_mat44(rot33_from_quat(quat))


def translation_to_mat44(vec: torch.Tensor) -> torch.Tensor:
    """Transforms (..., 4, 4) that move by vectors (..., 3); a fourth component is ignored."""
    moved = torch.nn.functional.pad(vec[..., :3].unsqueeze(-1), (3, 0, 0, 1))
    return moved + torch.eye(4, dtype=vec.dtype, device=vec.device)


def scale_to_mat44(scale: torch.Tensor) -> torch.Tensor:
    """Transforms (..., 4, 4) that scale each axis by (..., 3); a fourth component is ignored."""
    return pad_mat33_to_mat44(torch.diag_embed(scale[..., :3]))
