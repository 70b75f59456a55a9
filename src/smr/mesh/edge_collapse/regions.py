"""Regions of a large mesh, collapsed in parallel as far as one queue for all would have gone with certainty.

The regions are boxes with equally many faces and depend on the mesh alone, so the result does not depend on the number
of threads. A vertex that several regions share stays where it is. In rounds, every region collapses its edges up to a
cost that is the same for all; that order is the one of a single queue but for costs within a round. It ends while a
tenth more vertices are left than the goal is; the rest, and what was held, is for one queue over the whole mesh.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Bool, Float64, Int, Int32

from ...arrays import cpu_threads, launch_chunked
from ..half_edges import sort_by_bucket
from . import kernels
from . import state as slots
from .parts import Part, Work, take_part

REGION_FACES = 30_000
MOST_REGIONS = 64
_SAMPLES = 50_000
_SPARE = 1.1
"""Vertices that are left, relative to the goal: a region stops at once,"""
_ENOUGH = 1.2
"""and no round begins below this."""
_STEP, _FINE_STEP = 1024, 256
"""Buckets by which the cost of a round grows: four powers of two, and one near the goal."""
_NEAR = 4.0
_LARGEST_LOSS = 0.5
"""Share of its vertices that a region may lose in one round."""
_ALL = 1 << 30


def collapse_regions(work: Work, share: float) -> Iterator[int]:
    """Collapse the regions of a large mesh until about `share` of the vertices are left; a small mesh stays as it is.

    Yields:
        After each round, the number of collapses so far.
    """
    count = _region_count(len(work.faces))
    if count < 2:
        return
    labels = divide(work.position, work.faces, count)
    start, order = sort_by_bucket(labels, count)
    shared = _shared_vertices(work, labels)
    with ThreadPoolExecutor(cpu_threads()) as pool:
        parts = list(pool.map(lambda i: _open(work, order[start[i] : start[i + 1]], shared), range(count)))
        for _ in _rounds(parts, share, pool):
            yield sum(int(part.state[slots.COLLAPSES]) for part in parts)
        work.faces = np.concatenate(list(pool.map(lambda part: part.put_back(work), parts)))


def _region_count(faces: int) -> int:
    """A power of two."""
    return min(MOST_REGIONS, 1 << max(0, (faces // REGION_FACES).bit_length() - 1))


def _open(work: Work, faces: Int32[np.ndarray, " G"], shared: Bool[np.ndarray, " V"]) -> Part:
    part = take_part(work, work.faces[faces], shared)
    part.state[slots.VERTICES] = (~part.held).sum()
    wp.launch(kernels.fill_queue, 1, inputs=[part.surface], device="cpu")
    return part


def _rounds(parts: list[Part], share: float, pool: ThreadPoolExecutor) -> Iterator[None]:
    """Rounds of rising cost, until enough is gone."""
    goal = share * sum(int(part.state[slots.VERTICES]) for part in parts)
    limit = 0
    full = False
    while True:
        left = sum(int(part.state[slots.VERTICES]) for part in parts)
        running = [part for part in parts if part.state[slots.STATUS] != slots.EMPTY_QUEUE]
        if left <= _ENOUGH * goal or not running or limit > slots.BUCKETS:
            return
        if not full:  # else some region still has cheaper edges
            limit = max(limit, min(int(part.state[slots.LOWEST]) for part in running))
            limit += _STEP if left > _NEAR * goal else _FINE_STEP
        keep = max(1 - _LARGEST_LOSS, _SPARE * goal / left)
        stopped = list(pool.map(_collapse, running, repeat(limit), repeat(keep)))  # waits for all
        full = any(stopped)
        yield


def _collapse(part: Part, limit: int, keep: float) -> bool:
    """Collapse the edges below the limit; whether the region lost its share before all were gone."""
    state = part.state
    before = int(state[slots.VERTICES])
    floor = int(np.ceil(keep * before))
    state[slots.STATUS] = slots.RUNNING
    while state[slots.STATUS] == slots.RUNNING:
        wp.launch(kernels.collapse, 1, inputs=[part.surface, floor, 0, limit, 0.0, _ALL], device="cpu")
        if state[slots.STATUS] == slots.FULL_QUEUE:
            wp.launch(kernels.fill_queue, 1, inputs=[part.surface], device="cpu")
    return bool(state[slots.STATUS] == slots.REACHED and state[slots.VERTICES] < before)


def divide(
    position: Float64[np.ndarray, "V 3"], faces: Int32[np.ndarray, "F 3"], count: int
) -> Int32[np.ndarray, " F"]:
    """Divide faces into `count` (a power of two) boxes with about as many faces each: halved across again and again."""
    sample = position[faces[:: max(1, len(faces) // _SAMPLES), 0]]
    axes = np.zeros(count, np.int32)
    cuts = np.zeros(count)
    cells = [sample]
    for node in range(1, count):  # node n has the halves 2 n and 2 n + 1
        cell = cells.pop(0)
        if len(cell):
            axes[node] = np.ptp(cell, axis=0).argmax()
            cuts[node] = np.median(cell[:, axes[node]])
        upper = cell[:, axes[node]] > cuts[node]
        cells += [cell[~upper], cell[upper]]
    labels = wp.empty(len(faces), dtype=wp.int32, device="cpu")
    inputs = [
        wp.array(position, dtype=wp.vec3d, device="cpu", copy=False),
        wp.array(faces, dtype=wp.vec3i, device="cpu", copy=False),
        wp.array(axes, dtype=wp.int32, device="cpu"),
        wp.array(cuts, dtype=wp.float64, device="cpu"),
    ]
    launch_chunked(_find_region, len(faces), inputs, outputs=[labels], device="cpu")
    return labels.numpy()


def _shared_vertices(work: Work, labels: Int[np.ndarray, " F"]) -> Bool[np.ndarray, " V"]:
    """Vertices with faces in several regions."""
    own = np.zeros(len(work.position), np.int32)
    own[work.faces] = labels[:, None]  # one of the vertex's regions
    shared = np.zeros(len(work.position), bool)
    shared[work.faces[own[work.faces] != labels[:, None]]] = True
    return shared


@wp.kernel(enable_backward=False)
@no_type_check
def _find_region(
    base: int,
    position: wp.array(dtype=wp.vec3d),
    faces: wp.array(dtype=wp.vec3i),
    axes: wp.array(dtype=wp.int32),
    cuts: wp.array(dtype=wp.float64),
    labels: wp.array(dtype=wp.int32),
):
    f = base + wp.tid()
    p = position[faces[f][0]]
    count = axes.shape[0]
    node = wp.int32(1)
    while node < count:
        upper = wp.int32(0)
        if p[axes[node]] > cuts[node]:
            upper = wp.int32(1)
        node = 2 * node + upper
    labels[f] = node - count
