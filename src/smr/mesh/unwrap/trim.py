"""Charts that would pack badly, sawn into handier ones. What lies flat stays flat: nothing is solved again."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64

from .check import MAX_STRETCH
from .flatten import singular_values
from .outlines import Outlines, turn_upright
from .surface import Cut, Surface, cut_charts, triangle_areas

LARGE = 1 / 100
LARGE_FILL = 0.7
"""A chart with more than this part of the whole area must fill this part of its smallest rectangle."""
CUTS = np.linspace(0.25, 0.75, 11)
ROUNDS = 16


def unwieldy(outlines: Outlines, areas: Float64[np.ndarray, " C"], whole: float) -> Bool[np.ndarray, " C"]:
    """Charts so large and so far from a rectangle that they would leave much of the texture empty."""
    bad: np.ndarray = (areas > LARGE * whole) & (areas < LARGE_FILL * outlines.extent[0].prod(axis=1))
    return bad


def trim(
    surface: Surface, labels: Int64[np.ndarray, " F"], corners: Float64[np.ndarray, "F 3 2"]
) -> Int64[np.ndarray, " F"]:
    """Saw unwieldy charts straight across, where the halves' rectangles are smallest, until none is left."""
    labels = labels.copy()
    whole = float(surface.areas.sum())
    chosen = np.arange(len(labels))
    for _ in range(ROUNDS):
        cut = cut_charts(surface.twins, labels.astype(np.int32), chosen)
        outlines = turn_upright(cut, corners[chosen])
        bad = unwieldy(outlines, np.bincount(cut.charts, triangle_areas(corners[chosen]), cut.count), whole)
        labels[chosen] = cut.charts + labels.max() + 1
        if not bad.any():
            break
        picked = bad[cut.charts[outlines.order]]
        second = _second_halves(outlines, cut, picked)
        labels[chosen[outlines.order[picked]]] += second * (cut.count + 1)
        chosen = np.sort(chosen[outlines.order[picked]])
    return labels


def true_to_size(
    surface: Surface, labels: Int64[np.ndarray, " F"], corners: Float64[np.ndarray, "F 3 2"]
) -> Float64[np.ndarray, "F 3 2"]:
    """Scale each chart to the area of its surface, as far as `MAX_STRETCH` allows."""
    chart = np.unique(labels, return_inverse=True)[1]
    wanted, covered = np.bincount(chart, surface.areas), np.bincount(chart, triangle_areas(corners))
    fair = (wanted > 1e-12) & (covered > 1e-12)
    scale = np.sqrt(np.divide(wanted, covered, out=np.ones(len(fair)), where=fair))
    largest, smallest = singular_values(surface.flat, corners)[surface.regular].T
    most, least = np.full(len(fair), 1e-9), np.full(len(fair), 1e9)
    np.maximum.at(most, chart[surface.regular], largest)
    np.minimum.at(least, chart[surface.regular], smallest)
    scale = np.maximum(np.minimum(scale, MAX_STRETCH / most), 1 / (MAX_STRETCH * least))
    sized: np.ndarray = corners * scale[chart][:, None, None]
    return sized


def _second_halves(outlines: Outlines, cut: Cut, picked: Bool[np.ndarray, " F"]) -> Int64[np.ndarray, " P"]:
    """1 for the picked faces on the far side of their chart's cut, else 0."""
    corners = outlines.corners[0, picked]
    owner = np.unique(cut.charts[outlines.order[picked]], return_inverse=True)[1]
    extent = outlines.extent[0, cut.charts[outlines.order[picked]]]
    start = np.searchsorted(owner, np.arange(int(owner[-1]) + 1))
    low, high = corners.min(axis=1), corners.max(axis=1)
    place = corners.mean(axis=1) / np.maximum(extent, 1e-30)
    best = np.full(len(start), np.inf)
    choice = np.zeros(len(owner), np.int64)
    for position in CUTS:
        for axis in range(2):
            far = place[:, axis] > position
            boxes = np.zeros(len(start))
            for side in (far, ~far):
                lowest = np.minimum.reduceat(np.where(side[:, None], low, np.inf), start, axis=0)
                highest = np.maximum.reduceat(np.where(side[:, None], high, -np.inf), start, axis=0)
                boxes += np.maximum(highest - lowest, 0).prod(axis=1)
            better = boxes * (1 + 0.1 * abs(position - 0.5)) < best
            best = np.where(better, boxes * (1 + 0.1 * abs(position - 0.5)), best)
            choice = np.where(better[owner], far.astype(np.int64), choice)
    return choice
