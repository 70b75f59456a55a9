"""Which photos to compare with which, and between which depths to look.

With points from structure from motion, photos that share many points under a good angle belong together. Without
them, points are made up: a grid of rays in each view, at depths that other views see as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ..transforms import rigid_inverse, transform_points
from .photos import View

BEST_ANGLE = 10.0
"""Degrees between two rays to a point at which stereo works best."""
_NARROW, _WIDE = 5.0, 14.0
LEAST_ANGLE = 1.0
"""Degrees; below it a pair tells no depth."""
_NEAR_ROOM, _FAR_ROOM = 0.7, 1.5
"""The range of depths around that of the sparse points."""
MOST_POINTS = 10_000
"""More are not looked at to compare views."""
_RAYS = ((9, 7), (5, 4))
_DEPTHS = (48, 24)
_MANY = 60
"""Views from which on fewer rays and depths will do."""
_NEAREST, _FARTHEST = 0.25, 400.0
"""Depths that are looked at without points, in distances to the next camera."""


@dataclass(frozen=True)
class SparsePoints:
    """Points that structure from motion triangulated."""

    positions: Float[np.ndarray, "N 3"]
    """World frame."""
    seen: tuple[Int[np.ndarray, " _"], ...]
    """For each frame of the capture the indices of the points that it sees; empty where it has no pose."""


@dataclass(frozen=True)
class Neighbourhood:
    """What a view is compared with."""

    sources: tuple[int, ...]
    """Indices of views, best first."""
    near: float
    far: float
    """Depths between which the scene lies."""


def choose(views: Sequence[View], count: int, points: SparsePoints | None) -> list[Neighbourhood]:
    """The best `count` sources and the depth range of each view; no sources where no other view overlaps with it."""
    centers = np.stack([view.world_from_camera[:3, 3] for view in views])
    ranges: list[tuple[float, float] | None]
    if points is not None and len(points.positions):
        positions, seen = points.positions, _seen(views, points)
        ranges = [_range_of(view, positions[row]) for view, row in zip(views, seen, strict=True)]
    else:
        positions, seen, ranges = _made_up(views, centers)
    if len(positions) > MOST_POINTS:
        some = np.sort(np.random.default_rng(0).choice(len(positions), MOST_POINTS, replace=False))
        positions, seen = positions[some], seen[:, some]
    scores = _scores(views, centers, positions, seen)
    known = [found for found in ranges if found is not None]
    usual = (min(k[0] for k in known), max(k[1] for k in known)) if known else (1.0, 2.0)
    chosen = []
    for i in range(len(views)):
        order = [int(j) for j in np.argsort(-scores[i], kind="stable") if scores[i, j] > 0][:count]
        near, far = ranges[i] or usual
        chosen.append(Neighbourhood(tuple(order), near, far))
    return chosen


def _seen(views: Sequence[View], points: SparsePoints) -> Bool[np.ndarray, "V N"]:
    seen = np.zeros((len(views), len(points.positions)), dtype=bool)
    for row, view in zip(seen, views, strict=True):
        row[points.seen[view.frame]] = True
    return seen


def _range_of(view: View, positions: Float[np.ndarray, "N 3"]) -> tuple[float, float] | None:
    z = transform_points(rigid_inverse(view.world_from_camera), positions)[:, 2]
    z = z[z > 0]
    if len(z) < 8:
        return None
    near, far = np.percentile(z, (1, 99))
    return float(near) * _NEAR_ROOM, float(far) * _FAR_ROOM


def project(view: View, positions: Float[np.ndarray, "N 3"]) -> tuple[Float[np.ndarray, "N 3"], Bool[np.ndarray, " N"]]:
    """Pixel coordinates and depth of points in a view, and which of them lie in its image."""
    local = transform_points(rigid_inverse(view.world_from_camera), positions)
    z = np.where(local[:, 2] > 0, local[:, 2], np.inf)
    u = view.camera.fx * local[:, 0] / z + view.camera.cx
    v = view.camera.fy * local[:, 1] / z + view.camera.cy
    inside = np.isfinite(z) & (u >= 0) & (v >= 0) & (u < view.camera.width) & (v < view.camera.height)
    return np.stack([u, v, local[:, 2]], axis=1), inside


def _made_up(
    views: Sequence[View], centers: Float[np.ndarray, "V 3"]
) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float] | None]]:
    """Points on rays of each view where others see them, who sees them, and the depths at which that is so."""
    apart = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    unit = float(np.median(apart.min(axis=1))) or 1.0
    (across, down), steps = (_RAYS[len(views) > _MANY], _DEPTHS[len(views) > _MANY])
    depths = unit * np.geomspace(_NEAREST, _FARTHEST, steps)
    least = 1 if len(views) <= 3 else 2
    positions, ranges = [], []
    for i, view in enumerate(views):
        camera = view.camera
        x = ((np.arange(across) + 0.5) * camera.width / across - camera.cx) / camera.fx
        y = ((np.arange(down) + 0.5) * camera.height / down - camera.cy) / camera.fy
        rays = np.stack([*np.meshgrid(x, y), np.ones((down, across))], axis=-1).reshape(-1, 3)
        local = (rays[:, None] * depths[None, :, None]).reshape(-1, 3)
        world = transform_points(view.world_from_camera, local)
        others = np.zeros(len(world), dtype=int)
        for j, other in enumerate(views):
            if j != i:
                others += project(other, world)[1] & (_angles(world, centers[i], centers[j]) > LEAST_ANGLE)
        shared = (others >= min(least, max(int(others.max(initial=0)), 1))).reshape(len(rays), steps)
        share = shared.mean(axis=0)
        wide = np.flatnonzero(share >= 0.1 * max(float(share.max()), 1e-9))
        ranges.append((float(depths[wide[0]]), float(depths[wide[-1]])) if share.any() else None)
        positions.append(world[shared.ravel()])
    together = np.concatenate(positions)
    seen = np.stack([project(view, together)[1] for view in views])
    return together, seen, ranges


def _angles(
    positions: Float[np.ndarray, "N 3"], first: Float[np.ndarray, "3"], second: Float[np.ndarray, "3"]
) -> Float[np.ndarray, " N"]:
    """Degrees between the rays from two camera centres to each point."""
    a, b = positions - first, positions - second
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = (a * b).sum(axis=1) / np.maximum(lengths, 1e-30)
    return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))


def _scores(
    views: Sequence[View],
    centers: Float[np.ndarray, "V 3"],
    positions: Float[np.ndarray, "N 3"],
    seen: Bool[np.ndarray, "V N"],
) -> Float[np.ndarray, "V V"]:
    """How much a pair of views tells about depth: shared points, weighted by angle and by likeness of scale."""
    scores = np.zeros((len(views), len(views)))
    common = seen.astype(np.float32) @ seen.T.astype(np.float32)
    for i in range(len(views)):
        for j in np.flatnonzero(common[i, :i]).tolist():
            shared = positions[seen[i] & seen[j]]
            angle = _angles(shared, centers[i], centers[j])
            width = np.where(angle < BEST_ANGLE, _NARROW, _WIDE)
            weight = np.exp(-0.5 * ((angle - BEST_ANGLE) / width) ** 2)
            weight[angle < LEAST_ANGLE] = 0.0
            sizes = [view.camera.fx / np.maximum(np.linalg.norm(shared - view.world_from_camera[:3, 3], axis=1), 1e-30)
                     for view in (views[i], views[j])]  # fmt: skip
            ratio = np.minimum(sizes[0] / sizes[1], sizes[1] / sizes[0])
            scores[i, j] = scores[j, i] = float((weight * ratio**2).sum())
    return scores
