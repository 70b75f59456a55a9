"""Reading captures: what is found, what is said, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smr.captures import Decoder, read_capture


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "format", "frames"),
    [
        ("seven_scenes", "7-Scenes", 140),
        ("real_room_five", "7-Scenes", 5),
        ("living_room", "cameras.json", 80),
        ("synthetic_noisy", "cameras.json", 30),
        ("synthetic_fisheye", "cameras.json", 12),
    ],
)
def test_real_captures_are_recognised_and_decode(
    data_dir: Callable[[str], Path], name: str, format: str, frames: int
) -> None:
    capture = read_capture(data_dir(name))

    assert capture.format == format
    assert len(capture) == frames
    photo = capture.frames[0].photo
    assert photo is not None
    pixels, camera = Decoder().photo(photo)
    assert pixels.shape == (camera.height, camera.width, 3)
    assert camera.model == "pinhole"
    depth_map = capture.frames[0].depth
    if depth_map is not None:
        depth, depth_camera = Decoder().depth(depth_map)
        assert depth.shape == (depth_camera.height, depth_camera.width)
        assert 0.1 < np.median(depth[depth > 0]) < 5
