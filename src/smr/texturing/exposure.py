"""How bright each photo is compared with the others: a gain per photo and channel from points that several photos show.

log(value) = log(colour of the point) + log(gain of the photo). The colour drops out between two photos of one point,
which leaves a sparse robust least-squares problem with one unknown a photo (as Goldman and Chen 2005, without
vignetting). The gauge: the mean log gain is 0.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Float64, Int32
from scipy.linalg import cho_factor, cho_solve

_DARKEST, _BRIGHTEST = 12.0, 245.0
_POINTS = 30_000
_SCALES = (0.5, 0.3, 0.2, 0.12, 0.08, 0.06, 0.06)
"""Differences of logarithms beyond which a pair counts little: a wide view first, so that no local minimum is taken."""
_PRIOR = 2.0


def solve_gains(
    slot_views: Int32[np.ndarray, "V K"], slot_colors: Float32[np.ndarray, "V K 3"], views: int
) -> Float64[np.ndarray, "views 3"]:
    """Find by what each photo's values must be multiplied so that they agree.

    Args:
        slot_views: Photos that saw a point, -1 for none.
        slot_colors: What they saw there, 0 to 255.
        views: Number of photos.
    """
    stride = max(1, len(slot_views) // _POINTS)
    seen, colors = slot_views[::stride], slot_colors[::stride]
    usable = (seen >= 0) & ((colors > _DARKEST) & (colors < _BRIGHTEST)).all(-1)
    logs = np.log(np.maximum(colors, 1.0))
    return np.exp(-np.stack([_solve(seen, logs[..., c], usable, views) for c in range(3)], axis=1))


def _solve(seen: np.ndarray, logs: np.ndarray, usable: np.ndarray, views: int) -> Float64[np.ndarray, " views"]:
    pairs = [_pairs(seen, logs, usable, step) for step in range(1, min(5, seen.shape[1]))]
    if not pairs:
        return np.zeros(views)
    a, b, difference = (np.concatenate([pair[i] for pair in pairs]) for i in range(3))
    gains = np.zeros(views)
    for scale in _SCALES:
        residual = difference - (gains[a] - gains[b])
        weight = 1.0 / (1.0 + (residual / scale) ** 2) ** 2  # Geman and McClure
        flat = np.bincount(a * views + b, weight, views * views).reshape(views, views)
        flat = flat + flat.T
        # the prior pulls a photo that shares few points with others to gain 1 and fixes the gauge
        matrix = np.diag(flat.sum(1) + _PRIOR) - flat
        right = np.bincount(a, weight * difference, views) - np.bincount(b, weight * difference, views)
        gains = cho_solve(cho_factor(matrix), right)
        gains -= gains.mean()
    return gains


def _pairs(
    seen: np.ndarray, logs: np.ndarray, usable: np.ndarray, step: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    both = usable[:, step:] & usable[:, :-step]
    return (
        seen[:, :-step][both].astype(np.int64),
        seen[:, step:][both].astype(np.int64),
        (logs[:, :-step] - logs[:, step:])[both].astype(np.float64),
    )
