"""Marching cubes (Lorensen and Cline 1987) on dense grids of any shape, differentiable.

Time O(samples) for one look at each, the rest grows with the surface. Memory besides the result: one bit a sample and
eight bytes for every 32 cells. The numbers of vertices and faces are the only thing that the host waits for.
"""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from ..segments import group_rows, segment_sum
from ..tensors import FLOATS, check_finite, check_tensor, launch, use_warp
from . import cube_kernels, cube_torch

_LARGEST = 2**31


def marching_cubes(
    values: torch.Tensor, iso: float = 0.0, *, inside: str = "below", outside: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mesh of the surface `values == iso`.

    Vertices on shared edges are shared; on a face with four crossings the two inside corners are joined, on both sides
    of it, so that the surface is closed wherever the grid goes on. Where a sample equals `iso`, vertices coincide.

    Args:
        values: (nx, ny, nz), float32 or float64; sample `(i, j, k)` lies at `(i, j, k)`.
        iso: The level.
        inside: `below` (signed distances) or `above` (occupancy, density): which values are inside.
        outside: Value of a layer of samples around the grid, which closes the surface there; None: it stays open.

    Returns:
        Vertices (V, 3) in units of samples, differentiable with respect to `values`, and faces (F, 3) int64,
        counter-clockwise seen from outside. The order depends on the values alone.

    Raises:
        TypeError: No float32 or float64 tensor.
        ValueError: Not three dimensions, a value that is not finite, or 2³¹ samples and more.
    """
    check_tensor("values", values, (None, None, None), FLOATS)
    if inside not in ("below", "above"):
        raise ValueError(f"inside must be below or above, not {inside!r}")
    if (values.shape[0] + 2) * (values.shape[1] + 2) * (values.shape[2] + 34) >= _LARGEST:
        raise ValueError(
            f"a grid of {tuple(values.shape)} has 2³¹ samples or more; cut it into parts that overlap by one"
        )
    check_finite("values", values)
    if values.numel() == 0 or (outside is None and min(values.shape) < 2):
        return values.new_zeros(0, 3), torch.zeros(0, 3, dtype=torch.int64, device=values.device)
    find = _find if use_warp() else cube_torch.find_surface
    edges, faces = find(values.detach().contiguous(), float(iso), inside == "above", outside)
    vertices: torch.Tensor = _Crossings.apply(values, edges, float(iso), outside)
    return vertices, faces


def _find(values: torch.Tensor, iso: float, above: bool, outside: float | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Crossed edges, `3 * (number of its first sample in the grid with one layer around) + axis`, and faces."""
    device = values.device
    size = [n + 2 for n in values.shape]
    words = -(-size[2] // 32)
    signs = torch.empty(size[0] * size[1] * words * 4, dtype=torch.uint8, device=device)
    fill = 255 if outside is not None and ((outside > iso) if above else (outside < iso)) else 0
    shape = wp.vec3i(*size)
    inputs = [values, shape, words, iso, above, fill]
    launch(cube_kernels.PACK_SIGNS[values.dtype], signs.numel(), inputs, outputs=[signs], like=values)

    border = 0 if outside is not None else 1
    cells = (size[0] - 1) * (size[1] - 1) * words
    counts = torch.empty(2, cells, dtype=torch.int32, device=device)
    tables = cube_kernels.tables_on(device)
    grid = [signs.view(torch.int32), shape, words, border]
    launch(cube_kernels.count, cells, [*grid, tables.counts], outputs=[counts[0], counts[1]], like=values)
    ends = torch.empty_like(counts)
    for kind in range(2):  # one row at a time, which torch does in one pass over a GPU
        torch.cumsum(counts[kind], 0, dtype=torch.int32, out=ends[kind])
    vertex_count, face_count = ends[:, -1].tolist()  # the host waits here
    edges = torch.empty(vertex_count, dtype=torch.int64, device=device)
    faces = torch.empty(face_count * 3, dtype=torch.int64, device=device)
    inputs = [*grid, *tables.all, ends[0], ends[1], counts[1]]
    launch(cube_kernels.emit, cells, inputs, outputs=[edges, faces], like=values)
    return edges, faces.reshape(-1, 3)


class _Crossings(torch.autograd.Function):
    """Where the values cross the level on given edges."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, edges: torch.Tensor, iso: float, outside: float | None) -> torch.Tensor:
        ctx.save_for_backward(values, edges)
        ctx.iso, ctx.outside = iso, outside
        if not use_warp():
            place, axis, _, (a, b) = _ends(values, edges, outside)
            return place.to(values.dtype).scatter_add(1, axis[:, None], ((iso - a) / (b - a))[:, None])
        positions = values.new_empty(len(edges), 3)
        size = wp.vec3i(*(n + 2 for n in values.shape))
        inputs = [edges, values.contiguous(), size, iso, 0.0 if outside is None else outside]
        launch(cube_kernels.PLACE[values.dtype], len(edges), inputs, outputs=[positions], like=values)
        return positions

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, None, None, None]:
        values, edges = ctx.saved_tensors
        _, axis, ends, (a, b) = _ends(values, edges, ctx.outside)
        along = grads[0].gather(1, axis[:, None])[:, 0] / (b - a) ** 2
        parts = torch.cat([along * (ctx.iso - b), along * (a - ctx.iso)])
        index = ends.T.reshape(-1)
        known = index >= 0
        samples, of_sample = torch.unique(index[known], return_inverse=True)
        sums = segment_sum(parts[known, None], group_rows(of_sample, len(samples)))
        result = parts.new_zeros(values.numel())
        result[samples] = sums[:, 0]
        return result.reshape(values.shape), None, None, None


def _ends(
    values: torch.Tensor, edges: torch.Tensor, outside: float | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """First end (V, 3), axis (V,), numbers of both ends in `values` (V, 2; -1 outside) and the values there."""
    nx, ny, nz = values.shape
    axis = edges % 3
    number = edges // 3
    place = torch.stack([number // ((ny + 2) * (nz + 2)), number // (nz + 2) % (ny + 2), number % (nz + 2)], dim=1) - 1
    other = place.scatter_add(1, axis[:, None], torch.ones_like(axis)[:, None])
    both = torch.stack([place, other], dim=1)
    size = torch.tensor([nx, ny, nz], device=values.device)
    known = ((both >= 0) & (both < size)).all(dim=2)
    strides = torch.tensor([ny * nz, nz, 1], device=values.device)
    ends = torch.where(known, (both * strides).sum(dim=2), -1)
    found = values.reshape(-1)[ends.clamp_min(0)]
    if outside is not None:
        found = torch.where(known, found, outside)
    return place, axis, ends, (found[:, 0], found[:, 1])
