"""Polygons cut into triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int64

_TESTS = 100_000_000
"""Point-in-triangle tests spent on concave polygons of one file; what is left after them is cut as a fan."""
_TOGETHER = 64
"""Concave polygons of up to so many corners are clipped many at a time."""


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
    flat = _in_plane(points[bent], normal[bent])
    if size <= _TOGETHER:
        budget -= len(flat) * size**3 // 3
        if budget <= 0:
            return cut, 0, len(flat)
        cut[bent] = _clip_together(flat)
        return cut, budget, 0
    refused = 0
    for i, outline in zip(np.flatnonzero(bent), flat, strict=True):
        clipped, budget = _clip_ears(outline, budget)
        if clipped is None:
            refused += 1
        else:
            cut[i] = clipped
    return cut, budget, refused


def _in_plane(points: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Polygons (P×n×3) along the axis of their normal, counter-clockwise, as P×n×2."""
    drop = np.abs(normal).argmax(axis=1)
    axes = np.array([[1, 2], [2, 0], [0, 1]])[drop]
    axes = np.where(np.take_along_axis(normal, drop[:, None], axis=1) < 0, axes[:, ::-1], axes)
    return np.take_along_axis(points, axes[:, None, :], axis=2)


def _clip_together(flat: np.ndarray) -> np.ndarray:
    """Meisters' ear clipping of many small polygons of one size at once."""
    count, size, _ = flat.shape
    triangles = np.empty((count, size - 2, 3), np.int64)
    step = max(1, (1 << 20) // (size * size))
    for begin in range(0, count, step):
        part = flat[begin : begin + step]
        left = np.broadcast_to(np.arange(size), (len(part), size)).copy()
        rows = np.arange(len(part))
        for done in range(size - 3):
            tip = np.take_along_axis(part, left[:, :, None], axis=1)
            before, after = np.roll(tip, 1, axis=1), np.roll(tip, -1, axis=1)
            a, b, c, other = before[:, :, None], tip[:, :, None], after[:, :, None], tip[:, None]
            inside = (_turn(a, b, other) >= 0) & (_turn(b, c, other) >= 0) & (_turn(c, a, other) >= 0)
            inside &= ~((other == a).all(axis=3) | (other == b).all(axis=3) | (other == c).all(axis=3))
            ear = (_turn(before, tip, after) > 0) & ~inside.any(axis=2)
            chosen = ear.argmax(axis=1)  # the first; corner 0 where nothing is an ear: it crosses itself
            remaining = left.shape[1]
            triangles[begin : begin + step, done] = np.stack(
                [left[rows, (chosen - 1) % remaining], left[rows, chosen], left[rows, (chosen + 1) % remaining]], axis=1
            )
            keep = np.arange(remaining) != chosen[:, None]
            left = left[keep].reshape(len(part), remaining - 1)
        triangles[begin : begin + step, size - 3] = left
    return triangles


def _clip_ears(flat: np.ndarray, budget: int) -> tuple[np.ndarray | None, int]:
    """The same for one large polygon; None where the budget of tests ends before."""
    left = np.arange(len(flat))
    triangles = []
    at = misses = 0
    while len(left) > 3:
        if budget <= 0:
            return None, 0
        size = len(left)
        before, tip, after = left[at - 1], left[at], left[(at + 1) % size]
        a, b, c, other = flat[before], flat[tip], flat[after], flat[left]
        budget -= 5 * size + 1000  # in units of the tests above
        ear = _turn(a, b, c) > 0
        if ear:
            inside = (_turn(a, b, other) >= 0) & (_turn(b, c, other) >= 0) & (_turn(c, a, other) >= 0)
            inside &= ~((other == a).all(axis=1) | (other == b).all(axis=1) | (other == c).all(axis=1))
            ear = not inside.any()
        if ear or misses > size:  # nothing is an ear: it crosses itself
            triangles.append((before, tip, after))
            left = np.delete(left, at)
            misses = 0
            at = (at - 1) % (size - 1)
        else:
            at = (at + 1) % size
            misses += 1
    triangles.append((left[0], left[1], left[2]))
    return np.array(triangles), budget


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    """Twice the signed area of triangles in the plane; positive counter-clockwise."""
    return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
