"""`kaolin.ops.conversions.flexicubes.flexicubes`, written from the paper (Shen et al. 2023)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from .....ops.voxels.flexicubes import CellWeights, DualSurface, cut_squares, fan_squares, flexicubes
from .tetrahedra import fill

__all__ = ["FlexiCubes"]


class FlexiCubes:
    """Extracts surfaces from scalar fields on grids, differentiable with respect to the field, the grid and weights.

    Args:
        device: Of the grids that `construct_voxel_grid` makes.
        qef_reg_scale: Weight of the regularization where `grad_func` is given.
        weight_scale: How far from one the weights may go, below one.
    """

    def __init__(self, device: str | torch.device = "cuda", qef_reg_scale: float = 1e-3, weight_scale: float = 0.99):
        self.device = device
        self.qef_reg_scale = qef_reg_scale
        self.weight_scale = weight_scale

    def construct_voxel_grid(self, resolution: int | list[int] | tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Corners (N, 3) of a grid of cells from -0.5 to 0.5, and the cells' corners (C, 8)."""
        sizes = (resolution,) * 3 if isinstance(resolution, int) else tuple(resolution)
        if len(sizes) != 3 or min(sizes) < 1:
            raise ValueError(f"resolution must be one or three positive numbers of cells, not {resolution}")
        steps = [torch.arange(n + 1, device=self.device) for n in sizes]
        grid = torch.stack(torch.meshgrid(*steps, indexing="ij"), dim=-1).reshape(-1, 3)
        counts = torch.tensor(sizes, device=self.device)
        strides = torch.tensor([(sizes[1] + 1) * (sizes[2] + 1), sizes[2] + 1, 1], device=self.device)
        first = (grid[(grid < counts).all(dim=1)] * strides).sum(dim=1)
        offsets = torch.tensor([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)], device=self.device)
        return grid / counts - 0.5, first[:, None] + (offsets * strides).sum(dim=1)

    def __call__(
        self,
        voxelgrid_vertices: torch.Tensor,
        scalar_field: torch.Tensor,
        cube_idx: torch.Tensor,
        resolution: int | list[int],
        qef_reg_scale: float | None = None,
        weight_scale: float | None = None,
        beta: torch.Tensor | None = None,
        alpha: torch.Tensor | None = None,
        gamma_f: torch.Tensor | None = None,
        training: bool = False,
        output_tetmesh: bool = False,
        grad_func: Callable[[torch.Tensor], torch.Tensor] | None = None,
        voxelgrid_features: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Extract the surface `scalar_field == 0`.

        Args:
            voxelgrid_vertices: (N, 3).
            scalar_field: (N,); below zero is inside.
            cube_idx: (C, 8).
            resolution: Not used: the cells say how they lie.
            qef_reg_scale: Instead of the object's.
            weight_scale: Instead of the object's.
            beta: (C, 12), any numbers, for edges: four along x, four along y, four along z.
            alpha: (C, 8), any numbers, for corners.
            gamma_f: (C,), any numbers, for cells.
            training: Cut squares into four triangles, smoothly, instead of two.
            output_tetmesh: Fill the surface with tetrahedra.
            grad_func: Gives gradients (P, 3) of the field at positions (P, 3), to keep sharp edges.
            voxelgrid_features: (N, F), interpolated at the vertices.

        Returns:
            Vertices (V, 3), faces (F, 3) or tetrahedra (T, 4), the regularization loss of each vertex in a cell (D,)
            and, if given, features (V, F).
        """
        scale = self.weight_scale if weight_scale is None else weight_scale
        weights = CellWeights(
            None if alpha is None else torch.tanh(alpha) * scale + 1,
            None if beta is None else torch.tanh(beta) * scale + 1,
            None if gamma_f is None else torch.sigmoid(gamma_f) * scale + (1 - scale) / 2,
        )
        surface = flexicubes(
            voxelgrid_vertices, scalar_field, cube_idx, weights, features=voxelgrid_features, gradients=grad_func,
            regularization=self.qef_reg_scale if qef_reg_scale is None else qef_reg_scale,
        )  # fmt: skip
        vertices, features, faces = _triangles(surface, training)
        if output_tetmesh:
            per_square = 4 if training else 2
            inputs = (voxelgrid_vertices, scalar_field, cube_idx)
            vertices, faces, features = fill(surface, vertices, faces, per_square, inputs, features, voxelgrid_features)
        result = (vertices, faces, surface.deviations)
        return result if features is None else (*result, features)


def _triangles(surface: DualSurface, training: bool) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    if not training:
        return surface.vertices, surface.features, cut_squares(surface)
    vertices, faces = fan_squares(surface, surface.vertices)
    surface = dataclasses.replace(surface, vertices=vertices)
    features = None if surface.features is None else fan_squares(surface, surface.features)[0]
    return vertices, features, faces
