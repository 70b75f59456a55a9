"""Weights of depth pixels, from the file to the fused surface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smr.captures import Decoder
from smr.config import FusionConfig
from smr.errors import SmrError
from smr.records import Camera, DepthMap, Mesh
from smr.tsdf import DepthImage, extract_mesh, fuse_images

CAMERA = Camera(64, 48, 60.0, 60.0, 32.0, 24.0)
POSE = np.eye(4)
CONFIG = FusionConfig(voxel_size=0.02, depth_max=2.0)


def fused(*walls: tuple[float, float | None]) -> Mesh:
    """The surface of walls straight ahead, each at a depth and with a weight."""
    images = []
    for depth, weight in walls:
        shape = (CAMERA.height, CAMERA.width)
        weights = None if weight is None else np.full(shape, weight, np.float32)
        images.append(DepthImage(np.full(shape, depth, np.float32), CAMERA, POSE, weight=weights))
    return extract_mesh(fuse_images(images, CONFIG, device="cpu"), CONFIG)


def test_full_weight_is_as_none() -> None:
    for with_weight, without in [(fused((1.0, 1.0), (1.01, 1.0)), fused((1.0, None), (1.01, None)))]:
        np.testing.assert_array_equal(with_weight.vertices, without.vertices)
        np.testing.assert_array_equal(with_weight.faces, without.faces)


def test_the_heavier_wall_pulls_more() -> None:
    near, middle, far = (
        float(np.median(fused((1.0, a), (1.01, b)).vertices[:, 2])) for a, b in ((1, 0.25), (None, None), (0.25, 1.0))
    )
    assert near < middle < far
    assert near == pytest.approx(1.002, abs=7e-4)  # (1 + 0.25 × 1.01) / 1.25
    assert far == pytest.approx(1.008, abs=7e-4)


def test_weights_are_read_and_zero_drops_the_pixel(tmp_path: Path) -> None:
    shape = (CAMERA.height, CAMERA.width)
    weight = np.linspace(0, 1, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    weight[0, :3] = (np.nan, -1.0, 2.0)
    np.save(tmp_path / "depth.npy", np.full(shape, 1.5, np.float32))
    np.save(tmp_path / "weight.npy", weight)
    depth_map = DepthMap(tmp_path / "depth.npy", CAMERA, POSE, 1.0, confidence=tmp_path / "weight.npy")
    depth, _ = Decoder().depth(depth_map)
    found = Decoder().weight(depth_map)
    assert found is not None
    np.testing.assert_array_equal(found[0, :3], (0.0, 0.0, 1.0))
    np.testing.assert_array_equal(found[1:], weight[1:])
    np.testing.assert_array_equal(depth > 0, found > 0)


def test_weights_of_another_size_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "weight.npy", np.ones((3, 4), np.float32))
    with pytest.raises(SmrError, match=r"weight\.npy has 4 x 3 pixels"):
        Decoder().weight(DepthMap(tmp_path / "depth.npy", CAMERA, POSE, 1.0, confidence=tmp_path / "weight.npy"))
