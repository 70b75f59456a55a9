"""A look at photos before the work: which are blurred, there twice, or of something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..captures.ahead import decode_ahead
from ..captures.checks import named
from ..captures.depth_quality import luminance, sharpness
from ..captures.images import read_photo
from ..config import SfmConfig
from ..errors import SmrError
from ..progress import Track, untracked
from ..records import Capture, Finding, Photo
from .job import Answer
from .process import run
from .solve import make_job
from .words import FEW_FEATURES, HOW, WEAK, identical_photos

SIZE, COUNT = 1000, 3000
"""Pixels and features: enough to tell what belongs together."""
BLURRED = 0.3
"""Sharpness below this part of the median is called blurred."""
ENOUGH = 5
"""Photos from which the median means something."""


@dataclass(frozen=True)
class PhotoLook:
    """What photos are like, each and together."""

    photos: int
    pairs: int
    """Pairs that were compared, at a small size."""
    overlapping: int
    """Pairs that show the same scene."""
    blurred: tuple[str, ...]
    poor: tuple[str, ...]
    """Photos in which almost nothing can be recognised."""
    twice: tuple[tuple[str, str], ...]
    """Pairs that are one photo twice."""
    foreign: tuple[str, ...]
    """Photos that do not overlap with the largest group."""
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {name: value for name, value in vars(self).items() if name != "findings"}


def look_at_photos(
    capture: Capture, config: SfmConfig, *, folder: Path, track: Track = untracked, seed: int = 0
) -> PhotoLook:
    """Find photos that will not help, by their sharpness and by comparing them at a small size.

    Args:
        capture: With at least one photo.
        config: How photos are compared.
        folder: Where features and matches may be kept.
        track: Progress.
        seed: Start of the random numbers.

    Raises:
        SmrError: pycolmap is not installed or crashes.
    """
    frames = [frame for frame in capture.frames if frame.photo is not None]
    photos = [frame.photo for frame in frames if frame.photo is not None]
    names = [photo.path.name for photo in photos]
    blurred = _blurred(photos, names, track)
    job = make_job(frames, replace(config, feature_size=SIZE, feature_count=COUNT), posed=False, seed=seed)
    (folder / "sfm").mkdir(parents=True, exist_ok=True)
    answer = run(replace(job, mapper="none"), folder / "sfm", track)
    poor = [name for name, count in zip(names, answer.features, strict=True) if count < FEW_FEATURES]
    groups = _groups(answer, len(names))
    foreign = [names[i] for group in groups[1:] for i in group if names[i] not in (*poor, *blurred)]
    same = identical_photos(answer, names)
    return PhotoLook(
        photos=len(names),
        pairs=len(answer.matched.photos),
        overlapping=int((answer.matched.inliers >= WEAK).sum()),
        blurred=tuple(blurred),
        poor=tuple(poor),
        twice=tuple(same),
        foreign=tuple(foreign),
        findings=tuple(_findings(len(names), blurred, poor, same, foreign, groups)),
    )


def _blurred(photos: Sequence[Photo], names: Sequence[str], track: Track) -> list[str]:
    def measure(photo: Photo) -> float:
        try:
            pixels = read_photo(photo.path, orientation=photo.orientation, shrink=photo.shrink)
            return sharpness(luminance(pixels))
        except SmrError:
            return np.nan

    decoded = decode_ahead(photos, measure, threads=2, lookahead=4)
    values = np.array(list(track(decoded, "looking at photos", len(photos))))
    if np.isfinite(values).sum() < ENOUGH:
        return []
    return [name for name, value in zip(names, values, strict=True) if value < BLURRED * np.nanmedian(values)]


def _groups(answer: Answer, count: int) -> list[list[int]]:
    """Photos that hang together through pairs that show the same, the largest group first."""
    group = list(range(count))

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for (i, j), inliers in zip(answer.matched.photos.tolist(), answer.matched.inliers.tolist(), strict=True):
        if inliers >= WEAK:
            a, b = sorted((root(i), root(j)))
            group[b] = a
    members: dict[int, list[int]] = {}
    for i in range(count):
        members.setdefault(root(i), []).append(i)
    return sorted(members.values(), key=lambda one: (-len(one), one[0]))


def _findings(
    count: int,
    blurred: Sequence[str],
    poor: Sequence[str],
    same: Sequence[tuple[str, str]],
    foreign: Sequence[str],
    groups: Sequence[Sequence[int]],
) -> list[Finding]:
    found: list[Finding] = []
    if len(groups[0]) < 2:
        found.append(Finding("error", f"No two of the {count} photos show enough of the same thing to be joined.", HOW))
    elif foreign:
        found.append(
            Finding(
                "warning",
                f"{len(foreign)} of {count} photos do not overlap with the {len(groups[0])} that belong together: "
                f"{named(foreign)}.",
                "Remove them if they show something else, or take photos in between.",
            )
        )
    if poor:
        found.append(
            Finding(
                "warning",
                f"{len(poor)} of {count} photos have almost nothing in them that can be recognised: {named(poor)}.",
                "They are blurred, dark, tiny, or show something without texture; take them again.",
            )
        )
    if blurred:
        found.append(
            Finding(
                "warning",
                f"{len(blurred)} of {count} photos are blurred: {named(blurred)}.",
                "Hold the camera still, with more light; leave these out if others show the same.",
            )
        )
    if same:
        found.append(
            Finding(
                "note",
                f"{len(same)} pairs are one photo twice: {named([f'{a} = {b}' for a, b in same])}.",
                "Remove one of each.",
            )
        )
    return found
