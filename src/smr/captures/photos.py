"""A plain folder of photos: no poses, no depth, a camera guessed from EXIF.

Poses are found later by structure from motion, so the frames have photos whose pose is None.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame, IntrinsicsSource, Photo
from .cameras import overridden
from .checks import named
from .folder import IMAGE_ENDINGS, Folder
from .images import HEIF_ENDINGS, open_header, shown_size

FORMAT = "photos"
_FOLDERS = ("", "images", "image", "photos", "rgb", "color")
_MASK_FOLDERS = ("masks", "mask")
LARGEST = 32_000_000
"""Pixels; larger photos are halved until they have fewer."""
GUESS = 1.2
"""Focal length over the longer side where EXIF says nothing, as COLMAP assumes."""
_EXIF_FOLDER, _FOCAL_35MM, _ORIENTATION = 0x8769, 0xA405, 0x0112
_FOCAL, _PLANE_X, _PLANE_UNIT, _PIXELS_X = 0x920A, 0xA20E, 0xA210, 0xA002


def sees(folder: Folder) -> bool:
    """Whether there are photos, here or in the usual folders."""
    return _files(folder) != {}


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The photos, in the order of their names.

    Raises:
        SmrError: There is depth without poses, or the photos are HEIC and nothing decodes it.
    """
    files = _files(folder)
    if folder.names("depth") or any(".depth." in name for name in folder.names()):
        raise SmrError(
            f"{folder.root} has colour and depth images, but no poses that are known here.",
            "Add trajectory.log (Open3D), groundtruth.txt (TUM), frame-*.pose.txt (7-Scenes) or cameras.json; "
            "see docs/captures.md.",
        )
    masks = _masks(folder)
    photos = {stem: _photo(folder.root / name, masks.get(stem), config.intrinsics) for stem, name in files.items()}
    frames = tuple(Frame(stem, photo, None) for stem, photo in photos.items() if photo is not None)
    findings = _findings(frames)
    lost = [os.path.basename(files[stem]) for stem, photo in photos.items() if photo is None]
    if lost:
        cause = f"{len(lost)} of {len(files)} photos cannot be read and {'is' if len(lost) == 1 else 'are'} left out"
        findings.append(Finding("warning", f"{cause}: {named(lost)}.", "Copy or export them again if they matter."))
    return Capture(folder.root, FORMAT, frames, findings=tuple(findings))


def _photo(path: Path, mask: Path | None, intrinsics: tuple[float, float, float, float] | None) -> Photo | None:
    """The photo as it is shown: turned as EXIF says, halved while it is too large; None where it cannot be read."""
    try:
        with open_header(path) as image:
            size, alpha = image.size, "A" in image.getbands()
            orientation, focal = _exif(image)
    except SmrError:
        if path.suffix.lower() in HEIF_ENDINGS and importlib.util.find_spec("pillow_heif") is None:
            raise
        return None
    shrink = next((n for n in (1, 2, 4) if size[0] * size[1] <= LARGEST * n * n), 8)
    width, height = shown_size(size, orientation, shrink)
    f = max(width, height) * (GUESS if focal is None else focal)
    source: IntrinsicsSource = "guess" if focal is None else "exif"
    camera = Camera(width, height, f, f, width / 2, height / 2, intrinsics=source)
    if intrinsics is not None:
        camera = replace(overridden(camera, intrinsics), intrinsics="known")
    return Photo(path, camera, None, mask or (path if alpha else None), orientation, shrink)


def _exif(image: Image.Image) -> tuple[int, float | None]:
    """How the photo is turned, and its focal length over its longer side, where it says so."""
    try:
        exif = image.getexif()
        lens = exif.get_ifd(_EXIF_FOLDER)
        orientation = int(exif.get(_ORIENTATION, 1))
    except (OSError, ValueError, SyntaxError, KeyError, TypeError):
        return 1, None
    return orientation if 1 <= orientation <= 8 else 1, _focal_length(lens, max(image.size))


def _focal_length(lens: dict[int, Any], longest: int) -> float | None:
    """From the equivalent of 35 mm film (36 mm wide), or from the sensor's pixels a length and its focal length."""
    try:
        film = float(lens.get(_FOCAL_35MM, 0))
        if 5 < film < 2000:
            return film / 36.0
        unit = {2: 25.4, 3: 10.0, 4: 1.0}[int(lens[_PLANE_UNIT])]
        ratio = float(lens[_FOCAL]) * float(lens[_PLANE_X]) / unit / max(longest, int(lens.get(_PIXELS_X, 0)))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return ratio if 0.4 < ratio < 20 else None


def _masks(folder: Folder) -> dict[str, Path]:
    """Masks by the stem of their photo: `masks/NAME.png` or, as COLMAP has it, `masks/NAME.jpg.png`."""
    name = folder.first(*_MASK_FOLDERS)
    found = {} if name is None else folder.files(name, IMAGE_ENDINGS)
    return {
        os.path.splitext(stem)[0] if stem.lower().endswith(IMAGE_ENDINGS) else stem: folder.root / path
        for stem, path in found.items()
    }


def _findings(frames: tuple[Frame, ...]) -> list[Finding]:
    found = [Finding("note", f"{len(frames)} photos without camera poses and without depth: both are found from them.")]
    photos = [frame.photo for frame in frames if frame.photo is not None]
    guessed = sum(photo.camera.intrinsics == "guess" for photo in photos)
    if guessed:
        found.append(
            Finding(
                "note",
                f"{guessed} of {len(photos)} photos do not say their focal length (EXIF, 35 mm equivalent); it is "
                "found with the poses.",
            )
        )
    shrunk = [photo for photo in photos if photo.shrink > 1]
    if shrunk:
        found.append(
            Finding(
                "note",
                f"{len(shrunk)} photos have more than {LARGEST // 1_000_000} megapixels and are used at 1/"
                f"{max(photo.shrink for photo in shrunk)} of their width.",
            )
        )
    return found


def _files(folder: Folder) -> dict[str, str]:
    return next((files for sub in _FOLDERS if (files := folder.files(sub, IMAGE_ENDINGS))), {})
