"""Did the camera move, or only turn? Photos taken by turning on the spot tell no depth, whatever a solver says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

FOCALS = 1.25 ** np.arange(-4, 7)
"""Focal lengths that are tried, over the longer side, where the focal length is not known."""
_SAMPLE = 400

Matches = tuple[Float[np.ndarray, "M 2"], Float[np.ndarray, "M 2"]]


def residuals_of_turning(
    pairs: Sequence[Matches],
    sizes: Sequence[tuple[int, int]],
    focals: Sequence[float | None],
) -> Float32[np.ndarray, " P"]:
    """What is left of the motion between two photos after the best turn of the camera, pixels (median), for each pair.

    Where the focal length is not known, the one is taken that explains most pairs as turns: a scene with parallax is
    explained by none.

    Args:
        pairs: Matched pixels of two photos; may be empty.
        sizes: Width and height of the photos of each pair.
        focals: Focal length in pixels where it is known.
    """
    table = np.full((len(pairs), len(FOCALS)), np.nan)
    for row, (a, b), size, focal in zip(table, pairs, sizes, focals, strict=True):
        if len(a) >= 8:
            step = max(1, len(a) // _SAMPLE)
            tried = FOCALS * max(size) if focal is None else [focal] * len(FOCALS)
            row[:] = [_residual(a[::step], b[::step], size, float(f)) for f in tried]
    if not np.isfinite(table).any():
        return np.full(len(pairs), np.nan, np.float32)
    best = int(np.nanargmin(np.nanmedian(table, axis=0)))
    return table[:, best].astype(np.float32)


def _residual(a: np.ndarray, b: np.ndarray, size: tuple[int, int], focal: float) -> float:
    middle = np.array(size) / 2
    x, y = (np.concatenate([(xy - middle) / focal, np.ones((len(xy), 1))], axis=1) for xy in (a, b))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    direction = y / np.linalg.norm(y, axis=1, keepdims=True)
    u, _, vt = np.linalg.svd(direction.T @ x)  # Kabsch 1976
    turned = x @ (u * [1.0, 1.0, np.linalg.det(u @ vt)] @ vt).T
    ahead = turned[:, 2] > 0.05
    if ahead.sum() < len(a) / 2:
        return float("nan")
    off = turned[ahead, :2] / turned[ahead, 2:] - y[ahead, :2]
    return float(np.median(np.linalg.norm(off, axis=1))) * focal
