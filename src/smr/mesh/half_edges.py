"""Half-edges sorted by edge, corners sorted by vertex, and fans of faces, for millions of faces.

Half-edge and corner 3 f + k belong to face f: the corner is its k-th vertex, the half-edge runs from there to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Int, Int32

from ..arrays import launch_chunked


@dataclass(frozen=True)
class HalfEdges:
    """The half-edges of some faces, grouped by undirected edge."""

    order: Int32[np.ndarray, " H"]
    """Half-edges by smaller vertex, larger vertex, and their own number."""
    starts: Int[np.ndarray, " E"]
    """Where in `order` each edge begins."""
    counts: Int32[np.ndarray, " H"]
    """How many half-edges a half-edge's own edge has: 1 on a border, 2 inside a manifold."""
    mates: Int32[np.ndarray, " H"]
    """The other half-edge of an edge that has two, else -1."""

    @property
    def sizes(self) -> Int32[np.ndarray, " E"]:
        """Half-edges of each edge."""
        return self.counts[self.order[self.starts]]


def group_half_edges(faces: Int32[np.ndarray, "F 3"], vertex_count: int) -> HalfEdges:
    """Group the half-edges by edge; time grows with n log n for whatever mesh, and with n for most."""
    total = faces.size
    ends = _int_array(np.ascontiguousarray(faces).reshape(-1))
    low, high = (wp.empty(total, dtype=wp.int32, device="cpu") for _ in range(2))
    launch_chunked(_sort_ends, total, [ends], outputs=[low, high], device="cpu")
    start, order = _bucket_sort(low, vertex_count)
    heads = wp.zeros(total, dtype=wp.bool, device="cpu")
    counts, mates = (wp.empty(total, dtype=wp.int32, device="cpu") for _ in range(2))
    launch_chunked(_group, vertex_count, [start, high], outputs=[order, heads, counts, mates], device="cpu")
    return HalfEdges(order.numpy(), np.flatnonzero(heads.numpy()), counts.numpy(), mates.numpy())


def sort_by_bucket(
    buckets: Int32[np.ndarray, " N"], bucket_count: int
) -> tuple[Int32[np.ndarray, " B1"], Int32[np.ndarray, " N"]]:
    """Sort indices by their bucket, stably: where each bucket starts (and the end), and the order."""
    start, order = _bucket_sort(_int_array(buckets), bucket_count)
    return start.numpy(), order.numpy()


def fan_leads(
    faces: Int32[np.ndarray, "F 3"], vertex_count: int, mates: Int32[np.ndarray, " H"]
) -> tuple[Int32[np.ndarray, " C"], Int32[np.ndarray, " C"]]:
    """Which corners at a vertex hang together across mated half-edges.

    Returns:
        For each corner the smallest corner of its fan, and the corners sorted by vertex.
    """
    corners = _int_array(np.ascontiguousarray(faces).reshape(-1))
    start, order = _bucket_sort(corners, vertex_count)
    leads = wp.full(faces.size, -1, dtype=wp.int32, device="cpu")
    launch_chunked(_walk_fans, vertex_count, [start, order, corners, _int_array(mates)], outputs=[leads], device="cpu")
    return leads.numpy(), order.numpy()


def component_labels(faces: Int32[np.ndarray, "F 3"], vertex_count: int) -> tuple[int, Int32[np.ndarray, " V"]]:
    """Number the vertices' connected components in the order of their first vertices."""
    return pair_components(vertex_count, faces[:, :2], faces[:, 1:])


def pair_components(
    node_count: int, first: Int[np.ndarray, "*N"], second: Int[np.ndarray, "*N"]
) -> tuple[int, Int32[np.ndarray, " V"]]:
    """Number the connected components of a graph of pairs in the order of their first nodes."""
    labels = wp.empty(node_count, dtype=wp.int32, device="cpu")
    count = wp.zeros(1, dtype=wp.int32, device="cpu")
    ends = [_int_array(np.ascontiguousarray(part).reshape(-1)) for part in (first, second)]
    wp.launch(_join_components, dim=1, inputs=[*ends, labels, count], device="cpu")
    return int(count.numpy()[0]), labels.numpy()


def rank_by_first(labels: Int32[np.ndarray, " N"], count: int) -> tuple[int, Int32[np.ndarray, " N"]]:
    """Renumber labels below `count` in the order in which they first appear; also how many do."""
    ranks = wp.full(max(count, 1), -1, dtype=wp.int32, device="cpu")
    ranked = wp.empty(len(labels), dtype=wp.int32, device="cpu")
    found = wp.zeros(1, dtype=wp.int32, device="cpu")
    wp.launch(_rank, dim=1, inputs=[_int_array(labels), ranks, ranked, found], device="cpu")
    return int(found.numpy()[0]), ranked.numpy()


def all_different(keys: np.ndarray) -> Bool[np.ndarray, ""]:
    """Whether no two of some integers are equal."""
    ordered = np.sort(keys)
    return np.asarray((ordered[1:] != ordered[:-1]).all())


def _int_array(values: np.ndarray) -> wp.array:
    return wp.array(values, dtype=wp.int32, device="cpu", copy=False)


def _bucket_sort(buckets: wp.array, bucket_count: int) -> tuple[wp.array, wp.array]:
    start = wp.zeros(bucket_count + 1, dtype=wp.int32, device="cpu")
    order = wp.empty(len(buckets), dtype=wp.int32, device="cpu")
    wp.launch(_count_and_place, dim=1, inputs=[buckets, start, order], device="cpu")
    return start, order


@wp.kernel(enable_backward=False)
@no_type_check
def _sort_ends(base: int, ends: wp.array(dtype=int), low: wp.array(dtype=int), high: wp.array(dtype=int)):
    h = base + wp.tid()
    a = ends[h]
    b = ends[wp.where(h % 3 == 2, h - 2, h + 1)]
    low[h] = wp.min(a, b)
    high[h] = wp.max(a, b)


@wp.kernel(enable_backward=False)
@no_type_check
def _count_and_place(buckets: wp.array(dtype=int), start: wp.array(dtype=int), order: wp.array(dtype=int)):
    # A serial program: launch with dim=1. `start` is 0 on entry and one longer than there are buckets.
    for i in range(buckets.shape[0]):
        start[buckets[i]] = start[buckets[i]] + 1
    total = wp.int32(0)
    for b in range(start.shape[0]):
        total = total + start[b]
        start[b] = total
    i = buckets.shape[0] - 1
    while i >= 0:
        place = start[buckets[i]] - 1
        start[buckets[i]] = place
        order[place] = i
        i = i - 1


@wp.func
@no_type_check
def _later(high: wp.array(dtype=int), a: int, b: int):
    return high[a] > high[b] or (high[a] == high[b] and a > b)


@wp.func
@no_type_check
def _sink(order: wp.array(dtype=int), high: wp.array(dtype=int), begin: int, root: int, size: int):
    item = order[begin + root]
    hole = int(root)
    child = int(2 * root + 1)
    while child < size:
        if child + 1 < size:  # noqa: SIM102 (Warp evaluates both sides of `and`)
            if _later(high, order[begin + child + 1], order[begin + child]):
                child = child + 1
        if not _later(high, order[begin + child], item):
            break
        order[begin + hole] = order[begin + child]
        hole = int(child)
        child = 2 * hole + 1
    order[begin + hole] = item


@wp.func
@no_type_check
def _sort_range(order: wp.array(dtype=int), high: wp.array(dtype=int), begin: int, end: int):
    """Sort by larger vertex: insertion for the usual few, a heap for the hub of a huge fan."""
    size = end - begin
    if size <= 32:
        for i in range(begin + 1, end):
            item = order[i]
            j = int(i)
            while j > begin:
                if not _later(high, order[j - 1], item):
                    break
                order[j] = order[j - 1]
                j = j - 1
            order[j] = item
    else:
        root = size // 2 - 1
        while root >= 0:
            _sink(order, high, begin, root, size)
            root = root - 1
        last = size - 1
        while last > 0:
            item = order[begin]
            order[begin] = order[begin + last]
            order[begin + last] = item
            _sink(order, high, begin, 0, last)
            last = last - 1


@wp.kernel(enable_backward=False)
@no_type_check
def _group(
    base: int,
    start: wp.array(dtype=int),
    high: wp.array(dtype=int),
    order: wp.array(dtype=int),
    heads: wp.array(dtype=wp.bool),
    counts: wp.array(dtype=int),
    mates: wp.array(dtype=int),
):
    v = base + wp.tid()
    end = start[v + 1]
    _sort_range(order, high, start[v], end)
    i = int(start[v])
    while i < end:
        heads[i] = True
        j = int(i + 1)
        while j < end:
            if high[order[j]] != high[order[i]]:
                break
            j = j + 1
        for k in range(i, j):
            counts[order[k]] = j - i
            mates[order[k]] = -1
        if j - i == 2:
            mates[order[i]] = order[i + 1]
            mates[order[i + 1]] = order[i]
        i = int(j)


@wp.func
@no_type_check
def _across(corners: wp.array(dtype=int), mate: int, v: int):
    """The corner at v of the mate's face."""
    return wp.where(corners[mate] == v, mate, wp.where(mate % 3 == 2, mate - 2, mate + 1))


@wp.kernel(enable_backward=False)
@no_type_check
def _walk_fans(
    base: int,
    start: wp.array(dtype=int),
    order: wp.array(dtype=int),
    corners: wp.array(dtype=int),
    mates: wp.array(dtype=int),
    leads: wp.array(dtype=int),
):
    v = base + wp.tid()
    for i in range(start[v], start[v + 1]):
        lead = order[i]
        if leads[lead] < 0:
            for way in range(2):
                c = int(lead)
                h = wp.where(way == 0, c, wp.where(c % 3 == 0, c + 2, c - 1))
                going = wp.bool(True)
                while going:
                    leads[c] = lead
                    mate = mates[h]
                    going = mate >= 0
                    if going:
                        c = _across(corners, mate, v)
                        going = leads[c] < 0
                        # Leave the next face by its other half-edge at v.
                        h = wp.where(c == mate, wp.where(c % 3 == 0, c + 2, c - 1), c)


@wp.func
@no_type_check
def _root(parent: wp.array(dtype=int), vertex: int):
    v = int(vertex)
    while parent[v] != v:
        parent[v] = parent[parent[v]]
        v = parent[v]
    return v


@wp.kernel(enable_backward=False)
@no_type_check
def _join_components(
    first: wp.array(dtype=int), second: wp.array(dtype=int), labels: wp.array(dtype=int), count: wp.array(dtype=int)
):
    # A serial program: launch with dim=1. Union-find in which the smaller vertex becomes the root.
    for v in range(labels.shape[0]):
        labels[v] = v
    for i in range(first.shape[0]):
        a = _root(labels, first[i])
        b = _root(labels, second[i])
        if a != b:
            labels[wp.max(a, b)] = wp.min(a, b)
    found = wp.int32(0)
    for v in range(labels.shape[0]):
        if labels[v] == v:
            labels[v] = -1 - found  # negative: a root's number
            found = found + 1
        else:
            above = labels[v]  # smaller than v, so numbered already
            labels[v] = labels[above]
    for v in range(labels.shape[0]):
        labels[v] = -1 - labels[v]
    count[0] = found


@wp.kernel(enable_backward=False)
@no_type_check
def _rank(
    labels: wp.array(dtype=int), ranks: wp.array(dtype=int), ranked: wp.array(dtype=int), found: wp.array(dtype=int)
):
    # A serial program: launch with dim=1. `ranks` is -1 on entry.
    count = wp.int32(0)
    for i in range(labels.shape[0]):
        if ranks[labels[i]] < 0:
            ranks[labels[i]] = count
            count = count + 1
        ranked[i] = ranks[labels[i]]
    found[0] = count
