"""The cases of dual marching cubes: which of a cell's crossed edges share a vertex (Nielson 2004).

Corner `c` of a cell lies at `(c & 1, c >> 1 & 1, c >> 2)`; bit `c` of a case is set where it is inside. A vertex stands
for one polygon of `smr.tsdf.cube_table`: there the inside corners of a side with four crossings are joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Int64

from ...tsdf.cube_table import FACES, _loops

EDGES = tuple((c, c + (1 << axis)) for axis in range(3) for c in range(8) if not c >> axis & 1)
"""The twelve edges by their corners: four along x, four along y, four along z."""


@dataclass(frozen=True)
class DualTables:
    """All 256 cases; row `256 + case` is the case with its outside corners joined instead."""

    counts: Int64[np.ndarray, " 512"]
    """Vertices of a case."""
    of_edges: Int64[np.ndarray, "512 12"]
    """The vertex that stands for a crossed edge; -1 where it is not crossed."""
    risky_sides: Int64[np.ndarray, " 256"]
    """A side with four crossings that all belong to one vertex, in cases that have but one such side; else -1.

    Where two cells share such a side, the edge between their vertices would have four faces.
    """


@lru_cache(maxsize=1)
def dual_tables() -> DualTables:
    """The tables, made once."""
    rows = [_of_edges(case) for case in range(256)]
    turned = [_of_edges(255 - case) for case in range(256)]
    of_edges = np.array(rows + turned, np.int64)
    counts = of_edges.max(axis=1) + 1
    return DualTables(counts, of_edges, np.array([_risky_side(case, rows[case]) for case in range(256)], np.int64))


def _of_edges(case: int) -> list[int]:
    numbers = {(a, a + (1 << axis)): -1 for a, b in EDGES for axis in range(3) if b - a == 1 << axis}
    for number, loop in enumerate(_loops(case)):
        for edge in loop:
            numbers[(edge // 3, edge // 3 + (1 << edge % 3))] = number
    return [numbers[edge] for edge in EDGES]


def _risky_side(case: int, of_edges: list[int]) -> int:
    ambiguous = [
        side for side, ring in enumerate(FACES) if all((case >> ring[k] ^ case >> ring[k - 1]) & 1 for k in range(4))
    ]
    if len(ambiguous) != 1:
        return -1
    ring = set(FACES[ambiguous[0]])
    around = {of_edges[n] for n, ends in enumerate(EDGES) if set(ends) <= ring}
    return ambiguous[0] if len(around) == 1 else -1
