"""`kaolin.ops.conversions.voxelgrid`."""

from __future__ import annotations

import torch

from ....ops import voxels as ops

__all__ = ["voxelgrids_to_cubic_meshes", "voxelgrids_to_trianglemeshes"]

Meshes = tuple[list[torch.Tensor], list[torch.Tensor]]


def voxelgrids_to_cubic_meshes(voxelgrids: torch.Tensor, is_trimesh: bool = True) -> Meshes:
    """The sides of filled voxels: (B, X, Y, Z) to lists of vertices (V, 3) and triangles (F, 3) or squares (F, 4)."""
    vertices, faces = [], []
    for grid in voxelgrids:
        corners, squares = ops.cubic_mesh(grid)
        vertices.append(corners)
        faces.append(torch.cat([squares[:, [0, 3, 1]], squares[:, [2, 1, 3]]]) if is_trimesh else squares)
    return vertices, faces


def voxelgrids_to_trianglemeshes(voxelgrids: torch.Tensor, iso_value: float = 0.5) -> Meshes:
    """Marching cubes: (B, X, Y, Z) to lists of vertices (V, 3) and faces (F, 3).

    The grid is taken to be surrounded by zeros, so the surface is closed; values above `iso_value` are inside. The
    centre of voxel (0, 0, 0) is at (1, 1, 1). Differentiable with respect to the voxels; works on the CPU too, and in
    double precision.
    """
    if voxelgrids.dim() != 4:
        raise ValueError(f"Expected voxelgrids to have 4 dimensions but got {voxelgrids.dim()} dimensions.")
    values = voxelgrids if voxelgrids.dtype in (torch.float32, torch.float64) else voxelgrids.float()
    found = [ops.marching_cubes(grid, iso_value, inside="above", outside=0.0) for grid in values]
    return [vertices + 1 for vertices, _ in found], [faces for _, faces in found]
