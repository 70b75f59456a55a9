"""Marching tetrahedra (Doi and Koide 1991): the zero level of values at the vertices of tetrahedra, differentiable.

O(T log T) time for the sort that makes shared vertices shared, O(T) memory.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from ..segments import take_rows
from ..tensors import FLOATS, INDICES, check_finite, check_indices, check_same_device, check_tensor

_EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


@lru_cache(maxsize=1)
def _tables() -> tuple[torch.Tensor, torch.Tensor]:
    """Number of triangles of every case, and the edges of their corners; bit i is set where corner i is above zero.

    A corner that differs from the other three is cut off by one triangle, two pairs are parted by a square. Triangles
    are counter-clockwise seen from the corners above zero, in a tetrahedron of positive orientation.
    """
    counts, rows = [], []
    for case in range(16):
        above = [i for i in range(4) if case >> i & 1]
        below = [i for i in range(4) if not case >> i & 1]
        triangles: list[tuple[tuple[int, int], ...]] = []
        if len(above) in (1, 3):
            lone, others = (above[0], below) if len(above) == 1 else (below[0], above)
            first, second, third = others
            ring = (third, first, second) if lone % 2 == 0 else (second, first, third)
            ring = ring if len(above) == 3 else ring[::-1]
            triangles = [tuple((lone, other) for other in ring)]
        elif len(above) == 2:
            (a, b), (c, d) = below, above
            flips = sum(i > j for k, i in enumerate((a, b, c, d)) for j in (a, b, c, d)[k + 1 :])
            triangles = [((b, d), (a, c), (a, d)), ((b, d), (b, c), (a, c))]
            triangles = [(t[0], t[2], t[1]) for t in triangles] if flips % 2 else triangles
        edges = [_EDGES.index((min(edge), max(edge))) for triangle in triangles for edge in triangle]
        counts.append(len(triangles))
        rows.append(edges + [0] * (6 - len(edges)))
    return torch.tensor(counts), torch.tensor(rows)


def marching_tetrahedra(
    vertices: torch.Tensor, tetrahedra: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mesh of the surface where values change their sign.

    Args:
        vertices: (V, 3).
        tetrahedra: (T, 4).
        values: (V,); not above zero is inside.

    Returns:
        Vertices (W, 3), one on each edge whose ends differ, sorted by the ends, differentiable with respect to
        `vertices` and `values`; faces (F, 3) int64, counter-clockwise seen from outside where tetrahedra are of
        positive orientation; the tetrahedron of each face (F,). First those with one triangle, then those with two.

    Raises:
        TypeError: Wrong types.
        ValueError: Wrong shapes, an index out of range, a value that is not finite.
    """
    check_tensor("vertices", vertices, (None, 3), FLOATS)
    check_tensor("tetrahedra", tetrahedra, (None, 4), INDICES)
    check_tensor("values", values, (len(vertices),), FLOATS)
    check_same_device(vertices=vertices, tetrahedra=tetrahedra, values=values)
    check_indices("tetrahedra", tetrahedra, len(vertices))
    check_finite("values", values)
    counts, table = (t.to(vertices.device) for t in _tables())
    above = values.detach() > 0
    tetrahedra = tetrahedra.long()
    bits = above[tetrahedra].long() << torch.arange(4, device=vertices.device)
    case = bits.sum(dim=1)
    crossing = counts[case].nonzero()[:, 0]
    case = case[crossing]
    ends = tetrahedra[crossing][:, _EDGES].sort(dim=2).values
    crossed = above[ends[..., 0]] != above[ends[..., 1]]
    first, second = ends[crossed].unbind(1)
    keys, number = torch.unique(first * len(vertices) + second, return_inverse=True)
    numbers = torch.full(crossed.shape, -1, device=vertices.device)
    numbers[crossed] = number

    pairs = torch.stack([keys // max(len(vertices), 1), keys % max(len(vertices), 1)], dim=1).reshape(-1)
    places = take_rows(vertices, pairs).unflatten(0, (-1, 2))
    at = take_rows(values[:, None], pairs).unflatten(0, (-1, 2))
    points = (places[:, 0] * at[:, 1] - places[:, 1] * at[:, 0]) / (at[:, 1] - at[:, 0])

    corners = numbers.gather(1, table[case]).reshape(-1, 2, 3)
    one, two = counts[case] == 1, counts[case] == 2
    faces = torch.cat([corners[one, 0], corners[two].reshape(-1, 3)])
    return points, faces, torch.cat([crossing[one], crossing[two].repeat_interleave(2)])
