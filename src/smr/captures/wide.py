"""Photos of lenses too wide for one pinhole image, replaced by several pinhole views each, written once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from ..atomic import atomic_path
from ..progress import Track, untracked
from ..records import Camera, Capture, Finding, Frame, Photo
from .images import read_mask, read_photo
from .split_views import SplitView, image_circle_deg, split_camera
from .undistort import pinhole_of

WIDE = ("opencv_fisheye", "equirectangular")
RIM = 8
"""Pixels of the undistorted photo's width that must be there for one pinhole image to hold a fisheye photo."""


def split_wide(capture: Capture, folder: Path, *, track: Track = untracked) -> Capture:
    """The capture with pinhole views in place of photos that are too wide for one pinhole image; others stay.

    Args:
        capture: Photos with poses.
        folder: Where views are written; a view that is there is not made again.
        track: Progress.
    """
    wide = {f.name for f in capture.frames if f.photo is not None and f.depth is None and is_wide(f.photo.camera)}
    if not wide:
        return capture
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[Camera, list[SplitView]] = {}
    frames: list[Frame] = []
    for frame in track(capture.frames, "splitting wide photos", len(capture)):
        if frame.photo is None or frame.name not in wide:
            frames.append(frame)
            continue
        camera = frame.photo.camera
        if camera not in tables:
            tables[camera] = split_camera(camera, max_angle_deg=_circle(capture, camera))
        frames += _views(frame, frame.photo, tables[camera], folder)
    said = Finding(
        "note", f"{len(wide)} wide photos are used as {len(frames) - len(capture) + len(wide)} pinhole views."
    )
    return replace(capture, frames=tuple(frames), findings=(*capture.findings, said))


def is_wide(camera: Camera) -> bool:
    """Whether a pinhole image cannot hold what the camera sees without losing much of it or of its resolution."""
    if camera.model not in WIDE:
        return False
    if camera.model == "equirectangular":
        return True
    pinhole = pinhole_of(camera)
    half = np.degrees(np.arctan(np.hypot(pinhole.width / pinhole.fx, pinhole.height / pinhole.fy) / 2))
    sees = np.degrees(np.hypot(camera.width / camera.fx, camera.height / camera.fy) / 2)
    return bool(sees > half + RIM or half > 60)


def _circle(capture: Capture, camera: Camera) -> float:
    """Degrees off the axis that the lens sees: the most that any of a few photos shows."""
    if camera.model != "opencv_fisheye":
        return 180.0
    photos = [f.photo for f in capture.frames if f.photo is not None and f.photo.camera == camera]
    shown = [_pixels(photo) for photo in photos[:: max(1, len(photos) // 4)][:4]]
    return max(image_circle_deg(pixels, camera) for pixels in shown)


def _pixels(photo: Photo) -> np.ndarray:
    return read_photo(photo.path, orientation=photo.orientation, shrink=photo.shrink)


def _views(frame: Frame, photo: Photo, views: list[SplitView], folder: Path) -> list[Frame]:
    made = []
    pixels = None
    mask = None
    for k, view in enumerate(views):
        stem = f"{photo.path.stem}-{photo.path.stat().st_mtime_ns:x}-{k}"
        image_path, mask_path = folder / f"{stem}.png", folder / f"{stem}-mask.png"
        if not (image_path.is_file() and mask_path.is_file()):
            if pixels is None:
                pixels = _pixels(photo)
                mask = None if photo.mask is None else read_mask(photo.mask)
            image, seen = view.render(pixels, mask)
            for path, array in ((image_path, image), (mask_path, seen.astype(np.uint8) * 255)):
                with atomic_path(path) as temporary:
                    Image.fromarray(array).save(temporary, compress_level=1)
        part = Photo(image_path, view.camera, view.of(photo).world_from_camera, mask_path)
        made.append(Frame(f"{frame.name}#{k}", part, None, frame.timestamp))
    return made
