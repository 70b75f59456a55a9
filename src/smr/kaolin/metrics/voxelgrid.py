"""`kaolin.metrics.voxelgrid`."""

from __future__ import annotations

import torch

__all__ = ["iou"]


def iou(pred: torch.Tensor, gt: torch.Tensor) -> torch.Tensor:
    """Intersection over union of voxels that are not zero: (B, X, Y, Z) twice to (B,); 1 where both are empty."""
    if pred.shape != gt.shape:
        raise ValueError(
            f"Expected predicted voxelgrids and ground truth of one shape, not {pred.shape} and {gt.shape}."
        )
    ours, theirs = (pred != 0).flatten(1), (gt != 0).flatten(1)
    union = (ours | theirs).sum(dim=1)
    common = (ours & theirs).sum(dim=1).float()
    return torch.where(union > 0, common / union.clamp_min(1), torch.ones_like(common))
