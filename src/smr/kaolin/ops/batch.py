"""Batches of tensors of different sizes: as a list, padded to one size, or packed one after the other.

`shape_per_tensor` is (B, D) int64: each tensor's sizes without the last one. `first_idx` is (B + 1,): where each
tensor's rows begin in a packed tensor, and where the last ones end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .reduction import segment_tile


def get_shape_per_tensor(tensor_list: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sizes (B, D) of a list's tensors, without their last one.

    Raises:
        ValueError: The tensors have different numbers of dimensions.
    """
    dims = tensor_list[0].dim()
    for i, tensor in enumerate(tensor_list):
        if tensor.dim() != dims:
            raise ValueError(f"Expected all tensors to have {dims} dimensions but got {tensor.dim()} at index {i}")
    return torch.tensor([tensor.shape[:-1] for tensor in tensor_list], dtype=torch.int64).reshape(-1, dims - 1)


def fill_max_shape(
    shape_per_tensor: torch.Tensor, partial_max_shape: Sequence[int] | torch.Tensor | None = None
) -> torch.Tensor:
    """The sizes (D,) that hold every tensor; `partial_max_shape` overrules them where it is not -1."""
    largest = shape_per_tensor.max(dim=0).values
    if partial_max_shape is None:
        return largest
    partial = torch.as_tensor(partial_max_shape, dtype=largest.dtype, device=largest.device)
    return torch.where(partial == -1, largest, partial)


def get_first_idx(numel_per_tensor: torch.Tensor) -> torch.Tensor:
    """Where each sub-tensor begins in the packed tensor, and where the last one ends: (B + 1,) int64."""
    return torch.nn.functional.pad(torch.cumsum(numel_per_tensor, dim=0, dtype=torch.int64), (1, 0))


def tile_to_packed(values: torch.Tensor, numel_per_tensor: torch.Tensor) -> torch.Tensor:
    """Each value, once for every row of its sub-tensor: (N, 1).

    Args:
        values: One value a sub-tensor, (B,).
        numel_per_tensor: Rows of each sub-tensor, (B,).

    Raises:
        ValueError: The two have different lengths.
    """
    if values.shape != numel_per_tensor.shape or values.dim() != 1:
        raise ValueError(
            f"values and numel_per_tensor must have one shape (B,), not {tuple(values.shape)} and "
            f"{tuple(numel_per_tensor.shape)}"
        )
    return segment_tile(values, numel_per_tensor, int(numel_per_tensor.sum())).unsqueeze(-1)


class _TileToPackedCuda:
    """Kaolin's private name for the tiling on a GPU; here it is the same function on every device."""

    @staticmethod
    def apply(values: torch.Tensor, numel_per_tensor: torch.Tensor, total_numel: torch.Tensor | int) -> torch.Tensor:
        return segment_tile(values, numel_per_tensor, int(total_numel)).unsqueeze(-1)


def _check_list(tensor_list: Sequence[torch.Tensor]) -> None:
    first = tensor_list[0]
    for i, tensor in enumerate(tensor_list):
        if tensor.type() != first.type():
            raise ValueError(f"Expected all tensor to have type {first.type()} but got {tensor.type()} at index {i}")
        if tensor.shape[-1] != first.shape[-1]:
            raise ValueError(
                f"Expected all tensor to have last dimension {first.shape[-1]} but got {tensor.shape[-1]} at index {i}"
            )


def list_to_packed(tensor_list: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pack tensors (..., C) of different sizes: the rows (N, C) of all, one after the other, and `shape_per_tensor`.

    Raises:
        ValueError: Types, devices, last sizes or numbers of dimensions differ.
    """
    _check_list(tensor_list)
    shape_per_tensor = get_shape_per_tensor(tensor_list)
    last = tensor_list[0].shape[-1]
    return torch.cat([tensor.reshape(-1, last) for tensor in tensor_list], dim=0), shape_per_tensor


def packed_to_list(
    packed_tensor: torch.Tensor, shape_per_tensor: torch.Tensor, first_idx: torch.Tensor
) -> list[torch.Tensor]:
    """The tensors of a packed one, as views.

    Args:
        packed_tensor: Rows (N, C).
        shape_per_tensor: Sizes (B, D).
        first_idx: First rows (B + 1,).
    """
    first = first_idx.tolist()
    return [
        packed_tensor[start:end].reshape(*shape, packed_tensor.shape[-1])
        for start, end, shape in zip(first[:-1], first[1:], shape_per_tensor.tolist(), strict=True)
    ]


def _padded_rows(shape_per_tensor: torch.Tensor, max_shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """For each packed row its row in the padded tensor flattened to (B * max_shape, C)."""
    numel = shape_per_tensor.prod(dim=1)
    total = int(numel.sum())
    shapes, numel = shape_per_tensor.to(device), numel.to(device)
    first, cells = torch.cumsum(numel, dim=0) - numel, math.prod(max_shape)
    count = torch.arange(total, device=device)
    if len(max_shape) == 1:
        moved = torch.arange(len(numel), device=device) * cells - first
        return count + torch.repeat_interleave(moved, numel, output_size=total)
    owner = torch.repeat_interleave(numel, output_size=total)
    rest, row, stride = count - first[owner], owner * cells, 1
    for axis in range(len(max_shape) - 1, 0, -1):
        size = shapes[:, axis][owner]
        above = rest // size
        row += (rest - above * size) * stride
        rest, stride = above, stride * max_shape[axis]
    return row + rest * stride


def _check_max_shape(shape_per_tensor: torch.Tensor, max_shape: Sequence[int]) -> None:
    limit = torch.tensor(max_shape, device=shape_per_tensor.device)
    if shape_per_tensor.shape[1] != len(max_shape) or bool((shape_per_tensor > limit).any()):
        raise ValueError(f"max_shape {tuple(max_shape)} does not hold tensors of {shape_per_tensor.tolist()}")


def list_to_padded(
    tensor_list: Sequence[torch.Tensor],
    padding_value: int | float,
    max_shape: Sequence[int] | torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad tensors (..., C) of different sizes to one: (B, *max_shape, C), and `shape_per_tensor`.

    Args:
        tensor_list: The tensors.
        padding_value: What fills the rest.
        max_shape: Sizes to pad to; -1 takes the largest tensor's, None all of them.

    Raises:
        ValueError: Types, devices, last sizes or numbers of dimensions differ, or one is larger than `max_shape`.
    """
    packed, shape_per_tensor = list_to_packed(tensor_list)
    first_idx = get_first_idx(shape_per_tensor.prod(dim=1))
    return packed_to_padded(packed, shape_per_tensor, first_idx, padding_value, max_shape), shape_per_tensor


def padded_to_list(padded_tensor: torch.Tensor, shape_per_tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors of a padded one (B, *max_shape, C) without the padding, as views."""
    shapes = shape_per_tensor.tolist()
    return [tensor[tuple(slice(size) for size in shape)] for tensor, shape in zip(padded_tensor, shapes, strict=True)]


def packed_to_padded(
    packed_tensor: torch.Tensor,
    shape_per_tensor: torch.Tensor,
    first_idx: torch.Tensor,
    padding_value: int | float,
    max_shape: Sequence[int] | torch.Tensor | None = None,
) -> torch.Tensor:
    """A packed tensor as a padded one, (B, *max_shape, C).

    Args:
        packed_tensor: Rows (N, C).
        shape_per_tensor: Sizes (B, D).
        first_idx: First rows (B + 1,).
        padding_value: What fills the rest.
        max_shape: Sizes to pad to; -1 takes the largest tensor's, None all of them.

    Raises:
        ValueError: The sizes do not add up to the rows, or one is larger than `max_shape`.
    """
    numel = shape_per_tensor.prod(dim=1)
    if not torch.equal(get_first_idx(numel), first_idx.to(numel.device)) or int(first_idx[-1]) != len(packed_tensor):
        raise ValueError(
            f"shape_per_tensor, first_idx and the {len(packed_tensor)} rows of packed_tensor do not agree: the tensors "
            f"have {numel.tolist()} rows, and begin at {first_idx.tolist()}"
        )
    sizes = fill_max_shape(shape_per_tensor, max_shape).tolist()
    _check_max_shape(shape_per_tensor, sizes)
    last = packed_tensor.shape[-1]
    cells = len(shape_per_tensor) * math.prod(sizes)
    padded = packed_tensor.new_full((cells, last), padding_value)
    rows = _padded_rows(shape_per_tensor, sizes, packed_tensor.device)
    return padded.index_put((rows,), packed_tensor).reshape(len(shape_per_tensor), *sizes, last)


def padded_to_packed(padded_tensor: torch.Tensor, shape_per_tensor: torch.Tensor) -> torch.Tensor:
    """A padded tensor (B, *max_shape, C) as a packed one, (N, C).

    Raises:
        ValueError: A tensor's sizes are larger than the padded ones.
    """
    max_shape = padded_tensor.shape[1:-1]
    _check_max_shape(shape_per_tensor, max_shape)
    rows = _padded_rows(shape_per_tensor, max_shape, padded_tensor.device)
    return padded_tensor.reshape(-1, padded_tensor.shape[-1])[rows]
