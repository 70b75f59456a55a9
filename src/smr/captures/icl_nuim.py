"""ICL-NUIM: ray-traced rooms, `rgb` or `color`, `depth`, and poses for a camera with a NEGATIVE fy.

Poses (`*.gt.freiburg`: frame tx ty tz qx qy qz qw; `pose.txt`: the same without a number; `*.gt.sim`: 3×4 matrices)
hold in axes x right, y UP, z forward, which are left-handed. y is flipped in the camera and in the world, so that fy
becomes positive and rotations stay proper. Depth is in units of 1/5000 m.
https://www.doc.ic.ac.uk/~ahanda/VaFRIC/iclnuim.html
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding
from .cameras import HALF
from .folder import DEPTH_ENDINGS, IMAGE_ENDINGS, Folder
from .images import first_image
from .poses import matrices_from_tum
from .rig import find_rig

FORMAT = "ICL-NUIM"
FLIP_Y = np.diag([1.0, -1.0, 1.0, 1.0])
_COLORS = ("rgb", "color", "image")


def sees(folder: Folder) -> bool:
    """Whether there are depth images and a trajectory named as this set names it."""
    return folder.has("depth") and _trajectory_name(folder) is not None


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames: images and poses by their number.

    Raises:
        SmrError: The trajectory is damaged or there are no depth images.
    """
    name = _trajectory_name(folder) or "pose.txt"
    color_folder = folder.first(*_COLORS)
    colors = folder.files(color_folder, IMAGE_ENDINGS) if color_folder else {}
    depths = folder.files("depth", DEPTH_ENDINGS)
    if not depths:
        raise SmrError(f"{folder.root / 'depth'} has no depth images.", "Copy the capture again, with all its files.")
    poses = _poses(folder, name, list(depths))
    camera = Camera(640, 480, 481.2, 480.0, 319.5 + HALF, 239.5 + HALF)
    depth = first_image(folder.root / path for path in depths.values())
    color = first_image(folder.root / path for path in colors.values())
    rig, more = find_rig(
        folder, config, camera, color=color, depth=depth, known_scale=5000.0, said_by=folder.root / name
    )
    frames = tuple(
        rig.frame(
            stem,
            poses.get(stem),
            color=folder.root / colors[stem] if stem in colors else None,
            depth=folder.root / path,
        )
        for stem, path in depths.items()
    )
    finding = Finding(
        "note" if name.endswith((".freiburg", ".sim")) else "warning",
        f"{name} is read as ICL-NUIM's (481.2, -480 pixels; y up, left-handed); y is flipped in camera and world.",
        "" if name.endswith((".freiburg", ".sim")) else "If this is another camera, describe it in cameras.json.",
    )
    return Capture(folder.root, FORMAT, frames, world_up="-y", findings=(finding, *more))


def _trajectory_name(folder: Folder) -> str | None:
    for name in folder.names():
        if name.endswith((".gt.freiburg", ".gt.sim")):
            return name
    if folder.has("pose.txt"):
        first = next((line for line in folder.text("pose.txt").splitlines() if line.strip()), "")
        return "pose.txt" if len(first.split()) in (7, 8) else None
    return None


def _poses(folder: Folder, name: str, stems: list[str]) -> dict[str, Float[np.ndarray, "4 4"]]:
    """Stem of the image to camera-to-world in OpenCV axes."""
    numbers = folder.numbers(name)
    path = folder.root / name
    if name.endswith(".sim"):
        matrices = np.tile(np.eye(4), (len(_rows(numbers, 12, path)), 1, 1))
        matrices[:, :3] = _rows(numbers, 12, path).reshape(-1, 3, 4)
        keys = stems
    else:
        lines = folder.text(name).splitlines()
        columns = len(next((line.split() for line in lines if line.strip() and not line.startswith("#")), [""] * 8))
        rows = _rows(numbers, columns, path)
        matrices = matrices_from_tum(rows[:, -7:])
        by_number = {int(stem): stem for stem in stems if stem.isdigit()}
        keys = [by_number.get(int(n) if np.isfinite(n) else -1, "") for n in rows[:, 0]] if columns == 8 else stems
    return {key: FLIP_Y @ matrix @ FLIP_Y for key, matrix in zip(keys, matrices, strict=False) if key}


def _rows(numbers: Float[np.ndarray, " N"], columns: int, path: Path) -> Float[np.ndarray, "M C"]:
    if columns < 7 or len(numbers) % columns:
        raise SmrError(
            f"{path} holds {len(numbers)} numbers, which do not make rows of {columns}.",
            "Each line is a pose: [frame] tx ty tz qx qy qz qw.",
        )
    return numbers.reshape(-1, columns)
