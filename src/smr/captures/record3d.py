"""Record3D: the EXR + JPG export (`metadata.json`, `rgb`, `depth`) and what a .r3d file holds (`metadata`, `rgbd`).

`K` is 3×3 column by column for images of `w` × `h`; `poses` are qx qy qz qw tx ty tz, camera-to-world, ARKit's axes
(world y up); newer files have `perFrameIntrinsicCoeffs` (fx fy cx cy each). Depth is in metres, at a size of its own:
EXR, or in a .r3d LZFSE-compressed float32 (`.depth`) with confidence (`.conf`). https://record3d.app/features
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame
from ..transforms import OPENCV_FROM_OPENGL
from .cameras import checked, overridden
from .folder import DEPTH_ENDINGS, IMAGE_ENDINGS, Folder
from .images import first_image
from .poses import matrices_from_tum
from .rig import DepthFiles, find_depth_files, posed_frame

FORMAT = "Record3D"
_LIDAR = (256, 192)


def sees(folder: Folder) -> bool:
    """Whether there is the app's metadata with images."""
    name = folder.first("metadata.json", "metadata")
    return name is not None and (folder.has("rgbd") or folder.has("rgb")) and '"poses"' in folder.text(name)


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames, by their number.

    Raises:
        SmrError: The metadata lacks something.
    """
    name = folder.first("metadata.json", "metadata") or "metadata"
    said: Any = folder.json(name)
    both = "rgbd" if folder.has("rgbd") else None
    colors = folder.files(both or "rgb", IMAGE_ENDINGS)
    depths = folder.files(both or "depth", (".depth",) if both else DEPTH_ENDINGS) or folder.files(
        "depth", DEPTH_ENDINGS
    )
    confidences = folder.files(both or "confidence", (".conf",) if both else IMAGE_ENDINGS)
    cameras, poses, times = _metadata(said, folder, name)
    findings: tuple[Finding, ...] = ()
    if any(name.endswith(".depth") for name in depths.values()):
        depth_files: DepthFiles | None = DepthFiles(_lidar_size(said), 1.0)
    else:
        example = first_image(folder.root / path for path in depths.values())
        depth_files, findings = find_depth_files(config, example, None)
    if len(poses) > 1 and np.ptp(poses, axis=0).max() == 0:
        raise SmrError(
            f"All poses in {folder.root / name} are the same: the selfie camera records no poses.",
            "Record with the LiDAR camera on the back.",
        )
    frames: list[Frame] = []
    for stem in colors or depths:
        i = int(stem) if stem.isdigit() else -1
        frames.append(
            posed_frame(
                stem,
                overridden(cameras[min(max(i, 0), len(cameras) - 1)], config.intrinsics),
                poses[i] if 0 <= i < len(poses) else None,
                color=folder.root / colors[stem] if stem in colors else None,
                depth=folder.root / depths[stem] if stem in depths else None,
                depth_files=depth_files,
                confidence=folder.root / confidences[stem] if stem in confidences else None,
                timestamp=float(times[i]) if 0 <= i < len(times) else None,
            )
        )
    return Capture(folder.root, FORMAT, tuple(frames), world_up="y", findings=findings)


def _metadata(said: Any, folder: Folder, name: str) -> tuple[list[Camera], np.ndarray, list[float]]:
    """A camera for all frames or one each, poses in OpenCV axes, times."""
    path = folder.root / name
    try:
        width, height = int(said["w"]), int(said["h"])
        K = np.array(said["K"], np.float64).reshape(3, 3).T
        coefficients = said.get("perFrameIntrinsicCoeffs") or [[K[0, 0], K[1, 1], K[0, 2], K[1, 2]]]
        cameras = [
            checked(Camera(width, height, float(fx), float(fy), float(cx), float(cy)), path)
            for fx, fy, cx, cy, *_ in coefficients
        ]
        poses = matrices_from_tum(np.array([[*row[4:7], *row[:4]] for row in said["poses"]], np.float64).reshape(-1, 7))
        times = [float(time) for time in said.get("frameTimestamps") or ()]
    except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
        raise SmrError(
            f"{path} is no metadata of Record3D ({type(error).__name__}: {error}).",
            "Export the recording again from Record3D.",
        ) from None
    return cameras, poses @ OPENCV_FROM_OPENGL, times


def _lidar_size(said: Any) -> tuple[int, int]:
    """Width and height of the depth in a .r3d: said by newer files, else the sensor's, turned as the photo is."""
    if isinstance(said.get("dw"), int) and isinstance(said.get("dh"), int) and said["dw"] > 0 and said["dh"] > 0:
        return said["dw"], said["dh"]
    return _LIDAR if int(said["w"]) > int(said["h"]) else (_LIDAR[1], _LIDAR[0])
