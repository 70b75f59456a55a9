"""`cameras.json`: one file with one camera, the unit of depth, and for each frame its files and its pose.

Keys: width, height, model (pinhole, opencv, opencv_fisheye), fx, fy, cx, cy, distortion, depth_scale (stored value /
depth_scale = metres), frames with color, depth, mask, camera_to_world (4×4, OpenCV axes, metres). The first pixel has
its centre at (0, 0).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding
from .cameras import HALF, checked
from .folder import Folder
from .images import first_image
from .rig import find_rig

FORMAT = "cameras.json"
_MODELS = ("pinhole", "opencv", "opencv_fisheye")


def sees(folder: Folder) -> bool:
    """Whether there is a `cameras.json` with `camera_to_world` (Polycam and others use the name too)."""
    return folder.has(FORMAT) and '"camera_to_world"' in folder.text(FORMAT)


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames that `cameras.json` lists.

    Raises:
        SmrError: A key is missing or its value is wrong; a file lies outside the folder; the unit of depth is missing.
    """
    said = folder.json(FORMAT)
    path = folder.root / FORMAT
    camera = _camera(said, folder)
    entries = said.get("frames")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SmrError(f"{path} has no list of frames.", "It needs frames: [{color, depth, camera_to_world}, ...].")
    files = [{kind: _file(folder, entry, kind) for kind in ("color", "depth", "mask")} for entry in entries]
    color = first_image(kinds["color"] for kinds in files)
    depth = first_image(kinds["depth"] for kinds in files)
    scale = said.get("depth_scale")
    rig, findings = find_rig(
        folder,
        config,
        camera,
        color=color,
        depth=depth,
        known_scale=float(scale) if isinstance(scale, int | float) and scale > 0 else None,
        said_by=path,
    )
    if said.get("color_registered_to_depth") is False and np.array_equal(rig.color_from_depth, np.eye(4)):
        findings += (
            Finding(
                "warning",
                f"{FORMAT} says that colour is not registered to depth, and no calibration lies beside it.",
                "Give --color-calibration FILE; without it, textures are shifted.",
            ),
        )
    frames = tuple(
        rig.frame(_name(entry, i), _pose(entry), timestamp=_timestamp(entry), **kinds)
        for i, (entry, kinds) in enumerate(zip(entries, files, strict=True))
    )
    return Capture(folder.root, FORMAT, frames, findings=findings)


def _camera(said: Any, folder: Folder) -> Camera:
    path = folder.root / FORMAT
    try:
        numbers = {key: float(said[key]) for key in ("fx", "fy", "cx", "cy")}
        width, height = int(said["width"]), int(said["height"])
        distortion = tuple(float(k) for k in said.get("distortion") or ())
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise SmrError(
            f"{path} lacks a number of the camera ({type(error).__name__}: {error}).",
            "It needs width, height, fx, fy, cx and cy.",
        ) from None
    model = said.get("model", "pinhole")
    if model not in _MODELS:
        raise SmrError(f"{path} names the camera model {model!r}.", f"Known here: {', '.join(_MODELS)}.")
    if not any(distortion):
        distortion = (0.0,) * 4 if model == "opencv_fisheye" else ()
        model = "pinhole" if model == "opencv" else model
    cx, cy = numbers["cx"] + HALF, numbers["cy"] + HALF
    return checked(Camera(width, height, numbers["fx"], numbers["fy"], cx, cy, model, distortion), path)


def _file(folder: Folder, entry: dict[str, Any], kind: str) -> Any:
    name = entry.get(kind)
    return folder.inside(name, FORMAT) if isinstance(name, str) else None


def _name(entry: dict[str, Any], index: int) -> str:
    name = entry.get("color") or entry.get("depth")
    return name if isinstance(name, str) else str(index)


def _timestamp(entry: dict[str, Any]) -> float | None:
    seconds = entry.get("timestamp")
    return float(seconds) if isinstance(seconds, int | float) else None


def _pose(entry: dict[str, Any]) -> Float[np.ndarray, "4 4"] | None:
    try:
        return np.array(entry["camera_to_world"], np.float64).reshape(4, 4)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
