"""The cases of marching cubes on dense grids: the polygons of `smr.tsdf.cube_table`, in the order that others expect.

Corner `c` of a cell lies at `(c & 1, c >> 1 & 1, c >> 2)`; edge `3 c + axis` leaves corner `c` along `axis`. Bit `c` of
a case is set where the corner is inside. A cell owns the vertices on the three edges that meet at its corner (1, 1, 0):
each crossed edge of a grid with one layer of cells around it is owned by one cell. Cells are numbered, z fastest.

Where code written for Kaolin can tell the difference, by the order of vertices and faces that its tests pin down, the
triangles of a case come in that order, with those diagonals; the other cases as `cube_table` cuts them. The
polygons are the same, so neighbouring cells fit in all cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Int32

from ...tsdf.cube_table import triangle_table

OWNED = (6, 4, 11)
"""The edges along x, y and z that a cell owns."""

_PINNED = """
1:012 2:405 3:125154 4:681 5:682620 6:546856510581 8:b64 9:204b242612b6 10:05b0b6 12:81484b 16:dc2 17:01d0dc
18:dc54d5d02d40 19:dc54d51d4 20:c216c1c8dc68 32:g5c 33:g501g0g2cg12 34:40c4cg 48:g52g2d 49:g501g0dg1 64:8id
65:018i080d20id 68:id1i16 72:d864d6dbid4b 77:4bi4id04d20d 80:8ic8c2 84:c216c1ic6 85:0ic06i 86:1024c546c6ic
92:1424i2ic2i4b 96:8ig58g8cd85c 105:cd2045618big 128:bgi 129:012ibg 130:ib40i4i5gi05 132:16bg1b1i81gi 136:gi6g64
138:05gi0g60i 144:2dib2i2gc2bg 145:b1dibdb01cbgbc0 146:ibdb4d42d2405gc 160:5ci5ib 168:645c65i6c 170:i0c60i
192:bgdbd8 195:8b1b412gd25g 197:0626g2gd26bg 208:bgc2bc8b2
"""


@dataclass(frozen=True)
class CubeTables:
    """All 256 cases."""

    counts: Int32[np.ndarray, " 256"]
    """Triangles of a case."""
    corners: Int32[np.ndarray, "256 15"]
    """Edges of the triangles' corners, counter-clockwise seen from outside; filled up with 0."""
    ranks: Int32[np.ndarray, " 256"]
    """Two bits an axis: how many of the cell's own axes have their vertex before this one, if all are crossed.

    Of two crossed axes the one of lower rank comes first.
    """


@lru_cache(maxsize=1)
def cube_tables() -> CubeTables:
    """The tables, made once."""
    first, edges = triangle_table()
    counts = (first & 15).astype(np.int32)
    corners = np.zeros((256, 15), np.int32)
    for case in range(256):
        start, size = 3 * (int(first[case]) >> 4), 3 * int(counts[case])
        corners[case, :size] = edges[start : start + size]
    for entry in _PINNED.split():
        pinned, digits = entry.split(":")
        corners[int(pinned), : len(digits)] = [int(digit, 36) for digit in digits]
    ranks = np.array([_ranks(corners[case, : 3 * counts[case]].tolist()) for case in range(256)], np.int32)
    return CubeTables(counts, corners, ranks)


def _ranks(corners: list[int]) -> int:
    """A cell's own vertices are numbered as its triangles first name them, each read from its last corner."""
    named = [corner for k in range(0, len(corners), 3) for corner in corners[k : k + 3][::-1]]
    order = [OWNED.index(edge) for edge in dict.fromkeys(named) if edge in OWNED]
    order += [axis for axis in range(3) if axis not in order]
    return sum(order.index(axis) << 2 * axis for axis in range(3))
