"""Marching cubes (Lorensen and Cline 1987) over blocks of 8×8×8 voxels, on a CPU or a GPU.

Each voxel owns the vertices on its edges along +x, +y and +z. Cells in neighbouring blocks find a vertex through a
table of neighbours, so vertices are shared by construction: there is no welding and no crack. One kernel item is a
column of 8 voxels along z; every item writes to places of its own.
"""

# ruff: noqa: UP018, RUF046, SIM102
# Warp: a name that changes in a loop must start as int(0), not as a constant, and `and` evaluates both sides.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float, Int64

from ..arrays import launch_chunked
from ..records import Mesh
from .blocks import find_neighbors, pack_keys, unpack
from .cube_table import triangle_table
from .volume import BLOCK

wp.set_module_options({"enable_backward": False})

UNSEEN = 1e30
"""Value of a voxel that no frame observed."""
_LIMIT = wp.constant(1e29)
_MARGIN = wp.constant(0.005)  # vertices keep this part of an edge from its ends, so that no triangle collapses


@dataclass(frozen=True)
class BlockGrid:
    """Values in blocks, sorted by key, on one device."""

    keys: wp.array
    """int64, ascending."""
    values: wp.array
    """float32, 512 a block; below 0 is inside; `UNSEEN` where unknown."""
    color: wp.array | None = None
    """vec4f, 512 a block, sums of weight × (r, g, b, 1), in an order of its own."""
    color_block: wp.array | None = None
    """int32: where a block's colours are."""


@wp.func
@no_type_check
def _place(neighbors: wp.array(dtype=wp.int32), block: int, x: int, y: int, z: int) -> int:
    """Index of a voxel; -1 to 8 along each axis reach the blocks around. -1 where there is no block."""
    step = ((x + 8) >> 3) + 3 * ((y + 8) >> 3) + 9 * ((z + 8) >> 3)
    slot = block
    if step != 13:
        slot = neighbors[block * 27 + step]
    place = int(-1)
    if slot >= 0:
        place = slot * 512 + (x & 7) + 8 * (y & 7) + 64 * (z & 7)
    return place


@wp.func
@no_type_check
def _value(
    values: wp.array(dtype=wp.float32), neighbors: wp.array(dtype=wp.int32), block: int, x: int, y: int, z: int
) -> float:
    place = _place(neighbors, block, x, y, z)
    value = float(1.0e30)
    if place >= 0:
        value = values[place]
    return value


@wp.kernel(enable_backward=False)
@no_type_check
def _classify_cells(
    base: int,
    values: wp.array(dtype=wp.float32),
    neighbors: wp.array(dtype=wp.int32),
    first: wp.array(dtype=wp.int32),
    cases: wp.array(dtype=wp.uint8),
    triangle_counts: wp.array(dtype=wp.int32),
):
    """Case of each cell, 0 where a corner is unseen, and triangles of the column."""
    column = base + wp.tid()
    block = column >> 6
    x = column & 7
    y = (column >> 3) & 7
    below = int(0)
    below_seen = bool(False)
    total = int(0)
    for z in range(9):
        seen = bool(True)
        bits = int(0)
        for corner in range(4):
            value = _value(values, neighbors, block, x + (corner & 1), y + (corner >> 1), z)
            if value > _LIMIT:
                seen = False
            if value < 0.0:
                bits |= 1 << corner
        if z > 0:
            case = int(0)
            if seen and below_seen:
                case = below | (bits << 4)
                if case == 255:
                    case = 0
            cases[block * 512 + (column & 63) + 64 * (z - 1)] = wp.uint8(case)
            total += first[case] & 15
        below = bits
        below_seen = seen
    triangle_counts[column] = total


@wp.func
@no_type_check
def _used(cases: wp.array(dtype=wp.uint8), neighbors: wp.array(dtype=wp.int32), block: int, p: wp.vec3i, axis: int):
    """Whether one of the four cells around an edge makes triangles."""
    used = bool(False)
    for k in range(4):
        u = k & 1
        v = k >> 1
        q = p
        if axis == 0:
            q = wp.vec3i(p[0], p[1] - u, p[2] - v)
        elif axis == 1:
            q = wp.vec3i(p[0] - v, p[1], p[2] - u)
        else:
            q = wp.vec3i(p[0] - u, p[1] - v, p[2])
        place = _place(neighbors, block, q[0], q[1], q[2])
        if place >= 0:
            if cases[place] != wp.uint8(0):
                used = True
    return used


@wp.kernel(enable_backward=False)
@no_type_check
def _mark_edges(
    base: int,
    values: wp.array(dtype=wp.float32),
    neighbors: wp.array(dtype=wp.int32),
    cases: wp.array(dtype=wp.uint8),
    edges: wp.array(dtype=wp.uint8),
    vertex_counts: wp.array(dtype=wp.int32),
):
    """Crossed edges that a voxel owns in bits 0 to 2; above them the vertices of the column below the voxel."""
    column = base + wp.tid()
    block = column >> 6
    x = column & 7
    y = (column >> 3) & 7
    total = int(0)
    for z in range(8):
        place = block * 512 + (column & 63) + 64 * z
        value = values[place]
        bits = int(0)
        if value < _LIMIT:
            for axis in range(3):
                other = _value(values, neighbors, block, x + int(axis == 0), y + int(axis == 1), z + int(axis == 2))
                if other < _LIMIT and (value < 0.0) != (other < 0.0):
                    if _used(cases, neighbors, block, wp.vec3i(x, y, z), axis):
                        bits |= 1 << axis
        edges[place] = wp.uint8(bits | (total << 3))
        total += (bits & 1) + ((bits >> 1) & 1) + (bits >> 2)
    vertex_counts[column] = total


@wp.func
@no_type_check
def _difference(before: float, here: float, after: float) -> float:
    """Central difference, one-sided where a side is unseen."""
    slope = float(0.0)
    if before < _LIMIT and after < _LIMIT:
        slope = 0.5 * (after - before)
    elif after < _LIMIT:
        slope = after - here
    elif before < _LIMIT:
        slope = here - before
    return slope


@wp.func
@no_type_check
def _gradient(
    values: wp.array(dtype=wp.float32), neighbors: wp.array(dtype=wp.int32), block: int, x: int, y: int, z: int
) -> wp.vec3:
    here = _value(values, neighbors, block, x, y, z)
    return wp.vec3(
        _difference(_value(values, neighbors, block, x - 1, y, z), here, _value(values, neighbors, block, x + 1, y, z)),
        _difference(_value(values, neighbors, block, x, y - 1, z), here, _value(values, neighbors, block, x, y + 1, z)),
        _difference(_value(values, neighbors, block, x, y, z - 1), here, _value(values, neighbors, block, x, y, z + 1)),
    )


@wp.func
@no_type_check
def _mean_color(color: wp.array(dtype=wp.vec4f), color_block: wp.array(dtype=wp.int32), place: int) -> wp.vec4f:
    total = color[color_block[place >> 9] * 512 + (place & 511)]
    mean = wp.vec4f(0.0, 0.0, 0.0, 0.0)
    if total[3] > 0.0:
        mean = total / total[3]
    return mean


@wp.func
@no_type_check
def _level(value: float) -> wp.uint8:
    return wp.uint8(wp.clamp(value + 0.5, 0.0, 255.0))


@wp.kernel(enable_backward=False)
@no_type_check
def _write_vertices(
    base: int,
    keys: wp.array(dtype=wp.int64),
    values: wp.array(dtype=wp.float32),
    neighbors: wp.array(dtype=wp.int32),
    edges: wp.array(dtype=wp.uint8),
    vertex_first: wp.array(dtype=wp.int32),
    inverse_spacing: wp.vec3,
    color: wp.array(dtype=wp.vec4f),
    color_block: wp.array(dtype=wp.int32),
    positions: wp.array(dtype=wp.vec3d),
    normals: wp.array(dtype=wp.vec3f),
    colors: wp.array2d(dtype=wp.uint8),
):
    column = base + wp.tid()
    block = column >> 6
    x = column & 7
    y = (column >> 3) & 7
    vertex = vertex_first[column]
    corner = unpack(keys[block]) * 8
    for z in range(8):
        place = block * 512 + (column & 63) + 64 * z
        bits = int(edges[place]) & 7
        if bits == 0:
            continue
        slope = _gradient(values, neighbors, block, x, y, z)
        for axis in range(3):
            if (bits & (1 << axis)) == 0:
                continue
            dx = int(axis == 0)
            dy = int(axis == 1)
            dz = int(axis == 2)
            value = values[place]
            other = _value(values, neighbors, block, x + dx, y + dy, z + dz)
            t = wp.clamp(value / (value - other), _MARGIN, 1.0 - _MARGIN)
            positions[vertex] = wp.vec3d(
                wp.float64(corner[0] + x) + wp.float64(t * float(dx)),
                wp.float64(corner[1] + y) + wp.float64(t * float(dy)),
                wp.float64(corner[2] + z) + wp.float64(t * float(dz)),
            )
            direction = wp.lerp(slope, _gradient(values, neighbors, block, x + dx, y + dy, z + dz), t)
            direction = wp.cw_mul(direction, inverse_spacing)
            if wp.length_sq(direction) == 0.0:
                direction[axis] = wp.sign(other - value)
            normals[vertex] = wp.normalize(direction)
            if color.shape[0] > 0:
                near = _mean_color(color, color_block, place)
                far = _mean_color(color, color_block, _place(neighbors, block, x + dx, y + dy, z + dz))
                a = (1.0 - t) * near[3]
                b = t * far[3]
                rgb = wp.vec4f(128.0, 128.0, 128.0, 0.0)  # no photo saw either end
                if a + b > 0.0:
                    rgb = (a * near + b * far) / (a + b)
                for channel in range(3):
                    colors[vertex, channel] = _level(rgb[channel])
            vertex += 1


@wp.kernel(enable_backward=False)
@no_type_check
def _write_triangles(
    base: int,
    neighbors: wp.array(dtype=wp.int32),
    first: wp.array(dtype=wp.int32),
    corners: wp.array(dtype=wp.int32),
    cases: wp.array(dtype=wp.uint8),
    edges: wp.array(dtype=wp.uint8),
    vertex_first: wp.array(dtype=wp.int32),
    triangle_first: wp.array(dtype=wp.int32),
    faces: wp.array(dtype=wp.int32),
):
    column = base + wp.tid()
    block = column >> 6
    x = column & 7
    y = (column >> 3) & 7
    out = triangle_first[column] * 3
    for z in range(8):
        case = int(cases[block * 512 + (column & 63) + 64 * z])
        start = (first[case] >> 4) * 3
        for k in range((first[case] & 15) * 3):
            edge = corners[start + k]
            corner = edge // 3
            axis = edge - corner * 3
            owner = _place(neighbors, block, x + (corner & 1), y + ((corner >> 1) & 1), z + (corner >> 2))
            packed = int(edges[owner])
            lower = packed & ((1 << axis) - 1)
            rank = (packed >> 3) + (lower & 1) + (lower >> 1)
            faces[out] = vertex_first[((owner >> 9) << 6) + (owner & 63)] + rank
            out += 1


def _running_sum(counts: wp.array) -> tuple[wp.array, int]:
    """Exclusive sums and the total."""
    firsts = wp.empty_like(counts)
    wp.utils.array_scan(counts, firsts, inclusive=False)
    last = counts.shape[0] - 1
    return firsts, int(firsts[last:].numpy()[0]) + int(counts[last:].numpy()[0])


def polygonize(
    grid: BlockGrid, origin: Float[np.ndarray, "3"], spacing: Float[np.ndarray, "3"], *, device: str
) -> Mesh:
    """Mesh of the level 0 of values in blocks.

    Args:
        grid: Values; a cell with an unseen corner makes no surface.
        origin: World position of voxel (0, 0, 0), metres.
        spacing: Metres between voxels along x, y, z.
        device: Where the arrays are.

    Returns:
        A mesh whose faces look towards larger values, with unit normals and, if the grid has them, colours. Every edge
        has two faces, except at the border of what was seen.
    """
    blocks = grid.keys.shape[0]
    first, corners = (wp.array(table, dtype=wp.int32, device=device) for table in triangle_table())
    neighbors = find_neighbors(grid.keys, blocks, device)

    def array(size: int, dtype: Any) -> wp.array:
        return wp.empty(size, dtype=dtype, device=device)

    columns = blocks * BLOCK**2
    cases, triangle_counts = array(blocks * 512, wp.uint8), array(columns, wp.int32)
    edges, vertex_counts = array(blocks * 512, wp.uint8), array(columns, wp.int32)
    values = [grid.values, neighbors]
    launch_chunked(_classify_cells, columns, [*values, first], outputs=[cases, triangle_counts], device=device)
    launch_chunked(_mark_edges, columns, [*values, cases], outputs=[edges, vertex_counts], device=device)
    triangle_first, triangles = _running_sum(triangle_counts)
    vertex_first, vertices = _running_sum(vertex_counts)

    color = grid.color if grid.color is not None else array(0, wp.vec4f)
    color_block = grid.color_block if grid.color_block is not None else array(0, wp.int32)
    positions, normals = array(vertices, wp.vec3d), array(vertices, wp.vec3f)
    colors = wp.empty((vertices if grid.color is not None else 0, 3), dtype=wp.uint8, device=device)
    inputs = [grid.keys, *values, edges, vertex_first, wp.vec3(*(1.0 / spacing)), color, color_block]
    launch_chunked(_write_vertices, columns, inputs, outputs=[positions, normals, colors], device=device)
    faces = array(triangles * 3, wp.int32)
    inputs = [neighbors, first, corners, cases, edges, vertex_first, triangle_first]
    launch_chunked(_write_triangles, columns, inputs, outputs=[faces], device=device)
    return Mesh(
        vertices=_in_world(positions.numpy(), origin, spacing),
        faces=faces.numpy().reshape(-1, 3),
        normals=normals.numpy(),
        colors=colors.numpy() if grid.color is not None else None,
    )


def _in_world(
    positions: Float[np.ndarray, "V 3"], origin: Float[np.ndarray, "3"], spacing: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "V 3"]:
    """Positions in metres; float32 unless that would cost more than a thousandth of a voxel."""
    world = positions * spacing + origin
    step = np.spacing(np.float32(np.abs(world).max(initial=0.0)))
    return world.astype(np.float32) if step < 1e-3 * spacing.min() else world


def marching_cubes(
    values: Float[np.ndarray, "nx ny nz"],
    iso: float = 0.0,
    *,
    spacing: float | tuple[float, float, float] = 1.0,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
    mask: Bool[np.ndarray, "nx ny nz"] | None = None,
    device: str = "cpu",
) -> Mesh:
    """Mesh of the surface `values == iso` of a dense grid.

    Args:
        values: The sample `(i, j, k)` lies at `origin + spacing * (i, j, k)`. NaN: unknown.
        iso: The level. Lower values are inside: faces look towards larger values, as a signed distance has it; for a
            density, pass `-values` and `-iso`.
        spacing: Distance between samples, one for all axes or one each.
        origin: Position of sample (0, 0, 0).
        mask: False marks samples that are unknown. A cell with an unknown corner makes no surface.
        device: A Warp device: `cpu` or `cuda:N`.

    Raises:
        ValueError: The grid is not three-dimensional, or spacing is not positive.
    """
    steps = np.broadcast_to(np.asarray(spacing, dtype=np.float64), (3,))
    if values.ndim != 3 or not (steps > 0).all():
        raise ValueError(f"a grid of three dimensions and positive spacing needed, not {values.shape}, {spacing}")
    known = ~np.isnan(values) if mask is None else mask & ~np.isnan(values)
    shape = [-(-n // BLOCK) for n in values.shape]
    padded = np.full([n * BLOCK for n in shape], UNSEEN, np.float32)
    padded[tuple(slice(0, n) for n in values.shape)] = np.where(known, values - iso, UNSEEN)
    cut = padded.reshape(shape[0], BLOCK, shape[1], BLOCK, shape[2], BLOCK)
    in_blocks = cut.transpose(0, 2, 4, 5, 3, 1).reshape(-1)  # x fastest in a block; blocks in the order of their keys
    index: Int64[np.ndarray, "n 3"] = np.indices(shape).reshape(3, -1).T.astype(np.int64)
    grid = BlockGrid(
        keys=wp.array(pack_keys(index), dtype=wp.int64, device=device),
        values=wp.array(in_blocks, dtype=wp.float32, device=device),
    )
    return polygonize(grid, np.asarray(origin, np.float64), steps.copy(), device=device)
