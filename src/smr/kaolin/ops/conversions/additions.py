"""Names that tutorials use under `kaolin.ops.conversions` and that Kaolin itself does not have."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from ....ops import mesh as mesh_ops
from ....ops import voxels as ops

__all__ = ["pointcloud_to_voxelgrid", "voxelgrid_to_mesh"]

log = logging.getLogger(__name__)


def pointcloud_to_voxelgrid(
    points: torch.Tensor,
    voxel_size: float | None = None,
    grid_shape: int | Sequence[int] = 256,
    origin: torch.Tensor | None = None,
) -> torch.Tensor:
    """Voxels that hold a point: (B, N, 3) to float32 (B, X, Y, Z), 1 where there is one.

    Points beside the grid are left out, with a warning in the log.

    Args:
        points: Positions.
        voxel_size: Side of a voxel; None: so that each cloud just fits into the grid.
        grid_shape: Voxels along x, y, z.
        origin: (3,) or (B, 3), the outer corner of voxel (0, 0, 0); None: the least coordinates of each cloud.
    """
    shape = (grid_shape,) * 3 if isinstance(grid_shape, int) else tuple(int(n) for n in grid_shape)
    if len(shape) != 3 or min(shape) < 1:
        raise ValueError(f"grid_shape must be three positive numbers of voxels, not {grid_shape}")
    if voxel_size is not None and not voxel_size > 0:
        raise ValueError(f"voxel_size must be positive, not {voxel_size}")
    if points.dim() != 3 or points.shape[2] != 3:
        raise ValueError(f"points must have the shape (B, N, 3), not {tuple(points.shape)}")
    if not points.shape[1]:
        return torch.zeros(len(points), *shape, device=points.device)
    first = points.amin(dim=1) if origin is None else origin.to(points).expand(len(points), 3)
    moved = points - first[:, None]
    size = torch.tensor(shape, device=points.device)
    if voxel_size is None:
        sides = moved.amax(dim=1) / size
        side = sides.amax(dim=1)[:, None, None]
        places = torch.minimum(moved / torch.where(side > 0, side, torch.ones_like(side)), size - 0.5)
    else:
        places = moved / voxel_size
    beside = int(((places < 0) | (places >= size)).any(dim=2).sum())
    if beside:
        log.warning(
            "%d of %d points lie beside the grid of %s voxels; choose a larger voxel_size or grid_shape",
            beside,
            places.shape[0] * places.shape[1],
            "×".join(map(str, shape)),
        )
    return ops.voxelize_points(torch.floor(places), (shape[0], shape[1], shape[2])).float()


def voxelgrid_to_mesh(
    voxelgrid: torch.Tensor, iso_value: float = 0.5, smooth: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Marching cubes of one grid (X, Y, Z), as `voxelgrids_to_trianglemeshes`: vertices (V, 3) and faces (F, 3).

    Args:
        voxelgrid: Values above `iso_value` are inside.
        iso_value: The level.
        smooth: Smooth the steps without shrinking the shape (Taubin 1995).
    """
    grid = voxelgrid[0] if voxelgrid.dim() == 4 and len(voxelgrid) == 1 else voxelgrid
    if grid.dim() != 3:
        raise ValueError(f"voxelgrid must have the shape (X, Y, Z), not {tuple(voxelgrid.shape)}")
    values = grid if grid.dtype in (torch.float32, torch.float64) else grid.float()
    vertices, faces = ops.marching_cubes(values, iso_value, inside="above", outside=0.0)
    if smooth and len(faces):
        vertices = mesh_ops.taubin_smooth(vertices, faces)
    return vertices + 1, faces
