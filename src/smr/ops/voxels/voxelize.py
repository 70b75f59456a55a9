"""Voxels that a mesh touches, or fills, exactly: no sampling, nothing is missed.

Time O(F + candidate voxels): each triangle looks at the columns along its steepest axis below its bounding box, a few
voxels in each. Memory besides the result: 16 bytes a face; solids also 4 bytes a voxel.
"""

from __future__ import annotations

import math

import torch
import warp as wp

from ..launches import Launcher
from ..mesh.faces import check_mesh, index_vertices_by_faces
from ..tensors import launch, use_warp
from . import voxelize_kernels, voxelize_torch
from .grids import check_shape

_ITEMS = 1 << 18
"""Work items on a GPU, each of which takes every so manieth row."""
_LARGEST = 2**31
_FAR = 2.0**30
_CROSS = Launcher(voxelize_kernels.cross, disjoint=False)


def voxelize_surface(vertices: torch.Tensor, faces: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    """Voxels that hold a point of a triangle.

    Voxel `(i, j, k)` holds the points from `(i, j, k) - 0.5`, exclusive, to `(i, j, k) + 0.5`, inclusive: each point of
    space lies in one voxel, and a plane between two layers of voxels marks one of them. Parts outside the grid are left
    out.

    Args:
        vertices: (..., V, 3), in units of voxels: voxel `(i, j, k)` has its centre at `(i, j, k)`.
        faces: (F, 3).
        shape: Voxels along x, y, z.

    Returns:
        Bool (..., nx, ny, nz).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite, 2³¹ voxels and more.
    """
    corners = _corners(vertices, faces, shape)
    grid = torch.zeros(len(corners), *shape, dtype=torch.bool, device=vertices.device)
    if corners.numel() and grid.numel():
        if use_warp():
            _mark(corners, grid)
        else:
            voxelize_torch.mark(corners, grid)
    return grid.reshape(*vertices.shape[:-2], *shape)


def voxelize_solid(vertices: torch.Tensor, faces: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    """Voxels whose centre lies inside a closed mesh (its winding number there is above zero).

    A centre exactly on the surface lies inside on one side of a body and outside on the other, so that bodies that
    touch share no voxel. `voxelize_surface(...) | voxelize_solid(...)` is all that the body touches.

    Args:
        vertices: (..., V, 3), in units of voxels: voxel `(i, j, k)` has its centre at `(i, j, k)`.
        faces: (F, 3), counter-clockwise seen from outside.
        shape: Voxels along x, y, z.

    Returns:
        Bool (..., nx, ny, nz).

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a coordinate that is not finite, 2³¹ voxels and more, or a mesh
            that is not closed.
    """
    corners = _corners(vertices, faces, shape)
    steps = torch.zeros(len(corners), shape[0], shape[1], shape[2] + 1, dtype=torch.int32, device=vertices.device)
    if corners.numel() and steps.numel():
        if use_warp():
            _cross(corners, steps)
        else:
            voxelize_torch.cross(corners, steps)
    numbers = steps.cumsum(dim=3, dtype=torch.int32)
    open_columns = (numbers[..., -1] != 0).nonzero()
    if len(open_columns):
        b, i, j = open_columns[0].tolist()
        raise ValueError(
            f"the mesh{f' {b}' if len(corners) > 1 else ''} is not closed: along z at x = {i}, y = {j} its surface is "
            "entered and not left; close its holes (fill_holes) or take a winding number test (check_sign)"
        )
    return (numbers[..., :-1] > 0).reshape(*vertices.shape[:-2], *shape)


def _corners(vertices: torch.Tensor, faces: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    """Corners of the faces, (B, F, 3, 3) in double precision, checked."""
    check_mesh(vertices, faces, finite=True)
    shape = check_shape("shape", shape)
    corners = (
        index_vertices_by_faces(vertices.detach(), faces)
        .double()
        .reshape(math.prod(vertices.shape[:-2]), len(faces), 3, 3)
    )
    if len(corners) * shape[0] * shape[1] * (shape[2] + 1) >= _LARGEST or corners.numel() >= _LARGEST:
        raise ValueError(f"shape: {len(corners)} grids of {shape} voxels are 2³¹ or more; take fewer at a time")
    return corners.clamp(-_FAR, _FAR)


def _rows(corners: torch.Tensor, shape: wp.vec3i, solid: bool) -> tuple[list[object], torch.Tensor]:
    """The corners and where each face's rows end, for the kernels that walk over the rows; and those ends."""
    triangles = corners.shape[0] * corners.shape[1]
    counts = torch.empty(triangles, dtype=torch.int32, device=corners.device)
    launch(voxelize_kernels.count_rows, triangles, [corners, shape, solid], outputs=[counts], like=corners)
    ends = counts.cumsum(0)
    return [corners, ends, corners.shape[1], shape], ends


def _items(corners: torch.Tensor, ends: torch.Tensor) -> int:
    """How many items share the rows: all of them on a CPU; a GPU does not wait to know their number."""
    return int(ends[-1]) if corners.device.type == "cpu" else _ITEMS


def _mark(corners: torch.Tensor, grid: torch.Tensor) -> None:
    shape = wp.vec3i(*grid.shape[1:])
    inputs, ends = _rows(corners, shape, False)
    items = _items(corners, ends)
    # several items may set the same voxel: all to the same value, so the order does not matter
    launch(voxelize_kernels.mark, items, [*inputs, items], outputs=[grid], like=corners)


def _cross(corners: torch.Tensor, steps: torch.Tensor) -> None:
    shape = wp.vec3i(steps.shape[1], steps.shape[2], steps.shape[3] - 1)
    inputs, ends = _rows(corners, shape, True)
    items = _items(corners, ends)
    _CROSS(items, *inputs, items, steps, like=corners)
