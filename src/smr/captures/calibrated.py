"""Photos with cameras as benchmarks write them: Middlebury `*_par.txt`, Strecha `*.camera`, Bundler `bundle.out`.

Middlebury multi-view: a line a photo, `name K(9) R(9) t(3)`, projection K [R t]; the first pixel's centre is (0, 0).
https://vision.middlebury.edu/mview/data/

Strecha (and the copies of openMVG): a file a photo, K (3 rows), a row of zeros, R (3 rows, camera to world), centre,
width and height; the first pixel's centre is (0, 0).

Bundler (v0.3): `bundle.out` and the `list.txt` that names its photos; f k1 k2, R, t with cameras that look down -z and
the image's origin in its middle, y up. https://github.com/snavely/bundler_sfm
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Frame, Photo
from ..transforms import OPENCV_FROM_OPENGL, rigid_inverse
from .cameras import camera_of_K, checked, overridden
from .folder import IMAGE_ENDINGS, Folder, natural_key
from .images import image_size

MIDDLEBURY, STRECHA, BUNDLER = "Middlebury", "Strecha", "Bundler"
_BUNDLES = ("bundle.out", "bundle/bundle.out", "bundle.rd.out")
_IMAGE_FOLDERS = ("", "images", "image")


def sees_middlebury(folder: Folder) -> bool:
    """Whether there is a list of projections."""
    return any(name.endswith("_par.txt") for name in folder.names())


def read_middlebury(folder: Folder, config: CaptureConfig) -> Capture:
    """The photos of the list that are there.

    Raises:
        SmrError: A line is damaged.
    """
    listed = next(name for name in folder.names() if name.endswith("_par.txt"))
    frames = []
    for number, line in enumerate(folder.text(listed).splitlines()[1:], 2):
        words = line.split()
        if not words:
            continue
        numbers = _numbers(words[1:], 21, folder.root / listed, number)
        path = _image(folder, words[0], listed)
        if path is not None:
            camera_from_world = np.eye(4)
            camera_from_world[:3, :3] = numbers[9:18].reshape(3, 3)
            camera_from_world[:3, 3] = numbers[18:]
            camera = camera_of_K(numbers[:9].tolist(), image_size(path), folder.root / listed)
            frames.append(_frame(path, camera, rigid_inverse(camera_from_world), config))
    return Capture(folder.root, MIDDLEBURY, tuple(sorted(frames, key=lambda frame: natural_key(frame.name))))


def sees_strecha(folder: Folder) -> bool:
    """Whether there are camera files, beside the photos or in `cameras`."""
    return any(name.endswith(".camera") for sub in ("", "cameras") for name in folder.names(sub))


def read_strecha(folder: Folder, config: CaptureConfig) -> Capture:
    """The photos that have a camera file.

    Raises:
        SmrError: A file is damaged, or no photo is there.
    """
    frames = []
    for sub in ("", "cameras"):
        for name in folder.names(sub):
            if not name.endswith(".camera"):
                continue
            said = f"{sub}/{name}" if sub else name
            path = _image(folder, name[: -len(".camera")], said)
            if path is None:
                continue
            numbers = folder.numbers(said)
            if len(numbers) < 26:
                raise SmrError(
                    f"{folder.root / said} holds {len(numbers)} numbers; a camera file has 26 or more.",
                    "It needs K (9), a row of zeros (3), R (9), the centre (3), width and height.",
                )
            world_from_camera = np.eye(4)
            world_from_camera[:3, :3] = numbers[12:21].reshape(3, 3)
            world_from_camera[:3, 3] = numbers[21:24]
            camera = camera_of_K(numbers[:9].tolist(), image_size(path), folder.root / said)
            frames.append(_frame(path, camera, world_from_camera, config))
    return Capture(folder.root, STRECHA, tuple(sorted(frames, key=lambda frame: natural_key(frame.name))))


def sees_bundler(folder: Folder) -> bool:
    """Whether there is a result of Bundler, and the list that names its photos."""
    return _bundle(folder) is not None and _list(folder) is not None


def read_bundler(folder: Folder, config: CaptureConfig) -> Capture:
    """The photos that Bundler registered.

    Raises:
        SmrError: A file is damaged, or both do not belong together.
    """
    bundle, listed = _bundle(folder) or "", _list(folder) or ""
    names = [line.split()[0] for line in folder.text(listed).splitlines() if line.strip()]
    numbers = folder.numbers(bundle)
    count = int(numbers[0]) if len(numbers) > 1 else 0
    if count != len(names) or len(numbers) < 2 + 15 * count:
        raise SmrError(
            f"{folder.root / bundle} has {count} cameras and {len(numbers)} numbers, and {listed} names {len(names)} "
            "photos: they do not belong together.",
            "Copy both files of one run of Bundler.",
        )
    frames = []
    for name, row in zip(names, numbers[2 : 2 + 15 * count].reshape(-1, 15), strict=True):
        path = _image(folder, name, listed)
        if row[0] <= 0 or path is None:  # not registered
            continue
        camera_from_world = np.eye(4)
        camera_from_world[:3, :3] = row[3:12].reshape(3, 3)
        camera_from_world[:3, 3] = row[12:]
        width, height = image_size(path)
        distortion = (float(row[1]), float(row[2]), 0.0, 0.0) if row[1] or row[2] else ()
        model = "opencv" if distortion else "pinhole"
        f = float(row[0])
        camera = Camera(width, height, f, f, width / 2, height / 2, model, distortion)  # type: ignore[arg-type]
        pose = rigid_inverse(camera_from_world) @ OPENCV_FROM_OPENGL
        frames.append(_frame(path, checked(camera, folder.root / bundle), pose, config))
    return Capture(folder.root, BUNDLER, tuple(sorted(frames, key=lambda frame: natural_key(frame.name))))


def _bundle(folder: Folder) -> str | None:
    return next((name for name in _BUNDLES if Path(name).name in folder.names(os.path.dirname(name))), None)


def _list(folder: Folder) -> str | None:
    return next((name for name in folder.names() if name in ("list.txt", "list.rd.txt")), None)


def _frame(path: Path, camera: Camera, pose: Float[np.ndarray, "4 4"], config: CaptureConfig) -> Frame:
    return Frame(path.stem, Photo(path, overridden(camera, config.intrinsics), pose), None)


def _image(folder: Folder, name: str, said_by: str) -> Path | None:
    """The photo of a name, in one of the usual folders, whatever its ending; None where it is not there."""
    base = os.path.basename(name.replace("\\", "/"))
    for sub in _IMAGE_FOLDERS:
        stems = folder.files(sub, IMAGE_ENDINGS)
        for wanted in (base, os.path.splitext(base)[0]):
            if base in folder.names(sub):
                return folder.root / sub / base
            if wanted in stems:
                return folder.root / stems[wanted]
    return None


def _numbers(words: list[str], count: int, path: Path, line: int) -> Float[np.ndarray, " N"]:
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise SmrError(
            f"Line {line} of {path} is no name and {count} numbers.", "Each line is: name, K (9), R (9), t (3)."
        )
    return numbers
