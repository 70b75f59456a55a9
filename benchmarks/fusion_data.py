"""Decoded frames of the test captures, so that a benchmark times fusion alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from smr.captures import Decoder, read_capture
from smr.tsdf import DepthImage

DATA = Path(os.environ.get("SMR_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load(name: str, count: int | None = None) -> list[DepthImage]:
    """Frames of a capture folder, decoded; `count`: only so many, spread evenly."""
    frames = read_capture(DATA / name).frames
    picked = range(len(frames)) if count is None else np.linspace(0, len(frames) - 1, count).astype(int)
    decoder = Decoder()
    images = []
    for frame in (frames[i] for i in picked):
        depth, camera = decoder.depth(frame.depth)
        color, color_camera = decoder.photo(frame.photo)
        pose, color_pose = frame.depth.world_from_camera, frame.photo.world_from_camera
        images.append(DepthImage(depth, camera, pose, color, color_camera, color_pose))
    return images
