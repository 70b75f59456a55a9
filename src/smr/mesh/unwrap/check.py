"""Is a flattened chart one to one? Folds, stretch, and borders that cross.

A connected chart without folded triangles covers a point as often as its border winds around it. So a border that does
not cross itself and has one counter-clockwise loop proves that no point is covered twice. A coarse raster catches what
that proof leaves open: borders that lie exactly on each other.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float64, Int32, Int64
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ...arrays import launch_chunked
from .deal import deal
from .flatten import singular_values
from .surface import Cut

MAX_STRETCH = 2.0
"""No triangle that is not a sliver is longer or shorter than this times its true size, in any direction."""


def faulty_charts(
    flat: Float64[np.ndarray, "G 3 2"], regular: Bool[np.ndarray, " G"], cut: Cut, uv: Float64[np.ndarray, "U 2"]
) -> Bool[np.ndarray, " C"]:
    """Charts that fold, stretch more than `MAX_STRETCH`, or cover a point twice."""
    values = singular_values(flat, uv[cut.faces])
    folded = values[:, 1] <= 1e-9
    stretched = regular & ((values[:, 0] > MAX_STRETCH) | (values[:, 1] < 1 / MAX_STRETCH))
    faulty = np.zeros(cut.count, bool)
    faulty[cut.charts[folded | stretched]] = True
    faulty |= ~_one_outer_loop(cut, uv)
    faulty |= _overlapping(cut, uv, faulty)
    return faulty


def border_edges(cut: Cut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start vertex, end vertex and chart of the charts' border edges, ordered by chart."""
    face, k = np.nonzero(cut.twins < 0)
    order = np.argsort(cut.charts[face], kind="stable")
    face, k = face[order], k[order]
    return cut.faces[face, k], cut.faces[face, (k + 1) % 3], cut.charts[face]


def planar_charts(cut: Cut) -> Bool[np.ndarray, " C"]:
    """Charts that could lie in the plane at all: with a border, and without handles (Euler's formula)."""
    start, end, chart = border_edges(cut)
    loops = _border_loops(start, end, len(cut.vertex_charts))
    chart_of_loop = np.zeros(int(loops.max(initial=-1)) + 1, np.int64)
    chart_of_loop[loops] = chart
    count = np.bincount(chart_of_loop, minlength=cut.count) if len(loops) else np.zeros(cut.count, np.int64)
    faces = np.bincount(cut.charts, minlength=cut.count)
    edges = (3 * faces + np.bincount(chart, minlength=cut.count)) // 2
    vertices = np.bincount(cut.vertex_charts, minlength=cut.count)
    planar: np.ndarray = (count > 0) & (vertices - edges + faces + count == 2)
    return planar


def _border_loops(
    start: Int32[np.ndarray, " E"], end: Int32[np.ndarray, " E"], vertices: int
) -> Int64[np.ndarray, " E"]:
    """Number the loops of border edges."""
    graph = coo_matrix((np.ones(len(start), np.int8), (start, end)), shape=(vertices, vertices))
    loop_of = connected_components(graph, directed=False)[1]
    loops: np.ndarray = np.unique(loop_of[start], return_inverse=True)[1]
    return loops


def _one_outer_loop(cut: Cut, uv: Float64[np.ndarray, "U 2"]) -> Bool[np.ndarray, " C"]:
    start, end, chart = border_edges(cut)
    n = len(uv)
    loops, loop_of = connected_components(
        coo_matrix((np.ones(len(start), np.int8), (start, end)), (n, n)), directed=False
    )
    a, b = uv[start], uv[end]
    area = np.bincount(loop_of[start], a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], loops)
    chart_of_loop = np.zeros(loops, np.int64)
    chart_of_loop[loop_of[start]] = chart
    one: np.ndarray = np.bincount(chart_of_loop[area > 0], minlength=cut.count) == 1
    return one


def _overlapping(cut: Cut, uv: Float64[np.ndarray, "U 2"], skip: Bool[np.ndarray, " C"]) -> Bool[np.ndarray, " C"]:
    """Charts whose border crosses itself, or in which two triangles cover the same point of a raster."""
    start, end, chart = border_edges(cut)
    border_start = np.searchsorted(chart, np.arange(cut.count + 1))
    length = np.linalg.norm(uv[end] - uv[start], axis=1)
    edges = np.diff(border_start)
    cell = np.bincount(chart, length, cut.count) / np.maximum(edges, 1)
    cell = np.where(cell > 0, cell, 1.0)
    face_order = np.argsort(cut.charts, kind="stable")
    face_start = np.searchsorted(cut.charts[face_order], np.arange(cut.count + 1))
    chart_low = np.full((cut.count, 2), np.inf)
    chart_high = np.full((cut.count, 2), -np.inf)
    np.minimum.at(chart_low, cut.vertex_charts, uv)
    np.maximum.at(chart_high, cut.vertex_charts, uv)
    extent = chart_high - chart_low
    step = np.sqrt(np.maximum(extent.prod(axis=1), 1e-12) / (4.0 * np.diff(face_start) + 16.0))
    step = np.maximum(step, extent.max(axis=1) / 2048)
    columns = np.ceil(extent / step[:, None]).astype(np.int64) + 1
    node_start = np.concatenate([[0], np.cumsum(12 * edges + 16)])
    table_start = np.concatenate([[0], np.cumsum(2 * edges + 1)])
    raster_start = np.concatenate([[0], np.cumsum(columns.prod(axis=1))])

    def ints(values: np.ndarray) -> wp.array:
        return wp.array(values.astype(np.int32), dtype=wp.int32, device="cpu")

    faulty = ints(skip)
    dealt = deal(np.diff(face_start))
    inputs = [
        ints(dealt.reshape(-1)),
        wp.array(uv, dtype=wp.vec2d, device="cpu"),
        *(ints(part) for part in (start, end, border_start)),
        wp.array(cell, dtype=wp.float64, device="cpu"),
        ints(table_start),
        wp.full(int(table_start[-1]), -1, dtype=wp.int32, device="cpu"),
        ints(node_start),
        wp.zeros((int(node_start[-1]), 2), dtype=wp.int32, device="cpu"),
        ints(cut.faces),
        ints(face_order),
        ints(face_start),
        wp.array(chart_low, dtype=wp.vec2d, device="cpu"),
        wp.array(step, dtype=wp.float64, device="cpu"),
        ints(columns),
        ints(raster_start),
        wp.zeros(int(raster_start[-1]), dtype=wp.int8, device="cpu"),
    ]
    launch_chunked(_find_overlaps, dealt.size, inputs, outputs=[faulty], device="cpu", chunks=len(dealt))
    return faulty.numpy() > 0


@wp.func
@no_type_check
def _side(a: wp.vec2d, b: wp.vec2d, p: wp.vec2d):
    """Distance of p from the line through a and b, positive on the left."""
    d = b - a
    return (d[0] * (p[1] - a[1]) - d[1] * (p[0] - a[0])) / wp.max(wp.length(d), wp.float64(1e-30))


@wp.func
@no_type_check
def _cross(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d, d: wp.vec2d, tolerance: wp.float64):
    p = _side(a, b, c)
    q = _side(a, b, d)
    r = _side(c, d, a)
    s = _side(c, d, b)
    across = wp.min(p, q) < -tolerance and wp.max(p, q) > tolerance
    return across and wp.min(r, s) < -tolerance and wp.max(r, s) > tolerance


@wp.func
@no_type_check
def _border_crosses(
    chart: int,
    uv: wp.array(dtype=wp.vec2d),
    start: wp.array(dtype=wp.int32),
    end: wp.array(dtype=wp.int32),
    border_start: wp.array(dtype=wp.int32),
    cell: wp.array(dtype=wp.float64),
    table_start: wp.array(dtype=wp.int32),
    table: wp.array(dtype=wp.int32),
    node_start: wp.array(dtype=wp.int32),
    nodes: wp.array2d(dtype=wp.int32),
):
    h = cell[chart]
    buckets = table_start[chart + 1] - table_start[chart]
    node = wp.int32(node_start[chart])
    budget = wp.int32(64 * (node_start[chart + 1] - node_start[chart]))
    for s in range(border_start[chart], border_start[chart + 1]):
        a = uv[start[s]]
        b = uv[end[s]]
        pieces = wp.int32(wp.length(b - a) / h) + 1
        for piece in range(pieces):
            p = a + (b - a) * (wp.float64(piece) / wp.float64(pieces))
            q = a + (b - a) * (wp.float64(piece + 1) / wp.float64(pieces))
            for x in range(wp.int32(wp.floor(wp.min(p[0], q[0]) / h)), wp.int32(wp.floor(wp.max(p[0], q[0]) / h)) + 1):
                for y in range(
                    wp.int32(wp.floor(wp.min(p[1], q[1]) / h)), wp.int32(wp.floor(wp.max(p[1], q[1]) / h)) + 1
                ):
                    mixed = (wp.uint32(x) * wp.uint32(73856093)) ^ (wp.uint32(y) * wp.uint32(19349663))
                    bucket = table_start[chart] + wp.int32(mixed % wp.uint32(buckets))
                    other = wp.int32(table[bucket])
                    while other >= 0:
                        t = nodes[other, 0]
                        budget = budget - 1
                        apart = start[s] != end[t] and end[s] != start[t] and s != t
                        if apart and _cross(a, b, uv[start[t]], uv[end[t]], wp.float64(1e-6) * h):
                            return 1
                        other = nodes[other, 1]
                    if node == node_start[chart + 1] or budget < 0:
                        return 1
                    nodes[node, 0] = s
                    nodes[node, 1] = table[bucket]
                    table[bucket] = node
                    node = node + 1
    return 0


@wp.kernel(enable_backward=False)
@no_type_check
def _find_overlaps(
    base: int,
    dealt: wp.array(dtype=wp.int32),
    uv: wp.array(dtype=wp.vec2d),
    start: wp.array(dtype=wp.int32),
    end: wp.array(dtype=wp.int32),
    border_start: wp.array(dtype=wp.int32),
    cell: wp.array(dtype=wp.float64),
    table_start: wp.array(dtype=wp.int32),
    table: wp.array(dtype=wp.int32),
    node_start: wp.array(dtype=wp.int32),
    nodes: wp.array2d(dtype=wp.int32),
    faces: wp.array2d(dtype=wp.int32),
    face_order: wp.array(dtype=wp.int32),
    face_start: wp.array(dtype=wp.int32),
    low: wp.array(dtype=wp.vec2d),
    step: wp.array(dtype=wp.float64),
    columns: wp.array2d(dtype=wp.int32),
    raster_start: wp.array(dtype=wp.int32),
    raster: wp.array(dtype=wp.int8),
    faulty: wp.array(dtype=wp.int32),
):
    chart = dealt[base + wp.tid()]
    if chart < 0:
        return
    if faulty[chart] != 0 or face_start[chart + 1] - face_start[chart] < 2:
        return
    if _border_crosses(chart, uv, start, end, border_start, cell, table_start, table, node_start, nodes) != 0:
        faulty[chart] = 1
        return
    h = step[chart]
    slack = wp.float64(1e-6) * h
    for i in range(face_start[chart], face_start[chart + 1]):
        f = face_order[i]
        a = (uv[faces[f, 0]] - low[chart]) / h
        b = (uv[faces[f, 1]] - low[chart]) / h
        c = (uv[faces[f, 2]] - low[chart]) / h
        x0 = wp.int32(wp.ceil(wp.min(a[0], wp.min(b[0], c[0]))))
        x1 = wp.int32(wp.floor(wp.max(a[0], wp.max(b[0], c[0]))))
        y0 = wp.int32(wp.ceil(wp.min(a[1], wp.min(b[1], c[1]))))
        y1 = wp.int32(wp.floor(wp.max(a[1], wp.max(b[1], c[1]))))
        for y in range(y0, y1 + 1):
            for x in range(x0, x1 + 1):
                p = wp.vec2d(wp.float64(x), wp.float64(y))
                if _side(a, b, p) > slack and _side(b, c, p) > slack and _side(c, a, p) > slack:
                    place = raster_start[chart] + y * columns[chart, 0] + x
                    if raster[place] != wp.int8(0):
                        faulty[chart] = 1
                        return
                    raster[place] = wp.int8(1)
