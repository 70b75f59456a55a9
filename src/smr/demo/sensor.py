"""A depth camera and a colour camera as they really are: noise, steps, holes, flying pixels, changing exposure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from scipy import ndimage

Depth = Float[np.ndarray, "h w"]


@dataclass(frozen=True)
class Sensor:
    """An active stereo camera of the kind that is built into phones and depth cameras."""

    baseline: float = 0.06
    """Between projector and camera, metres."""
    disparity_sigma: float = 0.08
    """Standard deviation of the disparity at 640 pixels of image width; depth noise grows with its square."""
    disparity_step: float = 1.0 / 16.0
    """The disparity is a multiple of this, pixels at 640 pixels of image width."""
    grazing: float = 0.18
    """Below this cosine between ray and normal depth is mostly missing."""
    exposure: float = 0.05
    """Largest relative change of brightness from view to view."""
    grain: float = 1.5
    """Noise of the colours, grey levels."""


def measure_depth(depth: Depth, facing: Depth, focal: float, sensor: Sensor, rng: np.random.Generator) -> Depth:
    """What the depth camera reports for an exact depth map; 0 where it reports nothing.

    Args:
        depth: Metres along z, 0 where nothing is hit.
        facing: Cosine between ray and normal.
        focal: Focal length in pixels.
        sensor: The camera.
        rng: Source of the noise.
    """
    height, width = depth.shape
    # Matching windows straddle edges: each pixel reports what lies up to a pixel beside it.
    rows, columns = np.indices(depth.shape)
    shift = np.rint(rng.normal(0.0, 0.45, (2, height, width))).astype(int)
    rows = np.clip(rows + shift[0], 0, height - 1)
    columns = np.clip(columns + shift[1], 0, width - 1)
    near, far = ndimage.minimum_filter(depth, 3), ndimage.maximum_filter(depth, 3)
    edge = far - near > 0.01 + 6.0 * far / focal
    seen = np.where(edge, depth[rows, columns], depth)

    scale = width / 640.0
    focal_baseline = focal * sensor.baseline
    disparity = np.where(seen > 0, focal_baseline / np.where(seen > 0, seen, 1.0), 0.0)
    # Neighbouring matching windows overlap, so half of the noise is smooth over a few pixels.
    smooth = ndimage.gaussian_filter(rng.normal(0.0, 1.0, depth.shape), 1.2, mode="wrap") * 4.25
    noise = np.sqrt(0.5) * (smooth + rng.normal(0.0, 1.0, depth.shape))
    disparity = disparity + scale * sensor.disparity_sigma * noise
    step = scale * sensor.disparity_step
    disparity = np.rint(disparity / step) * step
    measured = np.where(seen > 0, focal_baseline / np.maximum(disparity, step), 0.0)

    # Flying pixels: some of an edge's pixels lie between its two sides.
    flying = edge & (near > 0) & (rng.random(depth.shape) < 0.12)
    measured = np.where(flying, near + rng.random(depth.shape) * (far - near), measured)
    keep = np.clip((facing - 0.5 * sensor.grazing) / sensor.grazing, 0.0, 1.0)
    lost = rng.random(depth.shape) > keep
    lost |= edge & (rng.random(depth.shape) < 0.5)
    lost |= shadow(depth, focal_baseline)
    lost |= ndimage.gaussian_filter(rng.normal(0.0, 1.0, depth.shape), 4.0 * scale, mode="wrap") > 0.27 / scale
    return np.where(lost | (depth == 0), 0.0, measured)


def shadow(depth: Depth, focal_baseline: float) -> np.ndarray:
    """Pixels that the projector, to the right of the camera, does not light because something nearer is in its way."""
    columns = np.arange(depth.shape[1])
    lit_at = np.where(depth > 0, columns - focal_baseline / np.where(depth > 0, depth, 1.0), np.inf)
    nearest = np.minimum.accumulate(lit_at[:, ::-1], axis=1)[:, ::-1]
    return lit_at > nearest + 1.5


def take_photo(
    color: Float[np.ndarray, "h w 3"], sensor: Sensor, rng: np.random.Generator
) -> UInt8[np.ndarray, "h w 3"]:
    """8-bit colour with this view's exposure and white balance, and grain."""
    gain = 1.0 + sensor.exposure * rng.uniform(-1.0, 1.0) + 0.2 * sensor.exposure * rng.uniform(-1.0, 1.0, 3)
    noisy = color * gain + rng.normal(0.0, sensor.grain, color.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
