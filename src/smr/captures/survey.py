"""A look at a capture before the work: what its depth is like, where the scene lies, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float32

from ..progress import Track, untracked
from ..records import Capture, Finding, UpAxis
from .color_offset import ColorOffset, color_offset
from .consistency import STRIDE, Hypothesis, View, agreement, points_in_camera, typical_difference
from .problems import capture_findings, frame_findings, scale_findings
from .sample import Look, Sample, brightness_ratio, take_sample

PERCENTILES = (1.0, 5.0, 50.0, 95.0, 99.0)
NOISE_BINS = 6
BLURRED = 0.35
"""A photo whose sharpness is below this part of the sample's median is called blurred."""
_AXES: tuple[UpAxis, ...] = ("x", "-x", "y", "-y", "z", "-z")


@dataclass(frozen=True)
class Survey:
    """What a sample of the frames says about a capture. Lengths are metres, shares are 0 to 1."""

    frames: int
    sampled: int
    photos: int
    """Frames with a photo."""
    depth_maps: int
    """Frames with a depth map."""
    photo_size: tuple[int, int] | None
    """Width and height."""
    depth_size: tuple[int, int] | None
    """Width and height."""
    focal_length: float
    """Of the depth camera (the photo's where there is no depth), pixels of the undistorted image."""
    valid_depth: float
    """Share of the pixels that have depth; the rest is 0."""
    depth_percentiles: tuple[float, ...]
    """Depth at 1, 5, 50, 95 and 99 percent of the pixels that have it; empty without depth."""
    noise_by_depth: tuple[tuple[float, float], ...]
    """Depth and the median distance of its pixels to small planes, near to far."""
    noise: float
    """The same at the median depth."""
    frame_difference: float
    """Median distance between what two frames measured of the same surface: noise, and error of the poses."""
    agreement: float
    """Share of depth that the neighbouring frame confirms within 2 %."""
    flying_pixels: float
    """Share of the pixels with depth that hang between two surfaces."""
    ground_sample_distance: float
    """Side of a depth pixel's footprint at the median depth."""
    blurred: tuple[str, ...]
    """Sampled frames whose photo is much less sharp than the others."""
    exposure_spread: float | None
    """Robust spread of brightness between photos of the same surface; 0.1 is 10 %."""
    color_offset: ColorOffset | None
    """How far colour lies from depth; None where it cannot be told."""
    extent: tuple[tuple[float, float, float], tuple[float, float, float]] | None
    """Lower and upper corner of the scene, 1 to 99 % of the points, world frame."""
    world_up: UpAxis
    """The world's up axis: as the format says, else estimated from how the cameras were held."""
    world_up_estimated: bool
    findings: tuple[Finding, ...]
    points: Float32[np.ndarray, "N 3"]
    """Points of the sampled frames' depth, world frame."""
    rays: Float32[np.ndarray, "N 3"]
    """Unit vectors from the camera to each point."""
    point_spacing: Float32[np.ndarray, " N"]
    """Distance to the next sampled point on a wall that faces the camera."""
    point_views: Float32[np.ndarray, " N"]
    """Index of each point's frame among the sampled."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the sample points are left out."""
        left_out = ("points", "rays", "point_spacing", "point_views", "findings", "color_offset")
        plain: dict[str, Any] = {name: value for name, value in vars(self).items() if name not in left_out}
        plain["color_offset"] = None if self.color_offset is None else vars(self.color_offset)
        plain["findings"] = [vars(finding) for finding in self.findings]
        return plain


SURVEY_RECORDS = (Survey, ColorOffset, Finding)
"""Every dataclass that occurs in a survey."""


def survey(capture: Capture, *, track: Track = untracked) -> Survey:
    """Decode a sample of frames and say what a reconstruction would start from.

    Never raises for what is wrong with the capture: that becomes findings, each with a cure.
    """
    sample = take_sample(capture, track=track)
    seen = _measure(capture, sample)
    findings = [
        *capture_findings(capture, seen),
        *scale_findings(capture, sample, seen),
        *frame_findings(sample.looks, seen, _depth_scale(capture)),
    ]
    return replace(seen, findings=tuple(findings))


def _depth_scale(capture: Capture) -> float:
    return next((frame.depth.scale for frame in capture.frames if frame.depth is not None), 1.0)


def _measure(capture: Capture, sample: Sample) -> Survey:
    views = [look.view for look in sample.looks if look.view is not None]
    points, rays, spacing, owners = _world_points(views)
    depths = np.concatenate([view.depth[view.depth > 0][::17] for view in views]) if views else np.zeros(0)
    percentiles = tuple(float(value) for value in np.percentile(depths, PERCENTILES)) if len(depths) else ()
    noise_by_depth, noise = _noise(sample.looks, percentiles)
    photo = next((frame.photo for frame in capture.frames if frame.photo is not None), None)
    depth = next((frame.depth for frame in capture.frames if frame.depth is not None), None)
    camera = views[0].camera if views else depth.camera if depth else photo.camera if photo else None
    focal = camera.fx if camera is not None else 0.0
    with_depth = [look for look in sample.looks if look.bits]
    edges = [look.edges for look in sample.looks if look.edges is not None]
    return Survey(
        frames=len(capture),
        sampled=len(sample.looks),
        photos=sum(frame.photo is not None for frame in capture.frames),
        depth_maps=sum(frame.depth is not None for frame in capture.frames),
        photo_size=None if photo is None else (photo.camera.width, photo.camera.height),
        depth_size=None if depth is None else (depth.camera.width, depth.camera.height),
        focal_length=focal,
        valid_depth=float(np.mean([look.valid for look in with_depth])) if with_depth else 0.0,
        depth_percentiles=percentiles,
        noise_by_depth=noise_by_depth,
        noise=noise,
        frame_difference=typical_difference(list(sample.pairs)),
        agreement=agreement(list(sample.pairs), Hypothesis("none", 1.0)),
        flying_pixels=float(np.mean([look.flying for look in with_depth])) if with_depth else 0.0,
        ground_sample_distance=percentiles[2] / focal if percentiles and focal else 0.0,
        blurred=_blurred(sample.looks),
        exposure_spread=_exposure_spread(sample.looks),
        color_offset=color_offset(edges),
        extent=_extent(points),
        world_up=capture.world_up or estimated_up(capture),
        world_up_estimated=capture.world_up is None,
        findings=(),
        points=points,
        rays=rays,
        point_spacing=spacing,
        point_views=owners,
    )


def _world_points(
    views: list[View],
) -> tuple[
    Float32[np.ndarray, "N 3"], Float32[np.ndarray, "N 3"], Float32[np.ndarray, " N"], Float32[np.ndarray, " N"]
]:
    """Points, rays, spacing and index of the view, of all views."""
    points, rays, spacing, owners = [], [], [], []
    for i, view in enumerate(views):
        local = points_in_camera(view)
        rotation, center = view.world_from_camera[:3, :3], view.world_from_camera[:3, 3]
        points.append(local @ rotation.T + center)
        rays.append(local @ rotation.T / np.maximum(np.linalg.norm(local, axis=1, keepdims=True), 1e-9))
        spacing.append(local[:, 2] * STRIDE / view.camera.fx)
        owners.append(np.full(len(local), i))
    if not points:
        return (
            np.zeros((0, 3), np.float32),
            np.zeros((0, 3), np.float32),
            np.zeros(0, np.float32),
            np.zeros(0, np.float32),
        )
    return (
        np.concatenate(points).astype(np.float32),
        np.concatenate(rays).astype(np.float32),
        np.concatenate(spacing).astype(np.float32),
        np.concatenate(owners).astype(np.float32),
    )


def _noise(looks: tuple[Look, ...], percentiles: tuple[float, ...]) -> tuple[tuple[tuple[float, float], ...], float]:
    """Noise in bins of depth, and at the median depth."""
    samples = [look.noise for look in looks if look.noise is not None and len(look.noise.depth)]
    if not samples or not percentiles:
        return (), 0.0
    depth = np.concatenate([sample.depth for sample in samples])
    noise = np.concatenate([sample.noise for sample in samples])
    edges = np.linspace(percentiles[0], percentiles[-1], NOISE_BINS + 1)
    bins = np.clip(np.digitize(depth, edges) - 1, 0, NOISE_BINS - 1)
    by_depth = tuple(
        (float(np.median(depth[bins == i])), float(np.median(noise[bins == i])))
        for i in range(NOISE_BINS)
        if (bins == i).sum() >= 50
    )
    near = np.argsort(np.abs(depth - percentiles[2]))[: max(len(depth) // 4, 1)]
    return by_depth, float(np.median(noise[near]))


def _blurred(looks: tuple[Look, ...]) -> tuple[str, ...]:
    sharp = {look.name: look.sharpness for look in looks if look.sharpness is not None}
    if len(sharp) < 8:  # too few to say what is usual here
        return ()
    typical = float(np.median(list(sharp.values())))
    return tuple(name for name, value in sharp.items() if value < BLURRED * typical)


def _exposure_spread(looks: tuple[Look, ...]) -> float | None:
    """1.48 times the median absolute deviation of the logarithms of brightness ratios, as a share."""
    ratios = [ratio for a, b in pairwise(looks) if (ratio := brightness_ratio(a, b)) is not None]
    if len(ratios) < 2:
        return None
    return float(np.expm1(1.4826 * np.median(np.abs(np.log(ratios)))))


def _extent(
    points: Float32[np.ndarray, "N 3"],
) -> tuple[tuple[float, float, float], tuple[float, float, float]] | None:
    if len(points) == 0:
        return None
    low, high = np.percentile(points, (1, 99), axis=0)
    return (float(low[0]), float(low[1]), float(low[2])), (float(high[0]), float(high[1]), float(high[2]))


def estimated_up(capture: Capture) -> UpAxis:
    """The axis nearest to the mean upward direction of the images; cameras are mostly held level."""
    sensors = [frame.photo or frame.depth for frame in capture.frames]
    ups = [-s.world_from_camera[:3, 1] for s in sensors if s is not None and s.world_from_camera is not None]
    if not ups:
        return "-y"
    up = np.mean(ups, axis=0)
    axis = int(np.abs(up).argmax())
    return _AXES[2 * axis + (0 if up[axis] > 0 else 1)]
