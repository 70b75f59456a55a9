"""How well a surface agrees with the depth maps it was made from: the quality figure that needs no truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .captures import Decoder, decode_usable
from .progress import Track, untracked
from .records import Capture, DepthMap, Mesh
from .render.rasterize import rasterize
from .transforms import rigid_inverse, transform_points


@dataclass(frozen=True)
class Agreement:
    """The rendered surface against measured depth, over a sample of frames."""

    frames: int
    """Depth maps that were compared."""
    pixels: int
    """Pixels with a measurement in them."""
    median: float
    """Median distance between surface and measurement along the viewing axis, metres."""
    p90: float
    """The distance that nine of ten pixels stay under, metres."""
    explained: float
    """Share of the measured pixels where the surface lies within `tolerance`."""
    tolerance: float
    """Metres."""


def measure_agreement(
    mesh: Mesh,
    capture: Capture,
    *,
    tolerance: float,
    depth_max: float | None = None,
    frames: int = 16,
    device: str,
    track: Track = untracked,
) -> Agreement | None:
    """Render the mesh into depth maps of the capture and compare; None where the capture has no posed depth.

    Args:
        mesh: In the capture's world frame.
        capture: Its depth maps are the measurement, noise included: an exact surface has the sensor's noise as its
            median.
        tolerance: Metres within which a pixel counts as explained.
        depth_max: Measurements beyond it are left out, metres.
        frames: How many depth maps to use, spread evenly.
        device: A Warp device.
        track: Progress.
    """
    maps = [f.depth for f in capture.frames if f.depth is not None and f.depth.world_from_camera is not None]
    chosen = [maps[i] for i in np.unique(np.linspace(0, len(maps) - 1, min(frames, len(maps))).astype(int))]
    gaps, measured, compared = [], 0, 0
    decoded = decode_usable(chosen, Decoder().depth)
    for depth, (metres, camera) in track(decoded, "comparing with the depth maps", len(chosen)):
        valid = metres > 0
        if depth_max is not None:
            valid &= metres <= depth_max
        measured += int(valid.sum())
        compared += 1
        vertices = _in_camera(mesh, depth)
        seen = rasterize(vertices, mesh.faces, camera, device=device)
        both = valid & (seen.face >= 0)
        gaps.append(np.abs(seen.depth[both] - metres[both]))
    if not measured:
        return None
    gap = np.concatenate(gaps)
    median, p90 = np.percentile(gap, [50, 90]) if gap.size else (np.inf, np.inf)
    return Agreement(
        compared, measured, float(median), float(p90), float((gap <= tolerance).sum() / measured), tolerance
    )


def _in_camera(mesh: Mesh, depth: DepthMap) -> np.ndarray:
    assert depth.world_from_camera is not None
    vertices = transform_points(rigid_inverse(depth.world_from_camera), mesh.vertices.astype(np.float64))
    return vertices.astype(np.float32)
