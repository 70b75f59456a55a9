"""TUM RGB-D: `rgb.txt`, `depth.txt` and `groundtruth.txt`, joined by time.

Colour and depth belong together when they are at most 0.02 s apart, as the benchmark's own tool pairs them; the pose is
interpolated at the time of each, so a photo and its depth map have slightly different poses. Depth is stored in units
of 1/5000 m, registered to the colour. Poses are camera-to-world, `tx ty tz qx qy qz qw`, OpenCV axes.
https://cvg.cit.tum.de/data/datasets/rgbd-dataset/file_formats
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..config import CaptureConfig
from ..errors import SmrError
from ..records import Camera, Capture, Finding, Frame
from .cameras import HALF, camera_of_K
from .folder import Folder
from .images import first_image, image_size
from .poses import interpolated, matrices_from_tum
from .rig import find_rig

FORMAT = "TUM RGB-D"
TOGETHER = 0.02
"""Seconds that two measurements of one frame may be apart."""
GAP = 0.2
"""Seconds between poses over which they are still interpolated."""
_DEPTH_SCALE = 5000.0
_FREIBURG = {  # the benchmark's page: fx fy cx cy and k1 k2 p1 p2 k3 of the colour cameras
    "1": ((517.3, 516.5, 318.6, 255.3), (0.2624, -0.9531, -0.0054, 0.0026, 1.1633)),
    "2": ((520.9, 521.0, 325.1, 249.7), (0.2312, -0.7849, -0.0033, -0.0001, 0.9172)),
    "3": ((535.4, 539.2, 320.1, 247.6), ()),
}
_TRAJECTORIES = ("groundtruth.txt", "trajectory.txt", "poses.txt", "CameraTrajectory.txt")


def sees(folder: Folder) -> bool:
    """Whether images are listed by time."""
    return folder.has("depth.txt") and (folder.has("rgb.txt") or folder.has("groundtruth.txt"))


def read(folder: Folder, config: CaptureConfig) -> Capture:
    """The frames: a depth map, the photo nearest in time, and the poses at both times.

    Raises:
        SmrError: There is no trajectory, or a list is damaged.
    """
    trajectory = folder.first(*_TRAJECTORIES)
    if trajectory is None:
        raise SmrError(
            f"{folder.root} has rgb.txt and depth.txt, but no groundtruth.txt with poses.",
            "Put a trajectory beside them (lines of: timestamp tx ty tz qx qy qz qw) named groundtruth.txt.",
        )
    depth_times, depths = _listed(folder, "depth.txt")
    color_times, colors = _listed(folder, "rgb.txt") if folder.has("rgb.txt") else (np.zeros(0), [])
    rows = _trajectory(folder, trajectory)
    if not depths:
        raise SmrError(f"{folder.root / 'depth.txt'} lists no images.", "Copy the capture again, with all its files.")
    color, depth = first_image(colors), first_image(depths)
    camera, said_by, findings = _camera(folder, depth or depths[0])
    rig, more = find_rig(folder, config, camera, color=color, depth=depth, known_scale=_DEPTH_SCALE, said_by=said_by)
    poses = matrices_from_tum(rows[:, 1:])
    depth_poses = interpolated(rows[:, 0], poses, depth_times, nearest=TOGETHER, gap=GAP)
    color_poses = interpolated(rows[:, 0], poses, color_times, nearest=TOGETHER, gap=GAP)
    frames: list[Frame] = []
    for i, j in enumerate(_partners(depth_times, color_times)):
        depth_frame = rig.frame(
            depths[i].stem, _known(depth_poses[i]), depth=depths[i], timestamp=float(depth_times[i])
        )
        photo = None if j is None else rig.frame("", _known(color_poses[j]), color=colors[j]).photo
        frames.append(Frame(depth_frame.name, photo, depth_frame.depth, depth_frame.timestamp))
    return Capture(folder.root, FORMAT, tuple(frames), findings=(*findings, *more))


def _listed(folder: Folder, name: str) -> tuple[Float[np.ndarray, " N"], list[Path]]:
    """Times and files of a list, ascending in time."""
    pairs: list[tuple[float, Path]] = []
    for number, line in enumerate(folder.text(name).splitlines(), 1):
        words = line.split(maxsplit=1)
        if not words or words[0].startswith("#"):
            continue
        try:
            pairs.append((float(words[0]), folder.inside(words[1].strip(), name)))
        except (ValueError, IndexError):
            raise SmrError(
                f"Line {number} of {folder.root / name} is {line[:60]!r}.", "Each line is a timestamp and a file name."
            ) from None
    pairs.sort(key=lambda pair: pair[0])
    return np.array([time for time, _ in pairs]), [path for _, path in pairs]


def _trajectory(folder: Folder, name: str) -> Float[np.ndarray, "N 8"]:
    numbers = folder.numbers(name)
    if len(numbers) % 8:
        raise SmrError(
            f"{folder.root / name} holds {len(numbers)} numbers, which is no multiple of 8.",
            "Each line is a pose: timestamp tx ty tz qx qy qz qw.",
        )
    rows = numbers.reshape(-1, 8)
    return rows[np.argsort(rows[:, 0], kind="stable")]


def _known(pose: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"] | None:
    return pose if np.isfinite(pose).all() else None


def _partners(depth_times: Float[np.ndarray, " N"], color_times: Float[np.ndarray, " M"]) -> list[int | None]:
    """For each depth map the photo nearest in time; one photo serves one depth map, the nearer."""
    if len(color_times) == 0:
        return [None] * len(depth_times)
    right = np.clip(np.searchsorted(color_times, depth_times), 0, len(color_times) - 1)
    left = np.maximum(right - 1, 0)
    nearer_left = np.abs(color_times[left] - depth_times) <= np.abs(color_times[right] - depth_times)
    nearest = np.where(nearer_left, left, right)
    apart = np.abs(color_times[nearest] - depth_times)
    partners: list[int | None] = [None] * len(depth_times)
    taken: set[int] = set()
    for i in np.argsort(apart, kind="stable"):
        if apart[i] <= TOGETHER and int(nearest[i]) not in taken:
            partners[i] = int(nearest[i])
            taken.add(int(nearest[i]))
    return partners


def _camera(folder: Folder, example: Path) -> tuple[Camera, Path, tuple[Finding, ...]]:
    for name in ("camera-intrinsics.txt", "intrinsics.txt", "K.txt"):
        if folder.has(name):
            K = folder.numbers(name).tolist()
            return camera_of_K(K, image_size(example), folder.root / name), folder.root / name, ()
    number = re.search(r"freiburg([123])", folder.root.resolve().name)
    if number:
        (fx, fy, cx, cy), distortion = _FREIBURG[number[1]]
        model = "opencv" if distortion else "pinhole"
        camera = Camera(640, 480, fx, fy, cx + HALF, cy + HALF, model, distortion)  # type: ignore[arg-type]
        finding = Finding("note", f"The camera is the benchmark's calibration of freiburg{number[1]}.")
        return camera, folder.root, (finding,)
    finding = Finding(
        "warning",
        "No intrinsics and no freiburg1, 2 or 3 in the folder's name; the benchmark's default is assumed (525 pixels).",
        "If this is another camera, give --intrinsics FX FY CX CY or add camera-intrinsics.txt (3 x 3).",
    )
    return Camera(640, 480, 525.0, 525.0, 319.5 + HALF, 239.5 + HALF), folder.root, (finding,)
