"""Operations on batches of voxel grids (B, nx, ny, nz): O(voxels) in time, a few bytes a voxel in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.ndimage import binary_fill_holes

from ..tensors import INDICES, check_finite, check_indices, check_same_device, check_tensor, check_whole

GRID_TYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64)


def check_grids(voxelgrids: torch.Tensor) -> None:
    """Raise where voxel grids have not the shape (B, nx, ny, nz), or a value is not finite."""
    check_values("voxelgrids", voxelgrids, 4)


def check_values(name: str, grids: torch.Tensor, axes: int) -> None:
    """Raise where a grid, or a batch of them, has another number of axes, or a value that is not finite."""
    check_tensor(name, grids, (None,) * axes, GRID_TYPES)
    if grids.is_floating_point():
        check_finite(name, grids)


def check_shape(name: str, shape: Sequence[int], *, least: int = 0, batch: int = 1) -> tuple[int, int, int]:
    """Three whole numbers of voxels, checked.

    Raises:
        TypeError: Not a sequence of whole numbers.
        ValueError: Not three, one below `least`, or 2^31 voxels and more in the batch.
    """
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise TypeError(f"{name} must be three whole numbers, not {shape!r}")
    if len(shape) != 3:
        raise ValueError(f"{name} must be three numbers of voxels, not {shape}")
    x, y, z = (check_whole(f"{name}[{axis}]", value, least=least) for axis, value in enumerate(shape))
    if batch * x * y * z >= 2**31:
        raise ValueError(f"{name}: {batch} grids of {(x, y, z)} voxels are 2³¹ or more; take fewer at a time")
    return x, y, z


def downsample(voxelgrids: torch.Tensor, scale: tuple[int, int, int]) -> torch.Tensor:
    """Mean over boxes of voxels; what is left over at the ends is dropped. Differentiable.

    Args:
        voxelgrids: (B, nx, ny, nz).
        scale: Voxels of a box along x, y, z.

    Returns:
        (B, nx // sx, ny // sy, nz // sz): of the same type where that is a floating-point one, else float32.

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape, or a scale below 1 or beyond the grid.
    """
    check_grids(voxelgrids)
    scale = check_shape("scale", scale)
    for axis, (size, factor) in enumerate(zip(voxelgrids.shape[1:], scale, strict=True)):
        if not 1 <= factor <= size:
            raise ValueError(f"scale[{axis}] must be from 1 to the {size} voxels of that axis, not {factor}")
    values = voxelgrids if voxelgrids.is_floating_point() else voxelgrids.float()
    if values.dtype == torch.float16 and values.device.type == "cpu":
        return torch.nn.functional.avg_pool3d(values.float()[:, None], scale, scale)[:, 0].half()
    return torch.nn.functional.avg_pool3d(values[:, None], scale, scale)[:, 0]


def extract_surface(voxelgrids: torch.Tensor, mode: str = "wide") -> torch.Tensor:
    """Filled voxels that have an empty neighbour; beyond the grid all is empty.

    Args:
        voxelgrids: (B, nx, ny, nz); filled where not zero.
        mode: `wide`: of all 26 neighbours; `thin`: of the 6 that share a side.

    Returns:
        Bool of the same shape.

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape or mode.
    """
    check_grids(voxelgrids)
    if mode not in ("wide", "thin"):
        raise ValueError(f"mode must be wide or thin, not {mode!r}")
    filled = voxelgrids != 0
    if mode == "thin":
        inner = filled.clone()
        for axis in (1, 2, 3):
            inner &= _with_both(filled, axis)
    else:
        inner = filled
        for axis in (1, 2, 3):
            inner = _with_both(inner, axis)
    return filled & ~inner


def _with_both(filled: torch.Tensor, axis: int) -> torch.Tensor:
    """Voxels that are filled as are the two beside them along an axis."""
    count = filled.shape[axis]
    result = torch.zeros_like(filled)
    if count > 2:
        before, here, after = (filled.narrow(axis, start, count - 2) for start in range(3))
        result.narrow(axis, 1, count - 2).copy_(before & here & after)
    return result


def fill(voxelgrids: torch.Tensor) -> torch.Tensor:
    """Fill the empty voxels that are not connected to the outside over sides; on the CPU, whatever the device.

    Args:
        voxelgrids: (B, nx, ny, nz); filled where not zero.

    Returns:
        Bool of the same shape, on the same device.

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape.
    """
    check_grids(voxelgrids)
    filled = (voxelgrids != 0).cpu().numpy()
    done = np.zeros_like(filled)
    for one, result in zip(filled, done, strict=True):
        binary_fill_holes(one, output=result)
    return torch.from_numpy(done).to(voxelgrids.device)


def extract_odms(voxelgrids: torch.Tensor) -> torch.Tensor:
    """Orthographic depth maps: empty voxels before the first filled one, seen along each axis from both ends.

    Args:
        voxelgrids: (B, n, n, n); filled where not zero.

    Returns:
        (B, 6, n, n) int64: along z from the end and from the start, then y, then x; n where a line of voxels is empty.

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape, or a grid that is no cube.
    """
    check_grids(voxelgrids)
    if len(set(voxelgrids.shape[1:])) != 1:
        raise ValueError(f"voxelgrids must be cubes, not {tuple(voxelgrids.shape)}")
    filled = voxelgrids != 0
    maps = []
    for axis in (3, 2, 1):
        some = filled.any(dim=axis)
        for line in (filled.flip(axis), filled):
            depth = line.to(torch.uint8).argmax(dim=axis) if line.shape[axis] else some.long()
            maps.append(torch.where(some, depth, filled.shape[axis]))
    return torch.stack(maps, dim=1)


def project_odms(odms: torch.Tensor, voxelgrids: torch.Tensor | None = None, votes: int = 1) -> torch.Tensor:
    """Carve voxel grids by depth maps: the inverse of `extract_odms` as far as it can be seen from outside.

    Args:
        odms: (B, 6, n, n) integers, in the order of `extract_odms`.
        voxelgrids: (B, n, n, n) to carve; None: full ones.
        votes: A voxel goes where at least so many maps say it is empty.

    Returns:
        Bool (B, n, n, n).

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shapes, depths outside 0..n, or no votes.
    """
    check_tensor("odms", odms, (None, 6, None, None), (*INDICES, torch.uint8, torch.int16, torch.int8))
    size = odms.shape[2]
    votes = check_whole("votes", votes, least=1)
    if odms.shape[3] != size:
        raise ValueError(f"odms must be squares, not {tuple(odms.shape)}")
    if voxelgrids is not None:
        check_grids(voxelgrids)
        if voxelgrids.shape != (len(odms), size, size, size):
            wanted = (len(odms), size, size, size)
            raise ValueError(f"voxelgrids must have the shape {wanted}, not {tuple(voxelgrids.shape)}")
        check_same_device(odms=odms, voxelgrids=voxelgrids)
    check_indices("odms", odms, size + 1, "voxels of a line and its end")
    empty = torch.zeros(len(odms), size, size, size, dtype=torch.uint8, device=odms.device)
    steps = torch.arange(size, device=odms.device)
    for number, axis in enumerate((3, 3, 2, 2, 1, 1)):
        along = steps.flip(0) if number % 2 == 0 else steps
        line = along.reshape([-1 if a == axis else 1 for a in range(4)])
        empty += (line < odms[:, number].unsqueeze(axis)).to(torch.uint8)
    kept = empty < votes
    return kept if voxelgrids is None else kept & (voxelgrids != 0)
