"""What photos lack for a reconstruction: poses from motion, depth from stereo. Captures that have both pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from . import mvs, sfm
from .captures.wide import split_wide
from .config import PipelineConfig
from .progress import Track
from .records import Capture, Mesh, Photo
from .run_folder import RunFolder, capture_fingerprint, fingerprint
from .support import support
from .transforms import rigid_inverse, transform_points


def needs_depth(capture: Capture) -> bool:
    """Whether depth must be found: no frame has any, or none that has a pose."""
    return all(frame.depth is None for frame in capture.frames) or needs_poses(capture)


def needs_poses(capture: Capture) -> bool:
    """Whether the capture has photos and none of its frames has a pose."""
    sensors = [sensor for frame in capture.frames for sensor in (frame.photo, frame.depth) if sensor is not None]
    return any(isinstance(s, Photo) for s in sensors) and all(s.world_from_camera is None for s in sensors)


def find_poses(
    capture: Capture, config: PipelineConfig, run: RunFolder, *, track: Track
) -> tuple[Capture, sfm.SfmReport | None]:
    """The capture with poses and with photos that pinhole cameras can hold; the report of how that was done.

    Nothing is done for captures with depth and poses. Photos whose poses are known keep them, and are checked.
    """
    posed = not needs_poses(capture) and not config.sfm.find_poses
    if posed and not needs_depth(capture):
        return capture, None
    if posed:  # views of wide photos are photos with known poses too
        capture = split_wide(capture, run.folder / "views", track=track)
    key = fingerprint(capture_fingerprint(capture), config.sfm, config.seed)
    report = run.stage(
        "poses",
        key,
        lambda: sfm.find_poses(capture, config.sfm, folder=run.folder, track=track, seed=config.seed)[1],
        sfm.SFM_RECORDS,
    )
    capture = sfm.with_poses(capture, report)
    return (capture if posed else split_wide(capture, run.folder / "views", track=track)), report


def estimate_depths(
    capture: Capture,
    poses: sfm.SfmReport | None,
    config: PipelineConfig,
    run: RunFolder,
    *,
    device: str,
    track: Track,
) -> Capture:
    """The capture with a depth map for each photo, where it has none."""
    if not needs_depth(capture):
        return capture
    views = any(frame.photo is not None and _is_view(frame.photo.path) for frame in capture.frames)
    settings = replace(config.mvs, hull=False) if views else config.mvs  # the masks of views are no silhouettes
    return run.step(
        "depths",
        lambda: mvs.estimate_depths(
            capture,
            settings,
            folder=run.folder / "depths",
            device=device,
            track=track,
            points=None if poses is None else _points(capture, poses.points),
            seed=config.seed,
        ),
    )


def with_support(mesh: Mesh, capture: Capture, run: RunFolder, key: str, *, device: str, track: Track) -> Mesh:
    """The mesh with the number of depth maps in which each vertex is found."""
    counts = run.stage("support", key, lambda: support(mesh, capture, device=device, track=track), ())
    return replace(mesh, support=counts)


def support_summary(mesh: Mesh) -> dict[str, float] | None:
    """What stands behind the surface, for the report; None where it was not counted."""
    if mesh.support is None or not len(mesh.support):
        return None
    return {
        "median_views": float(np.median(mesh.support)),
        "share_in_two_or_more": float((mesh.support >= 2).mean()),
        "share_in_none": float((mesh.support == 0).mean()),
    }


def _points(capture: Capture, points: sfm.Points) -> mvs.SparsePoints | None:
    """The points as stereo wants them; of photos that were split, each view has the points that lie in it."""
    if not len(points.positions):
        return None
    frames = 1 + int(points.track_frames.max(initial=-1))
    if frames <= len(capture) and all(
        frame.photo is None or not _is_view(frame.photo.path) for frame in capture.frames
    ):
        return mvs.SparsePoints(points.positions, points.seen(len(capture)))
    seen = []
    for frame in capture.frames:
        assert frame.photo is not None
        assert frame.photo.world_from_camera is not None
        camera = frame.photo.camera
        at = transform_points(rigid_inverse(frame.photo.world_from_camera), points.positions)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = camera.fx * at[:, 0] / at[:, 2] + camera.cx
            v = camera.fy * at[:, 1] / at[:, 2] + camera.cy
        inside = (at[:, 2] > 0) & (u > 0) & (v > 0) & (u < camera.width) & (v < camera.height)
        seen.append(np.flatnonzero(inside).astype(np.int32))
    return mvs.SparsePoints(points.positions, tuple(seen))


def _is_view(path: Path) -> bool:
    return path.parent.name == "views"
