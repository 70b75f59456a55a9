"""A plain folder of photos: no poses, no depth, a camera guessed from EXIF.

Poses are found later by structure from motion, so the frames have photos whose pose is None.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame, Photo
from .cameras import overridden
from .folder import IMAGE_ENDINGS, Folder

FORMAT = "photos"
_FOLDERS = ("", "images", "image", "photos", "rgb", "color")
_GUESS = 1.2
"""Focal length over the longer side where EXIF says nothing, as COLMAP assumes."""
_EXIF_FOLDER, _FOCAL_35MM = 0x8769, 0xA405


def sees(folder: Folder) -> bool:
    """Whether there are photos, here or in the usual folders."""
    return _files(folder) != {} or any(name.lower().endswith((".heic", ".heif")) for name in folder.names())


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The photos, in the order of their names.

    Raises:
        SmrError: There is depth without poses, or the photos are in a format that is not decoded.
    """
    files = _files(folder)
    if not files:
        raise SmrError(
            f"The photos in {folder.root} are HEIC, which is not decoded here.", "Convert them to JPEG first."
        )
    if folder.names("depth") or any(".depth." in name for name in folder.names()):
        raise SmrError(
            f"{folder.root} has colour and depth images, but no poses that are known here.",
            "Add trajectory.log (Open3D), groundtruth.txt (TUM), frame-*.pose.txt (7-Scenes) or cameras.json; "
            "see docs/captures.md.",
        )
    guessed = 0
    frames: list[Frame] = []
    for stem, name in files.items():
        camera, known = _camera(folder.root / name)
        guessed += not known
        frames.append(Frame(stem, Photo(folder.root / name, overridden(camera, config.intrinsics), None), None))
    findings = [
        Finding(
            "warning",
            f"{len(frames)} photos without camera poses and without depth.",
            "Poses must be found first (structure from motion), for example with COLMAP.",
        )
    ]
    if guessed and config.intrinsics is None:
        findings.append(
            Finding(
                "note",
                f"{guessed} photos have no focal length of 35 mm film in EXIF; {_GUESS} × the longer side is taken.",
            )
        )
    return Capture(folder.root, FORMAT, tuple(frames), findings=tuple(findings))


def _files(folder: Folder) -> dict[str, str]:
    return next((files for sub in _FOLDERS if (files := folder.files(sub, IMAGE_ENDINGS))), {})


def _camera(path: Path) -> tuple[Camera, bool]:
    """A pinhole camera from EXIF's focal length in 35 mm film (36 mm wide), and whether EXIF had it."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            focal = image.getexif().get_ifd(_EXIF_FOLDER).get(_FOCAL_35MM)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, Image.DecompressionBombError):
        width, height, focal = 1, 1, None  # the file is taken out later, with a word on it
    known = isinstance(focal, int | float) and focal > 0
    f = max(width, height) * (float(focal) / 36.0 if known else _GUESS)  # type: ignore[arg-type]
    return Camera(width, height, f, f, width / 2, height / 2), known
