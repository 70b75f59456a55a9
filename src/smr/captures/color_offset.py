"""Does colour lie where depth is? Edges of depth, laid over edges of colour, under shifts and scalings.

Colour of an unregistered sensor is shifted and, with another focal length, scaled against depth. For each scaling the
cross-correlation of the two edge images over all shifts comes from one Fourier transform; the best peak over all frames
together tells the offset, and how far it stands above the value at no offset tells whether to believe it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, UInt8
from scipy.fft import irfft2, next_fast_len, rfft2

from ..records import Camera
from ..transforms import rigid_inverse
from .consistency import View
from .depth_quality import JUMP

SCALES = (0.8, 0.85, 0.88, 0.9, 0.92, 0.95, 0.98, 1.0, 1.02, 1.05, 1.08, 1.11, 1.15, 1.2)
FRAMES = 12
"""The frames with most depth edges that are used."""
REACH = 64
"""Pixels of the reduced image (about 320 wide) by which colour may be shifted."""
_LONGEST = 320
_NEAR = 3.0
"""Pixels of the reduced image that count as no offset."""


@dataclass(frozen=True)
class ColorOffset:
    """How far colour edges lie from where depth edges are projected."""

    pixels: float
    """Median distance over the depth edges, pixels of the photo."""
    scale: float
    """Colour coordinates over expected ones, about the image's centre."""
    shift: tuple[float, float]
    """Pixels of the photo, right and down."""
    gain: float
    """Correlation at the best place over that at no offset; near 1 where colour is in place."""
    contrast: float
    """Height of the best peak over the background, in standard deviations of it."""


@dataclass(frozen=True)
class EdgePair:
    """Edges of one frame, in the reduced photo."""

    depth_edges: Float[np.ndarray, "N 2"]
    """Where depth edges are projected, pixels of the reduced photo."""
    color_edges: Float32[np.ndarray, "h w"]
    """Strength of colour edges, 0 to 1."""
    step: int
    """Pixels of the photo a pixel."""


def edge_pair(
    view: View, pixels: UInt8[np.ndarray, "h w 3"], camera: Camera, world_from_color: Float[np.ndarray, "4 4"]
) -> EdgePair:
    """Edges of a depth map as its photo should show them, and those that it shows."""
    step = max(1, round(max(pixels.shape[:2]) / _LONGEST))
    height, width = pixels.shape[0] // step, pixels.shape[1] // step
    small = pixels[: height * step, : width * step].astype(np.float32)
    small = small.reshape(height, step, width, step, 3).mean(axis=(1, 3))
    points = _depth_edge_points(view)
    color_from_depth = rigid_inverse(world_from_color) @ view.world_from_camera
    moved = points @ color_from_depth[:3, :3].T + color_from_depth[:3, 3]
    moved = moved[moved[:, 2] > 1e-6]
    u = (camera.fx * moved[:, 0] / moved[:, 2] + camera.cx) / step
    v = (camera.fy * moved[:, 1] / moved[:, 2] + camera.cy) / step
    inside = (u >= 0) & (v >= 0) & (u < width) & (v < height)
    return EdgePair(np.stack([u[inside], v[inside]], axis=1), _color_edges(small), step)


def _depth_edge_points(view: View) -> Float[np.ndarray, "N 3"]:
    """The pixels on the near side of each jump in depth, in the depth camera."""
    depth = view.depth
    edge = np.zeros(depth.shape, dtype=bool)
    across = (depth[:, 1:] > 0) & (depth[:, :-1] > 0)
    left = across & (depth[:, 1:] - depth[:, :-1] > 2 * JUMP * depth[:, :-1])
    right = across & (depth[:, :-1] - depth[:, 1:] > 2 * JUMP * depth[:, 1:])
    edge[:, :-1] |= left
    edge[:, 1:] |= right
    along = (depth[1:] > 0) & (depth[:-1] > 0)
    edge[:-1] |= along & (depth[1:] - depth[:-1] > 2 * JUMP * depth[:-1])
    edge[1:] |= along & (depth[:-1] - depth[1:] > 2 * JUMP * depth[1:])
    rows, columns = np.nonzero(edge)
    z = depth[rows, columns].astype(np.float64)
    x = (columns + 0.5 - view.camera.cx) / view.camera.fx * z
    y = (rows + 0.5 - view.camera.cy) / view.camera.fy * z
    return np.stack([x, y, z], axis=1)


def _color_edges(image: Float32[np.ndarray, "h w 3"]) -> Float32[np.ndarray, "h w"]:
    """Gradient strength over the image's own typical one, so that one strong edge does not outvote the rest."""
    dx, dy = np.zeros_like(image), np.zeros_like(image)
    dx[:, 1:-1] = image[:, 2:] - image[:, :-2]
    dy[1:-1] = image[2:] - image[:-2]
    strength = np.sqrt((dx**2 + dy**2).sum(axis=2))
    typical = max(float(np.percentile(strength, 80)), 4.0)
    edges: np.ndarray = strength / (strength + typical)
    return edges.astype(np.float32)


def color_offset(pairs: Sequence[EdgePair]) -> ColorOffset | None:
    """The offset of colour over these frames; None where there are too few depth edges to tell."""
    pairs = sorted((p for p in pairs if len(p.depth_edges) >= 50), key=lambda p: -len(p.depth_edges))[:FRAMES]
    pairs = [pair for pair in pairs if pair.color_edges.shape == pairs[0].color_edges.shape]
    if sum(len(pair.depth_edges) for pair in pairs) < 500:
        return None
    surfaces = _correlations(pairs)
    best_scale = max(surfaces, key=lambda scale: float(surfaces[scale].max()))
    best, plain = surfaces[best_scale], surfaces[1.0]
    row, column = np.unravel_index(int(best.argmax()), best.shape)
    shift = np.array([column - REACH, row - REACH], dtype=np.float64)
    near = slice(REACH - int(_NEAR), REACH + int(_NEAR) + 1)
    background = float(np.median(plain))
    spread = max(float(np.median(np.abs(plain - background))) * 1.4826, 1e-12)
    moved = np.concatenate([_displacement(pair, best_scale, shift) for pair in pairs])
    step = pairs[0].step
    return ColorOffset(
        pixels=float(np.median(moved)) * step,
        scale=best_scale,
        shift=(float(shift[0]) * step, float(shift[1]) * step),
        gain=(float(best.max()) - background) / max(float(plain[near, near].max()) - background, 1e-12),
        contrast=(float(best.max()) - background) / spread,
    )


def _scaled(pair: EdgePair, scale: float) -> Float[np.ndarray, "N 2"]:
    height, width = pair.color_edges.shape
    center = np.array([width / 2, height / 2])
    return (pair.depth_edges - center) * scale + center


def _displacement(pair: EdgePair, scale: float, shift: Float[np.ndarray, "2"]) -> Float[np.ndarray, " N"]:
    distance: np.ndarray = np.linalg.norm(_scaled(pair, scale) + shift - pair.depth_edges, axis=1)
    return distance


def _correlations(pairs: Sequence[EdgePair]) -> dict[float, Float32[np.ndarray, "s s"]]:
    """Mean colour-edge strength under the depth edges, for every scaling and every shift up to `REACH`."""
    height, width = pairs[0].color_edges.shape
    shape = (next_fast_len(height + 2 * REACH, real=True), next_fast_len(width + 2 * REACH, real=True))
    colors = [rfft2(pair.color_edges - pair.color_edges.mean(), s=shape) for pair in pairs]
    window = np.ix_(np.arange(-REACH, REACH + 1), np.arange(-REACH, REACH + 1))
    surfaces = {}
    for scale in SCALES:
        spectrum = sum(
            np.conj(rfft2(_marks(pair, scale), s=shape)) * color / len(pair.depth_edges)
            for pair, color in zip(pairs, colors, strict=True)
        )
        surfaces[scale] = irfft2(spectrum, s=shape)[window].astype(np.float32)
    return surfaces


def _marks(pair: EdgePair, scale: float) -> Float32[np.ndarray, "h w"]:
    """An image of the scaled depth edges: 1 on an edge."""
    height, width = pair.color_edges.shape
    points = _scaled(pair, scale)
    x, y = points[((points >= 0) & (points < [width, height])).all(axis=1)].astype(int).T
    marks = np.zeros((height, width), np.float32)
    marks[y, x] = 1.0
    return marks
