"""Tetrahedra inside the surface of `FlexiCubes`."""

from __future__ import annotations

import torch

from .....ops.segments import take_rows
from .....ops.voxels.dual_tables import EDGES
from .....ops.voxels.flexicubes import DualSurface

Grid = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Corners, values, cells."""


def fill(
    surface: DualSurface,
    vertices: torch.Tensor,
    faces: torch.Tensor,
    per_square: int,
    grid: Grid,
    features: torch.Tensor | None,
    grid_features: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Join each triangle to the inner end of its edge, and the cells around each inner edge to that edge.

    Args:
        surface: The squares.
        vertices: (V, 3), of the triangles.
        faces: (F, 3), `per_square` for each square.
        per_square: Triangles of a square.
        grid: Of the surface.
        features: (V, F), of the vertices.
        grid_features: (N, F).

    Returns:
        Vertices: those of the triangles, the inner corners of the grid, the centres of the cells inside; tetrahedra
        (T, 4); their features.
    """
    corners, values, cells = grid[0], grid[1].detach(), grid[2].long()
    inside = values < 0
    inner = inside.nonzero()[:, 0]
    number = torch.full((len(values),), -1, device=values.device)
    number[inner] = len(vertices) + torch.arange(len(inner), device=values.device)
    ends = surface.edges
    tip = torch.where(inside[ends[:, 0]], ends[:, 0], ends[:, 1])
    tetrahedra = [torch.cat([faces, number[tip].repeat_interleave(per_square)[:, None]], dim=1)]

    full = inside[cells].all(dim=1).nonzero()[:, 0]
    hub = torch.full((len(cells),), -1, device=values.device)
    hub[full] = len(vertices) + len(inner) + torch.arange(len(full), device=values.device)
    # a cell of several vertices is joined to its first
    turned = surface.cells.flip(0)
    hub[turned] = torch.arange(len(turned), device=values.device).flip(0)
    tetrahedra.append(_around_edges(cells, inside, hub, number))

    def grown(rows: torch.Tensor, at_corners: torch.Tensor) -> torch.Tensor:
        centres = take_rows(at_corners, cells[full].reshape(-1)).unflatten(0, (-1, 8)).mean(dim=1)
        return torch.cat([rows, take_rows(at_corners, inner), centres])

    more = None if features is None or grid_features is None else grown(features, grid_features)
    return grown(vertices, corners), torch.cat(tetrahedra), more


def _around_edges(cells: torch.Tensor, inside: torch.Tensor, hub: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """Four tetrahedra around each edge between inner corners that four cells share."""
    ends = cells[:, EDGES]
    cell, slot = inside[ends].all(dim=2).nonzero().unbind(1)
    pairs, of_pair, sizes = torch.unique(
        ends[cell, slot].sort(dim=1).values, dim=0, return_inverse=True, return_counts=True
    )
    shared = (sizes == 4).nonzero()[:, 0]
    order = torch.argsort(of_pair, stable=True)
    starts = (sizes.cumsum(0) - sizes)[shared]
    ring = cell[order[starts[:, None] + torch.tensor([0, 1, 3, 2], device=cells.device)]]
    hubs = hub[ring]
    along = number[pairs[shared]][:, None].expand(-1, 4, 2)
    parts = torch.stack([hubs, hubs.roll(-1, dims=1)], dim=2)
    along_y = (slot[order[starts]] // 4 == 1)[:, None, None]
    parts = torch.where(along_y, parts.flip(2), parts)
    return torch.cat([parts, along], dim=2).reshape(-1, 4)
