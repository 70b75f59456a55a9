"""Charts turned so that their bounding rectangles are small."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Complex128, Float64, Int32, Int64

from .surface import Cut, triangle_areas

COARSE_ANGLES = np.deg2rad(np.arange(0.0, 90.0, 3.0))
FINE_ANGLES = np.deg2rad(np.arange(-1.5, 1.6, 0.25))


@dataclass(frozen=True)
class Outlines:
    """Charts in their own planes, lower left corner at the origin, faces ordered by chart."""

    corners: Float64[np.ndarray, "P F 3 2"]
    """In each pose: in the smallest rectangle first, then turned from there."""
    order: Int64[np.ndarray, " F"]
    """The mesh's face that each of these is."""
    face_start: Int32[np.ndarray, " C1"]
    """First face of each chart, and the end."""
    extent: Float64[np.ndarray, "P C 2"]
    area: float
    """Of all triangles."""


def turn_upright(cut: Cut, corners: Float64[np.ndarray, "F 3 2"], poses: int = 1) -> Outlines:
    """Turn each chart to the rectangle of least area among close-spaced angles and its longest border edge's own."""
    order = np.argsort(cut.charts, kind="stable")
    chart = cut.charts[order]
    face_start = np.searchsorted(chart, np.arange(cut.count + 1)).astype(np.int32)
    points = corners[order, :, 0] + 1j * corners[order, :, 1]
    angle, _ = _smallest_rectangles(points, cut.twins[order] < 0, chart, face_start)
    placed, extents = [], []
    for pose in range(poses):
        turned = points * np.exp(1j * (angle + pose * np.pi / 2 / poses))[chart][:, None]
        pair = np.stack([turned.real, turned.imag], axis=2)
        pair -= np.minimum.reduceat(pair.min(axis=1), face_start[:-1], axis=0)[chart][:, None, :]
        placed.append(pair)
        extents.append(np.maximum.reduceat(pair.max(axis=1), face_start[:-1], axis=0))
    return Outlines(np.stack(placed), order, face_start, np.stack(extents), float(triangle_areas(placed[0]).sum()))


def _smallest_rectangles(
    points: Complex128[np.ndarray, "F 3"],
    border: Bool[np.ndarray, "F 3"],
    chart: Int32[np.ndarray, " F"],
    face_start: Int32[np.ndarray, " C1"],
) -> tuple[Float64[np.ndarray, " C"], Float64[np.ndarray, " C"]]:
    """Angle by which each chart is to be turned, and the area of the rectangle around it then."""
    count = len(face_start) - 1
    border = border.copy()
    border[face_start[:-1]] = True  # a chart without a border still has points
    owner = np.broadcast_to(chart[:, None], border.shape)[border]
    hull, direction = points[border], (np.roll(points, -1, axis=1) - points)[border]
    begin = np.searchsorted(owner, np.arange(count))
    longest = np.lexsort((-np.abs(direction), owner))[begin]
    best = np.full(count, np.inf)
    angle = np.zeros(count)
    for candidate in (-np.angle(direction[longest]), *(np.full(count, a) for a in COARSE_ANGLES)):
        angle, best = _better(hull, owner, begin, candidate, angle, best)
    coarse = angle
    for offset in FINE_ANGLES:
        angle, best = _better(hull, owner, begin, coarse + offset, angle, best)
    return angle, best


def _better(
    points: Complex128[np.ndarray, " P"],
    owner: Int32[np.ndarray, " P"],
    begin: Int64[np.ndarray, " C"],
    candidate: Float64[np.ndarray, " C"],
    angle: Float64[np.ndarray, " C"],
    best: Float64[np.ndarray, " C"],
) -> tuple[Float64[np.ndarray, " C"], Float64[np.ndarray, " C"]]:
    """Take the candidate angle where its rectangle is clearly smaller."""
    turned = points * np.exp(1j * candidate)[owner]
    width = np.maximum.reduceat(turned.real, begin) - np.minimum.reduceat(turned.real, begin)
    height = np.maximum.reduceat(turned.imag, begin) - np.minimum.reduceat(turned.imag, begin)
    area = width * height
    smaller = area < 0.999 * best
    return np.where(smaller, candidate, angle), np.where(smaller, area, best)
