"""Stray Scanner: `depth`, `confidence`, `odometry.csv`, `camera_matrix.csv` and a video or its frames in `rgb`.

`odometry.csv` holds timestamp, frame, x, y, z, qx, qy, qz, qw and perhaps fx, fy, cx, cy: camera-to-world. The app
turns ARKit's camera axes half a turn about x before it writes them, so they are OpenCV's; the world's y is up. Depth is
in millimetres. https://docs.strayrobots.io/apps/scanner/format.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame
from .cameras import camera_of_K, checked, overridden
from .folder import DEPTH_ENDINGS, IMAGE_ENDINGS, Folder
from .images import first_image, image_size
from .poses import matrices_from_tum
from .rig import find_depth_files, posed_frame

FORMAT = "Stray Scanner"
_COLUMNS = ("x", "y", "z", "qx", "qy", "qz", "qw")
_VIDEO_SIZE = (1920, 1440)


def sees(folder: Folder) -> bool:
    """Whether the app's two tables are there."""
    return folder.has("odometry.csv", "camera_matrix.csv")


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames of the odometry.

    Raises:
        SmrError: The colour is still a video; a table is damaged.
    """
    colors = folder.files(folder.first("rgb", "color", "images") or "rgb", IMAGE_ENDINGS)
    if not colors and folder.has("rgb.mp4"):
        video, images = _quoted(folder, "rgb.mp4"), _quoted(folder, "rgb/%06d.jpg")
        raise SmrError(
            f"The colour of {folder.root} is a video, rgb.mp4, and videos are not decoded here.",
            f"Extract its frames: mkdir -p {_quoted(folder, 'rgb')} && ffmpeg -noautorotate -i {video} "
            f"-fps_mode passthrough -start_number 0 -q:v 2 {images}",
        )
    depths = folder.files("depth", DEPTH_ENDINGS)
    confidences = folder.files("confidence", IMAGE_ENDINGS)
    photo = first_image(folder.root / path for path in colors.values())
    size = _VIDEO_SIZE if photo is None else image_size(photo)
    matrix = folder.root / "camera_matrix.csv"
    shared = camera_of_K(folder.numbers("camera_matrix.csv").tolist(), size, matrix, half_pixel=False)
    findings: list[Finding] = []
    example = first_image(folder.root / path for path in depths.values())
    depth_files, more = find_depth_files(config, example, 1000.0)
    findings += more
    frames: list[Frame] = []
    table = _table(folder)
    by_number = [
        {int(stem): name for stem, name in kind.items() if stem.isdigit()} for kind in (colors, depths, confidences)
    ]
    poses = matrices_from_tum(np.array([[row[key] for key in _COLUMNS] for row in table]).reshape(-1, 7))
    for row, pose in zip(table, poses, strict=True):
        number = int(row["frame"])
        color, depth, confidence = (names.get(number) for names in by_number)
        if color is None and depth is None:
            continue
        frames.append(
            posed_frame(
                f"{number:06d}",
                overridden(_camera(shared, row, folder), config.intrinsics),
                pose,
                color=None if color is None else folder.root / color,
                depth=None if depth is None else folder.root / depth,
                depth_files=depth_files,
                confidence=None if confidence is None else folder.root / confidence,
                timestamp=row["timestamp"],
            )
        )
    return Capture(folder.root, FORMAT, tuple(frames), world_up="y", findings=tuple(findings))


def _quoted(folder: Folder, name: str) -> str:
    return '"' + str(folder.root / name) + '"'


def _table(folder: Folder) -> list[dict[str, float]]:
    """Rows of the odometry by the names of their columns; empty cells are left out."""
    path = folder.root / "odometry.csv"
    lines = [line.split(",") for line in folder.text("odometry.csv").splitlines() if line.strip()]
    header = [word.strip().lower() for word in lines[0]] if lines else []
    lacking = [name for name in ("timestamp", "frame", *_COLUMNS) if name not in header]
    if lacking:
        raise SmrError(
            f"{path} lacks the columns {', '.join(lacking)}.", "Export the recording again from Stray Scanner."
        )
    rows: list[dict[str, float]] = []
    for number, words in enumerate(lines[1:], 2):
        row = _row(header, words)
        if row is None:
            raise SmrError(
                f"Line {number} of {path} is no row of numbers.", "Export the recording again; it is truncated."
            )
        rows.append(row)
    return rows


def _row(header: Sequence[str], words: Sequence[str]) -> dict[str, float] | None:
    try:
        row = {name: float(word) for name, word in zip(header, words, strict=False) if word.strip()}
    except ValueError:
        return None
    complete = all(name in row for name in ("timestamp", "frame", *_COLUMNS))
    return row if complete and math.isfinite(row["frame"]) else None


def _camera(shared: Camera, row: dict[str, float], folder: Folder) -> Camera:
    """The frame's own intrinsics where the newer app writes them."""
    if not all(row.get(key) for key in ("fx", "fy", "cx", "cy")):
        return shared
    own = Camera(shared.width, shared.height, row["fx"], row["fy"], row["cx"], row["cy"])
    return checked(own, folder.root / "odometry.csv")
