"""Redwood and Open3D: colour in `image`, `color` or `rgb`, `depth`, `trajectory.log` or `.json`, intrinsics as JSON.

Poses are camera-to-world, OpenCV axes. Open3D's intrinsics JSON holds `intrinsic_matrix` column by column; without one
its PrimeSense default is assumed (fx = fy = 525, cx = 319.5, cy = 239.5, 640×480). Its unit of depth is the
millimetre. Open3D counts the first pixel's centre as (0, 0). http://redwood-data.org/indoor/fileformat.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding
from ..transforms import rigid_inverse
from .cameras import HALF, camera_of_K, checked
from .folder import DEPTH_ENDINGS, IMAGE_ENDINGS, Folder
from .images import first_image, image_size
from .rig import find_rig

FORMAT = "Redwood / Open3D"
COLORS = ("image", "color", "rgb", "images")
TRAJECTORIES = ("trajectory.log", "trajectory.json", "camera_trajectory.json", "trajectory.txt")
INTRINSICS = (
    "camera_primesense.json",
    "camera_intrinsic.json",
    "intrinsic.json",
    "intrinsics.json",
    "camera.json",
)


def sees(folder: Folder) -> bool:
    """Whether there are depth images and a trajectory in the form of Open3D."""
    return folder.has("depth") and _trajectory_name(folder) is not None


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames: colour, depth and pose by their order, as Open3D pairs them.

    Raises:
        SmrError: The trajectory is damaged; the intrinsics do not fit the images.
    """
    trajectory = _trajectory_name(folder) or TRAJECTORIES[0]
    color_folder = folder.first(*COLORS)
    colors = list(folder.files(color_folder, IMAGE_ENDINGS).values()) if color_folder else []
    depths = list(folder.files("depth", DEPTH_ENDINGS).values())
    poses, camera_of_trajectory = _read_trajectory(folder, trajectory)
    if not depths or not poses:
        lacking = "no depth images in depth/" if not depths else f"no poses in {trajectory}"
        raise SmrError(f"{folder.root} has {lacking}.", "Copy the capture again, with all its files.")
    findings: list[Finding] = []
    counts = {"depth images": len(depths), "poses": len(poses), **({"colour images": len(colors)} if colors else {})}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{count} {what}" for what, count in counts.items())
        findings.append(Finding("warning", f"There are {said}: the surplus at the end is left out."))
    example = first_image(folder.root / name for name in depths) or folder.root
    camera, said_by, more = _camera(folder, image_size(example), camera_of_trajectory, trajectory)
    color = first_image(folder.root / name for name in colors)
    rig, rig_findings = find_rig(
        folder, config, camera, color=color, depth=example, known_scale=1000.0, said_by=said_by
    )
    frames = tuple(
        rig.frame(
            Path(depths[i]).stem,
            poses.get(i),
            color=folder.root / colors[i] if i < len(colors) else None,
            depth=folder.root / depths[i],
        )
        for i in range(min(len(depths), max(poses) + 1, len(colors) or len(depths)))
    )
    return Capture(folder.root, FORMAT, frames, findings=(*findings, *more, *rig_findings))


def _trajectory_name(folder: Folder) -> str | None:
    """The trajectory; a `.txt` only in the form of a `.log` (five lines a pose)."""
    for name in TRAJECTORIES:
        if folder.has(name):
            lines = folder.text(name).split("\n", 1)
            if not name.endswith(".txt") or len(lines[0].split()) in (2, 3):
                return name
    return None


def _read_trajectory(folder: Folder, name: str) -> tuple[dict[int, Float[np.ndarray, "4 4"]], Camera | None]:
    """Frame number to pose, and the camera where the trajectory holds it."""
    if name.endswith(".json"):
        return _read_json(folder, name)
    return dict(enumerate(_log_blocks(folder, name))), None


def _log_blocks(folder: Folder, name: str) -> Float[np.ndarray, "N 4 4"]:
    """Blocks of a line of two or three whole numbers and four lines of four."""
    lines = [line for line in folder.text(name).splitlines() if line.strip()]
    blocks = [lines[i + 1 : i + 5] for i in range(0, len(lines) - len(lines) % 5, 5)]
    try:
        return np.array([[row.split() for row in block] for block in blocks], dtype=np.float64).reshape(-1, 4, 4)
    except ValueError:
        raise SmrError(
            f"{folder.root / name} is no trajectory in the .log form.",
            "Each pose is a line of three whole numbers, then four lines of four numbers (camera to world).",
        ) from None


def _read_json(folder: Folder, name: str) -> tuple[dict[int, Float[np.ndarray, "4 4"]], Camera | None]:
    """Open3D's PinholeCameraTrajectory: `extrinsic` is world-to-camera, column by column."""
    said: Any = folder.json(name)
    try:
        entries = said["parameters"]
        poses = {
            i: rigid_inverse(np.array(entry["extrinsic"], np.float64).reshape(4, 4).T)
            for i, entry in enumerate(entries)
        }
        camera = _json_camera(entries[0]["intrinsic"], folder, name) if entries else None
    except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
        raise SmrError(
            f"{folder.root / name} is no camera trajectory of Open3D ({type(error).__name__}: {error}).",
            "Write it with open3d.io.write_pinhole_camera_trajectory, or as trajectory.log.",
        ) from None
    return poses, camera


def _camera(
    folder: Folder, size: tuple[int, int], from_trajectory: Camera | None, trajectory: str
) -> tuple[Camera, Path, tuple[Finding, ...]]:
    name = folder.first(*INTRINSICS)
    if name is not None:
        said: Any = folder.json(name)
        try:
            return _json_camera(said, folder, name), folder.root / name, ()
        except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            raise SmrError(
                f"{folder.root / name} is no camera of Open3D ({type(error).__name__}: {error}).",
                "It needs width, height and intrinsic_matrix (9 numbers, column by column).",
            ) from None
    if from_trajectory is not None:
        return from_trajectory, folder.root / trajectory, ()
    for name in ("camera-intrinsics.txt", "intrinsics.txt", "intrinsic.txt"):
        if folder.has(name):
            return camera_of_K(folder.numbers(name).tolist(), size, folder.root / name), folder.root / name, ()
    finding = Finding(
        "note",
        "No file of intrinsics; Open3D's PrimeSense default is assumed (525 pixels, centre 319.5, 239.5 of 640 x 480).",
        "If this is another camera, give --intrinsics FX FY CX CY or add camera_intrinsic.json.",
    )
    return Camera(640, 480, 525.0, 525.0, 319.5 + HALF, 239.5 + HALF), folder.root, (finding,)


def _json_camera(said: Any, folder: Folder, name: str) -> Camera:
    K = [float(number) for number in said["intrinsic_matrix"]]
    camera = Camera(int(said["width"]), int(said["height"]), K[0], K[4], K[6] + HALF, K[7] + HALF)
    return checked(camera, folder.root / name)
