"""3d Scanner App, all data exported: `frame_00000.json` and `.jpg`, `depth_00000.png`, `conf_00000.png`.

A frame's JSON holds `intrinsics` (3×3, row by row, for the photo's size) and `cameraPoseARFrame` (4×4, row by row,
camera-to-world, ARKit's axes; world y up). Only some frames have a photo. Depth is in millimetres.
https://3dscannerapp.com
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame
from ..transforms import OPENCV_FROM_OPENGL
from .cameras import camera_of_K, overridden
from .folder import Folder
from .images import first_image, image_size
from .rig import find_depth_files, posed_frame

FORMAT = "3d Scanner App"
_FRAME = re.compile(r"(frame|depth|conf)_(\d+)\.(json|jpe?g|png)$")
_PHOTO_SIZE = (1920, 1440)


def sees(folder: Folder) -> bool:
    """Whether there are frames named in this way, with JSON."""
    return any(name.startswith("frame_") and name.endswith(".json") for name in folder.names())


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames that have depth or a photo.

    Raises:
        SmrError: A frame's JSON has no intrinsics.
    """
    files: dict[str, dict[str, str]] = {}
    for name in folder.names():
        match = _FRAME.match(name)
        if match:
            kind = "json" if match[3] == "json" else {"frame": "color"}.get(match[1], match[1])
            files.setdefault(match[2], {})[kind] = name
    color = first_image(folder.root / own["color"] for own in files.values() if "color" in own)
    depth = first_image(folder.root / own["depth"] for own in files.values() if "depth" in own)
    findings: list[Finding] = []
    photo_size = _PHOTO_SIZE if color is None else image_size(color)
    depth_files, more = find_depth_files(config, depth, 1000.0)
    findings += more
    if depth is None:
        findings.append(Finding("warning", "There is no depth.", "Export with 'All Data' to have depth_*.png."))
    frames: list[Frame] = []
    for number, own in files.items():
        if "json" not in own or not ({"color", "depth"} & own.keys()):
            continue
        said = folder.json(own["json"])
        frames.append(
            posed_frame(
                f"frame_{number}",
                overridden(_camera(folder, own["json"], said, photo_size), config.intrinsics),
                _pose(said),
                color=folder.root / own["color"] if "color" in own else None,
                depth=folder.root / own["depth"] if "depth" in own else None,
                depth_files=depth_files,
                confidence=folder.root / own["conf"] if "conf" in own else None,
                timestamp=float(said["time"]) if isinstance(said.get("time"), int | float) else None,
            )
        )
    return Capture(folder.root, FORMAT, tuple(frames), world_up="y", findings=tuple(findings))


def _camera(folder: Folder, name: str, said: Any, size: tuple[int, int]) -> Camera:
    path = folder.root / name
    try:
        K = [float(number) for number in said["intrinsics"]]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SmrError(
            f"{path} has no intrinsics ({type(error).__name__}: {error}).", "Export the scan again with 'All Data'."
        ) from None
    return camera_of_K(K, size, path, half_pixel=False)


def _pose(said: Any) -> Float[np.ndarray, "4 4"] | None:
    try:
        return np.array(said["cameraPoseARFrame"], np.float64).reshape(4, 4) @ OPENCV_FROM_OPENGL
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
