"""`kaolin.ops.conversions.sdf`: functions to voxel grids."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....ops.mesh.sdf import refine_occupancy

__all__ = ["sdf_to_voxelgrids"]


def sdf_to_voxelgrids(
    sdf: list[Callable[[torch.Tensor], torch.Tensor]],
    bbox_center: float = 0.0,
    bbox_dim: float = 1.0,
    init_res: int = 32,
    upsampling_steps: int = 0,
) -> torch.Tensor:
    """Where functions are at most 0, on a grid with R = init_res * 2^upsampling_steps + 1 points along each axis.

    The grid is refined only around changes (Mescheder et al. 2019), so each function sees few of the R³ points.

    Args:
        sdf: Functions from points (N, 3) to (N,).
        bbox_center: Middle of the grid along every axis.
        bbox_dim: Side of the grid.
        init_res: Cells along an axis of the first grid.
        upsampling_steps: How often the spacing is halved.

    Returns:
        (len(sdf), R, R, R) float32: 1 where a function is at most 0.
    """
    if not isinstance(sdf, list):
        raise TypeError(f"Expected sdf to be list but got {type(sdf)}.")
    for i, function in enumerate(sdf):
        if not callable(function):
            raise TypeError(f"Expected sdf[{i}] to be callable but got {type(function)}.")
    for name, value, kinds, what in (
        ("bbox_center", bbox_center, (int, float), "int or float"),
        ("bbox_dim", bbox_dim, (int, float), "int or float"),
        ("init_res", init_res, (int,), "int"),
        ("upsampling_steps", upsampling_steps, (int,), "int"),
    ):
        if not isinstance(value, kinds):
            raise TypeError(f"Expected {name} to be {what} but got {type(value)}.")
    cells = init_res * 2**upsampling_steps

    def grid(function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        def inside(places: torch.Tensor) -> torch.Tensor:
            points = (places.float() / cells - 0.5) * bbox_dim + bbox_center
            return function(points).reshape(-1) <= 0

        return refine_occupancy(inside, init_res, upsampling_steps).float()

    return torch.stack([grid(function) for function in sdf])
