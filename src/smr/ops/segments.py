"""Sums over groups of rows that give the same bytes every time, forward and backward, on a CPU and on a GPU.

`index_add` and the gradient of indexing add in whatever order the threads come on a GPU. Here the rows are sorted by
their group once, with a stable sort, and each group is added up in order by one thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, no_type_check

import torch
import warp as wp

from .tensors import as_warp, launch, use_warp

_LARGEST = 2**31
"""Elements that a Warp array can have."""


@dataclass(frozen=True)
class Segments:
    """Rows grouped by an index."""

    order: torch.Tensor
    """int64, the rows sorted by group; equal groups in the order of the rows."""
    offsets: torch.Tensor
    """int64, where each group begins in `order`, and the end: count + 1 numbers."""
    index: torch.Tensor
    """int64, the group of each row."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> torch.Tensor:
        """int64, rows of each group."""
        return self.offsets.diff()


def group_rows(index: torch.Tensor, count: int) -> Segments:
    """Group rows by an index: one sort, O(N log N) time, 24 bytes a row.

    Args:
        index: N integers from 0 to count - 1 (not checked).
        count: Number of groups.
    """
    index = index.reshape(-1).long()
    grouped, order = torch.sort(index, stable=True)
    offsets = torch.searchsorted(grouped, torch.arange(count + 1, device=index.device))
    return Segments(order, offsets, index)


def segment_sum(values: torch.Tensor, segments: Segments) -> torch.Tensor:
    """Sum of each group's rows: (..., N, C) to (..., count, C), differentiable; half precision adds in single."""
    result: torch.Tensor = _SegmentSum.apply(values, segments)
    return result


def take_rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Row `index[n]` for every n: (..., V, C) to (..., N, C); its gradient is a `segment_sum`."""
    result: torch.Tensor = _TakeRows.apply(values, index)
    return result


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, segments: Segments) -> torch.Tensor:
        ctx.index = segments.index
        return _sum(values, segments)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        return take_rows(grads[0], ctx.index), None


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        ctx.index, ctx.count = index, values.shape[-2]
        return values.index_select(-2, index)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        return segment_sum(grads[0], group_rows(ctx.index, ctx.count)), None


def _sum(values: torch.Tensor, segments: Segments) -> torch.Tensor:
    wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
    rows = wide.reshape(math.prod(wide.shape[:-2]), *wide.shape[-2:])
    result = rows.new_zeros(rows.shape[0], segments.count, rows.shape[2])
    if rows.numel() and use_warp() and max(rows.numel(), result.numel()) < _LARGEST:
        inputs = [as_warp(rows.reshape(-1)), as_warp(segments.order), as_warp(segments.offsets)]
        inputs += [rows.shape[1], segments.count, rows.shape[2]]
        launch(_KERNELS[rows.dtype], result.numel(), inputs, outputs=[as_warp(result.reshape(-1))], like=rows)
    elif rows.numel():
        by_group = rows[:, segments.order].transpose(0, 1)
        result = torch.segment_reduce(by_group.contiguous(), "sum", lengths=segments.sizes, axis=0, initial=0)
        result = result.transpose(0, 1)
    return result.reshape(*values.shape[:-2], segments.count, values.shape[-1]).to(values.dtype)


@wp.kernel(enable_backward=False)
@no_type_check
def _sum_segments(
    base: int,
    rows: wp.array(dtype=Any),
    order: wp.array(dtype=wp.int64),
    offsets: wp.array(dtype=wp.int64),
    row_count: int,
    groups: int,
    channels: int,
    result: wp.array(dtype=Any),
):
    item = wp.int64(base) + wp.int64(wp.tid())
    channel = item % wp.int64(channels)
    group = (item / wp.int64(channels)) % wp.int64(groups)
    first = item / (wp.int64(channels) * wp.int64(groups)) * wp.int64(row_count)
    total = rows.dtype(0.0)
    k = offsets[group]
    while k < offsets[group + wp.int64(1)]:
        total += rows[(first + order[k]) * wp.int64(channels) + channel]
        k += wp.int64(1)
    result[item] = total


_KERNELS = {
    torch_type: wp.overload(_sum_segments, {"rows": wp.array(dtype=warp_type), "result": wp.array(dtype=warp_type)})
    for torch_type, warp_type in ((torch.float32, wp.float32), (torch.float64, wp.float64))
}
