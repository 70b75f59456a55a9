"""Kernels of marching cubes on dense grids.

Signs of samples are packed into words of 32 along z. One item is a row of 32 cells: most have no surface and are done
after eight words. Grid and cells are those with one layer of samples around (see `cube_order`); `border` is 1 where
that layer counts as unknown.
"""

# ruff: noqa: UP018, RUF046
# Warp: a name that changes in a loop must start as int(0), not as a constant.

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, no_type_check

import torch
import warp as wp

from ..tensors import as_warp
from .cube_order import cube_tables

wp.set_module_options({"enable_backward": False})

_ALL = wp.constant(wp.uint32(4294967295))


@dataclass(frozen=True)
class DeviceTables:
    """The tables of `cube_order` on a device."""

    counts: wp.array
    corners: wp.array
    ranks: wp.array
    tensors: tuple[torch.Tensor, ...]
    """Keep the memory."""

    @property
    def all(self) -> list[wp.array]:
        """Counts, corners, ranks."""
        return [self.counts, self.corners, self.ranks]


@lru_cache(maxsize=8)
def tables_on(device: torch.device) -> DeviceTables:
    """The tables on a device, copied there once."""
    tables = cube_tables()
    arrays = (tables.counts, tables.corners.reshape(-1), tables.ranks)
    tensors = tuple(torch.from_numpy(table).to(device) for table in arrays)
    counts, corners, ranks = (as_warp(tensor) for tensor in tensors)
    return DeviceTables(counts, corners, ranks, tensors)


@wp.kernel(enable_backward=False)
@no_type_check
def _pack_signs(
    base: int,
    values: wp.array(dtype=Any),
    size: wp.vec3i,
    words: int,
    iso: float,
    above: bool,
    fill: int,
    signs: wp.array(dtype=wp.uint8),
):
    """One bit a sample, set inside: 8 samples along z an item; around the grid the bits of `fill`."""
    item = base + wp.tid()
    first = (item % (words * 4)) * 8
    row = item / (words * 4)
    j = row % size[1]
    i = row / size[1]
    bits = int(fill)
    if i > 0 and j > 0 and i < size[0] - 1 and j < size[1] - 1:
        start = ((i - 1) * (size[1] - 2) + (j - 1)) * (size[2] - 2) - 1
        level = values.dtype(iso)
        for n in range(8):
            k = first + n
            if k > 0 and k < size[2] - 1:
                value = values[start + k]
                bit = int(0)
                if (above and value > level) or (not above and value < level):
                    bit = int(1)
                bits = (bits & ~(1 << n)) | (bit << n)
    signs[item] = wp.uint8(bits)


PACK_SIGNS = {
    torch_type: wp.overload(_pack_signs, {"values": wp.array(dtype=warp_type)})
    for torch_type, warp_type in ((torch.float32, wp.float32), (torch.float64, wp.float64))
}


@wp.func
@no_type_check
def _sample(values: wp.array(dtype=Any), size: wp.vec3i, i: int, j: int, k: int, outside: Any):
    value = outside
    if i >= 0 and j >= 0 and k >= 0 and i < size[0] - 2 and j < size[1] - 2 and k < size[2] - 2:
        value = values[(i * (size[1] - 2) + j) * (size[2] - 2) + k]
    return value


@wp.func
@no_type_check
def _word(signs: wp.array(dtype=wp.uint32), size: wp.vec3i, words: int, i: int, j: int, w: int) -> wp.uint32:
    word = wp.uint32(0)
    if w < words:
        word = signs[(i * size[1] + j) * words + w]
    return word


@wp.func
@no_type_check
def _next(word: wp.uint32, following: wp.uint32) -> wp.uint32:
    """The bits one further along z."""
    return (word >> wp.uint32(1)) | (following << wp.uint32(31))


@wp.func
@no_type_check
def _range(first: int, last: int, w: int) -> wp.uint32:
    """The bits of word w from number first to last."""
    low = wp.clamp(first - 32 * w, 0, 32)
    high = wp.clamp(last + 1 - 32 * w, 0, 32)
    mask = wp.uint32(0)
    if high > low:
        mask = (_ALL >> wp.uint32(32 - (high - low))) << wp.uint32(low)
    return mask


_Words = wp.types.vector(8, wp.uint32)


class _CellFields:
    """Eight words of samples around a row of 32 cells, by corner, and what follows from them."""

    corners: _Words  # type: ignore[valid-type]
    own: wp.vec3ui
    """Cells whose own edge along x, y, z is crossed."""
    active: wp.uint32
    """Cells with triangles."""


_Cells: Any = wp.struct(_CellFields)  # not as a decorator: checkers of annotations take its class for a function


@wp.func
@no_type_check
def _load(signs: wp.array(dtype=wp.uint32), size: wp.vec3i, words: int, border: int, i: int, j: int, w: int) -> _Cells:
    cells = _Cells()
    every = _ALL
    some = wp.uint32(0)
    for c in range(4):
        here = _word(signs, size, words, i + (c & 1), j + (c >> 1), w)
        above = _next(here, _word(signs, size, words, i + (c & 1), j + (c >> 1), w + 1))
        cells.corners[c] = here
        cells.corners[c + 4] = above
        every &= here & above
        some |= here | above
    if some == wp.uint32(0) or every == _ALL:
        return cells
    in_x = i >= border and i < size[0] - 1 - border
    in_y = j >= border and j < size[1] - 1 - border
    end_x = i + 1 < size[0] - border  # the samples at i + 1 are known
    end_y = j + 1 < size[1] - border
    at = _range(border, size[2] - 1 - border, w)
    between = _range(border, size[2] - 2 - border, w)
    if in_x and end_y:
        cells.own[0] = (cells.corners[2] ^ cells.corners[3]) & at
    if in_y and end_x:
        cells.own[1] = (cells.corners[1] ^ cells.corners[3]) & at
    if end_x and end_y:
        cells.own[2] = (cells.corners[3] ^ cells.corners[7]) & between
    if in_x and in_y:
        cells.active = some & ~every & between
    return cells


@wp.func
@no_type_check
def _case(cells: _Cells, k: int) -> int:
    bits = int(0)
    for c in range(8):
        bits |= int((cells.corners[c] >> wp.uint32(k)) & wp.uint32(1)) << c
    return bits


@wp.func
@no_type_check
def _lowest(mask: wp.uint32) -> int:
    """Number of the lowest bit that is set."""
    return int(wp.bit_count((mask & (~mask + wp.uint32(1))) - wp.uint32(1)))


@wp.func
@no_type_check
def _total(own: wp.vec3ui, mask: wp.uint32) -> int:
    return int(wp.bit_count(own[0] & mask)) + int(wp.bit_count(own[1] & mask)) + int(wp.bit_count(own[2] & mask))


@wp.func
@no_type_check
def _rank(cells: _Cells, ranks: int, k: int, axis: int) -> int:
    """How many of a cell's own vertices come before the one on this axis."""
    mine = (ranks >> (2 * axis)) & 3
    before = int(0)
    for other in range(3):
        if ((ranks >> (2 * other)) & 3) < mine:
            before += int((cells.own[other] >> wp.uint32(k)) & wp.uint32(1))
    return before


@wp.kernel(enable_backward=False)
@no_type_check
def count(
    base: int,
    signs: wp.array(dtype=wp.uint32),
    size: wp.vec3i,
    words: int,
    border: int,
    triangles: wp.array(dtype=wp.int32),
    vertex_counts: wp.array(dtype=wp.int32),
    face_counts: wp.array(dtype=wp.int32),
):
    """Vertices and faces of 32 cells."""
    item = base + wp.tid()
    row = item / words
    cells = _load(signs, size, words, border, row / (size[1] - 1), row % (size[1] - 1), item % words)
    vertex_counts[item] = _total(cells.own, _ALL)
    total = int(0)
    rest = cells.active
    while rest != wp.uint32(0):
        total += triangles[_case(cells, _lowest(rest))]
        rest &= rest - wp.uint32(1)
    face_counts[item] = total


@wp.kernel(enable_backward=False)
@no_type_check
def emit(
    base: int,
    signs: wp.array(dtype=wp.uint32),
    size: wp.vec3i,
    words: int,
    border: int,
    triangles: wp.array(dtype=wp.int32),
    corners: wp.array(dtype=wp.int32),
    ranks: wp.array(dtype=wp.int32),
    vertex_ends: wp.array(dtype=wp.int32),
    face_ends: wp.array(dtype=wp.int32),
    face_counts: wp.array(dtype=wp.int32),
    edges: wp.array(dtype=wp.int64),
    faces: wp.array(dtype=wp.int64),
):
    """Write the crossed edges and the faces of 32 cells."""
    item = base + wp.tid()
    row = item / words
    w = item % words
    i = row / (size[1] - 1)
    j = row % (size[1] - 1)
    cells = _load(signs, size, words, border, i, j, w)
    owning = cells.own[0] | cells.own[1] | cells.own[2]
    vertex = int(0)
    if owning != wp.uint32(0):
        vertex = vertex_ends[item] - _total(cells.own, _ALL)
    while owning != wp.uint32(0):
        k = _lowest(owning)
        order = ranks[_case(cells, k)]
        for own in range(3):
            if ((cells.own[own] >> wp.uint32(k)) & wp.uint32(1)) != wp.uint32(0):
                x = i + int(own != 0)  # the own edges: from (0, 1, 0), (1, 0, 0) and (1, 1, 0)
                y = j + int(own != 1)
                number = (wp.int64(x) * wp.int64(size[1]) + wp.int64(y)) * wp.int64(size[2]) + wp.int64(32 * w + k)
                spot = vertex + _rank(cells, order, k, own)
                edges[spot] = number * wp.int64(3) + wp.int64(own)
        vertex += _total(cells.own, wp.uint32(1) << wp.uint32(k))
        owning &= owning - wp.uint32(1)

    out = 3 * (face_ends[item] - face_counts[item])
    active = cells.active
    while active != wp.uint32(0):
        k = _lowest(active)
        case = _case(cells, k)
        for n in range(3 * triangles[case]):
            edge = corners[15 * case + n]
            corner = edge / 3
            axis = edge % 3
            dx = corner & 1
            dy = (corner >> 1) & 1
            if axis != 0:
                dx -= 1
            if axis != 1:
                dy -= 1
            z = 32 * w + k + (corner >> 2)
            owner = _load(signs, size, words, border, i + dx, j + dy, z / 32)
            bit = z % 32
            below = (wp.uint32(1) << wp.uint32(bit)) - wp.uint32(1)
            place = ((i + dx) * (size[1] - 1) + j + dy) * words + z / 32
            first = vertex_ends[place] - _total(owner.own, ~below)
            faces[out] = wp.int64(first + _rank(owner, ranks[_case(owner, bit)], bit, axis))
            out += 1
        active &= active - wp.uint32(1)


@wp.kernel(enable_backward=False)
@no_type_check
def _place(
    base: int,
    edges: wp.array(dtype=wp.int64),
    values: wp.array(dtype=Any),
    size: wp.vec3i,
    iso: wp.float64,
    outside: wp.float64,
    positions: wp.array(dtype=Any),
):
    """Where the values cross the level on edges; around the grid they are `outside`."""
    item = base + wp.tid()
    axis = int(edges[item] % wp.int64(3))
    number = edges[item] / wp.int64(3)
    k = int(number % wp.int64(size[2])) - 1
    row = number / wp.int64(size[2])
    j = int(row % wp.int64(size[1])) - 1
    i = int(row / wp.int64(size[1])) - 1
    level = values.dtype(iso)
    a = _sample(values, size, i, j, k, values.dtype(outside))
    b = _sample(values, size, i + int(axis == 0), j + int(axis == 1), k + int(axis == 2), values.dtype(outside))
    share = (level - a) / (b - a)
    place = wp.vec3i(i, j, k)
    for n in range(3):
        coordinate = values.dtype(place[n])
        if n == axis:
            coordinate += share
        positions[3 * item + n] = coordinate


PLACE = {
    torch_type: wp.overload(_place, {"values": wp.array(dtype=warp_type), "positions": wp.array(dtype=warp_type)})
    for torch_type, warp_type in ((torch.float32, wp.float32), (torch.float64, wp.float64))
}
