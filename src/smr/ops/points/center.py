"""Moving and scaling clouds."""

from __future__ import annotations

import torch

from ..tensors import FLOATS, check_finite, check_tensor


def center_points(points: torch.Tensor, *, normalize: bool = False, eps: float = 1e-6) -> torch.Tensor:
    """Move the middle of each cloud's bounding box to the origin, differentiably.

    Args:
        points: (B, N, 3) or (N, 3), float16, float32 or float64.
        normalize: Scale too, so that the longest side of the box is 1.
        eps: A box whose longest side is below this is not scaled.

    Raises:
        TypeError: Not a floating tensor.
        ValueError: Another shape, no points, or a value that is not finite.
    """
    leading = (None,) * (points.dim() - 1) if isinstance(points, torch.Tensor) and points.dim() == 3 else (None,)
    check_tensor("points", points, (*leading, 3), (torch.float16, *FLOATS))
    if points.shape[-2] == 0:
        raise ValueError("points has none; a middle needs at least one")
    check_finite("points", points)
    low, high = points.amin(dim=-2, keepdim=True), points.amax(dim=-2, keepdim=True)
    centered = points - 0.5 * (low + high)
    if not normalize:
        return centered
    side = (high - low).amax(dim=-1, keepdim=True)
    return centered / torch.where(side < eps, 1, side)
