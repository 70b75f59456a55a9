"""Measures of one depth map or photo: noise against local planes, flying pixels, quantisation, sharpness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Shaped, UInt8

_WINDOW = 7
_WINDOWS = 3000
_SMOOTH = 0.02
"""A window whose depths differ by more than this part is on an edge or steep, and says nothing about noise."""
JUMP = 0.05
"""Neighbouring depths that differ by more than this part lie on different surfaces."""


@dataclass(frozen=True)
class NoiseSample:
    """Residuals of small windows to planes."""

    depth: Float[np.ndarray, " N"]
    """Depth of each window, metres."""
    noise: Float[np.ndarray, " N"]
    """Root mean square distance along z of its pixels to its plane, metres."""


def plane_noise(depth: Float32[np.ndarray, "h w"], rng: np.random.Generator) -> NoiseSample:
    """Fit planes to random windows of 7×7 pixels; a plane's inverse depth is linear in the pixel coordinates."""
    height, width = depth.shape
    if height <= _WINDOW or width <= _WINDOW:
        return NoiseSample(np.zeros(0), np.zeros(0))
    top = rng.integers(0, height - _WINDOW, _WINDOWS)
    left = rng.integers(0, width - _WINDOW, _WINDOWS)
    offset = np.arange(_WINDOW)
    rows = top[:, None, None] + offset[None, :, None]
    columns = left[:, None, None] + offset[None, None, :]
    windows = depth[rows, columns].reshape(-1, _WINDOW**2).astype(np.float64)
    low, high = windows.min(axis=1), windows.max(axis=1)
    windows = windows[(low > 0) & (high - low < _SMOOTH * high)]
    if len(windows) == 0:
        return NoiseSample(np.zeros(0), np.zeros(0))
    x, y = np.meshgrid(offset, offset)
    basis, _ = np.linalg.qr(np.stack([np.ones(_WINDOW**2), x.ravel(), y.ravel()], axis=1))
    inverse = 1.0 / windows
    residual = inverse - (inverse @ basis) @ basis.T
    center = windows.mean(axis=1)
    rms = np.sqrt((residual**2).sum(axis=1) / (_WINDOW**2 - 3))
    return NoiseSample(center, rms * center**2)


def flying_pixels(depth: Float32[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Pixels that hang between two surfaces: a jump behind one neighbour and a jump before the opposite one."""
    flying = np.zeros(depth.shape, dtype=bool)
    for axis in (0, 1):
        before, middle, after = (
            np.moveaxis(depth, axis, 0)[part] for part in (slice(-2), slice(1, -1), slice(2, None))
        )
        near, far = np.minimum(before, after), np.maximum(before, after)
        gap = JUMP * middle
        hangs = (near > 0) & (middle - near > gap) & (far - middle > gap)
        np.moveaxis(flying, axis, 0)[1:-1] |= hangs
    return flying


def quantisation(stored: Shaped[np.ndarray, "h w"]) -> tuple[int, float]:
    """Step between stored values, and the share of pixels at the largest one (saturated); (0, 0) for floats."""
    if stored.dtype.kind not in "ui":
        return 0, 0.0
    counts = np.bincount(np.clip(stored, 0, 65535).ravel(), minlength=65536)[1:65535]
    values = np.flatnonzero(counts) + 1
    counts = counts[values - 1]
    if len(values) < 2:
        return 0, 0.0
    step = int(np.gcd.reduce(values.astype(np.int64)))
    return step, float(counts[-1] / counts.sum())


def luminance(pixels: UInt8[np.ndarray, "h w 3"], longest: int = 640) -> Float32[np.ndarray, "h2 w2"]:
    """Grey levels at about `longest` pixels: means of blocks of pixels, so that sizes compare."""
    step = max(1, round(max(pixels.shape[:2]) / longest))
    height, width = pixels.shape[0] // step * step, pixels.shape[1] // step * step
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    grey: np.ndarray = pixels[:height, :width].astype(np.float32) @ weights
    return grey.reshape(height // step, step, width // step, step).mean(axis=(1, 3))


def sharpness(grey: Float32[np.ndarray, "h w"]) -> float:
    """Variance of the Laplacian (Pech-Pacheco 2000) over the image's variance: low in blurred images."""
    laplacian = 4 * grey[1:-1, 1:-1] - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return float(laplacian.var() / max(float(grey.var()), 1.0))
