"""`kaolin.metrics.render`."""

from __future__ import annotations

import torch

__all__ = ["mask_iou"]


def mask_iou(lhs_mask: torch.Tensor, rhs_mask: torch.Tensor) -> torch.Tensor:
    """One minus the mean over the batch of intersection over union of soft masks (B, H, W): a loss, a scalar."""
    if lhs_mask.shape != rhs_mask.shape or lhs_mask.dim() != 3:
        raise ValueError(
            f"expected two masks of one shape (B, H, W), not {tuple(lhs_mask.shape)}, {tuple(rhs_mask.shape)}"
        )
    common = lhs_mask * rhs_mask
    union = (lhs_mask + rhs_mask - common).sum(dim=(1, 2))
    one = torch.ones_like(union)  # two empty masks are the same
    shares = torch.where(union > 0, common.sum(dim=(1, 2)) / torch.where(union > 0, union, one), one)
    return 1 - shares.mean()
