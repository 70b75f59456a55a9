"""What the conversions of rotations share."""

from __future__ import annotations

import torch


def vector_normalize(vec: torch.Tensor) -> torch.Tensor:
    """Vectors (..., D) of length one; a vector of length zero stays zero, with a gradient of zero."""
    squared = (vec * vec).sum(dim=-1, keepdim=True)
    is_zero = squared == 0
    return torch.where(is_zero, torch.zeros_like(vec), vec / torch.sqrt(torch.where(is_zero, 1, squared)))


def pad_mat33_to_mat44(mat33: torch.Tensor) -> torch.Tensor:
    """Transforms (..., 4, 4) that apply matrices (..., 3, 3) and move nothing."""
    padded = torch.nn.functional.pad(mat33, (0, 1, 0, 1))
    corner = torch.zeros(4, 4, dtype=mat33.dtype, device=mat33.device)
    corner[3, 3] = 1
    return padded + corner
