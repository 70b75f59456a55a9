"""Marching cubes on dense grids in plain torch: what the kernels of `cube_kernels` compute, all cells at once."""

from __future__ import annotations

import torch

from .cube_order import cube_tables


def find_surface(
    values: torch.Tensor, iso: float, above: bool, outside: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Crossed edges, `3 * (number of its first sample in the grid with one layer around) + axis`, and faces."""
    device = values.device
    size = [n + 2 for n in values.shape]
    signs = torch.zeros(size, dtype=torch.bool, device=device)
    known = torch.full(size, outside is not None, device=device)
    if outside is not None:
        signs[:] = outside > iso if above else outside < iso
    signs[1:-1, 1:-1, 1:-1] = values > iso if above else values < iso
    known[1:-1, 1:-1, 1:-1] = True

    def at(grid: torch.Tensor, corner: int) -> torch.Tensor:
        x, y, z = corner & 1, corner >> 1 & 1, corner >> 2
        return grid[x : x + size[0] - 1, y : y + size[1] - 1, z : z + size[2] - 1]

    cases = sum(at(signs, c).int() << c for c in range(8))
    assert isinstance(cases, torch.Tensor)
    whole = torch.stack([at(known, c) for c in range(8)]).all(dim=0)
    own = [at(signs, a) != at(signs, b) for a, b in ((2, 3), (1, 3), (3, 7))]
    own = [mask & at(known, a) & at(known, b) for mask, (a, b) in zip(own, ((2, 3), (1, 3), (3, 7)), strict=True)]
    crossed = torch.stack(own, dim=-1).reshape(-1, 3)

    tables = cube_tables()
    counts, corners, packed = (torch.from_numpy(t).to(device) for t in (tables.counts, tables.corners, tables.ranks))
    ranks = (packed[:, None] >> torch.tensor([0, 2, 4], device=device)) & 3
    mine = ranks[cases.reshape(-1).long()]
    before = (crossed[:, None, :] & (mine[:, None, :] < mine[:, :, None])).sum(dim=2)
    per_cell = crossed.sum(dim=1)
    number = (per_cell.cumsum(0) - per_cell)[:, None] + before

    cells = [n - 1 for n in size]
    cell, axis = crossed.nonzero().unbind(1)
    x, y, z = cell // (cells[1] * cells[2]), cell // cells[2] % cells[1], cell % cells[2]
    sample = ((x + (axis != 0)) * size[1] + y + (axis != 1)) * size[2] + z
    edges = torch.empty(len(cell), dtype=torch.int64, device=device)
    edges[number[cell, axis]] = 3 * sample + axis

    active = torch.where(whole, counts[cases.long()], 0).reshape(-1)
    cell = torch.repeat_interleave(torch.arange(len(active), device=device), active.long())
    starts = (active.cumsum(0) - active)[cell]
    nth = torch.arange(len(cell), device=device) - starts
    edge = corners[cases.reshape(-1).long()[cell]].reshape(-1, 5, 3)[torch.arange(len(cell), device=device), nth].long()
    corner, axis = edge // 3, edge % 3
    dx = (corner & 1) - (axis != 0).long()
    dy = (corner >> 1 & 1) - (axis != 1).long()
    owner = cell[:, None] + (dx * cells[1] + dy) * cells[2] + (corner >> 2)
    return edges, number[owner, axis]
