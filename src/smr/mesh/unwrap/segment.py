"""Which faces share a chart: grow, flatten, split what fails, then join what still passes as one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Complex128, Float64, Int32, Int64

from ...progress import Track
from .charts import cluster, smooth_normals
from .check import faulty_charts, planar_charts
from .deal import deal
from .flatten import flatten
from .outlines import turn_upright
from .straighten import straighten
from .surface import Cut, Surface, cut_charts, part_of
from .trim import LARGE, trim, true_to_size, unwieldy

CONES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Least mean cosine between a part's normals and its chart's: tighter each time that one does not lie flat."""
PART = 0.6
"""Largest area of the parts into which such a chart is split."""
GROW_ROUNDS = 24
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
        """Take over new charts, under new labels."""
        self.labels[faces] = np.unique(charts, return_inverse=True)[1] + self.next_label
        self.corners[faces] = corners
        self.next_label += len(np.unique(charts))


def segment(surface: Surface, track: Track) -> tuple[Int32[np.ndarray, " F"], Float64[np.ndarray, "F 3 2"]]:
    """Cut a mesh into charts that lie flat without folds, overlaps, or stretch beyond `MAX_STRETCH`.

    Returns:
        A label for each face, and each face's corners in its chart's plane.
    """
    layout = Layout(np.full(len(surface.faces), -1, np.int64), surface.flat.copy())
    normals = smooth_normals(surface, 3)
    todo = np.arange(len(surface.faces))
    parents = np.zeros(len(todo), np.int32)
    for turn in track(range(GROW_ROUNDS), "growing charts"):
        before = len(todo)
        if before == 0:
            break
        todo, parents = _grow(surface, layout, todo, parents, turn, normals)
        if len(todo) == before and turn > len(CONES):
            break
    layout.place(todo, np.arange(len(todo)), surface.flat[todo])  # a triangle alone always lies flat
    labels = trim(surface, layout.labels, layout.corners)
    layout.next_label = 0
    layout.place(np.arange(len(labels)), labels, true_to_size(surface, labels, layout.corners))
    for _ in track(range(JOIN_ROUNDS), "joining charts"):
        if not _join(surface, layout):
            break
    return np.unique(layout.labels, return_inverse=True)[1].astype(np.int32), layout.corners


def _grow(
    surface: Surface,
    layout: Layout,
    todo: Int64[np.ndarray, " G"],
    parents: Int32[np.ndarray, " G"],
    turn: int,
    normals: Float64[np.ndarray, "F 3"],
) -> tuple[Int64[np.ndarray, " H"], Int32[np.ndarray, " H"]]:
    """Cluster the faces inside their parent charts, keep the charts that lie flat; return the faces of the others."""
    todo, parents, piles = _pile_up(todo, parents)
    part = part_of(surface, todo)
    largest = np.full(len(todo), np.inf)
    if turn > 0:
        largest = PART * np.bincount(parents, part.areas)[parents]
    limit = np.full(len(todo), CONES[min(turn, len(CONES) - 1)])
    labels = np.full(len(layout.labels), -1, np.int32)
    own = cluster(part, parents, piles, limit, largest, normals[todo])
    if turn < len(CONES):  # later on it would undo the split of a few faces
        own = straighten(part, own)
    labels[todo] = own
    cut = cut_charts(surface.twins, labels, todo)
    planar = planar_charts(cut)[cut.charts]
    left, left_charts = todo[~planar], cut.charts[~planar]
    todo = todo[planar]
    cut = cut_charts(surface.twins, labels, todo)
    uv = flatten(surface, todo, cut)
    faulty = faulty_charts(surface.flat[todo], surface.regular[todo], cut, uv)[cut.charts]
    layout.place(todo[~faulty], cut.charts[~faulty], uv[cut.faces[~faulty]])
    apart = int(left_charts.max(initial=-1)) + 1
    return np.concatenate([left, todo[faulty]]), np.concatenate([left_charts, cut.charts[faulty] + apart])


def _pile_up(
    todo: Int64[np.ndarray, " G"], parents: Int32[np.ndarray, " G"]
) -> tuple[Int64[np.ndarray, " G"], Int32[np.ndarray, " G"], Int32[np.ndarray, " G"]]:
    """Order faces, and their parents, by the piles to which the parents are dealt."""
    dealt = deal(np.bincount(parents))
    pile_of = np.zeros(dealt.size, np.int32)
    pile, at = np.nonzero(dealt >= 0)
    pile_of[dealt[pile, at]] = pile
    order = np.lexsort((todo, pile_of[parents]))
    piles = np.unique(pile_of[parents[order]], return_inverse=True)[1].astype(np.int32)
    return todo[order], parents[order], piles


def _join(surface: Surface, layout: Layout) -> bool:
    """Try the most promising disjoint pairs of charts as one chart each; False if there is none left to try."""
    pairs = _pairs(surface, layout)
    if len(pairs) == 0:
        return False
    partner = np.full(layout.next_label, -1, np.int64)
    partner[pairs[:, 0]], partner[pairs[:, 1]] = np.arange(len(pairs)), np.arange(len(pairs))
    chosen = np.flatnonzero(partner[layout.labels] >= 0)
    labels = partner[layout.labels].astype(np.int32)
    cut = cut_charts(surface.twins, labels, chosen)
    moves = layout.labels[chosen] == pairs[labels[chosen], 1]
    uv = flatten(surface, chosen, cut, _put_together(cut, layout.corners[chosen], moves))
    faulty = faulty_charts(surface.flat[chosen], surface.regular[chosen], cut, uv)
    areas = np.bincount(cut.charts, surface.areas[chosen], cut.count)
    faulty |= _unwieldy(surface, cut, uv, areas, faulty)
    pair_of_chart = np.zeros(cut.count, np.int64)
    pair_of_chart[cut.charts] = labels[chosen]
    layout.refused.update((int(a), int(b)) for a, b in pairs[pair_of_chart[faulty]])
    fine = ~faulty[cut.charts]
    layout.place(chosen[fine], cut.charts[fine], uv[cut.faces[fine]])
    return True


def _unwieldy(
    surface: Surface, cut: Cut, uv: Float64[np.ndarray, "U 2"], areas: Float64[np.ndarray, " C"],
    skip: Bool[np.ndarray, " C"],
) -> Bool[np.ndarray, " C"]:  # fmt: skip
    """Charts that would pack badly; only large ones do, so only they are turned."""
    whole = float(surface.areas.sum())
    large = (areas > LARGE * whole) & ~skip
    faces = np.flatnonzero(large[cut.charts])
    number = np.cumsum(large) - 1
    charts = number[cut.charts[faces]].astype(np.int32)
    part = Cut(cut.faces[faces], cut.twins[faces], charts, cut.vertex_charts, int(large.sum()))
    bad = np.zeros(cut.count, bool)
    if part.count:
        bad[large] = unwieldy(turn_upright(part, uv[part.faces]), areas[large], whole)
    return bad


def _put_together(
    cut: Cut, corners: Float64[np.ndarray, "G 3 2"], moves: Bool[np.ndarray, " G"]
) -> Float64[np.ndarray, "U 2"]:
    """Move the second half of each chart rigidly to where its seam fits the first half's best; average along it."""
    points = corners[..., 0] + 1j * corners[..., 1]
    face, k = np.nonzero((cut.twins >= 0) & moves[:, None] & ~moves[cut.twins // 3])
    twin = cut.twins[face, k]
    back = twin // 3, twin % 3
    here = np.concatenate([points[face, k], points[face, (k + 1) % 3]])
    there = np.concatenate([points[back[0], (back[1] + 1) % 3], points[back]])
    chart = np.tile(cut.charts[face], 2)

    def mean(values: Complex128[np.ndarray, " n"]) -> Complex128[np.ndarray, " C"]:
        total = np.bincount(chart, values.real, cut.count) + 1j * np.bincount(chart, values.imag, cut.count)
        averaged: np.ndarray = total / np.maximum(np.bincount(chart, minlength=cut.count), 1)
        return averaged

    here_mean, there_mean = mean(here), mean(there)
    turn = mean((there - there_mean[chart]) * np.conj(here - here_mean[chart]))
    turn = np.where(np.abs(turn) > 1e-12, turn, 1.0)
    turn /= np.abs(turn)
    moved = (points - here_mean[cut.charts][:, None]) * turn[cut.charts][:, None] + there_mean[cut.charts][:, None]
    points = np.where(moves[:, None], moved, points)
    corner = cut.faces.ravel()
    uses = np.bincount(corner)
    placed = [np.bincount(corner, part.ravel()) / uses for part in (points.real, points.imag)]
    return np.stack(placed, axis=1)


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
