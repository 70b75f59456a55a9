"""Polygons cut into triangles."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Int64

_TESTS = 200_000
"""Point-in-triangle tests spent on concave polygons of one file; what is left after them is cut as a fan."""


def triangulate(
    vertices: Float[np.ndarray, "V 3"], loops: Int[np.ndarray, " C"], sizes: Int[np.ndarray, " P"]
) -> tuple[Int64[np.ndarray, "F 3"], Int64[np.ndarray, " F"], int]:
    """Cut polygons of three corners and more; convex ones as a fan, concave ones by clipping ears.

    Args:
        vertices: Positions.
        loops: Vertex index of each corner, polygon after polygon.
        sizes: Corners of each polygon; those with fewer than three give no triangle.

    Returns:
        For each triangle its three corners as indices into `loops`; its polygon; and the number of concave polygons
        that were cut as a fan because they are too large to be clipped.
    """
    sizes = sizes.astype(np.int64)
    first = np.cumsum(sizes) - sizes
    counts = np.maximum(sizes - 2, 0)
    place = np.cumsum(counts) - counts
    triangles = np.empty((int(counts.sum()), 3), np.int64)
    budget = _TESTS
    fans = 0
    for size in np.unique(sizes[sizes >= 3]):
        chosen = np.flatnonzero(sizes == size)
        step = max(1, (1 << 21) // int(size))  # bounds the memory
        for begin in range(0, len(chosen), step):
            part = chosen[begin : begin + step]
            corners = first[part, None] + np.arange(size)
            cut, budget, refused = _cut(vertices[loops[corners]], budget)
            fans += refused
            local = place[part, None] + np.arange(size - 2)
            triangles[local] = np.take_along_axis(corners, cut.reshape(len(part), -1), axis=1).reshape(cut.shape)
    return triangles, np.repeat(np.arange(len(sizes)), counts), fans


def _cut(points: np.ndarray, budget: int) -> tuple[np.ndarray, int, int]:
    """Triangles of polygons of one size (P×n×3 points) as P×(n-2)×3 corner numbers."""
    count, size, _ = points.shape
    steps = np.arange(1, size - 1)
    fan = np.stack([np.zeros_like(steps), steps, steps + 1], axis=1)
    cut = np.broadcast_to(fan, (count, size - 2, 3)).copy()
    if size == 3:
        return cut, budget, 0
    following = np.roll(points, -1, axis=1)
    normal = np.cross(points - points[:, :1], following - points[:, :1]).sum(axis=1)  # Newell's: twice the area
    edges = following - points
    turns = np.einsum("pki,pi->pk", np.cross(np.roll(edges, 1, axis=1), edges), normal)
    with np.errstate(invalid="ignore", over="ignore"):
        bent = (turns < -1e-9 * np.abs(turns).max(axis=1, keepdims=True)).any(axis=1)
    if size == 4:  # the other diagonal is right where corner 1 or 3 turns inwards
        cut[bent & (turns[:, [1, 3]].min(axis=1) < 0)] = [[0, 1, 3], [1, 2, 3]]
        return cut, budget, 0
    refused = 0
    for i in np.flatnonzero(bent):
        clipped, budget = _clip_ears(points[i], normal[i], budget)
        if clipped is None:
            refused += 1
        else:
            cut[i] = clipped
    return cut, budget, refused


def _clip_ears(points: np.ndarray, normal: np.ndarray, budget: int) -> tuple[np.ndarray | None, int]:
    """Meisters' ear clipping in the polygon's plane; None where the budget of tests ends before."""
    drop = int(np.abs(normal).argmax())
    axes = [axis for axis in range(3) if axis != drop]
    flat = points[:, axes]
    if (normal[drop] < 0) != (drop == 1):  # keep the winding counter-clockwise in the plane
        flat = flat[:, ::-1]
    remaining = list(range(len(points)))
    triangles = []
    at = 0
    misses = 0
    while len(remaining) > 3:
        if budget <= 0:
            return None, 0
        size = len(remaining)
        before, tip, after = remaining[at - 1], remaining[at % size], remaining[(at + 1) % size]
        budget -= 1
        if misses > size or _is_ear(flat, remaining, before, tip, after):  # nothing is an ear: it crosses itself
            triangles.append((before, tip, after))
            remaining.pop(at % size)
            misses = 0
            at = (at - 1) % (size - 1)
        else:
            at = (at + 1) % size
            misses += 1
    triangles.append((remaining[0], remaining[1], remaining[2]))
    return np.array(triangles), budget


def _is_ear(flat: np.ndarray, remaining: list[int], before: int, tip: int, after: int) -> bool:
    a, b, c = flat[before], flat[tip], flat[after]
    if _turn(a, b, c) <= 0:
        return False
    others = flat[[i for i in remaining if i not in (before, tip, after)]]
    inside = (_turn(a, b, others) >= 0) & (_turn(b, c, others) >= 0) & (_turn(c, a, others) >= 0)
    at_corner = (others == a).all(axis=1) | (others == b).all(axis=1) | (others == c).all(axis=1)
    return not bool((inside & ~at_corner).any())


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    turn: np.ndarray = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
        c[..., 0] - a[..., 0]
    )
    return turn
