"""Points to voxels, and voxels to meshes of cubes: O(points), O(voxels)."""

from __future__ import annotations

import logging
import math

import torch

from ..tensors import FLOATS, check_finite, check_tensor
from .grids import check_shape, check_values

log = logging.getLogger(__name__)


def voxelize_points(points: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    """Voxels that hold a point; how many points lie beside the grid is said in the log.

    Args:
        points: (..., N, 3), in units of voxels: voxel `(i, j, k)` has its centre at `(i, j, k)`; a coordinate half-way
            belongs to the even one.
        shape: Voxels along x, y, z.

    Returns:
        Bool (..., nx, ny, nz).

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape, a coordinate that is not finite, or 2^31 voxels and more.
    """
    check_tensor("points", points, (None, 3), (*FLOATS, torch.float16), batched=True)
    dims = points.shape
    check_finite("points", points)
    shape = check_shape("shape", shape, batch=math.prod(dims[:-2]))
    places = torch.round(points.detach()).reshape(math.prod(dims[:-2]), dims[-2], 3)
    size = torch.tensor(shape, device=points.device)
    within = ((places >= 0) & (places < size)).all(dim=2)
    grid = torch.zeros(len(places), *shape, dtype=torch.bool, device=points.device)
    batch = torch.arange(len(places), device=points.device)[:, None].expand(within.shape)[within]
    x, y, z = places[within].long().unbind(1)
    grid[batch, x, y, z] = True
    if log.isEnabledFor(logging.INFO) and len(batch) < within.numel():
        log.info("%d of %d points lie beside the grid of voxels", within.numel() - len(batch), within.numel())
    return grid.reshape(*dims[:-2], *shape)


def cubic_mesh(voxelgrid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sides between filled and empty voxels, as squares; beyond the grid all is empty.

    Args:
        voxelgrid: (nx, ny, nz); filled where not zero.

    Returns:
        Vertices (V, 3) float32, whole numbers: voxel `(i, j, k)` reaches from there to one more; sorted. Squares (Q, 4)
        int64, clockwise seen from outside, across x first, then y, then z.

    Raises:
        TypeError: Wrong type.
        ValueError: Wrong shape.
    """
    check_values("voxelgrid", voxelgrid, 3)
    filled = voxelgrid != 0
    size = torch.tensor(filled.shape, device=filled.device)
    sides = []
    for axis in range(3):
        padding = [1 if dim == axis else 0 for dim in (2, 1, 0) for _ in range(2)]
        padded = torch.nn.functional.pad(filled, padding)
        count = filled.shape[axis] + 1
        before, after = padded.narrow(axis, 0, count), padded.narrow(axis, 1, count)
        place = (before != after).nonzero()
        faces_down = after[tuple(place.unbind(1))]
        # y squares run the other way round, as (z, x) follows y
        ring = ((0, 0), (1, 0), (1, 1), (0, 1)) if axis != 1 else ((0, 0), (0, 1), (1, 1), (1, 0))
        u, v = [other for other in range(3) if other != axis]
        steps = torch.zeros(2, 4, 3, dtype=torch.int64, device=filled.device)
        for way, corners in enumerate((ring[::-1], ring)):
            for n, (du, dv) in enumerate(corners):
                steps[way, n, u], steps[way, n, v] = du, dv
        sides.append(place[:, None] + steps[faces_down.long()])
    places = torch.cat(sides)
    keys = (places[..., 0] * (size[1] + 1) + places[..., 1]) * (size[2] + 1) + places[..., 2]
    used, squares = torch.unique(keys, return_inverse=True)
    z = used % (size[2] + 1)
    row = used // (size[2] + 1)
    vertices = torch.stack([row // (size[1] + 1), row % (size[1] + 1), z], dim=1).float()
    return vertices, squares.reshape(-1, 4)
