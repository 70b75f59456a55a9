"""Sums over the sub-tensors of a packed tensor, and their adjoint: one value repeated for each of its rows."""

from __future__ import annotations

from typing import Any

import torch


def _sum(packed: torch.Tensor, numel: torch.Tensor) -> torch.Tensor:
    numel = numel.to(packed.device, torch.int64)
    if not packed.is_floating_point():
        total = torch.nn.functional.pad(torch.cumsum(packed, dim=0, dtype=torch.int64), (1, 0))
        ends = torch.cumsum(numel, dim=0)
        return total[ends] - total[ends - numel]
    # in float64, so that a sum of a million halves is right; segments, so that it is the same each time
    return torch.segment_reduce(packed.double(), "sum", lengths=numel, unsafe=True, initial=0).to(packed.dtype)


def _tile(values: torch.Tensor, numel: torch.Tensor, total: int) -> torch.Tensor:
    return torch.repeat_interleave(values, numel.to(values.device, torch.int64), output_size=total)


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: torch.Tensor, numel: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(numel)
        ctx.total = packed.shape[0]
        return _sum(packed, numel)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _SegmentTile.apply(grads[0], *ctx.saved_tensors, ctx.total), None


class _SegmentTile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, numel: torch.Tensor, total: int) -> torch.Tensor:
        ctx.save_for_backward(numel)
        return _tile(values, numel, total)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _SegmentSum.apply(grads[0], *ctx.saved_tensors), None, None


def segment_tile(values: torch.Tensor, numel: torch.Tensor, total: int) -> torch.Tensor:
    """Each value (B,), as often as its segment has rows: (total,); deterministic in both directions."""
    return _SegmentTile.apply(values, numel, total)


def packed_simple_sum(tensor: torch.Tensor, numel_per_tensor: torch.Tensor) -> torch.Tensor:
    """Sum of each sub-tensor of a packed tensor.

    Args:
        tensor: Packed values, (N, 1); whole numbers and bools are summed as int64.
        numel_per_tensor: Rows of each sub-tensor, (B,), of sum N.

    Returns:
        (B,): the sums; zero for a sub-tensor without rows.

    Raises:
        ValueError: The shape is another, or the rows do not add up.
    """
    if tensor.dim() != 2 or tensor.shape[1] != 1:
        raise ValueError(f"tensor must have the shape (*, 1), not {tuple(tensor.shape)}")
    total = int(numel_per_tensor.sum())
    if total != tensor.shape[0]:
        raise ValueError(f"numel_per_tensor adds up to {total}, but tensor has {tensor.shape[0]} rows")
    return _SegmentSum.apply(tensor[:, 0], numel_per_tensor)


class _PackedSimpleSumCuda:
    """Kaolin's private name for the sum on a GPU; here it is the same function on every device."""

    @staticmethod
    def apply(tensor: torch.Tensor, numel_per_tensor: torch.Tensor) -> torch.Tensor:
        return packed_simple_sum(tensor, numel_per_tensor)
