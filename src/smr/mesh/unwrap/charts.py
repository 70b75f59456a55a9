"""Faces to charts: greedy merging of neighbouring clusters, the cheapest pair first.

After the face clustering of Garland, Willmott, Heckbert (2001) with the normal-based error of Cohen-Steiner, Alliez,
Desbrun (Variational Shape Approximation, 2004): a cluster of area A whose area-weighted normals sum to S costs
A - |S|, so what a union costs more than its parts needs only two numbers a cluster.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float64, Int32

from ...arrays import launch_chunked
from .surface import Surface

WORK_PER_EDGE = 64
"""Merging stops after this many steps an edge: what is left is more charts, never a hang."""


FLAT_COST = wp.constant(0.02)
ROUND_POWER = wp.constant(1.0)


def cluster(
    surface: Surface,
    labels: Int32[np.ndarray, " F"],
    piles: Int32[np.ndarray, " F"],
    limit: Float64[np.ndarray, " F"],
    largest: Float64[np.ndarray, " F"],
    normals: Float64[np.ndarray, "F 3"],
) -> Int32[np.ndarray, " F"]:
    """Merge faces into charts inside the given labels.

    Args:
        surface: The mesh.
        labels: Only faces of the same label are merged.
        piles: Ascending numbers of the groups that are worked on in parallel; a label's faces are all in one.
        limit: Least mean cosine between a part's normals and those of the chart that it joins; the same for all faces
            of a label.
        largest: Largest area of a chart; the same for all faces of a label.
        normals: What steers the merging; smoothed against noise.

    Returns:
        For each face the index of a face that stands for its cluster.
    """
    n = len(labels)
    across = surface.twins // 3
    joined = (surface.twins >= 0) & (labels[across] == labels[:, None])
    area = np.maximum(surface.areas, 1e-12)
    weighted = normals * area[:, None]
    target = np.where(joined, across, -1).astype(np.int32).ravel()
    pile_faces = np.searchsorted(piles, np.arange(int(piles[-1]) + 2)).astype(np.int32)
    edges = np.add.reduceat(joined.sum(axis=1), pile_faces[:-1])
    pile_heap = np.concatenate([[0], np.cumsum(np.maximum(64, 5 * edges))]).astype(np.int32)
    arrays = [
        wp.array(pile_faces, dtype=wp.int32, device="cpu"),
        wp.array(pile_heap, dtype=wp.int32, device="cpu"),
        wp.array(WORK_PER_EDGE * np.maximum(edges, 1), dtype=wp.int64, device="cpu"),
        wp.array(target, dtype=wp.int32, device="cpu"),
        wp.array(np.maximum(surface.lengths.ravel(), 1e-9), dtype=wp.float64, device="cpu"),
        wp.array(limit, dtype=wp.float64, device="cpu"),
        wp.array(largest, dtype=wp.float64, device="cpu"),
        wp.array(area, dtype=wp.float64, device="cpu"),
        wp.array(surface.lengths.sum(axis=1), dtype=wp.float64, device="cpu"),
        wp.array(weighted, dtype=wp.vec3d, device="cpu"),
    ]
    scratch = [
        wp.zeros(3 * n, dtype=wp.int32, device="cpu"),  # next edge in the cluster's list
        wp.zeros(n, dtype=wp.int32, device="cpu"),  # last edge of the list
        wp.zeros(3 * n, dtype=wp.int32, device="cpu"),  # stamp of the edge's newest heap entry
        wp.zeros(n, dtype=wp.int32, device="cpu"),  # merges that a cluster has seen
        wp.zeros(n, dtype=wp.int32, device="cpu"),  # which union last met this cluster
        wp.zeros(n, dtype=wp.int32, device="cpu"),  # by which edge
        wp.empty(int(pile_heap[-1]), dtype=wp.vec4d, device="cpu"),
        wp.zeros(n, dtype=wp.int32, device="cpu"),  # first edge of the list
    ]
    out = wp.array(np.arange(n, dtype=np.int32), dtype=wp.int32, device="cpu")
    launch_chunked(
        _merge, len(edges), [*arrays, *scratch], outputs=[out], device="cpu", chunks=len(edges)
    )  # each pile is a serial program
    return out.numpy()


def smooth_normals(surface: Surface, rounds: int) -> Float64[np.ndarray, "F 3"]:
    """Average each face's normal with its neighbours' by area, so that noise does not steer the charts."""
    normals = surface.normals
    across = surface.twins // 3
    there = (surface.twins >= 0)[..., None]
    for _ in range(rounds):
        weighted = normals * surface.areas[:, None]
        total = weighted + np.where(there, weighted[across], 0.0).sum(axis=1)
        length = np.linalg.norm(total, axis=1, keepdims=True)
        normals = np.divide(total, length, out=normals.copy(), where=length > 1e-18)
    return normals


@wp.func
@no_type_check
def _before(a: wp.vec4d, b: wp.vec4d):
    # Entries of the heap are unions that could be made: their cost, the edge between the clusters, and the edge's stamp
    # and the other cluster's version then; an entry holds while neither has changed.
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1])


@wp.func
@no_type_check
def _sift_down(heap: wp.array(dtype=wp.vec4d), at: wp.int32, start: wp.int32, size: wp.int32):
    entry = heap[at + start]
    hole = wp.int32(start)
    child = wp.int32(2 * start + 1)
    while child < size:
        if child + 1 < size:  # noqa: SIM102 (Warp evaluates both sides of `and`)
            if _before(heap[at + child + 1], heap[at + child]):
                child = child + 1
        if not _before(heap[at + child], entry):
            break
        heap[at + hole] = heap[at + child]
        hole = wp.int32(child)
        child = 2 * hole + 1
    heap[at + hole] = entry


@wp.func
@no_type_check
def _sift_up(heap: wp.array(dtype=wp.vec4d), at: wp.int32, start: wp.int32):
    entry = heap[at + start]
    hole = wp.int32(start)
    while hole > 0:
        above = (hole - 1) // 2
        if not _before(entry, heap[at + above]):
            break
        heap[at + hole] = heap[at + above]
        hole = wp.int32(above)
    heap[at + hole] = entry


@wp.func
@no_type_check
def _find(root: wp.array(dtype=wp.int32), face: wp.int32):
    node = wp.int32(face)
    while root[node] != node:
        root[node] = root[root[node]]
        node = root[node]
    return node


@wp.func
@no_type_check
def _union_cost(
    area_a: wp.float64,
    area_b: wp.float64,
    sum_a: wp.vec3d,
    sum_b: wp.vec3d,
    border_a: wp.float64,
    border_b: wp.float64,
    shared: wp.float64,
    limit: wp.float64,
    largest: wp.float64,
):
    """What the union costs; negative where the limits forbid it."""
    area = area_a + area_b
    total = sum_a + sum_b
    together = wp.length(total)
    # Each part by itself must face the common way: else a large flat part would pass with anything attached.
    least = limit * together
    if area > largest or wp.dot(sum_a, total) < least * area_a or wp.dot(sum_b, total) < least * area_b:
        return wp.float64(-1.0)
    bend = wp.length(sum_a) + wp.length(sum_b) - together
    border = wp.max(border_a + border_b - wp.float64(2.0) * shared, wp.float64(1e-9))
    roundness = border / wp.sqrt(wp.float64(4.0 * 3.141592653589793) * area)
    return (wp.max(bend, wp.float64(0.0)) + wp.float64(FLAT_COST) * wp.min(area_a, area_b)) * wp.pow(
        roundness, wp.float64(ROUND_POWER)
    )


@wp.func
@no_type_check
def _heapify(heap: wp.array(dtype=wp.vec4d), at: wp.int32, size: wp.int32):
    start = size // 2 - 1
    while start >= 0:
        _sift_down(heap, at, start, size)
        start = start - 1


@wp.func
@no_type_check
def _link(
    begin: wp.int32,
    end: wp.int32,
    target: wp.array(dtype=wp.int32),
    following: wp.array(dtype=wp.int32),
    first: wp.array(dtype=wp.int32),
    last: wp.array(dtype=wp.int32),
):
    """Make the list of each face's outgoing edges."""
    for f in range(begin, end):
        first[f] = -1
        for k in range(3):
            e = 3 * f + k
            following[e] = -1
            if target[e] >= 0:
                if first[f] < 0:
                    first[f] = e
                else:
                    following[last[f]] = e
                last[f] = e


@wp.func
@no_type_check
def _append(
    a: wp.int32,
    b: wp.int32,
    following: wp.array(dtype=wp.int32),
    first: wp.array(dtype=wp.int32),
    last: wp.array(dtype=wp.int32),
):
    """Put b's list behind a's."""
    if first[b] >= 0:
        if first[a] < 0:
            first[a] = first[b]
        else:
            following[last[a]] = first[b]
        last[a] = last[b]


@wp.func
@no_type_check
def _tidy(
    a: wp.int32,
    unions: wp.int32,
    target: wp.array(dtype=wp.int32),
    length: wp.array(dtype=wp.float64),
    root: wp.array(dtype=wp.int32),
    following: wp.array(dtype=wp.int32),
    first: wp.array(dtype=wp.int32),
    last: wp.array(dtype=wp.int32),
    stamp: wp.array(dtype=wp.int32),
    met: wp.array(dtype=wp.int32),
    met_edge: wp.array(dtype=wp.int32),
):
    """Drop inner edges from a's list, and join edges that lead to the same neighbour; return the steps."""
    steps = wp.int64(0)
    previous = wp.int32(-1)
    edge = wp.int32(first[a])
    while edge >= 0:
        steps = steps + wp.int64(1)
        after = following[edge]
        t = _find(root, target[edge])
        drop = t == a
        if not drop:  # noqa: SIM102 (Warp evaluates both sides of `and`)
            if met[t] == unions:
                length[met_edge[t]] = length[met_edge[t]] + length[edge]
                drop = True
        if drop:
            stamp[edge] = -1
            if previous < 0:
                first[a] = after
            else:
                following[previous] = after
        else:
            met[t] = unions
            met_edge[t] = edge
            previous = wp.int32(edge)
        edge = wp.int32(after)
    last[a] = previous
    return steps


@wp.func
@no_type_check
def _drop_stale(
    heap: wp.array(dtype=wp.vec4d),
    at: wp.int32,
    size: wp.int32,
    target: wp.array(dtype=wp.int32),
    root: wp.array(dtype=wp.int32),
    stamp: wp.array(dtype=wp.int32),
    version: wp.array(dtype=wp.int32),
):
    """Keep the entries that still hold; return how many."""
    kept = wp.int32(0)
    for i in range(size):
        old = heap[at + i]
        edge = wp.int32(old[1])
        other = _find(root, target[edge])
        if wp.float64(stamp[edge]) == old[2] and wp.float64(version[other]) == old[3]:
            heap[at + kept] = old
            kept = kept + 1
    _heapify(heap, at, kept)
    return kept


@wp.kernel(enable_backward=False)
@no_type_check
def _merge(
    base: int,
    pile_faces: wp.array(dtype=wp.int32),
    pile_heap: wp.array(dtype=wp.int32),
    budget: wp.array(dtype=wp.int64),
    target: wp.array(dtype=wp.int32),
    length: wp.array(dtype=wp.float64),
    limit: wp.array(dtype=wp.float64),
    largest: wp.array(dtype=wp.float64),
    area: wp.array(dtype=wp.float64),
    border: wp.array(dtype=wp.float64),
    normal: wp.array(dtype=wp.vec3d),
    following: wp.array(dtype=wp.int32),
    last: wp.array(dtype=wp.int32),
    stamp: wp.array(dtype=wp.int32),
    version: wp.array(dtype=wp.int32),
    met: wp.array(dtype=wp.int32),
    met_edge: wp.array(dtype=wp.int32),
    heap: wp.array(dtype=wp.vec4d),
    first: wp.array(dtype=wp.int32),
    root: wp.array(dtype=wp.int32),
):
    # A serial program for each pile. `first`, `last` and `following` are each cluster's list of outgoing edges.
    pile = base + wp.tid()
    begin = pile_faces[pile]
    end = pile_faces[pile + 1]
    at = pile_heap[pile]
    capacity = pile_heap[pile + 1] - at
    _link(begin, end, target, following, first, last)
    size = wp.int32(0)
    for e in range(3 * begin, 3 * end):
        f = e // 3
        t = target[e]
        if f < t:
            c = _union_cost(
                area[f], area[t], normal[f], normal[t], border[f], border[t], length[e], limit[f], largest[f]
            )
            if c >= wp.float64(0.0):
                heap[at + size] = wp.vec4d(c, wp.float64(e), wp.float64(0.0), wp.float64(0.0))
                size = size + 1
    _heapify(heap, at, size)
    work = wp.int64(0)
    unions = wp.int32(0)
    while size > 0 and work < budget[pile]:
        top = heap[at]
        size = size - 1
        heap[at] = heap[at + size]
        _sift_down(heap, at, 0, size)
        work = work + wp.int64(1)
        e = wp.int32(top[1])
        a = _find(root, e // 3)
        b = _find(root, target[e])
        if a == b or wp.float64(stamp[e]) != top[2] or wp.float64(version[b]) != top[3]:
            continue
        root[b] = a
        unions = unions + 1
        area[a] = area[a] + area[b]
        normal[a] = normal[a] + normal[b]
        border[a] = border[a] + border[b] - wp.float64(2.0) * length[e]
        version[a] = version[a] + 1
        _append(a, b, following, first, last)
        work = work + _tidy(a, unions, target, length, root, following, first, last, stamp, met, met_edge)
        edge = wp.int32(first[a])
        while edge >= 0:
            t = _find(root, target[edge])
            stamp[edge] = stamp[edge] + 1
            c = _union_cost(
                area[a], area[t], normal[a], normal[t], border[a], border[t], length[edge], limit[a], largest[a]
            )
            if size == capacity:
                size = _drop_stale(heap, at, size, target, root, stamp, version)
                work = work + wp.int64(capacity // 8)
            if c >= wp.float64(0.0) and size < capacity:
                heap[at + size] = wp.vec4d(c, wp.float64(edge), wp.float64(stamp[edge]), wp.float64(version[t]))
                size = size + 1
                _sift_up(heap, at, size - 1)
            edge = following[edge]
    for f in range(begin, end):
        root[f] = _find(root, f)
