"""`kaolin.ops.voxelgrid`."""

from __future__ import annotations

import torch

from ...ops import voxels as ops

__all__ = ["downsample", "extract_odms", "extract_surface", "fill", "project_odms"]


def _check_dims(voxelgrids: torch.Tensor) -> None:
    if voxelgrids.dim() != 4:
        raise ValueError(f"Expected voxelgrids to have 4 dimensions but got {voxelgrids.dim()} dimensions.")


def downsample(voxelgrids: torch.Tensor, scale: int | list[int]) -> torch.Tensor:
    """Mean over boxes of voxels: (B, X, Y, Z) to (B, X // sx, Y // sy, Z // sz); booleans give half on a GPU."""
    _check_dims(voxelgrids)
    if isinstance(scale, int):
        scale = [scale] * 3
    if not isinstance(scale, list | tuple):
        raise TypeError(f"Expected scale to be type list or int but got {type(scale)}.")
    if len(scale) != 3:
        raise ValueError(f"Expected scale to have 3 dimensions but got {len(scale)} dimensions.")
    for i, (factor, size) in enumerate(zip(scale, voxelgrids.shape[1:], strict=True)):
        if factor < 1:
            raise ValueError(
                f"Downsample ratio must be at least 1 along every dimension but got {factor} at index {i}."
            )
        if factor > size:
            raise ValueError(
                f"Downsample ratio must be less than voxelgrids shape of {size} at index {i}, but got {factor}."
            )
    result = ops.downsample(voxelgrids, (scale[0], scale[1], scale[2]))
    return result.half() if voxelgrids.dtype == torch.bool and voxelgrids.is_cuda else result


def extract_surface(voxelgrids: torch.Tensor, mode: str = "wide") -> torch.Tensor:
    """Filled voxels beside an empty one, of 26 neighbours (`wide`) or 6 (`thin`): bool (B, X, Y, Z)."""
    _check_dims(voxelgrids)
    if mode not in ("wide", "thin"):
        raise ValueError(f'mode "{mode}" is not supported.')
    return ops.extract_surface(voxelgrids, mode)


def fill(voxelgrids: torch.Tensor) -> torch.Tensor:
    """Fill holes: bool (B, X, Y, Z). Works for tensors on a GPU too, by way of the CPU."""
    _check_dims(voxelgrids)
    return ops.fill(voxelgrids)


def extract_odms(voxelgrids: torch.Tensor) -> torch.Tensor:
    """Orthographic depth maps: (B, N, N, N) to (B, 6, N, N) long."""
    _check_dims(voxelgrids)
    return ops.extract_odms(voxelgrids)


def project_odms(odms: torch.Tensor, voxelgrids: torch.Tensor | None = None, votes: int = 1) -> torch.Tensor:
    """Carve voxel grids by orthographic depth maps: (B, 6, N, N) to bool (B, N, N, N)."""
    if voxelgrids is not None:
        _check_dims(voxelgrids)
        for what, i, ours, theirs in (("batch", 0, len(odms), len(voxelgrids)), ("dimension", 1, 0, 0)):
            ours, theirs = (ours, theirs) if i == 0 else (odms.shape[2], voxelgrids.shape[1])
            if ours != theirs:
                raise ValueError(
                    f"Expected voxelgrids and odms' {what} size to be the same, "
                    f"but got {ours} for odms and {theirs} for voxelgrid."
                )
    return ops.project_odms(odms, voxelgrids, votes)
