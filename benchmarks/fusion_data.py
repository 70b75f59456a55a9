"""Decoded frames of the test captures, without the package's readers, so that a benchmark times fusion alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from PIL import Image

from smr.records import Camera
from smr.tsdf import DepthImage

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load(name: str, count: int | None = None) -> list[DepthImage]:
    """Frames of a capture folder, decoded; `count`: only so many, spread evenly."""
    frames = _seven_scenes(DATA / name) if name == "seven_scenes" else _with_cameras_json(DATA / name)
    picked = range(len(frames)) if count is None else np.linspace(0, len(frames) - 1, count).astype(int)
    return [frames[i]() for i in picked]


def _depth(path: Path, scale: float) -> np.ndarray:
    stored = np.asarray(Image.open(path)).astype(np.float32)
    return np.where(stored >= 65535, np.float32(0), stored / np.float32(scale))


def _seven_scenes(folder: Path) -> list:
    rig = json.loads((folder / "color_calibration_estimate.json").read_text())
    depth_camera = Camera(640, 480, 585, 585, 320.5, 240.5)
    color_camera = Camera(640, 480, rig["fx"], rig["fy"], rig["cx"] + 0.5, rig["cy"] + 0.5)
    color_from_depth = np.eye(4)
    color_from_depth[:3, :3] = rig["depth_to_color_rotation"]
    color_from_depth[:3, 3] = rig["depth_to_color_translation"]

    def read(path: Path) -> DepthImage:
        pose = np.loadtxt(path)
        color = np.asarray(Image.open(str(path).replace("pose.txt", "color.jpg")))
        depth = _depth(Path(str(path).replace("pose.txt", "depth.png")), 1000)
        return DepthImage(depth, depth_camera, pose, color, color_camera, pose @ np.linalg.inv(color_from_depth))

    return [lambda path=path: read(path) for path in sorted(folder.glob("*.pose.txt"))]


def _with_cameras_json(folder: Path) -> list:
    meta = json.loads((folder / "cameras.json").read_text())
    camera = Camera(meta["width"], meta["height"], meta["fx"], meta["fy"], meta["cx"] + 0.5, meta["cy"] + 0.5)

    def read(frame: dict) -> DepthImage:
        color = np.asarray(Image.open(folder / frame["color"]).convert("RGB"))
        depth = _depth(folder / frame["depth"], meta["depth_scale"])
        return DepthImage(depth, camera, np.array(frame["camera_to_world"]), color)

    return [lambda frame=frame: read(frame) for frame in meta["frames"]]
