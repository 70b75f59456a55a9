"""The 256 cases of marching cubes, derived instead of copied.

Corner `c` of a cell lies at `(c & 1, c >> 1 & 1, c >> 2)`. Edge `3 c + axis` leaves corner `c` along `axis`; only edges
that stay in the cell exist. On a face with four crossings the two inside corners are always joined: the rule reads the
same from both cells at that face, so no crack can open (compare Dürst 1988, Nielson and Hamann 1991), and a sheet one
voxel thick stays whole at any angle to the grid.
Polygons are cut into triangles by diagonals that do not lie in a face, so that no edge gets more than two triangles.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
from jaxtyping import Int32

MAX_TRIANGLES = 5

Loop = tuple[int, ...]
Triangle = tuple[int, int, int]


@lru_cache(maxsize=1)
def triangle_table() -> tuple[Int32[np.ndarray, " 256"], Int32[np.ndarray, " T"]]:
    """Triangles of every case: `(first, corners)`.

    Bit `c` of a case is set where corner `c` is inside (below the level). Case `k` has the triangles
    `first[k] >> 4 ... + (first[k] & 15)` of the list; a triangle is three edges, counter-clockwise seen from outside.
    """
    first: list[int] = []
    corners: list[int] = []
    for case in range(256):
        triangles = [triangle for loop in _loops(case) for triangle in _triangulate(loop)]
        first.append((len(corners) // 3) << 4 | len(triangles))
        corners.extend(edge for triangle in triangles for edge in triangle)
    return np.array(first, np.int32), np.array(corners, np.int32)


def _edge(a: int, b: int) -> int:
    low, axis = min(a, b), (a ^ b).bit_length() - 1
    return 3 * low + axis


def _faces() -> list[tuple[int, int, int, int]]:
    """The corners of the six faces, counter-clockwise seen from outside the cell."""
    faces = []
    for axis, side in product(range(3), range(2)):
        u, v = 1 << (axis + 1) % 3, 1 << (axis + 2) % 3
        start = side << axis
        ring = (start, start + u, start + u + v, start + v)
        faces.append(ring if side else ring[::-1])
    return faces


FACES = _faces()


def _loops(case: int) -> list[Loop]:
    """Closed polygons of crossed edges.

    Walking round a face counter-clockwise, a run of outside corners begins where the inside is left over one edge and
    ends where it is entered over another. The segment from where it is entered to where it is left keeps the inside on
    its left, seen from outside the cell.
    """
    after: dict[int, int] = {}
    for face in FACES:
        inside = [bool(case >> corner & 1) for corner in face]
        for i in range(4):
            if inside[i - 1] and not inside[i]:  # the run that starts at i
                j = i
                while not inside[(j + 1) % 4]:
                    j += 1
                left = _edge(face[i - 1], face[i])
                entered = _edge(face[j % 4], face[(j + 1) % 4])
                after[entered] = left
    loops = []
    while after:
        loop = [next(iter(after))]
        while (following := after.pop(loop[-1])) != loop[0]:
            loop.append(following)
        loops.append(tuple(loop))
    return loops


def _in_one_face(a: int, b: int) -> bool:
    ends = {a // 3, a // 3 + (1 << a % 3), b // 3, b // 3 + (1 << b % 3)}
    return any(ends <= set(face) for face in FACES)


def _triangulate(loop: Loop) -> list[Triangle]:
    """Cut a polygon into triangles by diagonals that do not lie in a face of the cell."""
    found = _cut(loop)
    assert found is not None, loop
    return found


def _cut(loop: Loop) -> list[Triangle] | None:
    if len(loop) == 3:
        return [(loop[0], loop[1], loop[2])]
    for k in range(2, len(loop)):  # the triangle on the side loop[0] - loop[1], with its tip at k
        left, right = loop[1 : k + 1], (loop[0], *loop[k:])
        diagonals = [(side[0], side[-1]) for side in (left,) if len(side) > 2]
        diagonals += [(right[0], right[1])] if len(right) > 2 else []
        if any(_in_one_face(*diagonal) for diagonal in diagonals):
            continue
        parts = [_cut(side) if len(side) > 2 else [] for side in (left, right)]
        if parts[0] is not None and parts[1] is not None:
            return [(loop[0], loop[1], loop[k]), *parts[0], *parts[1]]
    return None
