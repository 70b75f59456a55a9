"""NeRF and nerfstudio: `transforms.json` with poses in OpenGL axes, with or without depth.

Intrinsics stand at the top or in each frame (fl_x, fl_y, cx, cy, w, h, k1 ... k6, p1, p2, camera_model, or only
camera_angle_x); the first pixel's centre is (0.5, 0.5). Depth (`depth_file_path`, or `depth_path`) in whole numbers is
in millimetres as nerfstudio's default says, unless `depth_unit_scale_factor` or instant-ngp's `integer_depth_scale`
stands at the top; floating point depth is in metres. The world is the file's own: `applied_transform`, which says how
nerfstudio got there from COLMAP's world, is not undone.
https://docs.nerf.studio/quickstart/data_conventions.html
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, CameraModel, Capture, Finding, Frame
from ..transforms import OPENCV_FROM_OPENGL
from .cameras import checked, overridden, resized
from .folder import Folder, natural_key
from .images import first_image, has_alpha, image_size
from .lenses import build, unknown_model
from .rig import DepthFiles, find_depth_files, posed_frame

FORMAT = "transforms.json"
NAMES = ("transforms.json", "transforms_train.json")
_MODELS: dict[str, CameraModel] = {
    "SIMPLE_PINHOLE": "pinhole",
    "PINHOLE": "pinhole",
    "SIMPLE_RADIAL": "opencv",
    "RADIAL": "opencv",
    "OPENCV": "opencv",
    "FULL_OPENCV": "opencv",
    "PERSPECTIVE": "opencv",
    "OPENCV_FISHEYE": "opencv_fisheye",
    "SIMPLE_RADIAL_FISHEYE": "opencv_fisheye",
    "RADIAL_FISHEYE": "opencv_fisheye",
    "FISHEYE": "opencv_fisheye",
}
_DISTORTION: tuple[str, ...] = ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2")
_ENDINGS = ("", ".png", ".jpg", ".jpeg", ".JPG", ".PNG")  # Blender's sets leave the ending out


def sees(folder: Folder) -> bool:
    """Whether the file is there."""
    return folder.first(*NAMES) is not None


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames that the file lists, in the order of their names.

    Raises:
        SmrError: A key is missing or wrong, a file lies outside the folder, or a lens model is not known.
    """
    name = folder.first(*NAMES) or NAMES[0]
    said = folder.json(name)
    entries = said.get("frames") if isinstance(said, dict) else None
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("file_path"), str) for entry in entries
    ):
        raise SmrError(
            f"{folder.root / name} has no list of frames with file_path.",
            "Export it again with nerfstudio or instant-ngp.",
        )
    entries = sorted(entries, key=lambda entry: natural_key(entry["file_path"]))
    example, example_depth = _examples(folder, name, entries)
    findings: list[Finding] = []
    depth_files, more = find_depth_files(config, example_depth, _known_scale(said))
    findings += more
    reader = _Frames(folder, name, said, config, image_size(example) if example else None, findings)
    masked = example is not None and has_alpha(example)
    frames = tuple(reader.frame(entry, depth_files, masked) for entry in entries)
    if isinstance(said.get("applied_transform"), list):
        findings.append(Finding("note", "The world is that of transforms.json; its applied_transform is not undone."))
    return Capture(folder.root, FORMAT, frames, findings=tuple(findings))


class _Frames:
    """Builds frames; cameras that the top of the file describes are built once."""

    def __init__(
        self,
        folder: Folder,
        name: str,
        said: dict[str, Any],
        config: CaptureConfig,
        size: tuple[int, int] | None,
        findings: list[Finding],
    ) -> None:
        self.folder, self.name, self.said, self.config, self.size = folder, name, said, config, size
        self.findings = findings
        self.shared: Camera | None = None

    def frame(self, entry: dict[str, Any], depth_files: DepthFiles | None, alpha: bool) -> Frame:
        color = _image(self.folder, self.name, entry["file_path"])
        depth = _depth_name(entry)
        mask = entry.get("mask_path")
        mask_path = self.folder.inside(mask, self.name) if isinstance(mask, str) else color if alpha else None
        return posed_frame(
            entry["file_path"],
            self._camera(entry),
            _pose(entry),
            color=color,
            depth=None if depth is None else self.folder.inside(depth, self.name),
            depth_files=depth_files,
            mask=mask_path,
        )

    def _camera(self, entry: dict[str, Any]) -> Camera:
        own = any(key in entry for key in ("fl_x", "camera_angle_x", "k1", "cx", "w"))
        if not own and self.shared is not None:
            return self.shared
        camera = _camera_of({**self.said, **entry}, self.size, self.folder.root / self.name)
        if self.size is not None and not own and (camera.width, camera.height) != self.size:
            self.findings.append(
                Finding(
                    "note",
                    f"{self.name} says {camera.width} x {camera.height} pixels and the images have {self.size[0]} x "
                    f"{self.size[1]}; the intrinsics are scaled.",
                )
            )
            camera = resized(camera, self.size, self.folder.root / self.name)
        camera = overridden(checked(camera, self.folder.root / self.name), self.config.intrinsics)
        if not own:
            self.shared = camera
        return camera


def _camera_of(said: dict[str, Any], size: tuple[int, int] | None, path: Path) -> Camera:
    try:
        width = int(said["w"]) if "w" in said else size[0] if size else 0
        height = int(said["h"]) if "h" in said else size[1] if size else 0
        if "fl_x" in said:
            fx = float(said["fl_x"])
            fy = float(said.get("fl_y", fx))
        else:
            fx = 0.5 * width / math.tan(0.5 * float(said["camera_angle_x"]))
            fy = 0.5 * height / math.tan(0.5 * float(said["camera_angle_y"])) if "camera_angle_y" in said else fx
        K = (fx, fy, float(said.get("cx", width / 2)), float(said.get("cy", height / 2)))
        values = {key: float(said[key]) for key in _DISTORTION if key in said}
    except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise SmrError(
            f"{path} lacks a number of the camera ({type(error).__name__}: {error}).",
            "It needs fl_x (or camera_angle_x), and w and h where the images do not say them.",
        ) from None
    name = str(said.get("camera_model", "OPENCV_FISHEYE" if said.get("is_fisheye") else "OPENCV")).upper()
    if name not in _MODELS:
        raise unknown_model(name, path)
    if _MODELS[name] == "opencv" and name != "FULL_OPENCV" and values.get("k4"):
        raise SmrError(
            f"{path} gives k4 = {values['k4']:g} for a camera {name}, which has none.",
            "If it is a fisheye lens, say camera_model OPENCV_FISHEYE; else remove k4 or say FULL_OPENCV.",
        )
    if _MODELS[name] == "pinhole":
        values = {}
    return build(_MODELS[name], (width, height), K, values)


def _examples(folder: Folder, name: str, entries: list[dict[str, Any]]) -> tuple[Path | None, Path | None]:
    """The first photo and the first depth image that can be read; a photo may be missing everywhere."""
    colors = (_image(folder, name, entry["file_path"]) for entry in entries)
    depths = (folder.inside(depth, name) for entry in entries if (depth := _depth_name(entry)) is not None)
    return first_image(path for path in colors if os.path.exists(path)), first_image(depths)


def _depth_name(entry: dict[str, Any]) -> str | None:
    name = entry.get("depth_file_path", entry.get("depth_path"))
    return name if isinstance(name, str) else None


def _known_scale(said: dict[str, Any]) -> float:
    for key in ("depth_unit_scale_factor", "integer_depth_scale"):
        if isinstance(said.get(key), int | float) and said[key] > 0:
            return 1.0 / float(said[key])
    return 1000.0


def _image(folder: Folder, name: str, file_path: str) -> Path:
    path = folder.inside(file_path, name)
    if path.suffix:
        return path
    candidates = (path.with_name(path.name + ending) for ending in _ENDINGS)
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), path)


def _pose(entry: dict[str, Any]) -> Float[np.ndarray, "4 4"] | None:
    try:
        matrix = np.array(entry["transform_matrix"], np.float64)
        full = np.vstack([matrix, [0, 0, 0, 1]]) if matrix.shape == (3, 4) else matrix.reshape(4, 4)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return full @ OPENCV_FROM_OPENGL
