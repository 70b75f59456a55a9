"""Signed distances on grids: of meshes in one call, and of functions from coarse to fine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..points.distance import root
from ..tensors import check_number, check_whole, checks_values, use_warp
from .distance import check_mesh, plant_triangles, point_to_triangle_distance, take_triangles
from .inside import check_rule, inside_by

_BLOCK = 2**21
"""Grid points that are looked at together."""


class SdfGrid(NamedTuple):
    """Signed distances at the points of a regular grid."""

    values: torch.Tensor
    """(X, Y, Z) or (B, X, Y, Z): metres if the mesh is in metres; negative inside."""
    origin: torch.Tensor
    """(3,) or (B, 3), position of the first value."""
    spacing: torch.Tensor
    """() or (B,), distance between neighbours: value [i, j, k] is at origin + spacing * (i, j, k)."""


def mesh_to_sdf(
    vertices: torch.Tensor,
    faces: torch.Tensor,
    resolution: int | tuple[int, int, int] = 64,
    *,
    padding: float = 0.1,
    box: tuple[torch.Tensor, torch.Tensor] | None = None,
    rule: str = "winding",
) -> SdfGrid:
    """Signed distance to a mesh at all points of a grid around it; exact, not truncated, not differentiable.

    For gradients take `signed_distance` at the points. O(P log F) time for P grid points, which are looked at two
    million at a time: memory is the result and about 300 MB.

    Args:
        vertices: (V, 3) or (B, V, 3), float32 or float64.
        faces: (F, 3), counter-clockwise seen from outside; holes are closed as if by smooth caps.
        resolution: Grid points along each axis, or of each of the three; at least 2.
        padding: Room around the mesh on every side, as a share of the longest side of its bounding box.
        box: Lowest and highest corner, (3,) each, of a grid for all meshes, in place of their own boxes. The spacing is
            the same along all axes: the largest that any axis needs.
        rule: What is inside, see `is_inside`.

    Raises:
        TypeError: Not a floating tensor, or faces that are no integers.
        ValueError: Other shapes, two devices, no faces, an index that is not there, a value that is not finite, or a
            setting out of range.
    """
    check_mesh(vertices, faces)
    sizes = tuple(resolution) if isinstance(resolution, Sequence) else (check_whole("resolution", resolution),) * 3
    if len(sizes) != 3 or min(sizes) < 2:
        raise ValueError(f"resolution is {resolution}; each axis needs at least 2 grid points")
    if math.prod(sizes) >= 2**31:
        raise ValueError(f"resolution is {resolution}; that is {math.prod(sizes)} grid points, and 2^31 are too many")
    if not check_number("padding", padding) >= 0:
        raise ValueError(f"padding is {padding}; it must not be negative")
    check_rule(rule)
    meshes = (vertices if vertices.dim() == 3 else vertices[None]).detach()
    origin, spacing = _frame(meshes, sizes, padding, box)
    values = torch.empty(len(meshes), sizes[0] * sizes[1] * sizes[2], dtype=vertices.dtype, device=vertices.device)
    for b in range(len(meshes)):
        triangles = take_triangles(meshes[b : b + 1], faces)
        surface = plant_triangles(triangles) if use_warp() else None
        for first in range(0, values.shape[1], _BLOCK):
            last = min(first + _BLOCK, values.shape[1])
            places = torch.arange(first, last, device=vertices.device)
            steps = torch.stack([places // (sizes[1] * sizes[2]), places // sizes[2] % sizes[1], places % sizes[2]], -1)
            points = (origin[b] + spacing[b] * steps)[None].to(vertices.dtype)
            distance = root(point_to_triangle_distance(points, triangles, checked=True, surface=surface)[0])
            inside = inside_by(rule, meshes[b : b + 1], faces, points, surface)
            values[b, first:last] = torch.where(inside, -distance, distance)[0]
    grid = SdfGrid(values.reshape(-1, *sizes), origin.to(vertices.dtype), spacing.to(vertices.dtype))
    return grid if vertices.dim() == 3 else SdfGrid(*(part[0] for part in grid))


def _frame(
    meshes: torch.Tensor, sizes: tuple[int, ...], padding: float, box: tuple[torch.Tensor, torch.Tensor] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """First point (B, 3) and spacing (B,) of a grid that holds the box, centred on it."""
    if box is None:
        low, high = meshes.amin(dim=1).double(), meshes.amax(dim=1).double()
        room = padding * (high - low).amax(dim=1, keepdim=True)
        low, high = low - room, high + room
    else:
        low, high = (torch.as_tensor(corner, device=meshes.device).double().expand(len(meshes), 3) for corner in box)
    steps = torch.tensor(sizes, device=meshes.device) - 1
    spacing = ((high - low) / steps).amax(dim=1)
    if checks_values() and not bool((spacing > 0).all()):
        raise ValueError("the grid's box has no extent: the mesh lies in one place, or box is given upside down")
    return 0.5 * (low + high) - 0.5 * spacing[:, None] * steps, spacing


def refine_occupancy(
    inside: Callable[[torch.Tensor], torch.Tensor], resolution: int, steps: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Evaluate a yes-no function on a grid from coarse to fine, where it changes (Mescheder et al. 2019, MISE).

    Every step halves the spacing and asks only about points next to a change between neighbours of the grid before;
    what lies between points that agree, all around, takes their answer. Detail that all points of the first grid miss
    is lost.

    Args:
        inside: Takes integer positions (N, 3) on the finest grid, returns bool (N,).
        resolution: Cells along an axis of the first grid.
        steps: How often the spacing is halved.
        device: Where to compute.

    Returns:
        bool (R, R, R) with R = resolution * 2^steps + 1.

    Raises:
        TypeError: No whole numbers.
        ValueError: A resolution below 1, or 2^31 points and more.
    """
    resolution = check_whole("resolution", resolution, least=1)
    steps = check_whole("steps", steps, most=31)
    if (resolution * 2**steps + 1) ** 3 >= 2**31:
        raise ValueError(f"resolution is {resolution} and steps {steps}; a grid of 2^31 points and more is too large")
    stride = 2**steps
    count = resolution + 1
    places = torch.cartesian_prod(*(torch.arange(count, device=device),) * 3) * stride
    grid = inside(places).reshape(count, count, count)
    while stride > 1:
        stride //= 2
        count = 2 * count - 1
        cells = _changing(grid)
        for axis in range(3):
            cells = cells.repeat_interleave(2, dim=axis)
        near = torch.zeros((count,) * 3, dtype=torch.bool, device=device)
        for corner in range(8):
            at = tuple(slice(corner >> k & 1, count - 1 + (corner >> k & 1)) for k in range(3))
            near[at] |= cells
        finer = grid
        for axis in range(3):
            finer = finer.repeat_interleave(2, dim=axis).narrow(axis, 0, count)
        near[::2, ::2, ::2] = False
        asked = near.nonzero()
        finer[near] = inside(asked * stride)
        grid = finer
    return grid


def _changing(grid: torch.Tensor) -> torch.Tensor:
    """Cells whose corners do not agree, and the cells around them."""
    value = grid.float()[None, None]
    high = torch.nn.functional.max_pool3d(value, 2, stride=1)
    low = -torch.nn.functional.max_pool3d(-value, 2, stride=1)
    mixed = (high != low).float()
    return torch.nn.functional.max_pool3d(mixed, 3, stride=1, padding=1)[0, 0] > 0
