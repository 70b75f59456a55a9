"""Voxelisation in plain torch: what the kernels of `voxelize_kernels` compute, on all voxels of all bounding boxes."""

from __future__ import annotations

import torch

_PAIRS = 1 << 20  # of triangle and voxel at a time


def mark(corners: torch.Tensor, grid: torch.Tensor) -> None:
    """Set the voxels of `grid` (B, nx, ny, nz) that triangles (B, F, 3, 3) touch."""
    shape = torch.tensor(grid.shape[1:], device=grid.device)
    triangles = corners.reshape(-1, 3, 3)
    low = torch.ceil(triangles.amin(dim=1) - 0.5).long().clamp_min(0)
    high = torch.minimum(torch.ceil(triangles.amax(dim=1) - 0.5).long(), shape - 1)
    size = (high - low + 1).clamp_min(0)
    for face, voxel in _pairs(size):
        place = low[face] + torch.stack(
            [voxel // (size[face, 1] * size[face, 2]), voxel // size[face, 2] % size[face, 1], voxel % size[face, 2]], 1
        )
        local = triangles[face] - place[:, None]
        hit = _touches(local)
        batch = face[hit] // corners.shape[1]
        x, y, z = place[hit].unbind(1)
        grid[batch, x, y, z] = True


def _pairs(size: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Triangle and number of the voxel in its box, in pieces."""
    counts = size.prod(dim=1)
    ends = counts.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    pieces = []
    for start in range(0, total, _PAIRS):
        number = torch.arange(start, min(start + _PAIRS, total), device=size.device)
        face = torch.searchsorted(ends, number, right=True)
        pieces.append((face, number - (ends - counts)[face]))
    return pieces


def _touches(corners: torch.Tensor) -> torch.Tensor:
    """Whether triangles (N, 3, 3) touch the voxel at 0, without its lower sides; see `voxelize_kernels._touches`."""
    sides = torch.eye(3, dtype=corners.dtype, device=corners.device)
    edges = corners.roll(-1, dims=1) - corners
    normal = torch.linalg.cross(edges[:, 0], edges[:, 1])
    axes = [normal[:, None], sides.expand(len(corners), 3, 3)]
    axes += [torch.linalg.cross(sides[k].expand_as(edges), edges) for k in range(3)]
    axis = torch.cat(axes, dim=1)
    along = axis @ corners.transpose(1, 2)
    low, high = along.amin(dim=2), along.amax(dim=2)
    reach = 0.5 * axis.abs().sum(dim=2)
    falls, rises = (axis < 0).any(dim=2), (axis > 0).any(dim=2)
    apart = (low > reach) | (high < -reach) | ((low == reach) & falls) | ((high == -reach) & rises)
    return ~apart.any(dim=1)


def cross(corners: torch.Tensor, steps: torch.Tensor) -> None:
    """Add to `steps` (B, nx, ny, nz + 1) where columns enter (+1) and leave (-1) the surface."""
    shape = torch.tensor(steps.shape[1:3], device=steps.device)
    triangles = corners.reshape(-1, 3, 3)
    flat = triangles[..., :2]
    low = torch.ceil(flat.amin(dim=1) - 0.5).long().clamp_min(0)
    high = torch.minimum(torch.ceil(flat.amax(dim=1) - 0.5).long(), shape - 1)
    size = (high - low + 1).clamp_min(0)
    normals = torch.linalg.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    for face, column in _pairs(size):
        x, y = low[face, 0] + column // size[face, 1], low[face, 1] + column % size[face, 1]
        point = torch.stack([x, y], dim=1).to(corners.dtype)
        a, b, c = flat[face].unbind(1)
        sides = torch.stack([_left(a, b, point), _left(b, c, point), _left(c, a, point)])
        hit = (sides[0] == sides[1]) & (sides[1] == sides[2]) & (normals[face, 2] != 0)
        face, x, y, point, side = face[hit], x[hit], y[hit], point[hit], sides[0, hit]
        across = (normals[face, :2] * (point - triangles[face, 0, :2])).sum(dim=1)
        z = triangles[face, 0, 2] - across / normals[face, 2]
        heights = triangles[face, :, 2]
        z = torch.minimum(torch.maximum(z, heights.amin(dim=1)), heights.amax(dim=1))
        k = torch.ceil(z).clamp(0, steps.shape[3] - 1).long()
        steps.index_put_((face // corners.shape[1], x, y, k), -side, accumulate=True)


def _left(a: torch.Tensor, b: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
    swap = (b[:, 0] < a[:, 0]) | ((b[:, 0] == a[:, 0]) & (b[:, 1] < a[:, 1]))
    p, q = torch.where(swap[:, None], b, a), torch.where(swap[:, None], a, b)
    area = (q[:, 0] - p[:, 0]) * (point[:, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (point[:, 0] - p[:, 0])
    return torch.where(area >= 0, 1, -1).to(torch.int32) * torch.where(swap, -1, 1).to(torch.int32)
