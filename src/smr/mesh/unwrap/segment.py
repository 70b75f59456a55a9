"""Which faces share a chart: grow, flatten, split what fails, then join what still passes as one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int32, Int64

from ...progress import Track
from .charts import cluster, smooth_normals
from .check import faulty_charts
from .flatten import flatten
from .surface import Surface, cut_charts

CONES = (0.65, 0.8, 0.9, 0.96, 0.985, 0.995, 0.999)
"""Least |sum of normals| / area, tighter each time that a chart turns out not to lie flat."""
JOIN_CONE = 0.4
JOIN_BORDER = 0.2
"""Least part of the smaller chart's border that two charts must share to be joined."""
JOIN_ROUNDS = 16


@dataclass
class Layout:
    """Charts so far, and where each corner lies in its own chart's plane."""

    labels: Int64[np.ndarray, " F"]
    corners: Float64[np.ndarray, "F 3 2"]
    next_label: int = 0
    refused: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of labels that did not lie flat as one."""

    def place(self, faces: np.ndarray, charts: np.ndarray, corners: np.ndarray) -> None:
        """Take over new charts; `charts` numbers them from 0."""
        self.labels[faces] = charts + self.next_label
        self.corners[faces] = corners
        self.next_label += int(charts.max(initial=-1)) + 1


def segment(surface: Surface, track: Track) -> tuple[Int32[np.ndarray, " F"], Float64[np.ndarray, "F 3 2"]]:
    """Cut a mesh into charts that lie flat without folds, overlaps, or stretch beyond `MAX_STRETCH`.

    Returns:
        A label for each face, and each face's corners in its chart's plane.
    """
    layout = Layout(np.full(len(surface.faces), -1, np.int64), surface.flat.copy())
    normals = smooth_normals(surface, 3)
    todo = np.arange(len(surface.faces))
    parents = np.zeros(len(todo), np.int32)
    for cone in track(CONES, "growing charts"):
        if len(todo) == 0:
            break
        todo, parents = _grow(surface, layout, todo, parents, cone, normals)
    layout.place(todo, np.arange(len(todo)), surface.flat[todo])  # a triangle alone always lies flat
    for _ in track(range(JOIN_ROUNDS), "joining charts"):
        if not _join(surface, layout):
            break
    return np.unique(layout.labels, return_inverse=True)[1].astype(np.int32), layout.corners


def _grow(
    surface: Surface, layout: Layout, todo: np.ndarray, parents: np.ndarray, cone: float, normals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cluster the faces inside their parent charts, keep the charts that lie flat; return the faces of the others."""
    labels = np.full(len(layout.labels), -1, np.int32)
    labels[todo] = parents
    labels = cluster(surface, labels, np.full(len(labels), cone), normals)
    cut = cut_charts(surface.twins, labels, todo)
    uv = flatten(surface, todo, cut)
    faulty = faulty_charts(surface.flat[todo], surface.regular[todo], cut, uv)[cut.charts]
    kept = np.unique(cut.charts[~faulty], return_inverse=True)[1]
    layout.place(todo[~faulty], kept, uv[cut.faces[~faulty]])
    return todo[faulty], cut.charts[faulty]


def _join(surface: Surface, layout: Layout) -> bool:
    """Try the most promising disjoint pairs of charts as one chart each; True if some were tried."""
    pairs = _pairs(surface, layout)
    if len(pairs) == 0:
        return False
    partner = np.full(layout.next_label, -1, np.int64)
    partner[pairs[:, 0]], partner[pairs[:, 1]] = np.arange(len(pairs)), np.arange(len(pairs))
    chosen = np.flatnonzero(partner[layout.labels] >= 0)
    labels = partner[layout.labels].astype(np.int32)
    cut = cut_charts(surface.twins, labels, chosen)
    uv = flatten(surface, chosen, cut)
    faulty = faulty_charts(surface.flat[chosen], surface.regular[chosen], cut, uv)
    pair_of_chart = np.zeros(cut.count, np.int64)
    pair_of_chart[cut.charts] = labels[chosen]
    layout.refused.update((int(a), int(b)) for a, b in pairs[pair_of_chart[faulty]])
    fine = ~faulty[cut.charts]
    layout.place(chosen[fine], np.unique(cut.charts[fine], return_inverse=True)[1], uv[cut.faces[fine]])
    return True


def _pairs(surface: Surface, layout: Layout) -> Int64[np.ndarray, "P 2"]:
    """Disjoint pairs of neighbouring charts, those with the longest shared border for their size first."""
    n = layout.next_label
    labels = layout.labels
    there = surface.twins >= 0
    a = np.broadcast_to(labels[:, None], there.shape)
    b = np.where(there, labels[surface.twins // 3], a)
    outer = (a != b) | ~there
    border = np.bincount(a[outer], surface.lengths[outer], n)
    side = a < b
    key, inverse = np.unique(a[side] * n + b[side], return_inverse=True)
    shared = np.bincount(inverse, surface.lengths[side], len(key))
    first, second = key // n, key % n
    area = np.bincount(labels, surface.areas, n)
    weighted = surface.normals * surface.areas[:, None]
    total = np.stack([np.bincount(labels, weighted[:, k], n) for k in range(3)], axis=1)
    facing = np.linalg.norm(total[first] + total[second], axis=1) / np.maximum(area[first] + area[second], 1e-12)
    score = shared / np.maximum(np.minimum(border[first], border[second]), 1e-12)
    good = (score >= JOIN_BORDER) & (facing >= JOIN_CONE)
    order = np.flatnonzero(good)
    order = order[np.argsort(-score[order], kind="stable")]
    taken = np.zeros(n, bool)
    pairs = []
    for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if not (taken[i] or taken[j] or (i, j) in layout.refused):
            taken[i] = taken[j] = True
            pairs.append((i, j))
    return np.array(pairs, np.int64).reshape(-1, 2)
