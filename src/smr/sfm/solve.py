"""Poses for photos: a job for pycolmap, and what its answer means for the capture."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..arrays import cpu_threads
from ..captures.lenses import COLMAP_MODELS, camera_of_parameters
from ..config import SfmConfig
from ..errors import SmrError
from ..progress import Track, untracked
from ..records import Camera, Capture, Frame
from ..run_folder import capture_fingerprint, fingerprint
from ..transforms import rigid_inverse
from . import words
from .job import Answer, Job, JobCamera, JobPhoto
from .process import run
from .report import Points, SfmReport
from .world import Similarity, find_scale, upright

FEATURE_SIZE = 2400
"""Longer side in pixels at which features are looked for; with many photos less."""
MANY = 120
"""Photos from which features are looked for at 1600 pixels."""
SEQUENCE = 80
"""Photos from which photos in sequence (video) are not compared all with all."""
EXHAUSTIVE = 40
LEAST = 0.1
"""Share of the photos that must get a pose; what is made of fewer is not what was photographed."""


def find_poses(
    capture: Capture, config: SfmConfig, *, folder: Path, track: Track = untracked, seed: int = 0
) -> tuple[Capture, SfmReport]:
    """Find where each photo was taken, and points of the surface.

    Where the photos have poses, these are kept and only points are found, unless `config.find_poses` asks for poses.
    Cameras that are known (given with `--intrinsics` or by the capture's format) stay as they are; focal lengths from
    EXIF are where the search begins.

    Args:
        capture: Photos with or without poses.
        config: Matching, mapping, and what the user says about the scale.
        folder: Where features and matches are kept, so that a stopped run continues.
        track: Progress.
        seed: Start of every random number. The result is the same for the same seed on the same machine for up to
            150 photos; above that mapping uses all cores, and their order matters.

    Returns:
        The capture with the photos that have a pose, and the report.

    Raises:
        SmrError: pycolmap is not installed or crashes, or no poses can be found; the words tell what to do.
    """
    given = [i for i, frame in enumerate(capture.frames) if frame.photo is not None]
    frames = [capture.frames[i] for i in given]
    posed = bool(frames) and all(f.photo is not None and f.photo.world_from_camera is not None for f in frames)
    posed = posed and not config.find_poses
    if len(frames) < 2:
        raise SmrError(
            f"{'There is only one photo' if frames else 'There is no photo'} in {capture.source}; a surface needs at "
            "least two, from different places.",
            words.HOW,
        )
    job = make_job(frames, config, posed=posed, seed=seed)
    answer = run(job, _kept_folder(capture, job, folder), track)
    report = _report(capture, given, frames, job, answer, config)
    return with_poses(capture, report), report


def with_poses(capture: Capture, report: SfmReport) -> Capture:
    """The capture's registered frames with the poses and cameras of a report."""
    frames = []
    for index, pose, camera in zip(report.kept, report.poses, report.cameras, strict=True):
        frame = capture.frames[index]
        assert frame.photo is not None
        depth = frame.depth
        if depth is not None and not report.known_poses:
            depth = replace(depth, world_from_camera=pose)
        photo = replace(frame.photo, camera=camera, world_from_camera=pose)
        frames.append(replace(frame, photo=photo, depth=depth))
    up = report.world_up or capture.world_up
    return replace(capture, frames=tuple(frames), world_up=up, findings=(*capture.findings, *report.findings))


def make_job(frames: Sequence[Frame], config: SfmConfig, *, posed: bool, seed: int) -> Job:
    """What pycolmap is to do.

    Raises:
        SmrError: A setting means nothing.
    """
    for name, value, least in (("feature-size", config.feature_size, 64), ("feature-count", config.feature_count, 100)):
        if value is not None and value < least:
            raise SmrError(f"--{name} is {value}.", f"Give at least {least}.")
    cameras: dict[Camera, int] = {}
    photos = []
    for frame in frames:
        photo = frame.photo
        assert photo is not None
        index = cameras.setdefault(photo.camera, len(cameras))
        known = None
        if posed and photo.world_from_camera is not None:
            known = tuple(float(value) for value in np.linalg.inv(photo.world_from_camera)[:3].ravel())
        mask = None if photo.mask is None else str(photo.mask.resolve())
        photos.append(JobPhoto(str(photo.path.resolve()), index, mask, photo.orientation, photo.shrink, known))
    size = config.feature_size or (FEATURE_SIZE if len(frames) < MANY else 1600)
    matching = _matching(frames, config) if not posed else "poses"
    job_cameras = tuple(_job_camera(camera) for camera in cameras)
    return Job(
        tuple(photos), job_cameras, size, config.feature_count, matching, config.mapper, max(1, cpu_threads()), seed
    )


def _matching(frames: Sequence[Frame], config: SfmConfig) -> str:
    if config.matching != "auto":
        return config.matching
    if len(frames) <= EXHAUSTIVE:
        return "exhaustive"
    in_sequence = all(frame.timestamp is not None for frame in frames)
    return "sequential" if in_sequence and len(frames) >= SEQUENCE else "retrieval"


def _job_camera(camera: Camera) -> JobCamera:
    """A camera as pycolmap has it; one that is guessed gets a radial lens that is found with the poses."""
    known = camera.intrinsics == "known"
    k = (*camera.distortion, *(0.0,) * (8 - len(camera.distortion)))
    if camera.model == "opencv_fisheye":
        model, params = "OPENCV_FISHEYE", (camera.fx, camera.fy, camera.cx, camera.cy, *k[:4])
    elif camera.model == "opencv":
        wide = any(k[4:])
        model = "FULL_OPENCV" if wide else "OPENCV"
        params = (camera.fx, camera.fy, camera.cx, camera.cy, *(k if wide else k[:4]))
    elif camera.model == "pinhole" and known:
        model, params = "PINHOLE", (camera.fx, camera.fy, camera.cx, camera.cy)
    elif camera.model == "pinhole":
        model, params = "SIMPLE_RADIAL", (camera.fx, camera.cx, camera.cy, 0.0)
    else:
        raise SmrError(
            f"Poses cannot be found for {camera.model} photos.", "Split them into ordinary views, or give their poses."
        )
    prior = camera.intrinsics != "guess"
    return JobCamera(model, camera.width, camera.height, tuple(float(value) for value in params), known, prior)


def _camera_of(before: Camera, model: str, params: Sequence[float], source: Path) -> Camera:
    if before.intrinsics == "known":
        return before
    assert model in COLMAP_MODELS
    found = camera_of_parameters(model, params, (before.width, before.height), source)
    return replace(found, intrinsics=before.intrinsics)


def _kept_folder(capture: Capture, job: Job, folder: Path) -> Path:
    """The folder with features and matches; emptied when they belong to other photos or settings."""
    place = folder / "sfm"
    files = [(photo.path, photo.orientation, photo.shrink, photo.mask) for photo in job.photos]
    key = fingerprint(
        capture_fingerprint(capture), files, job.cameras, job.feature_size, job.feature_count, job.seed, job.posed
    )
    marker = place / "key"
    if not (marker.is_file() and marker.read_text() == key):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        marker.write_text(key)
    return place


def _report(
    capture: Capture, given: list[int], frames: list[Frame], job: Job, answer: Answer, config: SfmConfig
) -> SfmReport:
    names = [frame.photo.path.name for frame in frames if frame.photo is not None]
    kept = [i for i in range(len(frames)) if np.isfinite(answer.poses[i]).all()]
    if len(kept) < 2 or (not job.posed and len(answer.points) < 10):
        raise words.nothing_found(answer, names)
    if not job.posed and len(kept) < min(len(frames), max(3, LEAST * len(frames))):
        raise words.too_few(answer, names, kept)
    longest = max(max(camera.width, camera.height) for camera in job.cameras)
    if not job.posed and (still := words.only_turned(answer, longest)) is not None:
        raise still
    before = [frame.photo.camera for frame in (frames[i] for i in kept) if frame.photo is not None]
    cameras = tuple(
        _camera_of(camera, *answer.cameras[job.photos[i].camera], capture.source)
        for i, camera in zip(kept, before, strict=True)
    )
    camera_from_world = np.tile(np.eye(4), (len(kept), 1, 1))
    camera_from_world[:, :3] = answer.poses[kept]
    poses = rigid_inverse(camera_from_world)
    error = float(np.average(answer.errors)) if len(answer.errors) else math.nan
    place = np.full(len(frames), -1)
    place[kept] = np.arange(len(kept))
    seen = (answer.track_points, place[answer.track_photos].astype(np.int32), answer.track_xy)
    if job.posed:
        found = words.posed_findings(answer, error)
        poses = np.array([_pose(frames[i]) for i in kept])
        move, scale, up = None, ("known poses", "The scale is that of the given poses."), None
    else:
        lost = words.left_out(answer, names, kept)
        found = words.findings(answer, names, lost, before, cameras, error)
        found += words.flat_scene(answer.points, before)
        chosen = find_scale([frames[i] for i in kept], poses, cameras, seen, answer.points, config.scale_ref)
        turn = upright(poses)
        middle = np.median(answer.points, axis=0)
        move = Similarity(chosen.factor, turn, -chosen.factor * turn @ middle)
        scale, up = (chosen.source, chosen.words), "z"
        poses = move.poses(poses)
    matched = answer.matched
    return SfmReport(
        photos=len(frames),
        kept=tuple(given[i] for i in kept),
        left_out=() if job.posed else lost,
        poses=poses,
        cameras=cameras,
        points=Points(
            answer.points if move is None else move.points(answer.points), answer.colors, answer.errors, *seen
        ),
        known_poses=job.posed,
        matching=job.matching,
        pairs=len(matched.photos),
        verified=int((matched.inliers > 0).sum()),
        attempts=answer.attempts,
        reprojection_px=error,
        track_length=len(seen[0]) / max(len(answer.points), 1),
        scale=scale[0],  # type: ignore[arg-type]
        scale_words=scale[1],
        world_up=up,  # type: ignore[arg-type]
        findings=found,
    )


def _pose(frame: Frame) -> Float[np.ndarray, "4 4"]:
    assert frame.photo is not None
    assert frame.photo.world_from_camera is not None
    return frame.photo.world_from_camera.astype(np.float64)
