"""COLMAP: a sparse model, text or binary, in the folder, `sparse/0` or `sparse`, with `images` and perhaps `depth`.

COLMAP stores world-to-camera (qw qx qy qz tx ty tz), OpenCV axes; the first pixel's centre is (0.5, 0.5). A depth map
is the file of the photo's name in `depth` or `depths`; COLMAP has no rule for its unit, so whole numbers need
--depth-scale. https://colmap.github.io/format.html
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame
from ..transforms import matrix_from_quat_wxyz, rigid_inverse
from .cameras import checked, overridden, resized
from .folder import DEPTH_ENDINGS, Folder, natural_key
from .images import first_image, image_size
from .lenses import COLMAP_COUNTS, COLMAP_IDS, camera_of_parameters
from .rig import find_depth_files, posed_frame

FORMAT = "COLMAP"
_MODEL_FOLDERS = ("", "sparse/0", "sparse", "colmap/sparse/0")
_IMAGE_FOLDERS = ("images", "image", "rgb", "color")
_DEPTH_FOLDERS = ("depth", "depths", "depth_maps")
_Views = list[tuple[str, int, Float[np.ndarray, "4 4"]]]


def sees(folder: Folder) -> bool:
    """Whether there is a model."""
    return _model(folder) is not None


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The images that the model registered.

    Raises:
        SmrError: The model is damaged, or a lens model has no counterpart here.
    """
    model, ending = _model(folder) or ("", ".txt")
    prefix = f"{model}/" if model else ""
    cameras_file, images_file = f"{prefix}cameras{ending}", f"{prefix}images{ending}"
    if ending == ".bin":
        cameras, views = _binary_cameras(folder.root / cameras_file), _binary_views(folder.root / images_file)
    else:
        cameras, views = _text_cameras(folder, cameras_file), _text_views(folder, images_file)
    views.sort(key=lambda view: natural_key(view[0]))
    image_folder = next((name for name in _IMAGE_FOLDERS if folder.has(name)), "")
    paths = {name: folder.inside(os.path.join(image_folder, name), images_file) for name, _, _ in views}
    cameras, findings = _fit_to_images(cameras, views, paths, folder.root / cameras_file)
    depths = _depths(folder)
    example = first_image(folder.root / path for path in depths.values())
    depth_files, more = find_depth_files(config, example, None)
    findings += more
    frames: list[Frame] = []
    for name, camera_id, pose in views:
        if camera_id not in cameras:
            raise SmrError(
                f"{folder.root / images_file}: {name} has camera {camera_id}, which {cameras_file} lacks.",
                "Export the model again; its files do not belong together.",
            )
        depth = depths.get(os.path.splitext(name)[0], depths.get(name, depths.get(Path(name).stem)))
        camera = overridden(cameras[camera_id], config.intrinsics)
        depth_path = None if depth is None else folder.root / depth
        frames.append(posed_frame(name, camera, pose, color=paths[name], depth=depth_path, depth_files=depth_files))
    return Capture(folder.root, FORMAT, tuple(frames), findings=tuple(findings))


def _model(folder: Folder) -> tuple[str, str] | None:
    """Folder of the model and the ending of its files."""
    for model in _MODEL_FOLDERS:
        names = folder.names(model)
        for ending in (".bin", ".txt"):
            if f"cameras{ending}" in names and f"images{ending}" in names:
                return model, ending
    return None


def _depths(folder: Folder) -> dict[str, str]:
    name = folder.first(*_DEPTH_FOLDERS)
    return folder.files(name, DEPTH_ENDINGS) if name else {}


def _fit_to_images(
    cameras: dict[int, Camera], views: _Views, paths: dict[str, Path], said_by: Path
) -> tuple[dict[int, Camera], list[Finding]]:
    """Cameras at the size of the images that are there; a model may have been made from larger ones."""
    fitted, findings = dict(cameras), []
    for camera_id, camera in cameras.items():
        path = first_image(paths[name] for name, own, _ in views if own == camera_id and os.path.exists(paths[name]))
        if path is None:
            continue
        size = image_size(path)
        if size != (camera.width, camera.height):
            fitted[camera_id] = resized(camera, size, said_by)
            findings.append(
                Finding(
                    "note",
                    f"Camera {camera_id} of the model has {camera.width} x {camera.height} pixels and its images "
                    f"{size[0]} x {size[1]}; the intrinsics are scaled.",
                )
            )
    return fitted, findings


def _text_cameras(folder: Folder, name: str) -> dict[int, Camera]:
    path = folder.root / name
    cameras = {}
    for number, line in enumerate(folder.text(name).splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            size = (int(words[2]), int(words[3]))
            camera = camera_of_parameters(words[1], [float(word) for word in words[4:]], size, path)
            cameras[int(words[0])] = checked(camera, path)
        except (ValueError, IndexError):
            raise _damaged(path, f"line {number} is no camera") from None
    return cameras


def _text_views(folder: Folder, name: str) -> _Views:
    """Two lines an image: its pose, camera and name; its points, which may be none."""
    path = folder.root / name
    lines = [line for line in folder.text(name).splitlines() if not line.startswith("#")]
    views: _Views = []
    for line in lines[0::2]:
        words = line.split(maxsplit=9)
        if not words:
            continue
        try:
            numbers = np.array([float(word) for word in words[1:8]])
            views.append((words[9].strip(), int(words[8]), _pose(numbers)))
        except (ValueError, IndexError):
            raise _damaged(path, f"{line[:60]!r} is no image") from None
    return views


def _binary_cameras(path: Path) -> dict[int, Camera]:
    content = _content(path)
    cameras = {}
    try:
        (count,) = struct.unpack_from("<Q", content, 0)
        at = 8
        for _ in range(count):
            camera_id, model, width, height = struct.unpack_from("<iiQQ", content, at)
            if not 0 <= model < len(COLMAP_IDS):
                raise _damaged(path, f"camera model {model} is not known")
            parameters = struct.unpack_from(f"<{COLMAP_COUNTS[model]}d", content, at + 24)
            at += 24 + 8 * COLMAP_COUNTS[model]
            camera = camera_of_parameters(COLMAP_IDS[model], parameters, (width, height), path)
            cameras[camera_id] = checked(camera, path)
    except (struct.error, OverflowError):
        raise _damaged(path, "it is truncated") from None
    return cameras


def _binary_views(path: Path) -> _Views:
    content = _content(path)
    views: _Views = []
    try:
        (count,) = struct.unpack_from("<Q", content, 0)
        at = 8
        for _ in range(count):
            *numbers, camera_id = struct.unpack_from("<7di", content, at + 4)
            end = content.index(b"\0", at + 64)
            name = content[at + 64 : end].decode("utf-8")
            (points,) = struct.unpack_from("<Q", content, end + 1)
            views.append((name, camera_id, _pose(np.array(numbers))))
            at = end + 9 + 24 * points
            if at > len(content):
                raise _damaged(path, "it is truncated")
    except (struct.error, OverflowError, ValueError):
        raise _damaged(path, "it is truncated") from None
    return views


def _pose(numbers: Float[np.ndarray, "7"]) -> Float[np.ndarray, "4 4"]:
    if not np.isfinite(numbers).all() or np.linalg.norm(numbers[:4]) < 1e-6:
        return np.full((4, 4), np.nan)
    return rigid_inverse(matrix_from_quat_wxyz(numbers[:4], numbers[4:]))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _damaged(path, error.strerror) from None


def _damaged(path: Path, why: object) -> SmrError:
    return SmrError(
        f"{path} cannot be read as part of a COLMAP model: {why}.", "Export the model again (colmap model_converter)."
    )
