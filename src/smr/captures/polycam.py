"""Polycam's raw data: `keyframes/images`, `cameras`, `depth`, `confidence`, the corrected ones where they are.

Each camera's JSON holds fx, fy, cx, cy, width, height of the image and camera-to-world as t_00 ... t_23, ARKit's axes
(x right, y up, z backward; world y up). Depth is in millimetres, at a size of its own.
https://github.com/PolyCam/polyform
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame
from ..transforms import OPENCV_FROM_OPENGL
from .cameras import checked, overridden
from .folder import DEPTH_ENDINGS, IMAGE_ENDINGS, Folder
from .images import first_image
from .rig import find_depth_files, posed_frame

FORMAT = "Polycam"


def sees(folder: Folder) -> bool:
    """Whether there are keyframes with cameras, here or in `keyframes`."""
    return _cameras(folder) is not None


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The keyframes.

    Raises:
        SmrError: A camera file lacks a number.
    """
    prefix, kind = _cameras(folder) or ("", "")
    cameras = folder.files(f"{prefix}{kind}cameras", (".json",))
    images = folder.files(f"{prefix}{kind}images", IMAGE_ENDINGS)
    depths = folder.files(f"{prefix}depth", DEPTH_ENDINGS)
    confidences = folder.files(f"{prefix}confidence", IMAGE_ENDINGS)
    findings: list[Finding] = []
    if kind:
        findings.append(Finding("note", "Polycam's corrected cameras and images are used."))
    example = first_image(folder.root / path for path in depths.values())
    depth_files, more = find_depth_files(config, example, 1000.0)
    findings += more
    frames: list[Frame] = []
    for stem, name in cameras.items():
        said = folder.json(name)
        camera = overridden(_camera(folder, name, said), config.intrinsics)
        frames.append(
            posed_frame(
                stem,
                camera,
                _pose(said),
                color=folder.root / images[stem] if stem in images else None,
                depth=folder.root / depths[stem] if stem in depths else None,
                depth_files=depth_files,
                confidence=folder.root / confidences[stem] if stem in confidences else None,
                timestamp=float(stem) / 1e6 if stem.isdigit() else None,
            )
        )
    return Capture(folder.root, FORMAT, tuple(frames), world_up="y", findings=tuple(findings))


def _cameras(folder: Folder) -> tuple[str, str] | None:
    """Prefix of the keyframes and `corrected_` or nothing; the first pair of cameras and images that has files."""
    for prefix in ("keyframes/", ""):
        for kind in ("corrected_", ""):
            names = folder.names(f"{prefix}{kind}cameras")
            if folder.names(f"{prefix}{kind}images") and any(name.endswith(".json") for name in names):
                return prefix, kind
    return None


def _camera(folder: Folder, name: str, said: Any) -> Camera:
    path = folder.root / name
    try:
        fx, fy, cx, cy = (float(said[key]) for key in ("fx", "fy", "cx", "cy"))
        return checked(Camera(int(said["width"]), int(said["height"]), fx, fy, cx, cy), path)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise SmrError(
            f"{path} lacks a number of the camera ({type(error).__name__}: {error}).",
            "Export the raw data from Polycam again.",
        ) from None


def _pose(said: Any) -> Float[np.ndarray, "4 4"] | None:
    try:
        rows = [[float(said[f"t_{row}{column}"]) for column in range(4)] for row in range(3)]
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return np.array([*rows, [0.0, 0.0, 0.0, 1.0]]) @ OPENCV_FROM_OPENGL
