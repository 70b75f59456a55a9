"""What every capture goes through after its reader: fewer frames where asked, no broken files, sound poses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Capture, Finding, Frame
from .consistency import fixed_pose
from .images import is_whole, read_depth_image, read_photo
from .poses import GROSS, SLIGHT, sound_rotations

ASTRAY = 1000.0
NAMED = 5
"""Frames named in a finding before it says how many more."""


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest


def select(frames: tuple[Frame, ...], config: CaptureConfig) -> tuple[Frame, ...]:
    """Every n-th frame, and of these at most `max_frames`, spread evenly from the first to the last.

    Raises:
        SmrError: A number is not positive.
    """
    if config.every < 1:
        raise SmrError(f"--every is {config.every}.", "Give 1 for every frame, 2 for every second, and so on.")
    if config.max_frames is not None and config.max_frames < 1:
        raise SmrError(f"--max-frames is {config.max_frames}.", "Give at least 1, or leave it out.")
    chosen = frames[:: config.every]
    if config.max_frames is not None and len(chosen) > config.max_frames:
        places = np.linspace(0, len(chosen) - 1, config.max_frames).round().astype(int)
        chosen = tuple(chosen[place] for place in places)
    return chosen


def checked_capture(capture: Capture, config: CaptureConfig) -> Capture:
    """The capture with the frames that were asked for and can be used; what was left out becomes findings.

    Raises:
        SmrError: No usable frame is left.
    """
    frames = _repaired(select(capture.frames, config), config.pose_fix)
    frames, file_findings = _without_broken_files(frames, threads=4)
    frames, pose_findings = _with_sound_poses(frames)
    findings = (*capture.findings, *file_findings, *pose_findings)
    if not frames:
        why = " ".join(finding.cause for finding in findings if finding.severity != "note")
        raise SmrError(
            f"{capture.source} looks like a {capture.format} capture, but no usable frame is left. {why}".rstrip(),
            "Copy or export the capture again, with all its files.",
        )
    return replace(capture, frames=frames, findings=findings)


def _repaired(frames: tuple[Frame, ...], pose_fix: str) -> tuple[Frame, ...]:
    """The frames with poses read in another way, where the user asks for it."""
    if pose_fix == "none":
        return frames
    repaired = []
    for frame in frames:
        photo, depth = frame.photo, frame.depth
        if photo is not None and photo.world_from_camera is not None:
            photo = replace(photo, world_from_camera=fixed_pose(photo.world_from_camera, pose_fix))
        if depth is not None and depth.world_from_camera is not None:
            depth = replace(depth, world_from_camera=fixed_pose(depth.world_from_camera, pose_fix))
        repaired.append(replace(frame, photo=photo, depth=depth))
    return tuple(repaired)


def _broken(path: Path, *, depth: bool) -> str | None:
    """Why a file cannot be used; only a file that looks truncated is decoded to be sure."""
    if not os.path.exists(path):  # which, unlike Path.exists, also answers for impossible names
        return "missing"
    if not os.path.isfile(path):  # a pipe would be waited for without end
        return "no file"
    if is_whole(path):
        return None
    try:
        if depth:
            read_depth_image(path)
        else:
            read_photo(path)
    except SmrError:
        return "truncated or damaged"
    return None


def _without_broken_files(frames: tuple[Frame, ...], threads: int) -> tuple[tuple[Frame, ...], tuple[Finding, ...]]:
    """Take photos and depth maps out whose file is missing or truncated, and frames that have nothing left."""

    def look(frame: Frame) -> tuple[str | None, str | None]:
        photo = None if frame.photo is None else _broken(frame.photo.path, depth=False)
        return photo, None if frame.depth is None else _broken(frame.depth.path, depth=True)

    kept: list[Frame] = []
    lost: dict[tuple[str, str], list[str]] = {}
    with ThreadPoolExecutor(threads) as pool:
        for frame, (bad_photo, bad_depth) in zip(frames, pool.map(look, frames, chunksize=64), strict=True):
            if bad_photo is not None and frame.photo is not None:
                lost.setdefault(("colour", bad_photo), []).append(frame.photo.path.name)
                frame = replace(frame, photo=None)
            if bad_depth is not None and frame.depth is not None:
                lost.setdefault(("depth", bad_depth), []).append(frame.depth.path.name)
                frame = replace(frame, depth=None)
            if frame.photo is not None or frame.depth is not None:
                kept.append(frame)
    findings = tuple(
        Finding(
            "warning",
            f"{len(names)} {what} image{'s are' if len(names) > 1 else ' is'} {why}: {named(names)}.",
            "Copy or export the capture again if they matter; the rest is used.",
        )
        for (what, why), names in lost.items()
    )
    return tuple(kept), findings


def _with_sound_poses(frames: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], tuple[Finding, ...]]:
    """Make rotations true ones; drop frames whose pose is missing or none, unless no frame has a pose (photos only)."""
    sensors = [[s for s in (frame.photo, frame.depth) if s is not None] for frame in frames]
    if all(sensor.world_from_camera is None for pair in sensors for sensor in pair):
        return frames, ()
    unknown = np.full((4, 4), np.nan)
    first = np.array([unknown if pair[0].world_from_camera is None else pair[0].world_from_camera for pair in sensors])
    last = np.array([unknown if pair[-1].world_from_camera is None else pair[-1].world_from_camera for pair in sensors])
    first, off_first, mirrors_first = sound_rotations(first.astype(np.float64))
    last, off_last, mirrors_last = sound_rotations(last.astype(np.float64))
    off, mirrors = np.maximum(off_first, off_last), mirrors_first | mirrors_last
    astray = _astray(last[:, :3, 3], off < GROSS)
    good = (off < GROSS) & ~astray
    kept = []
    for frame, ok, photo_pose, depth_pose in zip(frames, good, first, last, strict=True):
        if ok:
            photo = None if frame.photo is None else replace(frame.photo, world_from_camera=photo_pose)
            depth = None if frame.depth is None else replace(frame.depth, world_from_camera=depth_pose)
            kept.append(replace(frame, photo=photo, depth=depth))
    return tuple(kept), _pose_findings(frames, sensors, off, mirrors, astray)


def _astray(places: Float[np.ndarray, "N 3"], good: Bool[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Cameras a thousand times farther from the middle of all than is usual, and a kilometre at least."""
    if not good.any():
        return good
    distance = np.linalg.norm(places - np.median(places[good], axis=0), axis=1)
    return good & (distance > ASTRAY * max(float(np.median(distance[good])), 1.0))


def _pose_findings(
    frames: tuple[Frame, ...], sensors: list, off: np.ndarray, mirrors: np.ndarray, astray: np.ndarray
) -> tuple[Finding, ...]:
    missing = np.array([any(sensor.world_from_camera is None for sensor in pair) for pair in sensors], dtype=bool)
    not_finite = ~np.isfinite(off) & ~missing & ~mirrors
    gross = np.isfinite(off) & (off >= GROSS)
    slight = (off > SLIGHT) & (off < GROSS)
    causes = (
        (missing, "have no pose", "are left out"),
        (not_finite, "have a pose with inf, NaN or a wrong last row", "are left out"),
        (
            mirrors,
            "have a pose that mirrors (its rotation has determinant -1: another convention of axes)",
            "are left out",
        ),
        (gross, "have a pose whose 3 x 3 part is far from a rotation (scaled or sheared)", "are left out"),
        (astray, "have a pose that lies kilometres from all others", "are left out"),
        (slight, f"have a pose whose rotation is off by up to {off[slight].max(initial=0):.2g}", "are orthonormalised"),
    )
    return tuple(
        Finding("warning", f"{which.sum()} of {len(frames)} frames {what} and {then}: {named(_names(frames, which))}.")
        for which, what, then in causes
        if which.any()
    )


def _names(frames: tuple[Frame, ...], which: np.ndarray) -> list[str]:
    return [frame.name for frame, hit in zip(frames, which, strict=True) if hit]
