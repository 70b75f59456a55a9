"""Captures: folders of photos, depth and poses, in the formats that scanners and data sets write.

`read_capture` finds the format by looking at the folder; `Decoder` turns the files into pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..config import CaptureConfig
from ..errors import SmrError
from ..progress import Track, untracked
from ..records import Capture, Finding
from . import (
    calibrated,
    cameras_json,
    colmap,
    icl_nuim,
    photos,
    polycam,
    record3d,
    redwood,
    scanner_app,
    seven_scenes,
    stray_scanner,
    transforms_json,
    tum,
    video,
)
from .ahead import decode_ahead, decode_usable
from .archive import ENDINGS, unpack
from .checks import checked_capture, named
from .decode import Decoder, decode_depth, decode_mask, decode_photo
from .folder import Folder
from .survey import SURVEY_RECORDS, Survey, estimated_up, survey

__all__ = [
    "READERS",
    "SURVEY_RECORDS",
    "Decoder",
    "Reader",
    "Survey",
    "decode_ahead",
    "decode_depth",
    "decode_mask",
    "decode_photo",
    "decode_usable",
    "estimated_up",
    "read_capture",
    "survey",
]


@dataclass(frozen=True)
class Reader:
    """How one format is recognised and read."""

    format: str
    sees: Callable[[Folder], bool]
    """Whether a folder looks like this format."""
    read: Callable[[Folder, CaptureConfig], Capture]
    """Lists the frames; broken files and poses are sorted out afterwards, for all formats alike."""


READERS = (
    Reader(seven_scenes.FORMAT, seven_scenes.sees, seven_scenes.read),
    Reader(cameras_json.FORMAT, cameras_json.sees, cameras_json.read),
    Reader(tum.FORMAT, tum.sees, tum.read),
    Reader(stray_scanner.FORMAT, stray_scanner.sees, stray_scanner.read),
    Reader(polycam.FORMAT, polycam.sees, polycam.read),
    Reader(record3d.FORMAT, record3d.sees, record3d.read),
    Reader(scanner_app.FORMAT, scanner_app.sees, scanner_app.read),
    Reader(transforms_json.FORMAT, transforms_json.sees, transforms_json.read),
    Reader(colmap.FORMAT, colmap.sees, colmap.read),
    Reader(calibrated.MIDDLEBURY, calibrated.sees_middlebury, calibrated.read_middlebury),
    Reader(calibrated.STRECHA, calibrated.sees_strecha, calibrated.read_strecha),
    Reader(calibrated.BUNDLER, calibrated.sees_bundler, calibrated.read_bundler),
    Reader(icl_nuim.FORMAT, icl_nuim.sees, icl_nuim.read),
    Reader(redwood.FORMAT, redwood.sees, redwood.read),
    Reader(photos.FORMAT, photos.sees, photos.read),
)
"""In the order of asking: the first that sees its format reads the folder."""


def read_capture(
    source: Path | str,
    config: CaptureConfig = CaptureConfig(),  # noqa: B008 (frozen)
    *,
    folder: Path | None = None,
    track: Track = untracked,
) -> Capture:
    """Find out what a folder holds and list its frames, without decoding pixels.

    Args:
        source: The folder of a capture (or one of its files that names the others).
        config: Which frames to use, and what the user says about units and cameras.
        folder: Where the frames of a video are written; beside it when left out.
        track: Progress of reading a video.

    Returns:
        The frames whose files and poses can be used, in OpenCV camera axes, with what is worth saying as findings.

    Raises:
        SmrError: There is no capture that is known here, or nothing usable in it.
    """
    source = Path(source)
    if source.is_file() and source.suffix.lower() in video.ENDINGS:
        return _read_video(source, config, folder or source.parent, track)
    return _read_folder(source, config)


def _read_video(source: Path, config: CaptureConfig, folder: Path, track: Track) -> Capture:
    """The frames of a video as photos in sequence."""
    frames_folder = video.extract_frames(source, config, folder, track=track)
    capture = _read_folder(frames_folder, replace(config, every=1))
    timed = tuple(replace(frame, timestamp=video.time_of(frame.name)) for frame in capture.frames)
    how = f"every {config.every}th frame" if config.every > 1 else f"the sharpest frame of each {video.WINDOW:g} s"
    said = Finding("note", f"{source.name} is used as {len(timed)} photos: {how}.")
    return replace(capture, source=source, format="video", frames=timed, findings=(said, *capture.findings))


def _read_folder(source: Path, config: CaptureConfig) -> Capture:
    folder, findings = _folder(source)
    reader = _reader(folder)
    if reader is None:
        inner = [Folder(folder.root / name) for name in folder.names() if (folder.root / name).is_dir()]
        seen = [(below, found) for below in inner if (found := _reader(below)) is not None]
        if len(seen) != 1:
            raise _unknown(folder, [below.root.name for below, _ in seen])
        folder, reader = seen[0]
        findings = (*findings, Finding("note", f"The capture lies in the folder {folder.root.name} below."))
    with np.errstate(invalid="ignore", over="ignore"):  # poses with inf and NaN are sorted out in the checks
        capture = reader.read(folder, config)
        capture = replace(capture, findings=(*findings, *capture.findings))
        return checked_capture(capture if config.use_masks else _unmasked(capture), config)


def _unmasked(capture: Capture) -> Capture:
    """The capture with its masks left aside, which is said."""
    masked = sum(frame.photo is not None and frame.photo.mask is not None for frame in capture.frames)
    if not masked:
        return capture
    frames = tuple(
        frame if frame.photo is None else replace(frame, photo=replace(frame.photo, mask=None))
        for frame in capture.frames
    )
    said = Finding(
        "note",
        f"{masked} photos have a mask, which is not used.",
        "Give --use-masks to reconstruct only what the masks leave.",
    )
    return replace(capture, frames=frames, findings=(*capture.findings, said))


def _reader(folder: Folder) -> Reader | None:
    return next((reader for reader in READERS if reader.sees(folder)), None)


def _folder(source: Path) -> tuple[Folder, tuple[Finding, ...]]:
    """The folder of a capture that is given as a folder, an archive, or a file that lists the others."""
    if source.is_dir():
        return Folder(source), ()
    if source.is_symlink() and not source.exists():
        raise SmrError(f"{source} is a link to what is not there, or to itself.", "Give the folder of a capture.")
    if not source.exists():
        raise SmrError(f"{source} is not there.", "Give the folder of a capture.")
    ending = source.suffix.lower()
    if ending in ENDINGS:
        unpacked = unpack(source)
        return Folder(unpacked), (Finding("note", f"{source.name} was unpacked to {unpacked}."),)
    if ending in (".json", ".txt", ".log", ".csv", ".bin") or source.name == "metadata":
        return Folder(source.parent), ()
    raise SmrError(f"{source} is no capture.", "Give the folder of a capture, or a .zip or .r3d of one.")


def _unknown(folder: Folder, captures_below: list[str]) -> SmrError:
    if captures_below:
        return SmrError(
            f"{folder.root} holds {len(captures_below)} captures: {named(captures_below)}.",
            "Name one of these folders.",
        )
    formats = ", ".join(reader.format for reader in READERS)
    if not folder.names():
        return SmrError(f"{folder.root} is empty.", f"Give the folder of a capture. Known formats: {formats}.")
    return SmrError(
        f"{folder.root} is no capture that is known here; it holds {named(list(folder.names()))}.",
        f"Known formats: {formats}. See docs/captures.md for what each needs.",
    )
